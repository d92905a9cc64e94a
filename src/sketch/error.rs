//! [`SketchError`]: what was refused, and what would be accepted.

use std::fmt;

use crate::error::NO_DATE;
use crate::policy::Policy;

/// Why a [`SketchSize`](crate::SketchSize) or a [`SketchLimiter`](crate::SketchLimiter) could not be built.
///
/// ```
/// use tollgate::SketchSize;
/// let error = SketchSize::new(9, 1_000).unwrap_err();
/// assert_eq!(error.to_string(), "a sketch cannot have 9 rows; use 1 to 8");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SketchError {
    /// No row, or more than 8.
    Rows {
        /// The number that was asked for.
        rows: usize,
    },
    /// Rows without a cell.
    ZeroCells,
    /// The cells would not fit in the address space.
    TooLarge {
        /// The rows that were asked for.
        rows: usize,
        /// The cells of each.
        cells_per_row: usize,
    },
    /// A load of 0 keys.
    ZeroLoad,
    /// A target that every sketch meets: that every key may be refused without a reason.
    Target {
        /// The share of keys that may be refused: one in so many.
        refused_one_in: u64,
    },
    /// A load and a target whose cells would not fit in the address space.
    LoadTooLarge {
        /// The keys that are live at once.
        live_keys: usize,
        /// The share of them that may be refused: one in so many.
        refused_one_in: u64,
    },
    /// The allocator refused the memory.
    OutOfMemory {
        /// The bytes that were asked for.
        bytes: usize,
    },
    /// A policy that says what happens at its limit: denials would be counted, and a soft limit told
    /// apart, in cells that other keys share.
    AtLimit {
        /// The policy.
        policy: Policy,
    },
    /// Calendar months on a clock that cannot tell the date.
    NoDate,
    /// Windows from the first request: the cells of one key would open theirs at different times, and its
    /// bound could not be kept.
    FromFirst {
        /// The policy.
        policy: Policy,
    },
}

impl fmt::Display for SketchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows { rows } => write!(f, "a sketch cannot have {rows} rows; use 1 to 8"),
            Self::ZeroCells => {
                f.write_str("a row of 0 cells has none for a key; it must have at least 1")
            }
            Self::TooLarge { rows, cells_per_row } => write!(
                f,
                "{rows} rows of {cells_per_row} cells need more memory than can be addressed",
            ),
            Self::ZeroLoad => {
                f.write_str("a load of 0 live keys needs no sketch; it must be at least 1")
            }
            Self::Target { refused_one_in } => write!(
                f,
                "that 1 key in {refused_one_in} may be refused is no target, any sketch would meet it; \
                 use at least 2, as in 1000 for 0.1 %",
            ),
            Self::LoadTooLarge { live_keys, refused_one_in } => write!(
                f,
                "{live_keys} live keys, of which 1 in {refused_one_in} may be refused, need more \
                 memory than can be addressed",
            ),
            Self::OutOfMemory { bytes } => write!(
                f,
                "the sketch's {bytes} bytes could not be allocated; use fewer cells or a smaller load",
            ),
            Self::AtLimit { policy } => write!(
                f,
                "a sketch cannot say what happens at the limit of {policy}; leave out soft, count-denied and \
                 penalty, or use a keyed limiter",
            ),
            Self::NoDate => f.write_str(NO_DATE),
            Self::FromFirst { policy } => write!(
                f,
                "a sketch cannot keep the bound of {policy}: cells are shared, and those of one key \
                 would open their windows at different times; leave out from-first, or use gcra",
            ),
        }
    }
}

impl std::error::Error for SketchError {}
