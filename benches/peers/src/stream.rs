//! The keys that requests come with.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// How a key is made of its number.
pub(crate) trait BenchKey: Sized + Send + Sync {
    fn nth(number: u64) -> Self;
}

impl BenchKey for () {
    fn nth(_: u64) -> Self {}
}

impl BenchKey for u64 {
    /// Spread over all 64 bits, as hashes of users' ids are, though not the ids.
    fn nth(number: u64) -> Self {
        (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl BenchKey for String {
    fn nth(number: u64) -> Self {
        format!("user:{number:08}")
    }
}

/// Every key once, in order.
pub(crate) fn all<K: BenchKey>(keys: u64) -> Vec<K> {
    (0..keys).map(K::nth).collect()
}

/// `length` keys drawn from `keys` evenly, one stream for each thread. Laid out in the order of use, as freshly
/// parsed requests would have them.
pub(crate) fn uniform<K: BenchKey>(keys: u64, length: usize, threads: usize) -> Vec<Vec<K>> {
    (0..threads as u64)
        .map(|seed| {
            let mut random = SmallRng::seed_from_u64(seed);
            (0..length).map(|_| K::nth(random.random_range(0..keys))).collect()
        })
        .collect()
}
