//! [`ServiceTotal`]: the atomic that requests and their times are counted in.

use std::sync::atomic::{AtomicU64, Ordering};

/// A count that every request adds to and the metrics page reads.
#[derive(Debug, Default)]
pub(super) struct ServiceTotal(AtomicU64);

impl ServiceTotal {
    pub(super) fn add(&self, by: u64) {
        // Relaxed: no thread that reads the count goes on to memory that this one has written before (see `get`).
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        // Relaxed: a count stands by itself. A page may show a request in one figure and not yet in another.
        self.0.load(Ordering::Relaxed)
    }
}
