//! [`LogSummary`]: the summary of the log, with which every report begins.

use std::fmt;

use serde::Serialize;

use super::parse::{LineTally, instant};
use crate::tables::grouped;

/// The lines of all files. The fields are those of `--json`, in their order.
#[derive(Debug, Default, Serialize)]
pub(crate) struct LogSummary {
    /// Lines that are neither blank nor left out.
    lines: u64,
    bad_lines: u64,
    /// Set only with `--where`.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out_lines: Option<u64>,
    /// Set only for a stream: lines that came too late to be reordered.
    #[serde(skip_serializing_if = "Option::is_none")]
    late_lines: Option<u64>,
    /// The time of the oldest request.
    pub(crate) first: String,
    /// The time of the newest request.
    pub(crate) last: String,
    /// The formats of the files, without repetition.
    formats: Vec<&'static str>,
}

impl LogSummary {
    /// `late_lines` is for streams, and `span` the times of the first and of the last request.
    pub(crate) fn new(tallies: &[LineTally], span: (u64, u64), late_lines: Option<u64>) -> Self {
        let mut formats = Vec::new();
        for format in tallies.iter().filter_map(|tally| tally.format) {
            if !formats.contains(&format) {
                formats.push(format);
            }
        }
        Self {
            lines: tallies.iter().map(LineTally::counted).sum(),
            bad_lines: tallies.iter().map(|tally| tally.bad).sum(),
            left_out_lines: tallies.iter().filter_map(|tally| tally.left_out).reduce(|a, b| a + b),
            late_lines,
            first: instant(span.0),
            last: instant(span.1),
            formats,
        }
    }
}

impl fmt::Display for LogSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} lines, {} bad", grouped(self.lines), grouped(self.bad_lines))?;
        if let Some(left_out) = self.left_out_lines {
            write!(f, ", {} left out", grouped(left_out))?;
        }
        if let Some(late) = self.late_lines {
            write!(f, ", {} late", grouped(late))?;
        }
        write!(f, ", {} to {}, read as {}", self.first, self.last, self.formats.join(", "))
    }
}
