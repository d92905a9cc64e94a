//! The verbs of a keyed limiter, under one of its quotas.

use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use crate::acquire::Wait;
use crate::all::Toll;
use crate::clock::Timestamp;
use crate::decision::{Decision, Denial, Permit};
use crate::keyed::amend::Amendment;
use crate::keyed::verbs::uncharged;
use crate::reservation::Reservation;
use crate::verb::Verb;

use super::Tier;

impl<'a, K: Hash + ?Sized, S: BuildHasher> Tier<'a, K, S> {
    /// As [`KeyedLimiter::check`](crate::KeyedLimiter::check).
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota, Tiers};
    /// # let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_hour(2)).build(1_000)?;
    /// let tier = limiter.tier(0)?;
    /// assert!(tier.check("alice", 2).is_allowed());
    /// assert!(!tier.check("alice", 1).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self, key: &K, cost: u64) -> Decision {
        self.limiter.decide((key, self.tier), cost, None, cost > 0)
    }

    /// As [`KeyedLimiter::check_at`](crate::KeyedLimiter::check_at).
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota, Tiers, Timestamp};
    /// # let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_minute(1)).build(1_000)?;
    /// let tier = limiter.tier(0)?;
    /// let at = |second| tier.check_at("alice", 1, Timestamp::from_secs(second)).is_allowed();
    /// assert_eq!([at(0), at(59), at(60)], [true, false, true]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_at(&self, key: &K, cost: u64, now: Timestamp) -> Decision {
        self.limiter.decide((key, self.tier), cost, Some(now), cost > 0)
    }

    /// As [`KeyedLimiter::peek`](crate::KeyedLimiter::peek).
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota, Tiers};
    /// # let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_hour(2)).build(1_000)?;
    /// assert_eq!(limiter.tier(0)?.peek("alice", 1).remaining(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peek(&self, key: &K, cost: u64) -> Decision {
        self.limiter.decide((key, self.tier), cost, None, false)
    }

    /// As [`KeyedLimiter::peek_at`](crate::KeyedLimiter::peek_at).
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota, Tiers, Timestamp};
    /// # let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_hour(2)).build(1_000)?;
    /// assert!(limiter.tier(0)?.peek_at("alice", 2, Timestamp::from_secs(7)).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peek_at(&self, key: &K, cost: u64, now: Timestamp) -> Decision {
        self.limiter.decide((key, self.tier), cost, Some(now), false)
    }

    /// As [`KeyedLimiter::take_up_to`](crate::KeyedLimiter::take_up_to).
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota, Tiers};
    /// # let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_hour(2)).build(1_000)?;
    /// let taken = limiter.tier(0)?.take_up_to("alice", 7).into_result()?;
    /// assert_eq!(taken.cost(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn take_up_to(&self, key: &K, cost: u64) -> Decision {
        self.limiter.wish_in((key, self.tier), Verb::UpTo, cost, None)
    }

    /// As [`KeyedLimiter::take_up_to_at`](crate::KeyedLimiter::take_up_to_at).
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota, Tiers, Timestamp};
    /// # let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_hour(2)).build(1_000)?;
    /// assert!(limiter.tier(0)?.take_up_to_at("alice", 7, Timestamp::from_secs(7)).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn take_up_to_at(&self, key: &K, cost: u64, now: Timestamp) -> Decision {
        self.limiter.wish_in((key, self.tier), Verb::UpTo, cost, Some(now))
    }

    /// As [`KeyedLimiter::charge`](crate::KeyedLimiter::charge).
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota, Tiers};
    /// # let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_hour(2)).build(1_000)?;
    /// let tier = limiter.tier(0)?;
    /// assert_eq!(tier.charge("alice", 3), 0);
    /// assert!(!tier.check("alice", 1).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "what was not charged is not limited"]
    pub fn charge(&self, key: &K, cost: u64) -> u64 {
        uncharged(cost, self.limiter.wish_in((key, self.tier), Verb::Charge, cost, None))
    }

    /// As [`KeyedLimiter::charge_at`](crate::KeyedLimiter::charge_at).
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota, Tiers, Timestamp};
    /// # let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_hour(2)).build(1_000)?;
    /// assert_eq!(limiter.tier(0)?.charge_at("alice", 5, Timestamp::from_secs(7)), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "what was not charged is not limited"]
    pub fn charge_at(&self, key: &K, cost: u64, now: Timestamp) -> u64 {
        uncharged(cost, self.limiter.wish_in((key, self.tier), Verb::Charge, cost, Some(now)))
    }

    /// As [`KeyedLimiter::refund`](crate::KeyedLimiter::refund). A permit of before a change of the quota gives
    /// nothing back, also if the quota has been changed back since.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, ManualClock, Quota, Tiers};
    /// # let tiers = Tiers::of(Quota::per_hour(9));
    /// # let limiter: KeyedLimiter<str> = tiers.build_with_clock(1_000, ManualClock::new())?;
    /// let tier = limiter.tier(0)?;
    /// let permit = tier.check("alice", 9).into_result()?;
    /// assert_eq!(tier.refund("alice", permit.portion(4)), 4);
    /// let permit = tier.check("alice", 4).into_result()?;
    /// tier.set_quota(Quota::per_hour(10))?;
    /// assert_eq!(tier.refund("alice", permit), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund(&self, key: &K, permit: Permit) -> u64 {
        let refund = permit.charge().map(Amendment::Refund);
        refund.map_or(0, |refund| self.amend(key, || self.limiter.now(), refund))
    }

    /// As [`KeyedLimiter::refund_at`](crate::KeyedLimiter::refund_at).
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota, Tiers, Timestamp};
    /// # let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_hour(9)).build(1_000)?;
    /// let (tier, now) = (limiter.tier(0)?, Timestamp::from_secs(7));
    /// let permit = tier.check_at("alice", 9, now).into_result()?;
    /// assert_eq!(tier.refund_at("alice", permit, now), 9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund_at(&self, key: &K, permit: Permit, now: Timestamp) -> u64 {
        let refund = permit.charge().map(Amendment::Refund);
        refund.map_or(0, |refund| self.amend(key, || now, refund))
    }

    /// As [`KeyedLimiter::reserve`](crate::KeyedLimiter::reserve).
    ///
    /// # Errors
    /// The denial.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{KeyedLimiter, ManualClock, Quota, Tiers};
    /// # let tiers = Tiers::of(Quota::per_second(2));
    /// # let limiter: KeyedLimiter<str> = tiers.build_with_clock(1_000, ManualClock::new())?;
    /// let tier = limiter.tier(0)?;
    /// assert!(tier.check("alice", 2).is_allowed());
    /// let place = tier.reserve("alice", 1, Duration::from_secs(1))?;
    /// assert_eq!(place.wait(), Duration::from_millis(500));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(&self, key: &K, cost: u64, max_wait: Duration) -> Result<Reservation, Denial> {
        self.reserved(key, cost, max_wait, None)
    }

    /// As [`KeyedLimiter::reserve_at`](crate::KeyedLimiter::reserve_at).
    ///
    /// # Errors
    /// The denial.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{KeyedLimiter, Quota, Tiers, Timestamp};
    /// # let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_second(2)).build(1_000)?;
    /// let (tier, now) = (limiter.tier(0)?, Timestamp::from_secs(7));
    /// assert!(tier.reserve_at("alice", 2, Duration::ZERO, now).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve_at(
        &self,
        key: &K,
        cost: u64,
        max_wait: Duration,
        now: Timestamp,
    ) -> Result<Reservation, Denial> {
        self.reserved(key, cost, max_wait, Some(now))
    }

    fn reserved(
        &self,
        key: &K,
        cost: u64,
        max_wait: Duration,
        now: Option<Timestamp>,
    ) -> Result<Reservation, Denial> {
        let verb = Wait::at_most(max_wait).verb();
        let decision = self.limiter.wish_in((key, self.tier), verb, cost, now);
        decision.into_result().map(Reservation::new)
    }

    /// As [`KeyedLimiter::cancel`](crate::KeyedLimiter::cancel). Not after the quota has changed.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{KeyedLimiter, Quota, Tiers};
    /// # let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_hour(2)).build(1_000)?;
    /// let tier = limiter.tier(0)?;
    /// let place = tier.reserve("alice", 2, Duration::ZERO)?;
    /// assert!(tier.cancel("alice", place));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self, key: &K, reservation: Reservation) -> bool {
        self.undo(key, reservation, || self.limiter.now())
    }

    /// As [`KeyedLimiter::cancel_at`](crate::KeyedLimiter::cancel_at).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{KeyedLimiter, Quota, Tiers, Timestamp};
    /// # let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_hour(2)).build(1_000)?;
    /// let (tier, now) = (limiter.tier(0)?, Timestamp::from_secs(7));
    /// let place = tier.reserve_at("alice", 2, Duration::ZERO, now)?;
    /// assert!(tier.cancel_at("alice", place, now));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_at(&self, key: &K, reservation: Reservation, now: Timestamp) -> bool {
        self.undo(key, reservation, || now)
    }

    #[expect(clippy::needless_pass_by_value, reason = "what is cancelled is gone")]
    fn undo(&self, key: &K, reservation: Reservation, now: impl Fn() -> Timestamp) -> bool {
        let undo = reservation.permit().charge().map(Amendment::Undo);
        undo.is_some_and(|undo| self.amend(key, now, undo) > 0)
    }

    /// As [`KeyedLimiter::reset`](crate::KeyedLimiter::reset): of this tier's quota alone.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota, Tiers};
    /// # let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_hour(2)).build(1_000)?;
    /// let tier = limiter.tier(0)?;
    /// assert!(tier.check("alice", 2).is_allowed());
    /// tier.reset("alice");
    /// assert!(tier.check("alice", 2).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset(&self, key: &K) {
        self.reset_at(key, self.limiter.now());
    }

    /// As [`KeyedLimiter::reset_at`](crate::KeyedLimiter::reset_at).
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota, Tiers, Timestamp};
    /// # let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_hour(2)).build(1_000)?;
    /// let (tier, now) = (limiter.tier(0)?, Timestamp::from_secs(7));
    /// assert!(tier.check_at("alice", 2, now).is_allowed());
    /// tier.reset_at("alice", now);
    /// assert!(tier.check_at("alice", 2, now).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset_at(&self, key: &K, now: Timestamp) {
        self.amend(key, || now, Amendment::Reset);
    }

    /// As [`KeyedLimiter::toll`](crate::KeyedLimiter::toll), for [`check_all`](crate::check_all). A toll that is
    /// undone after others have charged the key stays charged until it has drained.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota, Tiers, check_all};
    /// # let tiers = Tiers::of(Quota::per_hour(2)).and(Quota::per_day(9));
    /// # let limiter: KeyedLimiter<str> = tiers.build(1_000)?;
    /// let [hourly, daily] = [limiter.tier(0)?, limiter.tier(1)?];
    /// assert!(check_all(&mut [hourly.toll("alice", 2), daily.toll("alice", 2)]).is_allowed());
    /// assert!(!check_all(&mut [hourly.toll("alice", 1), daily.toll("alice", 1)]).is_allowed());
    /// assert_eq!(daily.peek("alice", 1).remaining(), 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn toll(&self, key: &K, cost: u64) -> Toll<'a> {
        Toll::of_place(self.limiter.place_in(key, self.tier), cost)
    }

    fn amend(&self, key: &K, now: impl Fn() -> Timestamp, amendment: Amendment<'_>) -> u64 {
        self.limiter.amend_in((key, self.tier), now, amendment)
    }
}
