//! [`StoreTotal`]: the atomic that every figure of a store is counted in, and lanes of it for the busiest figure.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A count that many threads add to and a report reads.
#[derive(Debug, Default)]
pub(crate) struct StoreTotal(AtomicU64);

impl StoreTotal {
    pub(crate) fn add(&self, by: u64) {
        // Relaxed: no thread that reads the count relies on other memory that this thread has written (see `get`).
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // Relaxed: a count stands by itself. Two counts that belong together may be read at slightly different times.
        self.0.load(Ordering::Relaxed)
    }
}

/// The number of lanes of the counter that every decision within a lease adds to. With one word, threads would wait for
/// its cache line longer than for anything else.
pub(crate) const LANES: usize = 8;

/// A lane, on two cache lines of its own, since some processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct CounterLane(pub(crate) StoreTotal);

/// The lane that this thread adds to.
pub(crate) fn lane() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // Relaxed: threads only have to get different numbers; a number says nothing about other memory.
        static LANE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % LANES;
    }
    // A thread that is ending no longer has a lane.
    LANE.try_with(|lane| *lane).unwrap_or_default()
}
