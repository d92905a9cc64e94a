//! [`Answers`]: a decision's answers, ready.
//!
//! A decision on a word keeps a copy of it and computes what it is asked. A log has no word: what a decision
//! says of it was read from the slots when it was decided. The same holds for a spill, which decides on one of
//! several words and does not say which, and for a decision that was made elsewhere.

use std::num::NonZeroU64;

use super::{Decides, Held, Kernel};

/// What a log, a spill or another place answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) limit: u64,
    /// Slots that were free, or units that were left.
    pub(crate) remaining: u64,
    /// The instant at which the cost fits; of a log that was charged, the one that its units were taken for.
    pub(crate) ready_ns: u64,
    /// The instant at which all slots are free, or nothing is owed.
    pub(crate) idle_ns: u64,
    /// Whether it was the spill of a keyed table that decided.
    pub(crate) spilled: bool,
    /// What a log was charged, if it was.
    pub(crate) slots: Option<ChargedSlots>,
}

/// The slots of a log that a request was charged: they are found again by what they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChargedSlots {
    /// What each of them holds: the instant at which it is free.
    pub(crate) word: NonZeroU64,
    /// How often the count of the log had been changed.
    pub(crate) changes: u64,
}

/// What the answers of a decision are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figures {
    /// A word, and the arithmetic that it is read by: an answer is computed when it is asked for.
    Word { kernel: Kernel, held: Held },
    /// Nothing that a word could tell: all answers were worked out with the decision.
    Known(Answers),
}

impl Figures {
    /// What the word holds that a charge has left; nothing, where there is no word.
    pub(crate) fn held(&self) -> Held {
        match self {
            Self::Word { held, .. } => *held,
            Self::Known(_) => Held::IDLE,
        }
    }

    /// What the word holds, if it is read by this arithmetic.
    pub(crate) fn held_under(&self, own: &Kernel) -> Option<Held> {
        match self {
            Self::Word { kernel, held } if kernel == own => Some(*held),
            _ => None,
        }
    }

    /// Whether it is a time, of which each charge is a part that drains.
    pub(crate) fn is_gcra(&self) -> bool {
        matches!(self, Self::Word { kernel: Kernel::Gcra(_), .. })
    }

    pub(crate) fn limit(&self) -> u64 {
        match self {
            Self::Word { kernel, .. } => kernel.limit(),
            Self::Known(answers) => answers.limit,
        }
    }

    /// The largest cost that would be admitted at `now`, if the word is seen from `at`.
    pub(crate) fn remaining(&self, at_ns: u64, now_ns: u64) -> u64 {
        match self {
            Self::Word { kernel, held } => {
                // Seen from a floor above now: GCRA tests against now itself.
                let late = kernel.lateness(now_ns, at_ns);
                kernel.remaining(*held, kernel.moment(at_ns), late)
            }
            Self::Known(answers) => answers.remaining,
        }
    }

    /// As [`Kernel::ready_ns`].
    pub(crate) fn ready_ns(&self, at_ns: u64, cost: u64) -> u64 {
        match self {
            Self::Word { kernel, held } => kernel.ready_ns(*held, at_ns, cost),
            Self::Known(answers) => answers.ready_ns.max(at_ns),
        }
    }

    /// As [`Kernel::idle_ns`].
    pub(crate) fn idle_ns(&self, at_ns: u64) -> u64 {
        match self {
            Self::Word { kernel, held } => kernel.idle_ns(*held, at_ns),
            Self::Known(answers) => answers.idle_ns.max(at_ns),
        }
    }
}
