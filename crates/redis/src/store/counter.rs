//! [`StoreTotal`]: the atomic counter behind each figure of the store's statistics. The busiest figure is counted in
//! several *lanes*, one for each group of threads.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A count to which many threads add, and which a report reads.
#[derive(Debug, Default)]
pub(crate) struct StoreTotal(AtomicU64);

impl StoreTotal {
    pub(crate) fn add(&self, by: u64) {
        // Relaxed: whoever reads the count reads no other memory because of it (see `get`).
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // Relaxed: the count orders no other memory. Counts that belong together may be read at slightly different
        // times.
        self.0.load(Ordering::Relaxed)
    }
}

/// The number of lanes of the counter that every decision within a lease adds to. If that counter were one word,
/// waiting for its cache line would be the longest step of such a decision.
pub(crate) const LANES: usize = 8;

/// A lane that has two cache lines to itself, since some processors fetch cache lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct CounterLane(pub(crate) StoreTotal);

/// The index of the lane that this thread adds to, below [`LANES`].
pub(crate) fn lane() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // Relaxed: threads only have to get different numbers, and read no other memory because of them.
        static LANE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % LANES;
    }
    // A thread that is ending has no lane any more, and adds to lane 0.
    LANE.try_with(|lane| *lane).unwrap_or_default()
}
