//! The time of a decision: now, or given by the caller.

use tollgate::{Clock, Entry, Timestamp};

use crate::set::rule::RuleTable;

#[derive(Clone, Copy, Debug)]
pub(crate) enum DecisionTime {
    /// Now: each table reads its own clock, so a charge can be undone exactly.
    Now,
    At(Timestamp),
}

impl DecisionTime {
    /// The entry of a key, which decides at this time.
    pub(crate) fn entry<'a>(self, table: &'a RuleTable, key: &[u8]) -> Entry<'a> {
        match self {
            Self::Now => table.entry(key),
            Self::At(now) => table.entry(key).at(now),
        }
    }

    /// The time, if the caller has given one.
    pub(crate) fn given(self) -> Option<Timestamp> {
        match self {
            Self::Now => None,
            Self::At(now) => Some(now),
        }
    }

    pub(crate) fn read(self, clock: &Clock) -> Timestamp {
        match self {
            Self::Now => clock.now(),
            Self::At(now) => now,
        }
    }
}
