//! [`Ask`] and [`Outcome`]: what is asked of a table, and what came of it.

use crate::algorithm::{Held, Kernel};
use crate::clock::Clock;
use crate::verb::Verb;
use crate::verdict::{Mark, Verdict};

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

/// A request whose key was not found.
pub(super) struct Fresh<'a> {
    pub(super) ask: Ask,
    /// The clock that `now_ns` was read from, to be read once more should the floor be ahead of it.
    pub(super) clock: Option<&'a Clock>,
    /// The arithmetic that decided, if it is not the table's own: that of one of several quotas, or what the
    /// spill answers ([`Kernel::Log`]).
    pub(super) kernel: Option<Kernel>,
}

impl<'a> Fresh<'a> {
    pub(super) fn new(ask: Ask, clock: Option<&'a Clock>) -> Self {
        // By the table's own arithmetic, until a look, an install or the spill says otherwise.
        Self { ask, clock, kernel: None }
    }
}

/// How a request went: what its word holds, seen from `at_ns`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(super) verdict: Verdict,
    /// What it held before: for a caller that may have to undo the charge.
    pub(super) before: Held,
    pub(super) mark: Mark,
    pub(super) held: Held,
    pub(super) at_ns: u64,
    /// What was charged, or the cost that a denial speaks of.
    pub(super) cost: u64,
}

impl Outcome {
    /// For a policy that says nothing of its limit; `held` is what the word held before and holds now.
    #[inline(always)]
    pub(super) fn plain(
        verdict: Verdict,
        [before, held]: [Held; 2],
        at_ns: u64,
        cost: u64,
    ) -> Self {
        // A mark is what a policy with rules says of its limit, or a table that is full.
        Self { verdict, mark: Mark::None, before, held, at_ns, cost }
    }

    /// For a request whose key was idle.
    pub(super) fn of_idle(verdict: Verdict, held: Held, at_ns: u64, cost: u64) -> Self {
        // An undo puts back what an idle key held: nothing.
        Self { verdict, mark: Mark::None, before: Held::IDLE, held, at_ns, cost }
    }
}
