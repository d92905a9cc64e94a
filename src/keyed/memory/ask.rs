//! [`Ask`], a request to a table, and [`Fresh`], a request whose key was not found.

use crate::algorithm::Held;
use crate::clock::Clock;
use crate::decision::{Decision, Outcome};
use crate::verb::{Check, Verb};

use super::layout::Layout;
use crate::keyed::quotas::book::own::QuotaId;

/// One request.
#[derive(Clone, Copy)]
pub(in crate::keyed) struct Ask {
    pub(in crate::keyed) now_ns: u64,
    pub(in crate::keyed) cost: u64,
    /// True if the request's cost is charged on admission; false for a peek and for a cost of 0. A request that does
    /// not charge changes nothing, not even a floor. A request whose cost can never fit changes nothing either.
    pub(in crate::keyed) charge: bool,
    pub(in crate::keyed) verb: Verb,
    /// The quota under which a new key is counted, in a table with several quotas.
    pub(in crate::keyed) quota: QuotaId,
}

impl Ask {
    /// The request as a check.
    #[inline(always)]
    pub(in crate::keyed) fn check(self) -> Check {
        Check { cost: self.cost, charge: self.charge }
    }
}

/// A request whose key was not found.
pub(in crate::keyed) struct Fresh<'a> {
    pub(in crate::keyed) ask: Ask,
    /// The clock from which `now_ns` was read; `None` if the caller gave the time, or if the clock has been read again.
    /// It is read again, once, if a floor is ahead of `now_ns`.
    pub(in crate::keyed) clock: Option<&'a Clock>,
    /// The table's clock, for requests under quotas that callers bring along: it gives the instant at which a word is
    /// carried over.
    pub(in crate::keyed) behind_word: Option<&'a Clock>,
    /// The state of the key's word before the charge, which an undo needs. For a charge in the spill, and in a table of
    /// logs, it stays [`Held::IDLE`].
    pub(in crate::keyed) before: Held,
}

impl<'a> Fresh<'a> {
    pub(in crate::keyed) fn new(ask: Ask, clock: Option<&'a Clock>) -> Self {
        Self { ask, clock, behind_word: None, before: Held::IDLE }
    }

    /// Turns an outcome, which this layout's quota gave, into a decision.
    pub(in crate::keyed) fn told(&mut self, outcome: Outcome, layout: &Layout) -> Decision {
        self.before = outcome.before;
        outcome.told(layout.kernel, self.ask.now_ns, layout.rules.soft_bp)
    }
}
