//! [`ChangeError`]: why a quota was not changed.

use std::fmt;

use crate::clock::Clock;
use crate::error::NO_DATE;
use crate::policy::{Algorithm, Policy};

/// A limiter whose quota is fixed when it is built, in the type of its builder. No value has this type.
#[derive(Clone, Copy, Debug)]
pub enum Fixed {}

/// A limiter whose quota may change, in the type of its builder. No value has this type.
#[derive(Clone, Copy, Debug)]
pub enum Changeable {}

/// [`Fixed`] or [`Changeable`].
pub trait QuotaKind: sealed::Sealed {
    /// Whether it is the latter.
    #[doc(hidden)]
    const MAY_CHANGE: bool;
}

impl QuotaKind for Fixed {
    const MAY_CHANGE: bool = false;
}

impl QuotaKind for Changeable {
    const MAY_CHANGE: bool = true;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Fixed {}
    impl Sealed for super::Changeable {}
}

/// Why a quota was not changed or not found, or a key not moved. Nothing was changed then.
///
/// ```
/// use tollgate::{ChangeError, KeyedLimiter, Quota};
/// let limiter = KeyedLimiter::<str>::new(Quota::per_second(10), 1_000)?;
/// let error = limiter.set_quota(0, Quota::per_second(20)).unwrap_err();
/// assert_eq!(error, ChangeError::Fixed);
/// assert_eq!(
///     error.to_string(),
///     "this limiter was built with one quota for good; build it as changing to change that",
/// );
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeError {
    /// The limiter was not built for changes.
    Fixed,
    /// There is no such tier.
    NoSuchTier {
        /// The one that was asked for.
        tier: usize,
        /// How many there are.
        tiers: usize,
    },
    /// The quota cannot be counted in the words of this limiter.
    DoesNotFit {
        /// The bits that a word has for what a key has spent.
        state_bits: u32,
    },
    /// Of a sliding log, or to one: a log keeps its window and what it does at its limit, and has as many slots as its
    /// first count; and what is kept in a word takes no log.
    Log {
        /// The policy.
        policy: Policy,
    },
    /// Windows of the calendar in a limiter whose clock cannot tell the date.
    NoDate,
    /// Another thread is changing a quota of this limiter; or, of a sliding log, one has begun a request of several units
    /// or is giving something back, and has not ended that yet. A later try may succeed.
    Busy,
    /// There was no cell for the key in its new tier.
    NoCell,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed => f.write_str(
                "this limiter was built with one quota for good; build it as changing to change that",
            ),
            Self::NoSuchTier { tier, tiers } => {
                write!(f, "there is no tier {tier}; use 0 to {}", tiers.saturating_sub(1))
            }
            Self::DoesNotFit { state_bits } => write!(
                f,
                "the quota does not fit in the {state_bits} bits that a key's state has here; use a \
                 smaller burst or limit, or name one like it as headroom where the limiter is built",
            ),
            Self::Log { policy } => write!(
                f,
                "{policy} cannot come here: what is kept in a word takes no sliding log, and a log takes another count \
                 alone, up to that of the policy that it was built with; build another limiter"
            ),
            Self::NoDate => f.write_str(NO_DATE),
            Self::Busy => f.write_str(
                "another change of quota is under way, or a request that this one must not overtake; try again after it",
            ),
            Self::NoCell => f.write_str("the table is full of live keys; the key stays in its tier"),
        }
    }
}

impl std::error::Error for ChangeError {}

/// The policy, if it has a word, and this clock can decide it.
pub(crate) fn in_a_word(policy: Policy, clock: &Clock) -> Result<Policy, ChangeError> {
    if policy.algorithm() == Algorithm::SlidingLog {
        Err(ChangeError::Log { policy })
    } else if !policy.takes(clock) {
        Err(ChangeError::NoDate)
    } else {
        Ok(policy)
    }
}
