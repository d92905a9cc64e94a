//! `tollgate replay`: applies a limit to the traffic of a log.
//!
//! ```text
//! source -> parse -> gather -> decide -> report        whole logs, in parallel
//! source -> parse ->      stream      -> report        endless input, in order
//! source -> parse ->      rules       -> report        either, by the rules of a service
//! ```

mod args;
mod chain;
mod clients;
mod condition;
mod decide;
mod event;
mod gather;
mod input;
mod key;
mod mapping;
mod parse;
mod reason;
mod reorder;
mod report;
mod rule_args;
mod rules;
mod seconds;
mod source;
mod stream;
mod suggest;
mod summary;
mod text;
mod timeline;
mod unpack;
mod waits;
mod wanted;
mod wrapped;

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

pub(crate) use args::ReplayArgs;
pub(crate) use parse::{nanos_of_text, wait};
pub(crate) use text::shortened;
use tollgate::{KeyedLimiter, ManualClock};

use crate::failure::Failure;
use crate::output;
use crate::written::WrittenPolicy;
use decide::NamedOutcome;
use gather::RequestLog;
use parse::{BAD_LINES_NAMED, LineTally, Parser};
use report::ReplayReport;
use source::{Sources, end_by_interrupt};
use stream::ReplayStream;
use suggest::suggest;
use summary::LogSummary;

/// Runs the command. Exit code 1 means that two sets of rules decide differently.
pub(crate) fn run(args: &ReplayArgs) -> Result<ExitCode, Failure> {
    output::keep_inputs([&args.html, &args.svg].into_iter().flatten(), &args.inputs())?;
    let parser = args.parser(args.key());
    let sources = Arc::new(Sources::new(&args.files)?);
    let (tallies, report) = match (&args.rules.rules, &args.rules.diff) {
        (Some(old), Some(new)) => return compare(args, old, new, &sources),
        (Some(rules), None) => rules::replay(args, rules, &sources)?,
        (None, _) if args.stream => replay_stream(args, &parser, &sources)?,
        (None, _) => replay_log(args, &parser, &sources)?,
    };
    name_bad_lines(&args.files, &tallies);
    name_notes(&args.files, &tallies);
    name_policies_without_table(&args.policies);
    name_constant_descriptors(&args.rules.descriptors);
    // The reader of the report may close the pipe before the end of the report. The files are written all the same.
    let printed = print(&report, args.json.then(|| report.to_json()));
    if let Some(file) = &args.html {
        output::write(file, &report.to_html().map_err(Failure::Output)?)?;
    }
    if let Some(file) = &args.svg {
        output::write(file, &report.to_svg().map_err(Failure::Output)?)?;
    }
    printed.map(|()| ExitCode::SUCCESS).map_err(Failure::Output)
}

fn compare(
    args: &ReplayArgs,
    old: &Path,
    new: &Path,
    sources: &Arc<Sources>,
) -> Result<ExitCode, Failure> {
    let (tallies, diff) = rules::diff(args, old, new, sources)?;
    name_bad_lines(&args.files, &tallies);
    name_notes(&args.files, &tallies);
    name_constant_descriptors(&args.rules.descriptors);
    print(&diff, args.json.then(|| diff.to_json())).map_err(Failure::Output)?;
    Ok(rules::exit_code(&diff))
}

fn replay_log(
    args: &ReplayArgs,
    parser: &Parser,
    sources: &Sources,
) -> Result<(Vec<LineTally>, ReplayReport), Failure> {
    let (log, tallies) = RequestLog::read(&args.files, parser, sources)?;
    // Policies are decided one after the other: each uses every core, and frees its accounts before the next one
    // begins.
    let decide = |written: &WrittenPolicy| NamedOutcome {
        name: written.to_string(),
        outcome: decide::decide(written.policy, &log),
    };
    let outcomes: Vec<_> = args.policies.iter().map(decide).collect();
    // There is a span, because reading fails if a file has no good line.
    let span = log.span().unwrap_or_default();
    let summary = LogSummary::new(&tallies, span, None);
    let report = ReplayReport::new(summary, &outcomes, &log.keys);
    let suggestion = args.suggest.map(|share| suggest(share, &log));
    Ok((tallies, report.suggesting(suggestion)))
}

fn replay_stream(
    args: &ReplayArgs,
    parser: &Parser,
    sources: &Arc<Sources>,
) -> Result<(Vec<LineTally>, ReplayReport), Failure> {
    end_by_interrupt(sources);
    let policies: Vec<_> = args.policies.iter().map(|written| written.policy).collect();
    let mut stream = ReplayStream::new(&policies, args.reorder);
    let tallies = stream.read(&args.files, parser, sources)?;
    let finished = stream.finish();
    let names = args.policies.iter().map(WrittenPolicy::to_string);
    let outcomes = names.zip(finished.outcomes);
    let outcomes: Vec<_> = outcomes.map(|(name, outcome)| NamedOutcome { name, outcome }).collect();
    let span = finished.span.unwrap_or_default();
    let summary = LogSummary::new(&tallies, span, Some(finished.late_lines));
    let report = ReplayReport::new(summary, &outcomes, &finished.keys);
    Ok((tallies, report))
}

/// Prints a note for each policy that the table of a server would refuse. A replay uses a whole word per key, whereas a
/// [`KeyedLimiter`] uses part of the word for the key.
fn name_policies_without_table(policies: &[WrittenPolicy]) {
    for written in policies {
        // The clock is never read, and a real one would take milliseconds to calibrate.
        if let Err(error) =
            KeyedLimiter::<str>::builder(written.policy).clock(ManualClock::new()).build(1)
        {
            // If standard error is closed, the text is lost.
            let _ = writeln!(io::stderr(), "note: a keyed limiter cannot hold {written}: {error}");
        }
    }
}

/// Prints a note for each constant descriptor: all clients share its limit, which is seldom intended.
fn name_constant_descriptors(mappings: &[mapping::Mapping]) {
    for (_, n) in mappings.iter().zip(1..).filter(|(mapping, _)| mapping.is_constant()) {
        // If standard error is closed, the text is lost.
        let _ = writeln!(
            io::stderr(),
            "note: --descriptor number {n} has no field in braces, as in {{ip}}: it is the same for all lines, so \
             that all clients share its limit"
        );
    }
}

/// Prints the notes of each file, about lines that may have been misread.
fn name_notes(files: &[String], tallies: &[LineTally]) {
    for (file, tally) in files.iter().zip(tallies) {
        for note in tally.notes(file) {
            // If standard error is closed, the text is lost.
            let _ = writeln!(io::stderr(), "note: {note}");
        }
    }
}

/// Prints bad lines on standard error, so that the report can be piped.
fn name_bad_lines(files: &[String], tallies: &[LineTally]) {
    let all: u64 = tallies.iter().map(|tally| tally.bad).sum();
    let named = files.iter().zip(tallies).flat_map(|(file, tally)| {
        tally.named.iter().map(move |(line, reason)| format!("{file}:{line}: {reason}"))
    });
    let mut lines: Vec<_> = named.take(BAD_LINES_NAMED).collect();
    let others = all - lines.len() as u64;
    match others {
        0 => {}
        1 => lines.push("and 1 more bad line".to_owned()),
        _ => lines.push(format!("and {others} more bad lines")),
    }
    for line in lines {
        // If standard error is closed, the text is lost.
        let _ = writeln!(io::stderr(), "{line}");
    }
}

/// Prints the JSON if it is given, else the report as text.
fn print(report: &impl Display, json: Option<serde_json::Result<String>>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match json {
        Some(json) => writeln!(out, "{}", json?)?,
        None => write!(out, "{report}")?,
    }
    out.flush()
}
