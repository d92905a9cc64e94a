//! [`Timestamp`]: an instant, in nanoseconds from some origin.

use std::ops::{Add, Sub};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The latest instant that a word without a key distinguishes from later instants: the year 2100, counted from the Unix
/// epoch.
///
/// With this bound every time fits its word. Past it an un-keyed limiter's time stands still, so the limiter admits
/// the rest of the burst and then nothing.
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
    /// `nanos` nanoseconds after the origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// `millis` milliseconds after the origin; a time that does not fit becomes the latest timestamp.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// `secs` seconds after the origin; a time that does not fit becomes the latest timestamp.
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

/// Later by a duration; a time that does not fit becomes the latest timestamp.
impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(saturating_nanos(wait)))
    }
}

/// Earlier by a duration; time zero if that is before the clock's origin.
///
/// Use it for requests that waited in a queue, a proxy or a batch before they reached the limiter. Requests that
/// arrived evenly and were held up together would otherwise be taken for a burst, and denied. If they are decided
/// [`at`](crate::Entry::at) `arrived.clamp(now - late, now)`, they are counted at the time when they *arrived*, but no
/// more than `late` ago, and never in the future:
/// * **No units are created.** A late request is decided like every request whose `now` runs backward. Stored time
///   never falls, so the request gets back nothing that was spent, and its wait counts from its own time. In the times
///   of the decisions every bound holds as stated.
/// * **In the limiter's own time** an interval of length W holds no more than the bound of W + `late`, because its
///   requests arrived within an interval of length W + `late`. So the shorter `late`, the less a client gains by
///   stating an arrival in the past. State it yourself, where the request comes in; do not take a client's word.
/// * Windows place a late request at the start of the window in force, if it lies before that.
/// * In a [`KeyedLimiter`](crate::KeyedLimiter) a *new* key may be denied only because it is late. If the floors of its
///   shards are later than the request, it is decided as if it had spent the units that come back in between.
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

/// Unix time, as [`Clock::unix`](crate::Clock::unix) gives it; a time before 1970 is 1970.
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
