//! [`StoreTotal`]: the atomic that every figure of a store is counted in; and lanes of it, for the busiest.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A count that many threads add to and a report reads.
#[derive(Debug, Default)]
pub(crate) struct StoreTotal(AtomicU64);

impl StoreTotal {
    pub(crate) fn add(&self, by: u64) {
        // Relaxed: no thread that reads the count goes on to memory that this one has written before (see `get`).
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // Relaxed: a count stands by itself. Of two that belong together one may be read without what was added last.
        self.0.load(Ordering::Relaxed)
    }
}

/// Lanes of the counter that every decision within a lease adds to: with one word, threads would wait for its cache
/// line longer than for anything else.
pub(crate) const LANES: usize = 8;

/// A lane, on cache lines of its own: two, since some processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct CounterLane(pub(crate) StoreTotal);

/// Which lane this thread adds to.
pub(crate) fn lane() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // Relaxed: threads only have to get different numbers; a number says nothing about other memory.
        static LANE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % LANES;
    }
    // A thread that is ending has no lane any more.
    LANE.try_with(|lane| *lane).unwrap_or_default()
}
