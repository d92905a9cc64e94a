//! [`Tallies`]: counts of those events of a table that are off the hot path.

use crossbeam_utils::CachePadded;

use crate::sync::{Ordering, Tally};

/// Counters are spread over this many lines, so that installs in different shards seldom share a
/// line.
// Only installs, requests in the spill and denials for lack of a cell are counted, so few cores meet in one line. All
// lines together take a kilobyte per table.
const STRIPES: usize = 8;

/// Counts of events off the hot path. A hit is not counted.
#[derive(Debug, Default)]
pub(in crate::keyed) struct Tallies {
    stripes: [CachePadded<Stripe>; STRIPES],
}

#[derive(Debug, Default)]
pub(in crate::keyed) struct Stripe {
    pub(in crate::keyed) reclaimed: Tally,
    pub(in crate::keyed) full: Tally,
    pub(in crate::keyed) spilled: Tally,
    pub(in crate::keyed) contended: Tally,
}

impl Tallies {
    fn stripe(&self, shard: usize) -> &Stripe {
        // The stripe is chosen by the shard, which is known here. A thread's number would have to be looked up first.
        &self.stripes[shard % STRIPES]
    }

    pub(in crate::keyed) fn reclaimed(&self, shard: usize, cells: u64) {
        // Relaxed: a statistic orders nothing.
        self.stripe(shard).reclaimed.fetch_add(cells, Ordering::Relaxed);
    }

    pub(in crate::keyed) fn full(&self, shard: usize, denials: u64) {
        // Relaxed: as in `reclaimed`.
        self.stripe(shard).full.fetch_add(denials, Ordering::Relaxed);
    }

    pub(in crate::keyed) fn spilled(&self, shard: usize, requests: u64) {
        // Relaxed: as in `reclaimed`.
        self.stripe(shard).spilled.fetch_add(requests, Ordering::Relaxed);
    }

    pub(in crate::keyed) fn contended(&self, shard: usize) {
        // Relaxed: as in `reclaimed`.
        self.stripe(shard).contended.fetch_add(1, Ordering::Relaxed);
    }

    pub(in crate::keyed) fn sum(&self, counter: impl Fn(&Stripe) -> &Tally) -> u64 {
        // Relaxed: as in `reclaimed`. The stripes are read one after the other while threads go on
        // counting, so the sum does not show a single moment.
        self.stripes.iter().map(|stripe| counter(stripe).load(Ordering::Relaxed)).sum()
    }
}
