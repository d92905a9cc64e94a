//! [`DecidedLog`]: a log of which all lines are read and decided.

use crate::replay::gather::Keys;
use crate::replay::parse::LineTally;
use crate::replay::summary::LogSummary;

/// The result of reading and deciding.
pub(super) struct DecidedLog {
    pub(super) tallies: Vec<LineTally>,
    /// The names of descriptors and requests, by number.
    pub(super) names: Keys,
    pub(super) span: (u64, u64),
    /// For a stream: lines that came too late to be reordered.
    pub(super) late_lines: Option<u64>,
}

impl DecidedLog {
    pub(super) fn summary(&self) -> LogSummary {
        LogSummary::new(&self.tallies, self.span, self.late_lines)
    }
}
