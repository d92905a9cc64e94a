//! Maps a key to its cells, one in each row.
//!
//! The key is hashed once. The hasher's state gives two hashes: one at the end of the key, and one after a constant has
//! been written as well. For each row these two hashes are mixed. A separate hash for each row would have to read the
//! key once per row. Double hashing, `first + row * second` (Kirsch and Mitzenmacher, Less Hashing, Same Performance,
//! 2006), is cheaper than a mix. But with double hashing, two keys that share their cells in two rows share their cells
//! in all rows. With w cells in a row this happens to about one pair of keys in w^2. In a small sketch this is far more
//! often than [`SketchSize`](super::SketchSize) promises. A mix of all 128 bits makes the rows independent of each
//! other, except for one pair of keys in 2^128. This requires that the state of the hasher has at least 128 bits, as in
//! aHash and SipHash. Two keys that have only one of the two hashes in common need not share a cell. Two keys that
//! leave the hasher in the same state share all cells, and have one limit.

use std::hash::{BuildHasher, Hash, Hasher};

use crate::hash::scale;

/// The largest number of rows of a sketch. If a quarter of the cells is live, 8 rows refuse 1 key in 65,536 wrongly.
pub(crate) const ROWS_MAX: usize = 8;

/// 2^64 divided by the golden ratio: multiples of it differ in all their bits (Knuth, TAOCP 3, 6.4).
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The cells of a key. The cells of all rows are numbered from 0, row after row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    cells: [usize; ROWS_MAX],
    rows: usize,
}

impl Places {
    /// The cells of a key with these two hashes. At most [`ROWS_MAX`] rows.
    #[inline(always)]
    pub(crate) fn of([one, other]: [u64; 2], rows: usize, cells_per_row: usize) -> Self {
        let mut places = Self { cells: [0; ROWS_MAX], rows };
        let mut salt = 0_u64;
        let mut start = 0;
        for cell in places.cells.iter_mut().take(rows) {
            // Each row has another salt, so that the mixes are independent.
            salt = salt.wrapping_add(GOLDEN);
            *cell = start + scale(mix(one ^ salt, other), cells_per_row);
            start += cells_per_row;
        }
        places
    }

    /// The same cells in another sketch, whose first cell is `first`. This is for several sketches in one array.
    pub(crate) fn starting_at(mut self, first: usize) -> Self {
        for cell in &mut self.cells[..self.rows.min(ROWS_MAX)] {
            *cell += first;
        }
        self
    }

    /// The cells, one in each row, in the order of the rows.
    #[inline(always)]
    pub(crate) fn cells(&self) -> &[usize] {
        // The slice is no longer than the array.
        &self.cells[..self.rows.min(ROWS_MAX)]
    }
}

/// The hasher of keys, with the number of rows and of cells in each row.
#[derive(Clone, Debug)]
pub(super) struct Placer<S> {
    hasher: S,
    rows: usize,
    cells_per_row: usize,
}

impl<S: BuildHasher> Placer<S> {
    /// At most [`ROWS_MAX`] rows.
    pub(super) fn new(hasher: S, rows: usize, cells_per_row: usize) -> Self {
        Self { hasher, rows, cells_per_row }
    }

    #[inline(always)]
    pub(super) fn places<K: Hash + ?Sized>(&self, key: &K) -> Places {
        let mut hasher = self.hasher.build_hasher();
        key.hash(&mut hasher);
        let one = hasher.finish();
        // `finish` does not reset the hasher, so a later write extends the key.
        hasher.write_u64(GOLDEN);
        Places::of([one, hasher.finish()], self.rows, self.cells_per_row)
    }
}

/// Mixes two numbers. The two halves of their product are combined, so that every bit of the result depends on every
/// bit of both numbers.
#[expect(clippy::cast_possible_truncation, reason = "the low half is asked for")]
#[inline(always)]
pub(crate) fn mix(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use ahash::RandomState;

    use super::*;
    use crate::hash::tests::is_even;

    const KEYS: u64 = 1 << 18;

    fn placer(rows: usize, cells_per_row: usize) -> Placer<RandomState> {
        let seeds = |n| RandomState::with_seeds(n, n + 1, n + 2, n + 3);
        Placer::new(seeds(1), rows, cells_per_row)
    }

    /// Keys with patterns on which weak hashes are known to collide.
    const PATTERNS: [fn(u64) -> u64; 4] = [|n| n, |n| n << 30, |n| n * 4096, u64::reverse_bits];

    #[test]
    fn every_row_is_even_and_no_row_tells_another() {
        let placer = placer(ROWS_MAX, 1024);
        for (number, key) in PATTERNS.into_iter().enumerate() {
            let cell = |n: u64, row: usize| placer.places(&key(n)).cells()[row] - row * 1024;
            for row in 0..ROWS_MAX {
                assert!(is_even((0..KEYS).map(|n| cell(n, row))), "pattern {number}, row {row}");
                for other in 0..row {
                    let pairs = (0..KEYS).map(|n| cell(n, row) ^ cell(n, other));
                    assert!(is_even(pairs), "pattern {number}, rows {other} and {row}");
                }
            }
        }
    }

    #[test]
    fn a_row_that_tells_another_is_caught() {
        let placer = placer(2, 1024);
        let first = |n: u64| placer.places(&n).cells()[0];
        assert!(!is_even((0..KEYS).map(|n| first(n) ^ ((first(n) + 1) % 1024))));
    }

    #[test]
    fn as_many_keys_share_all_their_cells_as_chance_will_have_it() {
        // 8,192 keys are 33.6 million pairs. In three rows of 64 cells, one pair in 64^3 shares all three cells, so 128
        // pairs are expected. (Double hashing gives about 3,000.)
        let placer = placer(3, 64);
        let mut alike = HashMap::<Vec<usize>, u64>::new();
        for key in 0..8_192_u64 {
            *alike.entry(placer.places(&key).cells().to_vec()).or_default() += 1;
        }
        let pairs: u64 = alike.values().map(|keys| keys * (keys - 1) / 2).sum();
        assert!((94..162).contains(&pairs), "{pairs}"); // within 3 standard deviations
    }

    #[test]
    fn every_cell_is_within_its_row() {
        for rows in 1..=ROWS_MAX {
            for cells_per_row in [1, 2, 3, 1_000] {
                let placer = placer(rows, cells_per_row);
                for key in 0..100_u64 {
                    let places = placer.places(&key);
                    assert_eq!(places.cells().len(), rows);
                    for (row, cell) in places.cells().iter().enumerate() {
                        assert_eq!(cell / cells_per_row, row);
                    }
                }
            }
        }
    }
}
