//! The floor is the least that a keyed limiter of any design has to do on a table of this size. It hashes the key,
//! prefetches the cell's line, reads the counter, loads the cell and writes it by compare-and-swap. It compares no key
//! and decides nothing.

use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ahash::RandomState;

use super::Boxed;
use super::policies::DESIGN_LOAD;
use crate::contender::{many, single};
use crate::machine::prefetch_to_write;

/// The cells, and the hasher that chooses one of them.
struct FloorCells {
    cells: Box<[AtomicU64]>,
    hasher: RandomState,
}

impl FloorCells {
    /// As many bytes as Tollgate's table for `keys` keys.
    fn new(keys: u64) -> Self {
        let cells = (0..keys * 100 / DESIGN_LOAD * 8 / 7 + 8).map(|_| AtomicU64::new(0)).collect();
        Self { cells, hasher: RandomState::new() }
    }

    /// The cell of a key. The prefetch of its cache line has begun.
    #[inline(always)]
    fn fetch<K: Hash>(&self, key: &K) -> &AtomicU64 {
        let hash = u128::from(self.hasher.hash_one(key));
        let cell = &self.cells[((hash * self.cells.len() as u128) >> 64) as usize];
        prefetch_to_write(cell);
        cell
    }
}

#[inline(always)]
fn exchange(cell: &AtomicU64, now: u64) -> bool {
    let held = cell.load(Relaxed);
    cell.compare_exchange(held, held.max(now) + 1, Relaxed, Relaxed).is_ok()
}

pub(crate) fn keyed<K: Hash + 'static>(keys: u64) -> Boxed<K> {
    let cells = FloorCells::new(keys);
    let clock = quanta::Clock::new();
    single("floor", move |key: &K| {
        let cell = cells.fetch(key);
        exchange(cell, clock.raw())
    })
}

/// The floor with 128 more instructions that do not wait for the cell's cache line. A decision that compares keys and
/// computes has about as many. A core looks ahead by a fixed number of instructions, so the added ones limit how many
/// lines it fetches at a time.
pub(crate) fn laden<K: Hash + 'static>(keys: u64) -> Boxed<K> {
    let cells = FloorCells::new(keys);
    let clock = quanta::Clock::new();
    single("floor, and 128 instructions", move |key: &K| {
        let cell = cells.fetch(key);
        let now = clock.raw();
        // No compiler can vectorise products of 64 bits, because there is no such vector instruction.
        let turn = |lanes: [u64; 4], step: u64| {
            lanes.map(|lane| lane.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ step)
        };
        let lanes = (0..16).fold([now, now + 1, now + 2, now + 3], turn);
        exchange(cell, now + (lanes.into_iter().fold(0, |all, lane| all ^ lane) >> 62))
    })
}

/// The floor of a decision at a time that the caller gives. It does not read the CPU's counter.
pub(crate) fn callers_now<K: Hash + 'static>(keys: u64) -> Boxed<K> {
    let cells = FloorCells::new(keys);
    many("floor, caller's now", move |keys: &[K]| {
        let times = (1..).map(|step| step * 20);
        keys.iter().zip(times).map(|(key, now)| u64::from(exchange(cells.fetch(key), now))).sum()
    })
}

/// The floor of a batch. It prefetches all lines of the batch, reads the counter once, and writes each cell by
/// compare-and-swap.
pub(crate) fn many_of<K: Hash + 'static>(keys: u64, size: usize) -> Boxed<K> {
    let cells = FloorCells::new(keys);
    let clock = quanta::Clock::new();
    many(&format!("floor, batch of {size}"), move |keys: &[K]| {
        let mut places = [&cells.cells[0]; 32];
        let mut exchanged = 0;
        for batch in keys.chunks(size) {
            for (key, place) in batch.iter().zip(&mut places) {
                *place = cells.fetch(key);
            }
            let now = clock.raw();
            for place in &places[..batch.len()] {
                exchanged += u64::from(exchange(place, now));
            }
        }
        exchanged
    })
}

/// Reads the counter, loads one word and writes it by compare-and-swap.
pub(crate) fn direct() -> Boxed<()> {
    let cell = AtomicU64::new(0);
    let clock = quanta::Clock::new();
    single("floor", move |()| {
        let now = clock.raw();
        let held = cell.load(Relaxed);
        cell.compare_exchange_weak(held, held.max(now) + 1, Relaxed, Relaxed).is_ok()
    })
}
