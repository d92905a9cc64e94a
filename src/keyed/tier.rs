//! [`Tier`]: the verbs of a keyed limiter, under one of its quotas.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use ahash::RandomState;

use crate::acquire::Wait;
use crate::all::Toll;
use crate::change::ChangeError;
use crate::clock::Timestamp;
use crate::decision::{Decision, Denial, Permit};
use crate::policy::Policy;
use crate::reservation::Reservation;
use crate::verb::Verb;

use super::KeyedLimiter;
use super::amend::Amendment;
use super::verbs::uncharged;

/// One quota of a [`KeyedLimiter`] with several: see [`Tiers`](crate::Tiers).
///
/// ```
/// use tollgate::{KeyedLimiter, Quota, Tiers};
/// let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
/// let limiter: KeyedLimiter<str> = tiers.build(1_000)?;
/// let paid = limiter.tier(1)?;
/// assert!(paid.check("alice", 50).is_allowed());
/// // Of the other quota she has used nothing.
/// assert!(limiter.check("alice", 1).is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Tier<'a, K: ?Sized, S = RandomState> {
    limiter: &'a KeyedLimiter<K, S>,
    tier: u8,
}

impl<K: Hash + ?Sized, S: BuildHasher> KeyedLimiter<K, S> {
    /// The tier of this number, from 0.
    ///
    /// # Errors
    /// There is none. A limiter that was built without [`Tiers`](crate::Tiers) has one, tier 0.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota, Tiers};
    /// let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_second(5)).build(1_000)?;
    /// assert!(limiter.tier(0)?.check("alice", 5).is_allowed());
    /// assert_eq!(limiter.tier(3).unwrap_err().to_string(), "there is no tier 3; use 0 to 0");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tier(&self, tier: usize) -> Result<Tier<'_, K, S>, ChangeError> {
        let tiers = self.tiers();
        let found = u8::try_from(tier).ok().filter(|_| tier < tiers);
        let tier = found.ok_or(ChangeError::NoSuchTier { tier, tiers })?;
        Ok(Tier { limiter: self, tier })
    }

    /// How many tiers there are.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota, Tiers};
    /// let quota = Quota::per_second(5);
    /// assert_eq!(Tiers::of(quota).and(quota).build::<str>(1_000)?.tiers(), 2);
    /// assert_eq!(KeyedLimiter::<str>::new(quota, 1_000)?.tiers(), 1);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn tiers(&self) -> usize {
        self.table.book.as_ref().map_or(1, |book| book.tiers())
    }
}

impl<'a, K: Hash + ?Sized, S: BuildHasher> Tier<'a, K, S> {
    /// As [`KeyedLimiter::check`].
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

    /// As [`KeyedLimiter::check_at`].
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

    /// As [`KeyedLimiter::peek`].
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

    /// As [`KeyedLimiter::peek_at`].
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

    /// As [`KeyedLimiter::take_up_to`].
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

    /// As [`KeyedLimiter::take_up_to_at`].
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

    /// As [`KeyedLimiter::charge`].
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

    /// As [`KeyedLimiter::charge_at`].
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

    /// As [`KeyedLimiter::refund`]. A permit of before a change of the quota gives nothing back.
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
        let now = || self.limiter.now();
        refund.and_then(|refund| self.amend(key, now, refund)).unwrap_or(0)
    }

    /// As [`KeyedLimiter::refund_at`].
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
        refund.and_then(|refund| self.amend(key, || now, refund)).unwrap_or(0)
    }

    /// As [`KeyedLimiter::reserve`].
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

    /// As [`KeyedLimiter::reserve_at`].
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

    /// As [`KeyedLimiter::cancel`]. Not after the quota has changed.
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
        self.cancel_at(key, reservation, self.limiter.now())
    }

    /// As [`KeyedLimiter::cancel_at`].
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
    #[expect(clippy::needless_pass_by_value, reason = "what is cancelled is gone")]
    pub fn cancel_at(&self, key: &K, reservation: Reservation, now: Timestamp) -> bool {
        let undo = reservation.permit().charge().map(Amendment::Undo);
        undo.is_some_and(|undo| self.amend(key, || now, undo).is_some())
    }

    /// As [`KeyedLimiter::reset`]: of this tier's quota alone.
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

    /// As [`KeyedLimiter::reset_at`].
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

    /// As [`KeyedLimiter::toll`], for [`check_all`](crate::check_all). A toll that is undone after others have
    /// charged the key stays charged until it has drained.
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

    pub(super) fn number(&self) -> u8 {
        self.tier
    }

    fn amend(&self, key: &K, now: impl Fn() -> Timestamp, amendment: Amendment<'_>) -> Option<u64> {
        self.limiter.amend_in((key, self.tier), now, amendment)
    }

    /// The quota's limit now: the burst, or the most that its window admits.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota, Tiers};
    /// # let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_hour(2)).build(1_000)?;
    /// assert_eq!(limiter.tier(0)?.limit(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limiter.table.quota_of(self.tier, &mut None).0.kernel.limit()
    }

    /// Changes the quota of this tier. Decisions that begin after this has returned use the new one; one that
    /// is under way uses the one or the other, whole.
    ///
    /// What a key has spent stays spent. Under GCRA its debt drains at the old rate up to the change and at
    /// the new rate after it; what is above the new burst is cut off. So in any time that holds the change
    /// a key is admitted at most *the larger of the two bursts*, and what the old rate gives before the
    /// change and the new one after it, and the old rate's for as long as decisions of before the change
    /// were still under way. A raised burst gives the difference; a lowered one locks nobody out for longer
    /// than it takes to come back, and forgives what is owed above that. A window of the same length keeps its counts, up to the
    /// new limit; where lengths or algorithms differ, what was used of the old limit counts as used of
    /// the new one.
    ///
    /// Goes through the whole table, as [`stats`](KeyedLimiter::stats) does, and waits for nobody: seven
    /// words a shard are read, and each key of this tier is written once.
    ///
    /// # Errors
    /// The limiter was not built with [`Tiers`](crate::Tiers); the quota does not fit in its words (see
    /// [`Tiers::headroom`](crate::Tiers::headroom)); another change is under way. Nothing has changed then.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{KeyedLimiter, ManualClock, Quota, Tiers};
    /// let clock = ManualClock::new();
    /// let tiers = Tiers::of(Quota::per_minute(60));
    /// let limiter: KeyedLimiter<str> = tiers.build_with_clock(1_000, clock.clone())?;
    /// let tier = limiter.tier(0)?;
    /// assert!(tier.check("alice", 40).is_allowed());
    /// clock.advance(Duration::from_secs(10));
    /// tier.set_quota(Quota::per_minute(6).burst(50))?;
    /// assert_eq!(tier.peek("alice", 1).remaining(), 20);
    /// clock.advance(Duration::from_secs(10));
    /// assert_eq!(tier.peek("alice", 1).remaining(), 21);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_quota(&self, policy: impl Into<Policy>) -> Result<(), ChangeError> {
        self.set_quota_at(policy, self.limiter.now())
    }

    /// [`set_quota`](Tier::set_quota) at a time of the caller's. A time before that of the last change
    /// counts as that; one far ahead is believed, as that of a charge is.
    ///
    /// # Errors
    /// As [`set_quota`](Tier::set_quota).
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota, Tiers, Timestamp};
    /// # let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_minute(6)).build(1_000)?;
    /// let (tier, at) = (limiter.tier(0)?, Timestamp::from_secs);
    /// assert!(tier.check_at("alice", 6, at(7)).is_allowed());
    /// tier.set_quota_at(Quota::per_minute(60), at(17))?;
    /// assert_eq!(tier.peek_at("alice", 1, at(17)).remaining(), 55);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_quota_at(
        &self,
        policy: impl Into<Policy>,
        now: Timestamp,
    ) -> Result<(), ChangeError> {
        self.limiter.table.set_quota(self.tier, &policy.into(), now.as_nanos())
    }
}

impl<K: ?Sized, S> Clone for Tier<'_, K, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized, S> Copy for Tier<'_, K, S> {}

impl<K: ?Sized, S> fmt::Debug for Tier<'_, K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tier").field("tier", &self.tier).finish_non_exhaustive()
    }
}
