//! [`Book`]: the quotas of a table whose words name their quota by an index.
//!
//! Callers name a *tier*. An *index* is the place of a quota's numbers in the book. A change of a tier's quota takes an
//! index that no word carries, writes the new numbers there, and only then points the tier to this index (it *turns*
//! the tier). So the numbers under an index never change while a word carries the index. A thread that reads a word and
//! then the numbers reads the numbers of a single quota.
//!
//! # Which threads may read numbers that are being written
//! A thread can find half-written numbers only if the word that it read has been replaced meanwhile. Words are written
//! `Release` and loaded `Acquire` (`shard.rs`), and a thread that writes a word has read the numbers of its index
//! before. So a thread that reads the word sees these numbers, too. The numbers of an index are written again only
//! after every word with that index has been replaced. So a thread that finds numbers half written has read a word that
//! has been replaced by now. The thread notices this by the version of the entry, which is odd while the numbers are
//! written. It then looks for the key again. A thread that has read all of the old numbers notices that its word has
//! been replaced: it either tries a CAS, which fails, or loads the word a second time. See `lookup/price.rs`.
//!
//! # When an index is free again
//! An index is free at the end of the change that retired it. Before the change returns, it replaces every word with
//! the old index and vacates every claim. No such word can come back: a charge replaces the exact word that it read,
//! and an install reads its tier's index after its claim, with a fence in between. The change also has a fence, after
//! it has turned the tier to the new index and before it looks at the cells. So either the install sees the new index
//! or the change sees the claim. The index can thus be used again before the charges under the old quota have drained,
//! since no word is left in that quota's ticks. Only one change at a time is possible: a second change is refused
//! ([`ChangeError::Busy`](crate::ChangeError::Busy)) and does not wait.

mod changing;
mod numbers;
pub(in crate::keyed) mod own;
pub(in crate::keyed) mod saved;

use crate::algorithm::{Former, Rules};
use crate::decision::View;
use crate::keyed::memory::shard::{OwnBits, TableWord};
use crate::policy::{NUMBERS, Policy};
use crate::sketch::Lens;
use crate::sync::{AtomicU64, Ordering};
use crate::word::{Fields, Word};

use crate::keyed::memory::layout::{Coded, Layout, Shared};
use crate::keyed::memory::points;

pub(in crate::keyed) use numbers::NewQuota;
use numbers::{Named, QuotaNumbers, Start, index_of};
use own::{OwnQuotas, QuotaId, Void};

/// The number of tiers that a table may have.
// There are twice as many indices as tiers. So an index takes five bits at most, and leaves 58 bits for the other
// fields of a live word.
pub(in crate::keyed) const TIERS_MAX: usize = 16;

/// The least number of indices. A table of one tier uses an index again after as many changes. Models have fewer
/// indices, since loom explores all of them.
// With two indices, a thread that sleeps during two changes could find another quota under its index. With four, it
// would have to sleep during four changes (three in a table of two tiers), and then find a word with the same bits
// (`lookup/price.rs`).
const INDICES_MIN: usize = if cfg!(loom) { 2 } else { 4 };

/// Twice as many indices as tiers, so that a change finds a free one.
pub(in crate::keyed) fn indices_for(tiers: usize) -> usize {
    // The number is a power of two, so any bits in the place of a word's index name an entry.
    (2 * tiers).max(INDICES_MIN).next_power_of_two()
}

/// The number of bits of an index in a table with this number of tiers.
pub(in crate::keyed) fn index_bits_for(tiers: usize) -> u32 {
    indices_for(tiers).ilog2()
}

/// The quotas of a table.
#[derive(Debug)]
pub(in crate::keyed) struct Book {
    shared: Shared,
    entries: Box<[QuotaNumbers]>,
    /// For each index, the policy of its quota. No decision reads it.
    named: Box<[Named]>,
    /// For each index, the policy under which a surplus of its words was spent. Only a change and a snapshot read it.
    former_named: Box<[Named]>,
    /// For each tier, the index of the quota in force.
    turned_to: Box<[AtomicU64]>,
    /// 1 while a quota is being changed, else 0.
    changing: AtomicU64,
    /// The latest instant at which a quota was replaced. Only a thread with the right to change reads it.
    latest_ns: AtomicU64,
    /// The quotas that callers bring along with requests, if this is a book of such quotas and not of tiers.
    own: Option<OwnQuotas>,
}

/// A quota, and its words' own bits except the tag: the index of the quota and, for a word that has one, the surplus.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Lane {
    pub(in crate::keyed) layout: Layout,
    pub(in crate::keyed) own: OwnBits,
}

/// The quota under which a surplus was spent, as a snapshot has it.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct FormerQuota {
    pub(in crate::keyed) former: Former,
    pub(in crate::keyed) policy: Policy,
}

/// The quotas that the words of a table are counted in.
#[derive(Clone, Copy)]
pub(in crate::keyed) enum Quotas<'t> {
    One(&'t Layout),
    Several(&'t Book),
}

/// What the book says about the quota of a word.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "read on the stack and handed on: nothing keeps one")]
pub(in crate::keyed) enum Page {
    /// The quota of the word is in force.
    InForce(Lane),
    /// The quota of the word was replaced at this instant.
    Retired { old: Layout, at_ns: u64, new: Lane },
}

impl Book {
    /// A book of tiers with these quotas and layouts: at least one, at most [`TIERS_MAX`].
    pub(in crate::keyed) fn new(shared: Shared, quotas: &[(Policy, Layout)]) -> Self {
        // Tier n has index n until its quota is changed.
        let indices = (0..quotas.len()).map(|index| (index, None));
        Self::turned(shared, quotas, &indices.collect::<Vec<_>>(), 0)
    }

    /// A book whose tiers have these indices. With each index comes the quota under which a surplus of its words was
    /// spent. All indices are below [`indices_for`], and no two are alike. The last change of a quota was at
    /// `latest_ns`.
    pub(in crate::keyed) fn turned(
        shared: Shared,
        quotas: &[(Policy, Layout)],
        indices: &[(usize, Option<FormerQuota>)],
        latest_ns: u64,
    ) -> Self {
        let turned_to = indices.iter().map(|&(index, _)| index);
        let count = indices_for(quotas.len());
        let book = Self::blank(shared, [count; 2], turned_to, latest_ns);
        // No other thread has the book yet, so the order of the writes does not matter.
        for (tier, ((policy, layout), &(index, former))) in quotas.iter().zip(indices).enumerate() {
            let quota = NewQuota { policy, code: &Shared::code(layout), rules: &layout.rules };
            let start = Start { since_ns: 0, former: former.map(|quota| quota.former) };
            book.entries[index].write(&book.named[index], tier, quota, start, || ());
            book.name_former(index, former.map_or([0; NUMBERS], |quota| quota.policy.numbers()));
        }
        book
    }

    /// A book with `places` places for quotas that callers bring along. Keys whose callers bring no quota are under the
    /// quota given here.
    pub(in crate::keyed) fn of_own(
        shared: Shared,
        (policy, layout): (&Policy, &Layout),
        places: usize,
    ) -> Self {
        // Each place is treated as a tier whose index never changes. Only the policy of the limiter's own quota is
        // kept, so `named` has one entry.
        let mut book = Self::blank(shared, [places, 1], 0..places, 0);
        let quota = NewQuota { policy, code: &Shared::code(layout), rules: &layout.rules };
        book.entries[0].write(&book.named[0], 0, quota, Start::default(), || ());
        book.own = Some(OwnQuotas::new(places));
        book
    }

    /// A book with `count` entries and room for `names` policies, and no quotas.
    fn blank(
        shared: Shared,
        [count, names]: [usize; 2],
        turned_to: impl Iterator<Item = usize>,
        latest_ns: u64,
    ) -> Self {
        // There is an entry for each index that a word's bits can hold, so every word's index is within the book.
        let entries = (0..count).map(|_| QuotaNumbers::vacant()).collect();
        let names = || (0..names).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect();
        let (named, former_named): (Box<[Named]>, Box<[Named]>) = (names(), names());
        let turned_to = turned_to.map(|index| AtomicU64::new(index as u64)).collect();
        let [changing, latest_ns] = [0, latest_ns].map(AtomicU64::new);
        let own = None;
        Self { shared, entries, named, former_named, turned_to, changing, latest_ns, own }
    }

    /// The policy in force for a tier.
    pub(in crate::keyed) fn policy(&self, tier: usize) -> Option<Policy> {
        let turned_to = self.turned_to.get(tier)?;
        loop {
            // Acquire: as in `in_force`.
            let index = index_of(turned_to.load(Ordering::Acquire));
            // Lock-free, as in `in_force`: the loop repeats only if a whole change has ended since the index was read.
            if let Some(numbers) = self.entries[index].named(&self.named[index]) {
                return Policy::of_numbers(numbers);
            }
        }
    }

    /// The indices that words may carry while no quota is being changed, tier by tier.
    pub(in crate::keyed) fn indices(&self) -> impl Iterator<Item = usize> {
        // Acquire: as in `in_force`.
        self.turned_to.iter().map(|index| index_of(index.load(Ordering::Acquire)))
    }

    /// The index of a live word.
    pub(in crate::keyed) fn index_of_word(&self, word: TableWord) -> usize {
        self.index(word.to_bits())
    }

    pub(in crate::keyed) fn tiers(&self) -> usize {
        // A book of quotas that callers bring along has one tier, the limiter's own quota.
        if self.takes_own() { 1 } else { self.turned_to.len() }
    }

    /// The number of places of a book: as many as an index can name.
    pub(super) fn places(&self) -> usize {
        self.entries.len()
    }

    /// Writes a quota in a place that this thread has taken. `also` writes the numbers that are kept beside the quota.
    pub(super) fn write_own(&self, place: usize, quota: NewQuota<'_>, also: impl FnOnce()) {
        let unnamed: Named = std::array::from_fn(|_| AtomicU64::new(0));
        self.entries[place].write(&unnamed, place, quota, Start::default(), also);
    }

    /// Reads the numbers that are kept beside a quota, and their version; `None` while they are written.
    pub(super) fn read_own<T>(&self, place: usize, read: impl FnOnce() -> T) -> Option<(T, u64)> {
        self.entries[place].read_beside(read)
    }

    #[inline(always)]
    pub(super) fn version(&self, place: usize) -> u64 {
        self.entries[place].version()
    }

    /// The quota in which a word is counted, and its index; `None` if the word has been replaced.
    pub(in crate::keyed) fn lane_of(&self, word: TableWord) -> Option<(Lane, usize)> {
        let index = self.index_of_word(word);
        let (layout, _) = self.read(index)?;
        Some((self.lane(layout, index), index))
    }

    #[inline(always)]
    pub(in crate::keyed) fn shared(&self) -> Shared {
        self.shared
    }

    /// The quota in force for a tier. A tier beyond the last has the quota of the last tier. In a book of own quotas,
    /// `tier` is a place that the caller has pinned.
    pub(in crate::keyed) fn in_force(&self, tier: usize) -> Lane {
        // There is a first tier, since a book is made with at least one.
        let turned_to = &self.turned_to[tier.min(self.turned_to.len() - 1)];
        loop {
            // Acquire: pairs with the Release of `turn`, after the numbers were written.
            let index = index_of(turned_to.load(Ordering::Acquire));
            if let Some((layout, _)) = self.read(index) {
                return self.lane(layout, index);
            }
            // The numbers are being written, so the tier has been turned to another index meanwhile. Lock-free: the
            // loop repeats only if a whole change has ended since the index was read.
        }
    }

    /// The rules of the quota in force for a tier.
    pub(in crate::keyed) fn rules_of(&self, quota: QuotaId) -> Rules {
        // Quotas that callers bring along have no rules. Besides, their numbers may be read only by a thread that has
        // pinned the place.
        if self.takes_own() {
            Rules::default()
        } else {
            self.in_force(quota.number.into()).layout.rules
        }
    }

    /// The entry for a live word; `None` if the word has been replaced.
    pub(in crate::keyed) fn page(&self, word: TableWord) -> Option<Page> {
        self.page_of(self.index(word.to_bits()))
    }

    /// Like [`page`](Self::page), for a word that carries this index.
    pub(in crate::keyed) fn page_of(&self, index: usize) -> Option<Page> {
        // `None` means that a change is writing this entry, so the word that led here has been replaced.
        let (layout, tier) = self.read(index)?;
        Some(match self.entries[index].retired_ns() {
            None => Page::InForce(self.lane(layout, index)),
            // The quota is retired. Its tier was turned before that, so the numbers of both quotas are whole.
            Some(at_ns) => Page::Retired { old: layout, at_ns, new: self.in_force(tier) },
        })
    }

    /// The numbers of a live word's quota, if the quota is in force and has no rules, and the word has not been
    /// replaced. Nearly every decision takes this path instead of [`page`](Self::page).
    #[inline(always)]
    pub(in crate::keyed) fn coded_of(&self, word: TableWord) -> Option<Coded> {
        let entry = &self.entries[self.index(word.to_bits())];
        // `None` means the same as in `page_of`. The tier is not needed, because the word was found by its key's tag,
        // which depends on the tier.
        let (code, _) = entry.read()?;
        // A word of a retired quota has to be re-based first, and rules need more than the numbers: both take the slow
        // way.
        entry.is_plainly_in_force().then_some(code)
    }

    /// Like [`coded_of`](Self::coded_of), for a request under a quota. Also returns `None` if the word is counted in
    /// another quota.
    #[inline(always)]
    pub(in crate::keyed) fn coded_for(&self, word: TableWord, quota: QuotaId) -> Option<Coded> {
        let index = self.index(word.to_bits());
        // The word was charged under another quota than that of the request: the slow way carries the word over.
        if self.takes_own() && !points::is_asked(self.serves(index, quota)) {
            return None;
        }
        self.coded_of(word)
    }

    /// Keeps the numbers of the policy under which the surplus of words with this index was spent. Only a build or a
    /// change calls this.
    fn name_former(&self, index: usize, numbers: [u64; NUMBERS]) {
        // Relaxed: only a thread with the right to change reads these numbers. Models leave out these writes and those
        // of `named`.
        if !cfg!(loom) {
            for (number, value) in self.former_named[index].iter().zip(numbers) {
                number.store(value, Ordering::Relaxed);
            }
        }
    }

    /// The quota under which a surplus of this index's words was spent, with the numbers of its policy. The caller has
    /// the right to change the book.
    pub(in crate::keyed) fn named_former(&self, index: usize) -> (Option<Former>, [u64; NUMBERS]) {
        // Relaxed: the caller has the right to change, so no other thread writes these numbers.
        let numbers = std::array::from_fn(|n| self.former_named[index][n].load(Ordering::Relaxed));
        (self.former(index).flatten(), numbers)
    }

    /// The quota under which a surplus of this index's words was spent, if any. The outer `None` means that the numbers
    /// are being written.
    pub(in crate::keyed) fn former(&self, index: usize) -> Option<Option<Former>> {
        self.entries[index].former()
    }

    /// Like [`former`](Self::former), for the index that is among a word's own bits.
    pub(in crate::keyed) fn former_of(&self, own: OwnBits) -> Option<Option<Former>> {
        self.former(self.index(own.to_bits()))
    }

    /// The surplus of a live word with this layout, and the quota under which the surplus was spent. The inner `None`
    /// means that the word has no surplus, the outer `None` that the word has been replaced.
    pub(in crate::keyed) fn surplus(
        &self,
        word: TableWord,
        layout: &Layout,
    ) -> Option<Option<(Former, u64)>> {
        let surplus = layout.surplus_of(layout.own_of(word));
        // There is nearly never a surplus.
        if surplus == OwnBits::default() {
            return Some(None);
        }
        let former = self.former(self.index(word.to_bits()))?;
        Some(former.map(|former| (former, layout.surplus_units(surplus, &former))))
    }

    /// The instant from which a surplus in words of this lane no longer matters; `None` if the numbers are being
    /// written.
    pub(in crate::keyed) fn surplus_until_ns(&self, lane: Lane) -> Option<u64> {
        let former = self.former_of(lane.own)?;
        Some(former.map_or(0, |former| former.until_ns))
    }

    /// The lane of a word with a surplus of `units`; `None` if its numbers are being written.
    pub(in crate::keyed) fn with_surplus(&self, lane: Lane, units: u64) -> Option<Lane> {
        // There is nearly never a surplus.
        if units == 0 {
            return Some(lane);
        }
        let former = self.former_of(lane.own)?;
        let surplus = former.map(|former| lane.layout.surplus_bits_of(units, &former));
        Some(Lane { own: lane.own.and(surplus.unwrap_or_default()), ..lane })
    }

    /// True if a live word carries this index.
    pub(in crate::keyed) fn has_index(&self, word: TableWord, index: usize) -> bool {
        self.index(word.to_bits()) == index
    }

    /// True if some tier is turned to the index of a live word. A model does not count this as a step.
    #[cfg(any(loom, shuttle))]
    pub(in crate::keyed) fn is_in_force(&self, word: TableWord) -> bool {
        self.is_index_in_force(self.index(word.to_bits()))
    }

    /// True if some tier is turned to this index. A model does not count this as a step.
    #[cfg(any(loom, shuttle))]
    pub(in crate::keyed) fn is_index_in_force(&self, index: usize) -> bool {
        self.turned_to.iter().any(|turned_to| index_of(turned_to.newest()) == index)
    }

    /// The index in a word's bits. Whatever the word is, the index is below the number of entries, which is a power of
    /// two.
    #[inline(always)]
    fn index(&self, bits: u64) -> usize {
        // The tag stands above the index, and the mask removes the tag.
        index_of(bits >> self.shared.index_shift()) & (self.entries.len() - 1)
    }

    /// The index that a word of the spill's sketch carries in its top bits. The index is below the number of entries,
    /// since its bits can name only that many.
    pub(in crate::keyed) fn index_of_spilled(&self, word: Word) -> usize {
        let bits = u64::BITS - self.entries.len().ilog2();
        index_of(word.to_bits() >> bits)
    }

    /// How the words of the spill's sketch are divided for a quota; `None` if the words have no room for the quota.
    pub(in crate::keyed) fn lens(&self, layout: &Layout, own: OwnBits) -> Option<Lens> {
        let fields = Fields { count_bits: layout.count_bits };
        // The sketch's words have no tag: the index, as a number, stands in their top bits.
        let (index, bits) =
            (own.to_bits() >> self.shared.index_shift(), self.entries.len().ilog2());
        let lens = Lens::fitting(layout.kernel, fields, index, bits)?;
        // A quota with rules counts denials or penalties, which keys that share a cell would share.
        Some(if layout.rules.are_none() { lens } else { lens.of_one_key() })
    }

    fn lane(&self, layout: Layout, index: usize) -> Lane {
        Lane { layout, own: self.bits_of(index) }
    }

    /// An index as it stands in a word.
    #[inline(always)]
    pub(in crate::keyed) fn bits_of(&self, index: usize) -> OwnBits {
        // The index is below the number of entries, so it fits in its field.
        OwnBits::from_bits((index as u64) << self.shared.index_shift())
    }

    /// The lens of the quota in force for a tier.
    pub(in crate::keyed) fn lens_of(&self, tier: usize) -> Option<Lens> {
        let Lane { layout, own } = self.in_force(tier);
        self.lens(&layout, own)
    }

    fn read(&self, index: usize) -> Option<(Layout, usize)> {
        let (code, rules, tier) = self.entries[index].read_with_rules()?;
        Some((self.shared.of_code(code, rules), tier))
    }

    /// True if a charge was made after the quota of this index came into force. (The same quota may also have been in
    /// force earlier, under another index.) The answer is right if the word has not been replaced: see
    /// `lookup/price.rs`. A charge at the very instant of the change may have been made under the earlier quota. This
    /// does no harm: no time had passed between the charge and the change, so nothing had drained under the earlier
    /// quota. The result is false for the charges in `void`, which is empty except in a book of own quotas.
    pub(in crate::keyed) fn is_of(&self, own: OwnBits, charge: &View, void: Void) -> bool {
        let (charged_ns, index) = (charge.at_ns.max(charge.now_ns), self.index(own.to_bits()));
        charged_ns >= self.entries[index].since_ns() && !void.holds(charged_ns, index)
    }
}
