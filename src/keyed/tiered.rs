//! [`TieredLimiter`]: a keyed limiter of several quotas that finds a key's tier itself.

use std::fmt;
use std::hash::Hash;

use crate::clock::Clock;
use crate::decision::Decision;
use crate::error::BuildError;

use super::KeyedLimiter;
use super::tier::Tier;
use super::tiers::Tiers;

/// A [`KeyedLimiter`] with [`Tiers`] and a function that says which tier a key is in.
///
/// The function is asked once for each `check`, `peek` and `entry`: it should be quick, allocate nothing, and give the
/// same answer for the same key. A number beyond the last tier stands for the last one, so no key is without a limit.
/// Where a key changes its tier ([`KeyedLimiter::move_key`] takes along what it has spent), that function must know; an
/// entry stays in the tier that it found, so make a new one.
///
/// [`limiter`](TieredLimiter::limiter) is the limiter itself, for what is not asked for a key: statistics, changes
/// of a quota, snapshots; or for a tier that the caller chooses.
///
/// ```
/// use tollgate::{Quota, Tiers};
/// let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
/// let limiter = tiers.build_by(1_000, |key: &str| usize::from(key.starts_with("paid:")))?;
/// assert!(limiter.check("paid:alice", 50).is_allowed());
/// assert!(limiter.check("bob", 1).is_allowed());
/// assert!(!limiter.check("bob", 1).is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct TieredLimiter<K: ?Sized, F = fn(&K) -> usize> {
    limiter: KeyedLimiter<K>,
    resolve: F,
}

impl Tiers {
    /// [`build`](Tiers::build) with a function that says which tier a key is in, from 0.
    ///
    /// # Errors
    /// As [`build`](Tiers::build).
    ///
    /// ```
    /// use tollgate::{Quota, TieredLimiter, Tiers};
    /// struct Api { limits: TieredLimiter<str> } // the function has a name, so the type has one
    /// fn tier_of(key: &str) -> usize { usize::from(key.len() > 8) }
    /// let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
    /// let api = Api { limits: tiers.build_by(1_000, tier_of as fn(&str) -> usize)? };
    /// assert_eq!(api.limits.peek("a long key", 1).limit(), 50);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn build_by<K: Hash + ?Sized, F: Fn(&K) -> usize>(
        self,
        capacity: usize,
        resolve: F,
    ) -> Result<TieredLimiter<K, F>, BuildError> {
        let clock = self.clock();
        self.build_by_with_clock(capacity, resolve, clock)
    }

    /// [`build_by`](Tiers::build_by) with a clock of your choice.
    ///
    /// # Errors
    /// As [`build`](Tiers::build).
    ///
    /// ```
    /// use tollgate::{ManualClock, Quota, Tiers};
    /// let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
    /// let by_id = |id: &u64| usize::from(*id > 1_000);
    /// let limiter = tiers.build_by_with_clock(1_000, by_id, ManualClock::new())?;
    /// assert!(limiter.check(&2_000, 50).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn build_by_with_clock<K: Hash + ?Sized, F: Fn(&K) -> usize>(
        self,
        capacity: usize,
        resolve: F,
        clock: impl Into<Clock>,
    ) -> Result<TieredLimiter<K, F>, BuildError> {
        Ok(TieredLimiter::new(self.build_with_clock(capacity, clock)?, resolve))
    }
}

impl<K: Hash + ?Sized, F: Fn(&K) -> usize> TieredLimiter<K, F> {
    /// A limiter that is there, say one that was [restored](Tiers::restore), and a function that says which tier a
    /// key is in.
    ///
    /// ```
    /// use tollgate::{Clock, KeyedLimiter, Quota, TieredLimiter, Tiers};
    /// let tiers = || Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
    /// let mut file = Vec::new();
    /// tiers().build::<u64>(1_000)?.snapshot(&mut file)?;
    /// let restored: KeyedLimiter<u64> = tiers().restore(Clock::monotonic(), &file[..])?;
    /// let limiter = TieredLimiter::new(restored, |id: &u64| usize::from(*id > 1_000));
    /// assert!(limiter.check(&2_000, 50).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn new(limiter: KeyedLimiter<K>, resolve: F) -> Self {
        Self { limiter, resolve }
    }

    /// The limiter without the function.
    ///
    /// ```
    /// # use tollgate::{Quota, Tiers};
    /// # let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
    /// # let limiter = tiers.build_by(1_000, |id: &u64| usize::from(*id > 1_000))?;
    /// assert!(limiter.check(&7, 1).is_allowed());
    /// assert_eq!(limiter.limiter().stats().live, 1);
    /// limiter.limiter().tier(1)?.set_quota(Quota::per_hour(60))?;
    /// assert_eq!(limiter.peek(&2_000, 1).limit(), 60);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn limiter(&self) -> &KeyedLimiter<K> {
        &self.limiter
    }

    /// The tier that a key is in.
    ///
    /// ```
    /// # use tollgate::{Quota, Tiers};
    /// # let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
    /// # let limiter = tiers.build_by(1_000, |id: &u64| usize::from(*id > 1_000))?;
    /// assert_eq!(limiter.tier_of(&2_000).limit(), 50);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn tier_of(&self, key: &K) -> Tier<'_, K> {
        let last = self.limiter.tiers() - 1; // there is at least one
        self.limiter.nth_tier((self.resolve)(key).min(last))
    }

    /// [`KeyedLimiter::check`] under the quota of the key's tier.
    ///
    /// ```
    /// use tollgate::{Quota, Tiers};
    /// let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(9));
    /// let limiter = tiers.build_by(100, |key: &str| usize::from(key.starts_with("paid:")))?;
    /// assert!(limiter.check("paid:alice", 9).is_allowed());
    /// assert!(!limiter.check("bob", 9).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn check(&self, key: &K, cost: u64) -> Decision {
        self.tier_of(key).check(key, cost)
    }

    /// Would a request of `cost` units for `key` be admitted now under its tier? Charges nothing.
    ///
    /// ```
    /// use tollgate::{Quota, Tiers};
    /// let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(9));
    /// let limiter = tiers.build_by(100, |key: &str| usize::from(key.starts_with("paid:")))?;
    /// assert_eq!(limiter.peek("bob", 1).remaining(), 1);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn peek(&self, key: &K, cost: u64) -> Decision {
        self.tier_of(key).peek(key, cost)
    }
}

impl<K: ?Sized, F> fmt::Debug for TieredLimiter<K, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TieredLimiter").field("limiter", &self.limiter).finish_non_exhaustive()
    }
}
