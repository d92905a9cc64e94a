//! A policy as numbers, for atomics and for snapshots.

use std::time::Duration;

use super::names::NAMES;
use super::{Algorithm, AtLimit, CountDenied, Policy};
use crate::algorithm::CalendarUnit;
use crate::percent::Percent;
use crate::quota::Quota;
use crate::wait::Wait;

/// The number that stands for segmented windows. The number of an algorithm is its index in [`NAMES`].
const SEGMENTED: u64 = 6;

/// The number that stands for all windows of the calendar. It is the index of months in [`NAMES`].
const CALENDAR: u64 = 7;

/// The position of the debt, above the bits of the algorithm and of its segments or unit.
const DEBT_SHIFT: u32 = 16;

/// The count of the numbers that describe a policy.
pub(crate) const NUMBERS: usize = 10;

impl Policy {
    /// `[algorithm with its segments or unit of the calendar, and its debt; count, period in ns, burst]`, and then the
    /// options at the limit. An absent option is 0.
    pub(crate) fn numbers(&self) -> [u64; NUMBERS] {
        let place = NAMES.iter().zip(0..).find(|((named, ..), _)| *named == self.algorithm);
        let algorithm = match self.algorithm {
            Algorithm::SegmentedWindow { segments } => SEGMENTED | u64::from(segments) << 8,
            Algorithm::Calendar(unit) => CALENDAR | u64::from(unit.number()) << 8,
            // The other algorithms are found in `NAMES`.
            Algorithm::Gcra
            | Algorithm::FixedWindow
            | Algorithm::FixedWindowFromFirst
            | Algorithm::SlidingWindow { .. }
            | Algorithm::SlidingLog => place.map_or(SEGMENTED, |(_, place)| place),
        };
        let quota = &self.quota;
        let AtLimit { soft, count_denied, penalty, queue, debt } = self.at_limit;
        let (counts, denied) = match count_denied {
            // 0: denied requests are not charged; 1: they are charged up to the horizon; 2: they are charged up to a
            // given wait.
            CountDenied::No => (0, Duration::ZERO),
            CountDenied::Yes => (1, Duration::ZERO),
            CountDenied::UpTo(wait) => (2, wait),
        };
        let (length, after, extended) =
            penalty.map_or_else(Default::default, |it| (it.length, it.after, it.extended));
        let (wait, places) = queue.map_or_else(Default::default, |it| (it.max, it.units));
        // The whole seconds of a length take one number. The rest, in nanoseconds, shares a number with other small
        // values.
        let nanos =
            |small: u64, duration: Duration| small | u64::from(duration.subsec_nanos()) << 32;
        let small = u64::from(soft.hundredths()) | counts << 16 | u64::from(extended) << 18;
        [
            algorithm | u64::from(debt) << DEBT_SHIFT,
            quota.count(),
            quota.period_ns(),
            quota.max_burst(),
            nanos(small, denied),
            denied.as_secs(),
            nanos(after.into(), length),
            length.as_secs(),
            // 0 means no queue, since a queue has at least one place.
            places,
            if queue.is_some() { u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX) } else { 0 },
        ]
    }

    /// The policy with these numbers. Returns `None` if no policy has these numbers.
    pub(crate) fn of_numbers(numbers: [u64; NUMBERS]) -> Option<Self> {
        let [algorithm, count, period_ns, burst, at_limit @ ..] = numbers;
        let debt = u32::try_from(algorithm >> DEBT_SHIFT).ok()?;
        let algorithm = algorithm & ((1 << DEBT_SHIFT) - 1);
        let mut policy = of_quota([algorithm, count, period_ns, burst])?;
        if debt > 0 {
            policy = policy.debt(debt).ok()?;
        }
        let [small, denied_s, after, length_s, places, wait_ns] = at_limit;
        let duration = |secs, small: u64| {
            let nanos = u32::try_from(small >> 32).ok().filter(|nanos| *nanos < 1_000_000_000)?;
            Some(Duration::new(secs, nanos))
        };
        let (denied, length) = (duration(denied_s, small)?, duration(length_s, after)?);
        if small & 0xffff > 0 {
            policy = policy.soft(Percent::from_hundredths((small & 0xffff) as u16)).ok()?;
        }
        policy = match small >> 16 & 3 {
            0 => policy,
            1 => policy.count_denied(None).ok()?,
            _ => policy.count_denied(Some(denied)).ok()?,
        };
        match u32::try_from(after & u64::from(u32::MAX)).ok()? {
            // 0 means no penalty, since a penalty after 0 denials is refused.
            0 => {}
            after if small >> 18 & 1 == 1 => {
                policy = policy.extended_penalty(length, after).ok()?;
            }
            after => policy = policy.penalty(length, after).ok()?,
        }
        // If a queue is bounded only by a wait, its number of places is the largest number.
        if places > 0 {
            let wait =
                if wait_ns == u64::MAX { Duration::MAX } else { Duration::from_nanos(wait_ns) };
            policy = policy.queue(Wait::at_most(wait).behind(places)).ok()?;
        }
        // Other numbers for the same policy are refused, since they are never written.
        (policy.numbers() == numbers).then_some(policy)
    }
}

/// The policy with the first four numbers, without options at its limit.
fn of_quota([algorithm, count, period_ns, burst]: [u64; 4]) -> Option<Policy> {
    let quota = Quota::try_per(count, Duration::from_nanos(period_ns)).ok()?;
    let algorithm = match (algorithm & 0xff, u8::try_from(algorithm >> 8).ok()?) {
        (SEGMENTED, segments) => Algorithm::SegmentedWindow { segments },
        (CALENDAR, unit) => Algorithm::Calendar(CalendarUnit::of_number(unit)?),
        (place, 0) => NAMES.get(usize::try_from(place).ok()?)?.0,
        // Only the two algorithms above have a second number, for the segments or the unit.
        _ => return None,
    };
    if algorithm == Algorithm::Gcra {
        return Some(quota.try_burst(burst).ok()?.into());
    }
    let policy = Policy::new(algorithm, quota).ok()?;
    // The burst of a window is its count. Another number is refused, since it is never written.
    (policy.quota.max_burst() == burst).then_some(policy)
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
            "calendar-year 10000",
            "calendar-week 10000",
            "calendar-week 10000 from-sunday debt 7x",
            "sliding-log 100/m",
            "gcra 100/m soft 5% count-denied 1500ms penalty 10m after 3 extended queue 50 wait 2s",
            "gcra 100/m queue 50",
            "gcra 100/m debt 1x",
            "gcra 100/m debt 4294967295x",
            "sliding-window 100/m exact soft 50% count-denied debt 1000x",
            "fixed-window 100/m from-first penalty 1h after 1 debt 7x",
            "gcra 100/m wait 450ms",
            "fixed-window 100/m from-first soft 50% count-denied penalty 1h after 1",
        ] {
            let policy: Policy = text.parse().expect("a policy");
            assert_eq!(Policy::of_numbers(policy.numbers()), Some(policy), "{text}");
        }
    }

    #[test]
    fn numbers_of_no_policy_are_none() {
        let minute = 60_000_000_000;
        for numbers in [
            [7, 5, minute, 5],                           // a month of a minute
            [7 | 1 << 8, 5, 31 * 86_400_000_000_000, 5], // a year of a month
            [7 | 9 << 8, 5, 7 * 86_400_000_000_000, 5],  // an eighth day of the week
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
            let mut all = [0; NUMBERS];
            all[..4].copy_from_slice(&numbers);
            assert_eq!(Policy::of_numbers(all), None, "{numbers:?}");
        }
    }

    #[test]
    fn numbers_of_nothing_that_happens_at_a_limit_are_none() {
        let numbers = "gcra 100/m".parse::<Policy>().expect("a policy").numbers();
        for (place, number) in
            [(4, 1 << 32), (4, 10_001), (4, 1 << 19), (5, 1), (6, 1), (6, 1 << 63), (7, 1), (9, 1)]
        {
            let mut other = numbers;
            other[place] = number;
            assert_eq!(Policy::of_numbers(other), None, "{other:?}");
        }
    }
}
