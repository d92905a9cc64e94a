//! [`Seeds`]: the numbers that the default hasher is made of. They are kept so that a restored table has the same
//! hasher.
//!
//! `ahash::RandomState::new()` does not reveal its seeds, so they are drawn here. They are four numbers: the SipHash of
//! four different inputs, under one key of 128 bits. The standard library takes that key from the operating system for
//! its own maps. As far as SipHash is known, an attacker that sees some of the numbers, or the table's answers, learns
//! neither the key nor the other numbers from them. So keeping the seeds makes them no easier to guess, unless an
//! attacker can read this process's memory or a snapshot.

use std::fmt;
use std::hash::BuildHasher;

use ahash::RandomState;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::keyed) struct Seeds([u64; 4]);

impl Seeds {
    pub(in crate::keyed) fn draw() -> Self {
        // The standard library draws one key per thread from the operating system and increments it with each call, so
        // no two tables have the same key.
        let source = std::hash::RandomState::new();
        Self([0, 1, 2, 3].map(|question: u64| source.hash_one(question)))
    }

    pub(in crate::keyed) fn new(seeds: [u64; 4]) -> Self {
        Self(seeds)
    }

    pub(in crate::keyed) fn to_numbers(self) -> [u64; 4] {
        self.0
    }

    pub(in crate::keyed) fn hasher(self) -> RandomState {
        let [a, b, c, d] = self.0;
        RandomState::with_seeds(a, b, c, d)
    }
}

/// The hasher of a table that is yet to be built.
#[derive(Clone, Copy)]
pub(in crate::keyed) enum Hashing<S> {
    /// The default hasher. Its seeds are drawn when the table is built, or read from its file.
    Seeded(fn(Seeds) -> S),
    /// The caller's hasher, whose seeds are unknown here.
    Given(S),
}

impl Hashing<RandomState> {
    pub(in crate::keyed) fn seeded() -> Self {
        Self::Seeded(Seeds::hasher)
    }
}

impl<S> Hashing<S> {
    /// The hasher of a new table, and its seeds, which a snapshot needs and the hasher does not reveal.
    pub(in crate::keyed) fn drawn_now(self) -> (S, Option<Seeds>) {
        match self {
            Self::Seeded(make) => {
                let seeds = Seeds::draw();
                (make(seeds), Some(seeds))
            }
            Self::Given(hasher) => (hasher, None),
        }
    }

    /// The hasher for a file with these seeds. The same seeds make the same hasher, so each key is looked for where its
    /// word is. The seeds are kept for the next snapshot. Returns `None` if the file has no seeds and no hasher was
    /// given.
    pub(in crate::keyed) fn of_file(self, seeds: Option<[u64; 4]>) -> Option<(S, Option<Seeds>)> {
        match self {
            Self::Seeded(make) => {
                let seeds = Seeds::new(seeds?);
                Some((make(seeds), Some(seeds)))
            }
            // The fingerprint in the file is checked later, and shows whether this is the right hasher.
            Self::Given(hasher) => Some((hasher, None)),
        }
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
        let draws: Vec<[u64; 4]> = (0..100).map(|_| Seeds::draw().to_numbers()).collect();
        let mut numbers: Vec<u64> = draws.concat();
        numbers.sort_unstable();
        numbers.dedup();
        // Two of 400 numbers of 64 bits are equal once in 10^14 runs.
        assert_eq!(numbers.len(), 400);
    }

    #[test]
    fn equal_seeds_make_equal_hashers_and_other_seeds_others() {
        let hash = |seeds: [u64; 4]| Seeds::new(seeds).hasher().hash_one("alice");
        assert_eq!(hash([1, 2, 3, 4]), hash([1, 2, 3, 4]));
        assert_ne!(hash([1, 2, 3, 4]), hash([1, 2, 3, 5]));
        assert_eq!(format!("{:?}", Seeds::new([1, 2, 3, 4])), "Seeds");
    }
}
