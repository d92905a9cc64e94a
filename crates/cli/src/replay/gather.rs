//! Reads whole logs in parallel and stores 12 bytes of each line.
//!
//! Files are read in parallel, and so are the blocks of each file: one thread at a time reads a file, while the
//! others parse. Requests are partitioned by key, and keys are independent of each other, so that partitions can
//! later be decided in parallel.

use std::sync::{Mutex, PoisonError};

use indexmap::IndexSet;
use rayon::prelude::*;

use super::event::ReplayEvent;
use super::input;
use super::parse::{BlockParser, LineTally, Parsed, Parser};
use super::source::{Block, Sources};
use crate::failure::Failure;

/// The number of partitions for each thread. It is more than one, because keys with many requests make some partitions
/// larger than others.
const PARTITIONS_PER_THREAD: usize = 4;

/// Every distinct key, numbered.
pub(crate) type Keys = IndexSet<Box<[u8]>, ahash::RandomState>;

/// The requests of all files.
#[derive(Debug)]
pub(crate) struct RequestLog {
    /// The texts of the keys, by number.
    pub(crate) keys: Keys,
    /// The requests in the order of time. The key with number k is in partition k modulo the number of partitions.
    pub(crate) partitions: Vec<Vec<ReplayEvent>>,
}

impl RequestLog {
    /// Reads the files to their ends.
    pub(crate) fn read(
        files: &[String],
        parser: &Parser,
        sources: &Sources,
    ) -> Result<(Self, Vec<LineTally>), Failure> {
        let partitions = PARTITIONS_PER_THREAD * rayon::current_num_threads();
        let log =
            Mutex::new(Self { keys: Keys::default(), partitions: vec![Vec::new(); partitions] });
        let read = |file: &String| read_file(file, parser, sources, &log);
        let tallies: Vec<_> = files.par_iter().map(read).collect();
        sources.finish();
        // If several files fail, reports the failure of the file that was named first.
        let tallies = tallies.into_iter().collect::<Result<_, _>>()?;
        let mut log = log.into_inner().unwrap_or_else(PoisonError::into_inner);
        // An unstable sort needs no second copy. It is correct here, because equal events cannot be told apart, and
        // events of different keys at one time do not influence each other.
        log.partitions.par_iter_mut().for_each(|events| events.sort_unstable());
        Ok((log, tallies))
    }

    /// Returns the times of the first and of the last request.
    pub(crate) fn span(&self) -> Option<(u64, u64)> {
        let ends =
            |events: &Vec<ReplayEvent>| Some((events.first()?.nanos(), events.last()?.nanos()));
        self.partitions.iter().filter_map(ends).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Returns the number of keys in a partition.
    pub(crate) fn keys_in(&self, partition: usize) -> usize {
        let partitions = self.partitions.len();
        (self.keys.len() + partitions - 1 - partition) / partitions
    }

    /// Returns the index of an event's key in its partition: k / partitions for key k.
    pub(crate) fn account(&self, event: ReplayEvent) -> usize {
        event.key() as usize / self.partitions.len()
    }

    /// Adds a block. Threads wait for each other only here. The call copies a few bytes per line, and looks up each
    /// distinct key of the block once.
    fn add(&mut self, block: &Parsed<'_>) -> Result<(), Failure> {
        let numbers = number_all(&mut self.keys, block)?;
        let partitions = self.partitions.len();
        for event in &block.events {
            let key = numbers[event.key() as usize];
            self.partitions[key as usize % partitions].push(event.with_key(key));
        }
        Ok(())
    }
}

/// Maps the keys of a block to their numbers among all keys.
pub(crate) fn number_all(keys: &mut Keys, block: &Parsed<'_>) -> Result<Vec<u32>, Failure> {
    let number = |text: &[u8]| {
        let number = match keys.get_index_of(text) {
            Some(number) => number,
            None => keys.insert_full(text.into()).0,
        };
        u32::try_from(number).map_err(|_| Failure::TooManyKeys)
    };
    block.keys.iter().map(|text| &**text).map(number).collect()
}

fn read_file(
    file: &str,
    parser: &Parser,
    sources: &Sources,
    log: &Mutex<RequestLog>,
) -> Result<LineTally, Failure> {
    let read_block = |block: Result<(Block, BlockParser<'_>), Failure>| {
        let (block, lines) = block?;
        let parsed = lines.read(block.bytes());
        log.lock().unwrap_or_else(PoisonError::into_inner).add(&parsed)?;
        let tally = parsed.tally;
        let index = block.index;
        sources.recycle(block);
        Ok((index, tally))
    };
    let blocks = input::open(file, parser, sources)?;
    let mut tallies: Vec<_> =
        blocks.par_bridge().map(read_block).collect::<Result<_, Failure>>()?;
    // Blocks end in any order, but line numbers need the order of the file.
    tallies.sort_unstable_by_key(|(index, _)| *index);
    let mut whole = LineTally::default();
    tallies.into_iter().for_each(|(_, tally)| whole.append(tally));
    input::checked(whole, file)
}
