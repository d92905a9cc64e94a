//! The forms of times in a text format.

use jiff::civil::date;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

use super::Reason;
use super::time::{ClfTimeReader, from_text, in_range};

/// One field of a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TimePart {
    /// Common Log Format or RFC 3339, both with their zone.
    Zoned,
    /// Seconds, milliseconds or microseconds since 1970.
    Unix,
    /// A pattern of `strftime`. Without a zone it is in UTC.
    Pattern(String),
    /// A pattern of a local time whose zone is not in the log.
    LocalPattern(String),
}

/// The form of a whole time, which may be in several fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TimeForm {
    Zoned,
    Unix,
    /// The pattern of all parts, with a blank between two.
    Pattern {
        pattern: String,
        has_zone: bool,
        is_local: bool,
    },
}

/// A field that is a part of the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeField<'p> {
    pub(super) index: usize,
    pub(super) part: &'p TimePart,
}

/// How the time is written, and in which fields.
#[derive(Clone, Debug)]
pub(super) struct WrittenTime {
    pub(super) form: TimeForm,
    pub(super) fields: Vec<usize>,
}

impl WrittenTime {
    /// Returns the time that these parts make: the part that is a whole time, if there is one, else all parts that are
    /// patterns.
    pub(super) fn of(parts: &[TimeField<'_>]) -> Option<Self> {
        let whole = |wanted: &TimePart, form| {
            let found = parts.iter().find(|field| field.part == wanted)?;
            Some(Self { form, fields: vec![found.index] })
        };
        whole(&TimePart::Unix, TimeForm::Unix)
            .or_else(|| whole(&TimePart::Zoned, TimeForm::Zoned))
            .or_else(|| Self::of_patterns(parts))
    }

    fn of_patterns(parts: &[TimeField<'_>]) -> Option<Self> {
        let mut is_local = false;
        let pattern = |field: &TimeField<'_>| match field.part {
            TimePart::Pattern(pattern) => Some(pattern.clone()),
            TimePart::LocalPattern(pattern) => {
                is_local = true;
                Some(pattern.clone())
            }
            TimePart::Zoned | TimePart::Unix => None,
        };
        let pattern = parts.iter().filter_map(pattern).collect::<Vec<_>>().join(" ");
        let has_zone = ["%z", "%:z", "%s"].iter().any(|zone| pattern.contains(zone));
        let fields = parts.iter().map(|field| field.index).collect();
        let is_local = is_local && !has_zone;
        let form = TimeForm::Pattern { pattern, has_zone, is_local };
        (!parts.is_empty()).then_some(Self { form, fields })
    }
}

impl TimeForm {
    /// Returns whether times are in the zone of the server. The log does not name this zone.
    pub(super) fn is_local(&self) -> bool {
        matches!(self, Self::Pattern { is_local: true, .. })
    }

    /// Returns whether a time in this form can be read at all. A pattern is trusted only if it can read a time that it
    /// has written.
    pub(super) fn is_complete(&self) -> bool {
        let Self::Pattern { pattern, .. } = self else { return true };
        let Ok(sample) = date(2015, 5, 17).at(10, 5, 3, 0).to_zoned(TimeZone::UTC) else {
            return false;
        };
        let written = strtime::format(pattern, &sample).unwrap_or_default();
        self.nanos(&written) == Some(sample.timestamp().as_nanosecond())
    }

    /// Returns the time in nanoseconds of Unix time.
    #[inline]
    pub(super) fn read(&self, text: &[u8], clock: &mut ClfTimeReader) -> Result<u64, Reason> {
        let is_number = text.iter().all(|b| b.is_ascii_digit() || *b == b'.');
        match self {
            // A number in brackets may be that of a process.
            Self::Zoned if is_number => Err(Reason::not_a_time(text)),
            Self::Zoned => clock.read(text),
            Self::Unix if is_number => from_text(text),
            Self::Unix => Err(Reason::not_a_time_as(text, "a Unix time")),
            Self::Pattern { pattern, .. } => {
                let found = std::str::from_utf8(text).ok().and_then(|text| self.nanos(text));
                in_range(found.ok_or_else(|| Reason::not_a_time_as(text, pattern))?, text)
            }
        }
    }

    fn nanos(&self, text: &str) -> Option<i128> {
        let Self::Pattern { pattern, has_zone, .. } = self else { return None };
        let parsed = strtime::parse(pattern, text).ok()?;
        let time = if *has_zone {
            parsed.to_timestamp().ok()?
        } else {
            parsed.to_datetime().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp()
        };
        Some(time.as_nanosecond())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(parts: &[TimePart], text: &str) -> Result<u64, String> {
        let parts = parts.iter().enumerate().map(|(index, part)| TimeField { index, part });
        let parts: Vec<_> = parts.collect();
        let form = WrittenTime::of(&parts).expect("there is a time").form;
        assert!(form.is_complete());
        form.read(text.as_bytes(), &mut ClfTimeReader::default()).map_err(|r| r.to_string())
    }

    fn pattern(text: &str) -> TimePart {
        TimePart::Pattern(text.to_owned())
    }

    #[test]
    fn parts_of_a_time_are_read_together() {
        let apache = [pattern("%d/%b/%Y:%T"), pattern("%f"), pattern("%z")];
        let nanos = 1_431_857_103_250_000_000;
        assert_eq!(read(&apache, "17/May/2015:12:05:03 250 +0200"), Ok(nanos));
        let columns = [pattern("%Y-%m-%d"), pattern("%H:%M:%S%.f")];
        assert_eq!(read(&columns, "2015-05-17 10:05:03.25"), Ok(nanos));
        assert_eq!(read(&columns, "2015-05-17 10:05:03"), Ok(nanos - 250_000_000));
        assert_eq!(read(&[TimePart::Zoned, TimePart::Unix], "1431857103.250"), Ok(nanos));
    }

    #[test]
    fn a_time_in_another_form_is_refused_with_the_form() {
        let reason = read(&[pattern("%Y-%m-%d %T")], "17/May/2015:12:05:03").expect_err("other");
        assert_eq!(reason, "\"17/May/2015:12:05:03\" is no time; expected %Y-%m-%d %T");
        let reason = read(&[TimePart::Unix], "2015-05-17T10:05:03Z").expect_err("other");
        assert_eq!(reason, "\"2015-05-17T10:05:03Z\" is no time; expected a Unix time");
    }

    #[test]
    fn a_pattern_without_a_date_is_not_complete() {
        let part = pattern("%H:%M:%S");
        let time = WrittenTime::of(&[TimeField { index: 0, part: &part }]).expect("a time");
        assert!(!time.form.is_complete());
    }
}
