//! The time to wait before the next attempt to connect.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The longest wait between a loss and the first attempt to connect.
const FIRST: Duration = Duration::from_millis(20);
/// The longest wait. A recovery takes no longer than this and the attempt itself.
pub(crate) const LONGEST: Duration = Duration::from_secs(1);

/// Waits that double. Each wait is shortened by a random part, so that nodes that lost the store together do not all
/// come back at once.
#[derive(Debug)]
pub(crate) struct Backoff {
    longest: Duration,
    random: u64,
}

impl Backoff {
    /// Starts with a seed that is random in each process.
    pub(crate) fn new() -> Self {
        Self::seeded(RandomState::new().hash_one(0))
    }

    pub(crate) fn seeded(seed: u64) -> Self {
        Self { longest: FIRST, random: seed }
    }

    /// Starts again with the first wait.
    pub(crate) fn reset(&mut self) {
        self.longest = FIRST;
    }

    /// The next wait. It is at least half of the present longest wait, so there is a pause between attempts even if the
    /// store accepts connections and drops them at once.
    pub(crate) fn next(&mut self) -> Duration {
        let longest = self.longest;
        self.longest = (longest * 2).min(LONGEST);
        self.random = mixed(self.random);
        let share = u32::try_from(self.random >> 33).unwrap_or(u32::MAX); // 31 bits
        longest / 2 + longest.mul_f64(f64::from(share) / f64::from(u32::MAX))
    }
}

/// The next number of a splitmix64 sequence (Steele, Lea, Flood 2014).
pub(crate) fn mixed(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_second_and_start_anew() {
        let mut backoff = Backoff::seeded(1);
        let mut longest = FIRST;
        for _ in 0..20 {
            let wait = backoff.next();
            assert!(wait >= longest / 2 && wait <= longest, "{wait:?} of {longest:?}");
            longest = (longest * 2).min(LONGEST);
        }
        assert_eq!(longest, LONGEST);
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }

    #[test]
    fn nodes_do_not_come_back_together() {
        let mut firsts: Vec<_> = (0..100).map(|seed| Backoff::seeded(seed).next()).collect();
        firsts.sort_unstable();
        firsts.dedup();
        assert_eq!(firsts.len(), 100);
        // The first waits of different nodes are spread from half of `FIRST` to `FIRST`.
        assert!(firsts[99] - firsts[0] > FIRST / 3);
    }
}
