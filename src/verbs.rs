//! The verbs of a [`Limiter`] beside `check` and `peek`. Each is one compare-and-swap on the same word.

use std::time::Duration;

use crate::acquire::Wait;
use crate::clock::Timestamp;
use crate::decision::{Decision, Denial, Permit};
use crate::limiter::Limiter;
use crate::reservation::Reservation;
use crate::verb::Verb;

impl Limiter {
    /// Admits as much of `cost` as fits, and says how much: the [`cost`](Permit::cost) of the permit.
    /// Denied if not even one unit fits; then the answers are those for one unit.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::with_clock(Quota::per_minute(10), ManualClock::new());
    /// assert_eq!(limiter.take_up_to(7).into_result()?.cost(), 7);
    /// assert_eq!(limiter.take_up_to(7).into_result()?.cost(), 3);
    /// let denial = limiter.take_up_to(7).into_result().unwrap_err();
    /// assert_eq!(denial.retry_after().map(|wait| wait.as_secs()), Some(6));
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    pub fn take_up_to(&self, cost: u64) -> Decision {
        self.take_up_to_at(cost, self.now())
    }

    /// [`take_up_to`](Limiter::take_up_to) at a time of the caller's.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota, Timestamp};
    /// let limiter = Limiter::new(Quota::per_second(10));
    /// let permit = limiter.take_up_to_at(70, Timestamp::from_secs(7)).into_result()?;
    /// assert_eq!(permit.cost(), 10);
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    pub fn take_up_to_at(&self, cost: u64, now: Timestamp) -> Decision {
        self.wish(Verb::UpTo, cost, now)
    }

    /// Charges `cost` whether it fits or not, and returns how much of it could not be charged: 0 but for
    /// the cases below. For a cost that is known only afterwards: check with an estimate, settle the rest.
    ///
    /// Under GCRA the limit goes into debt: it admits nothing until the debt has drained below the burst.
    /// A debt is remembered up to 2^63 ticks, that is for more than 200 years if a tick is a nanosecond; under a
    /// policy with a penalty for less, since the word counts denials, too.
    /// A window's count cannot exceed its limit: what does not fit in is not charged.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::with_clock(Quota::per_second(10), ManualClock::new());
    /// assert!(limiter.check(1).is_allowed());
    /// // The request turned out to be worth 40 units.
    /// assert_eq!(limiter.charge(39), 0);
    /// let denial = limiter.check(1).into_result().unwrap_err();
    /// assert_eq!(denial.retry_after().map(|wait| wait.as_millis()), Some(3_100));
    /// ```
    #[must_use = "what was not charged is not limited"]
    pub fn charge(&self, cost: u64) -> u64 {
        self.charge_at(cost, self.now())
    }

    /// [`charge`](Limiter::charge) at a time of the caller's.
    ///
    /// ```
    /// use tollgate::{Limiter, Policy, Timestamp};
    /// let limiter = Limiter::new("fixed-window 10/m".parse::<Policy>()?);
    /// assert_eq!(limiter.charge_at(12, Timestamp::from_secs(5)), 2);
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    #[must_use = "what was not charged is not limited"]
    pub fn charge_at(&self, cost: u64, now: Timestamp) -> u64 {
        match self.wish(Verb::Charge, cost, now) {
            Decision::Allowed(permit) => cost - permit.cost(),
            Decision::Denied(_) => cost,
        }
    }

    /// Gives back what a permit of this limiter has charged, and returns how many units that was, rounded up:
    /// of the last one some may have drained. [`Permit::portion`] makes a permit for some of its units.
    ///
    /// What has drained meanwhile cannot be given back: under GCRA that is `rate * (now - then)` units; a
    /// window gives back only while it is the one that was charged (the segment, if it has those). A
    /// permit of a peek, or of a limiter with another policy, gives back nothing.
    ///
    /// A permit stands for one charge: to refund it twice is to forgive another one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let clock = ManualClock::new();
    /// let limiter = Limiter::with_clock(Quota::per_second(1).burst(10), clock.clone());
    /// let permit = limiter.check(8).into_result()?;
    /// clock.advance(Duration::from_secs(3));
    /// assert_eq!(limiter.refund(permit), 5);
    /// assert_eq!(limiter.peek(1).remaining(), 10);
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    pub fn refund(&self, permit: Permit) -> u64 {
        let (cell, meter) = self.parts();
        permit.charge().map_or(0, |charge| cell.give_back(meter, charge, || self.now()))
    }

    /// [`refund`](Limiter::refund) at a time of the caller's. It must not lie before that of any other charge:
    /// what had drained before that one would be given back, too.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota, Timestamp};
    /// let limiter = Limiter::new(Quota::per_second(1).burst(10));
    /// let permit = limiter.check_at(8, Timestamp::from_secs(1)).into_result()?;
    /// assert_eq!(limiter.refund_at(permit, Timestamp::from_secs(1)), 8);
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    pub fn refund_at(&self, permit: Permit, now: Timestamp) -> u64 {
        let (cell, meter) = self.parts();
        permit.charge().map_or(0, |charge| cell.give_back(meter, charge, || now))
    }

    /// Charges `cost` now and says from when on it may be used, if that is no later than `max_wait`.
    ///
    /// Under GCRA the request takes the next place in the queue: it is admitted iff the debt with it is
    /// at most `burst + rate * max_wait`, so also a cost above the burst may be. In any interval of
    /// length W units become usable at most `rate * W` times and once the burst, or once the first
    /// request's cost if that is larger. Under a window there is no future to reserve: it fits now or is
    /// denied.
    ///
    /// # Errors
    /// The denial, as a check's. Its wait is that until a *check* of this cost is admitted.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::with_clock(Quota::per_second(2).burst(1), ManualClock::new());
    /// let second = Duration::from_secs(1);
    /// let waits: Vec<_> = (0..4).filter_map(|_| limiter.reserve(1, second).ok()).collect();
    /// assert_eq!(waits.iter().map(|place| place.wait().as_millis()).collect::<Vec<_>>(), [0, 500, 1_000]);
    /// ```
    pub fn reserve(&self, cost: u64, max_wait: Duration) -> Result<Reservation, Denial> {
        self.reserve_at(cost, max_wait, self.now())
    }

    /// [`reserve`](Limiter::reserve) at a time of the caller's.
    ///
    /// # Errors
    /// As [`reserve`](Limiter::reserve).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, Quota, Timestamp};
    /// let limiter = Limiter::new(Quota::per_minute(60).burst(1));
    /// // Five units at once, from a bucket of one: as soon as a bucket of five had them.
    /// let place = limiter.reserve_at(5, Duration::from_secs(10), Timestamp::from_secs(100))?;
    /// assert_eq!(place.ready_at(), Timestamp::from_secs(104));
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    pub fn reserve_at(
        &self,
        cost: u64,
        max_wait: Duration,
        now: Timestamp,
    ) -> Result<Reservation, Denial> {
        self.wish(Wait::at_most(max_wait).verb(), cost, now).into_result().map(Reservation::new)
    }

    /// Gives a reservation's place back if no request has queued up behind it, and says whether it did: before
    /// its turn ([`Reservation::ready_at`]) all of it, so that the limit is as if it had not been made, and
    /// afterwards what has not drained since. Otherwise it stays charged, since the places behind it are
    /// promised.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::with_clock(Quota::per_second(1), ManualClock::new());
    /// let minute = Duration::from_secs(60);
    /// let [first, second] = [limiter.reserve(1, minute)?, limiter.reserve(1, minute)?];
    /// assert!(!limiter.cancel(first));
    /// assert!(limiter.cancel(second));
    /// assert_eq!(limiter.reserve(1, minute)?.wait(), Duration::from_secs(1));
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    pub fn cancel(&self, reservation: Reservation) -> bool {
        self.undo(reservation, || self.now())
    }

    /// [`cancel`](Limiter::cancel) at a time of the caller's. As with [`refund_at`](Limiter::refund_at), it must
    /// not lie before that of any other charge.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, Quota, Timestamp};
    /// let limiter = Limiter::new(Quota::per_second(1));
    /// let at = Timestamp::from_secs(9);
    /// let place = limiter.reserve_at(1, Duration::ZERO, at)?;
    /// assert!(limiter.cancel_at(place, at));
    /// assert_eq!(limiter.peek_at(1, at).remaining(), 1);
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    pub fn cancel_at(&self, reservation: Reservation, now: Timestamp) -> bool {
        self.undo(reservation, || now)
    }

    /// Forgets what was charged: from now on the limit is as never used. Permits and reservations of before
    /// it stand for nothing any more: to give them back is to forgive a later charge.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(1));
    /// assert!(limiter.check(1).is_allowed());
    /// limiter.reset();
    /// assert!(limiter.check(1).is_allowed());
    /// ```
    pub fn reset(&self) {
        self.reset_at(self.now());
    }

    /// [`reset`](Limiter::reset) at a time of the caller's. Requests with an earlier time still wait
    /// until then.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota, Timestamp};
    /// let limiter = Limiter::new(Quota::per_hour(1));
    /// let at = Timestamp::from_secs(50);
    /// assert!(limiter.check_at(1, at).is_allowed());
    /// limiter.reset_at(at);
    /// assert!(limiter.check_at(1, at).is_allowed());
    /// ```
    pub fn reset_at(&self, now: Timestamp) {
        let (cell, meter) = self.parts();
        cell.reset(meter, now);
    }

    #[expect(clippy::needless_pass_by_value, reason = "what is cancelled is gone")]
    fn undo(&self, reservation: Reservation, now: impl Fn() -> Timestamp) -> bool {
        let (cell, meter) = self.parts();
        let charge = reservation.permit().charge();
        charge.is_some_and(|charge| cell.undo(meter, charge, now) > 0)
    }

    /// A check whose denial is not counted yet, where the policy counts them: [`refuse_at`] does so.
    ///
    /// [`refuse_at`]: Limiter::refuse_at
    #[inline]
    pub(crate) fn try_at(&self, cost: u64, now: Timestamp) -> Decision {
        if self.counts_denials() {
            self.wish(Verb::Try, cost, now)
        } else {
            self.check_at(cost, now)
        }
    }

    /// Whether a denial is written.
    #[inline]
    pub(crate) fn counts_denials(&self) -> bool {
        self.meter.rules.count_denials()
    }

    /// Counts the denial of a request that was only asked for, and tells of it: `None` if the policy
    /// counts none, or if it would be admitted by now.
    pub(crate) fn refuse_at(&self, cost: u64, now: Timestamp) -> Option<Decision> {
        if !self.counts_denials() {
            return None;
        }
        Some(self.wish(Verb::Refuse, cost, now)).filter(|decision| !decision.is_allowed())
    }

    pub(crate) fn wish(&self, verb: Verb, cost: u64, now: Timestamp) -> Decision {
        let (cell, meter) = self.parts();
        cell.wish(meter, now, verb, cost)
    }
}
