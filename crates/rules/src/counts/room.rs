//! [`Room`]: bounds the number of things that take memory for a long time.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::counts::counter::RuleTotal;

/// A bounded number of places, and a count of the requests that found no free place.
#[derive(Debug)]
pub(crate) struct Room {
    max: usize,
    live: AtomicUsize,
    pub(crate) refused: RuleTotal,
}

impl Room {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, live: AtomicUsize::new(0), refused: RuleTotal::default() }
    }

    /// The number of places that are taken.
    pub(crate) fn live(&self) -> usize {
        // Relaxed: a figure for display.
        self.live.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self) -> bool {
        // Relaxed: the number alone keeps the bound, and no other memory is published with it.
        let more = |live| (live < self.max).then_some(live + 1);
        self.live.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    pub(crate) fn give_back(&self, places: usize) {
        // Relaxed, for the same reason as in `take`.
        self.live.fetch_sub(places, Ordering::Relaxed);
    }
}
