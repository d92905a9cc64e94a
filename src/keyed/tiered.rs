//! [`TieredLimiter`]: a keyed limiter of several quotas that finds a key's tier itself.

use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use crate::all::Toll;
use crate::clock::{Clock, Timestamp};
use crate::decision::{Decision, Denial, Permit};
use crate::error::BuildError;
use crate::reservation::Reservation;

use super::KeyedLimiter;
use super::tier::Tier;
use super::tiers::Tiers;

/// A [`KeyedLimiter`] with [`Tiers`] and a function that says which tier a key is in.
///
/// The function is asked at each request: it should be quick, allocate nothing, and give the same answer for the
/// same key. A number beyond the last tier stands for the last one, so nobody is without a limit. Where a key
/// changes its tier ([`KeyedLimiter::move_key`] takes along what it has spent), that function must know.
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
        self.build_by_with_clock(capacity, resolve, Clock::monotonic())
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

    /// The tier that a key is in, with every verb.
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

    /// As [`KeyedLimiter::check`], in the key's tier.
    ///
    /// ```
    /// # use tollgate::{ManualClock, Quota, Tiers, Timestamp};
    /// # let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
    /// # let by_id = |id: &u64| usize::from(*id > 1_000);
    /// # let limiter = tiers.build_by_with_clock(1_000, by_id, ManualClock::new())?;
    /// # let now = Timestamp::from_secs(7);
    /// assert!(limiter.check(&2_000, 50).is_allowed());
    /// assert!(!limiter.check(&7, 2).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self, key: &K, cost: u64) -> Decision {
        self.tier_of(key).check(key, cost)
    }

    /// As [`KeyedLimiter::check_at`], in the key's tier.
    ///
    /// ```
    /// # use tollgate::{ManualClock, Quota, Tiers, Timestamp};
    /// # let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
    /// # let by_id = |id: &u64| usize::from(*id > 1_000);
    /// # let limiter = tiers.build_by_with_clock(1_000, by_id, ManualClock::new())?;
    /// # let now = Timestamp::from_secs(7);
    /// assert!(limiter.check_at(&7, 1, now).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_at(&self, key: &K, cost: u64, now: Timestamp) -> Decision {
        self.tier_of(key).check_at(key, cost, now)
    }

    /// As [`KeyedLimiter::peek`], in the key's tier.
    ///
    /// ```
    /// # use tollgate::{ManualClock, Quota, Tiers, Timestamp};
    /// # let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
    /// # let by_id = |id: &u64| usize::from(*id > 1_000);
    /// # let limiter = tiers.build_by_with_clock(1_000, by_id, ManualClock::new())?;
    /// # let now = Timestamp::from_secs(7);
    /// assert_eq!(limiter.peek(&2_000, 1).remaining(), 50);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peek(&self, key: &K, cost: u64) -> Decision {
        self.tier_of(key).peek(key, cost)
    }

    /// As [`KeyedLimiter::peek_at`], in the key's tier.
    ///
    /// ```
    /// # use tollgate::{ManualClock, Quota, Tiers, Timestamp};
    /// # let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
    /// # let by_id = |id: &u64| usize::from(*id > 1_000);
    /// # let limiter = tiers.build_by_with_clock(1_000, by_id, ManualClock::new())?;
    /// # let now = Timestamp::from_secs(7);
    /// assert_eq!(limiter.peek_at(&7, 1, now).remaining(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peek_at(&self, key: &K, cost: u64, now: Timestamp) -> Decision {
        self.tier_of(key).peek_at(key, cost, now)
    }

    /// As [`KeyedLimiter::take_up_to`], in the key's tier.
    ///
    /// ```
    /// # use tollgate::{ManualClock, Quota, Tiers, Timestamp};
    /// # let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
    /// # let by_id = |id: &u64| usize::from(*id > 1_000);
    /// # let limiter = tiers.build_by_with_clock(1_000, by_id, ManualClock::new())?;
    /// # let now = Timestamp::from_secs(7);
    /// assert_eq!(limiter.take_up_to(&2_000, 70).into_result()?.cost(), 50);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn take_up_to(&self, key: &K, cost: u64) -> Decision {
        self.tier_of(key).take_up_to(key, cost)
    }

    /// As [`KeyedLimiter::take_up_to_at`], in the key's tier.
    ///
    /// ```
    /// # use tollgate::{ManualClock, Quota, Tiers, Timestamp};
    /// # let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
    /// # let by_id = |id: &u64| usize::from(*id > 1_000);
    /// # let limiter = tiers.build_by_with_clock(1_000, by_id, ManualClock::new())?;
    /// # let now = Timestamp::from_secs(7);
    /// assert_eq!(limiter.take_up_to_at(&7, 70, now).into_result()?.cost(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn take_up_to_at(&self, key: &K, cost: u64, now: Timestamp) -> Decision {
        self.tier_of(key).take_up_to_at(key, cost, now)
    }

    /// As [`KeyedLimiter::charge`], in the key's tier.
    ///
    /// ```
    /// # use tollgate::{ManualClock, Quota, Tiers, Timestamp};
    /// # let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
    /// # let by_id = |id: &u64| usize::from(*id > 1_000);
    /// # let limiter = tiers.build_by_with_clock(1_000, by_id, ManualClock::new())?;
    /// # let now = Timestamp::from_secs(7);
    /// assert_eq!(limiter.charge(&2_000, 60), 0);
    /// assert!(!limiter.check(&2_000, 1).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "what was not charged is not limited"]
    pub fn charge(&self, key: &K, cost: u64) -> u64 {
        self.tier_of(key).charge(key, cost)
    }

    /// As [`KeyedLimiter::charge_at`], in the key's tier.
    ///
    /// ```
    /// # use tollgate::{ManualClock, Quota, Tiers, Timestamp};
    /// # let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
    /// # let by_id = |id: &u64| usize::from(*id > 1_000);
    /// # let limiter = tiers.build_by_with_clock(1_000, by_id, ManualClock::new())?;
    /// # let now = Timestamp::from_secs(7);
    /// // A keyed word remembers a debt of twice the burst.
    /// assert_eq!(limiter.charge_at(&7, 5, now), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "what was not charged is not limited"]
    pub fn charge_at(&self, key: &K, cost: u64, now: Timestamp) -> u64 {
        self.tier_of(key).charge_at(key, cost, now)
    }

    /// As [`KeyedLimiter::refund`], in the key's tier.
    ///
    /// ```
    /// # use tollgate::{ManualClock, Quota, Tiers, Timestamp};
    /// # let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
    /// # let by_id = |id: &u64| usize::from(*id > 1_000);
    /// # let limiter = tiers.build_by_with_clock(1_000, by_id, ManualClock::new())?;
    /// # let now = Timestamp::from_secs(7);
    /// let permit = limiter.check(&2_000, 50).into_result()?;
    /// assert_eq!(limiter.refund(&2_000, permit.portion(20)), 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund(&self, key: &K, permit: Permit) -> u64 {
        self.tier_of(key).refund(key, permit)
    }

    /// As [`KeyedLimiter::refund_at`], in the key's tier.
    ///
    /// ```
    /// # use tollgate::{ManualClock, Quota, Tiers, Timestamp};
    /// # let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
    /// # let by_id = |id: &u64| usize::from(*id > 1_000);
    /// # let limiter = tiers.build_by_with_clock(1_000, by_id, ManualClock::new())?;
    /// # let now = Timestamp::from_secs(7);
    /// let permit = limiter.check_at(&7, 1, now).into_result()?;
    /// assert_eq!(limiter.refund_at(&7, permit, now), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund_at(&self, key: &K, permit: Permit, now: Timestamp) -> u64 {
        self.tier_of(key).refund_at(key, permit, now)
    }

    /// As [`KeyedLimiter::reserve`], in the key's tier.
    ///
    /// # Errors
    /// The denial.
    ///
    /// ```
    /// # use tollgate::{ManualClock, Quota, Tiers, Timestamp};
    /// # let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
    /// # let by_id = |id: &u64| usize::from(*id > 1_000);
    /// # let limiter = tiers.build_by_with_clock(1_000, by_id, ManualClock::new())?;
    /// # let now = Timestamp::from_secs(7);
    /// # use std::time::Duration;
    /// let hour = Duration::from_secs(3_600);
    /// assert_eq!(limiter.reserve(&7, 1, hour)?.wait(), Duration::ZERO);
    /// assert_eq!(limiter.reserve(&7, 1, hour)?.wait(), hour);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(&self, key: &K, cost: u64, max_wait: Duration) -> Result<Reservation, Denial> {
        self.tier_of(key).reserve(key, cost, max_wait)
    }

    /// As [`KeyedLimiter::reserve_at`], in the key's tier.
    ///
    /// # Errors
    /// The denial.
    ///
    /// ```
    /// # use tollgate::{ManualClock, Quota, Tiers, Timestamp};
    /// # let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
    /// # let by_id = |id: &u64| usize::from(*id > 1_000);
    /// # let limiter = tiers.build_by_with_clock(1_000, by_id, ManualClock::new())?;
    /// # let now = Timestamp::from_secs(7);
    /// # use std::time::Duration;
    /// assert!(limiter.reserve_at(&7, 1, Duration::ZERO, now).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve_at(
        &self,
        key: &K,
        cost: u64,
        max_wait: Duration,
        now: Timestamp,
    ) -> Result<Reservation, Denial> {
        self.tier_of(key).reserve_at(key, cost, max_wait, now)
    }

    /// As [`KeyedLimiter::cancel`], in the key's tier.
    ///
    /// ```
    /// # use tollgate::{ManualClock, Quota, Tiers, Timestamp};
    /// # let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
    /// # let by_id = |id: &u64| usize::from(*id > 1_000);
    /// # let limiter = tiers.build_by_with_clock(1_000, by_id, ManualClock::new())?;
    /// # let now = Timestamp::from_secs(7);
    /// # use std::time::Duration;
    /// let place = limiter.reserve(&7, 1, Duration::ZERO)?;
    /// assert!(limiter.cancel(&7, place));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self, key: &K, reservation: Reservation) -> bool {
        self.tier_of(key).cancel(key, reservation)
    }

    /// As [`KeyedLimiter::cancel_at`], in the key's tier.
    ///
    /// ```
    /// # use tollgate::{ManualClock, Quota, Tiers, Timestamp};
    /// # let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
    /// # let by_id = |id: &u64| usize::from(*id > 1_000);
    /// # let limiter = tiers.build_by_with_clock(1_000, by_id, ManualClock::new())?;
    /// # let now = Timestamp::from_secs(7);
    /// # use std::time::Duration;
    /// let place = limiter.reserve_at(&7, 1, Duration::ZERO, now)?;
    /// assert!(limiter.cancel_at(&7, place, now));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_at(&self, key: &K, reservation: Reservation, now: Timestamp) -> bool {
        self.tier_of(key).cancel_at(key, reservation, now)
    }

    /// As [`KeyedLimiter::reset`], in the key's tier.
    ///
    /// ```
    /// # use tollgate::{ManualClock, Quota, Tiers, Timestamp};
    /// # let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
    /// # let by_id = |id: &u64| usize::from(*id > 1_000);
    /// # let limiter = tiers.build_by_with_clock(1_000, by_id, ManualClock::new())?;
    /// # let now = Timestamp::from_secs(7);
    /// assert!(limiter.check(&7, 1).is_allowed());
    /// limiter.reset(&7);
    /// assert!(limiter.check(&7, 1).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset(&self, key: &K) {
        self.tier_of(key).reset(key)
    }

    /// As [`KeyedLimiter::reset_at`], in the key's tier.
    ///
    /// ```
    /// # use tollgate::{ManualClock, Quota, Tiers, Timestamp};
    /// # let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
    /// # let by_id = |id: &u64| usize::from(*id > 1_000);
    /// # let limiter = tiers.build_by_with_clock(1_000, by_id, ManualClock::new())?;
    /// # let now = Timestamp::from_secs(7);
    /// assert!(limiter.check_at(&7, 1, now).is_allowed());
    /// limiter.reset_at(&7, now);
    /// assert!(limiter.check_at(&7, 1, now).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset_at(&self, key: &K, now: Timestamp) {
        self.tier_of(key).reset_at(key, now)
    }

    /// As [`KeyedLimiter::toll`], in the key's tier: for [`check_all`](crate::check_all).
    ///
    /// ```
    /// # use tollgate::{Quota, Tiers, check_all};
    /// # let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
    /// # let limiter = tiers.build_by(1_000, |id: &u64| usize::from(*id > 1_000))?;
    /// assert!(check_all(&mut [limiter.toll(&7, 1), limiter.toll(&2_000, 50)]).is_allowed());
    /// assert!(!check_all(&mut [limiter.toll(&7, 1), limiter.toll(&3_000, 1)]).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn toll(&self, key: &K, cost: u64) -> Toll<'_> {
        self.tier_of(key).toll(key, cost)
    }
}

impl<K: ?Sized, F> fmt::Debug for TieredLimiter<K, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TieredLimiter").field("limiter", &self.limiter).finish_non_exhaustive()
    }
}
