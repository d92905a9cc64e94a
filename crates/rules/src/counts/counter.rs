//! [`RuleTotal`]: an atomic counter for the figures that this crate reports.

use std::sync::atomic::{AtomicU64, Ordering};

/// A count that many threads add to and a report reads.
#[derive(Debug, Default)]
pub(crate) struct RuleTotal(AtomicU64);

impl RuleTotal {
    pub(crate) fn add(&self, by: u64) {
        // Relaxed: no thread that reads the count relies on other memory that the adding thread has written.
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // Relaxed: no reader combines a count with other memory. If two counts belong together, a reader may see the
        // latest addition in one of them and not yet in the other.
        self.0.load(Ordering::Relaxed)
    }
}
