//! [`StepScale`]: converts a counter's steps to nanoseconds.

/// The length of a step is kept in units of 2^-48 ns. So a step may be up to 65 us long, and the length of a step of a
/// tenth of a nanosecond has an error below one part in 10^13.
const SCALE_BITS: u32 = 48;

/// The scale of a counter that counts nanoseconds.
pub(super) const ONE_STEP_A_NS: u64 = 1 << SCALE_BITS;

/// Converts a counter's readings as `quanta` does, but without a test for the kind of counter at each reading. If a
/// step is less than a nanosecond, the result is the high half of one product.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepScale {
    /// The origin if a step is less than a nanosecond; else a number above all readings.
    from: u64,
    /// The length of 2^64 steps in nanoseconds, if a step is less than a nanosecond.
    short: u64,
    origin: u64,
    /// The length of 2^48 steps in nanoseconds.
    scale: u64,
}

impl StepScale {
    /// A scale for a counter that reads `origin` at time 0, and whose 2^48 steps take `scale` nanoseconds.
    pub(super) fn new(origin: u64, scale: u64) -> Self {
        let is_slow = scale >= ONE_STEP_A_NS;
        let short = if is_slow { 0 } else { scale << (u64::BITS - SCALE_BITS) };
        Self { from: if is_slow { u64::MAX } else { origin }, short, origin, scale }
    }

    /// The length of 2^48 steps of a counter in nanoseconds. It is computed once, so that a reading is only one
    /// product.
    pub(super) fn scale_of(counter: &quanta::Clock) -> u64 {
        counter.delta_as_nanos(0, 1 << SCALE_BITS)
    }

    /// True if a step is a nanosecond or more. Such a counter is always read by [`ns`](StepScale::ns).
    pub(super) fn is_slow(&self) -> bool {
        self.from == u64::MAX
    }

    /// True if [`short_ns`](StepScale::short_ns) can convert this reading: the counter is not slow, and the reading is
    /// not before the origin. (It may be before the origin if the origin was read on another core.)
    #[inline(always)]
    pub(super) fn is_short(&self, raw: u64) -> bool {
        raw >= self.from
    }

    /// The nanoseconds since the origin, for a reading that `short_ns` can convert.
    #[inline(always)]
    pub(super) fn short_ns(&self, raw: u64) -> u64 {
        self.all_ns(raw.wrapping_sub(self.from))
    }

    /// The length of this number of steps in nanoseconds, for a counter that is not slow.
    #[inline(always)]
    pub(super) fn all_ns(&self, steps: u64) -> u64 {
        ((u128::from(steps) * u128::from(self.short)) >> u64::BITS) as u64
    }

    /// The nanoseconds since the origin, or 0 before it. This function is never inlined, so that the comparison before
    /// the call is a predicted branch, and no decision waits for it.
    #[cold]
    #[inline(never)]
    pub(super) fn ns(&self, raw: u64) -> u64 {
        self.length_ns(raw.saturating_sub(self.origin))
    }

    /// The length of this number of steps in nanoseconds.
    #[expect(clippy::cast_possible_truncation, reason = "below 2^64 for 584 years")]
    pub(super) fn length_ns(&self, steps: u64) -> u64 {
        ((u128::from(steps) * u128::from(self.scale)) >> SCALE_BITS) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_scaled_as_quanta_scales_it() {
        let counter = quanta::Clock::new();
        let steps = StepScale::new(0, StepScale::scale_of(&counter));
        for bits in 0..58 {
            for count in [1 << bits, (1 << bits) * 3 / 2 + 1] {
                let (own, quanta) = (steps.ns(count), counter.delta_as_nanos(0, count));
                let error = count >> (SCALE_BITS - 1);
                assert!(own.abs_diff(quanta) <= error + 1, "{count} steps: {own}, {quanta}");
                if steps.is_short(count) {
                    assert_eq!(steps.short_ns(count), own);
                }
            }
        }
    }

    /// Counters of 3 GHz, of 1 GHz, and of 24 MHz, whose step is 41 and two thirds of a nanosecond.
    #[test]
    fn fast_and_slow_counters_are_scaled_alike() {
        for (ns, steps) in [(1, 3), (1, 1), (125, 3)] {
            let counter = StepScale::new(7, (ns << SCALE_BITS) / steps);
            for days in [0, 1, 365 * 100] {
                let raw = 7 + steps * 1_000_000_000 / ns * 86_400 * days;
                let told = counter.ns(raw);
                assert!(
                    told.abs_diff(86_400_000_000_000 * days) <= 1 + days,
                    "{ns}/{steps}: {told}"
                );
                assert_eq!(counter.is_short(raw), ns < steps);
            }
            assert!(!counter.is_short(6), "before its origin");
            assert_eq!(counter.ns(6), 0);
        }
    }
}
