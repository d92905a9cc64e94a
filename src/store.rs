//! [`Store`]: what holds a limit, for the verbs that every limit has.

use crate::clock::Timestamp;
use crate::decision::Decision;

/// One limit at hand, in whatever stores it: a word, stripes, a key's cells of a sketch, a log. Sealed: it has no name
/// outside of this crate.
///
/// These two verbs are all that every store can do. A word can do more: see `limit.rs`.
pub trait Store: Copy {
    /// Decides a check at `at`, or else at the time of the limiter's own clock. `charge` is false for a question.
    fn decide(&self, cost: u64, at: Option<Timestamp>, charge: bool) -> Decision;

    /// A check whose denial is not counted yet: see [`refuse`](Store::refuse).
    #[inline(always)]
    fn try_check(&self, cost: u64, at: Option<Timestamp>) -> Decision {
        self.decide(cost, at, cost > 0)
    }

    /// Counts a denial, if the policy counts any, and tells of it: `None` if not, or if the request would be admitted
    /// by now. Only a word can count denials.
    #[inline(always)]
    fn refuse(&self, _cost: u64, _at: Option<Timestamp>) -> Option<Decision> {
        None
    }
}
