//! Decides endless input by rules while it reads.
//!
//! Memory holds the lines that may still have to be reordered, and each different row of values once, with its
//! descriptors. Lines with equal times are decided in their order, as those of a whole log are.

use std::sync::Arc;

use tollgate_rules::Descriptor;

use super::descriptors::{DescriptorRow, Mappings, entry};
use super::read::DecidedLog;
use crate::failure::Failure;
use crate::replay::ReplayArgs;
use crate::replay::gather::{Keys, number_all};
use crate::replay::input;
use crate::replay::mapping::{Pair, name};
use crate::replay::parse::{LineTally, Parser};
use crate::replay::reorder::Reorder;
use crate::replay::source::Sources;

/// Reads the files one after the other, to their ends, and decides each line once its place in the order of time is
/// certain.
pub(super) fn read(
    args: &ReplayArgs,
    mappings: Mappings<'_>,
    parser: &Parser,
    sources: &Arc<Sources>,
    mut decide: impl FnMut(&DescriptorRow<'_>, u64) -> Result<(), Failure>,
) -> Result<DecidedLog, Failure> {
    let mut lines = Reorder::new(args.reorder);
    let mut rows =
        DistinctRows { mappings, keys: Keys::default(), made: Vec::new(), names: Keys::default() };
    let mut number = 0_u64;
    let read = |file: &String| {
        let mut tally = LineTally::default();
        for block in input::open(file, parser, sources)? {
            let (block, of_block) = block?;
            let parsed = of_block.read(block.bytes());
            let numbers = number_all(&mut rows.keys, &parsed)?;
            rows.grow();
            for event in &parsed.events {
                // The number of a line orders lines with equal times.
                number += 1;
                let line = (number, numbers[event.key() as usize]);
                lines
                    .push(event.nanos(), line, |at, (_, row)| rows.decide(at, row, &mut decide))?;
            }
            tally.append(parsed.tally);
            sources.recycle(block);
        }
        input::checked(tally, file)
    };
    let files = args.files.iter().take_while(|_| !sources.is_stopped());
    let tallies: Result<Vec<LineTally>, Failure> = files.map(read).collect();
    sources.finish();
    let tallies = tallies?;
    lines.finish(|at, (_, row)| rows.decide(at, row, &mut decide))?;
    let (span, late_lines) = (lines.span().unwrap_or_default(), Some(lines.late_lines()));
    Ok(DecidedLog { tallies, names: rows.names, span, late_lines })
}

/// The different rows so far.
struct DistinctRows<'m> {
    mappings: Mappings<'m>,
    keys: Keys,
    /// The descriptors of each row.
    made: Vec<Made>,
    /// The names of descriptors and requests.
    names: Keys,
}

/// The descriptors of a row.
struct Made {
    /// The number of its name.
    name: usize,
    /// The numbers of its descriptors.
    numbers: Vec<usize>,
    descriptors: Vec<Vec<Pair>>,
}

impl DistinctRows<'_> {
    /// Makes the descriptors of new rows.
    fn grow(&mut self) {
        for key in self.keys.iter().skip(self.made.len()) {
            let descriptors: Vec<Vec<Pair>> = self.mappings.of_row(key).collect();
            let texts: Vec<String> = descriptors.iter().map(|pairs| name(pairs)).collect();
            let names = &mut self.names;
            let mut number = |text: &str| names.insert_full(text.as_bytes().into()).0;
            let numbers = texts.iter().map(|text| number(text)).collect();
            self.made.push(Made { name: number(&texts.join("; ")), numbers, descriptors });
        }
    }

    /// Decides one line.
    fn decide(
        &self,
        nanos: u64,
        row: u32,
        decide: &mut impl FnMut(&DescriptorRow<'_>, u64) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let made = &self.made[row as usize];
        let entries: Vec<Vec<_>> =
            made.descriptors.iter().map(|pairs| pairs.iter().map(entry).collect()).collect();
        let row = DescriptorRow {
            name: made.name,
            numbers: made.numbers.clone(),
            descriptors: entries.iter().map(|entries| Descriptor::new(entries)).collect(),
        };
        decide(&row, nanos)
    }
}
