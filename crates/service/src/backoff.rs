//! [`Backoff`]: the time to wait before the next attempt, for all clients of this crate that try again by themselves.
//!
//! It is written by hand because libraries such as `backon` add a random time to each wait, so that even the longest
//! wait may double. Here a wait never exceeds its maximum, because a random share of it is subtracted. The size of the
//! share is a setting, as in envoyproxy/ratelimit. `tollgate-redis` has a backoff of its own, because its simulation
//! must seed the random numbers.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The waits between attempts. The wait doubles with each failure, and the number of attempts has no maximum.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    /// The largest share of a wait that may be subtracted, from 0 to 1.
    random: f64,
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(first: Duration, longest: Duration, random: f64) -> Self {
        Self { first, longest, random: random.clamp(0.0, 1.0), failures: 0 }
    }

    /// Returns to the first wait. Called after an attempt that succeeded.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// The wait after one more failure.
    pub(crate) fn next(&mut self) -> Duration {
        // A new hasher has random keys, so its hash is a random number. It spreads the attempts of many nodes, so that
        // they do not all come at once.
        let random = RandomState::new().hash_one(self.failures);
        self.after(f64::from(u32::try_from(random >> 32).unwrap_or(0)) / f64::from(u32::MAX))
    }

    /// Does the work of [`next`](Self::next) with a given random number from 0 to 1.
    fn after(&mut self, random: f64) -> Duration {
        let doubled = self.first.saturating_mul(2_u32.saturating_pow(self.failures));
        self.failures = self.failures.saturating_add(1);
        doubled.min(self.longest).mul_f64(1.0 - self.random * random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_its_maximum_and_starts_anew_after_a_success() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60), 0.5);
        let mut next = |random| backoff.after(random).as_millis();
        assert_eq!([next(0.0), next(1.0), next(0.0)], [1_000, 1_000, 4_000]);
        assert_eq!((0..40).map(|_| next(0.0)).max(), Some(60_000));
        backoff.reset();
        assert_eq!(backoff.after(0.5), Duration::from_millis(750));
        let drawn = backoff.next();
        assert!((1_000..=2_000).contains(&drawn.as_millis()), "{drawn:?}");
    }
}
