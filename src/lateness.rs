//! [`Lateness`]: requests that are decided at the time at which they arrived.

use std::time::Duration;

use crate::clock::Timestamp;

/// How late a request may be decided and still count at the time at which it *arrived*: latency
/// compensation, for what waits in a queue, a proxy or a batch before it comes to the limiter.
///
/// Requests that came evenly and were held up together are otherwise taken for a burst, and denied.
/// [`Entry::at`](crate::Entry::at) decides at a time of the caller's; [`arrival`](Lateness::arrival) gives that time.
/// It believes the stated arrival only so far: not before `most` ago, and never in the future.
///
/// # What it guarantees
/// * **Nothing is minted.** A late request is decided as any `now` that runs backward: stored time never
///   falls, so it gets nothing back that was spent, and waits as long as its own time says. In the times of
///   the decisions every bound holds as stated.
/// * **In the limiter's own time** an interval of length W holds no more than the bound of W + `most`: its
///   requests arrived in one of that length. So the shorter `most`, the less a client gains by stating an
///   arrival in the past. State it yourself, where the request comes in; do not take a client's word.
/// * Windows place a late request at the start of the window in force, if it lies before that.
/// * In a [`KeyedLimiter`](crate::KeyedLimiter) a *new* key whose place has moved on in time is decided as if
///   it had spent what comes back in that time: it may be denied for its lateness alone.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Lateness, Limiter, ManualClock, Quota};
/// let clock = ManualClock::new();
/// let limiter = Limiter::with_clock(Quota::per_second(10).burst(1), clock.clone());
/// let lateness = Lateness::at_most(Duration::from_secs(2));
/// // Ten requests came evenly in a second; then the thread that decides had been busy.
/// let arrivals: Vec<_> = (0..10)
///     .map(|_| {
///         clock.advance(Duration::from_millis(100));
///         limiter.now()
///     })
///     .collect();
/// clock.advance(Duration::from_millis(500));
/// let admitted = arrivals.into_iter().filter(|&arrived| {
///     limiter.entry().at(lateness.arrival(arrived, limiter.now())).check(1).is_allowed()
/// });
/// assert_eq!(admitted.count(), 10);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lateness {
    most: Duration,
}

impl Lateness {
    /// Believes arrivals up to so long ago. An earlier one counts as so long ago.
    #[must_use]
    pub const fn at_most(most: Duration) -> Self {
        Self { most }
    }

    /// The longest lateness that is believed.
    #[must_use]
    pub const fn most(&self) -> Duration {
        self.most
    }

    /// The time at which to decide a request that arrived at `arrived`, if it is `now` by the limiter's
    /// clock: `arrived`, but no earlier than the longest lateness ago and no later than `now`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Lateness, Timestamp};
    /// let lateness = Lateness::at_most(Duration::from_secs(2));
    /// let decided = |arrived| {
    ///     lateness.arrival(Timestamp::from_secs(arrived), Timestamp::from_secs(100))
    /// };
    /// assert_eq!([10, 98, 99, 100, 101].map(decided), [98, 98, 99, 100, 100].map(Timestamp::from_secs));
    /// ```
    #[must_use]
    pub fn arrival(&self, arrived: Timestamp, now: Timestamp) -> Timestamp {
        // From zero, and so a duration: the earliest timestamp if there is none so long ago.
        let ago = (now - Timestamp::default()).saturating_sub(self.most);
        arrived.max(Timestamp::default() + ago).min(now)
    }
}
