//! How a table's words are divided into fields, which follows from the policy.
//!
//! ```text
//! vacant   0
//! live     [0 | tag | time | counts]      tag never 0
//! claim    [1 | tag | nonce         ]     an install in progress
//! ```
//!
//! Where quotas may change, words also have an index and a surplus: see [`shared`].
//!
//! The time is cut to `time_bits`, so it wraps around. It is read against the shard's time floor F, never against the
//! caller's `now`. Let E be the epoch, and `at` an instant in [F - E, F + E]; all times are in the algorithm's unit. A
//! live word's time then lies
//!
//! * above `at - back`, where `back` is 3E + `before`. Its key became idle no earlier than F - 2E (`floors/floor.rs`
//!   says why). That is no earlier than `at - 3E`, since `at` is at most F + E. The index of a window lies up to
//!   `before` units before the instant at which the window becomes idle.
//! * at or below `at + 2E + ahead`. The word was written no later than F + E, which is at most `at + 2E`. GCRA writes a
//!   TAT that lies up to `ahead` later. `ahead` is twice the burst, which leaves room for a charge that is carried over
//!   from the spill. It is more if the policy allows a longer debt, or charges denied requests. The end of a penalty
//!   also lies up to `ahead` later. A word under a penalty becomes idle when the penalty ends, and the word that it
//!   replaced would have become idle no later. So the lower bound holds for a penalty, too.
//!
//! This range is at most 5E + before + ahead wide, which fits in the field. So the low bits name only one instant. A
//! request that is late by less than an epoch, as happens when threads read the clock in different orders, is decided
//! like any other.

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

/// The fewest granules in an epoch. With fewer, the floor would have to advance almost as often as the clock.
// 64 granules are 67 milliseconds, so hits move a shard's floor at most fifteen times a second.
const EPOCH_GRANULES_MIN: u64 = 64;

/// The granules in a minute. An epoch of this length keeps floor advances rare even in large, thinly used tables.
const EPOCH_GRANULES_ENOUGH: u64 = 60_000_000_000 >> GRANULE_BITS;

/// The granules in four seconds. To make an epoch this long, a coarser tick is accepted: keys that come back within
/// four seconds then find their words.
const EPOCH_GRANULES_LONG: u64 = 4_000_000_000 >> GRANULE_BITS;

/// The number of granules in all times that a `u64` of nanoseconds can hold.
// Twice this number is still far below `u64::MAX`, so `is_near` cannot overflow.
const EPOCH_GRANULES_MAX: u64 = u64::MAX >> GRANULE_BITS;

/// The fewest bits of state. In a claim a nonce takes the place of the state, and a nonce of fewer bits would repeat
/// too soon. The 14 bits are the 12 of the install counter and 2 of the floor.
const STATE_BITS_MIN: u32 = 14;

/// To leave a tag of this width, a coarser tick is accepted.
const TAG_BITS_ENOUGH: u32 = 32;

/// To leave a tag of this width, counts are packed so tightly that each decision has to search for their sum.
const TAG_BITS_SEARCHED: u32 = 28;

/// The units of time that rounding may add at the edges of the range that the head of this file derives.
const SLACK: u64 = 8;

// The topmost bit: a live word is below 2^63, and a claim is at or above it.
const CLAIM: u64 = 1 << 63;

use demand::{Demand, QUANTA};
pub(in crate::keyed) use idleness::Idleness;
use shared::EPOCHS_IN_HORIZON;
pub(in crate::keyed) use shared::{Coded, Shared};

/// The part of a layout that all words of a table share, whichever quota counts them. Code that looks only for tags
/// needs nothing else.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Division {
    /// The number of bits below the tag.
    pub(in crate::keyed) state_bits: u32,
    pub(in crate::keyed) tag_bits: u8,
    /// How many different live words a tag can have: 2^state_bits. They are consecutive numbers, and the first is the
    /// tag itself.
    pub(in crate::keyed) words_per_tag: u64,
    /// E, the epoch, in granules.
    pub(in crate::keyed) epoch: u64,
}

/// How a quota divides the state of a table's word, and the arithmetic of that state.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Layout {
    pub(in crate::keyed) division: Division,
    pub(in crate::keyed) kernel: Kernel,
    /// The rules for requests at the limit.
    pub(in crate::keyed) rules: Rules,
    pub(in crate::keyed) count_bits: u8,
    pub(in crate::keyed) time_bits: u8,
    /// The bits above the time that hold the surplus of a word whose quota may change; else 0.
    pub(in crate::keyed) surplus_bits: u8,
    pub(in crate::keyed) time_mask: u64,
    pub(in crate::keyed) back: u64,
    /// The furthest that a word's time may lie ahead of the instant at which it is written.
    pub(in crate::keyed) ahead: u64,
    /// E, the epoch, in the algorithm's unit. It is at least half of the longest time for which a word can stay live,
    /// or an eighth of that time in a table of several quotas. So an advance of the floor past all live words takes
    /// only a few steps.
    pub(in crate::keyed) epoch_units: u64,
}

impl Layout {
    /// Finds the layout of a policy. This is the layout of the first [`Demand`] that leaves a tag of 32 bits and, under
    /// GCRA, an epoch of four seconds. If there is none, it is the layout with the longest epoch among those with the
    /// widest tag. A tag beyond 32 bits counts as 32, and beyond 28 if the counts have to be searched: see
    /// [`Self::merit`].
    ///
    /// GCRA tries the finest tick first; segmented windows try counts that stand side by side first. The time field is
    /// then widened until an epoch lasts a minute, as long as the tag keeps 32 bits. The tag takes all bits that are
    /// left.
    pub(in crate::keyed) fn plan(policy: &Policy) -> Result<Self, BuildError> {
        let policy = &of_one_word(*policy)?;
        let refuse = |state_bits: u32| {
            BuildError::tag_too_narrow(state_bits, 63_u32.saturating_sub(state_bits))
        };
        let mut best: Option<Self> = None;
        // Used for the error only.
        let mut needed_bits = u32::MAX;
        // The loop ends, because an algorithm has only a few choices.
        for demand in (0..).map_while(|choice| Demand::of(policy, choice)) {
            match demand.and_then(Self::fit) {
                // The choice fits. A later choice has coarser times or slower decisions, but may leave a wider tag or a
                // longer epoch.
                Ok(layout) => {
                    needed_bits = needed_bits.min(layout.division.state_bits);
                    // Among equals the first wins, since its times are finer or its decisions faster.
                    if best.is_none_or(|best| best.merit() < layout.merit()) {
                        best = Some(layout);
                    }
                    // No later choice can have a greater merit.
                    if layout.merit() == (TAG_BITS_ENOUGH, EPOCH_GRANULES_LONG) {
                        break;
                    }
                }
                // The choice does not fit in a word. The error reports the choice that came closest.
                Err(bits) => needed_bits = needed_bits.min(bits),
            }
        }
        // The widest tag of all may still be too narrow.
        best.filter(|layout| u32::from(layout.division.tag_bits) >= TAG_BITS_MIN)
            .ok_or_else(|| refuse(needed_bits))
    }

    /// The merit of a layout: the bits of its tag, and under GCRA its epoch. Each number is capped where a larger one
    /// would be no better. Windows choose between precise starts and fast decisions, and neither is worth giving up for
    /// a longer epoch.
    fn merit(&self) -> (u32, u64) {
        // The epoch decides only between ticks of GCRA, so the epoch of a window counts as long enough.
        let epoch = if self.kernel.is_gcra() { self.division.epoch } else { EPOCH_GRANULES_LONG };
        // A tag beyond 28 bits is not worth a search in each decision.
        let enough = match self.kernel {
            Kernel::SegmentedWindow(window) if window.packing() == Packing::RANKED => {
                TAG_BITS_SEARCHED
            }
            _ => TAG_BITS_ENOUGH,
        };
        // The order matters: the epoch decides only between tags of equal merit.
        (u32::from(self.division.tag_bits).min(enough), epoch.min(EPOCH_GRANULES_LONG))
    }

    /// Returns the layout for a demand: the narrowest that meets it, with its time field widened as [`Self::plan`]
    /// says. The error is the number of bits that the state would need.
    fn fit(demand: Demand) -> Result<Self, u32> {
        let with = |time_bits: u32| Self::with_time_bits(demand, time_bits);
        let horizon = demand.before.max(demand.ahead); // both are measured from about the charge
        // The conditions that every layout must meet.
        let enough = |layout: &Self| {
            layout.division.epoch >= EPOCH_GRANULES_MIN
                && layout.epoch_units >= horizon / 2
                && layout.division.state_bits >= STATE_BITS_MIN
        };
        // 62 bits of time would leave one bit for the tag and one for claims. `plan` refuses so narrow a tag.
        let narrowest = (demand.time_bits_min..=62)
            .filter_map(with)
            .find(enough)
            // No width fits: counts and time would take the whole word, or more.
            .ok_or(63.max(demand.count_bits + demand.time_bits_min))?;
        // The narrowest layout whose epoch lasts a minute. The narrowest layout of all is accepted even if its tag is
        // narrow, since it costs nothing more.
        let wider = (u32::from(narrowest.time_bits)..=62)
            .map_while(with)
            .take_while(|layout| {
                layout.time_bits == narrowest.time_bits
                    || u32::from(layout.division.tag_bits) >= TAG_BITS_ENOUGH
            })
            .find(|layout| layout.division.epoch >= EPOCH_GRANULES_ENOUGH);
        // No width gives a minute beside a tag of 32 bits: take the longest epoch beside such a tag.
        let widest = (u32::from(narrowest.time_bits)..=62)
            .map_while(with)
            .take_while(|layout| u32::from(layout.division.tag_bits) >= TAG_BITS_ENOUGH)
            .last();
        // If neither exists, the narrowest layout is taken: its tag has less than 32 bits, and its epoch is shorter
        // than a minute.
        Ok(wider.or(widest).unwrap_or(narrowest))
    }

    /// The layout with a time field of this width, or `None` if it is too narrow for the demand or too
    /// wide for the word.
    fn with_time_bits(demand: Demand, time_bits: u32) -> Option<Self> {
        // The range at the head of this file is 5E + before + ahead wide. This is its part without the epochs.
        let reach = demand.before.checked_add(demand.ahead)?.checked_add(SLACK)?;
        // Five epochs and the reach fill the field, except for a remainder of less than five units.
        let epoch_units = (1_u64 << time_bits).checked_sub(reach)? / 5;
        let epoch_ns = u128::from(epoch_units) * demand.unit_ns.0 / demand.unit_ns.1;
        // The epoch is a granule shorter, since an instant is compared with the floor in whole granules.
        let epoch = (epoch_ns >> GRANULE_BITS).checked_sub(1)?;
        let tag_bits = 63_u32.checked_sub(demand.count_bits + time_bits)?;
        let division = Division {
            state_bits: demand.count_bits + time_bits,
            // No shift is too wide here or below: the subtraction from 63 above has bounded counts and time.
            words_per_tag: 1 << (demand.count_bits + time_bits),
            tag_bits: u8::try_from(tag_bits).ok()?,
            // An epoch of centuries is cut to this maximum, with which every time is near every floor.
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
            // `before` and three epochs, as at the head of this file; two more units allow for rounding.
            back: 3 * epoch_units + demand.before + 2,
            ahead: demand.ahead,
            epoch_units,
        })
    }
}

impl Division {
    /// The latest instant at which a word may be written under this floor: the last nanosecond of the last granule that
    /// is near to the floor. Where an epoch lasts centuries, this is the end of time.
    pub(in crate::keyed) fn latest_ns(&self, floor: u64) -> u64 {
        // This is one nanosecond before the first granule that is too far above the floor.
        floor.saturating_add(self.epoch).saturating_add(1).saturating_mul(1 << GRANULE_BITS) - 1
    }

    /// True if the floor lies more than an epoch below the instant. Then nothing may be written at that instant before
    /// the floor advances.
    pub(in crate::keyed) fn is_behind(&self, header: Header, instant_ns: u64) -> bool {
        instant_ns >> GRANULE_BITS > header.floor().saturating_add(self.epoch)
    }

    fn epoch_ns(&self) -> u64 {
        // The shift loses no bits: an epoch has at most `EPOCH_GRANULES_MAX` granules.
        self.epoch << GRANULE_BITS
    }

    /// True if `word` is live and carries `tag`; the tag's bits are in the position that they have in a word.
    #[inline(always)]
    pub(in crate::keyed) fn is_live(&self, word: TableWord, tag: Tag) -> bool {
        is_live(word, tag, self.words_per_tag)
    }

    /// True if `word` is a claim that carries `tag`.
    #[inline]
    pub(in crate::keyed) fn is_claim_of(&self, word: TableWord, tag: Tag) -> bool {
        // Without its topmost bit a claim has the bits of a live word of its tag: the nonce takes the place of the
        // state.
        let bits = word.to_bits();
        bits & CLAIM != 0 && self.is_live(TableWord::from_bits(bits & !CLAIM), tag)
    }

    /// The tag of a live word, in the form that [`Self::is_live`] takes.
    pub(in crate::keyed) fn tag(&self, word: TableWord) -> Tag {
        // The tag is all bits above the state. In a claim they include the topmost bit, so callers pass no claims.
        Tag::from_bits(word.to_bits() & self.words_per_tag.wrapping_neg())
    }

    pub(in crate::keyed) fn claim(&self, tag: Tag, nonce: u64) -> TableWord {
        // If the nonce is wider than the state, its low bits are kept: the install counter is in the lowest.
        TableWord::from_bits(CLAIM | tag.to_bits() | (nonce & (self.words_per_tag - 1)))
    }
}

impl Layout {
    /// The longest debt that a word can hold if the debt was charged under another quota. A debt that was charged under
    /// this quota reaches no further than [`ahead`](Self::ahead).
    pub(in crate::keyed) fn room(&self) -> u64 {
        // The time field must hold a range of 5E beside the debt: see the head of this file.
        let bits = self.time_mask.saturating_sub(self.epoch_units.saturating_mul(5) + SLACK);
        bits.min(self.longest()).max(self.ahead)
    }

    /// The longest time for which a word of this table stays live: see [`shared`].
    pub(in crate::keyed) fn longest(&self) -> u64 {
        self.epoch_units.saturating_mul(EPOCHS_IN_HORIZON)
    }

    /// The algorithm together with its rules at the limit, if there are any.
    pub(in crate::keyed) fn ruled(&self) -> Ruled<'_> {
        Ruled { kernel: &self.kernel, rules: &self.rules }
    }

    /// Packs the state `held`, measured from `moment`, into a live word. `own` is the word's tag, index and surplus.
    /// `algorithm` must be that of this layout.
    #[inline(always)]
    pub(in crate::keyed) fn live(
        &self,
        own: OwnBits,
        held: Held,
        algorithm: &impl Decides,
        moment: Moment,
    ) -> TableWord {
        // One of `ahead` and `behind` is 0. The mask cuts off bits that can be restored from the floor: see the head of
        // this file.
        let time = moment.unit.wrapping_add(held.ahead).wrapping_sub(held.behind);
        let state = ((time & self.time_mask) << self.count_bits(algorithm)) | held.counts;
        TableWord::from_bits(own.to_bits() | state)
    }

    /// Reads the state of a live word as of `moment`, which must lie in [F - E, F + E], where F is the floor of the
    /// word's shard.
    #[inline(always)]
    pub(in crate::keyed) fn unpack(
        &self,
        word: TableWord,
        algorithm: &impl Decides,
        moment: Moment,
    ) -> Held {
        let count_bits = self.count_bits(algorithm);
        // The earliest time that a word of this shard can have, given that the moment is near the floor.
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

    /// Plans a request on a word, and returns the outcome and the next word, which is the same word if there is nothing
    /// to write. `own` is the word's tag, index and surplus.
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
        // The caller has checked that `now_ns` is near to the floor that dates this word. So the low bits of the word's
        // time name only one instant.
        let held = self.unpack(word, algorithm, moment);
        let seen = HeldAt { held, at_ns: now_ns, moment, late: 0 };
        // `now_ns` lies at most an epoch above the floor, so the next word, which is written at `now_ns`, can be read
        // under this floor and under the next.
        plan(algorithm, asked, seen, word, |next| self.live(own, next, algorithm, moment))
    }

    /// The number of bits of the counts. The compiler knows it to be 0 for an algorithm without counts.
    #[inline(always)]
    fn count_bits<A: Decides>(&self, _: &A) -> u8 {
        if A::COUNTS { self.count_bits } else { 0 }
    }
}

/// The kind of a word, whatever key it belongs to.
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
