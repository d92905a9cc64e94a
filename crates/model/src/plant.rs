//! [`Plant`]: an error in what is expected.

/// An error in the expectation, to show that the seeds would notice one in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// The expectation is right.
    Nothing,
    /// The limit, or the burst, is expected to be one unit more; the end of the calendar, a century
    /// earlier.
    Limit,
    /// Waits are expected to be one nanosecond shorter; a text, to be read as another policy.
    Answer,
    /// Every interval is expected to hold one unit less.
    Bound,
    /// No key is expected to be without a cell.
    Cell,
}
