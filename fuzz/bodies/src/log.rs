//! Lines of access logs.

use std::fmt;

use arbitrary::Arbitrary;

use crate::replay::event::ReplayEvent;
use crate::replay::key::LineKey;
use crate::replay::parse::{Asked, BlockParser, Parsed, Parser};
use crate::replay::wanted::Wanted;
use tollgate_model::LATEST_NS;
use tollgate_model::Plant;

/// The target `log_line`: every line, of whatever bytes and under every key, is read or refused. Times that are read
/// lie within the calendar, and a second, simpler parser finds the same.
#[derive(Arbitrary, Clone, Copy, PartialEq, Eq)]
pub struct LogCase<'l>(pub &'l [u8]);

impl fmt::Debug for LogCase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogCase(b\"{}\")", self.0.escape_ascii())
    }
}

/// The name of a key, and the field that holds the time.
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

/// The formats of log files besides Combined Log Format.
const FORMATS: [&str; 17] = [
    "alb",
    "auto",
    "caddy",
    "common",
    "elb",
    "envoy",
    "envoy-json",
    "gcp",
    "haproxy",
    "ingress-nginx",
    "istio",
    "json",
    "s3",
    "traefik",
    "vhost",
    "w3c",
    "%{%d/%b/%Y:%T}t.%{usec_frac}t %a:%p \"%r\" %{X-Forwarded-For}i",
];

/// At most this many lines are also read one by one.
const LINES_MAX: usize = 64;

impl LogCase<'_> {
    /// Panics if a line is read wrongly.
    pub fn run(&self) {
        self.run_against(Plant::Nothing);
    }

    /// Panics if a line is not read as expected.
    pub fn run_against(&self, plant: Plant) {
        // 2015-01-01, which is before the times of all valid seeds.
        let end_ns = if plant == Plant::Limit { 1_420_070_400_000_000_000 } else { LATEST_NS };
        let key = |name: &str| -> LineKey { name.parse().expect("every name is a key") };
        let one = CHOICES.map(|(name, time_field)| (Wanted::One(key(name)), time_field));
        // The names of the fields that `--rules` reads from a line.
        let row = Wanted::Row(["ip", "user", "method", "path"].map(key).into());
        for (key, time_field) in one.into_iter().chain([(row, None)]) {
            let parser = |format| parser(format, &key, time_field);
            let combined = parser("combined");
            let whole = block(&combined, self.0).expect("the format is named").read(self.0);
            self.is_counted(&whole, &key, end_ns);
            // A line counts as blank if it holds nothing but the prefix that some tools write at the start of a line.
            assert!(whole.tally.counted() <= self.lines().count() as u64);
            self.is_the_same_line_by_line(&combined, &whole, plant);
            for format in FORMATS {
                match block(&parser(format), self.0) {
                    Ok(lines) => self.is_counted(&lines.read(self.0), &key, end_ns),
                    Err(told) => assert!(is_printable(&told), "{told:?}"),
                }
            }
        }
    }

    /// The lines that are not blank, which are those that the parser should get.
    fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|&byte| byte == b'\n').filter(|line| !content(line).is_empty())
    }

    fn is_counted(&self, parsed: &Parsed<'_>, key: &Wanted, end_ns: u64) {
        let is_before = |event: &ReplayEvent| event.nanos() < end_ns;
        assert!(parsed.events.iter().all(is_before), "a time after the end");
        let (good, bad) = (parsed.tally.good, parsed.tally.bad);
        assert_eq!(good, parsed.events.len() as u64);
        assert!(good + bad <= self.lines().count() as u64);
        assert_eq!(parsed.tally.named.len() as u64, bad.min(5));
        for (_, reason) in &parsed.tally.named {
            assert!(is_printable(&reason.to_string()), "{reason:?}");
        }
        for text in &parsed.keys {
            let again = key.canonical(text).expect("a key that was accepted");
            assert_eq!(again, *text, "a canonical key is its own canonical form");
        }
    }

    /// Checks that the parser's memory of earlier lines changes no result.
    fn is_the_same_line_by_line(&self, parser: &Parser, whole: &Parsed<'_>, plant: Plant) {
        let late_ns = u64::from(plant == Plant::Answer);
        let mut together = whole.events.iter().map(|event| {
            let key = usize::try_from(event.key()).expect("an index");
            (event.nanos() + late_ns, &whole.keys[key])
        });
        for line in self.lines().take(LINES_MAX) {
            let alone = block(parser, line).expect("the format is named").read(line);
            assert_eq!(alone.events.len() as u64 + alone.tally.bad, alone.tally.counted());
            assert!(alone.tally.counted() <= 1);
            let Some(event) = alone.events.first() else { continue };
            assert_eq!(Some((event.nanos(), &alone.keys[0])), together.next());
            is_the_time_of(line, event.nanos());
        }
        assert!(self.lines().count() > LINES_MAX || together.next().is_none());
    }
}

/// A parser for lines of one format.
fn parser(format: &str, key: &Wanted, time_field: Option<&str>) -> Parser {
    let choice = format.parse().expect("a name or a format");
    Parser::new(Asked::new(key.clone(), &[], time_field), choice)
}

fn block<'p>(parser: &'p Parser, bytes: &[u8]) -> Result<BlockParser<'p>, String> {
    parser.file().block(bytes).map_err(|error| error.to_string())
}

/// True if the text is not empty and has no control characters, which could act on a terminal.
fn is_printable(told: &str) -> bool {
    !told.is_empty() && !told.contains(char::is_control)
}

/// A line without the byte order mark and the blanks around it.
fn content(line: &[u8]) -> &[u8] {
    let line = line.trim_ascii_end();
    line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii_start()
}

/// Checks the time of a line in Combined Log Format by reading it once more in the simplest way.
fn is_the_time_of(line: &[u8], nanos: u64) {
    let Some(text) = bracketed(line) else { return };
    // A time may contain blanks of all kinds.
    let blank_or_shown = |byte: &u8| !byte.is_ascii_control() || (b'\t'..=b'\r').contains(byte);
    assert!(text.iter().all(blank_or_shown), "\"{}\" is read as a time", text.escape_ascii());
    if let Some(seconds) = seconds_of(text) {
        assert_eq!(i128::from(nanos), i128::from(seconds) * 1_000_000_000);
    }
}

fn bracketed(line: &[u8]) -> Option<&[u8]> {
    let (_address, rest) = split_once(content(line), b" ")?;
    let (_identity, rest) = split_once(rest, b" ")?;
    let (_user, rest) = split_once(rest, b" [")?;
    let quoted = split_once(rest, b"] \"").map(|(time, _)| time);
    quoted.or_else(|| rest.strip_suffix(b"] ")).or_else(|| rest.strip_suffix(b"]"))
}

fn split_once<'t>(text: &'t [u8], at: &[u8]) -> Option<(&'t [u8], &'t [u8])> {
    let found = text.windows(at.len()).position(|window| window == at)?;
    Some((&text[..found], &text[found + at.len()..]))
}

/// A time such as `17/May/2015:10:05:03 +0200` as Unix time, if the text has exactly that form. A leap second is read
/// as the second before it.
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

/// The days are counted year by year and month by month, because a formula might be wrong.
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
