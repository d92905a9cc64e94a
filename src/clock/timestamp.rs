//! [`Timestamp`]: an instant, in nanoseconds from some origin.

use std::ops::{Add, Sub};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The latest instant for a word without a key: the beginning of the year 2100, counted from the Unix epoch. Later
/// instants are treated like this one. (A window of the calendar has no such bound.)
///
/// With this bound every time fits its word. After this instant the time of such a word stands still, so its limit
/// admits the units that are left and then nothing.
pub(crate) const LATEST_NS: u64 = 4_102_444_800_000_000_000;

/// A reading of a clock: nanoseconds since that clock's origin.
///
/// Limiters never compare timestamps of different clocks. The origin matters only to windows, which are aligned to
/// it.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Timestamp;
/// let start = Timestamp::from_secs(60);
/// assert_eq!(start + Duration::from_millis(5), Timestamp::from_nanos(60_005_000_000));
/// assert_eq!(Timestamp::from_millis(7).as_nanos(), 7_000_000);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub(super) u64);

impl Timestamp {
    /// The instant `nanos` nanoseconds after the origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The instant `millis` milliseconds after the origin. A time that does not fit becomes the latest timestamp.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// The instant `secs` seconds after the origin. A time that does not fit becomes the latest timestamp.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}

/// The timestamp that is later by a duration. A time that does not fit becomes the latest timestamp.
impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(saturating_nanos(wait)))
    }
}

/// The timestamp that is earlier by a duration, or 0 if that is before the clock's origin.
///
/// Use it for requests that waited in a queue, a proxy or a batch before they reached the limiter. Otherwise requests
/// that arrived evenly but were held up together would look like a burst, and be denied. If they are decided
/// [`at`](crate::Entry::at) `arrived.clamp(now - late, now)`, they are counted at the time when they *arrived*, or
/// `late` ago if they arrived earlier. A time in the future is replaced by now. This has the following consequences:
/// * **No units are created.** A late request is decided like any other request whose `now` is before the `now` of an
///   earlier request. It lowers no stored time, so spent units do not come back, and the wait of the request counts
///   from the request's own time. In the times of the decisions, every bound holds as stated.
/// * **In the limiter's own time** an interval of length W admits no more than the bound for W + `late`, because its
///   requests arrived within an interval of length W + `late`. So with a shorter `late`, a client gains less by
///   claiming that its request arrived earlier. Take the time of arrival yourself, where the request comes in, and do
///   not trust a client to state it.
/// * A window treats a request from before the window in force as if it came at the start of that window.
/// * In a [`KeyedLimiter`](crate::KeyedLimiter) a *new* key may be denied only because it is late. If the time floors
///   of the key's shards are later than the request, the key is treated as if it had spent the units that come back
///   between the request and the floor.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, ManualClock, Quota};
/// let clock = ManualClock::new();
/// let limiter = Limiter::builder(Quota::per_second(10).burst(1)).clock(clock.clone()).build();
/// // Ten requests came evenly in a second; then the thread that decides had been busy.
/// let arrivals: Vec<_> = (0..10)
///     .map(|_| {
///         clock.advance(Duration::from_millis(100));
///         limiter.now()
///     })
///     .collect();
/// clock.advance(Duration::from_millis(500));
/// let (now, late) = (limiter.now(), Duration::from_secs(2));
/// let admitted = arrivals.into_iter().filter(|&arrived| {
///     limiter.entry().at(arrived.clamp(now - late, now)).check().is_allowed()
/// });
/// assert_eq!(admitted.count(), 10);
/// ```
impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(saturating_nanos(time)))
    }
}

/// The time between two timestamps of one clock; zero if the second is not earlier.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Timestamp;
/// assert_eq!(Timestamp::from_secs(5) - Timestamp::from_secs(3), Duration::from_secs(2));
/// ```
impl Sub for Timestamp {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The Unix time of a `SystemTime`, on the scale of [`Clock::unix`](crate::Clock::unix). A time before 1970 becomes 0.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use tollgate::Timestamp;
/// assert_eq!(Timestamp::from(UNIX_EPOCH + Duration::from_secs(5)), Timestamp::from_secs(5));
/// ```
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        Self(saturating_nanos(time.duration_since(UNIX_EPOCH).unwrap_or_default()))
    }
}

pub(super) fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
