//! Decides endless input in bounded memory while it reads.
//!
//! Memory holds the lines that may still have to be reordered ([`Reorder`]), and one account per key. A line that comes
//! too late to be reordered is decided at the time up to which lines have been decided. So it is admitted only if a
//! limiter would admit it at that time.

use std::convert::Infallible;

use tollgate::Policy;

use super::decide::{PolicyOutcome, PolicyRun};
use super::gather::{Keys, number_all};
use super::input;
use super::parse::{LineTally, Parser};
use super::reorder::Reorder;
use super::seconds::Peak;
use super::source::Sources;
use crate::failure::Failure;

/// The state of a stream.
pub(crate) struct ReplayStream {
    keys: Keys,
    /// The keys of lines, by number.
    lines: Reorder<u32>,
    runs: Vec<StreamRun>,
}

/// One policy, applied to the stream so far.
struct StreamRun {
    run: PolicyRun,
    peak: Peak,
}

/// The results of a stream.
pub(crate) struct Finished {
    /// The texts of the keys.
    pub(crate) keys: Keys,
    /// The times of the oldest and of the newest line.
    pub(crate) span: Option<(u64, u64)>,
    /// Lines that came too late to be reordered.
    pub(crate) late_lines: u64,
    /// The results, in the order of the policies.
    pub(crate) outcomes: Vec<PolicyOutcome>,
}

impl ReplayStream {
    /// Makes a stream whose lines are out of order by at most `reorder_ns`.
    pub(crate) fn new(policies: &[Policy], reorder_ns: u64) -> Self {
        Self {
            keys: Keys::default(),
            lines: Reorder::new(reorder_ns),
            runs: policies
                .iter()
                .map(|&policy| StreamRun { run: PolicyRun::new(policy, 0), peak: Peak::default() })
                .collect(),
        }
    }

    /// Reads the files one after the other, to their ends.
    pub(crate) fn read(
        &mut self,
        files: &[String],
        parser: &Parser,
        sources: &Sources,
    ) -> Result<Vec<LineTally>, Failure> {
        let read = |file: &String| {
            let mut tally = LineTally::default();
            for block in input::open(file, parser, sources)? {
                let (block, lines) = block?;
                let parsed = lines.read(block.bytes());
                let numbers = number_all(&mut self.keys, &parsed)?;
                self.runs.iter_mut().for_each(|of| of.run.grow(self.keys.len()));
                for event in &parsed.events {
                    let key = numbers[event.key() as usize];
                    let Ok(()) = self.lines.push(event.nanos(), key, deciding(&mut self.runs));
                }
                tally.append(parsed.tally);
                sources.recycle(block);
            }
            input::checked(tally, file)
        };
        let tallies = files.iter().take_while(|_| !sources.is_stopped()).map(read).collect();
        sources.finish();
        tallies
    }

    /// Decides the lines that still wait, and sums up.
    pub(crate) fn finish(mut self) -> Finished {
        let Ok(()) = self.lines.finish(deciding(&mut self.runs));
        let sum_up = |StreamRun { run, peak }| {
            let outcome = run.finish(|account| account, &self.keys);
            PolicyOutcome { peak_admitted_per_second: peak.most(), ..outcome }
        };
        let outcomes = self.runs.into_iter().map(sum_up).collect();
        let (span, late_lines) = (self.lines.span(), self.lines.late_lines());
        Finished { keys: self.keys, span, late_lines, outcomes }
    }
}

/// Decides a request of a key by all policies.
fn deciding(runs: &mut [StreamRun]) -> impl FnMut(u64, u32) -> Result<(), Infallible> {
    move |nanos, key| {
        for StreamRun { run, peak } in &mut *runs {
            if run.decide(key as usize, nanos) {
                peak.add(nanos);
            }
        }
        Ok(())
    }
}
