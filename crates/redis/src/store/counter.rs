//! [`StoreTotal`]: the atomic counter for each figure of a store. The busiest figure is counted in several *lanes*, one
//! for each group of threads.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A count that many threads add to and a report reads.
#[derive(Debug, Default)]
pub(crate) struct StoreTotal(AtomicU64);

impl StoreTotal {
    pub(crate) fn add(&self, by: u64) {
        // Relaxed: a thread that reads the count relies on no other memory of this thread (see `get`).
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // Relaxed: the count orders no other memory. Counts that belong together may be read at slightly different
        // times.
        self.0.load(Ordering::Relaxed)
    }
}

/// The number of lanes of the counter that every decision within a lease adds to. If it were one word, waiting for its
/// cache line would be the longest step of such a decision.
pub(crate) const LANES: usize = 8;

/// A lane that has two cache lines to itself, since some processors fetch cache lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct CounterLane(pub(crate) StoreTotal);

/// The index of the lane that this thread adds to, below [`LANES`].
pub(crate) fn lane() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // Relaxed: threads only have to get different numbers; a number says nothing about other memory.
        static LANE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % LANES;
    }
    // A thread that is ending no longer has a lane.
    LANE.try_with(|lane| *lane).unwrap_or_default()
}
