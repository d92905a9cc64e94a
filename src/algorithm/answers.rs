//! [`Answers`]: the answers of a decision that were computed together with the decision.
//!
//! A decision on a word keeps a copy of the word, and computes each answer on demand. A log has no word, so its answers
//! are read from the slots with the decision. Two more kinds of decision store their answers. A spill does not report
//! which of its words decided, and a decision that was made elsewhere has no word here.

use std::num::NonZeroU64;

use super::{Decides, Held, Kernel};

/// The answers of a log, of a spill, or of a decision that was made elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) limit: u64,
    /// The number of units that were left, which is the number of free slots of a log.
    pub(crate) remaining: u64,
    /// The instant at which the cost fits. If a log was charged, it is the instant from which the units may be used.
    pub(crate) ready_ns: u64,
    /// The instant at which nothing is owed any more. For a log this is when all slots are free.
    pub(crate) idle_ns: u64,
    /// True if the spill of a keyed table made the decision, because the table had no cell for the key.
    pub(crate) spilled: bool,
    /// The slots of a log that were charged, if any.
    pub(crate) slots: Option<ChargedSlots>,
}

/// The slots of a log that a request has taken. A refund recognises them by the instant that is stored in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChargedSlots {
    /// The content of each of these slots: the instant at which the slot becomes free.
    pub(crate) word: NonZeroU64,
    /// The number of changes of the log's count before the charge.
    pub(crate) changes: u64,
}

/// The source of a decision's answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figures {
    /// A word, and the arithmetic by which it is read. Answers are computed from them on demand.
    Word { kernel: Kernel, held: Held },
    /// Answers that were computed together with the decision.
    Known(Answers),
}

impl Figures {
    /// The state in which the decision left the word; the idle state if there is no word.
    pub(crate) fn held(&self) -> Held {
        match self {
            Self::Word { held, .. } => *held,
            Self::Known(_) => Held::IDLE,
        }
    }

    /// The state of the word, if `own` is the arithmetic by which the word is read.
    pub(crate) fn held_under(&self, own: &Kernel) -> Option<Held> {
        match self {
            Self::Word { kernel, held } if kernel == own => Some(*held),
            _ => None,
        }
    }

    /// True if GCRA made the decision. Under GCRA each charge moves the word's time, and drains.
    pub(crate) fn is_gcra(&self) -> bool {
        matches!(self, Self::Word { kernel: Kernel::Gcra(_), .. })
    }

    pub(crate) fn limit(&self) -> u64 {
        match self {
            Self::Word { kernel, .. } => kernel.limit(),
            Self::Known(answers) => answers.limit,
        }
    }

    /// The largest cost that would be admitted at `now`. The state of the word is measured from `at`.
    pub(crate) fn remaining(&self, at_ns: u64, now_ns: u64) -> u64 {
        match self {
            Self::Word { kernel, held } => {
                // The state may be measured from a floor that is later than now, but GCRA tests a cost at now itself.
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
