//! [`MonthEnds`]: the months around a node's clock, which it tells the script.

use std::time::{SystemTime, UNIX_EPOCH};

use tollgate::{Meter, Policy, Timestamp, Word};

/// The length of the longest month: so long before its own clock the server's may be.
const BEFORE_US: u64 = 31 * 86_400_000_000;

/// An instant and the ends of the month that holds it and of the four after that, in microseconds since 1970: see
/// months.lua.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MonthEnds(pub(crate) [u64; 6]);

impl MonthEnds {
    /// By the clock of this machine.
    pub(crate) fn now() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::around(u64::try_from(now.as_micros()).unwrap_or_default())
    }

    /// The months around a time, by the calendar of the core. Without a calendar they hold no time, and the script says
    /// so.
    pub(crate) fn around(now_us: u64) -> Self {
        let mut ends = [0; 6];
        if let Ok(meter) = Policy::calendar_month(1).map(Meter::new) {
            ends[0] = now_us.saturating_sub(BEFORE_US);
            for n in 1..ends.len() {
                ends[n] = meter.as_ref().map_or(0, |meter| end(meter, ends[n - 1]));
            }
        }
        Self(ends)
    }
}

/// When the month ends that holds an instant: then all of what is charged now is there again.
fn end(meter: &Meter, at_us: u64) -> u64 {
    let at = Timestamp::from_nanos(at_us.saturating_mul(1_000));
    let (charged, _) = meter.check(Word::UNUSED, at, 1);
    let left_us = u64::try_from(charged.reset_after().as_micros()).unwrap_or(u64::MAX);
    at_us.saturating_add(left_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_months_around_a_time_are_those_of_the_calendar() {
        let days = |[year, month, day]: [u64; 3]| {
            // Days since 1970 of dates from March 2000 to February 2100.
            let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
            let years = year - 2000;
            11_017 + 365 * years + years / 4 + (153 * month + 2) / 5 + day - 1
        };
        let of = |dates: [[u64; 3]; 6]| MonthEnds(dates.map(|date| days(date) * 86_400_000_000));
        assert_eq!(days([2025, 2, 1]) * 86_400, 1_738_368_000);
        assert_eq!(
            MonthEnds::around(days([2024, 3, 31]) * 86_400_000_000),
            of([
                [2024, 2, 29],
                [2024, 3, 1],
                [2024, 4, 1],
                [2024, 5, 1],
                [2024, 6, 1],
                [2024, 7, 1]
            ])
        );
        assert_eq!(
            MonthEnds::around(days([2025, 3, 1]) * 86_400_000_000),
            of([
                [2025, 1, 29],
                [2025, 2, 1],
                [2025, 3, 1],
                [2025, 4, 1],
                [2025, 5, 1],
                [2025, 6, 1]
            ])
        );
        // At the beginning of time there is no month before.
        assert_eq!(MonthEnds::around(5).0[..2], [0, 31 * 86_400_000_000]);
        assert!(MonthEnds::now().0.is_sorted());
    }
}
