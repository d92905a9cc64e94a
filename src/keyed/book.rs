//! [`Book`]: the quotas of a table whose words say, each by its index, which of them they are counted in.
//!
//! A *tier* is what a caller names; an *index* is where a quota's numbers stand. A change of a tier's quota
//! takes an index that no word carries, writes the new numbers there, and only then turns the tier to
//! it. So the numbers under an index that a word carries never change, and a thread that reads a word and
//! then its numbers has one quota, whole.
//!
//! # Which threads may read numbers that are being written
//! Only a thread that holds a word that is gone. Words are written `Release` and loaded `Acquire` (`shard.rs`), and
//! a thread that writes one has read its index's numbers before: so a thread that reads it sees them, too. An index
//! is written again only after every word with it has been replaced. So a thread that finds numbers half written
//! has an old word; each entry has a version, odd while it is written, by which the thread notices, and it looks
//! for the key again. A thread that read old numbers to the end has a CAS before it that will fail, or looks
//! at the word a second time: see `price.rs`.
//!
//! # When an index is free again
//! At the end of the change that retired it. That change replaces every word with the old index itself,
//! and vacates every claim, before it returns. None can come back: a charge replaces the exact word that
//! it read, and an install reads its tier's index after its claim, with a fence between, as the change
//! has a fence between the turn to the new index and the look at the cells. So either the install sees
//! the new index or the change sees the claim. Nothing has to wait until what was charged under the old
//! quota has drained: that would be needed if a word were counted anew only when it is touched, and here
//! none is left.
//! One change at a time: a second one is refused ([`ChangeError::Busy`](crate::ChangeError::Busy)) and does not wait.

use crate::decision::View;
use crate::policy::Policy;
use crate::sketch::Lens;
use crate::sync::{AtomicU64, Fault, Ordering, planted};
use crate::word::{Fields, Word};

use super::layout::{Coded, Layout, Shared};

/// Quotas that a table may have at the same time.
pub(super) const TIERS_MAX: usize = 16;

/// An index is taken again after so many changes at the earliest. The fewest where loom explores them.
const INDICES_MIN: usize = if cfg!(loom) { 2 } else { 4 };

/// As many indices as tiers again, so that a change finds a free one.
pub(super) fn indices_for(tiers: usize) -> usize {
    (2 * tiers).max(INDICES_MIN).next_power_of_two()
}

/// The bits of an index in a table of so many tiers.
pub(super) fn index_bits_for(tiers: usize) -> u32 {
    indices_for(tiers).ilog2()
}

/// The quotas of a table.
#[derive(Debug)]
pub(super) struct Book {
    shared: Shared,
    entries: Box<[Entry]>,
    /// Under each index, the policy whose numbers these are. No decision looks at them.
    named: Box<[Named]>,
    /// For each tier the index of the quota in force: one of the entries'.
    turned_to: Box<[AtomicU64]>,
    /// Whether a quota is being changed.
    changing: AtomicU64,
    /// The latest instant at which a quota was replaced. Only a change looks at it.
    latest_ns: AtomicU64,
}

/// What stands under one index.
#[derive(Debug)]
struct Entry {
    /// Odd while the numbers are written.
    version: AtomicU64,
    numbers: [AtomicU64; size_of::<Coded>() / size_of::<u64>()],
    tier: AtomicU64,
    /// One more than the instant, in nanoseconds, at which the quota was replaced by another; 0 while it
    /// is in force.
    retired: AtomicU64,
    /// The instant at which it replaced another; 0 if it was the first.
    since: AtomicU64,
}

/// The numbers of a policy ([`Policy::numbers`]).
type Named = [AtomicU64; 4];

/// A quota, as a table is built with it or changed to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewQuota<'a> {
    pub(super) policy: &'a Policy,
    pub(super) code: &'a Coded,
}

impl Entry {
    fn vacant() -> Self {
        let numbers = std::array::from_fn(|_| AtomicU64::new(0));
        let [version, tier, retired, since] = [0; 4].map(AtomicU64::new);
        Self { version, numbers, tier, retired, since }
    }
}

/// A quota, and the index that its words carry, as it stands in them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    pub(super) layout: Layout,
    pub(super) mark: u64,
}

/// What the book says of a word.
#[derive(Clone, Copy, Debug)]
pub(super) enum Page {
    /// Its quota is in force.
    InForce(Lane),
    /// Its quota was replaced at this instant.
    Retired { old: Layout, at_ns: u64, new: Lane },
}

impl Book {
    /// A book of tiers whose quotas divide words like this: at least one, at most [`TIERS_MAX`].
    pub(super) fn new(shared: Shared, quotas: &[(Policy, Layout)]) -> Option<Self> {
        let indices: Vec<usize> = (0..quotas.len()).collect();
        Self::turned(shared, quotas, &indices, 0)
    }

    /// A book whose tiers are turned to these indices, all of them below [`indices_for`] and no two alike;
    /// the last change of a quota was at `latest_ns`.
    pub(super) fn turned(
        shared: Shared,
        quotas: &[(Policy, Layout)],
        indices: &[usize],
        latest_ns: u64,
    ) -> Option<Self> {
        let count = indices_for(quotas.len());
        let entries = (0..count).map(|_| Entry::vacant()).collect();
        let named = (0..count).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect();
        let turned_to = indices.iter().map(|&index| AtomicU64::new(index as u64)).collect();
        let [changing, latest_ns] = [0, latest_ns].map(AtomicU64::new);
        let book = Self { shared, entries, named, turned_to, changing, latest_ns };
        // No other thread has the book yet, so the order of the writes does not matter.
        for (tier, ((policy, layout), &index)) in quotas.iter().zip(indices).enumerate() {
            book.write(index, tier, NewQuota { policy, code: &Shared::code(layout)? }, 0);
        }
        Some(book)
    }

    /// The policy in force for a tier.
    pub(super) fn policy(&self, tier: usize) -> Option<Policy> {
        let turned_to = self.turned_to.get(tier)?;
        loop {
            // As in `in_force`.
            let index = index_of(turned_to.load(Ordering::Acquire));
            let version = &self.entries[index].version;
            let before = version.load(Ordering::Acquire);
            let numbers = std::array::from_fn(|n| self.named[index][n].load(Ordering::Acquire));
            // An even version that is the same behind the numbers: none of them was written in between.
            if before.is_multiple_of(2) && version.load(Ordering::Acquire) == before {
                return Policy::of_numbers(numbers);
            }
        }
    }

    /// The indices that words may carry while no quota is being changed, tier by tier.
    pub(super) fn indices(&self) -> impl Iterator<Item = usize> {
        // Acquire: as in `in_force`.
        self.turned_to.iter().map(|index| index_of(index.load(Ordering::Acquire)))
    }

    /// The index of a live word.
    pub(super) fn index_of_word(&self, word: u64) -> usize {
        self.index(word)
    }

    pub(super) fn tiers(&self) -> usize {
        self.turned_to.len()
    }

    #[inline(always)]
    pub(super) fn shared(&self) -> Shared {
        self.shared
    }

    /// The quota in force for a tier. Tiers beyond the last have the last one's.
    pub(super) fn in_force(&self, tier: usize) -> Lane {
        // There is a first tier: a book is made of one at least.
        let turned_to = &self.turned_to[tier.min(self.turned_to.len() - 1)];
        loop {
            // Acquire: pairs with the Release of `turn`, after the numbers were written.
            let index = index_of(turned_to.load(Ordering::Acquire));
            if let Some((layout, _)) = self.read(index) {
                return self.lane(layout, index);
            }
            // Its numbers are being written: so the tier has been turned to another meanwhile. Lock-free:
            // a whole change has ended since.
        }
    }

    /// What is said of a live word; `None` if the word is gone.
    pub(super) fn page(&self, word: u64) -> Option<Page> {
        self.page_of(self.index(word))
    }

    /// The same of a word that carries this index.
    pub(super) fn page_of(&self, index: usize) -> Option<Page> {
        let (layout, tier) = self.read(index)?;
        // Acquire: pairs with the Release of `turn`: a thread that sees a quota retired sees its tier turned.
        match self.entries[index].retired.load(Ordering::Acquire) {
            // No change has retired it.
            0 => Some(Page::InForce(self.lane(layout, index))),
            // Retired, so its tier has been turned before; the numbers of both are whole.
            retired => {
                let new = self.in_force(tier);
                Some(Page::Retired { old: layout, at_ns: retired - 1, new })
            }
        }
    }

    /// The numbers of a live word's quota and its index as it stands there, if the quota is in force and the word is
    /// not gone: what [`page`](Self::page) says, for the path of nearly every decision.
    #[inline(always)]
    pub(super) fn coded_of(&self, word: u64) -> Option<(Coded, u64)> {
        let index = self.index(word);
        let (code, _) = self.read_coded(index)?;
        // Acquire as in `page_of`.
        let is_in_force = self.entries[index].retired.load(Ordering::Acquire) == 0;
        is_in_force.then(|| (code, self.mark_of(index)))
    }

    /// Whether a live word carries this index.
    pub(super) fn has_index(&self, word: u64, index: usize) -> bool {
        self.index(word) == index
    }

    /// Whether some tier is turned to the index of a live word. No step of a model.
    #[cfg(any(loom, shuttle))]
    pub(super) fn is_in_force(&self, word: u64) -> bool {
        self.is_index_in_force(self.index(word))
    }

    /// Whether some tier is turned to this index. No step of a model.
    #[cfg(any(loom, shuttle))]
    pub(super) fn is_index_in_force(&self, index: usize) -> bool {
        self.turned_to.iter().any(|turned_to| index_of(turned_to.newest()) == index)
    }

    /// Below the number of entries, which is a power of two, whatever the word.
    #[inline(always)]
    fn index(&self, word: u64) -> usize {
        index_of(word >> self.shared.index_shift()) & (self.entries.len() - 1)
    }

    /// The index that a word of the spill's sketch carries: in its top bits. Below the number of entries, which is a
    /// power of two of so many bits.
    pub(super) fn index_of_spilled(&self, word: Word) -> usize {
        let bits = u64::BITS - self.entries.len().ilog2();
        index_of(word.to_bits() >> bits)
    }

    /// How the words of the spill's sketch are divided for a quota; `None` if they have no room for it.
    pub(super) fn lens(&self, layout: &Layout, mark: u64) -> Option<Lens> {
        let fields = Fields { count_bits: layout.count_bits };
        let (index, bits) = (mark >> self.shared.index_shift(), self.entries.len().ilog2());
        Lens::fitting(layout.kernel, fields, index, bits)
    }

    fn lane(&self, layout: Layout, index: usize) -> Lane {
        Lane { layout, mark: self.mark_of(index) }
    }

    /// An index as it stands in a word.
    #[inline(always)]
    pub(super) fn mark_of(&self, index: usize) -> u64 {
        (index as u64) << self.shared.index_shift()
    }

    /// The lens of the quota in force for a tier.
    pub(super) fn lens_of(&self, tier: usize) -> Option<Lens> {
        let Lane { layout, mark } = self.in_force(tier);
        self.lens(&layout, mark)
    }

    /// The numbers of an index and whose they are, or `None` while they are written.
    ///
    /// Acquire throughout: a thread that loads one number of a newer version then also sees the version odd, or
    /// newer, at the end. And it sees what came before it: that the word was replaced, or the tier turned, through
    /// which it came. So a reader fails here at most once for each change, and never waits for one.
    #[inline(always)]
    fn read_coded(&self, index: usize) -> Option<(Coded, usize)> {
        let entry = &self.entries[index];
        // Acquire: each pairs with its Release in `write`.
        let before = entry.version.load(Ordering::Acquire);
        let code = std::array::from_fn(|n| entry.numbers[n].load(Ordering::Acquire));
        let tier = index_of(entry.tier.load(Ordering::Acquire));
        // Odd, or changed: a change is writing here, so the word that led here is gone.
        let whole = before.is_multiple_of(2) && entry.version.load(Ordering::Acquire) == before;
        (whole || planted(Fault::QuotaReadTorn)).then_some((code, tier))
    }

    fn read(&self, index: usize) -> Option<(Layout, usize)> {
        let (code, tier) = self.read_coded(index)?;
        Some((self.shared.of_code(code), tier))
    }

    /// Whether a charge was made since the quota of a word's index came into force: an equal one may have been
    /// before, and another between them. It is so if the word stands: see `price.rs`. A charge of the very instant
    /// may be of the equal one; then the other was in force for no time, and nothing has drained in it.
    pub(super) fn is_of(&self, lane_mark: u64, charge: &View) -> bool {
        // Acquire: a thread that sees the word, or the tier turned, sees what was written before.
        let since = self.entries[self.index(lane_mark)].since.load(Ordering::Acquire);
        charge.at_ns.max(charge.now_ns) >= since
    }

    /// Writes the numbers of an index that no word carries, in force `since`. Only a build or a change does.
    fn write(&self, index: usize, tier: usize, quota: NewQuota<'_>, since: u64) {
        let NewQuota { policy, code } = quota;
        let entry = &self.entries[index];
        // Relaxed: only changes write it, and one change comes after the other.
        let version = entry.version.load(Ordering::Relaxed);
        if !planted(Fault::QuotaWrittenInPlace) {
            // Release: a thread that sees it sees the word gone, or the tier turned, for which it is written.
            entry.version.store(version + 1, Ordering::Release);
        }
        // Release, here and below: a thread that sees one of them sees the odd version, too.
        for (number, &value) in entry.numbers.iter().zip(code) {
            number.store(value, Ordering::Release);
        }
        // No step of a model: no decision depends on it. Release, as for the numbers.
        if !cfg!(loom) {
            for (number, value) in self.named[index].iter().zip(policy.numbers()) {
                number.store(value, Ordering::Release);
            }
            entry.since.store(since, Ordering::Release);
        }
        // Release, both: as for the numbers.
        entry.tier.store(tier as u64, Ordering::Release);
        entry.retired.store(0, Ordering::Release);
        let step = if planted(Fault::QuotaWrittenInPlace) { 0 } else { 2 };
        // Release: a thread that sees the even version sees everything that was written before it.
        entry.version.store(version + step, Ordering::Release);
    }

    /// The right to change a quota, unless another thread has it.
    pub(super) fn begin(&self) -> Option<Changing<'_>> {
        // Acquire: pairs with the Release of the thread that had it before.
        let mine = self.changing.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        // Made only where it is granted: dropped, it would end the right of another thread.
        mine.ok().map(|_| Changing { book: self })
    }
}

/// The right to change a quota. Ends when it is dropped.
#[derive(Debug)]
pub(super) struct Changing<'a> {
    book: &'a Book,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        // Release: the next change sees all that was written.
        self.book.changing.store(0, Ordering::Release);
    }
}

impl Changing<'_> {
    /// The instant of the last change.
    pub(super) fn latest_ns(&self) -> u64 {
        // Relaxed, as in `instant`.
        self.book.latest_ns.load(Ordering::Relaxed)
    }

    /// When a change at `now` takes place: not before the one before it.
    pub(super) fn instant(&self, now_ns: u64) -> u64 {
        // Relaxed, both: the right to change orders them.
        let at_ns = now_ns.max(self.book.latest_ns.load(Ordering::Relaxed)).min(u64::MAX - 1);
        self.book.latest_ns.store(at_ns, Ordering::Relaxed);
        at_ns
    }

    /// Turns a tier to a quota of these numbers at [`Self::instant`], and gives the index that is retired by
    /// it: no word may carry that any more before the right ends.
    pub(super) fn turn(&self, tier: usize, quota: NewQuota<'_>, at_ns: u64) -> usize {
        let book = self.book;
        // Relaxed: only the thread with the right to change writes it.
        let old = index_of(book.turned_to[tier].load(Ordering::Relaxed));
        let new = self.free_index(old);
        if planted(Fault::QuotaWrittenInPlace) {
            book.write(old, tier, quota, at_ns);
            return old;
        }
        // No word carries the new index and no tier is turned to it: no thread relies on what is written.
        book.write(new, tier, quota, at_ns);
        // In this order, Release both: see `page`. New keys are counted in the new quota from here on.
        book.turned_to[tier].store(new as u64, Ordering::Release);
        // And so are old ones from here on.
        book.entries[old].retired.store(at_ns + 1, Ordering::Release);
        old
    }

    /// An index that no tier is turned to, and so no word carries; after the retired one, in turn, so that
    /// one that was retired just now comes last.
    fn free_index(&self, after: usize) -> usize {
        let count = self.book.entries.len();
        // Relaxed: as in `turn`.
        let in_use = |index: &usize| {
            let indices = self.book.turned_to.iter();
            indices.map(|index| index_of(index.load(Ordering::Relaxed))).any(|used| used == *index)
        };
        // There are twice as many indices as tiers.
        (after + 1..after + count).map(|index| index % count).find(|i| !in_use(i)).unwrap_or(after)
    }
}

/// An index as it is kept in an atomic.
#[expect(
    clippy::cast_possible_truncation,
    reason = "indices are small; of a word, its low bits are"
)]
fn index_of(bits: u64) -> usize {
    bits as usize
}

#[cfg(test)]
mod tests {
    use crate::{ChangeError, KeyedLimiter, ManualClock, Quota, Tiers};

    #[test]
    fn a_refused_change_does_not_end_the_right_of_the_one_under_way() {
        let tiers = Tiers::of(Quota::per_hour(10));
        let limiter: KeyedLimiter<str> =
            tiers.build_with_clock(10, ManualClock::new()).expect("a table");
        let under_way = limiter.table.book.as_deref().and_then(super::Book::begin);
        assert!(under_way.is_some());
        for _ in 0..3 {
            assert_eq!(limiter.set_quota(0, Quota::per_hour(20)), Err(ChangeError::Busy));
        }
        drop(under_way);
        assert_eq!(limiter.set_quota(0, Quota::per_hour(20)), Ok(()));
    }
}
