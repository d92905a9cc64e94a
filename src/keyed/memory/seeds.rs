//! [`Seeds`]: the numbers that the default hashers are made of, kept so that a restored table has the
//! same.
//!
//! `ahash::RandomState::new()` does not reveal its seeds, so they are drawn here. They are eight numbers: SipHash of
//! eight different questions, under one key of 128 bits. The standard library takes that key from the operating system
//! for its own maps. As far as SipHash is known, an attacker that sees some of the numbers, or the table's answers,
//! learns neither the key nor the other numbers from them. Without access to this process's memory or to a snapshot
//! they are as hard to guess as before.

use std::fmt;
use std::hash::BuildHasher;

use ahash::RandomState;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::keyed) struct Seeds([u64; 8]);

impl Seeds {
    pub(in crate::keyed) fn draw() -> Self {
        // The standard library draws one key per thread from the operating system and increments it with each call, so
        // no two tables have the same key.
        let source = std::hash::RandomState::new();
        Self([0, 1, 2, 3, 4, 5, 6, 7].map(|question: u64| source.hash_one(question)))
    }

    pub(in crate::keyed) fn new(seeds: [u64; 8]) -> Self {
        Self(seeds)
    }

    pub(in crate::keyed) fn to_numbers(self) -> [u64; 8] {
        self.0
    }

    /// The hasher for the place, and the hasher for the tag.
    pub(in crate::keyed) fn hashers(self) -> [RandomState; 2] {
        // Each gets four numbers, so neither reveals anything about the other.
        let [a, b, c, d, e, f, g, h] = self.0;
        [RandomState::with_seeds(a, b, c, d), RandomState::with_seeds(e, f, g, h)]
    }
}

/// Prints no seed, because logs have many readers.
impl fmt::Debug for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seeds")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_draw_is_another_and_has_no_number_twice() {
        let draws: Vec<[u64; 8]> = (0..100).map(|_| Seeds::draw().to_numbers()).collect();
        let mut numbers: Vec<u64> = draws.concat();
        numbers.sort_unstable();
        numbers.dedup();
        // Two of 800 numbers of 64 bits are equal once in 10^13 runs.
        assert_eq!(numbers.len(), 800);
    }

    #[test]
    fn equal_seeds_make_equal_hashers_and_the_two_are_unlike() {
        let seeds = Seeds::new([1, 2, 3, 4, 5, 6, 7, 8]);
        let hash = |seeds: Seeds| seeds.hashers().map(|hasher| hasher.hash_one("alice"));
        let [place, tag] = hash(seeds);
        assert_eq!(hash(seeds), [place, tag]);
        assert_ne!(place, tag);
        assert_ne!(hash(Seeds::new([1, 2, 3, 4, 5, 6, 7, 9])), [place, tag]);
        assert_eq!(format!("{seeds:?}"), "Seeds");
    }
}
