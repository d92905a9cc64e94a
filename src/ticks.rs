//! Ticks: the whole-number time in which GCRA counts.
//!
//! One unit of cost is `2^unit_bits` ticks, so that the emission interval and the burst are exact integers and no rate
//! is ever rounded. Only the conversion of a clock reading is rounded:
//!
//! ```text
//! ticks(now) = floor(now_ns * factor / 2^shift),
//! factor     = ceil(count * 2^unit_bits * 2^shift / period_ns),   2^63 <= factor < 2^64
//! ```
//!
//! The factor is rounded up by less than one part in 2^63. This has three consequences. An instant at which a whole
//! number of ticks has passed converts to exactly that number, as long as the number is below 2^63. If two instants are
//! a whole number of ticks apart, they are at least as far apart after the conversion. The long-run rate is exact to
//! 2^-63. All other instants are rounded down, so no request is admitted more than one tick too early.

/// Converts nanoseconds to ticks and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TickScale {
    factor: u64,
    shift: u8,
}

impl TickScale {
    /// The two numbers of the scale: its factor and its shift.
    pub(crate) const fn parts(self) -> (u64, u8) {
        (self.factor, self.shift)
    }

    /// The scale with these two numbers.
    pub(crate) const fn of_parts(factor: u64, shift: u8) -> Self {
        Self { factor, shift }
    }

    /// The scale with half as many ticks; `None` if the shift would be too large.
    pub(crate) fn halved(self) -> Option<Self> {
        // A shift by all 128 bits would not be defined.
        let shift = self.shift.checked_add(1).filter(|shift| *shift < 128)?;
        Some(Self { shift, ..self })
    }

    /// The scale at which `count` units per `period_ns` are `count << unit_bits` ticks per period.
    ///
    /// The caller has made sure that a nanosecond has fewer than 2^63 ticks.
    pub(crate) const fn new(count: u64, period_ns: u64, unit_bits: u8) -> Self {
        let ticks_per_period = (count as u128) << unit_bits;
        let period = period_ns as u128;
        let mut quotient = ticks_per_period / period;
        let mut remainder = ticks_per_period % period;
        let mut shift = 0;
        // Long division, one binary digit at a time, until the quotient has 64 digits.
        while quotient < 1 << 63 && shift < 127 {
            remainder <<= 1;
            quotient = (quotient << 1) | (remainder >= period) as u128;
            if remainder >= period {
                remainder -= period;
            }
            shift += 1;
        }
        // The factor is rounded up, so that a tick is counted from the exact instant at which it has passed.
        if remainder != 0 {
            quotient += 1;
        }
        // Rounding up may give 2^64, which has 65 digits. Half of it with a shift of one less is the same factor.
        if quotient == 1 << 64 {
            quotient >>= 1;
            shift -= 1;
        }
        #[expect(clippy::cast_possible_truncation, reason = "below 2^64 by the lines above")]
        let factor = quotient as u64;
        Self { factor, shift }
    }

    /// The number of whole ticks that have passed at `now_ns`, in 128 bits.
    #[inline]
    pub(crate) const fn ticks(&self, now_ns: u64) -> u128 {
        (now_ns as u128 * self.factor as u128) >> self.shift
    }

    /// The low 64 bits of [`Self::ticks`], which are enough for the distance between two near instants.
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are what is asked for")]
    #[inline]
    pub(crate) const fn ticks_low(&self, now_ns: u64) -> u64 {
        let product = now_ns as u128 * self.factor as u128;
        // With a shift of 64 or more only the high half of the product is needed.
        if self.shift >= 64 {
            (product >> 64) as u64 >> (self.shift % 64)
        } else {
            // The two halves are shifted separately, since the compiler does not know that the shift is below 64.
            let (high, low) = ((product >> 64) as u64, product as u64);
            let shift = self.shift as u32 & 63;
            (high << 1 << (shift ^ 63)) | low >> shift
        }
    }

    /// The part of a tick that has passed at `now_ns` since the last whole tick, in 2^-32 of a tick, rounded down.
    pub(crate) const fn part(&self, now_ns: u64) -> u32 {
        let product = now_ns as u128 * self.factor as u128;
        // The bits below the whole ticks are moved to the top, and the highest 32 of them are the part.
        if self.shift == 0 { 0 } else { ((product << (128 - self.shift as u32)) >> 96) as u32 }
    }

    /// The first nanosecond at which `ticks` have passed, or `u64::MAX` if it is later than any clock can read.
    pub(crate) fn first_ns(&self, ticks: u128) -> u64 {
        // The instant is later than any clock can read.
        if ticks.leading_zeros() < u32::from(self.shift) {
            return u64::MAX;
        }
        // This is the least ns for which floor(ns * factor / 2^shift) >= ticks.
        let ns = (ticks << self.shift).div_ceil(u128::from(self.factor));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factor_has_64_bits_for_every_rate() {
        for count in [1, 3, 7, 100, 8_000, 600_000_000, 2_000_000_000] {
            for period_ns in [1_000_000_000, 60_000_000_000, 86_400_000_000_000, 1 << 61] {
                for unit_bits in [0, 8, 12] {
                    let scale = TickScale::new(count, period_ns, unit_bits);
                    assert!(scale.factor >= 1 << 63, "{count}/{period_ns} at {unit_bits}");
                }
            }
        }
    }

    #[test]
    fn whole_units_land_on_whole_ticks() {
        let scale = TickScale::new(7, 1_000_000_000, 12);
        for seconds in [0, 1, 2, 59, 86_400, 30 * 86_400, 4_102_444_800_u64] {
            assert_eq!(scale.ticks(seconds * 1_000_000_000), u128::from(seconds * 7 * 4096));
        }
    }

    #[test]
    fn what_lies_beyond_the_clock_is_not_taken_for_something_near() {
        // The rate is just below one tick in a nanosecond, so that the factor is just below 2^64.
        let scale = TickScale::new(999_999_999, 1_000_000_000, 0);
        let room = 128 - u32::from(scale.shift);
        let last = 1_u128 << (room - 1);
        let at_ns = scale.first_ns(last);
        assert!(at_ns < u64::MAX);
        assert!(scale.ticks(at_ns) >= last && scale.ticks(at_ns - 1) < last);
        assert_eq!(scale.first_ns(last << 1), u64::MAX);
        assert_eq!(scale.first_ns((last << 1) + 1), u64::MAX);
        assert_eq!(scale.first_ns(u128::MAX), u64::MAX);
    }

    #[test]
    fn first_ns_is_the_exact_inverse() {
        let scale = TickScale::new(7, 1_000_000_000, 12);
        for ticks in [1, 2, 4095, 4096, 28_672, 123_456_789, 1 << 45] {
            let ns = scale.first_ns(ticks);
            assert!(scale.ticks(ns) >= ticks);
            assert!(scale.ticks(ns - 1) < ticks);
        }
        assert_eq!(scale.first_ns(0), 0);
        assert_eq!(scale.first_ns(u128::MAX), u64::MAX);
    }
}
