//! Clocks, and the [`Timestamp`]s they give.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::sync::{Arc, AtomicU64, Ordering};

/// The latest instant that is told apart from later ones: the year 2100, counted from the Unix epoch.
///
/// It is what makes every time fit its word; past it an un-keyed limiter's time stands still, so it
/// admits what is left of the burst and then nothing.
pub(crate) const LATEST_NS: u64 = 4_102_444_800_000_000_000;

/// A reading of a clock: nanoseconds since that clock's origin.
///
/// Limiters never compare timestamps of different clocks; what the origin is matters only to windows,
/// which are aligned to it.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Timestamp;
/// let start = Timestamp::from_secs(60);
/// assert_eq!(start + Duration::from_millis(5), Timestamp::from_nanos(60_005_000_000));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// `nanos` nanoseconds after the origin.
    ///
    /// ```
    /// assert_eq!(tollgate::Timestamp::from_nanos(7).as_nanos(), 7);
    /// ```
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// `millis` milliseconds after the origin; what does not fit becomes the latest timestamp.
    ///
    /// ```
    /// assert_eq!(tollgate::Timestamp::from_millis(7).as_nanos(), 7_000_000);
    /// ```
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// `secs` seconds after the origin; what does not fit becomes the latest timestamp.
    ///
    /// ```
    /// assert_eq!(tollgate::Timestamp::from_secs(7).as_nanos(), 7_000_000_000);
    /// ```
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the origin.
    ///
    /// ```
    /// assert_eq!(tollgate::Timestamp::from_secs(1).as_nanos(), 1_000_000_000);
    /// ```
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}

/// Later by a duration; what does not fit becomes the latest timestamp.
impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(saturating_nanos(wait)))
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

/// Unix time, as [`Clock::unix`] gives it; a time before 1970 is 1970.
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

#[inline(never)]
fn system_now(origin: Instant, offset_ns: u64) -> Timestamp {
    Timestamp(saturating_nanos(origin.elapsed()).saturating_add(offset_ns))
}

fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A counter's step in 2^-48 ns: room for steps of 65 us, and for a tenth of a nanosecond an error below
/// one part in 10^13.
const SCALE_BITS: u32 = 48;

/// Nanoseconds of so many steps: what `quanta` computes, without asking again what kind of counter this is, and for a
/// step of less than a nanosecond as the high half of one product.
#[inline(always)]
fn scaled(steps: u64, scale: u64) -> u64 {
    if scale >= 1 << SCALE_BITS {
        return scaled_up(steps, scale);
    }
    ((u128::from(steps) * u128::from(scale << (u64::BITS - SCALE_BITS))) >> u64::BITS) as u64
}

/// The same for the steps of a slow counter.
#[cold]
#[inline(never)]
#[expect(clippy::cast_possible_truncation, reason = "below 2^64 for 584 years")]
fn scaled_up(steps: u64, scale: u64) -> u64 {
    ((u128::from(steps) * u128::from(scale)) >> SCALE_BITS) as u64
}

/// No steps: one core's reading lies before the origin, which another core has read. A call, so that the comparison
/// is a branch that is foreseen, and no decision waits for it.
#[cold]
#[inline(never)]
fn steps_before_origin() -> u64 {
    std::hint::black_box(0)
}

/// Where a limiter's own time comes from.
///
/// ```
/// use tollgate::{Clock, Limiter, Quota};
/// let limiter = Limiter::with_clock(Quota::per_second(5), Clock::unix());
/// assert!(limiter.check(1).is_allowed());
/// ```
#[derive(Clone)]
pub struct Clock(Source);

// A tag of its own: one that hides in quanta's costs four instructions more to read.
#[repr(u8)]
#[derive(Clone)]
enum Source {
    /// The CPU's time stamp counter where it is steady, else the system's monotonic clock.
    Counter {
        counter: quanta::Clock,
        origin_raw: u64,
        /// Nanoseconds of 2^48 steps of the counter.
        scale: u64,
        offset_ns: u64,
        is_unix: bool,
    },
    /// The operating system's monotonic clock.
    System {
        origin: Instant,
        offset_ns: u64,
    },
    Manual(ManualClock),
}

impl Clock {
    /// The fastest monotonic clock of the machine (`quanta`: the time stamp counter where the CPU keeps
    /// it steady across cores, else the system's clock). Its origin is this call. The default.
    ///
    /// The first such clock of a process takes up to 200 ms to calibrate.
    ///
    /// ```
    /// let clock = tollgate::Clock::monotonic();
    /// assert!(clock.now() <= clock.now());
    /// ```
    #[must_use]
    pub fn monotonic() -> Self {
        Self::counter(0, false)
    }

    /// [`Clock::monotonic`] with its origin at the Unix epoch, as the system's wall clock tells it at
    /// this call. Aligned windows then turn on the wall clock (UTC): minutes at :00, days at midnight.
    /// Later corrections of the wall clock are not followed, so time never jumps.
    ///
    /// ```
    /// use tollgate::{Clock, Timestamp};
    /// assert!(Clock::unix().now() > Timestamp::from_secs(1_700_000_000));
    /// ```
    #[must_use]
    pub fn unix() -> Self {
        // A wall clock set before 1970 starts at the origin instead: no panic, and windows still turn.
        Self::counter(Timestamp::from(SystemTime::now()).0.min(LATEST_NS), true)
    }

    fn counter(offset_ns: u64, is_unix: bool) -> Self {
        let counter = quanta::Clock::new();
        let origin_raw = counter.raw();
        let scale = counter.delta_as_nanos(0, 1 << SCALE_BITS);
        Self(Source::Counter { counter, origin_raw, scale, offset_ns, is_unix })
    }

    /// The operating system's monotonic clock, for machines whose time stamp counter is not to be
    /// trusted. Costs about twice as much to read. Its origin is this call.
    ///
    /// ```
    /// let clock = tollgate::Clock::system();
    /// assert!(clock.now() <= clock.now());
    /// ```
    #[must_use]
    pub fn system() -> Self {
        Self(Source::System { origin: Instant::now(), offset_ns: 0 })
    }

    /// The same clock, but one that goes on from `reading`: what a restored limiter keeps time by.
    ///
    /// A clock with an origin of its own ([`monotonic`](Clock::monotonic), [`system`](Clock::system))
    /// reads exactly `reading` at this call. One of Unix time is put forward to it if it reads less, and
    /// is never set back. A [`ManualClock`], and a clock of a [`CoarseClock`](crate::CoarseClock), stays
    /// as it is, since others hold it too. No clock is put further forward than to 2^63 ns.
    ///
    /// ```
    /// use tollgate::{Clock, Timestamp};
    /// let clock = Clock::monotonic().resumed_at(Timestamp::from_secs(3_600));
    /// assert!(clock.now() >= Timestamp::from_secs(3_600));
    /// ```
    #[must_use]
    pub fn resumed_at(self, reading: Timestamp) -> Self {
        // 292 years from here on before the sum in `now` wraps.
        let offset_ns = reading.0.min(1 << 63);
        let is_behind = self.now().0 < offset_ns;
        match self.0 {
            Source::Counter { counter, scale, is_unix: false, .. } => {
                let origin_raw = counter.raw();
                Self(Source::Counter { counter, origin_raw, scale, offset_ns, is_unix: false })
            }
            Source::Counter { counter, scale, is_unix: true, .. } if is_behind => {
                let origin_raw = counter.raw();
                Self(Source::Counter { counter, origin_raw, scale, offset_ns, is_unix: true })
            }
            Source::System { .. } => Self(Source::System { origin: Instant::now(), offset_ns }),
            other => Self(other),
        }
    }

    /// What the readings count from.
    pub(crate) fn origin(&self) -> Origin {
        match &self.0 {
            Source::Counter { is_unix: true, .. } => Origin::Unix,
            Source::Counter { .. } | Source::System { .. } => Origin::Own,
            Source::Manual(_) => Origin::Told,
        }
    }

    /// Reads the clock.
    ///
    /// ```
    /// use tollgate::{Clock, ManualClock, Timestamp};
    /// let clock = Clock::from(ManualClock::new());
    /// assert_eq!(clock.now(), Timestamp::default());
    /// ```
    #[inline]
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::Counter { counter, origin_raw, scale, offset_ns, .. } => {
                let raw = counter.raw();
                let steps = raw.wrapping_sub(*origin_raw);
                let steps = if raw < *origin_raw { steps_before_origin() } else { steps };
                let elapsed_ns = scaled(steps, *scale);
                // Wraps 480 years after the latest time, at which an origin is cut.
                Timestamp(offset_ns.wrapping_add(elapsed_ns))
            }
            Source::System { origin, offset_ns } => system_now(*origin, *offset_ns),
            Source::Manual(manual) => manual.now(),
        }
    }
}

/// What a clock's readings count from: where another process finds the same instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A call in this process: nowhere else.
    Own,
    /// 1970.
    Unix,
    /// Whatever its setter counts from.
    Told,
}

impl Default for Clock {
    fn default() -> Self {
        Self::monotonic()
    }
}

impl From<ManualClock> for Clock {
    fn from(manual: ManualClock) -> Self {
        Self(Source::Manual(manual))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.0 {
            Source::Counter { .. } => "counter",
            Source::System { .. } => "system",
            Source::Manual(_) => "manual",
        };
        write!(f, "Clock({name})")
    }
}

/// A clock that stands still until it is told to move: for tests. Clones share one time.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, ManualClock, Quota};
///
/// let clock = ManualClock::new();
/// let limiter = Limiter::with_clock(Quota::per_second(1), clock.clone());
/// assert!(limiter.check(1).is_allowed());
/// assert!(!limiter.check(1).is_allowed());
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.check(1).is_allowed());
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    now_ns: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that reads 0.
    ///
    /// ```
    /// assert_eq!(tollgate::ManualClock::new().now().as_nanos(), 0);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self { now_ns: Arc::new(AtomicU64::new(0)) }
    }

    /// Reads the clock.
    ///
    /// ```
    /// assert_eq!(tollgate::ManualClock::new().now(), tollgate::Timestamp::default());
    /// ```
    #[inline]
    #[must_use]
    pub fn now(&self) -> Timestamp {
        // Relaxed: a time orders nothing but itself; limiters take any order of readings.
        Timestamp(self.now_ns.load(Ordering::Relaxed))
    }

    /// Moves the clock forward; at the end of its range it stops.
    ///
    /// ```
    /// use std::time::Duration;
    /// let clock = tollgate::ManualClock::new();
    /// clock.advance(Duration::from_nanos(5));
    /// assert_eq!(clock.now().as_nanos(), 5);
    /// ```
    pub fn advance(&self, by: Duration) {
        let by_ns = saturating_nanos(by);
        let forward = |now_ns: u64| Some(now_ns.saturating_add(by_ns));
        // Relaxed: as in `now`. The closure never returns None, so the update cannot fail.
        let _ = self.now_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, forward);
    }

    /// Sets the clock to any time, also an earlier one.
    ///
    /// ```
    /// use tollgate::{ManualClock, Timestamp};
    /// let clock = ManualClock::new();
    /// clock.set(Timestamp::from_secs(60));
    /// assert_eq!(clock.now(), Timestamp::from_secs(60));
    /// ```
    pub fn set(&self, now: Timestamp) {
        // Relaxed: as in `now`.
        self.now_ns.store(now.0, Ordering::Relaxed);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resumed_clock_goes_on_from_the_reading_that_it_is_told() {
        let hour = Timestamp::from_secs(3_600);
        for clock in [Clock::monotonic(), Clock::system()] {
            let resumed = clock.resumed_at(hour);
            let read = resumed.now();
            assert!(read >= hour && read < hour + Duration::from_secs(60));
            // Also back: a clock of many hours has nothing to do with the times of another process.
            let back = resumed.resumed_at(Timestamp::from_secs(1)).now();
            assert!(back >= Timestamp::from_secs(1) && back < hour);
        }
        let unix = Clock::unix();
        let ahead = unix.now() + Duration::from_secs(86_400);
        assert!(unix.clone().resumed_at(ahead).now() >= ahead);
        let before = unix.now();
        assert!(unix.resumed_at(hour).now() >= before, "never set back");
        let far = Clock::monotonic().resumed_at(Timestamp::from_nanos(u64::MAX));
        assert!(far.now() >= Timestamp::from_nanos(1 << 63));
    }

    #[test]
    fn a_clock_that_others_hold_is_not_resumed() {
        let manual = ManualClock::new();
        let clock = Clock::from(manual.clone()).resumed_at(Timestamp::from_secs(5));
        assert_eq!((clock.now(), manual.now()), (Timestamp::default(), Timestamp::default()));
    }

    #[test]
    fn the_counter_is_scaled_as_quanta_scales_it() {
        let counter = quanta::Clock::new();
        let scale = counter.delta_as_nanos(0, 1 << SCALE_BITS);
        for bits in 0..58 {
            for steps in [1 << bits, (1 << bits) * 3 / 2 + 1] {
                let (own, quanta) = (scaled(steps, scale), counter.delta_as_nanos(0, steps));
                let error = steps >> (SCALE_BITS - 1);
                assert!(own.abs_diff(quanta) <= error + 1, "{steps} steps: {own}, {quanta}");
            }
        }
    }

    /// Counters of 3 GHz, of 1 GHz, and of 24 MHz, whose step is 41 and two thirds of a nanosecond.
    #[test]
    fn fast_and_slow_counters_are_scaled_alike() {
        for (ns, steps) in [(1, 3), (1, 1), (125, 3)] {
            let scale = (ns << SCALE_BITS) / steps;
            for days in [0, 1, 365 * 100] {
                let told = scaled(steps * 1_000_000_000 / ns * 86_400 * days, scale);
                assert!(
                    told.abs_diff(86_400_000_000_000 * days) <= 1 + days,
                    "{ns}/{steps}: {told}"
                );
            }
        }
    }
}
