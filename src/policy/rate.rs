//! Reads rates in the forms in which people write them: `100/m`, `100 requests per minute`, `5 rps`, `0.1/s`.

use std::time::Duration;

use super::names::name_of;
use super::read::{Decimal, Length, Words, is_number, is_word, not_whole, read_length};
use crate::algorithm::CalendarUnit;
use crate::error::PolicyError;
use crate::period::period;
use crate::quota::Quota;

/// The nouns that may follow a count, in the singular. They are skipped.
const NOUNS: [&str; 20] = [
    "req",
    "request",
    "call",
    "hit",
    "message",
    "msg",
    "query",
    "querie",
    "event",
    "token",
    "unit",
    "time",
    "op",
    "operation",
    "job",
    "email",
    "transaction",
    "connection",
    "attempt",
    "login",
];

/// The words that may stand between the count and the period.
const BETWEEN: [&str; 7] = ["/", "per", "a", "an", "each", "every", "in"];

/// A rate that was read.
pub(super) enum RateText {
    Quota(Quota),
    /// A count in a month or a year of the calendar, or in the windows that the algorithm names.
    Calendar(CalendarUnit, u64),
}

/// Reads a rate. If the algorithm has windows of the calendar (`asked`), the period may be left out.
pub(super) fn read_rate(
    words: &mut Words<'_>,
    asked: Option<CalendarUnit>,
) -> Result<RateText, PolicyError> {
    let place = words.place();
    let word = words.take().unwrap_or_default();
    let is_behind = |behind: &str| is_noun(behind) || per_unit(behind).is_some();
    // A slash in the first place means that the count is missing.
    if word == "/" {
        return Err(PolicyError::fixed(
            "the count before / is missing; write <count>/<period>, as in 100/s",
        ));
    }
    let (count, behind) = Decimal::count("count", word, is_behind)?;
    // In `5 rps` the unit `rps` contains the period.
    let unit = per_unit(behind).or_else(|| {
        let next = words.peek().filter(|_| behind.is_empty());
        let unit = next.and_then(per_unit)?;
        words.take().map(|_| unit)
    });
    if unit.is_none() && behind.is_empty() {
        words.take_if(is_noun);
    }
    let length = if let Some(mut unit) = unit.map(Words::new) {
        read_length("period", &mut unit)?
    } else if words.take_if(is_between).is_some() {
        read_length("period", words)?
    } else if let Some(unit) = asked {
        Length::Calendar(unit)
    } else {
        return Err(no_period(words.since(place), words));
    };
    match (length, asked) {
        (Length::Calendar(unit), None) => of_calendar(unit, word, count),
        (Length::Calendar(read), Some(unit)) if read == unit => of_calendar(unit, word, count),
        // A week is the only unit of the calendar that always has the same length, so its length may be written, too.
        (Length::Ns(ns), Some(unit)) if [ns; 2] == [unit.shortest_ns(), unit.longest_ns()] => {
            of_calendar(unit, word, count)
        }
        (_, Some(unit)) => {
            let name = name_of(unit);
            let window = name.trim_start_matches("calendar-");
            Err(PolicyError::new(format!(
                "{name} takes a count per {window}, as in 10000/{window}, not {:?}",
                words.since(place),
            )))
        }
        (Length::Ns(ns), None) => of_decimal(word, count, ns).map(RateText::Quota),
    }
}

/// A fractional count is refused: half a unit in a month would be one unit in two months, and no window of the calendar
/// has two months.
fn of_calendar(unit: CalendarUnit, word: &str, count: Decimal) -> Result<RateText, PolicyError> {
    let count = count.whole().ok_or_else(|| not_whole("count", word))?;
    Ok(RateText::Calendar(unit, count))
}

/// A fractional count is accepted if it is exactly one unit in several periods. Other fractions are refused, since they
/// do not say how many units may be admitted at once.
fn of_decimal(word: &str, count: Decimal, period_ns: u64) -> Result<Quota, PolicyError> {
    if let Some(count) = count.whole() {
        return Quota::try_per(count, Duration::from_nanos(period_ns));
    }
    let divisor = greatest_divisor(count.digits, count.over);
    let (units, periods) = (count.digits / divisor, count.over / divisor);
    let Some(longer_ns) = period_ns.checked_mul(periods) else {
        return Err(not_whole("count", word));
    };
    if units == 1 {
        return Quota::try_per(1, Duration::from_nanos(longer_ns));
    }
    Err(PolicyError::new(format!(
        "count {word:?} is not whole, and as many may come at once; write whole numbers, as in {units}/{}",
        period(longer_ns, ""),
    )))
}

fn greatest_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

/// The error for a count without a period.
fn no_period(read: &str, words: &Words<'_>) -> PolicyError {
    let mut behind = *words;
    let word = behind.take().unwrap_or_default();
    if is_number(word) {
        return PolicyError::new(format!(
            "a number takes no blank; write {read}{word}, or {read}_{word}"
        ));
    }
    if behind.peek().is_some_and(is_between) {
        return PolicyError::new(format!(
            "{word:?} behind the count is not understood; leave it out, or write requests"
        ));
    }
    PolicyError::new(format!("{read:?} has no period; write <count>/<period>, as in 100/s"))
}

fn is_noun(word: &str) -> bool {
    let one = word.strip_suffix(['s', 'S']).unwrap_or(word);
    NOUNS.iter().any(|noun| is_word(one, noun))
}

fn is_between(word: &str) -> bool {
    BETWEEN.iter().any(|between| is_word(word, between))
}

/// The unit of time in a word for requests, queries or transactions per unit: for `rps` it is `s`.
fn per_unit(word: &str) -> Option<&str> {
    match *word.as_bytes() {
        [b'r' | b'q' | b't' | b'R' | b'Q' | b'T', b'p' | b'P', unit] => {
            let is_unit = matches!(unit.to_ascii_lowercase(), b's' | b'm' | b'h' | b'd');
            is_unit.then(|| &word[2..])
        }
        _ => None,
    }
}
