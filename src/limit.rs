//! [`Limit`]: a limit in one word or one log, for code that treats a [`Limiter`] and a key of a table alike.

use std::fmt;

use crate::change::ChangeError;
use crate::clock::{Clock, Timestamp};
use crate::decision::Decision;
use crate::keyed::Place;
use crate::limiter::Limiter;
use crate::quota::Quota;
use crate::refund::Amendment;
use crate::store::Store;
use crate::verb::Verb;

/// A limit that is one word or one log: the limit of a [`Limiter`](crate::Limiter) or of a key of a
/// [`KeyedLimiter`](crate::KeyedLimiter).
#[derive(Clone, Copy)]
pub enum Limit<'a> {
    #[doc(hidden)]
    One(&'a Limiter),
    #[doc(hidden)]
    Key(Place<'a>),
}

/// Prints the limiter or the key of the limit.
impl fmt::Debug for Limit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(limiter) => limiter.fmt(f),
            Self::Key(place) => place.fmt(f),
        }
    }
}

impl Limit<'_> {
    #[inline(always)]
    pub(crate) fn clock(&self) -> &Clock {
        match self {
            Self::One(limiter) => &limiter.clock,
            Self::Key(place) => place.clock(),
        }
    }

    /// The same key in another tier. A limit without a key has only tier 0.
    #[inline]
    pub(crate) fn in_tier(self, tier: usize) -> Result<Self, ChangeError> {
        match self {
            Self::Key(place) => place.in_tier(tier).map(Self::Key),
            // A limit without a key has one quota, which is tier 0.
            _ if tier == 0 => Ok(self),
            _ => Err(ChangeError::NoSuchTier { tier, tiers: 1 }),
        }
    }

    /// The same key under a quota that the caller gives.
    pub(crate) fn under(self, quota: Quota) -> Result<Self, ChangeError> {
        match self {
            Self::Key(place) => place.under(quota).map(Self::Key),
            // A limit without a key has only the quota with which it was built.
            Self::One(_) => Err(ChangeError::NoOwnQuotas),
        }
    }

    /// Moves the spent units to another tier.
    pub(crate) fn move_to(&self, tier: usize, at: Option<Timestamp>) -> Result<u64, ChangeError> {
        match self {
            Self::Key(place) => place.move_to(tier, at),
            // Nothing moves, since there is only one tier.
            _ => self.in_tier(tier).map(|_| 0),
        }
    }

    /// The policy's bounds for a wait: its longest time in nanoseconds, and the largest number of units behind which a
    /// request may wait.
    pub(crate) fn queue(&self) -> [u64; 2] {
        let queue = match self {
            Self::One(limiter) => limiter.queue(),
            Self::Key(place) => place.queue(),
        };
        queue.unwrap_or([u64::MAX; 2])
    }

    /// True if the policy counts denials.
    #[inline(always)]
    pub(crate) fn counts_denials(&self) -> bool {
        match self {
            Self::One(limiter) => limiter.counts_denials(),
            Self::Key(place) => place.counts_denials(),
        }
    }

    /// Amends the word, and returns the number of units given back, rounded up. The clock is read after the word.
    pub(crate) fn amend(&self, at: Option<Timestamp>, amendment: Amendment<'_>) -> u64 {
        let now = || at.unwrap_or_else(|| self.clock().now());
        match self {
            Self::One(limiter) => limiter.amend(now, amendment),
            Self::Key(place) => place.amend(now, amendment),
        }
    }
}

impl Store for Limit<'_> {
    #[inline(always)]
    fn ask(&self, verb: Verb, cost: u64, at: Option<Timestamp>, charge: bool) -> Decision {
        let now = || at.unwrap_or_else(|| self.clock().now());
        match self {
            Self::One(limiter) => limiter.ask(verb, cost, now(), charge),
            Self::Key(place) => place.ask(verb, cost, at, charge),
        }
    }

    #[inline(always)]
    fn try_check(&self, cost: u64, at: Option<Timestamp>) -> Decision {
        // If the policy counts no denials, a check does the same as a try. A check is used then, since it has an inline
        // path.
        let verb = if self.counts_denials() { Verb::Try } else { Verb::Check };
        self.ask(verb, cost, at, cost > 0)
    }

    fn refuse(&self, cost: u64, at: Option<Timestamp>) -> Option<Decision> {
        match self {
            // The table handles keys separately, since a key that is not in the table has no word in which a denial
            // could be counted.
            Self::Key(place) => place.refuse(cost, at.unwrap_or_else(|| self.clock().now())),
            // If the policy counts no denials, there is nothing to write, and the answer of the try is final.
            _ if !self.counts_denials() => None,
            _ => Some(self.ask(Verb::Refuse, cost, at, true)).filter(|told| !told.is_allowed()),
        }
    }
}
