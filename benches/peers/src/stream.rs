//! The keys of the requests.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// A key that is made from its number.
pub(crate) trait BenchKey: Sized + Send + Sync {
    fn nth(number: u64) -> Self;
}

impl BenchKey for () {
    fn nth(_: u64) -> Self {}
}

impl BenchKey for u64 {
    /// The number is spread over all 64 bits, as the hashes of users' ids are.
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

/// `length` keys drawn evenly from `keys`, one stream for each thread. A stream stores the keys in the order of use,
/// like the keys of freshly parsed requests.
pub(crate) fn uniform<K: BenchKey>(keys: u64, length: usize, threads: usize) -> Vec<Vec<K>> {
    (0..threads as u64)
        .map(|seed| {
            let mut random = SmallRng::seed_from_u64(seed);
            (0..length).map(|_| K::nth(random.random_range(0..keys))).collect()
        })
        .collect()
}
