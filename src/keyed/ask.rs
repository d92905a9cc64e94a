//! [`Ask`] and [`Fresh`]: what is asked of a table.

use crate::algorithm::Kernel;
use crate::clock::Clock;
use crate::verb::Verb;

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
    pub(super) told_by: Option<(Kernel, u16)>,
}

impl<'a> Fresh<'a> {
    pub(super) fn new(ask: Ask, clock: Option<&'a Clock>) -> Self {
        // By the table's own arithmetic, until a look, an install or the spill says otherwise.
        Self { ask, clock, told_by: None }
    }
}
