//! Units: two shards side by side, in two cache lines that the hardware fetches together.
//!
//! A key has two units. In each of them it is looked for in one shard first and then in the other: in its *home*, which
//! its hash names, in its home's *sibling*, and then in the same two of its *second unit*, which follows from
//! the tag. Keys with equal tags share both units or neither, though perhaps not their homes: so every install of such
//! keys looks at the same cells.

use crate::sync::scale;

/// Shards in a unit: the lines of 64 bytes that common hardware fetches in pairs.
// Intel's spatial prefetcher completes aligned pairs of lines (Intel 64 and IA-32 Architectures
// Optimization Reference Manual). Where hardware does not, a sibling costs one more miss.
pub(super) const UNIT: usize = 2;

/// Shards in a unit of this table: a model may make do with one.
#[inline(always)]
pub(super) fn unit() -> usize {
    scale::unit(UNIT)
}

/// The shards of a key, each once, in the order in which it is looked for: its home, the home's sibling, and those of
/// its second unit.
#[inline(always)]
pub(super) fn shards_of(home: usize, second: usize) -> impl Iterator<Item = usize> + Clone {
    let all = all_shards_of(home, second);
    // The tag may pair a unit with itself: then the key has two shards, and none is to be looked at
    // twice, since each word of the tag counts (`install/verify`).
    let count = if home / unit() == second / unit() { unit() } else { 2 * unit() };
    (0..count).map(move |nth| all[nth])
}

/// The same, those of the second unit also where it is the first: more than once, then.
#[inline(always)]
pub(super) fn all_shards_of(home: usize, second: usize) -> [usize; 2 * UNIT] {
    std::array::from_fn(|nth| {
        // The home itself comes first in its unit, then its sibling: `side` shards on, around the
        // end of the unit.
        let (base, side) = if nth < unit() { (home, nth) } else { (second, nth - unit()) };
        let first = base % unit();
        base - first + (first + side) % unit()
    })
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_looked_for_at_home_first_and_in_each_of_its_shards_once() {
        let shards = |home, second| shards_of(home, second).collect::<Vec<_>>();
        assert_eq!(shards(4, 8), [4, 5, 8, 9]);
        assert_eq!(shards(5, 9), [5, 4, 9, 8]);
        assert_eq!(shards(5, 5), [5, 4]);
        assert_eq!(all_shards_of(5, 5), [5, 4, 5, 4]);
    }
}
