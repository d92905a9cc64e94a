//! How several quotas share one division of words.
//!
//! ```text
//! live     [0 | tag | index | surplus | time | counts]
//! ```
//!
//! The tag has the same width in all words of the table, and so has the index, which names a quota. Each quota divides
//! the remaining bits, the *state*, between its time, its counts and its *surplus*. A surplus is the units that were
//! spent under an earlier quota and do not fit into the time and the counts (`algorithm/surplus.rs`). The surplus gets
//! the bits that time and counts leave, at least 1 and at most 16: more bits make it more exact. A shard has one floor,
//! so all quotas have the same epoch. A quota fits if its times can be distinguished over five epochs and the quota's
//! own reach (`layout.rs` says why).
//!
//! # Headroom
//! The tag takes 32 bits if all quotas fit beside it, and the state takes everything else: bits that no quota needs now
//! are room for later quotas. The tag gives up as many as four bits if each quota then gets a useful surplus. If not
//! all quotas fit, the tag takes the bits that they leave, at least 24. The epoch is at least as long as the slowest
//! quota needs: an eighth of the longest time for which a key of that quota may stay live. An advance of the floor past
//! all live words then takes at most ten steps. A longer epoch leaves room for slower quotas, a shorter one for faster
//! quotas. So the shortest possible epoch is doubled half as many times as would fit. If the result is shorter than a
//! minute and a minute fits, the epoch is a minute.

use super::{
    Demand, Division, EPOCH_GRANULES_ENOUGH, EPOCH_GRANULES_MAX, EPOCH_GRANULES_MIN, GRANULE_BITS,
    Layout, QUANTA, SLACK, TAG_BITS_ENOUGH, TAG_BITS_MIN, TAG_BITS_SEARCHED,
};
use crate::algorithm::{
    CODE_WORDS, Decides, FromCode, Kernel, Packing, Rules, SURPLUS_BITS_MAX, bits_for, by_code,
};
use crate::error::BuildError;
use crate::policy::{AtLimit, Fineness, POWERS_OF_TEN, Policy};

/// The number of epochs in the longest time for which a key may stay live. It is bounded because an advance of the
/// floor gives up after 14 rounds (`floors/floor.rs`).
pub(super) const EPOCHS_IN_HORIZON: u64 = 8;

/// To get a surplus of this many bits, coarser ticks and narrower counts are accepted.
// A word may count twice the limit, so one step of the surplus is then 2/255 of the limit, which is less than a
// hundredth.
const SURPLUS_BITS_ENOUGH: u8 = 8;

/// To get a surplus of this many bits, a narrower tag is accepted.
// One step of the surplus is then two fifteenths of the limit. A single bit would say only that there is a surplus, and
// every surplus would count as the largest.
const SURPLUS_BITS_MIN: u8 = 4;

/// The number of atomic words that hold a [`Layout`].
pub(crate) const CODED_WORDS: usize = CODE_WORDS + 4;

/// The part of their layouts that all quotas of a table share.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Shared {
    index_bits: u32,
    tag_bits: u32,
    /// The epoch in granules, from which the widths of the fields follow. The epoch of the [`division`](Self::division)
    /// is this one, cut to the longest that can be counted.
    pub(in crate::keyed) epoch: u64,
}

/// A layout as numbers, without the properties that all quotas share.
pub(in crate::keyed) type Coded = [u64; CODED_WORDS];

impl Shared {
    /// Finds the division that all these quotas fit in, with `index_bits` bits for the index.
    pub(in crate::keyed) fn plan(policies: &[Policy], index_bits: u32) -> Result<Self, BuildError> {
        // Find the shortest epoch that each quota can use, and take the longest of these.
        let slowest = policies.iter().map(epoch_for).max().unwrap_or(0);
        let epoch_min = slowest.max(EPOCH_GRANULES_MIN);
        let with = |tag_bits, epoch| Self { index_bits, tag_bits, epoch };
        let fits = |shared: &Self| policies.iter().all(|policy| shared.layout(policy).is_some());
        let fits_beside_tag = |epoch: &u64| fits(&with(TAG_BITS_ENOUGH, *epoch));
        // The candidates are the shortest epoch times 2, 4, 8 and so on, until the number overflows.
        let longer = (1..i64::BITS).map_while(|n| epoch_min.checked_mul(1 << n));
        // A longer epoch takes more bits of each quota's time field. So if an epoch does not fit, none of the longer
        // ones fits.
        let doublings = longer.take_while(fits_beside_tag).count();
        // Taking half of the doublings that fit leaves room both for slower quotas and for faster ones.
        let middle = epoch_min.saturating_mul(1 << (doublings / 2));
        // An epoch shorter than a minute becomes a minute, if that fits.
        let minute = Some(middle.max(EPOCH_GRANULES_ENOUGH)).filter(fits_beside_tag);
        let epoch = minute.unwrap_or(middle);
        let by_tag =
            |least: u32| (least..=TAG_BITS_ENOUGH).rev().map(|tag_bits| with(tag_bits, epoch));
        let tells_surplus = |shared: &Self| {
            let is_told = |layout: Layout| layout.surplus_bits >= SURPLUS_BITS_MIN;
            policies.iter().all(|policy| shared.layout(policy).is_some_and(is_told))
        };
        // Take the widest tag beside which all quotas fit, but give up a few of its bits for a useful surplus.
        let told = by_tag(TAG_BITS_SEARCHED).find(tells_surplus);
        told.or_else(|| by_tag(TAG_BITS_MIN).find(fits)).ok_or_else(|| {
            // The error reports the tag that would have been left.
            let widest = |tag_bits: &u32| fits(&with(*tag_bits, epoch));
            let tag_bits = (0..TAG_BITS_MIN).rev().find(widest).unwrap_or(0);
            BuildError::tag_too_narrow(63 - tag_bits, tag_bits)
        })
    }

    /// The division that a snapshot names. `None` if its tag has fewer than 24 bits or more than 32.
    pub(in crate::keyed) fn of(index_bits: u32, tag_bits: u32, epoch: u64) -> Option<Self> {
        // A file may contain any numbers here. The epoch is checked against the quotas when they are laid out.
        let is_wide = (TAG_BITS_MIN..=TAG_BITS_ENOUGH).contains(&tag_bits);
        is_wide.then_some(Self { index_bits, tag_bits, epoch })
    }

    /// The bits of a word's state, including the index.
    fn state_bits(self) -> u32 {
        63 - self.tag_bits
    }

    /// How far an index is shifted to the left in a word.
    pub(in crate::keyed) fn index_shift(self) -> u32 {
        self.state_bits() - self.index_bits
    }

    /// The layout of a quota: the finest and fastest of those that leave the most useful surplus. Returns `None` if the
    /// quota does not fit.
    pub(in crate::keyed) fn layout(self, policy: &Policy) -> Option<Layout> {
        let demands = (0..).map_while(|choice| Demand::of(policy, choice));
        // The bits of a surplus that are of use: 8 at most, and no more than it takes to distinguish every number of
        // units.
        let told = |layout: &Layout| {
            let exact = bits_for(layout.max_units());
            layout.surplus_bits.min(exact).min(SURPLUS_BITS_ENOUGH)
        };
        // The choices come in the order of preference: among those whose surplus is equally exact, the first is the
        // best.
        demands
            .filter_map(|demand| self.fitting(demand.ok()?))
            .reduce(|best, layout| if told(&layout) > told(&best) { layout } else { best })
    }

    /// The layout of a GCRA quota that a caller brings along. A word should have room for the longest debt: one that
    /// takes as long to drain as any key of the table may stay live. The ticks are the finest that leave this room, or
    /// else the finest that fit. A change never replaces such a quota, so the word has no surplus, and the time takes
    /// the surplus's bits. Returns `None` if the quota does not fit.
    pub(in crate::keyed) fn layout_of_own(self, policy: &Policy) -> Option<Layout> {
        let choices = (0..).map_while(|choice| Demand::of(policy, choice));
        let demands = Demand::finer(policy).chain(choices).filter_map(Result::ok);
        // The choices come with the finest ticks first.
        let mut layouts = demands.filter_map(|demand| self.fitting(demand)).map(|layout| {
            // The bits of the surplus are added to the time. The sum cannot overflow: all fields together have 63 bits.
            let time_bits = layout.time_bits + layout.surplus_bits;
            Layout { time_bits, surplus_bits: 0, time_mask: (1 << time_bits) - 1, ..layout }
        });
        let finest = layouts.next()?;
        let is_roomy = |layout: &Layout| layout.room() >= layout.longest();
        Some(if is_roomy(&finest) { finest } else { layouts.find(is_roomy).unwrap_or(finest) })
    }

    fn fitting(self, demand: Demand) -> Option<Layout> {
        let Demand { count_bits, unit_ns, before, ahead, .. } = demand;
        // The surplus has at least one bit, and the time at least four, as in `Demand`.
        let widest = self.index_shift().checked_sub(count_bits + 1).filter(|bits| *bits >= 4)?;
        // Add one granule, since an instant is compared with the floor in whole granules.
        let epoch_ns = (u128::from(self.epoch) + 1) << GRANULE_BITS;
        let epoch_units = epoch_ns.checked_mul(unit_ns.1)?.div_ceil(unit_ns.0);
        let reach = u128::from(before) + u128::from(ahead) + u128::from(SLACK);
        // The field has to distinguish five epochs and the reach: see `layout.rs`.
        let instants = epoch_units.checked_mul(5)?.checked_add(reach)?;
        let fits = instants <= 1 << widest;
        // `before` and `ahead` are both measured from about the time of the charge, so the larger one is the longest
        // time for which a key can stay live.
        let horizon = u128::from(before.max(ahead));
        // A key that stays live for longer than eight epochs would make an advance of the floor take too many steps.
        if !fits || horizon > epoch_units.saturating_mul(EPOCHS_IN_HORIZON.into()) {
            return None;
        }
        // The time takes no more bits than these instants need, unless the surplus already has as many bits as it can
        // use.
        let narrowest = u128::BITS - (instants - 1).leading_zeros();
        let time_bits = narrowest.max(4).max((widest + 1).saturating_sub(SURPLUS_BITS_MAX));
        // The conversion succeeds: five epochs are below 2^time_bits.
        let epoch_units = u64::try_from(epoch_units).ok()?;
        let (count_bits, time_bits) =
            (u8::try_from(count_bits).ok()?, u8::try_from(time_bits).ok()?);
        let back = 3 * epoch_units + before + 2;
        let Demand { kernel, rules, .. } = demand;
        Some(Layout {
            division: self.division(),
            kernel,
            rules,
            count_bits,
            time_bits,
            surplus_bits: self.surplus_bits(count_bits, time_bits),
            time_mask: (1 << time_bits) - 1,
            back,
            ahead,
            epoch_units,
        })
    }

    /// The number of bits between index and time.
    #[inline(always)]
    fn surplus_bits(self, count_bits: u8, time_bits: u8) -> u8 {
        let left = self.index_shift().saturating_sub(u32::from(count_bits) + u32::from(time_bits));
        #[expect(clippy::cast_possible_truncation, reason = "a word has 64 bits")]
        let bits = left as u8;
        bits
    }

    /// The division for one limit that has a word to itself: there is no tag and no floor, and times never wrap.
    pub(in crate::keyed) fn alone(index_bits: u32) -> Self {
        Self { index_bits, tag_bits: 0, epoch: u64::MAX }
    }

    /// The layout of a quota for one limit that has a word to itself. Returns `None` if the quota does not fit.
    ///
    /// Until the latest time of the clock, times stay in the lower quarter of the field, and a charge ahead of `now`
    /// stays within another quarter. So the distance between a time and `now` can be read in only one way. Quotas with
    /// the highest rates have no room for quarters. Their field distinguishes exactly as many instants as it has to.
    pub(in crate::keyed) fn layout_alone(self, policy: &Policy) -> Option<Layout> {
        let fitting = |choice: (Kernel, Rules, u32, u64), in_quarters: bool| {
            let (kernel, rules, count_bits, ahead) = choice;
            // `passed` counts in full width. It is used because the times in a table's words, and the low 64 bits of a
            // tick's number, may wrap before the latest time.
            let latest = kernel.passed(0, kernel.latest_ns());
            // A word's time lies before `now` by at most the latest time that the clock can have. It lies ahead of
            // `now` by at most that time plus the furthest charge: twice the burst, a debt or a penalty.
            let narrowest = if in_quarters {
                let quarter = latest.saturating_add(SLACK).max(ahead.saturating_sub(1));
                u64::BITS - quarter.leading_zeros() + 2
            } else {
                let instants = 2 * (u128::from(latest) + u128::from(SLACK)) + u128::from(ahead);
                u128::BITS - instants.leading_zeros()
            };
            // The surplus takes the remaining bits: at least one, and no more than it can use.
            let widest = self.index_shift().checked_sub(count_bits + 1)?;
            let time_bits = narrowest.max(4).max((widest + 1).saturating_sub(SURPLUS_BITS_MAX));
            if narrowest > widest {
                return None;
            }
            let quarter = 1_u64 << (time_bits - 2);
            // `back` does not overflow, and is large enough: the field distinguishes that many instants.
            let back = if in_quarters { 2 * quarter } else { latest + SLACK };
            let ahead = if in_quarters { quarter } else { ahead };
            let time_mask = (1 << time_bits) - 1;
            let (count_bits, time_bits) =
                (u8::try_from(count_bits).ok()?, u8::try_from(time_bits).ok()?);
            Some(Layout {
                division: self.division(),
                kernel,
                rules,
                count_bits,
                time_bits,
                surplus_bits: self.surplus_bits(count_bits, time_bits),
                time_mask,
                back,
                ahead,
                // No floor dates this word.
                epoch_units: 0,
            })
        };
        // There is no layout if even the coarsest ticks wrap within the clock's time. Otherwise take the layout with
        // the greatest `merit_alone`, and among equals the first, whose ticks are the finest.
        let better = |best: Option<Layout>, layout: Layout| {
            best.filter(|best| best.merit_alone() >= layout.merit_alone()).or(Some(layout))
        };
        let choices = alone(policy);
        let best = |in_quarters: bool| {
            let fitting = |choice: &_| fitting(*choice, in_quarters);
            choices.iter().filter_map(fitting).fold(None, better)
        };
        best(true).or_else(|| best(false))
    }

    /// The part that is the same in every layout of the table.
    #[inline(always)]
    pub(in crate::keyed) fn division(self) -> Division {
        // A tag has 32 bits at most, so the fallback is never taken.
        let narrow = |bits: u32| u8::try_from(bits).unwrap_or(u8::MAX);
        Division {
            state_bits: self.state_bits(),
            tag_bits: narrow(self.tag_bits),
            words_per_tag: 1 << self.state_bits(),
            // The epoch is cut, so that twice the epoch still fits in a `u64`.
            epoch: self.epoch.min(EPOCH_GRANULES_MAX),
        }
    }

    /// A layout of this table as numbers.
    pub(in crate::keyed) fn code(layout: &Layout) -> Coded {
        let [small, length, limit, fine, multiplier] = layout.kernel.code();
        // Both widths share one number: each takes a byte at most. The next bit says whether the quota has rules, which
        // are stored apart.
        let has_rules = u64::from(layout.rules != Rules::default());
        let bits =
            u64::from(layout.count_bits) | u64::from(layout.time_bits) << 8 | has_rules << 16;
        let Layout { back, ahead, epoch_units, .. } = *layout;
        [small, length, limit, fine, multiplier, bits, back, ahead, epoch_units]
    }

    /// The layout that [`Self::code`] made these numbers from.
    pub(in crate::keyed) fn of_code(self, code: Coded, rules: Rules) -> Layout {
        let layout = by_code!(code, A => self.of_code_as::<A>(code));
        Layout { rules, ..layout }
    }

    /// True if GCRA decides a quota with these numbers.
    #[inline(always)]
    pub(in crate::keyed) fn is_gcra([small, ..]: Coded) -> bool {
        // The lowest byte names the algorithm: see `algorithm/code.rs`.
        small & 0xff == 0
    }

    /// True if a quota with these numbers also has rules, which are stored apart.
    pub(in crate::keyed) fn has_rules([.., bits, _, _, _]: Coded) -> bool {
        bits >> 16 != 0
    }

    /// As [`Self::of_code`], for numbers that are known to belong to this algorithm, and without rules.
    #[inline(always)]
    pub(in crate::keyed) fn of_code_as<A: FromCode>(self, code: Coded) -> Layout {
        let [small, length, limit, fine, multiplier, bits, back, ahead, epoch_units] = code;
        let [count_bits, time_bits, ..] = bits.to_le_bytes();
        // Every layout has fewer than 64 bits of time; the remainder avoids a check that could panic.
        let time_mask = (1_u64 << (time_bits % 64)) - 1;
        let kernel = A::of_code([small, length, limit, fine, multiplier]).kernel();
        Layout {
            division: self.division(),
            kernel,
            rules: Rules::default(),
            count_bits,
            time_bits,
            surplus_bits: self.surplus_bits(count_bits, time_bits),
            time_mask,
            back,
            ahead,
            epoch_units,
        }
    }
}

/// The shortest epoch, in granules, with which a quota's keys can be forgotten in a few steps.
fn epoch_for(policy: &Policy) -> u64 {
    let demands = (0..).map_while(|choice| Demand::of(policy, choice)).filter_map(Result::ok);
    let epochs = demands.map(|Demand { unit_ns, before, ahead, .. }| {
        // The horizon is in the demand's own units; convert it to nanoseconds, since quotas are compared.
        let horizon_ns = u128::from(before.max(ahead)) * unit_ns.0 / unit_ns.1;
        (horizon_ns / u128::from(EPOCHS_IN_HORIZON)) >> GRANULE_BITS
    });
    // Take the choice that needs the shortest epoch. A quota without any choice gets an epoch that no word has room
    // for, and is refused.
    epochs.map(|granules| u64::try_from(granules).unwrap_or(u64::MAX)).min().unwrap_or(u64::MAX)
}

/// The kernels of a policy for one limit that has a word to itself, the finest first. Each kernel comes with its rules,
/// the number of bits of its counts, and its reach ahead.
fn alone(policy: &Policy) -> Vec<(Kernel, Rules, u32, u64)> {
    if policy.at_limit().without_debt() != AtLimit::default() {
        // A policy with rules at the limit uses the same arithmetic as in a table's words.
        let demands = (0..).map_while(|choice| Demand::of(policy, choice)).filter_map(Result::ok);
        return demands.map(|it| (it.kernel, it.rules, it.count_bits, it.ahead)).collect();
    }
    // A policy of logs has no words.
    let Some((kernel, fields, rules)) = policy.compile() else { return Vec::new() };
    let window_ns = policy.quota().period_ns();
    // From choice to choice, ticks become twice as long until a unit is a single tick, and quanta become ten times as
    // long until a window has only 2^12 quanta.
    let (ticks, quanta) = match kernel {
        Kernel::Gcra(_) => (policy.quota().unit_bits().map_or(0, |bits| bits + 1), 0),
        Kernel::FromFirst(_) => (0, POWERS_OF_TEN.len()),
        _ => (0, 0),
    };
    // The counts stand side by side: a limit that has a word to itself has room for that.
    let fineness = |unit_bits, quantum_ns| {
        let end_quantum_ns = 1; // there are no penalties here
        policy.kernel(Fineness {
            unit_bits,
            quantum_ns,
            packing: Packing::SIDE_BY_SIDE,
            end_quantum_ns,
        })
    };
    let ticks = (0..ticks).rev().map(move |unit_bits| (unit_bits, 1));
    let quanta = POWERS_OF_TEN.into_iter().take(quanta).map(|quantum_ns| (0, quantum_ns));
    // A window has at least as many quanta as in a table's words, so no start is rounded by more than there.
    let quanta = quanta.filter(move |(_, quantum_ns)| *quantum_ns <= window_ns / QUANTA[1]);
    let coarser = ticks.chain(quanta).filter_map(|(bits, quantum_ns)| fineness(bits, quantum_ns));
    let choice = |kernel: Kernel| {
        // A GCRA word reaches up to twice the burst ahead, or as far as its debt.
        let burst = if let Kernel::Gcra(gcra) = &kernel { gcra.burst_ticks() } else { 0 };
        (kernel, rules, fields.count_bits.into(), burst.saturating_mul(policy.at_limit().bursts()))
    };
    std::iter::once(kernel).chain(coarser).map(choice).collect()
}

#[cfg(test)]
mod tests;
