//! Counts of good and bad lines of a block, and their sums for a file.

use super::Reason;
use super::common::CommonClient;
use crate::replay::text::shortened;

/// The number of bad lines that a report lists; the others are only counted.
pub(crate) const BAD_LINES_NAMED: usize = 5;

/// The maximum length of a chain in a note.
const CHAIN_CHARS: usize = 60;

/// The counts of the lines of a block or a file.
#[derive(Debug, Default)]
pub(crate) struct LineTally {
    /// Lines with a time and a key.
    pub(crate) good: u64,
    /// Lines that are neither good nor blank nor left out.
    pub(crate) bad: u64,
    /// Lines that a condition leaves out; none if there is no condition.
    pub(crate) left_out: Option<u64>,
    /// The name of the lines' format; none as long as all lines are blank.
    pub(crate) format: Option<&'static str>,
    /// Whether the times of the lines are local, without a zone.
    pub(crate) is_local: bool,
    /// The first key that is an unresolved chain of addresses.
    pub(crate) chain: Option<Box<[u8]>>,
    /// The first chain of addresses of which only the last address was used.
    pub(crate) last_of: Option<Box<[u8]>>,
    /// The client of most lines.
    pub(crate) common: CommonClient,
    /// The first bad lines, with their line numbers.
    pub(crate) named: Vec<(u64, Reason)>,
    /// The number of all lines, from which line numbers are computed. Only this number includes blank lines.
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

    pub(super) fn add_left_out(&mut self) {
        self.lines += 1;
        *self.left_out.get_or_insert(0) += 1;
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
        if let Some(left_out) = next.left_out {
            *self.left_out.get_or_insert(0) += left_out;
        }
        self.format = self.format.or(next.format);
        self.is_local |= next.is_local;
        self.chain = self.chain.take().or(next.chain);
        self.last_of = self.last_of.take().or(next.last_of);
        self.common.append(next.common);
    }

    /// Returns the notes for the user about the file.
    pub(crate) fn notes(&self, file: &str) -> Vec<String> {
        let shown = |chain: &[u8]| shortened(chain, CHAIN_CHARS);
        let local = || {
            format!(
                "the times of {file} are local and do not tell their zone; they are read as UTC"
            )
        };
        let chain = |chain: &[u8]| {
            format!(
                "keys of {file} are chains of addresses, such as \"{}\", and each different chain is a key of its own; \
                 --trusted-proxies finds the client in an X-Forwarded-For",
                shown(chain)
            )
        };
        let last_of = |chain: &[u8]| {
            format!(
                "X-Forwarded-For has chains of addresses in {file}, such as \"{}\", of which the last is taken for the \
                 client; if that is a proxy of yours, name it with --trusted-proxies",
                shown(chain)
            )
        };
        let notes = [
            self.is_local.then(local),
            self.chain.as_deref().map(chain),
            self.last_of.as_deref().map(last_of),
            self.common.note(file, self.good),
        ];
        notes.into_iter().flatten().collect()
    }

    /// Returns the number of lines that are neither blank nor left out.
    pub(crate) fn counted(&self) -> u64 {
        self.good + self.bad
    }

    fn name(&mut self, line: u64, reason: Reason) {
        if self.named.len() < BAD_LINES_NAMED {
            self.named.push((line, reason));
        }
    }
}
