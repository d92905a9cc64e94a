//! Segmented window: the window is a ring of n segments, each with its own count.
//!
//! The word is (segment index, n counts), with the current count lowest. When a segment ends, the oldest count leaves
//! the ring. If the counts do not fit side by side, the word holds the sum of all counts and a number that stands for
//! the ring of the older counts, see [`super::ranked`]. Within a segment only the sum is read and changed. If these two
//! numbers do not fit either, the word holds one number that stands for the whole ring, and a search finds the sum in
//! that number.
//!
//! ```text
//! admit iff  sum of the last n segments, the current one included, + cost <= limit
//! ```
//!
//! At most 2 * limit units are admitted in any interval of length W, and at most limit units in any closed interval of
//! length W * (n-1)/n. A `now` before the stored segment is replaced by the start of that segment.

use super::fixed_window::window_start_ns;
use super::ranked::{Packing, greatest, rank, term, unrank};
use super::{Held, Moment};
use crate::divisor::Divisor;

/// A ring of segments on the clock's grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentedWindow {
    pub(super) segment: Divisor,
    pub(super) limit: u64,
    pub(super) segments: u8,
    pub(super) count_bits: u8,
    pub(super) packing: Packing,
}

/// The counts side by side, with the current count in the lowest bits.
type RingBits = u128;

impl SegmentedWindow {
    /// `count_bits` is enough for every number up to the limit, and `segments * count_bits` is below 128.
    pub(crate) const fn new(
        limit: u64,
        segment_ns: u64,
        segments: u8,
        count_bits: u8,
        packing: Packing,
    ) -> Self {
        Self { segment: Divisor::new(segment_ns), limit, segments, count_bits, packing }
    }

    /// Takes the counts of a word that has the same segments but another limit or packing, and packs them as this
    /// window does. For each k, the sum of the k newest counts stays the same, or is cut to the limit.
    pub(super) fn repacked(&self, other: &Self, held: Held) -> Held {
        let ring = other.turn(Held { behind: 0, ..held });
        // The newest segment comes first, so that a smaller limit cuts off units of the oldest segments.
        let (mut own, mut left) = (0, self.limit);
        for age in 0..self.segments {
            let count = other.count(ring, age).min(left);
            left -= count;
            own |= RingBits::from(count) << (u32::from(age) * u32::from(self.count_bits));
        }
        Held { counts: self.counts(own), ..held }
    }

    #[inline(always)]
    pub(super) fn moment(&self, at_ns: u64) -> Moment {
        Moment { unit: self.segment.divide(at_ns).0, into_ns: 0 }
    }

    #[inline]
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn packing(&self) -> Packing {
        self.packing
    }

    /// True if the word does not hold its counts side by side.
    fn is_ranked(&self) -> bool {
        self.packing != Packing::SIDE_BY_SIDE
    }

    /// The ring in force: the stored ring without the counts of the segments that have left the window.
    fn turn(&self, held: Held) -> RingBits {
        // Every count has left the ring.
        if held.behind >= u64::from(self.segments) {
            return 0;
        }
        let ring =
            if self.is_ranked() { self.unrank(held.counts) } else { RingBits::from(held.counts) };
        let ring_bits = u32::from(self.segments) * u32::from(self.count_bits);
        // Each count moves back by one place for each segment that has passed. A count that is shifted out of the ring
        // is dropped.
        (ring << (held.behind * u64::from(self.count_bits))) & ((1 << ring_bits) - 1)
    }

    /// The sum of all counts, and the number that stands for the older counts.
    #[inline]
    fn parted(&self, counts: u64) -> (u64, u64) {
        let Some(rank_bits) = self.packing.rank_bits() else {
            // The last term of the ring's number is the term of the sum.
            let (sum, last) = greatest(counts, self.limit, self.segments);
            return (sum, counts - last);
        };
        // The sum is in the bits above the number of the older counts.
        (counts >> rank_bits, counts & ((1 << rank_bits) - 1))
    }

    /// The inverse of [`Self::parted`].
    #[inline]
    fn joined(&self, sum: u64, older: u64) -> u64 {
        match self.packing.rank_bits() {
            Some(rank_bits) => sum << rank_bits | older,
            None => older + term(sum, self.segments),
        }
    }

    fn unrank(&self, counts: u64) -> RingBits {
        let (sum, number) = self.parted(counts);
        // The sum is at most the limit in a word that this window has written, but may be larger in a restored word.
        let mut newest = sum.min(self.limit);
        let mut ring = 0;
        for (count, age) in unrank(number, newest, self.segments - 1).zip(1_u32..) {
            newest -= count;
            ring |= RingBits::from(count) << (age * u32::from(self.count_bits));
        }
        ring | RingBits::from(newest)
    }

    /// Packs a ring into the counts of a word.
    fn counts(&self, ring: RingBits) -> u64 {
        if self.is_ranked() {
            let older = rank((1..self.segments).rev().map(|age| self.count(ring, age)));
            return self.joined(self.sum(ring), older);
        }
        #[expect(clippy::cast_possible_truncation, reason = "not ranked: it fits in the word")]
        let counts = ring as u64;
        counts
    }

    /// The count of the segment `age` segments back.
    fn count(&self, ring: RingBits, age: u8) -> u64 {
        let aged = ring >> (u32::from(age) * u32::from(self.count_bits));
        #[expect(clippy::cast_possible_truncation, reason = "one count, at most the limit")]
        let count = (aged & ((1 << self.count_bits) - 1)) as u64;
        count
    }

    fn sum(&self, ring: RingBits) -> u64 {
        (0..self.segments).map(|age| self.count(ring, age)).sum()
    }

    #[inline(always)]
    pub(super) fn step(&self, held: Held, _: Moment, cost: u64) -> Option<Held> {
        // Usually the segment has not changed, and then the sum alone decides.
        if let (Some(rank_bits), 0) = (self.packing.rank_bits(), held.behind) {
            let counts = held.counts.wrapping_add(cost << rank_bits);
            let fits = held.counts >> rank_bits <= self.limit - cost;
            return fits.then_some(Held { counts, ..held });
        }
        self.step_by_ring(held, cost)
    }

    #[inline(never)]
    fn step_by_ring(&self, held: Held, cost: u64) -> Option<Held> {
        if self.packing == Packing::RANKED && held.behind == 0 {
            // In the same segment the older counts keep their number: only the term of the sum changes.
            let (sum, older) = self.parted(held.counts);
            let fits = sum <= self.limit - cost;
            return fits.then(|| Held { counts: self.joined(sum + cost, older), ..held });
        }
        // A new segment has begun, or the counts stand side by side.
        let ring = self.turn(held);
        if self.sum(ring) > self.limit - cost {
            return None;
        }
        // The sum never exceeds the limit, so the current count cannot overflow into its neighbour.
        let counts = self.counts(ring + RingBits::from(cost));
        Some(Held { ahead: held.ahead, behind: 0, counts })
    }

    /// The state after the addition of `cost` units that were admitted elsewhere.
    ///
    /// The sum stops at the limit: units of the oldest segments are dropped to make room for the new ones. So for each
    /// k, the sum of the k newest segments grows by the cost, up to the limit. If the new units were dropped instead,
    /// they would be missing after the oldest segments have left the window.
    pub(super) fn add(&self, held: Held, cost: u64) -> Held {
        let mut ring = self.turn(held);
        let cost = cost.min(self.limit);
        let mut above = (self.sum(ring) + cost).saturating_sub(self.limit);
        // Units are dropped, those of the oldest segments first, until there is room for the new units.
        for age in (1..self.segments).rev() {
            let cut = above.min(self.count(ring, age));
            ring -= RingBits::from(cut) << (u32::from(age) * u32::from(self.count_bits));
            above -= cut;
        }
        // If the sum is still above the limit, the older segments are empty, and the current count stops at the limit.
        let current = self.count(ring, 0) + cost - above;
        let ring = ring - RingBits::from(self.count(ring, 0)) + RingBits::from(current);
        Held { ahead: held.ahead, behind: 0, counts: self.counts(ring) }
    }

    /// Raises the current count by a cost, whether it fits or not, up to `most`. The caller makes sure that the sum of
    /// a ranked ring stays within the limit.
    pub(super) fn charge_up_to(&self, held: Held, _: Moment, cost: u64, most: u64) -> Held {
        let ring = self.turn(held);
        let current = self.count(ring, 0);
        let grown = most.min(current.saturating_add(cost));
        let counts = self.counts(ring - RingBits::from(current) + RingBits::from(grown));
        Held { ahead: held.ahead, behind: 0, counts }
    }

    pub(super) fn remaining(&self, held: Held) -> u64 {
        // Within the same segment the sum can be read without unpacking the counts.
        let sum = if self.is_ranked() && held.behind == 0 {
            self.parted(held.counts).0
        } else {
            self.sum(self.turn(held))
        };
        self.limit.saturating_sub(sum)
    }

    /// Gives back up to `units` units of the word's newest segment. Returns the word, and how many units were given
    /// back.
    pub(crate) fn given_back(&self, held: Held, units: u64) -> (Held, u64) {
        let ring = self.turn(Held { behind: 0, ..held });
        let units = units.min(self.count(ring, 0));
        // If the newest segment is empty, the word is returned unchanged, even if it has bits that this window would
        // not write.
        let counts =
            if units > 0 { self.counts(ring - RingBits::from(units)) } else { held.counts };
        (Held { counts, ..held }, units)
    }

    pub(super) fn ready_ns(&self, held: Held, at_ns: u64, cost: u64) -> u64 {
        let ring = self.turn(held);
        let mut used = self.sum(ring);
        let start_ns = |passed: u8| {
            let ahead = held.ahead.saturating_add(u64::from(passed));
            window_start_ns(at_ns, self.segment.get(), ahead)
        };
        // The cost fits now, or at the start of a later segment, when another count leaves the ring.
        for passed in 0..self.segments {
            if used <= self.limit - cost {
                return if passed == 0 { at_ns } else { start_ns(passed) };
            }
            used -= self.count(ring, self.segments - 1 - passed);
        }
        start_ns(self.segments) // nothing is used any more, and cost <= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Moment = Moment { unit: 0, into_ns: 0 };

    fn ring(limit: u64, packing: usize) -> SegmentedWindow {
        SegmentedWindow::new(
            limit,
            20,
            3,
            4,
            Packing::all(limit, 3).nth(packing).expect("a packing").0,
        )
    }

    /// The oldest segment holds 4 units, the next segment 3, and the newest segment 2. The newest segment is `behind`
    /// segments back.
    fn held(behind: u64) -> Held {
        Held { ahead: 0, behind, counts: 0x432 }
    }

    #[test]
    fn a_ring_is_packed_anew_as_its_newest_segment_sees_it() {
        for behind in 0..3 {
            for packing in [1, 2] {
                let packed = ring(9, packing).repacked(&ring(9, 0), held(behind));
                assert_eq!(packed.behind, behind);
                assert_ne!(packed.counts, held(behind).counts, "by ranks");
                assert_eq!(ring(9, 0).repacked(&ring(9, packing), packed), held(behind));
            }
            let cut = ring(6, 0).repacked(&ring(9, 0), held(behind));
            assert_eq!(cut, Held { counts: 0x132, ..held(behind) });
        }
    }

    #[test]
    fn in_one_segment_a_ranked_word_changes_in_its_sum_alone() {
        for window in [ring(9, 1), ring(9, 2)] {
            let counts = window.counts(0x112);
            let (sum, older) = window.parted(counts);
            assert_eq!(sum, 4);
            let charged = window.step(Held { counts, ..Held::IDLE }, AT, 5);
            assert_eq!(charged.map(|held| window.parted(held.counts)), Some((9, older)));
            assert_eq!(charged.map(|held| window.turn(held)), Some(0x117));
            assert_eq!(charged.and_then(|held| window.step(held, AT, 1)), None);
        }
    }

    #[test]
    fn no_ranked_word_holds_more_than_the_limit_whatever_its_bits() {
        for window in [ring(9, 1), ring(9, 2)] {
            for counts in 0..1 << 10 {
                let ring = window.turn(Held { counts, ..Held::IDLE });
                assert!(window.sum(ring) <= 9, "{counts:#x}: {ring:#x}");
            }
        }
    }

    #[test]
    fn what_is_given_back_is_of_the_newest_segment_alone() {
        for behind in 0..3 {
            let given_back = |units| ring(9, 0).given_back(held(behind), units);
            assert_eq!(given_back(1), (Held { counts: 0x431, ..held(behind) }, 1));
            assert_eq!(given_back(7), (Held { counts: 0x430, ..held(behind) }, 2));
        }
    }

    #[test]
    fn a_denied_cost_is_counted_in_the_current_segment_up_to_what_is_most() {
        let ring = ring(9, 0);
        assert_eq!(ring.charge_up_to(held(0), AT, 5, 9), Held { counts: 0x437, ..held(0) });
        assert_eq!(ring.charge_up_to(held(0), AT, 9, 9), Held { counts: 0x439, ..held(0) });
        assert_eq!(ring.charge_up_to(held(1), AT, 5, 9), Held { counts: 0x325, ..held(0) });
    }
}
