//! Calendar months in UTC: at most `limit` units in each month, whichever number of days it has.
//!
//! The word is (months since January 1970, count). A new month starts at count 0.
//!
//! ```text
//! admit iff  count + cost <= limit
//! ```
//!
//! The count is that of a [`FixedWindow`]; only which window an instant lies in, and when it is over, are this
//! file's. Most in one month: limit; in any interval of up to 28 days: 2 * limit, across one boundary; of 31 days:
//! 3 * limit, around a shorter month. A `now` before the stored month counts as that month's start.
//!
//! # Instants and months
//! An instant is nanoseconds since the Unix epoch, of days of 86,400 s: a leap second is not counted. As in Howard
//! Hinnant's description of `civil_from_days` (<https://howardhinnant.github.io/date_algorithms.html>) a year begins
//! in March, so that the leap day is its last, and day d of such a year lies in month `(5 d + 2) / 153`, which begins
//! on day `(153 m + 2) / 5`. Here whole centuries and then whole years are taken off in quarters of a day: 400 years
//! are 4 * 36524 + 1 days, 4 years of a century 4 * 365 + 1, so a century is 146097 quarters and a year 1461. All
//! divisors are constants, and no step depends on how late it is.

use super::fixed_window::FixedWindow;
use super::{Held, Moment};
use crate::divisor::Divisor;

// A leap second is part of no day.
const DAY_NS: u64 = 86_400_000_000_000;

/// The shortest month: February of most years.
pub(crate) const SHORTEST_NS: u64 = 28 * DAY_NS;

/// The longest month.
pub(crate) const LONGEST_NS: u64 = 31 * DAY_NS;

/// Days from 1 March of year 0 to 1 January 1970.
const EPOCH_DAY: u64 = 719_468;

/// Months from March of year 0 to January 1970.
const EPOCH_MONTH: u64 = 1_969 * 12 + 10;

/// A fixed window for each month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CalendarMonth(FixedWindow);

impl CalendarMonth {
    pub(crate) const fn new(limit: u64) -> Self {
        const LONGEST: Divisor = Divisor::new(LONGEST_NS);
        Self(FixedWindow { window: LONGEST, limit }) // of which only the count is used
    }

    #[inline(always)]
    pub(super) fn moment(&self, at_ns: u64) -> Moment {
        Moment { unit: month_of(at_ns), into_ns: 0 }
    }

    #[inline]
    pub(super) fn limit(&self) -> u64 {
        self.0.limit()
    }

    #[inline]
    pub(super) fn step(&self, held: Held, moment: Moment, cost: u64) -> Option<Held> {
        self.0.step(held, moment, cost)
    }

    /// As [`FixedWindow::charge_up_to`].
    pub(super) fn charge_up_to(&self, held: Held, moment: Moment, cost: u64, most: u64) -> Held {
        self.0.charge_up_to(held, moment, cost, most)
    }

    pub(super) fn remaining(&self, held: Held) -> u64 {
        self.0.remaining(held)
    }

    pub(super) fn ready_ns(&self, held: Held, at_ns: u64, cost: u64) -> u64 {
        let moment = self.moment(at_ns);
        // It fits now: nothing has to end before.
        if self.0.step(held, moment, cost).is_some() {
            return at_ns;
        }
        // The count is as it is until the next month begins; a word of a later month counts there.
        start_ns(moment.unit.saturating_add(held.ahead).saturating_add(1))
    }
}

/// The month that holds an instant, counted from January 1970.
#[inline(always)]
const fn month_of(at_ns: u64) -> u64 {
    // Quarters of a day since 1 March of year 0, at the last of the day's four: so a leap day, which comes last in
    // its century and in its four years, still falls into them.
    let quarters = 4 * (at_ns / DAY_NS + EPOCH_DAY) + 3;
    let (century, into_century) = (quarters / 146_097, quarters % 146_097);
    // Again at the last quarter of the day, for the years as before for the centuries.
    let quarters = into_century | 3;
    let (year, day) = (quarters / 1_461, quarters % 1_461 / 4);
    // Five months from March on have 153 days, and so have the five from August on.
    let month = (5 * day + 2) / 153;
    (century * 100 + year) * 12 + month - EPOCH_MONTH
}

/// The instant at which a month begins; [`u64::MAX`] for one that begins later than can be told.
const fn start_ns(month: u64) -> u64 {
    // Cut where no later month can be told either, so that nothing below overflows.
    let month = if month > u32::MAX as u64 { u32::MAX as u64 } else { month } + EPOCH_MONTH;
    let (year, month) = (month / 12, month % 12);
    // A leap day is the last day of its year, so only whole years have had theirs.
    let leap_days = year / 4 - year / 100 + year / 400;
    let day = 365 * year + leap_days + (153 * month + 2) / 5;
    (day - EPOCH_DAY).saturating_mul(DAY_NS)
}

#[cfg(test)]
mod tests {
    use super::super::Kernel;
    use super::*;
    use crate::clock::LATEST_NS;

    /// Days of a year's months, by the rule that is taught in schools.
    fn lengths(year: u64) -> [u64; 12] {
        let is_leap =
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let february = if is_leap { 29 } else { 28 };
        [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    }

    #[test]
    fn every_month_begins_and_ends_where_the_calendar_says() {
        let mut start = 0_u64;
        let months = (1970_u64..).flat_map(lengths);
        for (month, days) in (0_u64..).zip(months) {
            assert_eq!(start_ns(month), start, "month {month}");
            assert_eq!(month_of(start), month);
            let Some(end) = start.checked_add(days * DAY_NS) else {
                // The last month is July 2554: time ends within it.
                assert_eq!((month, month_of(u64::MAX)), (584 * 12 + 6, month));
                break;
            };
            assert_eq!(month_of(end - 1), month, "month {month} of {days} days");
            start = end;
        }
        for later in [584 * 12 + 7, 1 << 32, 1 << 53, u64::MAX] {
            assert_eq!(start_ns(later), u64::MAX, "month {later}");
        }
    }

    /// Seconds of Unix time as `date -u -d ... +%s` tells them.
    #[test]
    fn these_months_begin_at_these_seconds() {
        for (years, month, second) in [
            (0, 1, 0),
            (0, 2, 2_678_400),
            (30, 2, 949_363_200),    // 2000-02-01
            (30, 3, 951_868_800),    // 2000-03-01, after 29 days
            (54, 2, 1_706_745_600),  // 2024-02-01
            (54, 3, 1_709_251_200),  // 2024-03-01, after 29 days
            (55, 1, 1_735_689_600),  // 2025-01-01
            (55, 2, 1_738_368_000),  // 2025-02-01
            (55, 3, 1_740_787_200),  // 2025-03-01, after 28 days
            (55, 5, 1_746_057_600),  // 2025-05-01, after 30 days
            (130, 1, 4_102_444_800), // 2100-01-01
            (130, 3, 4_107_542_400), // 2100-03-01, after 28 days
        ] {
            assert_eq!(start_ns(years * 12 + month - 1), second * 1_000_000_000, "{years} {month}");
        }
        assert_eq!(month_of(LATEST_NS), 130 * 12);
    }

    #[test]
    fn the_shortest_and_the_longest_month_are_what_they_are_called() {
        let length = |month| start_ns(month + 1) - start_ns(month);
        let lengths = (0..584 * 12).map(length);
        assert_eq!(lengths.clone().min(), Some(SHORTEST_NS));
        assert_eq!(lengths.max(), Some(LONGEST_NS));
    }

    #[test]
    fn a_full_month_opens_again_at_its_end() {
        let month = CalendarMonth::new(3);
        let full = Held { counts: 3, ..Held::IDLE };
        let at = start_ns(55 * 12 + 1); // February 2025
        for at_ns in [at, at + DAY_NS, at + SHORTEST_NS - 1] {
            assert_eq!(month.ready_ns(full, at_ns, 1), at + SHORTEST_NS);
            assert_eq!(Kernel::CalendarMonth(month).idle_ns(full, at_ns), at + SHORTEST_NS);
        }
        // A word that is one month ahead of a late request.
        let ahead = Held { ahead: 1, ..full };
        assert_eq!(month.ready_ns(ahead, at, 1), at + SHORTEST_NS + LONGEST_NS);
        let behind = Held { behind: 1, ..full };
        assert_eq!((month.ready_ns(behind, at, 3), month.remaining(behind)), (at, 3));
        // A word that holds more than its limit, or lies beyond the end of time, is some state, too.
        let over = Held { counts: 9, ..Held::IDLE };
        assert_eq!(month.ready_ns(over, at, 0), at + SHORTEST_NS);
        let far = Held { ahead: u64::MAX, ..full };
        assert_eq!(month.ready_ns(far, at, 1), u64::MAX);
    }
}
