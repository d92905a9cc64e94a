//! [`Wait`]: how long a request may wait for its turn; and [`WaitBudget`], which enforces this bound over several
//! sleeps.

use std::time::Duration;

use ahash::RandomState;

use crate::clock::Timestamp;
use crate::reservation::Reservation;

/// The bounds for the wait of a request, and a random delay after its turn.
///
/// A policy with a queue ([`Policy::queue`](crate::Policy::queue)) also has bounds, and the narrower bound applies.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Wait;
/// // No more than a second, behind no more than 20 units, and up to 5 ms later than need be.
/// let wait = Wait::at_most(Duration::from_secs(1)).behind(20).jitter(Duration::from_millis(5));
/// assert_eq!(wait.max_wait(), Duration::from_secs(1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wait {
    pub(crate) max: Duration,
    /// `u64::MAX` means that there is no bound.
    pub(crate) units: u64,
    pub(crate) jitter_ns: u64,
}

impl Wait {
    /// A wait of at most this time. A request whose turn would come later is denied at once.
    #[must_use]
    pub const fn at_most(max: Duration) -> Self {
        Self { max, units: u64::MAX, jitter_ns: 0 }
    }

    /// The same wait, but behind at most this number of units, which is the length of the queue: the units charged
    /// beyond the burst, including those of the request. With a burst of 1 and requests of one unit, `behind(n - 1)` is
    /// a leaky bucket used as a queue of n requests, of which the first proceeds at once.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Quota, Wait};
    /// let limiter = Limiter::builder(Quota::per_second(1).burst(1)).clock(ManualClock::new()).build();
    /// let wait = Wait::at_most(Duration::MAX).behind(2);
    /// let queued = (0..9).filter(|_| limiter.entry().queue(1, wait).is_ok());
    /// assert_eq!(queued.count(), 3);
    /// ```
    #[must_use]
    pub const fn behind(self, units: u64) -> Self {
        Self { units, ..self }
    }

    /// The same wait with a random delay of up to this time after the turn, so that callers that were given the same
    /// instant do not all return at once. A request never proceeds before its turn.
    #[must_use]
    pub const fn jitter(self, jitter: Duration) -> Self {
        let jitter_ns = jitter.as_nanos();
        let cut = jitter_ns > u64::MAX as u128;
        #[expect(clippy::cast_possible_truncation, reason = "it was looked at")]
        Self { jitter_ns: if cut { u64::MAX } else { jitter_ns as u64 }, ..self }
    }

    /// The largest number of units behind which a request waits; [`u64::MAX`] means that there is no bound.
    #[must_use]
    pub const fn max_behind(&self) -> u64 {
        self.units
    }

    /// The time to sleep for a turn that is `until` away: `until` plus a random part of the jitter, which is drawn anew
    /// in each call.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Wait;
    /// let second = Duration::from_secs(1);
    /// let wait = Wait::at_most(second).jitter(Duration::from_millis(5));
    /// assert!((second..=second + Duration::from_millis(5)).contains(&wait.spread(second)));
    /// ```
    #[must_use]
    pub fn spread(&self, until: Duration) -> Duration {
        // Without a jitter there is no delay.
        if self.jitter_ns == 0 {
            return until;
        }
        // The high half of hash * (span + 1) is evenly distributed in 0..=span. A new `RandomState` gives a new seed.
        let drawn =
            u128::from(RandomState::new().hash_one(until)) * (u128::from(self.jitter_ns) + 1);
        let later = (drawn >> 64) as u64;
        until.saturating_add(Duration::from_nanos(later))
    }

    /// The longest wait for a turn, without the jitter.
    #[must_use]
    pub const fn max_wait(&self) -> Duration {
        self.max
    }

    /// The longest wait in nanoseconds, and the largest number of units behind which a request waits; `u64::MAX` means
    /// that there is no bound.
    pub(crate) fn bounds(&self) -> [u64; 2] {
        let wait_ns = u64::try_from(self.max.as_nanos()).unwrap_or(u64::MAX);
        [wait_ns, self.units]
    }
}

/// The part of its [`Wait`] that a waiting request has left. [`acquire`](crate::Entry::acquire) uses a budget
/// internally. Code that does its own sleeping calls [`step`](WaitBudget::step).
///
/// What is left is the wait less the time that has passed by the clock, or less the sum of all sleeps if that is more.
/// So the bound also holds if the clock advances less than the sleeps. If the clock stands still, each sleep, without
/// its jitter, is at least twice as long as the last one, so that the wait ends.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Timestamp, Wait, WaitBudget};
/// let at = Timestamp::from_millis;
/// let mut budget = WaitBudget::new(Wait::at_most(Duration::from_millis(300)), at(1_000));
/// assert_eq!(budget.left(at(1_100)).max_wait(), Duration::from_millis(200));
/// assert_eq!(budget.pause(Duration::from_millis(150)), Some(Duration::from_millis(150)));
/// assert_eq!(budget.left(at(1_250)).max_wait(), Duration::from_millis(50));
/// assert_eq!(budget.pause(Duration::from_millis(51)), None);
/// ```
#[derive(Clone, Debug)]
pub struct WaitBudget {
    wait: Wait,
    began: Timestamp,
    /// The latest time of an attempt of the request, and the last pause at this time.
    asked: Timestamp,
    pause: Duration,
    /// The sum of all sleeps so far, including their jitters.
    slept: Duration,
    /// The part of the wait that was left at the last attempt.
    left: Duration,
}

impl WaitBudget {
    /// The budget of a request that comes at `now`, by the clock of its limit.
    #[must_use]
    pub fn new(wait: Wait, now: Timestamp) -> Self {
        let (pause, slept, left) = (Duration::ZERO, Duration::ZERO, wait.max);
        Self { wait, began: now, asked: now, pause, slept, left }
    }

    /// The wait that is left at `now`.
    pub fn left(&mut self, now: Timestamp) -> Wait {
        let passed = now.as_nanos().saturating_sub(self.began.as_nanos());
        // If the clock is coarse or stands still, the sum of the sleeps is the better measure.
        let passed = Duration::from_nanos(passed).max(self.slept);
        self.left = self.wait.max.saturating_sub(passed);
        // If the clock has advanced, the next pause need not be longer than the wait in the denial.
        if now > self.asked {
            (self.asked, self.pause) = (now, Duration::ZERO);
        }
        Wait { max: self.left, ..self.wait }
    }

    /// The time to sleep for an instant that is `until` away, including the jitter. `None` if the time without the
    /// jitter is longer than the part of the wait that is left.
    pub fn pause(&mut self, until: Duration) -> Option<Duration> {
        // A pause is never zero, since a caller that tries again without a pause would keep its thread busy.
        let pause = until.max(self.pause.saturating_mul(2)).max(Duration::from_nanos(1));
        // The turn would come after the end of the wait.
        if pause > self.left {
            return None;
        }
        self.pause = pause;
        // The jitter is included, so that the sum of all sleeps is at most the wait plus one jitter.
        let spread = self.wait.spread(pause);
        self.slept = self.slept.saturating_add(spread);
        Some(spread)
    }

    /// True if the request has slept.
    pub(crate) fn has_slept(&self) -> bool {
        !self.slept.is_zero()
    }

    /// The time to sleep at `now` for the place that the request has, including the jitter.
    #[must_use]
    pub fn until(&self, place: &Reservation, now: Timestamp) -> Duration {
        let until = place.ready_at().as_nanos().saturating_sub(now.as_nanos());
        self.spread(Duration::from_nanos(until))
    }

    /// The time to sleep for a turn that is `until` away, including the jitter.
    #[must_use]
    pub fn spread(&self, until: Duration) -> Duration {
        // If the turn has come after a sleep, that sleep already included a jitter.
        if until.is_zero() && self.has_slept() { until } else { self.wait.spread(until) }
    }
}
