//! Windows of the calendar in UTC: at most `limit` units in each week, month or year, no matter how many days it has.
//!
//! The word is (index of the window, count). Index 0 is the window that holds the beginning of 1970. A new window
//! starts at count 0.
//!
//! ```text
//! admit iff  count + cost <= limit
//! ```
//!
//! The counting is done by a [`FixedWindow`]. This file only says which window an instant lies in, and when that window
//! is over. One window admits at most `limit` units. An interval as long as the shortest window crosses at most one
//! boundary, so at most 2 * limit units are admitted in it. An interval as long as the longest window may contain a
//! whole shorter month or year, so the bound is 3 * limit there. A `now` before the stored window is replaced by the
//! start of that window.
//!
//! # Instants and months
//! An instant is a number of nanoseconds since the Unix epoch. Every day has 86,400 s: leap seconds are not counted. As
//! in Howard Hinnant's description of `civil_from_days` (<https://howardhinnant.github.io/date_algorithms.html>) a year
//! begins in March, so that the leap day is its last day. Day d of such a year lies in month `(5 d + 2) / 153`, and
//! month m begins on day `(153 m + 2) / 5`. This code first finds the century and then the year. It counts in quarters
//! of a day, for the following reason. 400 years are 4 * 36524 + 1 days, and 4 years of a century are 4 * 365 + 1 days.
//! So a century has 146097 quarters of a day on average, and a year has 1461 of them. All divisors are constants, and
//! the number of steps is the same for every date.
//!
//! A window of a year begins in January, unlike the years of this computation. A week is seven days. Weeks are counted
//! from 1 January 1970, which was a Thursday.

use super::fixed_window::FixedWindow;
use super::{Held, Moment};
use crate::divisor::Divisor;

const DAY_NS: u64 = 86_400_000_000_000;

/// Days from 1 March of year 0 to 1 January 1970.
const EPOCH_DAY: u64 = 719_468;

/// Months from March of year 0 to January 1970.
const EPOCH_MONTH: u64 = 1_969 * 12 + 10;

/// A day of the week, on which a [`CalendarUnit::Week`] begins.
///
/// ```
/// use tollgate::{CalendarUnit, Policy, Weekday};
/// let policy = Policy::calendar(CalendarUnit::Week(Weekday::Sunday), 1_000)?;
/// assert_eq!(policy.to_string(), "calendar-week 1000 from-sunday");
/// # Ok::<(), tollgate::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Weekday {
    /// The first day of a week in ISO 8601.
    #[default]
    Monday,
    /// The second day.
    Tuesday,
    /// The third day.
    Wednesday,
    /// The fourth day of the week in ISO 8601. 1 January 1970 was a Thursday.
    Thursday,
    /// The fifth day.
    Friday,
    /// The sixth day.
    Saturday,
    /// The seventh day.
    Sunday,
}

/// The kind of a window of the calendar. Each window begins and ends at midnight in UTC. See
/// [`Policy::calendar`](crate::Policy::calendar).
///
/// ```
/// use tollgate::{CalendarUnit, Policy};
/// assert_eq!(Policy::calendar(CalendarUnit::Year, 1_000)?, "calendar-year 1000".parse()?);
/// # Ok::<(), tollgate::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CalendarUnit {
    /// From the first day of a month to the first day of the next month: 28 to 31 days.
    Month,
    /// From 1 January to 1 January: 365 or 366 days.
    Year,
    /// Seven days, which begin on this day of the week.
    Week(Weekday),
}

impl CalendarUnit {
    /// All units, each at its [number](Self::number).
    pub(crate) const ALL: [Self; 9] = [
        Self::Month,
        Self::Year,
        Self::Week(Weekday::Monday),
        Self::Week(Weekday::Tuesday),
        Self::Week(Weekday::Wednesday),
        Self::Week(Weekday::Thursday),
        Self::Week(Weekday::Friday),
        Self::Week(Weekday::Saturday),
        Self::Week(Weekday::Sunday),
    ];

    /// The place of the unit in [`ALL`](Self::ALL), which is part of snapshots.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Month => 0,
            Self::Year => 1,
            Self::Week(begins) => 2 + begins as u8,
        }
    }

    /// The unit with this number, if there is one.
    pub(crate) fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The days of the shortest and of the longest window.
    pub(crate) const fn days(self) -> [u64; 2] {
        match self {
            Self::Month => [28, 31],
            Self::Year => [365, 366],
            Self::Week(_) => [7, 7],
        }
    }

    /// The length of the shortest window.
    pub(crate) const fn shortest_ns(self) -> u64 {
        self.days()[0] * DAY_NS
    }

    /// The length of the longest window.
    pub(crate) const fn longest_ns(self) -> u64 {
        self.days()[1] * DAY_NS
    }

    /// The number of the window that contains an instant, counted from the window that contains the beginning of 1970.
    // This function is never inlined. Otherwise the compiler would compute the number for every decision, before the
    // test of which algorithm decides.
    #[inline(never)]
    const fn window_of(self, at_ns: u64) -> u64 {
        match self {
            Self::Month => month_of(at_ns),
            Self::Year => month_of(at_ns) / 12,
            Self::Week(begins) => (at_ns / DAY_NS + before_1970(begins)) / 7,
        }
    }

    /// The instant at which a window begins. The result is [`u64::MAX`] if the window begins later than the last
    /// instant, and 0 if it began before 1970.
    const fn start_ns(self, window: u64) -> u64 {
        match self {
            Self::Month => month_start_ns(window),
            Self::Year => month_start_ns(window.saturating_mul(12)),
            Self::Week(begins) => {
                let day = window.saturating_mul(7).saturating_sub(before_1970(begins));
                day.saturating_mul(DAY_NS)
            }
        }
    }
}

/// The number of days from the start of the week that contains 1 January 1970 to that day.
const fn before_1970(begins: Weekday) -> u64 {
    (7 + Weekday::Thursday as u64 - begins as u64) % 7
}

/// The algorithm: a fixed window whose bounds are those of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CalendarWindow {
    pub(super) unit: CalendarUnit,
    counts: FixedWindow,
}

impl CalendarWindow {
    pub(crate) const fn new(unit: CalendarUnit, limit: u64) -> Self {
        const ANY: Divisor = Divisor::new(DAY_NS);
        Self { unit, counts: FixedWindow { window: ANY, limit } } // only the count of it is used
    }

    #[inline(always)]
    pub(super) fn moment(&self, at_ns: u64) -> Moment {
        Moment { unit: self.unit.window_of(at_ns), into_ns: 0 }
    }

    #[inline]
    pub(super) fn limit(&self) -> u64 {
        self.counts.limit()
    }

    #[inline]
    pub(super) fn step(&self, held: Held, moment: Moment, cost: u64) -> Option<Held> {
        self.counts.step(held, moment, cost)
    }

    /// As [`FixedWindow::charge_up_to`].
    pub(super) fn charge_up_to(&self, held: Held, moment: Moment, cost: u64, most: u64) -> Held {
        self.counts.charge_up_to(held, moment, cost, most)
    }

    pub(super) fn remaining(&self, held: Held) -> u64 {
        self.counts.remaining(held)
    }

    pub(super) fn ready_ns(&self, held: Held, at_ns: u64, cost: u64) -> u64 {
        let moment = self.moment(at_ns);
        // The cost fits now, so there is nothing to wait for.
        if self.counts.step(held, moment, cost).is_some() {
            return at_ns;
        }
        // The cost fits when the next window begins. If the word's window lies ahead, it fits when that window has
        // ended.
        self.unit.start_ns(moment.unit.saturating_add(held.ahead).saturating_add(1))
    }
}

/// The number of the month that contains an instant. January 1970 has number 0.
#[inline(always)]
const fn month_of(at_ns: u64) -> u64 {
    // The quarters of a day from 1 March of year 0 to the last quarter of this day. The last quarter is used, so that
    // the first day of a century and a leap day at the end of a century both fall into the right century.
    let quarters = 4 * (at_ns / DAY_NS + EPOCH_DAY) + 3;
    let (century, into_century) = (quarters / 146_097, quarters % 146_097);
    // The last quarter of the day is used again, so that leap days fall into the right year.
    let quarters = into_century | 3;
    let (year, day) = (quarters / 1_461, quarters % 1_461 / 4);
    // The five months from March to July have 153 days in total, and so do those from August to December.
    let month = (5 * day + 2) / 153;
    (century * 100 + year) * 12 + month - EPOCH_MONTH
}

/// The instant at which a month begins. The result is [`u64::MAX`] if the month begins later than the last instant.
const fn month_start_ns(month: u64) -> u64 {
    // Month `u32::MAX` begins after the last instant, as all later months do. Later months are replaced by this month,
    // so that nothing below overflows.
    let month = if month > u32::MAX as u64 { u32::MAX as u64 } else { month } + EPOCH_MONTH;
    let (year, month) = (month / 12, month % 12);
    // A leap day is the last day of a year that begins in March, so only the leap days of the years that are over
    // count.
    let leap_days = year / 4 - year / 100 + year / 400;
    let day = 365 * year + leap_days + (153 * month + 2) / 5;
    (day - EPOCH_DAY).saturating_mul(DAY_NS)
}

#[cfg(test)]
mod tests {
    use super::super::Kernel;
    use super::*;
    use crate::clock::LATEST_NS;

    /// The number of days in each month of a year, by the well-known rule for leap years.
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
            assert_eq!(CalendarUnit::Month.start_ns(month), start, "month {month}");
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
            assert_eq!(CalendarUnit::Month.start_ns(later), u64::MAX, "month {later}");
        }
    }

    #[test]
    fn every_unit_has_its_number_and_no_other_number_is_one() {
        for (number, unit) in (0..).zip(CalendarUnit::ALL) {
            assert_eq!((unit.number(), CalendarUnit::of_number(number)), (number, Some(unit)));
        }
        assert_eq!([9, u8::MAX].map(CalendarUnit::of_number), [None; 2]);
    }

    /// Looks at each day up to the last instant. A new window begins on 1 January, or on the first day of the week, and
    /// at no other time.
    #[test]
    fn every_year_and_week_turns_on_its_day_and_on_no_other() {
        for unit in &CalendarUnit::ALL[1..] {
            let (mut window, mut month, mut day_of_month, mut year) = (0, 0, 0, 1970);
            for day in 0..=u64::MAX / DAY_NS {
                // 1 January 1970 was a Thursday, the fourth day from Monday.
                let is_first = match unit {
                    CalendarUnit::Week(begins) => (day + 3) % 7 == *begins as u64,
                    _ => month == 0 && day_of_month == 0,
                };
                window += u64::from(is_first && day > 0);
                let start = day * DAY_NS;
                assert_eq!(unit.window_of(start), window, "{unit:?}, day {day}");
                assert_eq!(unit.window_of(start.saturating_add(DAY_NS - 1)), window);
                if is_first {
                    assert_eq!(unit.start_ns(window), start);
                }
                day_of_month += 1;
                if day_of_month == lengths(year)[month] {
                    (month, day_of_month) = ((month + 1) % 12, 0);
                    year += u64::from(month == 0);
                }
            }
            for later in [window + 1, 1 << 53, u64::MAX] {
                assert_eq!(unit.start_ns(later), u64::MAX, "{unit:?} {later}");
            }
            let length = |window| unit.start_ns(window + 1) - unit.start_ns(window);
            let lengths = (1..window).map(length); // the first may have begun before
            assert_eq!(lengths.clone().min(), Some(unit.shortest_ns()));
            assert_eq!(lengths.max(), Some(unit.longest_ns()));
        }
    }

    /// The seconds of Unix time are those that `date -u -d ... +%s` prints.
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
            assert_eq!(
                month_start_ns(years * 12 + month - 1),
                second * 1_000_000_000,
                "{years} {month}"
            );
        }
        assert_eq!(month_of(LATEST_NS), 130 * 12);
    }

    #[test]
    fn the_shortest_and_the_longest_month_are_what_they_are_called() {
        let length = |month| month_start_ns(month + 1) - month_start_ns(month);
        let lengths = (0..584 * 12).map(length);
        assert_eq!(lengths.clone().min(), Some(CalendarUnit::Month.shortest_ns()));
        assert_eq!(lengths.max(), Some(CalendarUnit::Month.longest_ns()));
    }

    #[test]
    fn a_full_month_opens_again_at_its_end() {
        let month = CalendarWindow::new(CalendarUnit::Month, 3);
        let [shortest_ns, longest_ns] = CalendarUnit::Month.days().map(|days| days * DAY_NS);
        let full = Held { counts: 3, ..Held::IDLE };
        let at = month_start_ns(55 * 12 + 1); // February 2025
        for at_ns in [at, at + DAY_NS, at + shortest_ns - 1] {
            assert_eq!(month.ready_ns(full, at_ns, 1), at + shortest_ns);
            assert_eq!(Kernel::CalendarWindow(month).idle_ns(full, at_ns), at + shortest_ns);
        }
        // This word is one month ahead of a late request.
        let ahead = Held { ahead: 1, ..full };
        assert_eq!(month.ready_ns(ahead, at, 1), at + shortest_ns + longest_ns);
        let behind = Held { behind: 1, ..full };
        assert_eq!((month.ready_ns(behind, at, 3), month.remaining(behind)), (at, 3));
        // A word with a count above its limit is also answered, and so is a word whose window begins after the last
        // instant.
        let over = Held { counts: 9, ..Held::IDLE };
        assert_eq!(month.ready_ns(over, at, 0), at + shortest_ns);
        let far = Held { ahead: u64::MAX, ..full };
        assert_eq!(month.ready_ns(far, at, 1), u64::MAX);
    }
}
