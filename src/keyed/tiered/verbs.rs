//! The verbs of a keyed limiter, each in the tier that the key is in.

use std::hash::Hash;
use std::time::Duration;

use crate::all::Toll;
use crate::clock::Timestamp;
use crate::decision::{Decision, Denial, Permit};
use crate::reservation::Reservation;

use super::TieredLimiter;

impl<K: Hash + ?Sized, F: Fn(&K) -> usize> TieredLimiter<K, F> {
    /// As [`KeyedLimiter::check`](crate::KeyedLimiter::check), in the key's tier.
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

    /// As [`KeyedLimiter::check_at`](crate::KeyedLimiter::check_at), in the key's tier.
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

    /// As [`KeyedLimiter::peek`](crate::KeyedLimiter::peek), in the key's tier.
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

    /// As [`KeyedLimiter::peek_at`](crate::KeyedLimiter::peek_at), in the key's tier.
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

    /// As [`KeyedLimiter::take_up_to`](crate::KeyedLimiter::take_up_to), in the key's tier.
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

    /// As [`KeyedLimiter::take_up_to_at`](crate::KeyedLimiter::take_up_to_at), in the key's tier.
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

    /// As [`KeyedLimiter::charge`](crate::KeyedLimiter::charge), in the key's tier.
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

    /// As [`KeyedLimiter::charge_at`](crate::KeyedLimiter::charge_at), in the key's tier.
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

    /// As [`KeyedLimiter::refund`](crate::KeyedLimiter::refund), in the key's tier.
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

    /// As [`KeyedLimiter::refund_at`](crate::KeyedLimiter::refund_at), in the key's tier.
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

    /// As [`KeyedLimiter::reserve`](crate::KeyedLimiter::reserve), in the key's tier.
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

    /// As [`KeyedLimiter::reserve_at`](crate::KeyedLimiter::reserve_at), in the key's tier.
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

    /// As [`KeyedLimiter::cancel`](crate::KeyedLimiter::cancel), in the key's tier.
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

    /// As [`KeyedLimiter::cancel_at`](crate::KeyedLimiter::cancel_at), in the key's tier.
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

    /// As [`KeyedLimiter::reset`](crate::KeyedLimiter::reset), in the key's tier.
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
        self.tier_of(key).reset(key);
    }

    /// As [`KeyedLimiter::reset_at`](crate::KeyedLimiter::reset_at), in the key's tier.
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
        self.tier_of(key).reset_at(key, now);
    }

    /// As [`KeyedLimiter::toll`](crate::KeyedLimiter::toll), in the key's tier: for [`check_all`](crate::check_all).
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
