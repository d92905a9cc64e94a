//! Maps a key to the shards in which it may have its cell and to the tag by which it is recognised. The cache line of
//! the first shard is prefetched at once.
//!
//! The key is hashed once: the topmost bits of the hash choose its first shard, and the lowest bits make its tag. No
//! bit is used for both, unless the tag is so wide or the table so large that 64 bits do not suffice. A second hash for
//! the tag, with seeds of its own, would cost a quarter of a decision, and would help only in a rare case. It would not
//! help against keys that collide in aHash for all seeds (aHash#163 and aHash#292 had such keys), since these keys
//! would collide in both hashes.
//!
//! Shards form *units*: two shards side by side, in two cache lines that the hardware fetches together. A key has two
//! units. The key is searched for in one shard after the other. The first is its *home*, which follows from its hash.
//! The second is the *sibling* of the home in the same unit. The last two are the shards of its *second unit*, which
//! follows from its tag. Keys with equal tags have either both units in common or neither; their homes may differ. So
//! if two keys have the same tag and units, their installs search the same cells.

use std::hash::{BuildHasher, Hash, Hasher};
use std::net::IpAddr;

use crate::sync::{Fault, planted};

/// The first shard of a key, and the bits by which its word is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The shard that is searched first.
    pub(crate) first: usize,
    pub(crate) tag: Tag,
}

/// The bits by which a key's word is recognised, at their position in a live word. The bits of the state are 0. No key
/// has tag 0, so no live word is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u64);

impl Tag {
    /// A tag that no key has.
    pub(crate) const NONE: Self = Self(0);

    #[inline(always)]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline(always)]
    pub(crate) const fn to_bits(self) -> u64 {
        self.0
    }
}

/// The hasher of keys, and the number by which a tag is mapped to a second unit.
#[derive(Clone, Debug)]
pub(crate) struct KeyHasher<S> {
    hash: S,
    mix: Mix,
}

/// The number by which a key's tag is mapped to its second unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix(u64);

impl<S: BuildHasher> KeyHasher<S> {
    pub(crate) fn new(hash: S) -> Self {
        // The number is odd, so that the multiplication in `second` is a bijection. It is as secret as the seeds, since
        // it is the hash of a value that cannot be a key: no key has the type of this value.
        let mix = Mix(hash.hash_one((GOLDEN, "second unit", [u8::MAX; 3])) | 1);
        Self { hash, mix }
    }

    /// A fingerprint of the hash, made from known keys. It is equal in another process only if that process hashes keys
    /// in the same way. The known keys are of several types, since a hash may treat each type differently.
    pub(crate) fn fingerprint(&self) -> u64 {
        // It does not matter which keys these are, but they must stay the same in every version.
        let (bytes, text) = ([7_u8, 6, 5], "tollgate");
        let addresses =
            [IpAddr::from([192, 0, 2, 1]), IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1])];
        // The known keys are text, a number, bytes, and addresses of both kinds, since most keys are made of these.
        let hashes = [
            self.hash.hash_one(text),
            self.hash.hash_one(0x0123_4567_89ab_cdef_u64),
            self.hash.hash_one(&bytes[..]),
            self.hash.hash_one(addresses[0]),
            self.hash.hash_one(addresses[1]),
        ];
        // The sum is rotated, so that exchanging two hashes changes it.
        hashes.into_iter().fold(0, |sum: u64, hash| sum.rotate_left(13).wrapping_add(hash))
    }

    /// The first shard and the tag of a key in a table of `shards` shards, with `words_per_tag` live words for each
    /// tag. The home shard of the key is prefetched.
    #[inline(always)]
    pub(crate) fn find<'a, K: Hash + ?Sized, L: 'a>(
        &self,
        key: &K,
        shards: usize,
        words_per_tag: u64,
        line: impl Fn(usize) -> &'a L,
    ) -> Identity {
        let hash = hash_of(&self.hash, key);
        let first = scale(hash, shards);
        prefetch(line(first));
        Identity { first, tag: tag_of(hash, words_per_tag) }
    }

    pub(crate) fn mix(&self) -> &Mix {
        &self.mix
    }
}

impl Mix {
    /// A shard of the key's second unit. `unit` is the number of shards in a unit. If u is the key's first unit, the
    /// other is `g(tag) - u` modulo the number of units, and the same formula maps the second unit back to the first.
    /// So if two keys with equal tags share one unit, they share both units, and the table treats them as one key. If
    /// the second unit is the same as the first, the key has only one unit.
    #[inline]
    pub(crate) fn second(&self, identity: Identity, shards: usize, unit: usize) -> usize {
        // The home and this shard have the same position in their units. The position determines only which shard of
        // the second unit is searched first.
        let (units, first, side) = (shards / unit, identity.first / unit, identity.first % unit);
        // The multiplication by a secret odd number lets all bits of the tag reach the topmost bits, from which `scale`
        // computes the unit. So keys that share one unit are spread over all other units.
        let pair = scale(identity.tag.0.wrapping_mul(self.0), units);
        // Both numbers are below the number of units. So if the difference is negative, adding the number of units once
        // brings it into range.
        let (second, borrowed) = pair.overflowing_sub(first);
        let second = if borrowed { second.wrapping_add(units) } else { second };
        pair_of(second, first, units) * unit + side
    }

    /// The identity in tier `to` of a key that has this identity in tier `from`. The identity in tier 0 follows from
    /// the key's hash.
    ///
    /// The key is not needed, so an entry need not hold it. Homes and tags are each mapped one to one, so every tier
    /// distinguishes keys as well as tier 0 does. A key's homes in two tiers are far apart, so the words of a key in
    /// several tiers do not fill its own shards. The key's tags in two tiers also differ. Otherwise, if both homes were
    /// the same shard, the word of one tier would be mistaken for the word of the other.
    #[inline]
    pub(crate) fn in_tier(
        &self,
        identity: Identity,
        [from, to]: [u16; 2],
        shards: usize,
        words_per_tag: u64,
    ) -> Identity {
        let home = |tier: u16| scale(u64::from(tier).wrapping_mul(GOLDEN), shards);
        let first = identity.first + home(to) + (shards - home(from));
        // The same function maps the tag back. No tag is mapped to 0, the tag that no key has. The number of the mix is
        // odd, so the tags of any two tiers differ.
        let turned = |Tag(tag): Tag, tier: u16| {
            let turn = u64::from(tier).wrapping_mul(self.0).wrapping_mul(words_per_tag) & !TOPMOST;
            Tag(if tag == turn { tag } else { tag ^ turn })
        };
        Identity { first: first % shards, tag: turned(turned(identity.tag, from), to) }
    }
}

/// 2^64 divided by the golden ratio. Modulo 2^64, its multiples are spread as widely as possible.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The topmost bit of a word, which is 0 in a live word.
const TOPMOST: u64 = 1 << 63;

/// The second unit of a key. The tag determines the pair of units, so that each unit is computed from the other in the
/// same way. The proofs need this symmetry.
#[inline(always)]
fn pair_of(second: usize, first: usize, units: usize) -> usize {
    // This fault makes pairs that overlap, so that keys with equal tags may share one unit and not the other.
    if planted(Fault::OverlappingShardPairs) { (first + 1) % units } else { second }
}

/// A key's tag, from its hash. `words_per_tag`, a power of two, is the number of live words with one tag.
#[inline(always)]
fn tag_of(hash: u64, words_per_tag: u64) -> Tag {
    // The topmost bit of a live word is 0. Multiplying by `words_per_tag` shifts the lowest bits of the hash to the
    // left of the state. With tag 0 a live word could be 0, which means vacant, so keys whose tag would be 0 get tag 1.
    Tag((hash.wrapping_mul(words_per_tag) & !TOPMOST).max(words_per_tag))
}

/// The result of [`BuildHasher::hash_one`], computed inline: a call would cost as much as the hash of a short key.
#[inline(always)]
#[expect(clippy::manual_hash_one, reason = "which is not always inlined")]
fn hash_of<K: Hash + ?Sized>(hash: &impl BuildHasher, key: &K) -> u64 {
    let mut hasher = hash.build_hasher();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Maps a hash evenly to `0..places`, by taking the high half of a product.
#[expect(clippy::cast_possible_truncation, reason = "below `places`, which is a usize")]
#[inline]
pub(crate) fn scale(hash: u64, places: usize) -> usize {
    ((u128::from(hash) * places as u128) >> 64) as usize
}

/// The number of shards in a unit. A shard is a cache line of 64 bytes, and common hardware fetches these lines in
/// pairs.
// Intel's spatial prefetcher completes aligned pairs of lines (Intel 64 and IA-32 Architectures Optimization Reference
// Manual). On other hardware, reading a sibling costs one more cache miss.
pub(crate) const UNIT: usize = 2;

/// The size of a shard in bytes. The type of a shard asserts it.
const LINE_BYTES: usize = 64;

/// The number of shards in a unit. A model may use units of one shard.
#[inline(always)]
pub(crate) fn unit() -> usize {
    crate::sync::scale::unit(UNIT)
}

/// The shards of a key, each once, in the order of the search: its home, the home's sibling, and the shards of its
/// second unit.
#[inline(always)]
pub(crate) fn shards_of(home: usize, second: usize) -> impl Iterator<Item = usize> + Clone {
    let all = all_shards_of(home, second);
    // If the tag pairs a unit with itself, the key has only two shards. Neither may be searched twice, since
    // `install/open` counts the words with the key's tag.
    let count = if home / unit() == second / unit() { unit() } else { 2 * unit() };
    (0..count).map(move |nth| all[nth])
}

/// The same shards, but if the second unit is the same as the first, its shards occur twice.
#[inline(always)]
pub(crate) fn all_shards_of(home: usize, second: usize) -> [usize; 2 * UNIT] {
    std::array::from_fn(|nth| {
        // The shards of the unit of `home` come first: `home` itself, and then the following shards, which wrap around
        // at the end of the unit. The shards of the unit of `second` follow in the same way.
        let (base, side) = if nth < unit() { (home, nth) } else { (second, nth - unit()) };
        let first = base % unit();
        base - first + (first + side) % unit()
    })
}

/// The first shard of the lower of a key's two units. Together with the tag it identifies the key, no matter which of
/// the key's shards is its home.
#[inline]
pub(crate) fn lower(identity: Identity, second: usize) -> usize {
    // The two shards lie in the key's two units. The lower one is in the unit with the lower number.
    let lower = identity.first.min(second);
    // The result is the first shard of that unit, even if the other shard is the home.
    lower - lower % unit()
}

/// Prefetches the cache line of `target`. This has no other effect, on any platform.
///
/// On common x86-64 CPUs a reading of the time stamp counter waits for earlier loads, but not for a prefetch. If the
/// line is prefetched before the clock is read, the two overlap. This halves the cost of a decision on tables larger
/// than the cache.
#[inline(always)]
pub(crate) fn prefetch<T>(target: &T) {
    prefetch_at(target);
}

/// Prefetches the other line of the unit that `home` is in, before a clock is read. One key in twenty has its cell in
/// the other line. The hardware fetches both lines of a pair only if few other fetches are pending. Without this
/// prefetch, a key in the other line would wait for a second line after the first, and the next reading of the clock
/// would wait, too (see [`prefetch`]). A caller that reads no clock does not have this wait. In tables far larger than
/// the cache, doubling the number of fetches would cost such a caller more than it saves.
#[inline(always)]
pub(crate) fn prefetch_sibling<T>(home: &T) {
    // Units begin at a pair of lines (`keyed/memory/mod.rs`), so the two addresses of a unit differ only in this bit.
    prefetch_at(std::ptr::from_ref(home).map_addr(|home| home ^ LINE_BYTES));
}

/// Prefetches the line at an address, which need not be valid.
#[inline(always)]
#[allow(unsafe_code)]
fn prefetch_at<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect that the program can see, and cannot fault, whatever the address is.
        unsafe { _mm_prefetch(address.cast(), _MM_HINT_T0) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
    let _ = address;
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn identity(
        hasher: &KeyHasher<ahash::RandomState>,
        key: u64,
        shards: usize,
        words_per_tag: u64,
    ) -> Identity {
        hasher.find(&key, shards, words_per_tag, |_| &())
    }

    #[cfg(not(any(loom, shuttle)))]
    #[test]
    fn a_key_is_looked_for_at_home_first_and_in_each_of_its_shards_once() {
        let shards = |home, second| shards_of(home, second).collect::<Vec<_>>();
        assert_eq!(shards(4, 8), [4, 5, 8, 9]);
        assert_eq!(shards(5, 9), [5, 4, 9, 8]);
        assert_eq!(shards(5, 5), [5, 4]);
        assert_eq!(all_shards_of(5, 5), [5, 4, 5, 4]);
    }

    #[test]
    fn the_second_unit_maps_back_to_the_first() {
        let seeds = |n| ahash::RandomState::with_seeds(n, n + 1, n + 2, n + 3);
        let hasher = KeyHasher::new(seeds(1));
        for (units, unit) in [1, 2, 3, 4, 1000, 219_781].into_iter().flat_map(|n| [(n, 1), (n, 2)])
        {
            let shards = units * unit;
            for key in 0_u64..1000 {
                let one = identity(&hasher, key, shards, 1 << 33);
                let other = Identity { first: hasher.mix().second(one, shards, unit), ..one };
                assert!(one.first < shards && other.first < shards);
                assert_eq!(one.first % unit, other.first % unit);
                assert_eq!(hasher.mix().second(other, shards, unit), one.first);
            }
        }
    }

    #[test]
    fn the_identities_of_a_tier_are_as_many_as_those_of_the_first_and_those_of_a_key_differ() {
        let seeds = |n| ahash::RandomState::with_seeds(n, n + 1, n + 2, n + 3);
        let (mix, words_per_tag) = (*KeyHasher::new(seeds(1)).mix(), 1 << 55);
        for shards in [1, 2, 14, 64] {
            // The test covers all tags of 8 bits other than 0, at every home.
            let tags = || (1..256).map(|tag| Tag(tag * words_per_tag));
            let all =
                || (0..shards).flat_map(|first| tags().map(move |tag| Identity { first, tag }));
            let in_tier = |identity, tier| mix.in_tier(identity, [0, tier], shards, words_per_tag);
            for tier in 0..16 {
                let mut seen = std::collections::HashSet::new();
                for identity in all() {
                    let there = in_tier(identity, tier);
                    assert!(
                        there.first < shards
                            && there.tag != Tag::NONE
                            && there.tag.0 & TOPMOST == 0
                    );
                    assert!(there.tag.0.is_multiple_of(words_per_tag));
                    assert!(seen.insert((there.first, there.tag.0)), "{identity:?} in tier {tier}");
                    assert_eq!(mix.in_tier(there, [tier, 0], shards, words_per_tag), identity);
                    assert_eq!(
                        mix.in_tier(there, [tier, 5], shards, words_per_tag),
                        in_tier(identity, 5)
                    );
                }
            }
            for (one, other) in (0..16).flat_map(|one| (0..one).map(move |other| (one, other))) {
                let meet =
                    all().filter(|&it| in_tier(it, one).tag == in_tier(it, other).tag).count();
                // For each home at most one of the 255 tags is the same in both tiers: the tag that would have been
                // mapped to 0.
                assert!(meet <= shards, "{meet} of {shards} shards in tiers {one} and {other}");
                let home = Identity { first: 0, tag: Tag(words_per_tag) };
                let homes = [one, other].map(|tier| in_tier(home, tier).first);
                assert!(shards < 64 || homes[0] != homes[1], "tiers {one} and {other}");
            }
        }
    }

    type KeyPattern = fn(u64) -> u64;

    /// Keys with patterns on which weak hashes are known to collide.
    const PATTERNS: [(&str, KeyPattern); 5] = [
        ("sequential", |n| n),
        ("30 trailing zero bits", |n| n << 30),
        ("high bits only", |n| n << 44),
        ("multiples of 4096", |n| n * 4096),
        ("bit-reversed", u64::reverse_bits),
    ];

    /// True if the chi-square statistic of 2^18 numbers in 1024 classes lies within 6 standard deviations of its mean.
    /// A good hash would fail this test once in 10^8 runs with random seeds, and here the seeds are fixed.
    pub(crate) fn is_even(classes: impl Iterator<Item = usize>) -> bool {
        let mut counts = [0_i64; 1024];
        classes.for_each(|class| counts[class] += 1);
        let expected = counts.iter().sum::<i64>() / 1024;
        let squares: i64 = counts.iter().map(|count| (count - expected).pow(2)).sum();
        let (degrees, chi_square) = (1023.0, squares as f64 / expected as f64);
        (chi_square - degrees).abs() < 6.0 * (2.0_f64 * degrees).sqrt()
    }

    #[test]
    fn shards_tags_and_second_shards_are_even_for_patterned_keys() {
        let seeds = |n| ahash::RandomState::with_seeds(n, n + 1, n + 2, n + 3);
        let hasher = KeyHasher::new(seeds(21));
        for (name, key) in PATTERNS {
            let identities = || (0..1 << 18).map(|n| identity(&hasher, key(n), 1024, 1 << 31));
            let low = |Tag(tag): Tag| usize::try_from((tag >> 31) % 1024).expect("small");
            let high = |Tag(tag): Tag| usize::try_from(tag >> 53).expect("small");
            assert!(is_even(identities().map(|identity| identity.first)), "{name}: shards");
            assert!(
                is_even(identities().map(|identity| low(identity.tag))),
                "{name}: low tag bits"
            );
            assert!(
                is_even(identities().map(|identity| high(identity.tag))),
                "{name}: high tag bits"
            );
            let second = |identity| hasher.mix().second(identity, 1024, 1);
            assert!(is_even(identities().map(second)), "{name}: second shards");
            // The home is independent of the tag and of the key's other shard.
            let mixed = |identity: Identity| (identity.first ^ low(identity.tag)) % 1024;
            assert!(is_even(identities().map(mixed)), "{name}: shard against tag");
            let pairs =
                |identity: Identity| identity.first ^ hasher.mix().second(identity, 1024, 1);
            assert!(is_even(identities().map(pairs)), "{name}: shard against second shard");
        }
    }

    #[test]
    fn a_hash_that_keeps_a_pattern_is_caught() {
        assert!(!is_even((0..1 << 18).map(|n: usize| (n << 3) % 1024)));
        assert!(!is_even((0..1 << 18).map(|n: usize| n % 1000)));
    }
}
