//! Reads the words, the numbers and the lengths of time in a policy's text.

use std::time::Duration;

use crate::algorithm::CalendarUnit;
use crate::error::PolicyError;
use crate::period::{DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS};

/// The words that have not been read yet. A slash is a separate word.
///
/// Each word is a slice of the text, so that an error can quote it in the user's spelling.
#[derive(Clone, Copy)]
pub(super) struct Words<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Takes the next word.
    pub(super) fn take(&mut self) -> Option<&'a str> {
        let rest = self.text[self.at..].trim_start();
        let first = rest.chars().next()?;
        let is_end = |letter: char| letter.is_whitespace() || letter == '/';
        let length = match first {
            '/' => 1,
            _ => rest.find(is_end).unwrap_or(rest.len()),
        };
        self.at = self.text.len() - rest.len() + length;
        Some(&rest[..length])
    }

    /// Returns the next word without taking it.
    pub(super) fn peek(&self) -> Option<&'a str> {
        Self { ..*self }.take()
    }

    /// Takes the next word if `is_wanted` returns true for it.
    pub(super) fn take_if(&mut self, is_wanted: impl FnOnce(&str) -> bool) -> Option<&'a str> {
        self.peek().filter(|word| is_wanted(word))?;
        self.take()
    }

    /// The number of bytes that have been read.
    pub(super) const fn place(&self) -> usize {
        self.at
    }

    /// The text that was read since `place`.
    pub(super) fn since(&self, place: usize) -> &'a str {
        self.text[place..self.at].trim()
    }
}

/// True if a word is the known word. Upper and lower case are not distinguished, and neither are `-` and `_`, since
/// `GCRA` and `from_first` can have only one meaning.
pub(super) fn is_word(word: &str, known: &str) -> bool {
    let letters =
        word.chars().map(|letter| if letter == '_' { '-' } else { letter.to_ascii_lowercase() });
    letters.eq(known.chars())
}

/// True if a word is a number, or was probably meant as a number.
pub(super) fn is_number(word: &str) -> bool {
    word.trim_start_matches(['.', '-', '+']).starts_with(|first: char| first.is_ascii_digit())
}

/// A number with decimals, as a fraction. Its denominator `over` is a power of ten: 0.25 is 25 over 100.
#[derive(Clone, Copy)]
pub(super) struct Decimal {
    pub(super) digits: u64,
    pub(super) over: u64,
}

impl Decimal {
    /// Reads the number at the beginning of a word. Returns the number and the rest of the word.
    fn begin<'a>(what: &str, word: &'a str) -> Result<(Self, &'a str), PolicyError> {
        let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'_' | b'.');
        let end = word.bytes().take_while(is_part).count();
        let (number, behind) = word.split_at(end);
        let (whole, decimals) =
            number.split_once('.').map_or((number, None), |(a, b)| (a, Some(b)));
        let is_digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !whole.split('_').all(is_digits) || decimals.is_some_and(|decimals| !is_digits(decimals))
        {
            return Err(not_a_number(what, word));
        }
        // A point before three digits is ambiguous, since in many countries a point separates thousands.
        let decimals = decimals.unwrap_or_default();
        if decimals.len() == 3 && whole.bytes().any(|digit| digit != b'0') {
            return Err(of_two_meanings(what, word, whole, decimals));
        }
        let too_large = || PolicyError::new(format!("{what} {word} is above {}", u64::MAX));
        let mut read = Self { digits: 0, over: 1 };
        for (text, over) in [(whole, 1), (decimals.trim_end_matches('0'), 10)] {
            for digit in text.bytes().filter(u8::is_ascii_digit) {
                let digits = read.digits.checked_mul(10);
                let digits = digits.and_then(|digits| digits.checked_add(u64::from(digit - b'0')));
                read.digits = digits.ok_or_else(too_large)?;
                read.over = read.over.checked_mul(over).ok_or_else(too_large)?;
            }
        }
        Ok((read, behind))
    }

    /// Reads a number that may be in thousands or millions, as in `10k`. Returns the number and the rest of the word.
    /// The rest must be empty, or `is_behind` must return true for it.
    pub(super) fn count<'a>(
        what: &str,
        word: &'a str,
        is_behind: impl Fn(&str) -> bool,
    ) -> Result<(Self, &'a str), PolicyError> {
        let (read, behind) = Self::begin(what, word)?;
        if behind.is_empty() || is_behind(behind) {
            return Ok((read, behind));
        }
        // `M` is a million, but `m` is not: it stands for minutes and for thousandths.
        let (times, behind) = match behind.as_bytes()[0] {
            b'k' | b'K' => (1_000, &behind[1..]),
            b'M' => (1_000_000, &behind[1..]),
            _ => return Err(not_a_number(what, word)),
        };
        if !behind.is_empty() && !is_behind(behind) {
            return Err(not_a_number(what, word));
        }
        let digits = read
            .digits
            .checked_mul(times)
            .ok_or_else(|| PolicyError::new(format!("{what} {word} is above {}", u64::MAX)))?;
        Ok((Self { digits, ..read }, behind))
    }

    /// The number, if it is whole.
    pub(super) const fn whole(self) -> Option<u64> {
        if self.digits.is_multiple_of(self.over) { Some(self.digits / self.over) } else { None }
    }
}

/// The error for `10.000`, which is ten to some readers and ten thousand to others.
fn of_two_meanings(what: &str, word: &str, whole: &str, decimals: &str) -> PolicyError {
    let ten = match decimals.trim_end_matches('0') {
        "" => whole.to_string(),
        short if short.len() < 3 => format!("{whole}.{short}"),
        _ => format!("{whole}.{decimals}0"),
    };
    PolicyError::new(format!(
        "{what} {word:?} is read as {ten} by some and as {whole}{decimals} by others; write one of these"
    ))
}

fn not_a_number(what: &str, word: &str) -> PolicyError {
    PolicyError::new(format!(
        "{what} {word:?} is not understood; write a number in digits, as in 10000, 10_000 or 10k"
    ))
}

/// Reads a whole number: `10000`, `10_000`, `10k`.
pub(super) fn read_number(what: &str, word: &str) -> Result<u64, PolicyError> {
    let (number, _) = Decimal::count(what, word, |_| false)?;
    number.whole().ok_or_else(|| not_whole(what, word))
}

pub(super) fn not_whole(what: &str, word: &str) -> PolicyError {
    PolicyError::new(format!("{what} {word:?} is not a whole number, as in 10000"))
}

/// A unit of time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PeriodUnit {
    /// A unit with this number of nanoseconds.
    Ns(u64),
    /// A unit of the calendar, which has no fixed length. The nearest length is `days` days.
    Calendar { unit: CalendarUnit, days: u64 },
}

/// The names of each unit, without the `s` of the plural.
const UNITS: [(PeriodUnit, &[&str]); 10] = [
    (PeriodUnit::Calendar { unit: CalendarUnit::Year, days: 365 }, &["y", "yr", "year"]),
    (PeriodUnit::Calendar { unit: CalendarUnit::Month, days: 30 }, &["mo", "month"]),
    (PeriodUnit::Ns(7 * DAY_NS), &["w", "wk", "week"]),
    (PeriodUnit::Ns(DAY_NS), &["d", "day"]),
    (PeriodUnit::Ns(HOUR_NS), &["h", "hr", "hour"]),
    (PeriodUnit::Ns(MINUTE_NS), &["m", "min", "minute"]),
    (PeriodUnit::Ns(SECOND_NS), &["s", "sec", "second"]),
    (PeriodUnit::Ns(1_000_000), &["ms", "msec", "millisecond"]),
    (PeriodUnit::Ns(1_000), &["us", "\u{b5}s", "\u{3bc}s", "usec", "microsecond"]),
    (PeriodUnit::Ns(1), &["ns", "nsec", "nanosecond"]),
];

fn unit(word: &str) -> Option<PeriodUnit> {
    let is_named = |name: &&str| {
        let many = word.strip_suffix(['s', 'S']).filter(|_| name.len() > 1);
        is_word(word, name) || many.is_some_and(|one| is_word(one, name))
    };
    UNITS.iter().find(|(_, names)| names.iter().any(&is_named)).map(|(unit, _)| *unit)
}

/// True if a length of time may begin with this word.
pub(super) fn is_length(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_digit()) || unit(word).is_some()
}

/// A length of time, or a unit of the calendar, which has no fixed length.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    Ns(u64),
    /// One month or year of the calendar.
    Calendar(CalendarUnit),
}

/// Reads a length of time: `250ms`, `15 minutes`, `1h30m`, `0.5s`, `d`.
pub(super) fn read_length(what: &str, words: &mut Words<'_>) -> Result<Length, PolicyError> {
    let place = words.place();
    let mut rest = words.take().unwrap_or_default();
    let mut sum = 0_u64;
    let mut before = None;
    loop {
        let is_bare = !rest.starts_with(|first: char| first.is_ascii_digit());
        let one = Decimal { digits: 1, over: 1 };
        let (number, behind) = if is_bare { (one, rest) } else { Decimal::begin(what, rest)? };
        let end = behind.find(|letter: char| letter.is_ascii_digit()).unwrap_or(behind.len());
        let (name, behind) = behind.split_at(end);
        // If the word is only a number, the next word may be its unit.
        let apart = words.peek().filter(|word| name.is_empty() && !is_bare && unit(word).is_some());
        let name = apart.map_or(name, |_| words.take().unwrap_or_default());
        let not_understood = |words: &Words<'_>| {
            PolicyError::new(format!(
                "{what} {:?} is not understood; write a number and one of ns us ms s m h d w, as in 250ms, 10s, 15m, \
                 3h or d",
                words.since(place),
            ))
        };
        let ns = match unit(name) {
            // `d` alone means one day. `ms` alone is refused, since it is more likely a mistake than a request for one
            // millisecond.
            Some(PeriodUnit::Ns(ns)) if !(is_bare && ns < SECOND_NS) => ns,
            Some(PeriodUnit::Calendar { unit, .. })
                if before.is_none() && behind.is_empty() && number.whole() == Some(1) =>
            {
                return Ok(Length::Calendar(unit));
            }
            Some(PeriodUnit::Calendar { days, .. }) if before.is_none() && behind.is_empty() => {
                let days = number.whole().and_then(|number| number.checked_mul(days));
                return Err(no_length(what, words.since(place), days));
            }
            _ => return Err(not_understood(words)),
        };
        // Each unit must be smaller than the unit before it, as in `1h30m`.
        if before.is_some_and(|before| ns >= before) || (before.is_some() && is_bare) {
            return Err(not_understood(words));
        }
        before = Some(ns);
        let product = u128::from(number.digits) * u128::from(ns);
        let over = u128::from(number.over);
        if !product.is_multiple_of(over) {
            return Err(PolicyError::new(format!(
                "{what} {:?} is not a whole number of nanoseconds; write it in ns",
                words.since(place),
            )));
        }
        let sum_ns = u64::try_from(product / over).ok().and_then(|ns| sum.checked_add(ns));
        sum = sum_ns.ok_or_else(|| {
            PolicyError::new(format!("{what} {} is longer than 584 years", words.since(place)))
        })?;
        if behind.is_empty() {
            return Ok(Length::Ns(sum));
        }
        rest = behind;
    }
}

/// The error for a month or a year where a length of time is needed.
fn no_length(what: &str, read: &str, days: Option<u64>) -> PolicyError {
    let write = days.map_or("days, as in 30d".to_string(), |days| format!("days, as in {days}d"));
    PolicyError::new(format!(
        "{what} {read:?} has no fixed length, as months and years are not all alike; write {write}"
    ))
}

/// The number of days that is nearest to a window of the calendar.
pub(super) fn near_days(calendar: CalendarUnit) -> u64 {
    let days = UNITS.iter().find_map(|(unit, _)| match unit {
        PeriodUnit::Calendar { unit, days } if *unit == calendar => Some(*days),
        _ => None,
    });
    days.unwrap_or(calendar.days()[0])
}

/// Reads a length of time and refuses units of the calendar.
pub(super) fn read_duration(what: &str, words: &mut Words<'_>) -> Result<Duration, PolicyError> {
    let place = words.place();
    match read_length(what, words)? {
        Length::Ns(ns) => Ok(Duration::from_nanos(ns)),
        Length::Calendar(unit) => Err(no_length(what, words.since(place), Some(near_days(unit)))),
    }
}
