//! Policies as text: `<algorithm>? <count>/<period> [burst <n>] [options] [at the limit]`.

use std::fmt;
use std::str::FromStr;

use super::calendar_month::month_quota;
use super::read::{read_number, read_period};
use super::words::{Words, write_words};
use super::{Algorithm, AtLimit, Policy};
use crate::error::PolicyError;
use crate::quota::Quota;

/// Prints the policy so that [`FromStr`] reads it back. Aliases are printed as what they stand for.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, option) = match self.algorithm {
            Algorithm::Gcra => ("gcra", ""),
            Algorithm::FixedWindow => ("fixed-window", ""),
            Algorithm::FixedWindowFromFirst => ("fixed-window", " from-first"),
            Algorithm::SlidingWindow => ("sliding-window", ""),
            Algorithm::SlidingWindowRoundDown => ("sliding-window", " round-down"),
            Algorithm::SlidingWindowStrict => ("sliding-window", " strict"),
            Algorithm::CalendarMonth => {
                write!(f, "{CALENDAR_MONTH} {}", self.quota.count())?;
                return write_words(f, self.at_limit);
            }
            Algorithm::SegmentedWindow { segments } => {
                write!(f, "segmented-window {} x{segments}", self.quota)?;
                return write_words(f, self.at_limit);
            }
        };
        write!(f, "{name} {}{option}", self.quota)?;
        write_words(f, self.at_limit)
    }
}

/// Reads a policy.
///
/// ```text
/// 100/s burst 20                     gcra unless said otherwise
/// gcra 100/s burst 20                also token-bucket, leaky-bucket
/// leaky-bucket 100/m soft            a burst of 100, drains 100 per minute (the same as gcra 100/m)
/// leaky-bucket 100/m hard            a burst of 100, drains 1 per minute (gcra 1/m burst 100)
/// spaced 5/s                         never two at once (gcra 5/s burst 1)
/// fixed-window 100/m                 windows of the clock; also written `aligned`
/// fixed-window 100/m from-first      the window opens with the first request
/// sliding-window 100/m               exact; or `round-down`, or `strict`
/// segmented-window 100/m x6          a ring of 6 segments
/// calendar-month 10000               months of the calendar in UTC: needs a clock of Unix time
/// ```
///
/// `sliding-log 100/m` is read as a [`LogPolicy`](crate::LogPolicy): it takes more than one word.
///
/// To any of these may be added, in any order, what happens at the limit (see
/// [`AtLimit`](crate::AtLimit)):
///
/// ```text
/// soft 5%                            admits 5 % more, and says so; always with the percent sign
/// count-denied                       a denied request is charged as well
/// count-denied 30s                   (gcra) until one unit would have to wait for 30 s
/// penalty 10m after 3                the third denial in a row refuses everything for 10 minutes
/// penalty 10m after 3 extended       and each denial meanwhile begins the 10 minutes anew
/// ```
///
/// A period is `s m h d` or a number with `ns us ms s m h d`: `250ms`, `10s`, `15m`, `3h`, `1d`.
///
/// ```
/// use tollgate::Policy;
/// let policy: Policy = "leaky-bucket 100/60s hard".parse()?;
/// assert_eq!(policy.to_string(), "gcra 1/m burst 100");
/// let error = "sliding-window 100/m burst 5".parse::<Policy>().unwrap_err();
/// assert!(error.to_string().contains("takes no burst"));
/// # Ok::<(), tollgate::PolicyError>(())
/// ```
impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        read(text).map_err(|error| match error {
            PolicyError::Text { .. } => error,
            other => PolicyError::Text { text: text.to_string(), reason: other.to_string() },
        })
    }
}

/// The words that may stand for an algorithm.
const ALGORITHMS: &str = "gcra, token-bucket, leaky-bucket, spaced, fixed-window, sliding-window, \
                          segmented-window or calendar-month";

/// The one algorithm whose quota has no period.
const CALENDAR_MONTH: &str = "calendar-month";

fn read(text: &str) -> Result<Policy, PolicyError> {
    let wrong = |reason: String| PolicyError::Text { text: text.to_string(), reason };
    // `GCRA` and `fixed_window` can mean nothing else.
    let lower = text.to_lowercase().replace('_', "-");
    let mut words = lower.split_whitespace().peekable();
    let name = match words.peek() {
        None => {
            let reason = "it is empty; write a quota such as 100/s, or gcra 100/s burst 20";
            return Err(wrong(reason.to_string()));
        }
        Some(word) if word.starts_with(|first: char| first.is_ascii_digit() || first == '/') => {
            "gcra"
        }
        Some(_) => words.next().unwrap_or_default(),
    };
    let rate = words.next().ok_or_else(|| {
        wrong(format!("after {name:?} a quota such as 100/s is missing (algorithms: {ALGORITHMS})"))
    })?;
    let quota = match name {
        CALENDAR_MONTH => read_month(rate, &wrong)?,
        _ => read_quota(rate, &wrong)?,
    };
    let mut options = Options::default();
    let mut at_limit = Words::default();
    while let Some(word) = words.next() {
        if at_limit.read(word, &mut words, &wrong)? {
            continue;
        }
        match word {
            "burst" if options.burst.is_some() => {
                return Err(wrong("burst is given twice".to_string()));
            }
            "burst" => {
                let Some(value) = words.next() else {
                    return Err(wrong("burst needs a number, as in burst 20".to_string()));
                };
                options.burst = Some(read_number("burst", value, &wrong)?);
            }
            _ if options.mode.is_none() => options.mode = Some(word),
            _ => {
                // The first of two unknown words is at fault, unless it is right.
                build(name, quota, &options, &wrong)?;
                return Err(wrong(format!("{word:?} is one option too many")));
            }
        }
    }
    at_limit.apply(build(name, quota, &options, &wrong)?)
}

#[derive(Default)]
struct Options<'a> {
    burst: Option<u64>,
    mode: Option<&'a str>,
}

fn build(
    name: &str,
    quota: Quota,
    options: &Options<'_>,
    wrong: &dyn Fn(String) -> PolicyError,
) -> Result<Policy, PolicyError> {
    let unknown = |accepted: &str| match options.mode {
        Some(word) => wrong(format!("{name} has no option {word:?}; {accepted}")),
        None => wrong(format!("{name} needs an option; {accepted}")),
    };
    let with_burst = match options.burst {
        Some(burst) => quota.try_burst(burst)?,
        None => quota,
    };
    let algorithm = match (name, options.mode) {
        ("gcra" | "token-bucket" | "leaky-bucket", None) => return Ok(with_burst.into()),
        ("leaky-bucket", Some("soft" | "hard")) | ("spaced", None) if options.burst.is_some() => {
            return Err(wrong(format!("{name} fixes its burst; leave it out, or use gcra")));
        }
        ("leaky-bucket", Some("soft")) => return Ok(quota.into()),
        ("leaky-bucket", Some("hard")) => {
            return Ok(Quota::try_per(1, quota.period())?.try_burst(quota.count())?.into());
        }
        ("leaky-bucket", _) => return Err(unknown("use soft, hard, or none")),
        ("gcra" | "token-bucket", _) => return Err(unknown("it takes only burst <n>")),
        ("spaced", None) => return Ok(quota.try_burst(1)?.into()),
        ("spaced", _) => return Err(unknown("it takes none")),
        ("fixed-window", None | Some("aligned")) => Algorithm::FixedWindow,
        ("fixed-window", Some("from-first")) => Algorithm::FixedWindowFromFirst,
        ("fixed-window", _) => return Err(unknown("use aligned, from-first, or none")),
        ("sliding-window", None | Some("exact")) => Algorithm::SlidingWindow,
        ("sliding-window", Some("round-down")) => Algorithm::SlidingWindowRoundDown,
        ("sliding-window", Some("strict")) => Algorithm::SlidingWindowStrict,
        ("sliding-window", _) => return Err(unknown("use exact, round-down, strict, or none")),
        ("segmented-window", mode) => {
            let accepted = "write the number of segments as x2 to x64, as in x6";
            let number = mode.and_then(|word| word.strip_prefix('x'));
            let segments = number.filter(|n| n.bytes().all(|b| b.is_ascii_digit()));
            match segments.and_then(|n| n.parse().ok()) {
                Some(segments) => Algorithm::SegmentedWindow { segments },
                None => return Err(unknown(accepted)),
            }
        }
        (CALENDAR_MONTH, None) => Algorithm::CalendarMonth,
        (CALENDAR_MONTH, _) => return Err(unknown("it takes none")),
        ("sliding-log" | "log", _) => {
            return Err(wrong(
                "a sliding log does not fit in one word; it is a LogPolicy, for LogLimiter and \
                 KeyedLogLimiter"
                    .to_string(),
            ));
        }
        _ => return Err(wrong(format!("there is no algorithm {name:?}; use {ALGORITHMS}"))),
    };
    // Not `with_burst`: a burst equal to the count is refused on a window too.
    if options.burst.is_some() {
        return Err(PolicyError::BurstOnWindow);
    }
    Policy::new(algorithm, quota)
}

/// Reads the units of a calendar month.
fn read_month(count: &str, wrong: &dyn Fn(String) -> PolicyError) -> Result<Quota, PolicyError> {
    if count.contains('/') {
        return Err(wrong(format!(
            "{CALENDAR_MONTH} takes a count without a period, as in {CALENDAR_MONTH} 10000, not {count:?}"
        )));
    }
    Ok(month_quota(read_number("count", count, wrong)?)?)
}

pub(crate) fn read_quota(
    rate: &str,
    wrong: &dyn Fn(String) -> PolicyError,
) -> Result<Quota, PolicyError> {
    let Some((count, period)) = rate.split_once('/') else {
        return Err(wrong(format!(
            "{rate:?} has no period; write <count>/<period> without spaces, as in 100/s"
        )));
    };
    let count = read_number("count", count, wrong)?;
    Ok(Quota::try_per(count, read_period("period", period, wrong)?)?)
}

/// As text in both directions.
#[cfg(feature = "serde")]
mod as_text {
    use super::{Policy, Quota};
    use std::borrow::Cow;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    impl Serialize for Policy {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(self)
        }
    }

    impl<'de> Deserialize<'de> for Policy {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let text = Cow::<'de, str>::deserialize(deserializer)?;
            text.parse().map_err(D::Error::custom)
        }
    }

    impl Serialize for Quota {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(self)
        }
    }

    impl<'de> Deserialize<'de> for Quota {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let text = Cow::<'de, str>::deserialize(deserializer)?;
            text.parse().map_err(D::Error::custom)
        }
    }
}

/// Reads `<count>/<period> [burst <n>]`.
///
/// ```
/// use tollgate::Quota;
/// assert_eq!("100/s burst 20".parse::<Quota>()?, Quota::per_second(100).burst(20));
/// # Ok::<(), tollgate::PolicyError>(())
/// ```
impl FromStr for Quota {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let policy: Policy = text.parse()?;
        let reason = if !text.trim_start().starts_with(|first: char| first.is_ascii_digit()) {
            "a quota names no algorithm; write <count>/<period> [burst <n>]"
        } else if policy.at_limit() != AtLimit::default() {
            "a quota does not say what happens at its limit; write <count>/<period> [burst <n>]"
        } else {
            return Ok(policy.quota());
        };
        Err(PolicyError::Text { text: text.to_string(), reason: reason.to_string() })
    }
}
