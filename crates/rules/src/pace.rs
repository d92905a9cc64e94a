//! [`Pace`]: a rate and a burst that come with a request.

use std::fmt;
use std::time::Duration;

/// A rate and a burst that come with a request and not from a rule, enforced by GCRA: at most `burst` units at once,
/// and `count` in each period. For [`DecisionMaker::pace`](crate::DecisionMaker::pace).
///
/// # How exactly it is enforced
/// All paces of one key that share a table share one count, whatever their numbers. The table depends on the time in
/// which the whole burst comes back: up to 42 s, 7 min, 22 min, 3.7 h, 37 h, 15 days, 155 days, 4 years or 42 years. A
/// key that asks by paces of two tables has a count in each.
///
/// The time in which one unit comes back is rounded up to a multiple of its table's grain: 20 ns, 200 ns, 10 µs, 100
/// µs, 1 ms, 10 ms, 0.1 s, 1 s or 10 s. So the pace never admits more than it says, and at least 64/65 of it: numbers
/// that would be rounded by more are refused. A burst of up to 200,000 always fits, unless the rate is above 750,000 a
/// second.
///
/// ```
/// use std::time::Duration;
/// use tollgate_rules::{Pace, PaceError};
/// assert!(Pace::new(16, 30, Duration::from_secs(60)).is_ok());
/// assert_eq!(Pace::new(0, 30, Duration::from_secs(60)), Err(PaceError::Zero("burst")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pace {
    /// The index in [`GRAINS`].
    grain: u8,
    /// Grains in which one unit comes back: at least 1.
    interval: u64,
    burst: u64,
}

/// The grain that a table counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PaceGrain {
    pub(crate) ns: u64,
    /// The most that a word of the table can hold.
    pub(crate) max: u64,
}

/// All grains, the finest first.
// A word of a table has 24 bits for the key and 39 for a time in ticks, and the burst may take 35 of these. A grain has
// 256 ticks, or 16 if a finer tick would be finer than the clock is read.
pub(crate) const GRAINS: [PaceGrain; 9] = [
    PaceGrain { ns: 20, max: 1 << 31 },
    PaceGrain { ns: 200, max: 1 << 31 },
    PaceGrain { ns: 10_000, max: 1 << 27 },
    PaceGrain { ns: 100_000, max: 1 << 27 },
    PaceGrain { ns: 1_000_000, max: 1 << 27 },
    PaceGrain { ns: 10_000_000, max: 1 << 27 },
    PaceGrain { ns: 100_000_000, max: 1 << 27 },
    PaceGrain { ns: 1_000_000_000, max: 1 << 27 },
    PaceGrain { ns: 10_000_000_000, max: 1 << 27 },
];

/// The longest time in which a burst may come back.
const LONGEST_NS: u128 = 10_000_000_000 << 27;

/// The time of a unit may be rounded up by one part in this many.
const EXACTNESS: u128 = 64;

impl Pace {
    /// `count` units in each period, and at most `burst` at once.
    ///
    /// # Errors
    /// A number that is 0; a burst that takes longer than 42 years to come back, or is too large to be counted beside
    /// the time of one unit ([`PaceError`]).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_rules::Pace;
    /// let error = Pace::new(1, 3_000_000, Duration::from_secs(1)).unwrap_err();
    /// assert!(error.to_string().starts_with("a burst of 1 at 3000000 in 1s cannot be counted exactly enough"));
    /// ```
    pub fn new(burst: u64, count: u64, period: Duration) -> Result<Self, PaceError> {
        let period_ns = u64::try_from(period.as_nanos()).map_err(|_| PaceError::TooLong)?;
        for (number, name) in [(burst, "burst"), (count, "count"), (period_ns, "period")] {
            if number == 0 {
                return Err(PaceError::Zero(name));
            }
        }
        // If the product exceeds 64 bits it is longer than every period. It saturates, and the interval is 1, as it
        // would be without the bound.
        let interval = |grain: &PaceGrain| period_ns.div_ceil(count.saturating_mul(grain.ns));
        let fits = |interval: u64, grain: &PaceGrain| {
            burst.checked_mul(interval).is_some_and(|whole| whole <= grain.max)
        };
        let found = GRAINS.iter().zip(0..).find(|(grain, _)| fits(interval(grain), grain));
        let too_fine = PaceError::TooFine { burst, count, period };
        let Some((grain, number)) = found else {
            let whole_ns = u128::from(burst) * u128::from(period_ns) / u128::from(count);
            return Err(if whole_ns > LONGEST_NS { PaceError::TooLong } else { too_fine });
        };
        let interval = interval(grain);
        let rounded = u128::from(interval) * u128::from(grain.ns) * u128::from(count);
        if (rounded - u128::from(period_ns)) * EXACTNESS > u128::from(period_ns) {
            return Err(too_fine);
        }
        Ok(Self { grain: number, interval, burst })
    }

    /// The most units at once.
    #[must_use]
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// The index of the table that counts it.
    pub(crate) fn grain(self) -> usize {
        usize::from(self.grain)
    }

    /// Grains in which one unit comes back.
    pub(crate) fn interval(self) -> u64 {
        self.interval
    }
}

/// The reason why numbers that came with a request are no [`Pace`].
///
/// ```
/// let error = tollgate_rules::PaceError::Zero("count");
/// assert_eq!(error.to_string(), "count 0 would admit nothing, ever; it must be at least 1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PaceError {
    /// The number of this name is 0.
    Zero(&'static str),
    /// The burst takes longer to come back than a word can hold.
    TooLong,
    /// The time of a unit would be rounded up by more than a 64th.
    TooFine {
        /// The most units at once.
        burst: u64,
        /// The units that come back in each period.
        count: u64,
        /// The period.
        period: Duration,
    },
}

impl fmt::Display for PaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero(name) => {
                write!(f, "{name} 0 would admit nothing, ever; it must be at least 1")
            }
            Self::TooLong => f.write_str(
                "the burst takes more than 42 years to come back; give a smaller burst or a higher rate",
            ),
            Self::TooFine { burst, count, period } => write!(
                f,
                "a burst of {burst} at {count} in {period:?} cannot be counted exactly enough; give a burst of at \
                 most 200000, and a rate of at most 750000 a second"
            ),
        }
    }
}

impl std::error::Error for PaceError {}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn counted(burst: u64, count: u64, period: Duration) -> (u64, u64) {
        let pace = Pace::new(burst, count, period).expect("it fits");
        (GRAINS[pace.grain()].ns, pace.interval())
    }

    #[test]
    fn a_pace_is_counted_in_the_finest_grain_that_holds_its_burst() {
        assert_eq!(counted(16, 30, 60 * SECOND), (20, 100_000_000));
        assert_eq!(counted(100, 1, SECOND), (200, 5_000_000));
        assert_eq!(counted(1, 1, 86_400 * SECOND), (1_000_000, 86_400_000));
        assert_eq!(counted(1 << 27, 1, 10 * SECOND), (10_000_000_000, 1));
    }

    #[test]
    fn the_time_of_a_unit_is_rounded_up_by_a_64th_at_most() {
        assert_eq!(counted(10, 3, SECOND), (20, 16_666_667));
        for burst in [1, 7, 1_000, 200_000] {
            for count in [1, 3, 60, 999, 100_000, 749_999] {
                for seconds in [1, 7, 60, 3_600, 86_400, 604_800] {
                    let period = Duration::from_secs(seconds);
                    let Ok(pace) = Pace::new(burst, count, period) else {
                        let whole_s = burst * seconds / count;
                        assert!(whole_s > 42 * 365 * 86_400, "{burst} at {count} in {period:?}");
                        continue;
                    };
                    let ns =
                        u128::from(pace.interval() * GRAINS[pace.grain()].ns) * u128::from(count);
                    let named = period.as_nanos();
                    assert!(
                        named <= ns && ns - named <= named / 64,
                        "{burst} at {count} in {period:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn numbers_that_cannot_be_counted_are_refused() {
        assert_eq!(Pace::new(1, 0, SECOND), Err(PaceError::Zero("count")));
        assert_eq!(Pace::new(1, 1, Duration::ZERO), Err(PaceError::Zero("period")));
        assert_eq!(Pace::new(1 << 40, 1, SECOND), Err(PaceError::TooLong));
        let (burst, count, period) = (1 << 28, 1 << 10, SECOND);
        assert_eq!(
            Pace::new(burst, count, period),
            Err(PaceError::TooFine { burst, count, period })
        );
        assert_eq!(Pace::new(u64::MAX, 1, Duration::MAX), Err(PaceError::TooLong));
        assert_eq!(Pace::new((1 << 27) + 1, 1, 10 * SECOND), Err(PaceError::TooLong));
        let (burst, count, period) = (1_000_000_000, 1_000_000, SECOND);
        assert_eq!(
            Pace::new(burst, count, period),
            Err(PaceError::TooFine { burst, count, period })
        );
        assert!(Pace::new(u64::MAX, u64::MAX, SECOND).is_err());
    }
}
