//! Converts the times in logs to nanoseconds of Unix time, and back.
//!
//! The library jiff computes with the calendar. The fixed form of Common Log Format has a faster path. Many lines in a
//! row have times of the same day and zone, so the midnight is cached, and only the clock time is parsed.

use std::borrow::Cow;

use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::{RoundMode, SignedDuration, SignedDurationRound, Timestamp, Unit};

use super::Reason;

const SECOND_NS: i128 = 1_000_000_000;

/// The end of the times that are accepted: 2100-01-01T00:00:00Z. Policies are exact for all times up to here, and a
/// later date in a log is wrong anyway.
const END_NS: i128 = 4_102_444_800 * SECOND_NS;

/// Times with a zone, besides those of RFC 3339.
const ZONED: [&str; 3] =
    ["%d/%b/%Y:%H:%M:%S%.f %z", "%Y-%m-%dT%H:%M:%S%.f%z", "%Y-%m-%d %H:%M:%S%.f %z"];

/// Times without a zone.
const LOCAL: [&str; 4] = [
    "%d/%b/%Y:%H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y/%m/%d %H:%M:%S%.f",
];

/// Reads `17/May/2015:10:05:03 +0200`, and caches the day.
#[derive(Debug, Default)]
pub(super) struct ClfTimeReader {
    day: Option<Day>,
    /// Whether a time was local, without a zone.
    pub(super) saw_local: bool,
}

#[derive(Clone, Copy, Debug)]
struct Day {
    /// `17/May/2015:`, the part of the text before the clock time.
    date: [u8; 12],
    /// ` +0200`, the part after the clock time.
    zone: [u8; 6],
    /// The Unix time at which that day began in that zone.
    midnight_s: i64,
}

impl ClfTimeReader {
    /// Returns the time in nanoseconds of Unix time, or the error.
    pub(super) fn read(&mut self, text: &[u8]) -> Result<u64, Reason> {
        let Some((date, clock_time, zone)) = split(text) else { return self.read_any(text) };
        let Some(second_of_day) = second_of_day(clock_time) else { return self.read_any(text) };
        let day = match self.day {
            Some(day) if day.date == *date && day.zone == *zone => day,
            _ => {
                let seconds = i64::try_from(from_text(text)? / 1_000_000_000)
                    .map_err(|_| Reason::outside_the_calendar(text))?;
                Day { date: *date, zone: *zone, midnight_s: seconds - second_of_day }
            }
        };
        self.day = Some(day);
        in_range(i128::from(day.midnight_s + second_of_day) * SECOND_NS, text)
    }
}

impl ClfTimeReader {
    /// Reads a time in any of the usual forms. A time without a zone is taken as UTC.
    #[cold]
    pub(super) fn read_any(&mut self, text: &[u8]) -> Result<u64, Reason> {
        from_text(text).or_else(|reason| {
            let nanos = local_time(text).ok_or(reason)?;
            self.saw_local = true;
            in_range(nanos, text)
        })
    }
}

/// Returns a local time as nanoseconds of Unix time, as if it were in UTC.
fn local_time(bytes: &[u8]) -> Option<i128> {
    let text = with_point(std::str::from_utf8(bytes).ok()?.trim());
    let read = |form: &&str| strtime::parse(form, text.as_bytes()).ok()?.to_datetime().ok();
    let local = LOCAL.iter().find_map(read)?;
    Some(local.to_zoned(TimeZone::UTC).ok()?.timestamp().as_nanosecond())
}

/// Returns the text with a point in place of the comma before a fraction.
fn with_point(text: &str) -> Cow<'_, str> {
    match text.split_once(',') {
        Some((before, after)) if after.starts_with(|c: char| c.is_ascii_digit()) => {
            Cow::Owned(format!("{before}.{after}"))
        }
        _ => Cow::Borrowed(text),
    }
}

/// Returns date, clock time and zone, if the text has the length of all three.
fn split(text: &[u8]) -> Option<(&[u8; 12], &[u8; 8], &[u8; 6])> {
    let (date, rest) = text.split_first_chunk()?;
    let (clock_time, rest) = rest.split_first_chunk()?;
    Some((date, clock_time, rest.try_into().ok()?))
}

/// Returns the seconds of `10:05:03`; `None` for a leap second, which jiff handles.
fn second_of_day(text: &[u8; 8]) -> Option<i64> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = text else { return None };
    let two = |tens: &u8, ones: &u8| {
        let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
        (tens < 10 && ones < 10).then(|| i64::from(tens * 10 + ones))
    };
    let (h, m, s) = (two(h1, h2)?, two(m1, m2)?, two(s1, s2)?);
    (h < 24 && m < 60 && s < 60).then_some((h * 60 + m) * 60 + s)
}

/// Reads a time in any of the usual forms.
pub(super) fn from_text(bytes: &[u8]) -> Result<u64, Reason> {
    let text = std::str::from_utf8(bytes).map_err(|_| Reason::not_a_time(bytes))?.trim();
    let nanos = unix_time(text)
        .or_else(|| Some(text.parse::<Timestamp>().ok()?.as_nanosecond()))
        .or_else(|| zoned_time(&with_point(text)))
        .ok_or_else(|| Reason::not_a_time(bytes))?;
    in_range(nanos, bytes)
}

fn zoned_time(text: &str) -> Option<i128> {
    let read = |form: &&str| strtime::parse(form, text).ok()?.to_timestamp().ok();
    ZONED.iter().find_map(read).map(Timestamp::as_nanosecond)
}

/// Reads a time in any of the usual forms. The error is text.
pub(crate) fn nanos_of_text(bytes: &[u8]) -> Result<u64, String> {
    from_text(bytes).map_err(|reason| reason.to_string())
}

/// Returns a Unix time in the unit that its size implies. Decimals are parsed exactly, not as floating point, so
/// `1431857103.123456789` is exact to the nanosecond.
fn unix_time(text: &str) -> Option<i128> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || whole.len() > 19 || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let whole: i128 = whole.parse().ok()?;
    let unit_ns = match whole.to_string().len() {
        ..=11 => SECOND_NS,
        12..=14 => 1_000_000,
        15..=17 => 1_000,
        _ => 1,
    };
    let fraction: i128 = format!("{fraction:0<9.9}").parse().ok()?;
    Some(sign * (whole * unit_ns + fraction * unit_ns / SECOND_NS))
}

pub(super) fn in_range(nanos: i128, text: &[u8]) -> Result<u64, Reason> {
    u64::try_from(nanos)
        .ok()
        .filter(|_| nanos < END_NS)
        .ok_or_else(|| Reason::outside_the_calendar(text))
}

/// Writes a Unix time as RFC 3339 text in UTC.
pub(crate) fn instant(nanos: u64) -> String {
    // Every time that was read is far inside the range of jiff.
    Timestamp::from_nanosecond(i128::from(nanos))
        .map_or_else(|_| nanos.to_string(), |t| t.to_string())
}

/// Writes a span for human readers: `1h 2m 3s`, with milliseconds where there are no minutes.
pub(crate) fn wait(span: std::time::Duration) -> String {
    let unit = if span.as_secs() < 60 { Unit::Millisecond } else { Unit::Second };
    let rounded = SignedDuration::try_from(span).ok().and_then(|span| {
        span.round(SignedDurationRound::new().smallest(unit).mode(RoundMode::Ceil)).ok()
    });
    rounded.map_or_else(|| format!("{span:?}"), |span| format!("{span:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<u64, String> {
        ClfTimeReader::default().read(text.as_bytes()).map_err(|reason| reason.to_string())
    }

    #[test]
    fn a_day_that_was_never_read_is_not_remembered() {
        let nothing =
            "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0010:05:03\x00\x00\x00\x00\x00\x00";
        assert!(read(nothing).is_err());
    }

    #[test]
    fn the_fast_reading_equals_the_librarys() {
        let mut clock = ClfTimeReader::default();
        let zones = ["+0000", "-0000", "+0200", "-0830", "+1400", "-1200", "+0545"];
        // A stride of 13 h 47 min 12 s covers every hour, both ends of months, and leap days.
        for (step, zone) in (1..40_000).zip(zones.iter().cycle()) {
            let seconds: i64 = step * 49_632 + 86_400;
            let civil = Timestamp::from_second(seconds).expect("within the calendar");
            let text = format!("{} {zone}", civil.strftime("%d/%b/%Y:%H:%M:%S"));
            let library = strtime::parse(ZONED[0], &text).and_then(|time| time.to_timestamp());
            let expected = library.expect("made by the library").as_nanosecond();
            // Each is read twice: the first reading may compute the day, and the second one uses the cache.
            for _ in 0..2 {
                let got = clock.read(text.as_bytes()).expect("a good time");
                assert_eq!(i128::from(got), expected, "{text}");
            }
        }
    }

    #[test]
    fn zones_are_exact() {
        let utc = read("17/May/2015:10:05:03 +0000");
        assert_eq!(utc, Ok(1_431_857_103_000_000_000));
        assert_eq!(read("17/May/2015:12:05:03 +0200"), utc);
        assert_eq!(read("16/May/2015:22:20:03 -1145"), utc);
        assert_eq!(read("2015-05-17T12:05:03+02:00"), utc);
    }

    #[test]
    fn the_size_of_a_number_tells_its_unit() {
        for text in [
            "1431857103.123456789",
            "1431857103123.456789",
            "1431857103123456.789",
            "1431857103123456789",
        ] {
            assert_eq!(read(text), Ok(1_431_857_103_123_456_789), "{text}");
        }
        assert_eq!(read("0"), Ok(0));
        assert_eq!(read("1.5"), Ok(1_500_000_000));
    }

    #[test]
    fn times_outside_the_calendar_are_refused_at_its_edges() {
        assert_eq!(read("01/Jan/1970:00:00:00 +0000"), Ok(0));
        assert_eq!(read("31/Dec/2099:23:59:59 +0000"), Ok(4_102_444_799_000_000_000));
        for text in [
            "31/Dec/1969:23:59:59 +0000",
            "01/Jan/1970:01:00:00 +0200",
            "01/Jan/2100:00:00:00 +0000",
            "31/Dec/2099:23:00:00 -0100",
            "-1",
            "4102444800",
        ] {
            assert_eq!(
                read(text),
                Err(format!("the time \"{text}\" is outside the years 1970 to 2099"))
            );
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "-",
            "17/May/2015:24:05:03 +0000",
            "17/Mai/2015:10:05:03 +0000",
            "31/Feb/2015:10:05:03 +0000",
            "17/May/2015:1o:05:03 +0000",
            "yesterday",
            "12345678901234567890",
        ] {
            let reason = read(text).expect_err(text);
            assert!(reason.contains("is no time; expected"), "{text:?}: {reason}");
        }
    }

    #[test]
    fn fractions_count_and_a_local_time_is_read_as_utc_and_told() {
        for (text, is_local) in [
            ("17/May/2015:10:05:03.25 +0000", false),
            ("17/May/2015:12:05:03,250 +0200", false),
            ("2015-05-17 10:05:03.25 +0000", false),
            ("2015-05-17T10:05:03.250+0000", false),
            ("2015-05-17 10:05:03.25Z", false),
            ("17/May/2015:10:05:03.250", true),
            ("2015-05-17T10:05:03.25", true),
            ("2015-05-17 10:05:03,250", true),
            ("2015/05/17 10:05:03.25", true),
        ] {
            let mut clock = ClfTimeReader::default();
            let read = clock.read(text.as_bytes()).map_err(|reason| reason.to_string());
            assert_eq!(
                (read, clock.saw_local),
                (Ok(1_431_857_103_250_000_000), is_local),
                "{text}"
            );
        }
        // A date for `simulate` must have a zone.
        assert!(nanos_of_text(b"2015-05-17 10:05:03").is_err());
    }

    #[test]
    fn a_leap_second_is_read_as_the_second_before() {
        assert_eq!(read("31/Dec/2016:23:59:60 +0000"), read("31/Dec/2016:23:59:59 +0000"));
    }

    #[test]
    fn waits_are_rounded_up_to_what_is_shown() {
        let wait = |nanos| wait(std::time::Duration::from_nanos(nanos));
        assert_eq!(wait(0), "0s");
        assert_eq!(wait(1), "1ms");
        assert_eq!(wait(6_000_000_000), "6s");
        assert_eq!(wait(6_250_000_001), "6s 251ms");
        assert_eq!(wait(3_723_000_000_001), "1h 2m 4s");
    }
}
