//! One figure of a field as servers write it: a count, or a time to wait.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// The longest time that is read: the largest figure that is a span and not a Unix time, 31 years.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(999_999_999);

/// From this value on (2001-09-09) a figure is a Unix time in seconds; from the next three values on, in milliseconds,
/// microseconds and nanoseconds. No server announces a wait of 30 years.
const EPOCH_SECS_MIN: u128 = 1_000_000_000;
const EPOCH_MILLIS_MIN: u128 = 1_000 * EPOCH_SECS_MIN;
const EPOCH_MICROS_MIN: u128 = 1_000 * EPOCH_MILLIS_MIN;
const EPOCH_NANOS_MIN: u128 = 1_000 * EPOCH_MICROS_MIN;

const NANOS: u128 = 1_000_000_000;

/// Units of a span and their lengths in nanoseconds. Both signs for micro are in use.
const UNITS: [(&[&str], u128); 7] = [
    (&["ns"], 1),
    (&["us", "\u{b5}s", "\u{3bc}s"], 1_000),
    (&["ms", "millisecond", "milliseconds"], 1_000_000),
    (&["s", "sec", "secs", "second", "seconds"], NANOS),
    (&["m", "min", "mins", "minute", "minutes"], 60 * NANOS),
    (&["h", "hr", "hrs", "hour", "hours"], 3_600 * NANOS),
    (&["d", "day", "days"], 86_400 * NANOS),
];

/// A whole number of units. A fraction is cut off, a number above 64 bits is read as the largest, and a number below
/// zero as 0: some servers go on counting requests that they deny.
pub(super) fn count(text: &str) -> Option<u64> {
    let text = unquoted(text);
    match text.strip_prefix('-') {
        Some(number) => nanos(number).map(|_| 0),
        None => nanos(text).map(|nanos| u64::try_from(nanos / NANOS).unwrap_or(u64::MAX)),
    }
}

/// A time to wait: seconds, with or without a fraction; a span with units, as in `1m30s`; a date of HTTP or of RFC
/// 3339; or a Unix time, whose unit follows from its size. The wait is at most [`MAX_WAIT`], and zero for a time that
/// has passed.
pub(super) fn wait(text: &str, now: SystemTime) -> Option<Duration> {
    let text = unquoted(text);
    let number = text.strip_prefix('@').unwrap_or(text);
    if let Some(nanos) = nanos(number) {
        return Some(by_size(nanos, now));
    }
    if let Some(nanos) = with_units(text) {
        return Some(bounded(nanos));
    }
    let date = httpdate::parse_http_date(text).ok();
    let date = date.or_else(|| Some(text.parse::<Timestamp>().ok()?.into()))?;
    Some(date.duration_since(now).unwrap_or_default().min(MAX_WAIT))
}

/// Milliseconds to wait, or any form that [`wait`] reads.
pub(super) fn wait_ms(text: &str, now: SystemTime) -> Option<Duration> {
    match nanos(unquoted(text)) {
        Some(nanos) => Some(bounded(nanos.div_ceil(1_000))),
        None => wait(text, now),
    }
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.unwrap_or(text).trim()
}

/// A number without a sign, times 10^9 and rounded up. A number that is too large becomes the largest.
fn nanos(text: &str) -> Option<u128> {
    let starts = text.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    if starts && text.contains(['e', 'E']) {
        // Programs print floating-point numbers in this form. The check of the first character excludes a sign, `inf`
        // and `nan`, and a number that is too large saturates.
        let float: f64 = text.parse().ok()?;
        let below = (float.fract() * 1e9).ceil();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it saturates"
        )]
        return Some((float.trunc() as u128).saturating_mul(NANOS).saturating_add(below as u128));
    }
    let (whole, below) = text.split_once('.').unwrap_or((text, ""));
    let is_number = [whole, below].iter().all(|part| part.bytes().all(|it| it.is_ascii_digit()));
    if !is_number || whole.len() + below.len() == 0 {
        return None;
    }
    let digits = |text: &str| match text {
        "" => 0,
        // A text of digits fails to parse only if it has too many of them.
        digits => digits.parse().unwrap_or(u128::MAX),
    };
    let (kept, cut) = below.split_at(below.len().min(9));
    let rounds_up = u128::from(cut.bytes().any(|digit| digit != b'0'));
    let below = digits(&format!("{kept:0<9}")) + rounds_up;
    Some(digits(whole).saturating_mul(NANOS).saturating_add(below))
}

/// Numbers with a unit each, as Go prints spans and people write them: `1m26.4s`, `250ms`, `2 hours`.
fn with_units(text: &str) -> Option<u128> {
    let mut rest = text;
    let mut sum = 0_u128;
    loop {
        let end = rest.find(|next: char| !next.is_ascii_digit() && next != '.')?;
        let (number, after) = rest.split_at(end);
        let after = after.trim_start();
        let end = after.find(|next: char| !next.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let (_, length) = UNITS.iter().find(|(words, _)| words.contains(&unit))?;
        sum = sum.saturating_add(nanos(number)?.saturating_mul(*length).div_ceil(NANOS));
        rest = after.trim_start();
        if rest.is_empty() {
            return Some(sum);
        }
    }
}

/// Reads a number as seconds from now or as a Unix time, by its size.
fn by_size(nanos: u128, now: SystemTime) -> Duration {
    let epoch_nanos = match nanos / NANOS {
        EPOCH_NANOS_MIN.. => nanos.div_ceil(NANOS),
        EPOCH_MICROS_MIN.. => nanos.div_ceil(1_000_000),
        EPOCH_MILLIS_MIN.. => nanos.div_ceil(1_000),
        EPOCH_SECS_MIN.. => nanos,
        _ => return bounded(nanos),
    };
    let passed = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    bounded(epoch_nanos.saturating_sub(passed.as_nanos()))
}

fn bounded(nanos: u128) -> Duration {
    u64::try_from(nanos).map_or(MAX_WAIT, |nanos| Duration::from_nanos(nanos).min(MAX_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_790_000_000)
    }

    fn ms(text: &str) -> Option<u128> {
        wait(text, now()).map(|wait| wait.as_millis())
    }

    #[test]
    fn spans_are_read_in_every_way_that_servers_write_them() {
        for (text, expected) in [
            ("0", 0),
            ("0.503", 503),
            (".5", 500),
            ("299.997", 299_997),
            ("1.5e1", 15_000),
            ("\"30\"", 30_000),
            ("1s", 1_000),
            ("6m0s", 360_000),
            ("1m26.4s", 86_400),
            ("1h0m0s", 3_600_000),
            ("250ms", 250),
            ("2 minutes", 120_000),
            ("1 hour 30 sec", 3_630_000),
            ("1d", 86_400_000),
            ("1500\u{b5}s", 1),
        ] {
            assert_eq!(ms(text), Some(expected), "{text}");
        }
        assert_eq!(wait("0.0000000001", now()), Some(Duration::from_nanos(1)));
    }

    #[test]
    fn times_are_read_in_every_way_that_servers_write_them() {
        for text in [
            "1790000060",
            "1790000060.0",
            "1.79000006e9",
            "1790000060000",
            "1790000060000000",
            "1790000060000000000",
            "@1790000060",
            "Mon, 21 Sep 2026 14:14:20 GMT",
            "Monday, 21-Sep-26 14:14:20 GMT",
            "2026-09-21T14:14:20Z",
            "2026-09-21T16:14:20.000+02:00",
        ] {
            assert_eq!(ms(text), Some(60_000), "{text}");
        }
        assert_eq!(ms("1790000060.5"), Some(60_500));
        assert_eq!((ms("1789999999"), ms("2001-09-09T01:46:40Z")), (Some(0), Some(0)));
    }

    #[test]
    fn the_longest_wait_is_the_last_figure_that_is_no_unix_time() {
        assert_eq!(u128::from(MAX_WAIT.as_secs()) + 1, EPOCH_SECS_MIN);
    }

    #[test]
    fn no_wait_is_longer_than_the_longest() {
        let digits = "9".repeat(100);
        for text in [
            "999999999",
            "18446744073709551615",
            "999999999999",
            "1e300",
            "99999999999999999999h",
            "Fri, 31 Dec 9999 23:59:59 GMT",
            "9999-12-30T00:00:00Z",
            &digits,
        ] {
            assert_eq!(wait(text, now()), Some(MAX_WAIT), "{text}");
        }
        assert_eq!(wait_ms(&digits, now()), Some(MAX_WAIT));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "", " ", "\"", "-1", "+30", "soon", ".", "1..5", "1.2.3", "1e", "e5", "inf", "nan",
            "1e-", "30x", "s", "1m30", "0x10", "1_000", "1M", "@", "30,5", "\u{661}",
        ] {
            assert_eq!(wait(text, now()), None, "{text}");
            assert_eq!(wait_ms(text, now()), None, "{text}");
        }
    }

    #[test]
    fn milliseconds_are_a_number_or_whatever_a_wait_is() {
        assert_eq!(wait_ms("503", now()), Some(Duration::from_millis(503)));
        assert_eq!(wait_ms("0.5", now()), Some(Duration::from_micros(500)));
        assert_eq!(wait_ms("2s", now()), Some(Duration::from_secs(2)));
    }

    #[test]
    fn counts_are_whole_and_within_their_type() {
        for (text, expected) in [
            ("58", Some(58)),
            ("595.0", Some(595)),
            ("0.9", Some(0)),
            ("-3", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("99999999999999999999999999999999999999999999", Some(u64::MAX)),
            ("4e9", Some(4_000_000_000)),
            ("many", None),
            ("--1", None),
            ("", None),
        ] {
            assert_eq!(count(text), expected, "{text}");
        }
    }
}
