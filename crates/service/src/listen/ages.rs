//! [`ConnectionAges`]: the ages at which clients of gRPC are told to close their connections. The ages are spread
//! around the configured age.
//!
//! Many connections begin together when a service starts, or when clients move from a service that ends. With the same
//! age they would also end together, and their clients would all reconnect at the same moment, again and again. A
//! server of tonic has one age for all of its connections, so there are several servers, and connections are dealt out
//! to them in turn.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The number of ages. This many connections in a row all have different ages.
const AGES: u32 = 16;

/// The step from the index of one connection's age to the index of the next one's. Successive ages are far apart, and
/// since 7 and [`AGES`] have no common divisor, all ages are used.
const STRIDE: usize = 7;

/// The ages, and the index of the age that the next connection gets.
#[derive(Debug)]
pub(crate) struct ConnectionAges {
    ages: Vec<Option<Duration>>,
    next: AtomicUsize,
}

impl ConnectionAges {
    /// Spreads the ages from nine to eleven tenths of `age`, as envoyproxy/ratelimit does. If `age` is `None`,
    /// connections have no maximum age.
    pub(crate) fn around(age: Option<Duration>) -> Self {
        let spread = |age: Duration| {
            let shortest = age / 10 * 9;
            let step = (age / 5) / (AGES - 1);
            (0..AGES).map(|n| Some(shortest.saturating_add(step.saturating_mul(n)))).collect()
        };
        let ages = age.map_or_else(|| vec![None], spread);
        // The first index is random, so that services that start together do not begin with the same age.
        #[expect(clippy::cast_possible_truncation, reason = "any number is as good")]
        let first = RandomState::new().hash_one(0) as usize;
        Self { ages, next: AtomicUsize::new(first) }
    }

    pub(crate) fn all(&self) -> &[Option<Duration>] {
        &self.ages
    }

    /// The index of the age that the next connection gets.
    pub(super) fn deal(&self) -> usize {
        // Relaxed: no other memory is published with the count.
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        turn.wrapping_mul(STRIDE) % self.ages.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_spread_over_a_tenth_to_both_sides() {
        let minute = ConnectionAges::around(Some(Duration::from_secs(60)));
        let all: Vec<Duration> = minute.all().iter().copied().flatten().collect();
        assert_eq!((all[0], all[1]), (Duration::from_secs(54), Duration::from_millis(54_800)));
        assert_eq!((all[15], all.len()), (Duration::from_secs(66), 16));
        assert_eq!(ConnectionAges::around(None).all(), [None]);
        assert_eq!(ConnectionAges::around(None).deal(), 0);
        // Nothing overflows.
        assert_eq!(ConnectionAges::around(Some(Duration::MAX)).all().len(), 16);
    }

    #[test]
    fn connections_that_follow_each_other_have_different_ages() {
        let ages = ConnectionAges::around(Some(Duration::from_secs(60)));
        for _ in 0..3 {
            let mut dealt: Vec<usize> = (0..16).map(|_| ages.deal()).collect();
            assert!(dealt.windows(2).all(|two| two[0].abs_diff(two[1]) > 1), "{dealt:?}");
            dealt.sort_unstable();
            assert_eq!(dealt, (0..16).collect::<Vec<_>>());
        }
    }
}
