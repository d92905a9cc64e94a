//! [`Divisor`]: division by a number that is known in advance.
//!
//! A division of 64 bits takes as long as several products, so it is replaced by products and shifts. With `2^(l-1) < d
//! <= 2^l` and
//!
//! ```text
//! m = floor(2^64 * (2^l - d) / d) + 1,    t = floor(m * n / 2^64)
//! floor(n / d) = floor((t + floor((n - t) / 2^min(l, 1))) / 2^max(l - 1, 0))
//! ```
//!
//! This holds for every n below 2^64: see Granlund and Montgomery, "Division by Invariant Integers using
//! Multiplication" (1994), figure 4.1.

/// A number to divide by, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divisor {
    divisor: u64,
    multiplier: u64,
}

impl Divisor {
    /// Makes a divisor. 0 is replaced by 1.
    #[expect(clippy::cast_possible_truncation, reason = "the product is below 2^64")]
    pub(crate) const fn new(divisor: u64) -> Self {
        let divisor = if divisor == 0 { 1 } else { divisor };
        // This is 2^l - d, which is less than d, so the quotient below is less than 2^64.
        let beyond = (1_u128 << Self::log(divisor)) - divisor as u128;
        let multiplier = ((beyond << u64::BITS) / divisor as u128) as u64 + 1;
        Self { divisor, multiplier }
    }

    /// The l of the formula at the top of this file: 0 to 64.
    const fn log(divisor: u64) -> u32 {
        u64::BITS - divisor.saturating_sub(1).leading_zeros()
    }

    pub(crate) const fn get(self) -> u64 {
        self.divisor
    }

    /// The divisor and its multiplier, from which [`Self::of_parts`] makes the same divisor.
    pub(crate) const fn parts(self) -> [u64; 2] {
        [self.divisor, self.multiplier]
    }

    /// Makes a divisor from numbers that [`Self::parts`] gave, without the long division of [`Self::new`]. Other
    /// numbers may be read while they are being written. A divisor made from them gives wrong quotients, but does not
    /// panic.
    pub(crate) const fn of_parts(divisor: u64, multiplier: u64) -> Self {
        Self { divisor, multiplier }
    }

    /// The quotient and the remainder of `number`.
    #[inline(always)]
    pub(crate) const fn divide(self, number: u64) -> (u64, u64) {
        let taken = ((self.multiplier as u128 * number as u128) >> u64::BITS) as u64;
        // A divisor of 1 needs no shift. For every other divisor, the first shift is by 1 and the second by l - 1.
        let log = Self::log(self.divisor);
        let (first, rest) = if log == 0 { (0, 0) } else { (1, log - 1) };
        // This adds t and half of n - t, as in the formula. The sum never wraps for a divisor that `new` made.
        let quotient = taken.wrapping_add(number.wrapping_sub(taken) >> first) >> rest;
        (quotient, number.wrapping_sub(quotient.wrapping_mul(self.divisor)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Numbers of every length, and the neighbours of powers of two.
    fn numbers() -> impl Strategy<Value = u64> {
        let near = (0_u32..64, -2_i64..=2)
            .prop_map(|(bits, more)| (1_u64 << bits).wrapping_add_signed(more));
        let any = (any::<u64>(), 0_u32..64).prop_map(|(number, bits)| number >> bits);
        prop_oneof![near, any]
    }

    proptest! {
        #[test]
        fn a_product_divides_as_a_division_does(number in numbers(), divisor in numbers()) {
            let divisor = divisor.max(1);
            let told = Divisor::new(divisor).divide(number);
            prop_assert_eq!(told, (number / divisor, number % divisor));
        }

        #[test]
        fn multiples_and_what_lies_beside_them_are_told_apart(times in numbers(), divisor in numbers()) {
            let divisor = divisor.max(1);
            for number in [-1, 0, 1].map(|more| times.wrapping_mul(divisor).wrapping_add_signed(more)) {
                let told = Divisor::new(divisor).divide(number);
                prop_assert_eq!(told, (number / divisor, number % divisor));
            }
        }
    }
}
