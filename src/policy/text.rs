//! Policies as text: `<algorithm>? <count>/<period> [burst <n>] [options] [at the limit]`.

use std::fmt;
use std::str::FromStr;

use super::calendar::calendar_quota;
use super::meant::meant;
use super::names::{ALGORITHMS, FROM_DAYS, NAMES, calendar_of, name_of, read_name};
use super::rate::{RateText, read_rate};
use super::read::{Words, is_number, is_word, near_days, read_number};
use super::words::{LimitWords, write_words};
use super::{Algorithm, AtLimit, BURST_ON_WINDOW, Policy};
use crate::algorithm::{CalendarUnit, Rounding, Weekday};
use crate::error::PolicyError;
use crate::quota::Quota;

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policy({self})")
    }
}

/// Prints the policy in a form that [`FromStr`] reads back. An alias is printed as the name for which it stands.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.algorithm {
            Algorithm::SegmentedWindow { segments } => {
                write!(f, "segmented-window {} x{segments}", self.quota)?;
            }
            Algorithm::Calendar(unit) => {
                write!(f, "{} {}", name_of(unit), self.quota.count())?;
                let other = FROM_DAYS.into_iter().skip(1); // a week begins on Monday
                for (from, day) in other {
                    if unit == CalendarUnit::Week(day) {
                        write!(f, " {from}")?;
                    }
                }
            }
            other => {
                if let Some((_, name, option)) = NAMES.iter().find(|(named, ..)| *named == other) {
                    write!(f, "{name} {}{option}", self.quota)?;
                }
            }
        }
        write_words(f, self.at_limit)
    }
}

/// Reads a policy. [The language of policies](crate::guide::policies) lists every word, with its values and its
/// default.
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
        read(text).map_err(|error| error.in_text(text))
    }
}

/// The words that may follow a quota, for all algorithms together.
const OPTIONS: [&str; 17] = [
    "burst",
    "soft",
    "hard",
    "aligned",
    "from-first",
    "exact",
    "strict",
    "round-up",
    "round-down",
    "count-denied",
    "penalty",
    "after",
    "extended",
    "queue",
    "wait",
    "debt",
    "per",
];

/// The options that choose between the forms of an algorithm.
const MODES: [&str; 8] =
    ["soft", "hard", "aligned", "from-first", "exact", "strict", "round-up", "round-down"];

fn read(text: &str) -> Result<Policy, PolicyError> {
    let mut words = Words::new(text);
    let name = match words.peek() {
        None => {
            return Err(PolicyError::fixed(
                "it is empty; write a quota such as 100/s, or gcra 100/s burst 20",
            ));
        }
        // The text is a quota without an algorithm.
        Some(word) if is_number(word) || word == "/" => "gcra",
        Some(_) => read_name(&mut words)?,
    };
    let mut options = PolicyOptions { mode: take_mode(&mut words), ..PolicyOptions::default() };
    let (name, quota) = read_quota(name, &mut words)?;
    let mut at_limit = LimitWords::default();
    while let Some(word) = words.take() {
        let known = OPTIONS.into_iter().find(|option| is_word(word, option));
        // Options at the limit may be anywhere after the quota.
        if at_limit.read(known.unwrap_or(word), &mut words)? {
            continue;
        }
        match known.unwrap_or(word) {
            "burst" if options.burst.is_some() => {
                return Err(PolicyError::fixed("burst is given twice"));
            }
            "burst" => {
                let Some(value) = words.take() else {
                    return Err(PolicyError::fixed("burst needs a number, as in burst 20"));
                };
                options.burst = Some(read_number("burst", value)?);
            }
            _ if options.mode.is_none() => options.mode = Some(whole_mode(word, &mut words)),
            _ => {
                // Two words could be the option for the form. The error is about the first of them, unless it is a
                // valid option.
                build(name, quota, &options)?;
                return Err(PolicyError::new(format!("{word:?} is one option too many")));
            }
        }
    }
    at_limit.apply(build(name, quota, &options)?)
}

/// Takes the option that chooses a form, if this option stands between the name and the quota.
fn take_mode<'a>(words: &mut Words<'a>) -> Option<&'a str> {
    let mut ahead = *words;
    let word = ahead.take_if(|word| !is_number(word))?;
    let mode = whole_mode(word, &mut ahead);
    ahead.peek().filter(|word| is_number(word))?;
    *words = ahead;
    Some(mode)
}

/// The options that choose the form of an algorithm, and the options that choose the first day of a week.
fn modes() -> impl Iterator<Item = &'static str> {
    MODES.into_iter().chain(FROM_DAYS.map(|(from, _)| from))
}

/// Returns the option that chooses a form. It may be written as two words, as in `from sunday`.
fn whole_mode<'a>(word: &'a str, words: &mut Words<'a>) -> &'a str {
    let behind = words.peek().filter(|_| is_word(word, "from")).unwrap_or_default();
    let is_whole =
        |mode: &&str| mode.strip_prefix("from-").is_some_and(|rest| is_word(behind, rest));
    let Some(mode) = modes().find(is_whole) else { return word };
    words.take();
    mode
}

#[derive(Default)]
struct PolicyOptions<'a> {
    burst: Option<u64>,
    mode: Option<&'a str>,
}

fn build(name: &str, quota: Quota, options: &PolicyOptions<'_>) -> Result<Policy, PolicyError> {
    let unknown = |accepted: &str| match options.mode {
        Some(word) => {
            let meant = meant(word, OPTIONS.into_iter().chain(modes()));
            PolicyError::new(format!("{name} has no option {word:?}{meant}; {accepted}"))
        }
        None => PolicyError::new(format!("{name} needs an option; {accepted}")),
    };
    let with_burst = match options.burst {
        Some(burst) => quota.try_burst(burst)?,
        None => quota,
    };
    let mode = options.mode.map(|word| modes().find(|mode| is_word(word, mode)).unwrap_or(word));
    let algorithm = match (name, mode) {
        ("gcra" | "token-bucket" | "leaky-bucket", None) => return Ok(with_burst.into()),
        ("leaky-bucket", Some("soft" | "hard")) | ("spaced", None) if options.burst.is_some() => {
            return Err(PolicyError::new(format!(
                "{name} fixes its burst; leave it out, or use gcra"
            )));
        }
        ("leaky-bucket", Some("soft")) => return Ok(quota.into()),
        // A hard leaky bucket drains one unit per period, and its count is the size of the bucket.
        ("leaky-bucket", Some("hard")) => {
            return Ok(Quota::try_per(1, quota.period())?.try_burst(quota.count())?.into());
        }
        ("leaky-bucket", _) => return Err(unknown("use soft, hard, or none")),
        ("gcra" | "token-bucket", _) => return Err(unknown("it takes only burst <n>")),
        // `spaced` has a burst of 1, so it never admits two units at once.
        ("spaced", None) => return Ok(quota.try_burst(1)?.into()),
        ("fixed-window", None | Some("aligned")) => Algorithm::FixedWindow,
        ("fixed-window", Some("from-first")) => Algorithm::FixedWindowFromFirst,
        ("fixed-window", Some(from)) if is_week(quota) && begins(from).is_some() => {
            let calendar = format!("write calendar-week {} {from}", quota.count());
            return Err(unknown(&calendar));
        }
        ("fixed-window", _) => return Err(unknown("use aligned, from-first, or none")),
        ("sliding-window", None | Some("round-down")) => {
            Algorithm::SlidingWindow { rounding: Rounding::Down }
        }
        // Rounding the share up gives the same answers as no rounding, since counts are whole numbers.
        ("sliding-window", Some("exact" | "round-up")) => {
            Algorithm::SlidingWindow { rounding: Rounding::Exact }
        }
        ("sliding-window", Some("strict")) => {
            Algorithm::SlidingWindow { rounding: Rounding::Strict }
        }
        ("sliding-window", _) => {
            return Err(unknown("use exact, round-up, round-down, strict, or none"));
        }
        ("segmented-window", mode) => {
            let accepted = "write the number of segments as x2 to x64, as in x6";
            let number = mode.and_then(|word| word.strip_prefix(['x', 'X']));
            // The digits are tested, since `parse` would also accept `+6`.
            let segments = number.filter(|n| n.bytes().all(|b| b.is_ascii_digit()));
            match segments.and_then(|n| n.parse().ok()) {
                Some(segments) => Algorithm::SegmentedWindow { segments },
                None => return Err(unknown(accepted)),
            }
        }
        ("sliding-log", None) => Algorithm::SlidingLog,
        // The other names are `spaced`, logs and windows of the calendar. An unknown name was refused when it was read.
        _ => match calendar_of(name) {
            Some(unit) => Algorithm::Calendar(of_mode(unit, mode, unknown)?),
            None => return Err(unknown("it takes none")),
        },
    };
    // This tests `options.burst` and not `with_burst`, so that a window also refuses a burst that equals its count.
    match options.burst {
        Some(burst) if algorithm == Algorithm::SlidingLog => {
            return Err(PolicyError::burst_on_log(quota.count(), burst));
        }
        Some(_) => return Err(BURST_ON_WINDOW),
        None => {}
    }
    Policy::new(algorithm, quota)
}

/// True if the quota's period is seven days.
fn is_week(quota: Quota) -> bool {
    quota.period_ns() == CalendarUnit::Week(Weekday::Monday).longest_ns()
}

/// The first day of the week for this option.
fn begins(mode: &str) -> Option<Weekday> {
    FROM_DAYS.into_iter().find(|(from, _)| *from == mode).map(|(_, day)| day)
}

/// The windows of the calendar for this option.
fn of_mode(
    unit: CalendarUnit,
    mode: Option<&str>,
    unknown: impl Fn(&str) -> PolicyError,
) -> Result<CalendarUnit, PolicyError> {
    match (unit, mode) {
        (_, None | Some("aligned")) => Ok(unit),
        (CalendarUnit::Week(_), Some(from)) => begins(from).map(CalendarUnit::Week).ok_or_else(|| {
            unknown("a week begins on Monday, or on another day, as in from-sunday; use one of these, or none")
        }),
        (CalendarUnit::Month, _) => {
            Err(unknown("months are those of the calendar; use aligned, or none"))
        }
        (CalendarUnit::Year, _) => {
            Err(unknown("years are those of the calendar; use aligned, or none"))
        }
    }
}

/// Reads the quota after the name of an algorithm. Also returns the name of the algorithm, which a month or a year in
/// the quota may change.
fn read_quota(
    name: &'static str,
    words: &mut Words<'_>,
) -> Result<(&'static str, Quota), PolicyError> {
    if words.peek().is_none() {
        return Err(PolicyError::new(format!(
            "after {name:?} a quota such as 100/s is missing (algorithms: {ALGORITHMS})"
        )));
    }
    match read_rate(words, calendar_of(name))? {
        RateText::Quota(quota) => Ok((name, quota)),
        // A month or a year is accepted for `fixed-window` and for windows of the calendar. All other algorithms need a
        // period with a fixed length.
        RateText::Calendar(unit, count)
            if name == "fixed-window" || calendar_of(name).is_some() =>
        {
            Ok((name_of(unit), calendar_quota(unit, count)?))
        }
        RateText::Calendar(unit, count) => {
            let (calendar, days) = (name_of(unit), near_days(unit));
            let one = if unit == CalendarUnit::Month { "month" } else { "year" };
            Err(PolicyError::new(format!(
                "a {one} has no fixed length; write {count}/{days}d, or {calendar} {count}"
            )))
        }
    }
}

/// Implements `serde` for types that are read from text and printed as text.
macro_rules! as_text {
    ($($type:ty),+) => {$(
        #[cfg(feature = "serde")]
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}

as_text!(crate::percent::Percent, Policy, Quota);

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
        Err(PolicyError::fixed(reason).in_text(text))
    }
}
