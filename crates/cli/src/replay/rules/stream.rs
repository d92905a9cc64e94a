//! Endless input by rules: decides while it reads.
//!
//! What remains in memory is the lines that may still have to be put in order, and each different row of
//! values once, with the descriptors that it makes. Lines of one time are decided in their order, as those
//! of a whole log are.

use std::sync::Arc;

use tollgate_rules::Descriptor;

use super::descriptors::{Mappings, Row, entry};
use super::mapping::name;
use super::{Pair, Read};
use crate::failure::Failure;
use crate::replay::Args;
use crate::replay::gather::{Keys, checked, number_all};
use crate::replay::parse::{Parser, Tally};
use crate::replay::reorder::Reorder;
use crate::replay::source::Sources;

/// Reads the files one after the other, to their ends, and decides each line when its turn has come.
pub(super) fn read(
    args: &Args,
    mappings: Mappings<'_>,
    parser: &Parser,
    sources: &Arc<Sources>,
    mut decide: impl FnMut(&Row<'_>, u64) -> Result<(), Failure>,
) -> Result<Read, Failure> {
    let mut lines = Reorder::new(args.reorder);
    let mut rows =
        Rows { mappings, keys: Keys::default(), made: Vec::new(), names: Keys::default() };
    let mut number = 0_u64;
    let read = |file: &String| {
        let unreadable = |error| Failure::Unreadable { file: file.clone(), error };
        let mut tally = Tally::default();
        for block in sources.open(file).map_err(unreadable)? {
            let block = block.map_err(unreadable)?;
            let parsed = parser.block(block.bytes());
            let numbers = number_all(&mut rows.keys, &parsed)?;
            rows.grow();
            for event in &parsed.events {
                // The number of a line keeps the order of those of one time.
                number += 1;
                let line = (number, numbers[event.key() as usize]);
                lines.push(event.nanos(), line, |at, line| rows.decide(at, line, &mut decide))?;
            }
            tally.append(parsed.tally);
            sources.recycle(block);
        }
        checked(tally, file)
    };
    let files = args.files.iter().take_while(|_| !sources.is_stopped());
    let tallies: Result<Vec<Tally>, Failure> = files.map(read).collect();
    sources.finish();
    let tallies = tallies?;
    lines.finish(|at, line| rows.decide(at, line, &mut decide))?;
    let (span, late_lines) = (lines.span().unwrap_or_default(), Some(lines.late_lines()));
    Ok(Read { tallies, names: rows.names, span, late_lines })
}

/// The different rows so far.
struct Rows<'m> {
    mappings: Mappings<'m>,
    keys: Keys,
    /// What each makes.
    made: Vec<Made>,
    /// What descriptors and requests are called.
    names: Keys,
}

/// What a row makes.
struct Made {
    /// The number of its name.
    name: usize,
    /// Those of its descriptors.
    numbers: Vec<usize>,
    descriptors: Vec<Vec<Pair>>,
}

impl Rows<'_> {
    /// Makes the descriptors of rows that have come.
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
        (_, row): (u64, u32),
        decide: &mut impl FnMut(&Row<'_>, u64) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let made = &self.made[row as usize];
        let entries: Vec<Vec<_>> =
            made.descriptors.iter().map(|pairs| pairs.iter().map(entry).collect()).collect();
        let row = Row {
            name: made.name,
            numbers: made.numbers.clone(),
            descriptors: entries.iter().map(|entries| Descriptor::new(entries)).collect(),
        };
        decide(&row, nanos)
    }
}
