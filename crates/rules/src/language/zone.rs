//! [`Zone`]: windows of days, or of the calendar, that begin at midnight in a time zone.
//!
//! A zone converts times. Limits count windows of days from the beginning of 1970, in UTC. A limit with a zone is asked
//! at a *local time* in place of the time in UTC, so that each window of the zone falls on one window of the limit.
//! Take a window from instant `b` to instant `e`, which are the midnights `B` and `E` on the zone's calendar. The local
//! time of an instant `t` in it is:
//!
//! ```text
//! local(t) = max(B, t + (E - e))
//! ```
//!
//! * Local time is at least `B` and less than `E`, so each window is one window of the limit.
//! * Local time never falls: in the window it grows with `t`, and the next window begins at `E`.
//! * `E - local(t)` is `e - t`, so a wait until the next window is exact. There is one exception. If clocks are set
//!   back between `b` and `e`, local time stands still at `B` for the length of that change after `b`. Waits that are
//!   computed in that time are too short, by at most the change.
//!
//! If a midnight does not exist, the day begins when the clocks are put forward. If a midnight comes twice, the day
//! begins at the first.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, ToSpan};
use tollgate::{CalendarUnit, Timestamp};

use crate::language::meant::meant;

const DAY_NS: i128 = 86_400_000_000_000;

/// A time zone, and the length of the windows that begin at its midnight.
pub(crate) struct Zone {
    name: Box<str>,
    zone: TimeZone,
    length: ZoneWindow,
    /// The latest window that was computed. Most decisions fall into it, so they need not compute a window.
    current: ArcSwap<Window>,
}

/// The length of windows on the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZoneWindow {
    Days(u32),
    Calendar(CalendarUnit),
}

/// A window, in nanoseconds from the beginning of 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    begins: i128,
    ends: i128,
    /// The calendar's time at the beginning of the window.
    local_begin: i128,
    /// The time by which the calendar is ahead of UTC at the end of the window.
    ahead: i128,
}

impl Window {
    fn holds(&self, at: i128) -> bool {
        (self.begins..self.ends).contains(&at)
    }

    fn local(&self, at: i128) -> Timestamp {
        let local = self.local_begin.max(at + self.ahead).max(0);
        Timestamp::from_nanos(u64::try_from(local).unwrap_or(u64::MAX))
    }
}

impl Zone {
    /// The zone with this name in the IANA database. If there is none, the error has the known name that was probably
    /// meant.
    pub(crate) fn new(name: &str, length: ZoneWindow) -> Result<Self, Option<String>> {
        let Ok(zone) = TimeZone::get(name) else {
            let names: Vec<String> =
                jiff::tz::db().available().map(|known| known.to_string()).collect();
            let lower: Vec<String> = names.iter().map(|known| known.to_lowercase()).collect();
            let known: Vec<&str> = lower.iter().map(String::as_str).collect();
            let near = meant(name, &known);
            return Err(near.and_then(|near| {
                names.iter().find(|name| name.eq_ignore_ascii_case(near)).cloned()
            }));
        };
        let name = zone.iana_name().unwrap_or(name).into();
        // An empty window, which holds no instant.
        let none = Window { begins: 0, ends: 0, local_begin: 0, ahead: 0 };
        Ok(Self { name, zone, length, current: ArcSwap::from_pointee(none) })
    }

    /// The local time at an instant of Unix time.
    pub(crate) fn local(&self, now: Timestamp) -> Timestamp {
        let at = i128::from(now.as_nanos());
        let current = self.current.load();
        if current.holds(at) {
            return current.local(at);
        }
        let Some(window) = self.window(at) else { return now };
        // A caller may give times in the past. Their windows do not replace a later one, which most decisions need.
        if window.begins >= current.ends {
            self.current.store(Arc::new(window));
        }
        window.local(at)
    }

    /// The window that holds an instant; `None` beyond the year 9999.
    fn window(&self, at: i128) -> Option<Window> {
        let instant = jiff::Timestamp::from_nanosecond(at).ok()?;
        let mut date = self.length.begin(self.zone.to_datetime(instant).date())?;
        loop {
            let next = self.length.next(date)?;
            let [begins, ends] = [date, next].map(|date| self.midnight(date));
            let (begins, ends) = (begins?, ends?);
            // The instant may lie after the window of its date: a date comes twice if clocks are set back over
            // midnight, and a zone may leave out a day.
            if at >= ends {
                date = next;
                continue;
            }
            let (local_begin, ahead) = (on_calendar(date), on_calendar(next) - ends);
            return Some(Window { begins, ends, local_begin, ahead });
        }
    }

    /// The first instant of a date.
    fn midnight(&self, date: Date) -> Option<i128> {
        let instant = self.zone.to_timestamp(date.at(0, 0, 0, 0)).ok()?;
        Some(instant.as_nanosecond())
    }
}

impl ZoneWindow {
    /// The date on which the window that holds this date begins: windows of several days count from 1970-01-01.
    fn begin(self, date: Date) -> Option<Date> {
        match self {
            Self::Calendar(CalendarUnit::Month) => Some(date.first_of_month()),
            Self::Calendar(CalendarUnit::Year) => Some(date.first_of_year()),
            Self::Calendar(CalendarUnit::Week(begins)) => {
                let past = i64::from(date.weekday().to_monday_zero_offset()) - begins as i64;
                back(date, past.rem_euclid(7))
            }
            Self::Days(days) => back(date, day_number(date).rem_euclid(i64::from(days.max(1)))),
            Self::Calendar(_) => None, // for units that the core may get later
        }
    }

    fn next(self, begin: Date) -> Option<Date> {
        let length = match self {
            Self::Calendar(CalendarUnit::Month) => 1.month(),
            Self::Calendar(CalendarUnit::Year) => 1.year(),
            Self::Calendar(CalendarUnit::Week(_)) => 1.week(),
            Self::Calendar(_) => return None,
            Self::Days(days) => Span::new().try_days(days.max(1)).ok()?,
        };
        begin.checked_add(length).ok()
    }
}

fn back(date: Date, days: i64) -> Option<Date> {
    date.checked_sub(Span::new().try_days(days).ok()?).ok()
}

fn day_number(date: Date) -> i64 {
    const EPOCH: Date = jiff::civil::date(1970, 1, 1);
    EPOCH.until(date).map_or(0, |span| i64::from(span.get_days()))
}

/// Midnight of a date on the calendar, in nanoseconds from the beginning of 1970 as if the calendar were UTC.
fn on_calendar(date: Date) -> i128 {
    i128::from(day_number(date)) * DAY_NS
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zone").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tollgate::Weekday;

    use super::*;

    /// Compares the local time of each hour with the definition, by jiff's calendar: the date of the local time is that
    /// of the window, and local time never falls.
    fn walk(name: &str, length: ZoneWindow, from: &str, hours: i128) {
        let zone = Zone::new(name, length).expect("a zone");
        let from: jiff::Timestamp = from.parse().expect("an instant");
        let mut last = (0, None);
        for quarter in 0..hours * 4 {
            let at = from.as_nanosecond() + quarter * 15 * 60 * 1_000_000_000;
            let now = Timestamp::from_nanos(u64::try_from(at).expect("after 1970"));
            let local = zone.local(now).as_nanos();
            assert!(local >= last.0, "{name}: time falls at {quarter}");
            let instant = jiff::Timestamp::from_nanosecond(at).expect("an instant");
            let date = length.begin(zone.zone.to_datetime(instant).date()).expect("a date");
            // If clocks are set back to the date before, the window stays that of the later date.
            let date = last.1.map_or(date, |last: Date| last.max(date));
            let shown = jiff::Timestamp::from_nanosecond(i128::from(local)).expect("an instant");
            let shown = TimeZone::UTC.to_datetime(shown).date();
            assert_eq!(length.begin(shown), Some(date), "{name} at {instant}");
            last = (local, Some(date));
        }
    }

    #[test]
    fn a_window_is_one_on_the_calendar_of_the_zone_and_time_never_falls() {
        for (name, from) in [
            ("UTC", "2026-03-01T00:00:00Z"),
            ("Europe/Berlin", "2026-03-20T00:00:00Z"),
            ("Europe/Berlin", "2026-10-20T00:00:00Z"),
            ("America/New_York", "2026-10-25T00:00:00Z"),
            // Clocks are put forward at midnight, so this midnight does not exist.
            ("America/Santiago", "2026-08-30T00:00:00Z"),
            // Clocks are set back to 23:00 at midnight.
            ("America/Havana", "2026-10-28T00:00:00Z"),
            ("America/Sao_Paulo", "2018-02-10T00:00:00Z"),
            // A day is left out.
            ("Pacific/Apia", "2011-12-25T00:00:00Z"),
            ("Australia/Lord_Howe", "2026-03-30T00:00:00Z"),
            ("Asia/Kathmandu", "2026-03-30T00:00:00Z"),
        ] {
            for length in [
                ZoneWindow::Days(1),
                ZoneWindow::Days(7),
                ZoneWindow::Calendar(CalendarUnit::Month),
                ZoneWindow::Calendar(CalendarUnit::Year),
                ZoneWindow::Calendar(CalendarUnit::Week(Weekday::Monday)),
                ZoneWindow::Calendar(CalendarUnit::Week(Weekday::Saturday)),
            ] {
                walk(name, length, from, 24 * 20);
            }
        }
    }

    #[test]
    fn a_wait_until_midnight_is_exact_over_both_changes_of_clocks() {
        let berlin = Zone::new("europe/berlin", ZoneWindow::Days(1)).expect("a zone");
        assert_eq!(berlin.to_string(), "Europe/Berlin");
        for (at, midnight) in [
            ("2026-01-15T12:00:00Z", "2026-01-15T23:00:00Z"),
            ("2026-07-15T12:00:00Z", "2026-07-15T22:00:00Z"),
            // The day has 23 hours.
            ("2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),
            // The day has 25 hours. The time is two hours after its beginning.
            ("2026-10-25T00:00:00Z", "2026-10-25T23:00:00Z"),
        ] {
            let [at, midnight]: [jiff::Timestamp; 2] =
                [at, midnight].map(|text| text.parse().expect("an instant"));
            let now = u64::try_from(at.as_nanosecond()).expect("after 1970");
            let local = i128::from(berlin.local(Timestamp::from_nanos(now)).as_nanos());
            let left = DAY_NS - local.rem_euclid(DAY_NS);
            assert_eq!(left, midnight.as_nanosecond() - at.as_nanosecond(), "{at}");
        }
    }

    #[test]
    fn the_hour_after_clocks_were_set_back_since_midnight_stands_still() {
        // In a window of a week in which clocks are set back by an hour, the wait is an hour too short during the first
        // hour.
        let berlin = Zone::new("Europe/Berlin", ZoneWindow::Days(7)).expect("a zone");
        let at = |text: &str| {
            let at: jiff::Timestamp = text.parse().expect("an instant");
            Timestamp::from_nanos(u64::try_from(at.as_nanosecond()).expect("after 1970"))
        };
        let begin = berlin.local(at("2026-10-21T22:00:00Z"));
        assert_eq!(berlin.local(at("2026-10-21T22:59:59Z")), begin);
        assert_eq!(
            berlin.local(at("2026-10-21T23:00:01Z")),
            begin + std::time::Duration::from_secs(1)
        );
    }
}
