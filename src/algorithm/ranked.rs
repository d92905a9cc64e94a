//! Many small counts in few bits, when they share one limit.
//!
//! n counts whose sum is at most L need not n times the bits of L: there are only C(L + n, n) such
//! rings, so a number below that names one. Six counts that sum to at most 100 take 31 bits instead of
//! 42. The price is a few hundred multiplications each way, so this is used only for rings that would
//! not fit otherwise.
//!
//! The number is that of the combinatorial number system (Knuth, TAOCP 4A, 7.2.1.3): with
//! `b_i = c_1 + ... + c_i + i - 1`, strictly rising, it is `C(b_1, 1) + C(b_2, 2) + ... + C(b_n, n)`.

/// `n` choose `k`, or `None` if that or a number on the way to it is not below 2^64.
pub(crate) fn choose(n: u64, k: u64) -> Option<u64> {
    (0..k).try_fold(1_u64, |product, taken| {
        let Some(left) = n.checked_sub(taken) else { return Some(0) };
        // Exact: the product of j + 1 consecutive numbers is divisible by (j + 1)!.
        let next = u128::from(product) * u128::from(left) / u128::from(taken + 1);
        u64::try_from(next).ok()
    })
}

/// How many rings of `parts` counts there are whose sum is at most `limit`, if below 2^64.
pub(crate) fn rings(limit: u64, parts: u8) -> Option<u64> {
    choose(limit.checked_add(u64::from(parts))?, u64::from(parts))
}

/// The number of a ring.
pub(super) fn rank(counts: impl Iterator<Item = u64>) -> u64 {
    let mut before = 0;
    let mut number = 0;
    for (count, place) in counts.zip(1..) {
        before += count;
        // Every term, and the sum, is below the number of rings, which the policy checked.
        number += choose(before + place - 1, place).unwrap_or(0);
    }
    number
}

/// The ring of a number, last count first.
pub(super) fn unrank(mut number: u64, limit: u64, parts: u8) -> impl Iterator<Item = u64> {
    let mut sum_above = None;
    let sums = (1..=u64::from(parts)).rev().map(move |place| {
        // The greatest sum up to here whose term is not above what is left of the number.
        let (mut least, mut most) = (0, limit);
        while least < most {
            let middle = least + (most - least).div_ceil(2);
            match choose(middle + place - 1, place) {
                Some(term) if term <= number => least = middle,
                _ => most = middle - 1,
            }
        }
        number -= choose(least + place - 1, place).unwrap_or(0);
        least
    });
    // Differences of neighbouring sums are the counts; the lowest sum is the first count itself.
    sums.chain(std::iter::once(0)).filter_map(move |sum| {
        let above = sum_above.replace(sum);
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
