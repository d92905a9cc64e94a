//! Reads whole logs and keeps the order of their lines.
//!
//! Clients may share the limits of rules, so the order of requests with different keys matters. They cannot be decided
//! separately by key, as the requests of a policy are. Requests with equal times are decided in the order of their
//! lines, because the times of many logs are whole seconds. Blocks are still parsed in parallel, and merged in their
//! order.

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use crate::failure::Failure;
use crate::replay::event::ReplayEvent;
use crate::replay::gather::{Keys, number_all};
use crate::replay::input;
use crate::replay::parse::{BlockParser, LineTally, Parser};
use crate::replay::source::{Block, Sources};

/// The requests of all files.
#[derive(Debug)]
pub(super) struct Lines {
    /// The distinct rows of values in lines, numbered in no particular order.
    pub(super) rows: Keys,
    /// The requests in the order of time, and for equal times in that of the lines.
    pub(super) events: Vec<ReplayEvent>,
}

impl Lines {
    /// Reads the files to their ends, one after the other.
    pub(super) fn read(
        files: &[String],
        parser: &Parser,
        sources: &Sources,
    ) -> Result<(Self, Vec<LineTally>), Failure> {
        let rows = Mutex::new(Keys::default());
        let mut events = Vec::new();
        let mut read = |file: &String| -> Result<LineTally, Failure> {
            let (of_file, tally) = read_file(file, parser, sources, &rows)?;
            events.extend(of_file);
            Ok(tally)
        };
        let tallies: Result<Vec<_>, _> = files.iter().map(&mut read).collect();
        sources.finish();
        let tallies = tallies?;
        // A stable sort, so that lines with equal times keep their order.
        events.par_sort_by_key(|event| event.nanos());
        let rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((Self { rows, events }, tallies))
    }

    /// Returns the times of the first and of the last request.
    pub(super) fn span(&self) -> (u64, u64) {
        let nanos = |event: Option<&ReplayEvent>| event.map_or(0, |event| event.nanos());
        (nanos(self.events.first()), nanos(self.events.last()))
    }
}

fn read_file(
    file: &str,
    parser: &Parser,
    sources: &Sources,
    rows: &Mutex<Keys>,
) -> Result<(Vec<ReplayEvent>, LineTally), Failure> {
    let read_block = |block: Result<(Block, BlockParser<'_>), Failure>| {
        let (block, lines) = block?;
        let parsed = lines.read(block.bytes());
        let numbers =
            number_all(&mut rows.lock().unwrap_or_else(PoisonError::into_inner), &parsed)?;
        let number = |event: &ReplayEvent| event.with_key(numbers[event.key() as usize]);
        let events: Vec<_> = parsed.events.iter().map(number).collect();
        let (index, tally) = (block.index, parsed.tally);
        sources.recycle(block);
        Ok((index, events, tally))
    };
    let blocks = input::open(file, parser, sources)?;
    let mut blocks: Vec<_> = blocks.par_bridge().map(read_block).collect::<Result<_, Failure>>()?;
    blocks.sort_unstable_by_key(|(index, ..)| *index);
    let mut whole = LineTally::default();
    let mut events = Vec::with_capacity(blocks.iter().map(|(_, events, _)| events.len()).sum());
    for (_, of_block, tally) in blocks {
        events.extend(of_block);
        whole.append(tally);
    }
    Ok((events, input::checked(whole, file)?))
}
