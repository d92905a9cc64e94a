//! The floor: the least that a keyed limiter of any design has to do on a table of this size. It hashes
//! the key, asks for the cell's line, reads the counter, loads the cell and exchanges it. It compares no
//! key and decides nothing.

use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ahash::RandomState;

use super::Boxed;
use crate::contender::single;
use crate::machine::prefetch;

/// As many bytes as Tollgate's table for so many keys.
pub(crate) fn keyed<K: Hash + 'static>(keys: u64) -> Boxed<K> {
    let cells: Box<[AtomicU64]> =
        (0..keys * 100 / 65 * 8 / 7 + 8).map(|_| AtomicU64::new(0)).collect();
    let hasher = RandomState::new();
    let clock = quanta::Clock::new();
    single("floor", move |key: &K| {
        let hash = u128::from(hasher.hash_one(key));
        let cell = &cells[((hash * cells.len() as u128) >> 64) as usize];
        prefetch(cell);
        let now = clock.raw();
        let held = cell.load(Relaxed);
        cell.compare_exchange(held, held.max(now) + 1, Relaxed, Relaxed).is_ok()
    })
}

/// Reads the counter, loads and exchanges one word.
pub(crate) fn direct() -> Boxed<()> {
    let cell = AtomicU64::new(0);
    let clock = quanta::Clock::new();
    single("floor", move |()| {
        let now = clock.raw();
        let held = cell.load(Relaxed);
        cell.compare_exchange_weak(held, held.max(now) + 1, Relaxed, Relaxed).is_ok()
    })
}
