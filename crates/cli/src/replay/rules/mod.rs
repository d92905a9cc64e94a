//! `replay --rules`: what the rules of a service would have done to the traffic of a log.
//!
//! ```text
//! lines -> descriptors (each once) -> engine (the rules, at the log's times) -> count -> report
//!                                  -> two engines                            -> diff
//! ```
//!
//! Rules are compiled to the very tables that `serve` asks, and asked one request after the other.

mod args;
mod count;
mod descriptors;
mod diff;
mod engine;
mod lines;
mod mapping;

use std::path::Path;
use std::process::ExitCode;

pub(crate) use args::RuleArgs;
use tollgate_rules::Answer;

use super::decide::Outcome;
use super::parse::{Parser, Tally};
use super::report::{Report, RulesAbout};
use super::source::Sources;
use crate::failure::Failure;
use count::{Count, Said};
use descriptors::{Descriptors, Mappings};
use diff::Diff;
use engine::Engine;
use lines::Lines;

/// A key and a value of a descriptor.
type Pair = (String, String);

/// What the report calls the answer to the whole request.
const ALL: &str = "all rules";

/// A log that was read, and what its lines ask.
struct Asked {
    lines: Lines,
    tallies: Vec<Tally>,
    descriptors: Descriptors,
}

fn read(
    args: &RuleArgs,
    files: &[String],
    time_field: Option<&str>,
    sources: &Sources,
) -> Result<Asked, Failure> {
    let mappings = Mappings::new(&args.descriptors);
    let parser = Parser { key: mappings.wanted(), time_field: time_field.map(str::to_owned) };
    let (lines, tallies) = Lines::read(files, &parser, sources)?;
    let descriptors = Descriptors::new(&mappings, &lines.rows);
    Ok(Asked { lines, tallies, descriptors })
}

/// Decides a log by the rules of one directory.
pub(super) fn replay(
    args: &super::Args,
    path: &Path,
    sources: &Sources,
) -> Result<(Vec<Tally>, Report), Failure> {
    // Bad rules are found before a long log is read.
    let engine = Engine::load(path, &args.rules.settings())?;
    let domain = engine::domain(args.rules.domain.as_deref(), &[&engine])?;
    let asked = read(&args.rules, &args.files, args.time.as_deref(), sources)?;
    let entries = asked.descriptors.entries();
    let rows = asked.descriptors.requests(&entries);
    let mut all = Count::default();
    let mut of_rules: Vec<Count> = engine.rules.rules().iter().map(|_| Count::default()).collect();
    let (mut unasked, mut unmatched) = (0, 0);
    for event in &asked.lines.events {
        let row = &rows[event.key() as usize];
        if row.descriptors.is_empty() {
            unasked += 1;
            continue;
        }
        let answer = engine.decide(&domain, row, event.nanos())?;
        all.add(row.name, event.nanos(), said(&answer));
        let mut is_matched = false;
        for (place, (status, name)) in answer.statuses().iter().zip(&row.numbers).enumerate() {
            let Some(rule) = answer.rule_index(place) else { continue };
            is_matched = true;
            let said =
                if status.is_over { Said::Refused(status.retry_after) } else { Said::Admitted };
            of_rules[rule].add(*name, event.nanos(), said);
        }
        unmatched += u64::from(!is_matched);
    }
    let names = &asked.descriptors.names;
    let rules = engine.rules.rules().iter().zip(of_rules);
    let rules = rules.filter(|(rule, _)| rule.domain() == domain);
    let outcomes: Vec<(String, Outcome)> = std::iter::once((ALL.to_owned(), all))
        .chain(rules.map(|(rule, count)| (rule.to_string(), count)))
        .map(|(name, count)| (name, count.finish(names)))
        .collect();
    let about = RulesAbout { domain, unasked, unmatched, crowded_out: engine.crowded_out() };
    let report = Report::of_rules(&asked.tallies, asked.lines.span(), about, &outcomes, names);
    Ok((asked.tallies, report))
}

/// What became of the whole request.
fn said(answer: &Answer) -> Said {
    if answer.is_allowed() { Said::Admitted } else { Said::Refused(answer.retry_after()) }
}

/// Decides a log by two sets of rules, and tells the differences.
pub(super) fn diff(
    args: &super::Args,
    paths: [&Path; 2],
    sources: &Sources,
) -> Result<(Vec<Tally>, Diff), Failure> {
    let settings = args.rules.settings();
    let engines = [Engine::load(paths[0], &settings)?, Engine::load(paths[1], &settings)?];
    let domain = engine::domain(args.rules.domain.as_deref(), &[&engines[0], &engines[1]])?;
    let asked = read(&args.rules, &args.files, args.time.as_deref(), sources)?;
    let entries = asked.descriptors.entries();
    let rows = asked.descriptors.requests(&entries);
    let mut diff = Diff::new(&domain, &engines, &asked.tallies, asked.lines.span());
    for event in &asked.lines.events {
        let row = &rows[event.key() as usize];
        if row.descriptors.is_empty() {
            continue;
        }
        let decide = |engine: &Engine| engine.decide(&domain, row, event.nanos());
        let answers = [decide(&engines[0])?, decide(&engines[1])?];
        diff.add(row, event.nanos(), &answers);
    }
    diff.finish(&asked.descriptors.names);
    Ok((asked.tallies, diff))
}

/// 1 if any request is answered otherwise, as diff(1) has it.
pub(super) fn exit_code(diff: &Diff) -> ExitCode {
    ExitCode::from(u8::from(diff.is_different()))
}
