//! Measures what each design choice in the hot path gains, with kernels that differ in that one choice only. The
//! kernels are the steps of a table in miniature: hash, cache line, clock, load and compare-and-swap.

#![allow(clippy::cast_possible_truncation, reason = "no count here comes near 2^32")]

mod common;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ahash::RandomState;
use common::machine::prefetch;
use common::{KeyStream, on_threads, threads};
use criterion::Criterion;
use crossbeam_utils::CachePadded;

fn add_one(cell: &AtomicU64) -> bool {
    let mut held = cell.load(Relaxed);
    loop {
        match cell.compare_exchange_weak(held, held + 1, Relaxed, Relaxed) {
            Ok(_) => return true,
            Err(found) => held = found,
        }
    }
}

/// Each thread has a cell of its own. Compares cells side by side in one cache line with cells that are each in a line
/// of their own.
fn padded(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("padding/a cell for each thread");
    for threads in threads::counts() {
        let close: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
        on_threads(&mut group, "side by side", threads, |thread, _| add_one(&close[thread]));
        let apart: Vec<CachePadded<AtomicU64>> =
            (0..threads).map(|_| CachePadded::default()).collect();
        on_threads(&mut group, "padded", threads, |thread, _| add_one(&apart[thread]));
    }
    group.finish();
}

/// Compares weak and strong compare-and-swaps. A weak one may fail spuriously, but needs no loop on machines without a
/// strong compare-and-swap instruction. On x86-64 both are the same instruction.
fn strength(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("padding/compare-and-swap");
    for threads in [1, 2] {
        let cell = AtomicU64::new(0);
        on_threads(&mut group, "weak", threads, |_, _| add_one(&cell));
        let cell = AtomicU64::new(0);
        on_threads(&mut group, "strong", threads, |_, _| {
            let mut held = cell.load(Relaxed);
            while let Err(found) = cell.compare_exchange(held, held + 1, Relaxed, Relaxed) {
                held = found;
            }
            true
        });
    }
    group.finish();
}

/// Compares orders of the steps on a table of 16 MiB, which is larger than a core's own caches.
fn order(criterion: &mut Criterion) {
    const CELLS: u64 = 1 << 21;
    let cells: Vec<AtomicU64> = (0..CELLS).map(|_| AtomicU64::new(0)).collect();
    let hasher = RandomState::with_seeds(1, 2, 3, 4);
    let clock = quanta::Clock::new();
    let cell = |key: u64| &cells[(hasher.hash_one(key) % CELLS) as usize];
    // The strong compare-and-swap fails only if another thread has changed the word.
    let charge = |cell: &AtomicU64, held: u64, now: u64| match cell.compare_exchange(
        held,
        held.max(now) + 1,
        Relaxed,
        Relaxed,
    ) {
        Ok(replaced) => replaced == held,
        Err(found) => found != held,
    };
    let streams = [0, 1].map(|seed| KeyStream::uniform(CELLS, seed));
    let mut group = criterion.benchmark_group("padding/order");
    for threads in [1, 2] {
        on_threads(&mut group, "prefetch, clock, load", threads, |thread, nth| {
            let cell = cell(*streams[thread].at(nth));
            prefetch(cell);
            let now = clock.raw();
            charge(cell, cell.load(Relaxed), now)
        });
        on_threads(&mut group, "clock, load", threads, |thread, nth| {
            let cell = cell(*streams[thread].at(nth));
            let now = clock.raw();
            charge(cell, cell.load(Relaxed), now)
        });
        on_threads(&mut group, "load, clock", threads, |thread, nth| {
            let cell = cell(*streams[thread].at(nth));
            let held = cell.load(Relaxed);
            charge(cell, held, clock.raw())
        });
    }
    group.finish();
}

fn main() {
    threads::run(|criterion| {
        padded(criterion);
        strength(criterion);
        order(criterion);
    });
}
