//! From a key to where it may live and how it is recognised.
//!
//! Two hashes, seeded apart: one places, the other makes the tag. Were one hash both, whoever can make
//! keys collide in it would have both at once (aHash has had such keys: aHash#163, aHash#292).

use std::hash::{BuildHasher, Hash};

/// Where a key may live, and the bits by which its word is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// The shard that is looked at first.
    pub(super) first: usize,
    /// Never 0, so that a live word is never 0.
    pub(super) tag: u64,
}

/// The two hashes, and the number that makes the second shard from the tag.
#[derive(Clone, Debug)]
pub(super) struct Hashers<S> {
    place: S,
    tag: S,
    mix: u64,
}

impl<S: BuildHasher> Hashers<S> {
    pub(super) fn new(place: S, tag: S) -> Self {
        // Odd, so that the multiplication in `second` is a bijection; from the tag's secret seed.
        let mix = tag.hash_one("second shard") | 1;
        Self { place, tag, mix }
    }

    #[inline]
    pub(super) fn identity<K: Hash + ?Sized>(
        &self,
        key: &K,
        shards: usize,
        tag_bits: u8,
    ) -> Identity {
        let tag = self.tag.hash_one(key) >> (u64::BITS - u32::from(tag_bits));
        Identity { first: scale(self.place.hash_one(key), shards), tag: tag.max(1) }
    }

    /// The other shard of a key: `g(tag) - first` modulo the number of shards, which maps the second
    /// shard back to the first. Keys with equal tags that share one of their shards therefore share
    /// both, and are one key to the table. May equal `first`; then the key has one shard.
    #[inline]
    pub(super) fn second(&self, identity: Identity, shards: usize) -> usize {
        let pair = scale(identity.tag.wrapping_mul(self.mix), shards);
        let (second, borrowed) = pair.overflowing_sub(identity.first);
        if borrowed { second.wrapping_add(shards) } else { second }
    }
}

/// Maps a hash evenly to `0..shards`: the high half of the product.
#[expect(clippy::cast_possible_truncation, reason = "below `shards`, which is a usize")]
#[inline]
fn scale(hash: u64, shards: usize) -> usize {
    ((u128::from(hash) * shards as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_shard_maps_back_to_the_first() {
        let seeds = |n| ahash::RandomState::with_seeds(n, n + 1, n + 2, n + 3);
        let hashers = Hashers::new(seeds(1), seeds(11));
        for shards in [1, 2, 3, 4, 1000, 219_781] {
            for key in 0_u64..1000 {
                let one = hashers.identity(&key, shards, 30);
                let other = Identity { first: hashers.second(one, shards), ..one };
                assert!(one.first < shards && other.first < shards);
                assert_eq!(hashers.second(other, shards), one.first);
            }
        }
    }
}
