//! The calendar, by the rule that is taught in schools.

use num_bigint::BigUint;

use crate::CalendarSpan;

const DAY_NS: u64 = 86_400_000_000_000;

/// The days of four centuries, after which the calendar repeats. They are exactly 20,871 weeks.
const CYCLE_DAYS: u64 = 146_097;

/// The number of the window that contains `now`, counted from the window that contains the beginning of 1970. `now` is
/// in nanoseconds since then.
pub(crate) fn window_of(unit: CalendarSpan, now: &BigUint) -> BigUint {
    let days = now / DAY_NS;
    let cycles = &days / CYCLE_DAYS;
    let left = u64::try_from(days % CYCLE_DAYS).expect("the days of four centuries at most");
    let (in_cycle, windows) = match unit {
        CalendarSpan::Month => (4_800, month_of(left)),
        CalendarSpan::Year => (400, month_of(left) / 12),
        CalendarSpan::Week { begins } => (CYCLE_DAYS / 7, week_of(begins, left)),
    };
    cycles * in_cycle + windows
}

/// The number of the month that a day lies in, counted from January 1970.
fn month_of(mut day: u64) -> u64 {
    let mut month = 0_u64;
    while day >= length(1970 + month / 12, month % 12 + 1) {
        day -= length(1970 + month / 12, month % 12 + 1);
        month += 1;
    }
    month
}

/// The number of weeks that have begun after the first day of 1970, which was a Thursday, the third day after Monday.
fn week_of(begins: u8, day: u64) -> u64 {
    let begins_on = |day: &u64| (3 + day) % 7 == begins.into();
    // Any seven consecutive days contain the beginning of exactly one week.
    day / 7 + (1..=day % 7).filter(begins_on).count() as u64
}

/// The days of a month: "thirty days has September ..."
fn length(year: u64, month: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_has_as_many_days_and_months_as_it_says() {
        let lengths = (1970..2370).flat_map(|year| (1..=12).map(move |month| length(year, month)));
        assert_eq!((lengths.clone().sum(), lengths.count()), (CYCLE_DAYS, 4_800));
        assert!(CYCLE_DAYS.is_multiple_of(7));
    }

    #[test]
    fn months_turn_at_midnight() {
        let days = [
            (0_u64, 0_u64),
            (31, 1),
            (59, 2),
            (365, 12),
            (47_482, 1_560),  // 1 January 2100
            (47_541, 1_562),  // 1 March 2100: its February has 28 days
            (84_065, 2_762),  // 1 March 2200: its February has 28 days, too
            (213_483, 7_014), // 1 July 2554, in which 2^64 nanoseconds are over
            (146_097, 4_800),
        ];
        for (day, month) in days {
            let midnight = BigUint::from(day) * DAY_NS;
            let month_of = |now: &BigUint| window_of(CalendarSpan::Month, now);
            assert_eq!(month_of(&midnight), BigUint::from(month));
            if month > 0 {
                assert_eq!(month_of(&(midnight - 1_u32)), BigUint::from(month - 1));
            }
        }
    }

    /// Each row has a day since 1970, computed with Python's `datetime`, and the number of windows that had begun by
    /// then.
    #[test]
    fn years_and_weeks_turn_at_midnight() {
        let (year, [monday, sunday, thursday]) =
            (CalendarSpan::Year, [0, 6, 3].map(|begins| CalendarSpan::Week { begins }));
        for (unit, day, window) in [
            (year, 365_u64, 1_u64),
            (year, 1_096, 3),     // 1973-01-01, after 366 days
            (year, 11_323, 31),   // 2001-01-01, after 366 days
            (year, 47_847, 131),  // 2101-01-01, after 365 days
            (year, 157_420, 431), // 2401-01-01, after 366 days
            (year, 213_302, 584), // 2554-01-01
            (monday, 4, 1),       // 1970-01-05
            (monday, 20_087, 2_870),
            (monday, 146_101, 20_872),
            (monday, 213_497, 30_500), // 2554-07-15
            (sunday, 3, 1),            // 1970-01-04
            (sunday, 20_086, 2_870),
            (sunday, 213_503, 30_501),   // 2554-07-21
            (thursday, 7, 1),            // 1970-01-08
            (thursday, 213_500, 30_500), // 2554-07-18
        ] {
            let midnight = BigUint::from(day) * DAY_NS;
            assert_eq!(window_of(unit, &midnight), BigUint::from(window), "{unit:?} {day}");
            assert_eq!(window_of(unit, &(midnight - 1_u32)), BigUint::from(window - 1));
        }
    }
}
