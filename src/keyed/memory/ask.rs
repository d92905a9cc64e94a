//! [`Ask`] and [`Fresh`]: what is asked of a table.

use crate::algorithm::Held;
use crate::clock::Clock;
use crate::decision::{Decision, Outcome};
use crate::verb::{Check, Verb};

use super::layout::Layout;

/// One request.
#[derive(Clone, Copy)]
pub(in crate::keyed) struct Ask {
    pub(in crate::keyed) now_ns: u64,
    pub(in crate::keyed) cost: u64,
    /// Whether the cost is charged if it is admitted: not for a peek, nor for a cost of 0. A request that does not
    /// charge changes nothing, not even a floor; nor does one that asks for more than ever fits.
    pub(in crate::keyed) charge: bool,
    pub(in crate::keyed) verb: Verb,
    /// Whose quota a new key gets, in a table of several.
    pub(in crate::keyed) tier: u8,
}

impl Ask {
    /// What it asks, if that is a check.
    #[inline(always)]
    pub(in crate::keyed) fn check(self) -> Check {
        Check { cost: self.cost, charge: self.charge }
    }
}

/// A request whose key was not found.
pub(in crate::keyed) struct Fresh<'a> {
    pub(in crate::keyed) ask: Ask,
    /// The clock that `now_ns` was read from, to be read once more should the floor be ahead of it.
    pub(in crate::keyed) clock: Option<&'a Clock>,
    /// What the key's word held before it was charged: for an undo. Not for a charge in the spill, or of a log.
    pub(in crate::keyed) before: Held,
}

impl<'a> Fresh<'a> {
    pub(in crate::keyed) fn new(ask: Ask, clock: Option<&'a Clock>) -> Self {
        Self { ask, clock, before: Held::IDLE }
    }

    /// The decision of an outcome by this quota.
    pub(in crate::keyed) fn told(&mut self, outcome: Outcome, layout: &Layout) -> Decision {
        self.before = outcome.before;
        outcome.told(layout.kernel, self.ask.now_ns, layout.rules.soft_bp)
    }
}
