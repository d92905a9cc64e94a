//! Segmented window: the window is a ring of n segments, each with its own count.
//!
//! The word is (segment index, n counts, the current one lowest). When time moves on by a segment the
//! oldest count falls off.
//!
//! ```text
//! admit iff  sum of the last n segments, the current one included, + cost <= limit
//! ```
//!
//! Most in any interval of length W: 2 * limit; in any closed interval of length W * (n-1)/n: limit. A
//! `now` before the stored segment counts as that segment's start.

use super::{Held, Moment, window_start_ns};

/// A ring of segments on the clock's grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentedWindow {
    segment_ns: u64,
    limit: u64,
    segments: u8,
    count_bits: u8,
}

impl SegmentedWindow {
    /// `count_bits` hold every number up to the limit, and `segments * count_bits` is below 64.
    pub(crate) const fn new(limit: u64, segment_ns: u64, segments: u8, count_bits: u8) -> Self {
        Self { segment_ns, limit, segments, count_bits }
    }

    #[inline]
    pub(super) fn moment(&self, at_ns: u64) -> Moment {
        Moment { unit: at_ns / self.segment_ns, into_ns: at_ns % self.segment_ns }
    }

    #[inline]
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// The ring in force: shifted by the segments that have passed, the oldest counts fallen off.
    fn turn(&self, held: Held) -> Held {
        if held.behind >= u64::from(self.segments) {
            return Held { counts: 0, behind: 0, ..held };
        }
        let ring_bits = u64::from(self.segments) * u64::from(self.count_bits);
        let shifted = held.counts << (held.behind * u64::from(self.count_bits));
        Held { counts: shifted & ((1 << ring_bits) - 1), behind: 0, ..held }
    }

    /// The count of the segment `age` segments back.
    fn count(&self, counts: u64, age: u8) -> u64 {
        (counts >> (u32::from(age) * u32::from(self.count_bits))) & ((1 << self.count_bits) - 1)
    }

    fn sum(&self, counts: u64) -> u64 {
        (0..self.segments).map(|age| self.count(counts, age)).sum()
    }

    #[inline]
    pub(super) fn step(&self, held: Held, cost: u64) -> Option<Held> {
        let ring = self.turn(held);
        // The sum never exceeds the limit, so the current count cannot spill into its neighbour.
        (self.sum(ring.counts) <= self.limit - cost)
            .then(|| Held { counts: ring.counts + cost, ..ring })
    }

    pub(super) fn remaining(&self, held: Held) -> u64 {
        self.limit.saturating_sub(self.sum(self.turn(held).counts))
    }

    pub(super) fn ready_ns(&self, held: Held, at_ns: u64, cost: u64) -> u64 {
        let Held { ahead, counts, .. } = self.turn(held);
        let mut used = self.sum(counts);
        for passed in 0..=self.segments {
            if used <= self.limit - cost {
                return match passed {
                    0 => at_ns,
                    _ => window_start_ns(
                        at_ns,
                        self.segment_ns,
                        ahead.saturating_add(u64::from(passed)),
                    ),
                };
            }
            if passed < self.segments {
                used -= self.count(counts, self.segments - 1 - passed);
            }
        }
        u64::MAX // not reached: after n segments nothing is used, and cost <= limit
    }

    /// Idle is: the whole limit would be admitted.
    pub(super) fn idle_ns(&self, held: Held, at_ns: u64) -> u64 {
        self.ready_ns(held, at_ns, self.limit)
    }
}
