//! Packs many small counts into few bits, if the sum of the counts has a limit.
//!
//! A ring of n counts whose sum is at most L does not need n times the bits of L. There are only C(L + n, n) such
//! rings, so a number below C(L + n, n) can stand for each ring. Five counts that sum to at most 100 take 27 bits
//! instead of 35. The price is that each count has to be searched for whenever a segment ends. So this packing is used
//! only if counts side by side do not fit, or if they would leave too few bits for the tag of a keyed word.
//!
//! The number of a ring is computed by the combinatorial number system (Knuth, TAOCP 4A, 7.2.1.3). With the oldest
//! count first, `b_i = c_1 + ... + c_i + i - 1` is strictly rising, and the number is `C(b_1, 1) + C(b_2, 2) + ... +
//! C(b_n, n)`.

use std::hint::select_unpredictable;

/// The table of binomials holds `n` choose `k` for each `n` below this number.
const LOOKED_UP: usize = 256;
/// The table of binomials holds `n` choose `k` for each `k` up to this number. The table is ordered by `k`, so that one
/// search stays in a few cache lines.
const PLACES_LOOKED_UP: usize = 12;

/// `[k][n]` is n choose k, or `u64::MAX` if this number is not below 2^64.
static BINOMIALS: [[u64; LOOKED_UP]; PLACES_LOOKED_UP + 1] = binomials();

const fn binomials() -> [[u64; LOOKED_UP]; PLACES_LOOKED_UP + 1] {
    let mut table = [[0_u64; LOOKED_UP]; PLACES_LOOKED_UP + 1];
    table[0] = [1; LOOKED_UP];
    let mut k = 1;
    while k <= PLACES_LOOKED_UP {
        let mut n = 1;
        while n < LOOKED_UP {
            // This is Pascal's rule.
            table[k][n] = table[k - 1][n - 1].saturating_add(table[k][n - 1]);
            n += 1;
        }
        k += 1;
    }
    table
}

/// `n` choose `k`, or `None` if this number or an intermediate product is 2^64 or more.
pub(crate) fn choose(n: u64, k: u64) -> Option<u64> {
    (0..k).try_fold(1_u64, |product, taken| {
        // No more than n of n things can be chosen.
        let Some(left) = n.checked_sub(taken) else { return Some(0) };
        // The division is exact: the product of j + 1 consecutive numbers is divisible by (j + 1)!.
        let next = u128::from(product) * u128::from(left) / u128::from(taken + 1);
        u64::try_from(next).ok()
    })
}

/// The number of rings of `parts` counts whose sum is at most `limit`. `None` if [`choose`] returns `None`.
fn rings(limit: u64, parts: u8) -> Option<u64> {
    choose(limit.checked_add(u64::from(parts))?, u64::from(parts))
}

/// The number of bits that hold every number up to `largest`.
pub(crate) const fn bits_for(largest: u64) -> u8 {
    #[expect(clippy::cast_possible_truncation, reason = "at most 64")]
    let bits = (u64::BITS - largest.leading_zeros()) as u8;
    bits
}

/// The way in which a word holds a ring of counts: [side by side](Self::SIDE_BY_SIDE); as [one number](Self::RANKED)
/// that stands for the whole ring; or as the sum of the counts and, below it, a number that stands for the older
/// counts. In the last case the value in this type is the width of the number for the older counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packing(pub(super) u8);

impl Packing {
    pub(crate) const SIDE_BY_SIDE: Self = Self(0);
    pub(crate) const RANKED: Self = Self(u8::MAX);

    /// The width of the number that stands for the older counts, below their sum.
    #[inline(always)]
    pub(super) fn rank_bits(self) -> Option<u32> {
        let is_summed = self != Self::SIDE_BY_SIDE && self != Self::RANKED;
        is_summed.then_some(u32::from(self.0 % 64))
    }

    /// The packings in the order of preference, each with its number of bits. Each packing is at most as wide as the
    /// one before it. The second packing is slower when a segment ends, and the third is slower in every decision.
    pub(crate) fn all(limit: u64, segments: u8) -> impl Iterator<Item = (Self, u32)> {
        let bits = |segments| rings(limit, segments).map(|rings| bits_for(rings - 1));
        let (count, older) = (bits_for(limit), bits(segments - 1));
        // Each count may be as large as the limit, and so may the sum. The older counts form a ring with one count
        // fewer.
        let side_by_side = (Self::SIDE_BY_SIDE, u32::from(count) * u32::from(segments));
        let summed = older.map(|older| (Self(older), u32::from(count + older)));
        let ranked = bits(segments).map(|bits| (Self::RANKED, u32::from(bits)));
        [Some(side_by_side), summed, ranked].into_iter().flatten()
    }
}

/// The term of a ring's number for the first `place` counts, whose sum is `sum`; `u64::MAX` if the term does not fit in
/// 64 bits.
pub(super) fn term(sum: u64, place: u8) -> u64 {
    let top = sum + u64::from(place) - 1;
    let column = BINOMIALS.get(usize::from(place));
    let found = column.and_then(|column| column.get(usize::try_from(top).ok()?));
    // The terms of long rings and large limits are not in the table, so they are computed.
    found.copied().unwrap_or_else(|| choose(top, place.into()).unwrap_or(u64::MAX))
}

/// The greatest sum of the first `place` counts, up to `limit`, whose term is not above `number`. Returns the sum and
/// the term.
#[inline]
pub(super) fn greatest(number: u64, limit: u64, place: u8) -> (u64, u64) {
    let before = u64::from(place) - 1;
    match BINOMIALS.get(usize::from(place)) {
        // The table has every term that this search can need, so the steps need no check.
        Some(column) if limit < LOOKED_UP as u64 - before => search(number, limit, |sum| {
            #[expect(clippy::cast_possible_truncation, reason = "the rest is below a usize")]
            let top = (sum + before) as usize % LOOKED_UP;
            column[top]
        }),
        _ => search(number, limit, |sum| term(sum, place)),
    }
}

#[inline(always)]
fn search(number: u64, limit: u64, term: impl Fn(u64) -> u64) -> (u64, u64) {
    // The answer is `least`, or one of the `more` numbers above it. The number of steps depends on `limit` alone, and
    // no step has a branch that is hard to predict.
    let (mut least, mut more) = (0, limit);
    while more > 0 {
        let half = more.div_ceil(2);
        let is_higher = term(least + half) <= number;
        least = select_unpredictable(is_higher, least + half, least);
        more -= half;
    }
    (least, term(least))
}

/// The number that stands for the ring with these counts, the oldest first.
pub(super) fn rank(counts: impl Iterator<Item = u64>) -> u64 {
    let mut sum = 0;
    let mut number = 0;
    for (count, place) in counts.zip(1..) {
        sum += count;
        // Nothing overflows: each term and the sum of all terms are below the number of rings, which was checked when
        // the policy was made.
        number += term(sum, place);
    }
    number
}

/// The counts of the ring that a number stands for, newest first.
pub(super) fn unrank(mut number: u64, limit: u64, parts: u8) -> impl Iterator<Item = u64> {
    let mut above = None;
    let sums = (1..=parts).rev().map(move |place| {
        let (sum, term) = greatest(number, limit, place);
        number -= term;
        sum
    });
    // The counts are the differences of neighbouring sums. The lowest sum is the oldest count itself.
    sums.chain(std::iter::once(0)).filter_map(move |sum| {
        let above = above.replace(sum);
        above.map(|above: u64| above.saturating_sub(sum))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binomials_are_right() {
        assert_eq!(choose(106, 6), Some(1_705_904_746));
        assert_eq!(choose(5, 0), Some(1));
        assert_eq!(choose(5, 5), Some(1));
        assert_eq!(choose(4, 5), Some(0));
        assert_eq!(choose(64, 32), Some(1_832_624_140_942_590_534));
        assert_eq!(choose(u64::MAX, 2), None);
    }

    #[test]
    fn binomials_that_are_looked_up_are_those_that_are_computed() {
        for place in 1..=16 {
            for sum in 0..400 {
                let computed = choose(sum + u64::from(place) - 1, place.into());
                assert_eq!(term(sum, place), computed.unwrap_or(u64::MAX), "{sum}, {place}");
            }
        }
    }

    #[test]
    fn every_ring_has_its_own_number_below_the_number_of_rings() {
        let (limit, parts) = (5, 4);
        let total = rings(limit, parts).expect("small");
        assert_eq!(total, 126);
        let mut seen = std::collections::HashSet::new();
        for number in 0..total {
            let mut ring: Vec<u64> = unrank(number, limit, parts).collect();
            ring.reverse();
            assert_eq!(ring.len(), 4);
            assert!(ring.iter().sum::<u64>() <= limit);
            assert_eq!(rank(ring.iter().copied()), number);
            assert!(seen.insert(ring));
        }
    }

    #[test]
    fn the_empty_ring_is_zero() {
        assert_eq!(rank([0; 6].into_iter()), 0);
        assert!(unrank(0, 100, 6).all(|count| count == 0));
    }
}
