//! Time as whole ticks of a quota.

use num_bigint::BigUint;
use num_integer::Integer;

/// `ticks(now) = floor(now * factor / 2^shift)`, with `factor = ceil(count * 2^k * 2^shift / period)` and the largest
/// `shift` for which the factor is below 2^64.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticks {
    factor: BigUint,
    shift: u32,
}

impl Ticks {
    /// `None` if not even `shift = 0` gives a factor below 2^64.
    pub(crate) fn new(count: u64, period_ns: u64, k: u32) -> Option<Ticks> {
        // 2^k alone, divided by any period below 2^64, is already too large from here on.
        if k >= 128 {
            return None;
        }
        let bound = BigUint::from(1u32) << 64u32;
        let period = BigUint::from(period_ns);
        let factor = |shift: u32| (BigUint::from(count) << (k + shift)).div_ceil(&period);
        if factor(0) >= bound {
            return None;
        }
        let mut shift = 0;
        while factor(shift + 1) < bound {
            shift += 1;
        }
        Some(Ticks { factor: factor(shift), shift })
    }

    /// The tick at or before `now`.
    pub(crate) fn at(&self, now: &BigUint) -> BigUint {
        (now * &self.factor) >> self.shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(count: u64, period_ns: u64, k: u32) -> Ticks {
        Ticks::new(count, period_ns, k).expect("a representable rate")
    }

    #[test]
    fn the_shift_is_the_largest_that_keeps_the_factor_below_two_to_the_64() {
        // 2^k ticks per 2^k ns: one per ns, exactly.
        let one = ticks(1, 1 << 12, 12);
        assert_eq!((one.factor, one.shift), (BigUint::from(1u64 << 63), 63));
        // One third of a tick per ns: the factor is 2^65 / 3 rounded up.
        let third = ticks(1, 3, 0);
        assert_eq!(third.factor, ((BigUint::from(1u32) << 65u32) + 1u32) / 3u32);
        assert_eq!(third.shift, 65);
        // The fastest rate that still has a factor, and combinations that have none.
        assert_eq!(ticks(u64::MAX, 1, 0).shift, 0);
        assert_eq!(Ticks::new(u64::MAX, 1, 1), None);
        assert_eq!(Ticks::new(1, u64::MAX, 128), None);
        assert_eq!(Ticks::new(1, u64::MAX, u32::MAX), None);
    }

    #[test]
    fn whole_units_fall_on_whole_ticks() {
        for (count, period_ns) in [(1, 3), (7, 1_000_000_000), (3, 7), (999_983, 86_400_000_000)] {
            let ticks = ticks(count, period_ns, 12);
            for periods in [0u64, 1, 2, 1000, 123_456] {
                let units = BigUint::from(periods) * count;
                assert_eq!(ticks.at(&(BigUint::from(periods) * period_ns)), units << 12u32);
            }
        }
    }
}
