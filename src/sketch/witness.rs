//! A method for the models of `loom-tests`, which need to know the keys that share cells.

use std::hash::{BuildHasher, Hash};

use super::SketchLimiter;

impl<K: Hash + ?Sized, S: BuildHasher> SketchLimiter<K, S> {
    /// The key's cell in each row, counted from the row's first.
    #[doc(hidden)]
    #[must_use]
    pub fn cells_of(&self, key: &K) -> Vec<usize> {
        let places = self.placer.places(key);
        places.cells().iter().map(|place| place % self.size.cells_per_row()).collect()
    }
}
