//! The time to wait before a control plane is asked again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use super::address::XdsBackoff;

/// The attempts so far. The wait doubles with each failure, and there is no last attempt.
#[derive(Debug)]
pub(super) struct Attempts {
    settings: XdsBackoff,
    failures: u32,
}

impl Attempts {
    pub(super) fn new(settings: XdsBackoff) -> Self {
        Self { settings, failures: 0 }
    }

    /// Starts again, after an answer.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    pub(super) fn next(&mut self) -> Duration {
        // The keys of a new hasher are the standard library's random numbers. They spread the attempts of many nodes,
        // which must not all come at once.
        let random = RandomState::new().hash_one(self.failures);
        self.after(f64::from(u32::try_from(random >> 32).unwrap_or(0)) / f64::from(u32::MAX))
    }

    /// The wait after one more failure. `random` is from 0 to 1.
    fn after(&mut self, random: f64) -> Duration {
        let XdsBackoff { initial, max, random: share } = self.settings;
        let doubled = initial.saturating_mul(2_u32.saturating_pow(self.failures));
        self.failures = self.failures.saturating_add(1);
        doubled.min(max).mul_f64(1.0 - share.clamp(0.0, 1.0) * random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_its_maximum_and_starts_anew_after_an_answer() {
        let mut backoff = Attempts::new(XdsBackoff::default());
        let mut next = |random| backoff.after(random).as_millis();
        assert_eq!([next(0.0), next(1.0), next(0.0)], [1_000, 1_000, 4_000]);
        assert_eq!((0..40).map(|_| next(0.0)).max(), Some(60_000));
        backoff.reset();
        assert_eq!(backoff.after(0.5), Duration::from_millis(750));
        let drawn = backoff.next();
        assert!((1_000..=2_000).contains(&drawn.as_millis()), "{drawn:?}");
    }
}
