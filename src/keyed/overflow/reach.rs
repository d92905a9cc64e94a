//! How far ahead the marks of a spill reach.

use crate::keyed::memory::shard::GRANULE_BITS;
use crate::keyed::quotas::book::Book;

/// In a table of several quotas a mark reaches this many epochs beyond its charge: twice as many as the longest debt
/// takes to drain (see the head of `settle.rs`).
const REACH_EPOCHS: u64 = 16;

/// [`REACH_EPOCHS`] in nanoseconds.
pub(in crate::keyed) fn reach_ns(book: &Book) -> u64 {
    let epoch = book.shared().division().epoch;
    // One granule is added, since an epoch is compared in whole granules. If epochs are centuries long, the mark lies
    // beyond all times, and the sketch is always read.
    epoch.saturating_add(1).saturating_mul(REACH_EPOCHS).saturating_mul(1 << GRANULE_BITS)
}
