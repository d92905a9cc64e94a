//! A method for the models of `loom-tests`, which need keys that share cells.

use std::hash::{BuildHasher, Hash};

use super::SketchLimiter;

impl<K: Hash + ?Sized, S: BuildHasher> SketchLimiter<K, S> {
    /// The index of the key's cell in each row, counted from the beginning of the row.
    #[doc(hidden)]
    #[must_use]
    pub fn cells_of(&self, key: &K) -> Vec<usize> {
        let places = self.placer.places(key);
        places.cells().iter().map(|place| place % self.size.cells_per_row()).collect()
    }
}
