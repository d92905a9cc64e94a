//! Typed errors: what was refused, and what would be accepted.

mod build;

use std::time::Duration;
use std::{fmt, io};

use crate::period::write_period;

pub use build::BuildError;
pub(crate) use build::NO_DATE;

/// Why a [`Quota`](crate::Quota) was refused.
///
/// ```
/// let error = tollgate::Quota::try_per_second(0).unwrap_err();
/// assert_eq!(error.to_string(), "count 0 would admit nothing; it must be at least 1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuotaError {
    /// The count is 0: nothing would ever come back.
    ZeroCount,
    /// The period is 0: the rate would be infinite.
    ZeroPeriod,
    /// The period is longer than 2^64 - 1 nanoseconds (584 years).
    PeriodTooLong,
    /// The burst is 0: nothing would ever be admitted.
    ZeroBurst,
    /// More than about 2.2e9 units per second: faster than time can be counted in a word.
    RateTooHigh,
    /// The burst is 2^63 or more.
    BurstTooLarge,
}

impl QuotaError {
    pub(crate) const fn message(&self) -> &'static str {
        match self {
            Self::ZeroCount => "count 0 would admit nothing; it must be at least 1",
            Self::ZeroPeriod => "period 0 would be an infinite rate; it must be at least 1ns",
            Self::PeriodTooLong => "the period is too long; it must be at most 584 years",
            Self::ZeroBurst => "burst 0 would admit nothing; it must be at least 1",
            Self::RateTooHigh => {
                "the rate is too high to be counted exactly; it must be at most 2.2e9 units per second"
            }
            Self::BurstTooLarge => {
                "the burst is too large to be counted exactly; it must be below 2^63"
            }
        }
    }
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for QuotaError {}

/// Why a [`Policy`](crate::Policy) was refused, with the words at fault if it came from text.
///
/// ```
/// let error = "10/fortnight".parse::<tollgate::Policy>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "in policy \"10/fortnight\": period \"fortnight\" is not understood; \
///      write a number and one of ns us ms s m h d, as in 250ms, 10s, 15m, 3h or d",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyError {
    /// The quota itself is refused.
    Quota(QuotaError),
    /// The quota has a burst of its own, but windows admit their limit and take none.
    BurstOnWindow,
    /// The counts and the window number need more bits than a word has.
    DoesNotFit {
        /// The bits that this policy needs.
        needed_bits: u32,
        /// What would fit.
        hint: String,
    },
    /// The number of segments is not between 2 and 64.
    SegmentCount {
        /// The number that was asked for.
        segments: u32,
    },
    /// The window is not a whole number of nanoseconds per segment.
    UnevenSegments {
        /// The length of the window, in nanoseconds.
        window_ns: u64,
        /// The number of segments that does not divide it.
        segments: u32,
    },
    /// A share of 0, or of more than 100 %, to soften a limit by.
    SoftShare {
        /// The share that was asked for, in hundredths of a percent.
        share_bp: u32,
    },
    /// A share that is less than one unit of the limit: it would soften nothing.
    SoftAddsNothing {
        /// The limit.
        limit: u64,
        /// The share that was asked for, in hundredths of a percent.
        share_bp: u32,
    },
    /// The softened limit is above 2^64 - 1.
    SoftTooLarge {
        /// The limit.
        limit: u64,
        /// The share that was asked for, in hundredths of a percent.
        share_bp: u32,
    },
    /// A quota of calendar months whose period is not that of the longest month.
    MonthPeriod,
    /// A penalty on calendar months, whose word has no room for its end.
    PenaltyOnMonth,
    /// A longest wait for denied requests on a window, which has no such measure.
    DeniedWaitOnWindow,
    /// A penalty after no denial at all.
    PenaltyAfterNone,
    /// A penalty that would be over before everything admitted has ceased to count.
    PenaltyTooShort {
        /// The length that was asked for.
        length: Duration,
        /// The least length that forgives nothing.
        least: Duration,
    },
    /// The text could not be read.
    Text {
        /// The whole text.
        text: String,
        /// What is wrong with it and what would be accepted.
        reason: String,
    },
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota(error) => error.fmt(f),
            Self::BurstOnWindow => f.write_str(
                "a window takes no burst: it admits its whole limit at once; \
                 leave the burst out, or use gcra",
            ),
            Self::DoesNotFit { needed_bits, hint } => {
                write!(f, "the counts and the window number need {needed_bits} bits; {hint}")
            }
            Self::SegmentCount { segments } => {
                write!(f, "a window cannot be cut into {segments} segments; use 2 to 64, as in x6")
            }
            Self::UnevenSegments { window_ns, segments } => {
                f.write_str("a window of ")?;
                write_period(f, *window_ns, "1")?;
                write!(f, " is not {segments} segments of whole nanoseconds; use ")?;
                let even = |n: &u32| window_ns.is_multiple_of(u64::from(*n));
                let fewer = (2..*segments).rev().find(even);
                match (fewer, (segments + 1..=64).find(even)) {
                    (Some(fewer), Some(more)) => write!(f, "x{fewer} or x{more}"),
                    (Some(one), None) | (None, Some(one)) => write!(f, "x{one}"),
                    (None, None) => f.write_str("a length that can be divided"),
                }
            }
            Self::SoftShare { share_bp } => {
                write_percent(f, *share_bp)?;
                f.write_str(" is no share to soften a limit by; use 0.01% to 100%, as in soft 5%")
            }
            Self::SoftAddsNothing { limit, share_bp } => {
                write_percent(f, *share_bp)?;
                write!(f, " of a limit of {limit} is not one unit; use at least ")?;
                // At most 100 %, since one unit is at most the whole limit.
                write_percent(f, u32::try_from(10_000_u64.div_ceil(*limit)).unwrap_or(10_000))
            }
            Self::SoftTooLarge { limit, share_bp } => {
                write!(f, "a limit of {limit} and ")?;
                write_percent(f, *share_bp)?;
                write!(f, " more is above {}; use a smaller share", u64::MAX)
            }
            Self::MonthPeriod => f.write_str(
                "a quota of calendar months has a period of 31 days; use Policy::calendar_month",
            ),
            Self::PenaltyOnMonth => f.write_str(
                "calendar-month takes no penalty; leave it out, or use fixed-window 10000/31d",
            ),
            Self::DeniedWaitOnWindow => f.write_str(
                "a window has no longest wait for denied requests: its count stops at the limit; \
                 write count-denied alone, or use gcra",
            ),
            Self::PenaltyAfterNone => {
                f.write_str("a penalty after 0 denials would refuse everything; use at least 1")
            }
            Self::PenaltyTooShort { length, least } => write!(
                f,
                "a penalty of {length:?} would end before what was admitted has ceased to count; \
                 use at least {least:?}",
            ),
            Self::Text { text, reason } => write!(f, "in policy {text:?}: {reason}"),
        }
    }
}

impl std::error::Error for PolicyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Quota(error) => Some(error),
            _ => None,
        }
    }
}

/// Writes hundredths of a percent: `5%`, `0.25%`, `12.5%`.
pub(crate) fn write_percent(f: &mut fmt::Formatter<'_>, share_bp: u32) -> fmt::Result {
    match (share_bp / 100, share_bp % 100) {
        (whole, 0) => write!(f, "{whole}%"),
        (whole, part) if part % 10 == 0 => write!(f, "{whole}.{}%", part / 10),
        (whole, part) => write!(f, "{whole}.{part:02}%"),
    }
}

impl From<QuotaError> for PolicyError {
    fn from(error: QuotaError) -> Self {
        Self::Quota(error)
    }
}

/// Why a [`CoarseClock`](crate::CoarseClock) could not be started.
///
/// ```
/// use std::time::Duration;
/// let error = tollgate::CoarseClock::new().start(Duration::ZERO).unwrap_err();
/// assert_eq!(error.to_string(), "a clock cannot tick every 0ns; use up to 1s, as in 1ms");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClockError {
    /// An interval of zero, or above a second.
    Interval {
        /// The interval that was asked for.
        interval: Duration,
    },
    /// The system refused the thread that ticks.
    Thread {
        /// What the system said.
        kind: io::ErrorKind,
    },
}

impl fmt::Display for ClockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interval { interval } => {
                write!(f, "a clock cannot tick every {interval:?}; use up to 1s, as in 1ms")
            }
            Self::Thread { kind } => write!(f, "the clock's thread could not be started: {kind}"),
        }
    }
}

impl std::error::Error for ClockError {}

/// Why a [`SparePool`](crate::SparePool) did not take a headroom.
///
/// ```
/// use tollgate::{Quota, SparePool};
/// let error = SparePool::new(Quota::per_second(5)).report_headroom(1.5).unwrap_err();
/// assert_eq!(error.to_string(), "headroom 1.5 is refused; use 0 to 1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct HeadroomError {
    /// What was reported. May be no number.
    pub found: f64,
}

impl fmt::Display for HeadroomError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "headroom {} is refused; use 0 to 1", self.found)
    }
}

impl std::error::Error for HeadroomError {}
