//! [`Plant`]: an error that is planted in the expectation.

/// An error in the expectation. It shows that the seeds would notice such an error in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// The expectation is right.
    Nothing,
    /// The limit or the burst is expected to be one unit higher, and the end of the calendar to be a century earlier.
    Limit,
    /// Waits are expected to be one nanosecond shorter. A text is expected to be read as another policy.
    Answer,
    /// Every interval is expected to hold one unit less.
    Bound,
    /// No key is expected to be without a cell.
    Cell,
}
