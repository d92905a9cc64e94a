//! Lines of access logs.

use std::fmt;

use arbitrary::Arbitrary;

use crate::expect::Plant;
use crate::grain::LATEST_NS;
use crate::replay::key::LineKey;
use crate::replay::parse::{Parsed, Parser};
use crate::replay::wanted::Wanted;

/// Target `log_line`: any bytes, by every key, are read or refused line by line.
#[derive(Arbitrary, Clone, Copy, PartialEq, Eq)]
pub struct LogCase<'l>(pub &'l [u8]);

impl fmt::Debug for LogCase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogCase(b\"{}\")", self.0.escape_ascii())
    }
}

/// The name of a key, and the field of the time.
const CHOICES: [(&str, Option<&str>); 9] = [
    ("ip", None),
    ("user", None),
    ("method", None),
    ("path", None),
    ("referer", None),
    ("user-agent", None),
    ("tenant", None),
    ("request.id", None),
    ("ip", Some("when")),
];

/// More lines than this are read as one block only.
const LINES_MAX: usize = 64;

impl LogCase<'_> {
    /// Panics if a line is read wrongly.
    pub fn run(&self) {
        self.run_against(Plant::Nothing);
    }

    /// Panics if a line is not read as expected.
    pub fn run_against(&self, plant: Plant) {
        // 2015-01-01: every seed that is good is younger.
        let end_ns = if plant == Plant::Limit { 1_420_070_400_000_000_000 } else { LATEST_NS };
        let key = |name: &str| -> LineKey { name.parse().expect("every name is a key") };
        let one = CHOICES.map(|(name, time_field)| (Wanted::One(key(name)), time_field));
        // What `--rules` reads of a line.
        let row = Wanted::Row(["ip", "user", "method", "path"].map(key).into());
        for (key, time_field) in one.into_iter().chain([(row, None)]) {
            let parser = Parser { key, time_field: time_field.map(str::to_owned) };
            let whole = parser.block(self.0);
            assert!(
                whole.events.iter().all(|event| event.nanos() < end_ns),
                "a time after the end"
            );
            self.is_counted(&whole, &parser.key);
            self.is_the_same_line_by_line(&parser, &whole, plant);
        }
    }

    /// The lines that are not blank, as the parser should see them.
    fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii_end().is_empty())
    }

    fn is_counted(&self, parsed: &Parsed<'_>, key: &Wanted) {
        let (good, bad) = (parsed.tally.good, parsed.tally.bad);
        assert_eq!(good, parsed.events.len() as u64);
        assert_eq!(good + bad, self.lines().count() as u64);
        assert_eq!(parsed.tally.named.len() as u64, bad.min(5));
        for (_, reason) in &parsed.tally.named {
            let told = reason.to_string();
            assert!(!told.is_empty() && !told.contains(char::is_control), "{told:?}");
        }
        for text in &parsed.keys {
            let again = key.canonical(text).expect("a key that was accepted");
            assert_eq!(again, *text, "a canonical key is its own canonical form");
        }
    }

    /// What the parser remembers from line to line changes nothing.
    fn is_the_same_line_by_line(&self, parser: &Parser, whole: &Parsed<'_>, plant: Plant) {
        let late_ns = u64::from(plant == Plant::Answer);
        let mut together = whole.events.iter().map(|event| {
            let key = usize::try_from(event.key()).expect("an index");
            (event.nanos() + late_ns, &whole.keys[key])
        });
        for line in self.lines().take(LINES_MAX) {
            let alone = parser.block(line);
            assert!(alone.events.len() + usize::from(alone.tally.bad == 1) == 1);
            let Some(event) = alone.events.first() else { continue };
            assert_eq!(Some((event.nanos(), &alone.keys[0])), together.next());
            is_the_time_of(line, event.nanos());
        }
        assert!(self.lines().count() > LINES_MAX || together.next().is_none());
    }
}

/// The time of a line in Common Log Format, read once more in the simplest way.
fn is_the_time_of(line: &[u8], nanos: u64) {
    let Some(text) = bracketed(line) else { return };
    // Blanks of all kinds may stand in a time.
    let blank_or_shown = |byte: &u8| !byte.is_ascii_control() || (b'\t'..=b'\r').contains(byte);
    assert!(text.iter().all(blank_or_shown), "\"{}\" is read as a time", text.escape_ascii());
    if let Some(seconds) = seconds_of(text) {
        assert_eq!(i128::from(nanos), i128::from(seconds) * 1_000_000_000);
    }
}

fn bracketed(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
    if line.starts_with(b"{") {
        return None;
    }
    let (_, rest) = split_once(line, b'[')?;
    Some(split_once(rest, b']')?.0)
}

fn split_once(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let found = text.iter().position(|&byte| byte == at)?;
    Some((&text[..found], &text[found + 1..]))
}

/// `17/May/2015:10:05:03 +0200` as Unix time, if the text has exactly that form; a leap second, as the
/// second before.
fn seconds_of(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() == 26)?;
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<i64>().ok())?
    };
    let months =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = (1..).zip(months).find(|(_, name)| text.get(3..6) == Some(name))?.0;
    let marks = [(2, "/"), (6, "/"), (11, ":"), (14, ":"), (17, ":"), (20, " ")];
    if marks.iter().any(|&(at, mark)| text.get(at..=at) != Some(mark)) {
        return None;
    }
    let days = days_since_1970(number(7, 11)?, month, number(0, 2)?);
    let second_of_day = (number(12, 14)? * 60 + number(15, 17)?) * 60 + number(18, 20)?.min(59);
    let east = (number(22, 24)? * 60 + number(24, 26)?) * 60;
    let offset = match text.get(21..22)? {
        "+" => east,
        "-" => -east,
        _ => return None,
    };
    Some(days * 86_400 + second_of_day - offset)
}

/// Counted year by year and month by month: no formula to get wrong.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of = |month: i64| match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let years: i64 = (1970..year).map(|year| 365 + i64::from(is_leap(year))).sum();
    years + (1..month).map(days_of).sum::<i64>() + day - 1
}
