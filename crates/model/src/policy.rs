//! Policies made from a few bytes. Most of these policies are valid, and every valid policy can be made.

use std::time::Duration;

use arbitrary::Arbitrary;
use tollgate::{Algorithm, CalendarUnit, Policy, Quota, Rounding, Weekday};

/// A number of units, at least 1. Small and large numbers are equally frequent.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the widths of numbers")]
pub enum Amount {
    One,
    Small(u8),
    Medium(u16),
    Large(u32),
    Huge(u64),
}

impl Amount {
    fn units(self) -> u64 {
        let units = match self {
            Self::One => 1,
            Self::Small(units) => units.into(),
            Self::Medium(units) => units.into(),
            Self::Large(units) => units.into(),
            Self::Huge(units) => units,
        };
        units.max(1)
    }
}

/// A length of time, at least 1 ns. Common and odd lengths are equally frequent.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the units of time")]
pub enum Period {
    Second,
    Minute,
    Day,
    Nanos(u16),
    Millis(u16),
    Minutes(u16),
    Odd(u64),
}

impl Period {
    pub(crate) fn nanos(self) -> u64 {
        let nanos = match self {
            Self::Second => 1_000_000_000,
            Self::Minute => 60_000_000_000,
            Self::Day => 86_400_000_000_000,
            Self::Nanos(n) => n.into(),
            Self::Millis(n) => u64::from(n) * 1_000_000,
            Self::Minutes(n) => u64::from(n) * 60_000_000_000,
            Self::Odd(n) => n,
        };
        nanos.max(1)
    }
}

/// A quota. Some of these are refused.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaCase {
    /// Units per period.
    pub count: Amount,
    /// The period.
    pub period: Period,
    /// The burst, if it differs from the count.
    pub burst: Option<Amount>,
}

impl QuotaCase {
    /// The quota, if it is accepted.
    #[must_use]
    pub fn quota(self) -> Option<Quota> {
        let period = Duration::from_nanos(self.period.nanos());
        let quota = Quota::try_per(self.count.units(), period).ok()?;
        match self.burst {
            Some(burst) => quota.try_burst(burst.units()).ok(),
            None => Some(quota),
        }
    }
}

/// A window algorithm.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in the policy text")]
pub enum WindowShape {
    Fixed,
    FromFirst,
    Sliding,
    RoundDown,
    Strict,
    /// This number modulo 63, plus 2, is the number of segments.
    Segmented(u8),
    /// A window of the calendar, which has a limit but no other period. This number modulo 9 chooses a month, a year,
    /// or a week that begins on a day from Monday to Sunday.
    Calendar(u8),
}

impl WindowShape {
    /// The policy, if it is accepted. The window is lengthened until each segment has a whole number of nanoseconds.
    #[must_use]
    pub fn policy(self, limit: Amount, window: Period) -> Option<Policy> {
        let mut window_ns = window.nanos();
        let algorithm = match self {
            Self::Calendar(number) => {
                return Policy::calendar(calendar_unit(number), limit.units()).ok();
            }
            Self::Fixed => Algorithm::FixedWindow,
            Self::FromFirst => Algorithm::FixedWindowFromFirst,
            Self::Sliding => Algorithm::SlidingWindow { rounding: Rounding::Exact },
            Self::RoundDown => Algorithm::SlidingWindow { rounding: Rounding::Down },
            Self::Strict => Algorithm::SlidingWindow { rounding: Rounding::Strict },
            Self::Segmented(more) => {
                let segments = 2 + more % 63;
                window_ns = window_ns.checked_next_multiple_of(segments.into())?;
                Algorithm::SegmentedWindow { segments }
            }
        };
        let quota = Quota::try_per(limit.units(), Duration::from_nanos(window_ns)).ok()?;
        Policy::new(algorithm, quota).ok()
    }
}

fn calendar_unit(number: u8) -> CalendarUnit {
    match number % 9 {
        0 => CalendarUnit::Month,
        1 => CalendarUnit::Year,
        2 => CalendarUnit::Week(Weekday::Monday),
        3 => CalendarUnit::Week(Weekday::Tuesday),
        4 => CalendarUnit::Week(Weekday::Wednesday),
        5 => CalendarUnit::Week(Weekday::Thursday),
        6 => CalendarUnit::Week(Weekday::Friday),
        7 => CalendarUnit::Week(Weekday::Saturday),
        _ => CalendarUnit::Week(Weekday::Sunday),
    }
}

/// A policy of any algorithm. Some of these are refused.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum PolicyCase {
    Gcra(QuotaCase),
    Window { shape: WindowShape, limit: Amount, period: Period },
}

impl PolicyCase {
    /// The policy, if it is accepted.
    #[must_use]
    pub fn policy(self) -> Option<Policy> {
        match self {
            Self::Gcra(quota) => quota.quota().map(Policy::from),
            Self::Window { shape, limit, period } => shape.policy(limit, period),
        }
    }
}

/// The period in nanoseconds. The period of every accepted policy fits.
pub(crate) fn period_ns(policy: Policy) -> u64 {
    u64::try_from(policy.quota().period().as_nanos()).expect("a period fits a u64")
}
