//! The verbs beside check and peek, of a limit whose quota can be changed.

use std::time::Duration;

use crate::acquire::Wait;
use crate::clock::Timestamp;
use crate::decision::{Decision, Denial, Permit};
use crate::keyed::verbs::uncharged;
use crate::refund::Found;
use crate::reservation::Reservation;
use crate::verb::Verb;

use super::super::amend::Amendment;
use super::{Held, LiveLimiter, Read};

impl LiveLimiter {
    /// As [`Limiter::take_up_to`](crate::Limiter::take_up_to).
    ///
    /// ```
    /// use tollgate::{LiveLimiter, Quota};
    /// let limiter = LiveLimiter::new(Quota::per_hour(5))?;
    /// let permit = limiter.take_up_to(9).into_result().expect("five");
    /// assert_eq!(permit.cost(), 5);
    /// # Ok::<(), tollgate::ChangeError>(())
    /// ```
    pub fn take_up_to(&self, cost: u64) -> Decision {
        self.take_up_to_at(cost, self.now())
    }

    /// As [`Limiter::take_up_to_at`](crate::Limiter::take_up_to_at).
    ///
    /// ```
    /// use tollgate::{LiveLimiter, Quota, Timestamp};
    /// let limiter = LiveLimiter::new(Quota::per_hour(5))?;
    /// assert!(limiter.take_up_to_at(9, Timestamp::from_secs(7)).is_allowed());
    /// # Ok::<(), tollgate::ChangeError>(())
    /// ```
    pub fn take_up_to_at(&self, cost: u64, now: Timestamp) -> Decision {
        self.decide(Verb::UpTo, cost, now, cost > 0)
    }

    /// As [`Limiter::charge`](crate::Limiter::charge).
    ///
    /// ```
    /// use tollgate::{LiveLimiter, Quota};
    /// let limiter = LiveLimiter::new(Quota::per_hour(5))?;
    /// assert_eq!(limiter.charge(40), 0);
    /// assert!(!limiter.check(1).is_allowed());
    /// # Ok::<(), tollgate::ChangeError>(())
    /// ```
    #[must_use = "what was not charged is not limited"]
    pub fn charge(&self, cost: u64) -> u64 {
        self.charge_at(cost, self.now())
    }

    /// As [`Limiter::charge_at`](crate::Limiter::charge_at).
    ///
    /// ```
    /// use tollgate::{LiveLimiter, Quota, Timestamp};
    /// let limiter = LiveLimiter::new(Quota::per_hour(5))?;
    /// assert_eq!(limiter.charge_at(40, Timestamp::from_secs(7)), 0);
    /// # Ok::<(), tollgate::ChangeError>(())
    /// ```
    #[must_use = "what was not charged is not limited"]
    pub fn charge_at(&self, cost: u64, now: Timestamp) -> u64 {
        uncharged(cost, self.decide(Verb::Charge, cost, now, cost > 0))
    }

    /// As [`Limiter::refund`](crate::Limiter::refund). A permit of before a change gives nothing back,
    /// also if the quota has been changed back since.
    ///
    /// ```
    /// use tollgate::{LiveLimiter, ManualClock, Quota};
    /// let limiter = LiveLimiter::with_clock(Quota::per_hour(5), ManualClock::new())?;
    /// let permit = limiter.check(5).into_result().expect("the first");
    /// assert_eq!(limiter.refund(permit), 5);
    /// # Ok::<(), tollgate::ChangeError>(())
    /// ```
    pub fn refund(&self, permit: Permit) -> u64 {
        permit.charge().map_or(0, |charge| self.amend(|| self.now(), Amendment::Refund(charge)))
    }

    /// As [`Limiter::refund_at`](crate::Limiter::refund_at).
    ///
    /// ```
    /// use tollgate::{LiveLimiter, Quota, Timestamp};
    /// let limiter = LiveLimiter::new(Quota::per_hour(5))?;
    /// let now = Timestamp::from_secs(7);
    /// let permit = limiter.check_at(5, now).into_result().expect("the first");
    /// assert_eq!(limiter.refund_at(permit, now), 5);
    /// # Ok::<(), tollgate::ChangeError>(())
    /// ```
    pub fn refund_at(&self, permit: Permit, now: Timestamp) -> u64 {
        permit.charge().map_or(0, |charge| self.amend(|| now, Amendment::Refund(charge)))
    }

    /// As [`Limiter::reserve`](crate::Limiter::reserve). A change of quota that cuts the debt lets places that
    /// were reserved before it and others after it overlap, by what was cut.
    ///
    /// # Errors
    /// The denial.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{LiveLimiter, ManualClock, Quota};
    /// let limiter = LiveLimiter::with_clock(Quota::per_second(2), ManualClock::new())?;
    /// assert!(limiter.check(2).is_allowed());
    /// let place = limiter.reserve(1, Duration::from_secs(1)).expect("in half a second");
    /// assert_eq!(place.wait(), Duration::from_millis(500));
    /// # Ok::<(), tollgate::ChangeError>(())
    /// ```
    pub fn reserve(&self, cost: u64, max_wait: Duration) -> Result<Reservation, Denial> {
        self.reserve_at(cost, max_wait, self.now())
    }

    /// As [`Limiter::reserve_at`](crate::Limiter::reserve_at).
    ///
    /// # Errors
    /// The denial.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{LiveLimiter, Quota, Timestamp};
    /// let limiter = LiveLimiter::new(Quota::per_second(2))?;
    /// assert!(limiter.reserve_at(2, Duration::ZERO, Timestamp::from_secs(7)).is_ok());
    /// # Ok::<(), tollgate::ChangeError>(())
    /// ```
    pub fn reserve_at(
        &self,
        cost: u64,
        max_wait: Duration,
        now: Timestamp,
    ) -> Result<Reservation, Denial> {
        let decision = self.decide(Wait::at_most(max_wait).verb(), cost, now, cost > 0);
        decision.into_result().map(Reservation::new)
    }

    /// As [`Limiter::cancel`](crate::Limiter::cancel). Not after the quota has changed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{LiveLimiter, Quota};
    /// let limiter = LiveLimiter::new(Quota::per_hour(2))?;
    /// let place = limiter.reserve(2, Duration::ZERO).expect("the first");
    /// assert!(limiter.cancel(place));
    /// # Ok::<(), tollgate::ChangeError>(())
    /// ```
    pub fn cancel(&self, reservation: Reservation) -> bool {
        self.undo(reservation, || self.now())
    }

    /// As [`Limiter::cancel_at`](crate::Limiter::cancel_at).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{LiveLimiter, Quota, Timestamp};
    /// let limiter = LiveLimiter::new(Quota::per_hour(2))?;
    /// let now = Timestamp::from_secs(7);
    /// let place = limiter.reserve_at(2, Duration::ZERO, now).expect("the first");
    /// assert!(limiter.cancel_at(place, now));
    /// # Ok::<(), tollgate::ChangeError>(())
    /// ```
    pub fn cancel_at(&self, reservation: Reservation, now: Timestamp) -> bool {
        self.undo(reservation, || now)
    }

    #[expect(clippy::needless_pass_by_value, reason = "what is cancelled is gone")]
    fn undo(&self, reservation: Reservation, now: impl Fn() -> Timestamp) -> bool {
        let charge = reservation.permit().charge();
        charge.is_some_and(|charge| self.amend(now, Amendment::Undo(charge)) > 0)
    }

    /// As [`Limiter::reset`](crate::Limiter::reset).
    ///
    /// ```
    /// use tollgate::{LiveLimiter, Quota};
    /// let limiter = LiveLimiter::new(Quota::per_hour(1))?;
    /// assert!(limiter.check(1).is_allowed());
    /// limiter.reset();
    /// assert!(limiter.check(1).is_allowed());
    /// # Ok::<(), tollgate::ChangeError>(())
    /// ```
    pub fn reset(&self) {
        self.reset_at(self.now());
    }

    /// As [`Limiter::reset_at`](crate::Limiter::reset_at).
    ///
    /// ```
    /// use tollgate::{LiveLimiter, Quota, Timestamp};
    /// let limiter = LiveLimiter::new(Quota::per_hour(1))?;
    /// let now = Timestamp::from_secs(7);
    /// assert!(limiter.check_at(1, now).is_allowed());
    /// limiter.reset_at(now);
    /// assert!(limiter.check_at(1, now).is_allowed());
    /// # Ok::<(), tollgate::ChangeError>(())
    /// ```
    pub fn reset_at(&self, now: Timestamp) {
        self.amend(|| now, Amendment::Reset);
    }

    /// As [`Table::amend`](super::super::table::Table::amend).
    fn amend(&self, now: impl Fn() -> Timestamp, amendment: Amendment<'_>) -> u64 {
        loop {
            let first = self.read(Timestamp::default());
            // Only now, after the word: see `Cell::give_back`.
            let read = self.read(now());
            if read.word != first.word {
                continue;
            }
            let Read { held, at_ns, .. } = read;
            let found = Found { held, at_ns, now_ns: at_ns };
            let (next, units) = match amendment {
                Amendment::Refund(charge) | Amendment::Undo(charge)
                    if !self.book.is_of(read.mark, charge) =>
                {
                    (held, 0)
                }
                Amendment::Refund(charge) => read.kernel().given_back(found, charge),
                Amendment::Undo(charge) => {
                    let left = Read { at_ns: charge.at_ns, ..read }.with(charge.held);
                    // As in `Table::amended`.
                    let same = read.word == left;
                    if same { read.kernel().undone(found, charge) } else { (held, 0) }
                }
                Amendment::Reset => (Held::IDLE, 0),
            };
            if next == held {
                return 0;
            }
            if self.replace(&read, read.with(next)) {
                return units;
            }
        }
    }
}
