//! The time of a decision: now, or given by the caller.

use tollgate::{Clock, Decision, JointDecision, Timestamp, Toll, check_all, check_all_at};

use crate::rule::Table;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Moment {
    /// Each table reads its own clock, so a charge can be undone exactly.
    Now,
    At(Timestamp),
}

impl Moment {
    pub(crate) fn check(self, table: &Table, key: &[u8], cost: u64) -> Decision {
        match self {
            Self::Now => table.check(key, cost),
            Self::At(now) => table.entry(key).at(now).check(cost),
        }
    }

    pub(crate) fn peek(self, table: &Table, key: &[u8], cost: u64) -> Decision {
        match self {
            Self::Now => table.peek(key, cost),
            Self::At(now) => table.entry(key).at(now).peek(cost),
        }
    }

    pub(crate) fn check_all(self, tolls: &mut [Toll<'_>]) -> JointDecision {
        match self {
            Self::Now => check_all(tolls),
            Self::At(now) => check_all_at(tolls, now),
        }
    }

    /// Charges what is left, at most the cost.
    pub(crate) fn drain(self, table: &Table, key: &[u8], cost: u64) {
        // A refused charge needs no action: the limit is exhausted anyway.
        let _ = match self {
            Self::Now => table.entry(key).charge(cost),
            Self::At(now) => table.entry(key).at(now).charge(cost),
        };
    }

    pub(crate) fn read(self, clock: &Clock) -> Timestamp {
        match self {
            Self::Now => clock.now(),
            Self::At(now) => now,
        }
    }
}
