//! The algorithms in plain numbers, and the checks that such numbers are meaningful.

use crate::ticks::Ticks;

/// An algorithm in plain numbers.
///
/// `now` is the time of the request, and `cost` the units that it asks for. All windows and segments are half open; a
/// request on a boundary belongs to the new window. If `now` is before the stored window, it is taken as the start of
/// that window.
///
/// ```
/// use tollgate_oracle::{Algorithm, Oracle};
///
/// // 100 units per second, 20 of them at one instant, in exact rational time.
/// let algorithm = Algorithm::Gcra { count: 100, period_ns: 1_000_000_000, burst: 20, tick: None };
/// assert_eq!(Oracle::new(algorithm).limit(), 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// The generic cell rate algorithm: a token bucket that refills continuously, a leaky bucket
    /// used as a meter.
    ///
    /// The state is one time, the theoretical arrival time (TAT), 0 at first. One unit takes one
    /// emission interval `period / count`. Admit iff
    ///
    /// `max(TAT, now) + cost * interval - now <= burst * interval`.
    ///
    /// An admission sets TAT to `max(TAT, now) + cost * interval`.
    ///
    /// With `tick: None` time is an exact rational. With `tick: Some(k)` time is a whole number
    /// of ticks, `2^k` to the emission interval: `ticks(now) = floor(now * F / 2^s)`, where
    /// `F = ceil(count * 2^k * 2^s / period)` and `s` is the largest integer from 0 up for which
    /// `F < 2^64`.
    Gcra {
        /// Units per period.
        count: u64,
        /// Length of the period.
        period_ns: u64,
        /// The maximum number of units admitted at one instant from rest, the first one included.
        burst: u64,
        /// `None` for rational time, `Some(k)` for ticks of `2^-k` unit.
        tick: Option<u32>,
    },
    /// Windows `[k * window, (k + 1) * window)` counted from time 0. Admit iff
    ///
    /// `units admitted in the window + cost <= limit`.
    FixedWindow {
        /// The maximum number of units in one window.
        limit: u64,
        /// Length of a window.
        window_ns: u64,
    },
    /// Windows of the Gregorian calendar, with time 0 at the beginning of 1970 and days of 86,400 s. Admit iff
    ///
    /// `units admitted in the window + cost <= limit`.
    Calendar {
        /// The maximum number of units in one window.
        limit: u64,
        /// The length of a window.
        unit: CalendarSpan,
    },
    /// A window that opens with the first admitted request and ends `window` later. Admit iff
    ///
    /// `units admitted in the open window + cost <= limit`.
    ///
    /// No window is open before the first admission, nor from `start + window` on. `start` is the time of the admission
    /// that opened the window, rounded up to whole quanta; before `start` the window has age 0.
    FixedWindowFromFirst {
        /// The maximum number of units in one window.
        limit: u64,
        /// Length of a window.
        window_ns: u64,
        /// The unit in which the start is stored; 1 stores it exactly.
        quantum_ns: u64,
    },
    /// Aligned windows. The units of the previous window are weighted by the share of that window that lies in the last
    /// `window` nanoseconds. With `e = now - start of the window` and `0 <= e < window`, [`Rounding`] states the
    /// condition of admission. Once two or more windows have passed, both counts are 0.
    SlidingWindow {
        /// The maximum number of units in one window.
        limit: u64,
        /// Length of a window.
        window_ns: u64,
        /// The rounding of the previous window's share.
        rounding: Rounding,
    },
    /// Segments of `window / segments` nanoseconds counted from time 0. Admit iff
    ///
    /// `units in the last n segments, the current one included, + cost <= limit`.
    ///
    /// Here `n` is `segments`.
    SegmentedWindow {
        /// The maximum number of units in `segments` consecutive segments.
        limit: u64,
        /// Length of all segments together; divisible by `segments`.
        window_ns: u64,
        /// Number of segments.
        segments: u64,
    },
    /// Every admission is recorded with its time. Admit iff
    ///
    /// `units admitted at times in (now - window, now] + cost <= limit`.
    ///
    /// A unit admitted at a time after `now` counts, too.
    SlidingLog {
        /// The maximum number of units in any `window` nanoseconds.
        limit: u64,
        /// The time for which a unit counts.
        window_ns: u64,
    },
}

/// A window of [`Algorithm::Calendar`].
///
/// ```
/// use tollgate_oracle::{Algorithm, CalendarSpan, Oracle};
///
/// let week = CalendarSpan::Week { begins: 6 };
/// let mut oracle = Oracle::new(Algorithm::Calendar { limit: 5, unit: week });
/// oracle.check(0, 5);
/// // 1970 begins on a Thursday: the next Sunday is three days later.
/// let day_ns = 86_400_000_000_000;
/// assert_eq!(oracle.remaining(3 * day_ns - 1), 0);
/// assert_eq!(oracle.remaining(3 * day_ns), 5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CalendarSpan {
    /// A month, from its first day on.
    Month,
    /// A year, from the first of January on.
    Year,
    /// Seven days.
    Week {
        /// The day on which the week begins: 0 for Monday to 6 for Sunday.
        begins: u8,
    },
}

/// The way in which [`Algorithm::SlidingWindow`] counts the previous window.
///
/// `prev` and `cur` are the units admitted in the previous and in the current window, `e` is the
/// age of the current window.
///
/// ```
/// use tollgate_oracle::{Algorithm, Oracle, Rounding};
///
/// let room = |rounding| {
///     let mut oracle = Oracle::new(Algorithm::SlidingWindow { limit: 5, window_ns: 4, rounding });
///     oracle.check(0, 5);
///     oracle.remaining(4 + 3) // a quarter of five units remains: 1.25
/// };
/// assert_eq!(room(Rounding::Down), 4);
/// assert_eq!(room(Rounding::Exact), 3);
/// assert_eq!(room(Rounding::Strict), 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// `prev * (window - e) + (cur + cost) * window <= limit * window`; the same as rounding the
    /// share up.
    Exact,
    /// `floor(prev * (window - e) / window) + cur + cost <= limit`.
    Down,
    /// `prev + cur + cost <= limit`: the previous window counts in full.
    Strict,
}

impl Algorithm {
    /// Panics for numbers that describe no algorithm.
    pub(crate) fn assert_meaningful(&self) {
        match *self {
            Algorithm::Gcra { count, period_ns, burst, tick } => {
                assert!(count > 0, "count must be at least 1");
                assert!(period_ns > 0, "period must be at least 1 ns");
                assert!(burst > 0, "burst must be at least 1");
                assert!(
                    tick.is_none_or(|k| Ticks::new(count, period_ns, k).is_some()),
                    "at this rate ticks of 2^-k unit have no factor below 2^64"
                );
            }
            Algorithm::FixedWindowFromFirst { quantum_ns, .. } => {
                assert!(quantum_ns > 0, "quantum must be at least 1 ns");
            }
            Algorithm::SegmentedWindow { window_ns, segments, .. } => {
                assert!(segments > 0, "segments must be at least 1");
                assert!(
                    window_ns.is_multiple_of(segments),
                    "window must be a whole number of ns per segment"
                );
            }
            Algorithm::Calendar { unit: CalendarSpan::Week { begins }, .. } => {
                assert!(begins < 7, "a week has seven days");
            }
            Algorithm::FixedWindow { .. }
            | Algorithm::Calendar { .. }
            | Algorithm::SlidingWindow { .. }
            | Algorithm::SlidingLog { .. } => {}
        }
        match *self {
            Algorithm::Gcra { .. } => {}
            Algorithm::Calendar { limit, .. } => assert!(limit > 0, "limit must be at least 1"),
            Algorithm::FixedWindow { limit, window_ns }
            | Algorithm::FixedWindowFromFirst { limit, window_ns, .. }
            | Algorithm::SlidingWindow { limit, window_ns, .. }
            | Algorithm::SegmentedWindow { limit, window_ns, .. }
            | Algorithm::SlidingLog { limit, window_ns } => {
                assert!(limit > 0, "limit must be at least 1");
                assert!(window_ns > 0, "window must be at least 1 ns");
            }
        }
    }
}
