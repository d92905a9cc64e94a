//! `replay --rules`: applies the rules of a service to the traffic of a log.
//!
//! ```text
//! lines -> descriptors (each once) -> engine (the rules, at the log's times) -> counting -> report
//! stream                           -> two engines                            -> diff
//! ```
//!
//! Rules are compiled to the same tables that `serve` uses, and asked one request after the other.

mod count;
mod counting;
mod descriptors;
mod diff;
mod engine;
mod lines;
mod read;
mod stream;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use super::parse::LineTally;
use super::report::ReplayReport;
use super::source::{Sources, end_by_interrupt};
use crate::failure::Failure;
use counting::Counting;
use descriptors::{DescriptorRow, Descriptors, Mappings};
use diff::Diff;
use engine::Engine;
use lines::Lines;
use read::DecidedLog;

/// Reads the lines and decides them. A stream is decided while it is read, a log after all of it is
/// read.
fn read(
    args: &super::ReplayArgs,
    sources: &Arc<Sources>,
    mut decide: impl FnMut(&DescriptorRow<'_>, u64) -> Result<(), Failure>,
) -> Result<DecidedLog, Failure> {
    let mappings = Mappings::new(&args.rules.descriptors);
    let parser = args.parser(mappings.wanted(&args.clients(128)));
    if args.stream {
        end_by_interrupt(sources);
        return stream::read(args, mappings, &parser, sources, decide);
    }
    let (lines, tallies) = Lines::read(&args.files, &parser, sources)?;
    let descriptors = Descriptors::new(&mappings, &lines.rows);
    let entries = descriptors.entries();
    let rows = descriptors.requests(&entries);
    for event in &lines.events {
        decide(&rows[event.key() as usize], event.nanos())?;
    }
    Ok(DecidedLog { tallies, names: descriptors.names, span: lines.span(), late_lines: None })
}

/// Decides a log by the rules of one directory.
pub(super) fn replay(
    args: &super::ReplayArgs,
    path: &Path,
    sources: &Arc<Sources>,
) -> Result<(Vec<LineTally>, ReplayReport), Failure> {
    // Bad rules are reported before a long log is read.
    let engine = Engine::load(path, &args.rules.settings())?;
    let domain = engine::domain(args.rules.domain.as_deref(), &[&engine])?;
    let mut counting = Counting::new(&engine, &domain);
    let read = read(args, sources, |row, nanos| counting.add(row, nanos))?;
    let (about, outcomes) = counting.finish(&read.names);
    let report = ReplayReport::of_rules(read.summary(), about, &outcomes, &read.names);
    Ok((read.tallies, report))
}

/// Decides a log by two sets of rules, and reports the differences.
pub(super) fn diff(
    args: &super::ReplayArgs,
    old: &Path,
    new: &Path,
    sources: &Arc<Sources>,
) -> Result<(Vec<LineTally>, Diff), Failure> {
    let settings = args.rules.settings();
    let engines = [Engine::load(old, &settings)?, Engine::load(new, &settings)?];
    let domain = engine::domain(args.rules.domain.as_deref(), &[&engines[0], &engines[1]])?;
    let mut diff = Diff::new(&domain, &engines);
    let read = read(args, sources, |row, nanos| {
        if !row.descriptors.is_empty() {
            let decide = |engine: &Engine| engine.decide(&domain, row, nanos);
            diff.add(row, nanos, &[decide(&engines[0])?, decide(&engines[1])?]);
        }
        Ok(())
    })?;
    diff.finish(read.summary(), &read.names);
    Ok((read.tallies, diff))
}

/// Returns the exit code: 1 if any request has a different answer, as in diff(1).
pub(super) fn exit_code(diff: &Diff) -> ExitCode {
    ExitCode::from(u8::from(diff.is_different()))
}
