//! Counts of good and bad lines: of a block, and summed up of a file.

use super::Reason;

/// How many bad lines a report lists; the others are only counted.
pub(crate) const BAD_LINES_NAMED: usize = 5;

/// The counts of the lines of a block or a file.
#[derive(Debug, Default)]
pub(crate) struct LineTally {
    /// Lines with a time and a key.
    pub(crate) good: u64,
    /// Lines that are neither good nor blank.
    pub(crate) bad: u64,
    /// The first bad lines, with their line numbers.
    pub(crate) named: Vec<(u64, Reason)>,
    /// All lines. Blank ones count only for line numbers.
    lines: u64,
}

impl LineTally {
    pub(super) fn add_blank(&mut self) {
        self.lines += 1;
    }

    pub(super) fn add_good(&mut self) {
        self.lines += 1;
        self.good += 1;
    }

    pub(super) fn add_bad(&mut self, reason: Reason) {
        self.lines += 1;
        self.bad += 1;
        self.name(self.lines, reason);
    }

    /// Adds the counts of the next block.
    pub(crate) fn append(&mut self, next: Self) {
        for (line, reason) in next.named {
            self.name(self.lines + line, reason);
        }
        self.lines += next.lines;
        self.good += next.good;
        self.bad += next.bad;
    }

    /// Lines that are not blank.
    pub(crate) fn counted(&self) -> u64 {
        self.good + self.bad
    }

    fn name(&mut self, line: u64, reason: Reason) {
        if self.named.len() < BAD_LINES_NAMED {
            self.named.push((line, reason));
        }
    }
}
