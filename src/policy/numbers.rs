//! A policy that denies at its limit, as four numbers: for what is kept in atomics, and in snapshots.

use std::time::Duration;

use super::text::NAMES;
use super::{Algorithm, Policy};
use crate::quota::Quota;

/// The number of segmented windows, which is their place in [`NAMES`], as that of each other algorithm is.
const SEGMENTED: u64 = 6;

impl Policy {
    /// `[algorithm, count, period in ns, burst]`. What happens at the limit is not in them.
    pub(crate) fn numbers(&self) -> [u64; 4] {
        let place = NAMES.iter().zip(0..).find(|((named, ..), _)| *named == self.algorithm);
        let algorithm = match self.algorithm {
            Algorithm::SegmentedWindow { segments } => SEGMENTED | u64::from(segments) << 8,
            _ => place.map_or(SEGMENTED, |(_, place)| place),
        };
        let quota = &self.quota;
        [algorithm, quota.count(), quota.period_ns(), quota.max_burst()]
    }

    /// The policy of these numbers, if they are one's.
    pub(crate) fn of_numbers([algorithm, count, period_ns, burst]: [u64; 4]) -> Option<Self> {
        let quota = Quota::try_per(count, Duration::from_nanos(period_ns)).ok()?;
        let algorithm = match (algorithm & 0xff, u8::try_from(algorithm >> 8).ok()?) {
            (SEGMENTED, segments) => Algorithm::SegmentedWindow { segments },
            (place, 0) => NAMES.get(usize::try_from(place).ok()?)?.0,
            // Only segments have a number of their own.
            _ => return None,
        };
        if algorithm == Algorithm::Gcra {
            return Some(quota.try_burst(burst).ok()?.into());
        }
        let policy = Self::new(algorithm, quota).ok()?;
        // A window's burst is its count: another number was never written.
        (policy.quota.max_burst() == burst).then_some(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_back_from_its_numbers() {
        for text in [
            "gcra 100/s burst 20",
            "gcra 1/d",
            "fixed-window 100/m",
            "fixed-window 100/m from-first",
            "sliding-window 100/m exact",
            "sliding-window 100/m",
            "sliding-window 100/m strict",
            "segmented-window 100/m x6",
            "calendar-month 10000",
            "sliding-log 100/m",
        ] {
            let policy: Policy = text.parse().expect("a policy");
            assert_eq!(Policy::of_numbers(policy.numbers()), Some(policy), "{text}");
        }
    }

    #[test]
    fn numbers_of_no_policy_are_none() {
        let minute = 60_000_000_000;
        for numbers in [
            [7, 5, minute, 5], // a month of a minute
            [9, 5, minute, 5],
            [8, 5, minute, 6],
            [0x100, 5, minute, 5],
            [u64::MAX, 5, minute, 5],
            [0, 0, minute, 5],
            [0, 5, 0, 5],
            [0, 5, minute, 0],
            [1, 5, minute, 6],
            [6, 5, minute, 5],
            [6 | 1 << 8, 5, minute, 5],
        ] {
            assert_eq!(Policy::of_numbers(numbers), None, "{numbers:?}");
        }
    }
}
