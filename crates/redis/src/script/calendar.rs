//! [`WindowEnds`]: the windows of the calendar around the time of a node's clock. A node sends these to the script,
//! because the script cannot compute with calendar dates.

use std::time::{SystemTime, UNIX_EPOCH};

use tollgate::{CalendarUnit, Meter, Policy, Timestamp, Word};

/// An instant, the end of the window that contains it, and the ends of the next four windows, in microseconds since
/// 1970. The instant is the node's time less the length of the longest window, so that the windows also contain the
/// time of a server whose clock is behind. See calendar.lua.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowEnds(pub(crate) [u64; 6]);

impl WindowEnds {
    /// The windows around the time of this machine's clock.
    pub(crate) fn now(unit: CalendarUnit) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::around(unit, u64::try_from(now.as_micros()).unwrap_or_default())
    }

    /// The windows around a time, by the calendar of the core. If the core has no windows at that time, all ends are 0,
    /// and the script reports that the server's time is in none of the windows.
    pub(crate) fn around(unit: CalendarUnit, now_us: u64) -> Self {
        let mut ends = [0; 6];
        if let Ok(policy) = Policy::calendar(unit, 1) {
            let (meter, longest) = (Meter::new(policy), policy.quota().period());
            let before_us = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
            ends[0] = now_us.saturating_sub(before_us);
            for n in 1..ends.len() {
                ends[n] = meter.as_ref().map_or(0, |meter| end(meter, ends[n - 1]));
            }
        }
        Self(ends)
    }
}

/// The end of the window that contains an instant. It is found by charging a unit at that instant: the core reports the
/// time to the end of the window as `reset_after`.
fn end(meter: &Meter, at_us: u64) -> u64 {
    let at = Timestamp::from_nanos(at_us.saturating_mul(1_000));
    let (charged, _) = meter.check(Word::UNUSED, at, 1);
    let left_us = u64::try_from(charged.reset_after().as_micros()).unwrap_or(u64::MAX);
    at_us.saturating_add(left_us)
}

/// The number that stands for the unit in a stored state; `None` for units that a later version of the core may add.
pub(crate) fn number_of(unit: CalendarUnit) -> Option<u8> {
    Some(match unit {
        CalendarUnit::Month => 0,
        CalendarUnit::Year => 1,
        CalendarUnit::Week(begins) => 2 + begins as u8,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use CalendarUnit::{Month, Week, Year};
    use tollgate::Weekday;

    use super::*;

    #[test]
    fn the_windows_around_a_time_are_those_of_the_calendar() {
        let days = |[year, month, day]: [u64; 3]| {
            // The number of days since 1970, for dates from March 2000 to February 2100.
            let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
            let years = year - 2000;
            11_017 + 365 * years + years / 4 + (153 * month + 2) / 5 + day - 1
        };
        assert_eq!(days([2025, 2, 1]) * 86_400, 1_738_368_000);
        for ([year, month, day], ends) in [
            ([2024, 3, 31], [[2, 29], [3, 1], [4, 1], [5, 1], [6, 1], [7, 1]]),
            ([2025, 3, 1], [[1, 29], [2, 1], [3, 1], [4, 1], [5, 1], [6, 1]]),
        ] {
            let found = WindowEnds::around(Month, days([year, month, day]) * 86_400_000_000);
            let ends = ends.map(|[month, day]| days([year, month, day]) * 86_400_000_000);
            assert_eq!(found, WindowEnds(ends), "{year}-{month}-{day}");
        }
        // The 29th of January 2025 is a Wednesday, and 2024 a leap year.
        let noon = days([2025, 2, 5]) * 86_400_000_000 + 43_200_000_000;
        let WindowEnds(weeks) = WindowEnds::around(Week(Weekday::Sunday), noon);
        let sundays = [[2025, 2, 2], [2025, 2, 9], [2025, 2, 16], [2025, 2, 23], [2025, 3, 2]];
        assert_eq!(weeks[0], noon - 7 * 86_400_000_000);
        assert_eq!(weeks[1..], sundays.map(|date| days(date) * 86_400_000_000));
        let WindowEnds(years) = WindowEnds::around(Year, noon);
        let januaries = [2025, 2026, 2027, 2028, 2029].map(|year| days([year, 1, 1]));
        assert_eq!(years[0], noon - 366 * 86_400_000_000);
        assert_eq!(years[1..], januaries.map(|day| day * 86_400_000_000));
        // The first window of 1970 is the earliest, so the instant is cut to 0.
        assert_eq!(WindowEnds::around(Month, 5).0[..2], [0, 31 * 86_400_000_000]);
        assert!(WindowEnds::now(Month).0.is_sorted());
    }
}
