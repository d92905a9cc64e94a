//! Searches for the point where a condition changes, so that no formula for waits is needed.

use num_bigint::BigUint;

/// The least `n` from 0 up for which `holds(n)` is true.
///
/// `holds` must hold for some `n`, and if it holds for one `n` it must hold for all larger ones.
///
/// # Panics
///
/// Panics if `holds` is true for no power of two below 2^256. Every wait is shorter than the sum of 2^128 ns and the
/// largest time, so such a condition would never hold.
pub(crate) fn least(holds: impl Fn(&BigUint) -> bool) -> BigUint {
    let mut fails = BigUint::ZERO;
    if holds(&fails) {
        return fails;
    }
    let mut works = BigUint::from(1u32);
    while !holds(&works) {
        fails.clone_from(&works);
        works <<= 1u32;
        assert!(works.bits() <= 256, "no wait, however long, is enough");
    }
    while &fails + 1u32 < works {
        let middle = (&fails + &works) >> 1u32;
        if holds(&middle) {
            works = middle;
        } else {
            fails = middle;
        }
    }
    works
}

/// The largest `n` in `0..=most` for which `holds(n)` is true, or 0 if there is none.
///
/// If `holds` fails for one number it must fail for all larger ones.
pub(crate) fn greatest(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let mut low = 0;
    let mut high = most;
    while low < high {
        let middle = high - (high - low) / 2;
        if holds(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_finds_the_turn_wherever_it_is() {
        for turn in 0u32..70 {
            assert_eq!(least(|n| *n >= BigUint::from(turn)), BigUint::from(turn));
        }
        let far = (BigUint::from(1u32) << 200u32) + 12_345u32;
        assert_eq!(least(|n| *n >= far), far);
    }

    #[test]
    fn greatest_finds_the_turn_wherever_it_is() {
        for most in 0..20 {
            for turn in 0..=most {
                assert_eq!(greatest(most, |n| n <= turn), turn);
            }
            assert_eq!(greatest(most, |_| false), 0);
        }
        assert_eq!(greatest(u64::MAX, |_| true), u64::MAX);
        assert_eq!(greatest(u64::MAX, |n| n < u64::MAX), u64::MAX - 1);
    }
}
