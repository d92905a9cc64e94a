//! The calendar, by the rule that is taught in schools.

use num_bigint::BigUint;

const DAY_NS: u64 = 86_400_000_000_000;

/// The days of four centuries, after which the calendar repeats, and their months.
const CYCLE: (u64, u64) = (146_097, 4_800);

/// The number of months from January 1970 to the one that holds an instant, given in nanoseconds since then.
pub(crate) fn month_of(now: &BigUint) -> BigUint {
    let days = now / DAY_NS;
    let cycles = &days / CYCLE.0;
    let mut left = u64::try_from(days % CYCLE.0).expect("the days of four centuries at most");
    let mut month = 0_u64;
    while left >= length(1970 + month / 12, month % 12 + 1) {
        left -= length(1970 + month / 12, month % 12 + 1);
        month += 1;
    }
    cycles * CYCLE.1 + month
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
        assert_eq!((lengths.clone().sum(), lengths.count() as u64), CYCLE);
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
            (84_065, 2_762),  // 1 March 2200, and so has this one
            (213_483, 7_014), // 1 July 2554, in which 2^64 nanoseconds are over
            (146_097, 4_800),
        ];
        for (day, month) in days {
            let midnight = BigUint::from(day) * DAY_NS;
            assert_eq!(month_of(&midnight), BigUint::from(month));
            if month > 0 {
                assert_eq!(month_of(&(midnight - 1_u32)), BigUint::from(month - 1));
            }
        }
    }
}
