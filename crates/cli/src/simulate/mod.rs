//! `tollgate simulate`: applies policies to generated traffic.
//!
//! ```text
//! pattern or file of times -> lane for each policy -> table, CSV, SVG, a live view
//! ```
//!
//! All requests are of one client. The arithmetic is the library's own, at times that start at zero.

mod args;
mod json;
mod lane;
mod live;
mod pattern;
mod picture;
mod table;
mod times;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::thread;
use std::time::Duration;

pub(crate) use args::SimulateArgs;

use crate::failure::Failure;
use crate::output;
use crate::written::WrittenLimits;
use indicatif::ProgressDrawTarget;
use lane::{SimulatedAnswer, SimulatedLane};

/// Generates or reads the traffic, decides it under each policy, and reports.
pub(crate) fn run(args: &SimulateArgs) -> Result<(), Failure> {
    let inputs: Vec<String> = args.times.iter().cloned().collect();
    output::keep_inputs([&args.csv, &args.svg].into_iter().flatten(), &inputs)?;
    let traffic = match &args.times {
        Some(file) => times::read(file)?,
        None => pattern::make(args).map_err(Failure::Traffic)?,
    };
    let queues = args.policies.iter().any(WrittenLimits::has_queue);
    let mut csv = args.csv.as_ref().map(|file| Csv::create(file, queues)).transpose()?;
    let mut lanes = Vec::with_capacity(args.policies.len());
    for written in &args.policies {
        let lane = SimulatedLane::decide(written, &traffic.times, |nanos, answer| match &mut csv {
            Some(csv) => csv.add(&written.to_string(), nanos, answer),
            None => Ok(()),
        });
        lanes.push(lane?);
    }
    csv.map(Csv::finish).transpose()?;
    // A pipe or a file gets only the table.
    if args.live && io::stdout().is_terminal() {
        let target = ProgressDrawTarget::stdout_with_hz(live::RATE);
        let pause = Duration::from_secs(1) / u32::from(live::RATE);
        live::play(&traffic, &lanes, target, || thread::sleep(pause));
        writeln!(io::stdout()).map_err(Failure::Output)?;
    }
    let mut out = io::stdout().lock();
    let table = table::SimulateReport { traffic: &traffic, lanes: &lanes };
    let printed = match args.json {
        true => json::of(&traffic, &lanes)
            .map_err(io::Error::from)
            .and_then(|json| writeln!(out, "{json}")),
        false => write!(out, "{table}"),
    };
    printed.and_then(|()| out.flush()).map_err(Failure::Output)?;
    match &args.svg {
        Some(file) => {
            output::write(file, &picture::draw(&traffic, &lanes).map_err(Failure::Output)?)
        }
        None => Ok(()),
    }
}

/// Writes every decision as a line of a file.
struct Csv<'f> {
    file: &'f str,
    writer: csv::Writer<BufWriter<File>>,
    /// Whether there is a column for delays, because a policy has a queue.
    queues: bool,
}

impl<'f> Csv<'f> {
    fn create(file: &'f str, queues: bool) -> Result<Self, Failure> {
        let opened = File::create(file);
        let opened =
            opened.map_err(|error| Failure::Unwritable { file: file.to_owned(), error })?;
        let mut csv =
            Self { file, writer: csv::Writer::from_writer(BufWriter::new(opened)), queues };
        csv.record(&["policy", "time_s", "admitted", "remaining", "retry_after_s", "delay_s"])?;
        Ok(csv)
    }

    fn add(&mut self, policy: &str, nanos: u64, answer: SimulatedAnswer) -> Result<(), Failure> {
        let wait = match answer.is_admitted {
            true => String::new(),
            false => crate::spans::seconds(answer.wait_ns),
        };
        let time = crate::spans::seconds(nanos);
        let admitted = answer.is_admitted.to_string();
        let delay = match answer.is_admitted {
            true => crate::spans::seconds(answer.delay_ns),
            false => String::new(),
        };
        self.record(&[policy, &time, &admitted, &answer.remaining.to_string(), &wait, &delay])
    }

    fn record(&mut self, fields: &[&str; 6]) -> Result<(), Failure> {
        let written = self.writer.write_record(&fields[..5 + usize::from(self.queues)]);
        written.map_err(|error| self.unwritable(error.into()))
    }

    fn finish(mut self) -> Result<(), Failure> {
        self.writer.flush().map_err(|error| self.unwritable(error))
    }

    fn unwritable(&self, error: io::Error) -> Failure {
        Failure::Unwritable { file: self.file.to_owned(), error }
    }
}
