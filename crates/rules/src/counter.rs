//! [`RuleTotal`]: the atomic counter behind every figure of this crate.

use std::sync::atomic::{AtomicU64, Ordering};

/// A count that many threads add to and a report reads.
#[derive(Debug, Default)]
pub(crate) struct RuleTotal(AtomicU64);

impl RuleTotal {
    pub(crate) fn add(&self, by: u64) {
        // Relaxed: no thread that reads the count goes on to memory that this one has written before (see `get`).
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // Relaxed: a count stands by itself. If two counts belong together, a reader may see the latest addition in one
        // and not yet in the other.
        self.0.load(Ordering::Relaxed)
    }
}
