//! How a keyed word is divided, computed from the policy.
//!
//! ```text
//! vacant   0
//! live     [0 | tag | time | counts]      tag never 0
//! claim    [1 | tag | nonce         ]     an install in progress
//! ```
//!
//! Where quotas may change, words have an index and a surplus besides: see [`shared`].
//!
//! The time is cut to `time_bits`, so it wraps. It is read against the shard's time floor F, never
//! against the caller's now. With E the epoch, an instant `at` in [F - E, F + E], and times in the
//! algorithm's unit, a live word's time lies
//!
//! * above `at - back`: its key became idle no earlier than F - 2E (`floor`), which is no earlier than `at - 3E`, since
//!   `at` is at most F + E; a window's
//!   index lies up to `before` units further back than the instant it becomes idle;
//! * at or below `at + 2E + ahead`: it was written at an instant up to F + E, and GCRA writes a TAT up
//!   to `ahead` later (twice the burst: room for a charge that is carried over from a spill; or as far
//!   as denied requests are charged). The end of a penalty also lies up to `ahead` later. At that
//!   end the word becomes idle, and no earlier than the word that it replaced would have: so the bound above holds
//!   for it, too.
//!
//! That is at most 5E + before + ahead wide, which fits in the field; so the low bits name one instant. A request that
//! is late by less than an epoch, as those of threads that read the clock in another order are, is decided like any
//! other.

mod demand;
mod idleness;
mod shared;
mod surplus;

use crate::algorithm::{Decides, Held, Kernel, Moment, Packing, Ruled, Rules};
use crate::decision::Outcome;
use crate::error::BuildError;
use crate::hash::Tag;
use crate::keyed::memory::shard::OwnBits;
use crate::policy::{Policy, of_one_word};
use crate::verb::{Asked, HeldAt, plan};

use super::shard::{GRANULE_BITS, Header, TAG_BITS_MIN, TableWord, is_live};

/// Fewer granules than this in an epoch and the floor would have to follow the clock at every step.
// These are 67 milliseconds: hits then move a shard's floor fifteen times a second at most.
const EPOCH_GRANULES_MIN: u64 = 64;

/// An epoch that lasts a minute keeps floor advances rare even in large, thinly used tables.
const EPOCH_GRANULES_ENOUGH: u64 = 60_000_000_000 >> GRANULE_BITS;

/// An epoch of four seconds is worth a coarser tick: keys that come back within it find their words.
const EPOCH_GRANULES_LONG: u64 = 4_000_000_000 >> GRANULE_BITS;

/// Granules in all times that there are.
// Twice as many are still far from the end of a `u64`, so `is_near` cannot overflow.
const EPOCH_GRANULES_MAX: u64 = u64::MAX >> GRANULE_BITS;

/// Nonces of fewer bits would repeat too soon (an install counter of 12 bits and 2 of the floor).
const STATE_BITS_MIN: u32 = 14;

/// Tag bits that are worth a coarser tick.
const TAG_BITS_ENOUGH: u32 = 32;

/// Tag bits that are worth a search for the sum of the counts in each decision.
const TAG_BITS_SEARCHED: u32 = 28;

/// Units of rounding at the edges of the range in the module header.
const SLACK: u64 = 8;

// So a live word is below 2^63, and a claim is at or above it.
const CLAIM: u64 = 1 << 63;

use demand::{Demand, QUANTA};
pub(in crate::keyed) use idleness::Idleness;
pub(in crate::keyed) use shared::{Coded, Shared};

/// What all words of a table have in common, whichever quota they are counted in: it is enough for code that looks only
/// for tags.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Division {
    /// Bits below the tag.
    pub(in crate::keyed) state_bits: u32,
    pub(in crate::keyed) tag_bits: u8,
    /// How many live words a tag has: 2^state_bits. They follow each other, the tag itself the first.
    pub(in crate::keyed) words_per_tag: u64,
    /// E, in granules.
    pub(in crate::keyed) epoch: u64,
}

/// How a quota divides the state of a keyed word, and the arithmetic that it holds.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Layout {
    pub(in crate::keyed) division: Division,
    pub(in crate::keyed) kernel: Kernel,
    /// What happens at the limit.
    pub(in crate::keyed) rules: Rules,
    pub(in crate::keyed) count_bits: u8,
    pub(in crate::keyed) time_bits: u8,
    /// The bits above the time in which a word of a quota that may change tells its surplus; else 0.
    pub(in crate::keyed) surplus_bits: u8,
    pub(in crate::keyed) time_mask: u64,
    pub(in crate::keyed) back: u64,
    /// The furthest that a word's time may lie ahead of the instant that it is written at.
    pub(in crate::keyed) ahead: u64,
    /// E, in the algorithm's unit. At least half of the longest that a word can stay live, so that an
    /// advance past everything that lives takes a handful of steps.
    pub(in crate::keyed) epoch_units: u64,
}

impl Layout {
    /// Finds the layout of a policy: the first that leaves a tag of 32 bits and, under GCRA, an epoch of four seconds;
    /// else, of those that leave the widest tag up to 32 bits, the one with the longest epoch.
    ///
    /// GCRA tries the finest tick first, segments their counts side by side first. The time field is
    /// then widened until an epoch lasts a minute, as long as the tag keeps 32 bits; the tag takes
    /// everything that is left.
    pub(in crate::keyed) fn plan(policy: &Policy) -> Result<Self, BuildError> {
        let policy = &of_one_word(*policy)?;
        let refuse = |state_bits: u32| {
            BuildError::tag_too_narrow(state_bits, 63_u32.saturating_sub(state_bits))
        };
        let mut best: Option<Self> = None;
        // For the error alone.
        let mut needed_bits = u32::MAX;
        // Ends: an algorithm has a handful of choices.
        for demand in (0..).map_while(|choice| Demand::of(policy, choice)) {
            match demand.and_then(Self::fit) {
                // It fits; a later choice, coarser or slower, may leave a wider tag or a longer epoch.
                Ok(layout) => {
                    needed_bits = needed_bits.min(layout.division.state_bits);
                    // Of equals the first, which is the finer or faster.
                    if best.is_none_or(|best| best.merit() < layout.merit()) {
                        best = Some(layout);
                    }
                    // No later choice can be better, and this one is finer or faster.
                    if layout.merit() == (TAG_BITS_ENOUGH, EPOCH_GRANULES_LONG) {
                        break;
                    }
                }
                // It has no room; for the error, the closest miss is kept.
                Err(bits) => needed_bits = needed_bits.min(bits),
            }
        }
        // The widest tag of all may still be too narrow.
        best.filter(|layout| u32::from(layout.division.tag_bits) >= TAG_BITS_MIN)
            .ok_or_else(|| refuse(needed_bits))
    }

    /// How good it is: the bits of its tag, and under GCRA its epoch, as far as more of them are better. What windows
    /// choose between is not worth a longer epoch: how precisely they start, and how fast they are decided.
    fn merit(&self) -> (u32, u64) {
        // As if it were long enough: it does not count.
        let epoch = if self.kernel.is_gcra() { self.division.epoch } else { EPOCH_GRANULES_LONG };
        // Neither is a search in each decision worth a wider tag than that.
        let enough = match self.kernel {
            Kernel::SegmentedWindow(window) if window.packing() == Packing::RANKED => {
                TAG_BITS_SEARCHED
            }
            _ => TAG_BITS_ENOUGH,
        };
        // In this order: the epoch decides only between tags that are as good as each other.
        (u32::from(self.division.tag_bits).min(enough), epoch.min(EPOCH_GRANULES_LONG))
    }

    /// The narrowest layout for a demand, then widened; or the bits that the state would need.
    fn fit(demand: Demand) -> Result<Self, u32> {
        let with = |time_bits: u32| Self::with_time_bits(demand, time_bits);
        let horizon = demand.before.max(demand.ahead); // both count from about now
        // What every layout must have, whatever else it gives up.
        let enough = |layout: &Self| {
            layout.division.epoch >= EPOCH_GRANULES_MIN
                && layout.epoch_units >= horizon / 2
                && layout.division.state_bits >= STATE_BITS_MIN
        };
        // 62 at most: a tag of one bit and the claim's are left, which `plan` then refuses.
        let narrowest = (demand.time_bits_min..=62)
            .filter_map(with)
            .find(enough)
            // No width will do: counts and time would take the whole word, or more.
            .ok_or(63.max(demand.count_bits + demand.time_bits_min))?;
        // The narrowest that makes it a minute. The first of all is taken even if its tag is
        // narrow: it costs nothing more.
        let wider = (u32::from(narrowest.time_bits)..=62)
            .map_while(with)
            .take_while(|layout| {
                layout.time_bits == narrowest.time_bits
                    || u32::from(layout.division.tag_bits) >= TAG_BITS_ENOUGH
            })
            .find(|layout| layout.division.epoch >= EPOCH_GRANULES_ENOUGH);
        // No width makes it a minute beside a tag of 32 bits: then the longest epoch beside such a
        // tag.
        let widest = (u32::from(narrowest.time_bits)..=62)
            .map_while(with)
            .take_while(|layout| u32::from(layout.division.tag_bits) >= TAG_BITS_ENOUGH)
            .last();
        // Neither: the narrowest has no tag of 32 bits to spare, and an epoch of less than a
        // minute.
        Ok(wider.or(widest).unwrap_or(narrowest))
    }

    /// The layout with a time field of this width, or `None` if it is too narrow for the demand or too
    /// wide for the word.
    fn with_time_bits(demand: Demand, time_bits: u32) -> Option<Self> {
        // What the head of this file says is at most 5E + before + ahead wide.
        let reach = demand.before.checked_add(demand.ahead)?.checked_add(SLACK)?;
        // Five epochs and the reach fill the field, but for a remainder below five units.
        let epoch_units = (1_u64 << time_bits).checked_sub(reach)? / 5;
        let epoch_ns = u128::from(epoch_units) * demand.unit_ns.0 / demand.unit_ns.1;
        // One less, since an instant is compared with the floor in whole granules.
        let epoch = (epoch_ns >> GRANULE_BITS).checked_sub(1)?;
        let tag_bits = 63_u32.checked_sub(demand.count_bits + time_bits)?;
        let division = Division {
            state_bits: demand.count_bits + time_bits,
            // No shift is too wide, here and below: counts and time have passed the subtraction from 63 above.
            words_per_tag: 1 << (demand.count_bits + time_bits),
            tag_bits: u8::try_from(tag_bits).ok()?,
            // Where a field tells centuries apart, all times are near all floors.
            epoch: u64::try_from(epoch).unwrap_or(u64::MAX).min(EPOCH_GRANULES_MAX),
        };
        Some(Self {
            division,
            kernel: demand.kernel,
            rules: demand.rules,
            count_bits: u8::try_from(demand.count_bits).ok()?,
            time_bits: u8::try_from(time_bits).ok()?,
            time_mask: (1 << time_bits) - 1,
            surplus_bits: 0,
            // The head of this file counts `before` and three epochs back; two units more are for
            // rounding.
            back: 3 * epoch_units + demand.before + 2,
            ahead: demand.ahead,
            epoch_units,
        })
    }
}

impl Division {
    /// The latest instant that a word may be written at above this floor: the last of its granule, or of all
    /// instants, where an epoch is centuries long.
    pub(in crate::keyed) fn latest_ns(&self, floor: u64) -> u64 {
        // One nanosecond before the granule behind the last that is near.
        floor.saturating_add(self.epoch).saturating_add(1).saturating_mul(1 << GRANULE_BITS) - 1
    }

    /// Whether a floor lies so far below an instant that nothing may be written then before it advances.
    pub(in crate::keyed) fn is_behind(&self, header: Header, instant_ns: u64) -> bool {
        instant_ns >> GRANULE_BITS > header.floor().saturating_add(self.epoch)
    }

    fn epoch_ns(&self) -> u64 {
        // No bits are lost: an epoch has no more granules than all times have.
        self.epoch << GRANULE_BITS
    }

    /// Whether `word` is live and carries `tag`, which is given as it stands in a word.
    #[inline(always)]
    pub(in crate::keyed) fn is_live(&self, word: TableWord, tag: Tag) -> bool {
        is_live(word, tag, self.words_per_tag)
    }

    /// Whether `word` is a claim that carries `tag`.
    #[inline]
    pub(in crate::keyed) fn is_claim_of(&self, word: TableWord, tag: Tag) -> bool {
        // Without its topmost bit a claim is a live word of its tag: the nonce stands where the
        // state does.
        let bits = word.to_bits();
        bits & CLAIM != 0 && self.is_live(TableWord::from_bits(bits & !CLAIM), tag)
    }

    /// The tag of a live word, as [`Self::is_live`] takes it.
    pub(in crate::keyed) fn tag(&self, word: TableWord) -> Tag {
        // All bits above the state. Of a claim the topmost would be among them: the caller knows
        // that it is none.
        Tag::from_bits(word.to_bits() & self.words_per_tag.wrapping_neg())
    }

    pub(in crate::keyed) fn claim(&self, tag: Tag, nonce: u64) -> TableWord {
        // As many of the nonce's low bits as there is room for: the install counter stands in the
        // lowest.
        TableWord::from_bits(CLAIM | tag.to_bits() | (nonce & (self.words_per_tag - 1)))
    }
}

impl Layout {
    /// The algorithm with what happens at its limit, which may be nothing.
    pub(in crate::keyed) fn ruled(&self) -> Ruled<'_> {
        Ruled { kernel: &self.kernel, rules: &self.rules }
    }

    /// The live word with these bits of its own that holds `held`, seen from `moment`. The algorithm is this layout's.
    #[inline(always)]
    pub(in crate::keyed) fn live(
        &self,
        own: OwnBits,
        held: Held,
        algorithm: &impl Decides,
        moment: Moment,
    ) -> TableWord {
        // One of the two is 0. What is cut off by the mask follows from the floor, see the head of
        // this file.
        let time = moment.unit.wrapping_add(held.ahead).wrapping_sub(held.behind);
        let state = ((time & self.time_mask) << self.count_bits(algorithm)) | held.counts;
        TableWord::from_bits(own.to_bits() | state)
    }

    /// What a live word holds, seen from an instant in [F - E, F + E] of its shard's floor.
    #[inline(always)]
    pub(in crate::keyed) fn unpack(
        &self,
        word: TableWord,
        algorithm: &impl Decides,
        moment: Moment,
    ) -> Held {
        let count_bits = self.count_bits(algorithm);
        // The earliest time that a word of this shard can have, by the floor that the moment is
        // near to.
        let earliest = moment.unit.wrapping_sub(self.back);
        let word = word.to_bits();
        let since = (word >> count_bits).wrapping_sub(earliest) & self.time_mask;
        Held {
            // One of the two is 0: the time lies ahead of the moment, or behind it.
            ahead: since.saturating_sub(self.back),
            behind: self.back.saturating_sub(since),
            counts: word & ((1 << count_bits) - 1),
        }
    }

    /// What comes of a request on a word, and the word then: the same, if there is nothing to write.
    #[inline(always)]
    pub(in crate::keyed) fn planned<A: Decides>(
        &self,
        algorithm: &A,
        asked: impl Asked<A>,
        own: OwnBits,
        word: TableWord,
        now_ns: u64,
    ) -> (Outcome, TableWord) {
        let moment = algorithm.moment(now_ns);
        // The caller has seen that now is near the floor that dates this word, so its low bits name one
        // instant.
        let held = self.unpack(word, algorithm, moment);
        let seen = HeldAt { held, at_ns: now_ns, moment, late: 0 };
        // Written at now, which lies at most an epoch above the floor: so it can be read back under
        // this floor and the next.
        plan(algorithm, asked, seen, word, |next| self.live(own, next, algorithm, moment))
    }

    /// 0 at compile time where the algorithm is known to keep no counts.
    #[inline(always)]
    fn count_bits<A: Decides>(&self, _: &A) -> u8 {
        if A::COUNTS { self.count_bits } else { 0 }
    }
}

/// What a word is, of whatever key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::keyed) enum Kind {
    Vacant,
    Live,
    Claim,
}

impl Kind {
    pub(in crate::keyed) fn of(word: TableWord) -> Self {
        match word.to_bits() {
            0 => Self::Vacant,
            bits if bits & CLAIM != 0 => Self::Claim,
            _ => Self::Live,
        }
    }
}

#[cfg(test)]
mod tests;
