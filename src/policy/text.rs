//! Policies as text: `<algorithm>? <count>/<period> [burst <n>] [options] [at the limit]`.

use std::fmt;
use std::iter::Peekable;
use std::str::{FromStr, SplitWhitespace};

use super::calendar_month::month_quota;
use super::meant::meant;
use super::read::{read_number, read_period};
use super::words::{Words, write_words};
use super::{Algorithm, AtLimit, BURST_ON_WINDOW, Policy};
use crate::error::PolicyError;
use crate::quota::Quota;

/// How an algorithm is called: its name, and the option behind the quota, which for segmented windows is a number.
/// Their order is part of snapshots: a new one comes last.
pub(super) const NAMES: [(Algorithm, &str, &str); 9] = [
    (Algorithm::Gcra, "gcra", ""),
    (Algorithm::FixedWindow, "fixed-window", ""),
    (Algorithm::FixedWindowFromFirst, "fixed-window", " from-first"),
    (Algorithm::SlidingWindowExact, "sliding-window", " exact"),
    (Algorithm::SlidingWindow, "sliding-window", ""),
    (Algorithm::SlidingWindowStrict, "sliding-window", " strict"),
    (Algorithm::SegmentedWindow { segments: 0 }, "segmented-window", ""),
    (Algorithm::CalendarMonth, CALENDAR_MONTH, ""),
    (Algorithm::SlidingLog, "sliding-log", ""),
];

/// Words of other texts for these algorithms: `docs/words.md` says of which.
const ALIASES: [(&str, &str); 8] = [
    ("generic-cell-rate-algorithm", "gcra"),
    ("leaking-bucket", "leaky-bucket"),
    ("enforced-average", "spaced"),
    ("fixed-window-counter", "fixed-window"),
    ("sliding-window-counter", "sliding-window"),
    ("sliding-tail", "sliding-window"),
    ("sliding-window-log", "sliding-log"),
    ("log", "sliding-log"),
];

/// Words that texts use for several algorithms, or for none of these, and what to use.
const OTHER_WORDS: [(&str, &str); 4] = [
    ("rolling-window", "sliding-log, of each time, or sliding-window, of two counts"),
    ("moving-window", "sliding-log, of each time, or sliding-window, of two counts"),
    ("leaky-bucket-as-a-queue", "a quota and its places, as in gcra 5/s burst 1 queue 50"),
    ("concurrency", "a semaphore: requests in progress are not counted here"),
];

/// The one algorithm whose quota has no period.
const CALENDAR_MONTH: &str = "calendar-month";

/// Prints the policy so that [`FromStr`] reads it back. Aliases are printed as what they stand for.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.algorithm {
            Algorithm::SegmentedWindow { segments } => {
                write!(f, "segmented-window {} x{segments}", self.quota)?;
            }
            Algorithm::CalendarMonth => write!(f, "{CALENDAR_MONTH} {}", self.quota.count())?,
            other => {
                if let Some((_, name, option)) = NAMES.iter().find(|(named, ..)| *named == other) {
                    write!(f, "{name} {}{option}", self.quota)?;
                }
            }
        }
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
/// sliding-window 100/m               the share rounded down; or `exact`, or `strict`
/// segmented-window 100/m x6          a ring of 6 segments
/// calendar-month 10000               months of the calendar in UTC: needs a clock of Unix time
/// sliding-log 100/m                  the time of each unit
/// ```
///
/// The words of other texts are understood, too: `leaking-bucket`, `enforced-average` (spaced), `fixed-window-counter`,
/// `sliding-window-counter` and `sliding-tail` (sliding-window), `sliding-window-log` and `log` (sliding-log),
/// `generic-cell-rate-algorithm`; and all names with blanks, as in `token bucket 100/s`.
///
/// To any of these may be added, in any order, what happens at the limit (see
/// [`AtLimit`](crate::AtLimit)):
///
/// ```text
/// soft 5%                            admits 5 % more, and says so; always with the percent sign
/// count-denied                       a denied request is charged as well
/// count-denied 30s                   (gcra) until one unit would have to wait for 30 s
/// penalty 10m after 3                (not sliding-log) the third denial in a row refuses everything for 10 minutes
/// penalty 10m after 3 extended       and each denial meanwhile begins the 10 minutes anew
/// queue 50                           (gcra, sliding-log) 50 units may wait for their turn
/// wait 2s                            (the same) and none longer than 2 s; also without queue
/// debt 100x                          (not segmented-window, sliding-log) charges are remembered to 100 times the limit
/// ```
///
/// A period is `s m h d` or a number with `ns us ms s m h d`: `250ms`, `10s`, `15m`, `3h`, `1d`. So are `100/minute`,
/// `100 per minute` and `100 per 10 minutes`, of seconds, minutes, hours and days.
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

/// The words that may stand for an algorithm.
const ALGORITHMS: &str = "gcra, token-bucket, leaky-bucket, spaced, fixed-window, sliding-window, \
                          segmented-window, calendar-month or sliding-log";

/// The words that may follow a quota, of one algorithm or another.
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

fn read(text: &str) -> Result<Policy, PolicyError> {
    // `GCRA` and `fixed_window` can mean nothing else.
    let lower = text.to_lowercase().replace('_', "-");
    let mut words = lower.split_whitespace().peekable();
    let name = match words.peek() {
        None => {
            return Err(PolicyError::fixed(
                "it is empty; write a quota such as 100/s, or gcra 100/s burst 20",
            ));
        }
        // A quota alone.
        Some(word) if word.starts_with(|first: char| first.is_ascii_digit() || first == '/') => {
            "gcra".to_string()
        }
        Some(_) => read_name(&mut words),
    };
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(&*name, |(_, name)| name);
    let quota = read_rate(name, &mut words)?;
    let mut options = PolicyOptions::default();
    let mut at_limit = Words::default();
    while let Some(word) = words.next() {
        // What happens at the limit may stand anywhere behind the quota.
        if at_limit.read(word, &mut words)? {
            continue;
        }
        match word {
            "burst" if options.burst.is_some() => {
                return Err(PolicyError::fixed("burst is given twice"));
            }
            "burst" => {
                let Some(value) = words.next() else {
                    return Err(PolicyError::fixed("burst needs a number, as in burst 20"));
                };
                options.burst = Some(read_number("burst", value)?);
            }
            _ if options.mode.is_none() => options.mode = Some(word),
            _ => {
                // The first of two unknown words is at fault, unless it is right.
                build(name, quota, &options)?;
                return Err(PolicyError::new(format!("{word:?} is one option too many")));
            }
        }
    }
    at_limit.apply(build(name, quota, &options)?)
}

/// All words that texts use for algorithms.
fn known_names() -> impl Iterator<Item = &'static str> {
    let others = ALIASES.into_iter().chain(OTHER_WORDS).map(|(word, _)| word);
    ALGORITHMS.split([',', ' ']).chain(others)
}

/// Reads a name, in one word or in several: `token-bucket`, `token bucket`.
fn read_name(words: &mut Peekable<SplitWhitespace<'_>>) -> String {
    let mut name = words.next().unwrap_or_default().to_string();
    // As long as a known name may come of it, the next word is a part of it: `leaky` alone is none, and `soft` behind
    // `leaky bucket` begins none.
    while let Some(word) = words.peek() {
        let longer = format!("{name}-{word}");
        if !known_names().any(|known| known.starts_with(&longer)) {
            break;
        }
        (name, _) = (longer, words.next());
    }
    name
}

#[derive(Default)]
struct PolicyOptions<'a> {
    burst: Option<u64>,
    mode: Option<&'a str>,
}

fn build(name: &str, quota: Quota, options: &PolicyOptions<'_>) -> Result<Policy, PolicyError> {
    let unknown = |accepted: &str| match options.mode {
        Some(word) => {
            let meant = meant(word, OPTIONS.into_iter());
            PolicyError::new(format!("{name} has no option {word:?}{meant}; {accepted}"))
        }
        None => PolicyError::new(format!("{name} needs an option; {accepted}")),
    };
    let with_burst = match options.burst {
        Some(burst) => quota.try_burst(burst)?,
        None => quota,
    };
    let algorithm = match (name, options.mode) {
        ("gcra" | "token-bucket" | "leaky-bucket", None) => return Ok(with_burst.into()),
        ("leaky-bucket", Some("soft" | "hard")) | ("spaced", None) if options.burst.is_some() => {
            return Err(PolicyError::new(format!(
                "{name} fixes its burst; leave it out, or use gcra"
            )));
        }
        ("leaky-bucket", Some("soft")) => return Ok(quota.into()),
        // Drains one unit in a period, whatever its size.
        ("leaky-bucket", Some("hard")) => {
            return Ok(Quota::try_per(1, quota.period())?.try_burst(quota.count())?.into());
        }
        ("leaky-bucket", _) => return Err(unknown("use soft, hard, or none")),
        ("gcra" | "token-bucket", _) => return Err(unknown("it takes only burst <n>")),
        // Never two at once.
        ("spaced", None) => return Ok(quota.try_burst(1)?.into()),
        ("fixed-window", None | Some("aligned")) => Algorithm::FixedWindow,
        ("fixed-window", Some("from-first")) => Algorithm::FixedWindowFromFirst,
        ("fixed-window", _) => return Err(unknown("use aligned, from-first, or none")),
        ("sliding-window", None | Some("round-down")) => Algorithm::SlidingWindow,
        // Counts are whole: a share that is rounded up fits exactly where the share itself does.
        ("sliding-window", Some("exact" | "round-up")) => Algorithm::SlidingWindowExact,
        ("sliding-window", Some("strict")) => Algorithm::SlidingWindowStrict,
        ("sliding-window", _) => {
            return Err(unknown("use exact, round-up, round-down, strict, or none"));
        }
        ("segmented-window", mode) => {
            let accepted = "write the number of segments as x2 to x64, as in x6";
            let number = mode.and_then(|word| word.strip_prefix('x'));
            // `x+6` would be read as a number, too.
            let segments = number.filter(|n| n.bytes().all(|b| b.is_ascii_digit()));
            match segments.and_then(|n| n.parse().ok()) {
                Some(segments) => Algorithm::SegmentedWindow { segments },
                None => return Err(unknown(accepted)),
            }
        }
        (CALENDAR_MONTH, None) => Algorithm::CalendarMonth,
        ("sliding-log", None) => Algorithm::SlidingLog,
        ("spaced" | CALENDAR_MONTH | "sliding-log", _) => return Err(unknown("it takes none")),
        _ => return Err(no_algorithm(name)),
    };
    // Not `with_burst`: a burst equal to the count is refused on a window too.
    match options.burst {
        Some(burst) if algorithm == Algorithm::SlidingLog => {
            return Err(PolicyError::burst_on_log(quota.count(), burst));
        }
        Some(_) => return Err(BURST_ON_WINDOW),
        None => {}
    }
    Policy::new(algorithm, quota)
}

/// An algorithm of another text, a slip, or an option that stands first.
fn no_algorithm(name: &str) -> PolicyError {
    // What is exactly a known word is no slip: then `meant` says nothing.
    let meant = meant(name, known_names());
    // Of what means several, only these are offered: the list of all would not help.
    let other = OTHER_WORDS.iter().find(|(word, _)| *word == name);
    let accepted = other.map_or(ALGORITHMS, |(_, write)| write);
    PolicyError::new(format!("there is no algorithm {name:?}{meant}; use {accepted}"))
}

/// Reads the quota behind an algorithm: `100/m`, or `100 per 10 minutes`.
fn read_rate(name: &str, words: &mut Peekable<SplitWhitespace<'_>>) -> Result<Quota, PolicyError> {
    let mut rate = words.next().map(str::to_string).ok_or_else(|| {
        PolicyError::new(format!(
            "after {name:?} a quota such as 100/s is missing (algorithms: {ALGORITHMS})"
        ))
    })?;
    if words.next_if_eq(&"per").is_some() {
        // Written out, a number of periods is a word of its own.
        let count = words.next_if(|word| word.bytes().all(|digit| digit.is_ascii_digit()));
        rate = format!("{rate}/{}{}", count.unwrap_or_default(), words.next().unwrap_or_default());
    }
    match name {
        // Months have no length, so a period is refused there.
        CALENDAR_MONTH => read_month(&rate),
        _ => read_quota(&rate),
    }
}

/// Reads the units of a calendar month.
fn read_month(count: &str) -> Result<Quota, PolicyError> {
    if count.contains('/') {
        return Err(PolicyError::new(format!(
            "{CALENDAR_MONTH} takes a count without a period, as in {CALENDAR_MONTH} 10000, not {count:?}"
        )));
    }
    month_quota(read_number("count", count)?)
}

fn read_quota(rate: &str) -> Result<Quota, PolicyError> {
    let Some((count, period)) = rate.split_once('/') else {
        return Err(PolicyError::new(format!(
            "{rate:?} has no period; write <count>/<period> without spaces, as in 100/s"
        )));
    };
    let count = read_number("count", count)?;
    Quota::try_per(count, read_period("period", period)?)
}

/// `serde` for types that are read from text and printed as it.
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

as_text!(Policy, Quota);

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
