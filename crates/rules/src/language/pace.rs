//! [`Pace`]: a rate and a burst that come with a request. This module also has the bounds of the tables in which paces
//! are counted.

use std::fmt;
use std::time::Duration;

use tollgate::Quota;

/// A rate and a burst that come with a request and not from a rule, for
/// [`DecisionMaker::pace`](crate::DecisionMaker::pace). They are enforced by GCRA: at most `burst` units at once, and
/// `count` in each period.
///
/// # Which paces of a key share a count
/// Paces are counted in six tables. A pace belongs to the first table that it fits: its burst comes back within the
/// table's time, and its rate is not above the table's.
///
/// | The burst comes back within | The rate is at most |
/// |---|---|
/// | an hour | 600,000 an hour, which is 166 a second |
/// | a day | 600,000 a day |
/// | 31 days | 600,000 in 31 days |
/// | 42 years | 600,000 in 42 years |
/// | a minute | 600,000 a minute, which is 10,000 a second |
/// | a second | 1,000,000 a second |
///
/// All paces of one key in one table share one count, in units: see [`Entry::under`](tollgate::Entry::under). In any
/// interval of length T, at most B + R * T units of the key are admitted under these paces, where B is their largest
/// burst and R their highest rate. If requests of one key come with paces of two tables, the key has a count in each
/// table.
///
/// # How exactly it is enforced
/// The rate is not rounded. Times are counted in ticks. A tick is at most a 256th of the time in which a unit comes
/// back. If that time is below 2,048 ns, a tick may be longer, but is below 16 ns. One unit may come back a tick too
/// soon. When a key changes to another pace, its debt is rounded up to a tick.
///
/// A burst has at most 140,000 units. A burst of up to 10,000 units that comes back within 31 days always fits, unless
/// the rate is above 1,000,000 a second.
///
/// ```
/// use std::time::Duration;
/// use tollgate_rules::{Pace, PaceError};
/// assert!(Pace::new(16, 30, Duration::from_secs(60)).is_ok());
/// assert_eq!(Pace::new(0, 30, Duration::from_secs(60)), Err(PaceError::Zero("burst")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pace {
    quota: Quota,
    /// The index in [`PaceTable::ALL`].
    table: usize,
}

/// The bounds of the paces that one table takes. [`LARGEST_BURST`] is a further bound, for all tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PaceTable {
    /// The longest time in which a burst may come back, in seconds.
    longest_s: u64,
    /// The most units that may come back in this time.
    fastest: u64,
}

const DAY_S: u64 = 86_400;

/// The largest burst of a pace.
const LARGEST_BURST: u64 = 140_000;

/// The longest period, and the longest time in which a burst may come back.
const LONGEST_S: u64 = 42 * 365 * DAY_S;

impl PaceTable {
    /// All tables. A pace is counted in the first table that it fits.
    // A word has 28 bits for the time, beside 24 for the key and 10 that name the quota. All quotas of a table divide
    // time into the same epochs, each a quarter of the table's longest time. A word must tell five epochs apart, and
    // needs room for twice the burst beyond them. A unit has 256 ticks, or fewer if a tick would be shorter than 8 ns.
    // So 1.25 * `fastest` + 2 * `LARGEST_BURST` units fit if they are at most 2^20. The first table takes nearly all
    // paces, so that nearly all keys have one count.
    pub(crate) const ALL: [Self; 6] = [
        Self::new(3_600, 600_000),
        Self::new(DAY_S, 600_000),
        Self::new(31 * DAY_S, 600_000),
        Self::new(LONGEST_S, 600_000),
        Self::new(60, 600_000),
        Self::new(1, 1_000_000),
    ];

    /// The number of quotas that each table takes at a time. With twice that number the table's words would have one
    /// bit less for the time.
    pub(crate) const QUOTAS: usize = 512;

    const fn new(longest_s: u64, fastest: u64) -> Self {
        Self { longest_s, fastest }
    }

    /// The slowest quota that the table takes.
    pub(crate) const fn slowest(self) -> Quota {
        Quota::per(1, Duration::from_secs(self.longest_s))
    }

    /// The quota that needs the most bits of a word: the fastest, with the largest burst. A unit that comes back in
    /// 2,048 ns has more ticks than any shorter unit.
    pub(crate) const fn hardest(self) -> Quota {
        const LONGEST_OF_FEWER_TICKS_NS: u64 = 2_048;
        let period_ns = self.longest_s * 1_000_000_000;
        let most_ticks = period_ns / LONGEST_OF_FEWER_TICKS_NS;
        let count = if self.fastest < most_ticks { self.fastest } else { most_ticks };
        Quota::per(count, Duration::from_nanos(period_ns)).burst(LARGEST_BURST)
    }

    /// Whether the rate is low enough for the table. No product here has more than 128 bits, because a period in
    /// nanoseconds has at most 94 bits.
    fn takes_rate(self, count: u64, period: Duration) -> bool {
        self.units(count) <= u128::from(self.fastest) * period.as_nanos()
    }

    /// Whether the table takes the quota.
    fn takes(self, burst: u64, count: u64, period: Duration) -> bool {
        burst <= LARGEST_BURST
            && u128::from(burst) * period.as_nanos() <= self.units(count)
            && self.takes_rate(count, period)
    }

    /// The largest burst that the table takes at this rate; `None` if it does not take the rate.
    fn largest(self, count: u64, period: Duration) -> Option<u64> {
        let comes_back = || self.units(count) / period.as_nanos();
        let largest =
            || u64::try_from(comes_back()).map_or(LARGEST_BURST, |units| units.min(LARGEST_BURST));
        self.takes_rate(count, period).then(largest)
    }

    /// The units that come back in the table's longest time, times a period in nanoseconds.
    fn units(self, count: u64) -> u128 {
        u128::from(count) * Duration::from_secs(self.longest_s).as_nanos()
    }
}

impl Pace {
    /// `count` units in each period, and at most `burst` at once.
    ///
    /// # Errors
    /// A number is 0; the period, or the time in which the burst comes back, is more than 42 years; or no table takes
    /// the rate or the burst ([`PaceError`]).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_rules::Pace;
    /// let error = Pace::new(20_000, 12_000, Duration::from_secs(1)).unwrap_err();
    /// assert_eq!(error.to_string(), "a burst of 20000 is too large at 12000 in 1s; at this rate it is at most 12000");
    /// ```
    pub fn new(burst: u64, count: u64, period: Duration) -> Result<Self, PaceError> {
        let names = [(burst == 0, "burst"), (count == 0, "count"), (period.is_zero(), "period")];
        if let Some((_, name)) = names.into_iter().find(|(is_zero, _)| *is_zero) {
            return Err(PaceError::Zero(name));
        }
        let longest = Duration::from_secs(LONGEST_S);
        let too_fast = PaceError::TooFast { count, period };
        // Nearly every pace is taken by the first table.
        let found = PaceTable::ALL.iter().position(|table| table.takes(burst, count, period));
        if let Some(table) = found.filter(|_| period <= longest) {
            // This never fails: the bounds of the tables are narrower than those of a quota.
            let quota = Quota::try_per(count, period).and_then(|quota| quota.try_burst(burst));
            return quota.map(|quota| Self { quota, table }).map_err(|_| too_fast);
        }
        let comes_back_late =
            || u128::from(burst) * period.as_nanos() > u128::from(count) * longest.as_nanos();
        if period > longest || comes_back_late() {
            return Err(PaceError::TooLong);
        }
        let largest = PaceTable::ALL.iter().filter_map(|table| table.largest(count, period)).max();
        Err(largest.map_or(too_fast, |most| PaceError::TooLarge { burst, count, period, most }))
    }

    /// The most units at once.
    #[must_use]
    pub fn burst(&self) -> u64 {
        self.quota.max_burst()
    }

    /// The quota by which the pace is enforced.
    pub(crate) fn quota(self) -> Quota {
        self.quota
    }

    /// The index in [`PaceTable::ALL`] of the table in which the pace is counted.
    pub(crate) fn table(self) -> usize {
        self.table
    }
}

/// The reason why numbers that came with a request do not make a [`Pace`].
///
/// ```
/// let error = tollgate_rules::PaceError::Zero("count");
/// assert_eq!(error.to_string(), "count 0 would admit nothing, ever; it must be at least 1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PaceError {
    /// The number with this name is 0.
    Zero(&'static str),
    /// The period, or the time in which the burst comes back, is longer than a table can count.
    TooLong,
    /// The rate is above that of every table.
    TooFast {
        /// The units that come back in each period.
        count: u64,
        /// The period.
        period: Duration,
    },
    /// The burst is too large for every table that takes the rate.
    TooLarge {
        /// The most units at once.
        burst: u64,
        /// The units that come back in each period.
        count: u64,
        /// The period.
        period: Duration,
        /// The largest burst at this rate.
        most: u64,
    },
}

impl fmt::Display for PaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero(name) => {
                write!(f, "{name} 0 would admit nothing, ever; it must be at least 1")
            }
            Self::TooLong => f.write_str(
                "the burst takes more than 42 years to come back, or the period is longer than that; give a smaller burst, \
                 a higher rate or a shorter period",
            ),
            Self::TooFast { count, period } => write!(
                f,
                "{count} in {period:?} is too fast to be counted; give a rate of at most 1000000 a second"
            ),
            Self::TooLarge { burst, count, period, most } => write!(
                f,
                "a burst of {burst} is too large at {count} in {period:?}; at this rate it is at most {most}"
            ),
        }
    }
}

impl std::error::Error for PaceError {}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const DAY: Duration = Duration::from_secs(DAY_S);

    #[test]
    fn a_pace_is_counted_in_the_first_table_that_it_fits() {
        for (burst, count, period, expected) in [
            (16, 30, 60 * SECOND, 3_600),
            (1, 166, SECOND, 3_600),
            (1, 167, SECOND, 60),
            (3_600, 1, SECOND, 3_600),
            (3_601, 1, SECOND, DAY_S),
            (86_400, 1, SECOND, DAY_S),
            (10, 10, 31 * DAY, 31 * DAY_S),
            (140_000, 600_000, 31 * DAY, 31 * DAY_S),
            (11, 10, 31 * DAY, LONGEST_S),
            (140_000, 10_000, SECOND, 60),
            (10_001, 10_001, SECOND, 1),
            (140_000, 1_000_000, SECOND, 1),
        ] {
            let pace = Pace::new(burst, count, period).expect("it fits");
            let found = PaceTable::ALL[pace.table()].longest_s;
            assert_eq!(found, expected, "{burst} at {count} in {period:?}");
        }
    }

    #[test]
    fn a_burst_of_up_to_ten_thousand_that_comes_back_in_a_month_fits_at_any_rate() {
        let counts = [1, 3, 60, 166, 167, 999, 9_999, 10_001, 100_000, 999_999];
        for burst in [1, 7, 1_000, 9_999, 10_000] {
            for count in counts {
                for seconds in [1, 7, 60, 3_600, DAY_S, 31 * DAY_S] {
                    let found = Pace::new(burst, count, Duration::from_secs(seconds));
                    if burst * seconds / count < 31 * DAY_S {
                        assert!(found.is_ok(), "{burst} at {count} in {seconds} s: {found:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn numbers_that_no_table_takes_are_refused_with_what_it_would_take() {
        let refused = |burst, count, period| Pace::new(burst, count, period).expect_err("refused");
        assert_eq!(refused(1, 0, SECOND), PaceError::Zero("count"));
        assert_eq!(refused(1, 1, Duration::ZERO), PaceError::Zero("period"));
        assert_eq!(refused(1 << 40, 1, SECOND), PaceError::TooLong);
        assert_eq!(refused(u64::MAX, 1, Duration::MAX), PaceError::TooLong);
        let years = Duration::from_secs(LONGEST_S);
        assert!(Pace::new(1, 1, years).is_ok());
        assert_eq!(refused(2, 1, years), PaceError::TooLong);
        assert_eq!(refused(1, 2, years + SECOND), PaceError::TooLong);
        let (burst, count, period) = (1, 1_000_001, SECOND);
        assert_eq!(refused(burst, count, period), PaceError::TooFast { count, period });
        assert_eq!(
            refused(u64::MAX, u64::MAX, SECOND),
            PaceError::TooFast { count: u64::MAX, period }
        );
        for (burst, count, period, most) in [
            (86_401, 1, SECOND, 86_400),
            (12_001, 12_000, SECOND, 12_000),
            (140_001, 10_000, SECOND, 140_000),
        ] {
            let error = PaceError::TooLarge { burst, count, period, most };
            assert_eq!(refused(burst, count, period), error);
            assert!(Pace::new(most, count, period).is_ok(), "{most}");
        }
    }
}
