//! [`Ask`] and [`Fresh`]: what is asked of a table.

use crate::algorithm::Held;
use crate::clock::Clock;
use crate::decision::{Decision, Outcome};
use crate::verb::{Check, Verb};

use super::layout::Layout;

/// One request.
#[derive(Clone, Copy)]
pub(super) struct Ask {
    pub(super) now_ns: u64,
    pub(super) cost: u64,
    /// Whether the cost is charged if it is admitted: not for a peek, nor for a cost of 0. A request that does not
    /// charge changes nothing, not even a floor; nor does one that asks for more than ever fits.
    pub(super) charge: bool,
    pub(super) verb: Verb,
    /// Whose quota a new key gets, in a table of several.
    pub(super) tier: u8,
}

impl Ask {
    /// What it asks, if that is a check.
    #[inline(always)]
    pub(super) fn check(self) -> Check {
        Check { cost: self.cost, charge: self.charge }
    }
}

/// A request whose key was not found.
pub(super) struct Fresh<'a> {
    pub(super) ask: Ask,
    /// The clock that `now_ns` was read from, to be read once more should the floor be ahead of it.
    pub(super) clock: Option<&'a Clock>,
    /// What the key's word held before it was charged: for an undo. Not for a charge in the spill, or of a log.
    pub(super) before: Held,
}

impl<'a> Fresh<'a> {
    pub(super) fn new(ask: Ask, clock: Option<&'a Clock>) -> Self {
        Self { ask, clock, before: Held::IDLE }
    }

    /// The decision of an outcome by this quota.
    pub(super) fn told(&mut self, outcome: Outcome, layout: &Layout) -> Decision {
        self.before = outcome.before;
        outcome.told(layout.kernel, self.ask.now_ns, layout.rules.soft_bp)
    }
}
