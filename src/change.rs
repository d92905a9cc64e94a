//! [`Changing`]: a limiter whose quota may change; and [`ChangeError`].

use std::fmt;
use std::ops::Deref;

use crate::clock::Clock;
use crate::error::NO_DATE;
use crate::policy::{Algorithm, Policy};

/// Marks the type of a builder whose limiter has a fixed quota. No value has this type.
#[derive(Clone, Copy, Debug)]
pub enum Fixed {}

/// Marks the type of a builder whose limiter has a quota that may change. No value has this type.
#[derive(Clone, Copy, Debug)]
pub enum Changeable {}

/// Marks the type of a builder whose limiter takes a quota for each key from its callers. No value has this type.
#[derive(Clone, Copy, Debug)]
pub enum Own {}

/// A marker type of a builder: [`Fixed`], [`Changeable`] or [`Own`].
pub trait QuotaKind: sealed::Sealed {
    /// False for [`Fixed`], whose words carry no index of a quota.
    #[doc(hidden)]
    const SEVERAL: bool;

    /// The type that a builder of `L` builds: `L` itself, or [`Changing<L>`](Changing).
    type Of<L>;

    #[doc(hidden)]
    fn of<L>(limiter: L) -> Self::Of<L>;
}

impl QuotaKind for Fixed {
    const SEVERAL: bool = false;
    type Of<L> = L;

    fn of<L>(limiter: L) -> L {
        limiter
    }
}

impl QuotaKind for Changeable {
    const SEVERAL: bool = true;
    type Of<L> = Changing<L>;

    fn of<L>(limiter: L) -> Changing<L> {
        Changing(limiter)
    }
}

impl QuotaKind for Own {
    const SEVERAL: bool = true;
    type Of<L> = L;

    fn of<L>(limiter: L) -> L {
        limiter
    }
}

/// A marker type with which all quotas are given when the limiter is built: [`Fixed`] or [`Changeable`].
pub trait Tiered: QuotaKind {}

impl Tiered for Fixed {}
impl Tiered for Changeable {}

/// A limiter whose quota may change while other threads decide: a [`Limiter`](crate::Limiter) or a
/// [`KeyedLimiter`](crate::KeyedLimiter) that was built as `changing`, or with several tiers. It has all methods of
/// the limiter, and `set_quota`.
///
/// ```
/// use tollgate::{Changing, KeyedLimiter, Limiter, Quota};
/// let service: Changing<Limiter> = Limiter::builder(Quota::per_hour(5)).changing().build()?;
/// let clients: Changing<KeyedLimiter<str>> =
///     KeyedLimiter::builder(Quota::per_hour(5)).changing().build(1_000)?;
/// service.set_quota(Quota::per_hour(7))?;
/// clients.set_quota(Quota::per_hour(7))?;
/// assert_eq!(service.check().remaining(), 6);
/// assert_eq!(clients.check("alice").remaining(), 6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The quota of any other limiter is fixed, so the limiter has no `set_quota`:
///
/// ```compile_fail,E0599
/// use tollgate::{Limiter, Quota};
/// let limiter = Limiter::new(Quota::per_hour(5));
/// let changed = limiter.set_quota(Quota::per_hour(7));
/// ```
pub struct Changing<L>(pub(crate) L);

#[cfg(any(loom, shuttle))]
impl<L> Changing<L> {
    /// The limiter inside, for models that hold both limiters with a fixed quota and limiters whose quota may change.
    #[doc(hidden)]
    #[must_use]
    pub fn into_limiter(self) -> L {
        self.0
    }
}

impl<L> Deref for Changing<L> {
    type Target = L;

    #[inline(always)]
    fn deref(&self) -> &L {
        &self.0
    }
}

/// Prints the limiter.
impl<L: fmt::Debug> fmt::Debug for Changing<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Fixed {}
    impl Sealed for super::Changeable {}
    impl Sealed for super::Own {}
}

/// The reason why a quota could not be changed or found, or why a key could not be moved. After such an error nothing
/// has changed.
///
/// ```
/// use tollgate::{ChangeError, KeyedLimiter, Quota};
/// let limiter = KeyedLimiter::<str>::builder(Quota::per_second(10)).changing().build(1_000)?;
/// let error = limiter.set_tier_quota(1, Quota::per_second(20)).unwrap_err();
/// assert_eq!(error, ChangeError::NoSuchTier { tier: 1, tiers: 1 });
/// assert_eq!(error.to_string(), "there is no tier 1; use 0 to 0");
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeError {
    /// The limiter has no tier with this number.
    NoSuchTier {
        /// The tier that was requested.
        tier: usize,
        /// The number of tiers.
        tiers: usize,
    },
    /// The words of this limiter have too few bits for the time and the counts of the quota.
    DoesNotFit {
        /// The number of bits that a word has for the units that a key has spent.
        state_bits: u32,
    },
    /// The change involves a sliding log. The window of a log and its options at the limit are fixed, and its first
    /// count is its largest count. A limit that is stored in a word cannot become a log.
    Log {
        /// The policy.
        policy: Policy,
    },
    /// The new quota has windows of the calendar, but the limiter's clock does not give the date.
    NoDate,
    /// Another thread is changing a quota of this limiter; or, for a sliding log, another thread is in the middle of a
    /// request of several units or of a refund. A later attempt may succeed.
    Busy,
    /// The table had no cell for the key in its new tier.
    NoCell,
    /// The key has a penalty in its new tier. During a penalty nothing is charged.
    Penalty,
    /// The limiter was not built to take quotas from its callers: see [`own_quotas`](crate::KeyedBuilder::own_quotas).
    NoOwnQuotas,
    /// All places for quotas are taken by other quotas that are in use.
    TooManyQuotas {
        /// The number of places for quotas.
        most: usize,
    },
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchTier { tier, tiers } => {
                write!(f, "there is no tier {tier}; use 0 to {}", tiers.saturating_sub(1))
            }
            Self::DoesNotFit { state_bits } => write!(
                f,
                "the quota does not fit in the {state_bits} bits that a key's state has here; use a \
                 smaller burst or limit, or name one like it where the limiter is built (headroom, own_quotas)",
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
            Self::NoOwnQuotas => f.write_str(
                "this limiter has no quotas for single keys; build it with KeyedBuilder::own_quotas",
            ),
            Self::TooManyQuotas { most } => write!(
                f,
                "there is no place for another quota: this limiter has {most}; call forget_quotas, which frees those of keys \
                 that have become idle, or build it with more own_quotas"
            ),
            Self::NoCell => f.write_str("the table is full of live keys; the key stays in its tier"),
            Self::Penalty => f.write_str(
                "the key has a penalty in that tier, during which nothing can be charged; try again after it",
            ),
        }
    }
}

impl std::error::Error for ChangeError {}

/// Returns the policy if it is stored in a word and can be used with this clock.
pub(crate) fn in_a_word(policy: Policy, clock: &Clock) -> Result<Policy, ChangeError> {
    if policy.algorithm() == Algorithm::SlidingLog {
        Err(ChangeError::Log { policy })
    } else if !policy.takes(clock) {
        Err(ChangeError::NoDate)
    } else {
        Ok(policy)
    }
}
