//! The verbs of a [`KeyedLimiter`] beside `check` and `peek`: those of a [`Limiter`](crate::Limiter), for
//! one key.

use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use crate::acquire::Wait;
use crate::clock::Timestamp;
use crate::decision::{Decision, Denial, Permit};
use crate::reservation::Reservation;
use crate::verb::Verb;

use super::KeyedLimiter;
use super::amend::Amendment;
use super::table::Ask;

impl<K: Hash + ?Sized, S: BuildHasher> KeyedLimiter<K, S> {
    /// Admits as much of `cost` as fits, and says how much: the [`cost`](Permit::cost) of the permit.
    /// Denied if not even one unit fits; then the answers are those for one unit.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, ManualClock, Quota};
    /// let limiter = KeyedLimiter::with_clock(Quota::per_minute(10), 1_000, ManualClock::new())?;
    /// let taken = || limiter.take_up_to("alice", 7).into_result().map(|permit| permit.cost()).ok();
    /// assert_eq!([taken(), taken(), taken()], [Some(7), Some(3), None]);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn take_up_to(&self, key: &K, cost: u64) -> Decision {
        self.wish(key, Verb::UpTo, cost, None)
    }

    /// [`take_up_to`](KeyedLimiter::take_up_to) at a time of the caller's.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota, Timestamp};
    /// let limiter = KeyedLimiter::new(Quota::per_minute(10), 1_000)?;
    /// assert!(limiter.take_up_to_at("alice", 70, Timestamp::from_secs(7)).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn take_up_to_at(&self, key: &K, cost: u64, now: Timestamp) -> Decision {
        self.wish(key, Verb::UpTo, cost, Some(now))
    }

    /// Charges `cost` whether it fits or not, and returns how much of it could not be charged.
    ///
    /// Under GCRA the key goes into debt. A keyed word remembers a debt of up to twice the burst; what
    /// would go beyond is not charged. A window's count cannot exceed its limit. A new key for which the
    /// table has no cell is charged in the spill; where there is none
    /// ([`Full::Deny`](crate::Full::Deny)), not at all.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, ManualClock, Quota};
    /// let limiter = KeyedLimiter::with_clock(Quota::per_second(10), 1_000, ManualClock::new())?;
    /// assert!(limiter.check("alice", 1).is_allowed());
    /// assert_eq!(limiter.charge("alice", 14), 0);
    /// let denial = limiter.check("alice", 1).into_result().unwrap_err();
    /// assert_eq!(denial.retry_after().map(|wait| wait.as_millis()), Some(600));
    /// assert_eq!(limiter.charge("alice", 8), 3);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use = "what was not charged is not limited"]
    pub fn charge(&self, key: &K, cost: u64) -> u64 {
        uncharged(cost, self.wish(key, Verb::Charge, cost, None))
    }

    /// [`charge`](KeyedLimiter::charge) at a time of the caller's.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota, Timestamp};
    /// let limiter = KeyedLimiter::new(Quota::per_minute(10), 1_000)?;
    /// assert_eq!(limiter.charge_at("alice", 21, Timestamp::from_secs(7)), 1);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use = "what was not charged is not limited"]
    pub fn charge_at(&self, key: &K, cost: u64, now: Timestamp) -> u64 {
        uncharged(cost, self.wish(key, Verb::Charge, cost, Some(now)))
    }

    /// Gives back what a permit of this key has charged, and returns how many units that was, rounded up. As
    /// [`Limiter::refund`](crate::Limiter::refund): what has drained meanwhile does not come back. Nor does
    /// what was charged in the spill ([`Permit::is_spilled`]).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{KeyedLimiter, ManualClock, Quota};
    /// let clock = ManualClock::new();
    /// let quota = Quota::per_second(1).burst(10);
    /// let limiter = KeyedLimiter::with_clock(quota, 1_000, clock.clone())?;
    /// let permit = limiter.check("alice", 8).into_result().expect("the first");
    /// clock.advance(Duration::from_secs(3));
    /// assert_eq!(limiter.refund("alice", permit), 5);
    /// assert_eq!(limiter.peek("alice", 1).remaining(), 10);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn refund(&self, key: &K, permit: Permit) -> u64 {
        let refund = permit.charge().map(Amendment::Refund);
        refund.map_or(0, |refund| self.amend(key, || self.clock.now(), refund))
    }

    /// [`refund`](KeyedLimiter::refund) at a time of the caller's. It must not lie before that of any other
    /// charge of the key.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota, Timestamp};
    /// let limiter = KeyedLimiter::new(Quota::per_hour(5), 1_000)?;
    /// let now = Timestamp::from_secs(9);
    /// let permit = limiter.check_at("alice", 5, now).into_result().expect("the first");
    /// assert_eq!(limiter.refund_at("alice", permit.portion(2), now), 2);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn refund_at(&self, key: &K, permit: Permit, now: Timestamp) -> u64 {
        let refund = permit.charge().map(Amendment::Refund);
        refund.map_or(0, |refund| self.amend(key, || now, refund))
    }

    /// Charges `cost` now and says from when on it may be used, if that is no later than `max_wait`. As
    /// [`Limiter::reserve`](crate::Limiter::reserve), but a keyed word remembers a debt of no more than
    /// twice the burst: nothing waits longer than the burst takes to come back. A key that has no cell
    /// ([`Full::Spill`](crate::Full::Spill)) gets a place only if it can be used at once.
    ///
    /// # Errors
    /// The denial, as a check's. Its wait is that until a *check* of this cost is admitted.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{KeyedLimiter, ManualClock, Quota};
    /// let limiter = KeyedLimiter::with_clock(Quota::per_second(2), 1_000, ManualClock::new())?;
    /// let second = Duration::from_secs(1);
    /// assert!(limiter.check("alice", 2).is_allowed());
    /// let place = limiter.reserve("alice", 1, second).expect("in half a second");
    /// assert_eq!(place.wait(), Duration::from_millis(500));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn reserve(&self, key: &K, cost: u64, max_wait: Duration) -> Result<Reservation, Denial> {
        self.wish(key, Wait::at_most(max_wait).verb(), cost, None)
            .into_result()
            .map(Reservation::new)
    }

    /// [`reserve`](KeyedLimiter::reserve) at a time of the caller's.
    ///
    /// # Errors
    /// As [`reserve`](KeyedLimiter::reserve).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{KeyedLimiter, Quota, Timestamp};
    /// let limiter = KeyedLimiter::new(Quota::per_second(2), 1_000)?;
    /// let now = Timestamp::from_secs(9);
    /// assert!(limiter.reserve_at("alice", 2, Duration::ZERO, now).is_ok());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn reserve_at(
        &self,
        key: &K,
        cost: u64,
        max_wait: Duration,
        now: Timestamp,
    ) -> Result<Reservation, Denial> {
        self.wish(key, Wait::at_most(max_wait).verb(), cost, Some(now))
            .into_result()
            .map(Reservation::new)
    }

    /// Gives a reservation's place back if no request has queued up behind it, and says whether it did. As
    /// [`Limiter::cancel`](crate::Limiter::cancel): not what has drained since its turn.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{KeyedLimiter, Quota};
    /// let limiter = KeyedLimiter::new(Quota::per_hour(2), 1_000)?;
    /// let place = limiter.reserve("alice", 2, Duration::ZERO).expect("the first");
    /// assert!(limiter.cancel("alice", place));
    /// assert!(limiter.check("alice", 2).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn cancel(&self, key: &K, reservation: Reservation) -> bool {
        self.undo(key, reservation, || self.clock.now())
    }

    /// [`cancel`](KeyedLimiter::cancel) at a time of the caller's. It must not lie before that of any other
    /// charge of the key.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{KeyedLimiter, Quota, Timestamp};
    /// let limiter = KeyedLimiter::new(Quota::per_hour(2), 1_000)?;
    /// let now = Timestamp::from_secs(9);
    /// let place = limiter.reserve_at("alice", 1, Duration::ZERO, now).expect("the first");
    /// assert!(limiter.check_at("alice", 1, now).is_allowed());
    /// // Another request has queued up behind it.
    /// assert!(!limiter.cancel_at("alice", place, now));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn cancel_at(&self, key: &K, reservation: Reservation, now: Timestamp) -> bool {
        self.undo(key, reservation, || now)
    }

    /// Forgets what the key was charged in its cell. What it was charged without one, in the spill, drains.
    /// As with [`Limiter::reset`](crate::Limiter::reset), permits and reservations of before stand for nothing.
    ///
    /// Keys whose tags are equal and that share their shards share one word (see
    /// [`Stats::collision_probability`](crate::Stats)): the other one's limit is reset, too.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota};
    /// let limiter = KeyedLimiter::new(Quota::per_hour(1), 1_000)?;
    /// assert!(limiter.check("alice", 1).is_allowed());
    /// limiter.reset("alice");
    /// assert!(limiter.check("alice", 1).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn reset(&self, key: &K) {
        self.reset_at(key, self.clock.now());
    }

    /// [`reset`](KeyedLimiter::reset) at a time of the caller's. Requests with an earlier time still wait
    /// until then.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota, Timestamp};
    /// let limiter = KeyedLimiter::new(Quota::per_hour(1), 1_000)?;
    /// let now = Timestamp::from_secs(9);
    /// assert!(limiter.check_at("alice", 1, now).is_allowed());
    /// limiter.reset_at("alice", now);
    /// assert!(limiter.check_at("alice", 1, now).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn reset_at(&self, key: &K, now: Timestamp) {
        self.amend(key, || now, Amendment::Reset);
    }

    #[expect(clippy::needless_pass_by_value, reason = "what is cancelled is gone")]
    fn undo(&self, key: &K, reservation: Reservation, now: impl Fn() -> Timestamp) -> bool {
        let undo = reservation.permit().charge().map(Amendment::Undo);
        undo.is_some_and(|undo| self.amend(key, now, undo) > 0)
    }

    fn amend(&self, key: &K, now: impl Fn() -> Timestamp, amendment: Amendment<'_>) -> u64 {
        self.amend_in((key, 0), now, amendment)
    }

    /// Amends the word of a key of a tier.
    pub(super) fn amend_in(
        &self,
        (key, tier): (&K, u8),
        now: impl Fn() -> Timestamp,
        amendment: Amendment<'_>,
    ) -> u64 {
        let identity = self.find_in(key, tier);
        let second = self.second(identity);
        self.table.amend(identity, second, &now, amendment)
    }

    /// A check whose denial is not counted yet, where the policy counts them: [`refuse`] does so.
    ///
    /// [`refuse`]: KeyedLimiter::refuse
    #[inline]
    pub(crate) fn try_check(&self, key: &K, cost: u64, now: Option<Timestamp>) -> Decision {
        match now {
            _ if self.table.layout.rules.count_denials() => self.wish(key, Verb::Try, cost, now),
            Some(now) => self.check_at(key, cost, now),
            None => self.check(key, cost),
        }
    }

    /// Counts the denial of a request that was only asked for, and tells of it; `None` if that is none.
    pub(crate) fn refuse(&self, key: &K, cost: u64, now: Option<Timestamp>) -> Option<Decision> {
        if !self.table.layout.rules.count_denials() {
            return None;
        }
        self.place(key).refuse(cost, now.unwrap_or_else(|| self.now()))
    }

    pub(crate) fn wish(&self, key: &K, verb: Verb, cost: u64, now: Option<Timestamp>) -> Decision {
        self.wish_in((key, 0), verb, cost, now)
    }

    /// What comes of a wish for a key of a tier.
    pub(super) fn wish_in(
        &self,
        (key, tier): (&K, u8),
        verb: Verb,
        cost: u64,
        now: Option<Timestamp>,
    ) -> Decision {
        let identity = self.find_in(key, tier);
        let first = self.table.shard(identity.first);
        let (now, clock) = self.time(now);
        let ask = Ask { now_ns: now.as_nanos(), cost, charge: cost > 0, verb, tier };
        self.answer(identity, first, ask, clock)
    }
}

/// What of a cost was not charged.
pub(super) fn uncharged(cost: u64, decision: Decision) -> u64 {
    match decision {
        Decision::Allowed(permit) => cost - permit.cost(),
        Decision::Denied(_) => cost,
    }
}
