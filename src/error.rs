//! Typed errors. The text of each error says what was refused, and what would be accepted.

mod build;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::percent::Percent;
use crate::period::period;

pub use build::BuildError;
pub(crate) use build::NO_DATE;

/// The reason why a [`Quota`](crate::Quota) or a [`Policy`](crate::Policy) was refused. The error's text says what is
/// wrong and what would be accepted. If the policy came as text, it is quoted in full.
///
/// ```
/// use std::time::Duration;
/// let error = tollgate::Quota::try_per(0, Duration::from_secs(1)).unwrap_err();
/// assert_eq!(error.to_string(), "count 0 would admit nothing; it must be at least 1");
/// let error = "10/fortnight".parse::<tollgate::Policy>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "in policy \"10/fortnight\": period \"fortnight\" is not understood; \
///      write a number and one of ns us ms s m h d w, as in 250ms, 10s, 15m, 3h or d",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The text of the policy, if it was read from text.
    text: Option<String>,
    reason: Cow<'static, str>,
}

impl PolicyError {
    /// An error with a fixed text.
    pub(crate) const fn fixed(reason: &'static str) -> Self {
        Self { text: None, reason: Cow::Borrowed(reason) }
    }

    pub(crate) fn new(reason: String) -> Self {
        Self { text: None, reason: Cow::Owned(reason) }
    }

    /// The same error, for a policy that was read from this text.
    pub(crate) fn in_text(self, text: &str) -> Self {
        Self { text: Some(text.to_string()), ..self }
    }

    pub(crate) fn does_not_fit(needed_bits: u32, hint: &str) -> Self {
        Self::new(format!("the counts and the window number need {needed_bits} bits; {hint}"))
    }

    pub(crate) fn burst_on_log(count: u64, burst: u64) -> Self {
        Self::new(format!(
            "a sliding log admits its whole count of {count} at once and takes no burst of \
             {burst}; leave the burst out, or use gcra",
        ))
    }

    /// The error for a limit that is larger than the largest number of slots of a log.
    pub(crate) fn log_too_large(limit: u64, max: u64) -> Self {
        Self::new(format!(
            "a sliding log keeps a time for each of its {limit} units, and at most {max} are \
             accepted; use gcra or a window",
        ))
    }

    pub(crate) fn segment_count(segments: u8) -> Self {
        Self::new(format!("a window cannot be cut into {segments} segments; use 2 to 64, as in x6"))
    }

    /// The error for a window whose segments would not be a whole number of nanoseconds long.
    pub(crate) fn uneven_segments(window_ns: u64, segments: u8) -> Self {
        let even = |n: &u8| window_ns.is_multiple_of(u64::from(*n));
        let fewer = (2..segments).rev().find(even);
        let even_ones = match (fewer, (segments + 1..=64).find(even)) {
            (Some(fewer), Some(more)) => format!("x{fewer} or x{more}"),
            (Some(one), None) | (None, Some(one)) => format!("x{one}"),
            (None, None) => "a length that can be divided".to_string(),
        };
        Self::new(format!(
            "a window of {} is not {segments} segments of whole nanoseconds; use {even_ones}",
            period(window_ns, "1"),
        ))
    }

    /// The error for a soft share that is 0 or more than 100 %.
    pub(crate) fn soft_share(share: Percent) -> Self {
        Self::new(format!(
            "{share} is no share to soften a limit by; use 0.01% to 100%, as in soft 5%"
        ))
    }

    /// The error for a soft share that is less than one unit of the limit.
    pub(crate) fn soft_adds_nothing(limit: u64, share: Percent) -> Self {
        // This is at most 100 %, since one unit is at most the whole limit.
        let least = u16::try_from(10_000_u64.div_ceil(limit)).unwrap_or(10_000);
        let least = Percent::from_hundredths(least);
        Self::new(format!("{share} of a limit of {limit} is not one unit; use at least {least}"))
    }

    /// The error for a softened limit above 2^64 - 1.
    pub(crate) fn soft_too_large(limit: u64, share: Percent) -> Self {
        Self::new(format!(
            "a limit of {limit} and {share} more is above {}; use a smaller share",
            u64::MAX,
        ))
    }

    /// The error for a penalty that could end while earlier admitted units still count against the limit.
    pub(crate) fn penalty_too_short(length: Duration, least: Duration) -> Self {
        Self::new(format!(
            "a penalty of {length:?} would end before what was admitted has ceased to count; \
             use at least {least:?}",
        ))
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            write!(f, "in policy {text:?}: ")?;
        }
        f.write_str(&self.reason)
    }
}

impl std::error::Error for PolicyError {}
