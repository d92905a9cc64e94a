//! Clocks, and the [`Timestamp`]s they give.

mod manual;
mod timestamp;

use std::fmt;
use std::time::{Instant, SystemTime};

pub use manual::ManualClock;
pub use timestamp::Timestamp;

use timestamp::saturating_nanos;

/// The latest instant that is told apart from later ones: the year 2100, counted from the Unix epoch.
///
/// It is what makes every time fit its word; past it an un-keyed limiter's time stands still, so it
/// admits what is left of the burst and then nothing.
pub(crate) const LATEST_NS: u64 = 4_102_444_800_000_000_000;

#[inline(never)]
fn system_now(origin: Instant, offset_ns: u64) -> Timestamp {
    Timestamp(saturating_nanos(origin.elapsed()).saturating_add(offset_ns))
}

/// A counter's step in 2^-48 ns: room for steps of 65 us, and for a tenth of a nanosecond an error below
/// one part in 10^13.
const SCALE_BITS: u32 = 48;

/// Nanoseconds of so many steps: what `quanta` computes, without asking again what kind of counter this is, and for a
/// step of less than a nanosecond as the high half of one product.
#[inline(always)]
fn scaled(steps: u64, scale: u64) -> u64 {
    // A step of a nanosecond or more: the scale would not fit in the high half.
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
/// assert!(limiter.check().is_allowed());
/// ```
#[derive(Clone)]
pub struct Clock(ClockSource);

// A tag of its own: one that hides in quanta's costs four instructions more to read.
#[repr(u8)]
#[derive(Clone)]
enum ClockSource {
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
    #[must_use]
    pub fn monotonic() -> Self {
        Self::counter(0, false)
    }

    /// [`Clock::monotonic`] with its origin at the Unix epoch, as the system's wall clock tells it at
    /// this call. Aligned windows then turn on the wall clock (UTC): minutes at :00, days at midnight.
    /// Later corrections of the wall clock are not followed, so time never jumps; nor is a leap second, so the
    /// readings are a second ahead after one until the next clock is made. Days have 86,400 s.
    #[must_use]
    pub fn unix() -> Self {
        // A wall clock set before 1970 starts at the origin instead: no panic, and windows still turn.
        Self::counter(Timestamp::from(SystemTime::now()).0.min(LATEST_NS), true)
    }

    fn counter(offset_ns: u64, is_unix: bool) -> Self {
        let counter = quanta::Clock::new();
        let origin_raw = counter.raw();
        // Asked for once: from then on a reading is one product.
        let scale = counter.delta_as_nanos(0, 1 << SCALE_BITS);
        Self(ClockSource::Counter { counter, origin_raw, scale, offset_ns, is_unix })
    }

    /// The operating system's monotonic clock, for machines whose time stamp counter is not to be
    /// trusted. Costs about twice as much to read. Its origin is this call.
    #[must_use]
    pub fn system() -> Self {
        Self(ClockSource::System { origin: Instant::now(), offset_ns: 0 })
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
            // Its readings count from a call of this process: they may begin anew at any number.
            ClockSource::Counter { counter, scale, is_unix: false, .. } => {
                let origin_raw = counter.raw();
                Self(ClockSource::Counter { counter, origin_raw, scale, offset_ns, is_unix: false })
            }
            // It reads less than before the restart: it is put forward, and never set back.
            ClockSource::Counter { counter, scale, is_unix: true, .. } if is_behind => {
                let origin_raw = counter.raw();
                Self(ClockSource::Counter { counter, origin_raw, scale, offset_ns, is_unix: true })
            }
            ClockSource::System { .. } => {
                Self(ClockSource::System { origin: Instant::now(), offset_ns })
            }
            // One that reads more already, or that others hold.
            other => Self(other),
        }
    }

    /// Whether its readings tell the date: those of Unix time, of a clock that was resumed at a reading, and those that
    /// others set do.
    pub(crate) fn tells_date(&self) -> bool {
        match &self.0 {
            ClockSource::Counter { offset_ns, is_unix, .. } => *is_unix || *offset_ns > 0,
            ClockSource::System { offset_ns, .. } => *offset_ns > 0,
            ClockSource::Manual(_) => true,
        }
    }

    /// What the readings count from.
    pub(crate) fn origin(&self) -> Origin {
        match &self.0 {
            ClockSource::Counter { is_unix: true, .. } => Origin::Unix,
            ClockSource::Counter { .. } | ClockSource::System { .. } => Origin::Own,
            ClockSource::Manual(_) => Origin::Told,
        }
    }

    /// Reads the clock.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            ClockSource::Counter { counter, origin_raw, scale, offset_ns, .. } => {
                let raw = counter.raw();
                let steps = raw.wrapping_sub(*origin_raw);
                let steps = if raw < *origin_raw { steps_before_origin() } else { steps };
                let elapsed_ns = scaled(steps, *scale);
                // Wraps 480 years after the latest time, at which an origin is cut.
                Timestamp(offset_ns.wrapping_add(elapsed_ns))
            }
            ClockSource::System { origin, offset_ns } => system_now(*origin, *offset_ns),
            ClockSource::Manual(manual) => manual.now(),
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
        Self(ClockSource::Manual(manual))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.0 {
            ClockSource::Counter { .. } => "counter",
            ClockSource::System { .. } => "system",
            ClockSource::Manual(_) => "manual",
        };
        write!(f, "Clock({name})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
