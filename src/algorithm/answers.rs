//! [`Answers`]: a decision's answers, worked out with the decision.
//!
//! A decision on a word keeps a copy of the word, and computes an answer when it is asked for. A log has no word, so
//! its answers are read from the slots with the decision. The answers of a spill, which decides on one of several words
//! without naming it, and those of a decision that was made elsewhere are also stored with the decision.

use std::num::NonZeroU64;

use super::{Decides, Held, Kernel};

/// The answers of a log, a spill or another place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) limit: u64,
    /// Slots that were free, or units that were left.
    pub(crate) remaining: u64,
    /// The instant at which the cost fits. If a log was charged, it is the instant for which the units were taken.
    pub(crate) ready_ns: u64,
    /// The instant at which all slots are free, or nothing is owed.
    pub(crate) idle_ns: u64,
    /// True if the spill of a keyed table has decided.
    pub(crate) spilled: bool,
    /// The slots of a log that were charged, if any.
    pub(crate) slots: Option<ChargedSlots>,
}

/// The slots of a log that a request was charged. They are found again by their instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChargedSlots {
    /// The instant that each of these slots holds, at which the slot becomes free.
    pub(crate) word: NonZeroU64,
    /// The number of changes of the log's count before the charge.
    pub(crate) changes: u64,
}

/// The source of a decision's answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figures {
    /// A word, and the arithmetic that it is read by: an answer is computed when it is asked for.
    Word { kernel: Kernel, held: Held },
    /// Answers that were worked out with the decision.
    Known(Answers),
}

impl Figures {
    /// The state of the word that a charge has left; the idle state if there is no word.
    pub(crate) fn held(&self) -> Held {
        match self {
            Self::Word { held, .. } => *held,
            Self::Known(_) => Held::IDLE,
        }
    }

    /// The state of the word, if it is read by this arithmetic.
    pub(crate) fn held_under(&self, own: &Kernel) -> Option<Held> {
        match self {
            Self::Word { kernel, held } if kernel == own => Some(*held),
            _ => None,
        }
    }

    /// True if the word was decided by GCRA, where each charge is a part of the time and drains.
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
                // The word is seen from a floor above now, but GCRA tests against now itself.
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
