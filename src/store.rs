//! [`Store`]: the operations that every store of a limit has.

use crate::clock::Timestamp;
use crate::decision::Decision;
use crate::verb::Verb;

/// One limit in its store: a word, stripes, a key's cells in a sketch, or a log. The trait is sealed: its methods use
/// types that cannot be named outside of this crate.
///
/// Every store supports a check, taking as much as fits, and a charge into debt. A word supports more, so its entries
/// have more verbs.
pub trait Store: Copy {
    #[doc(hidden)]
    /// Decides at `at`, or at the time of the limiter's own clock if `at` is `None`. `charge` is false for a peek.
    /// Stripes and sketches never reserve a place in the future.
    fn ask(&self, verb: Verb, cost: u64, at: Option<Timestamp>, charge: bool) -> Decision;

    #[doc(hidden)]
    /// A check.
    #[inline(always)]
    fn decide(&self, cost: u64, at: Option<Timestamp>, charge: bool) -> Decision {
        self.ask(Verb::Check, cost, at, charge)
    }

    #[doc(hidden)]
    /// A check whose denial is not counted yet: see [`refuse`](Store::refuse).
    #[inline(always)]
    fn try_check(&self, cost: u64, at: Option<Timestamp>) -> Decision {
        self.decide(cost, at, cost > 0)
    }

    #[doc(hidden)]
    /// Counts a denial if the policy counts denials, and returns its decision. Returns `None` if the policy does not
    /// count denials, or if the request would be admitted now. Stripes and sketches count no denials.
    #[inline(always)]
    fn refuse(&self, _cost: u64, _at: Option<Timestamp>) -> Option<Decision> {
        None
    }
}
