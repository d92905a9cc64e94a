//! [`Answers`]: a decision's answers, ready.
//!
//! A decision on a word keeps a copy of it and computes what it is asked. A log has no word: what a decision
//! says of it was read from the slots when it was decided. The same holds for a spill, which decides on one of
//! several words and does not say which.

use super::{Held, Moment};

/// What a log or a spill answers, as a [`Kernel`](super::Kernel) that is asked for nothing but answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) limit: u64,
    /// Slots that were free, or units that were left.
    pub(crate) remaining: u64,
    /// The instant at which the cost fits.
    pub(crate) ready_ns: u64,
    /// The instant at which all slots are free, or nothing is owed.
    pub(crate) idle_ns: u64,
    /// Whether it was the spill of a keyed table that decided.
    pub(crate) spilled: bool,
}

impl Answers {
    /// No arithmetic, where that of a word is found by the word. No path of a decision that is laid out for one
    /// algorithm is for it.
    pub(crate) const NONE: Self =
        Self { limit: u64::MAX, remaining: 0, ready_ns: 0, idle_ns: 0, spilled: false };

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn remaining(&self) -> u64 {
        self.remaining
    }

    pub(crate) fn ready_ns(&self, _: Held, _: u64, _: u64) -> u64 {
        self.ready_ns
    }

    pub(crate) fn idle_ns(&self) -> u64 {
        self.idle_ns
    }

    /// Time has no other unit here.
    pub(crate) fn moment(&self, at_ns: u64) -> Moment {
        Moment { unit: at_ns, into_ns: 0 }
    }
}
