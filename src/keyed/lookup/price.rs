//! Reading words whose quota is found by their index, and re-basing those whose quota has been replaced.
//!
//! A word whose quota has been replaced is *re-based* when it is touched: it is read in its old ticks at the shard's
//! floor, carried over the change (`algorithm/rebase.rs`), and written in the new quota's ticks. A word is never
//! re-based backward: its own index says which quota it is counted in, and the numbers are read after the word.
//!
//! Words that no request touches are re-based in two other ways, each by a compare-and-swap from the exact word. The
//! change itself goes through the whole table before it returns. If a shard's floor advances before the change has
//! reached the shard, the sweep of the shard re-bases its words. So no word in old ticks is left under a floor above
//! the change, and times in old ticks need to be unambiguous for no longer than an epoch.
//!
//! # A word and its numbers
//! A word and the numbers of its quota are read one after the other. A writer's CAS validates the pair. A reader loads
//! the word once more after the numbers: if the word has not been replaced, neither have its numbers (`book.rs`). Both
//! checks fail in one case only: the thread sleeps between its loads for so long that the index is retired, free and
//! taken again, *and* then finds the same bits in the cell (tag, index and time). The table excludes this by the same
//! assumption on sleeping threads as elsewhere, with several changes of quota in place of a whole wrap of the time.

pub(in crate::keyed) mod all_words;
pub(in crate::keyed) mod spent;

use crate::algorithm::{Decides, Held, Rebased, Ruled};

use crate::keyed::memory::layout::Layout;
use crate::keyed::memory::points;
use crate::keyed::memory::shard::{GRANULE_BITS, Header, OwnBits, Shard, TableWord};
use crate::keyed::quotas::book::{Book, Lane, Page, Quotas};
use crate::keyed::table::words::{FoundWord, Words};

/// The result of a sweep for one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::keyed) enum Settled {
    /// The word is to be forgotten.
    Stale,
    /// The word stays, in the quota in force.
    Kept,
}

/// The state of a word under the quota in force.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Priced {
    /// The quota in force, and the word's index with its surplus.
    pub(in crate::keyed) lane: Lane,
    /// The state, seen from the instant that was asked for.
    pub(in crate::keyed) held: Held,
    /// The instant at which the quota of the word was replaced, if the word is still in the ticks of that quota.
    pub(in crate::keyed) replaced_ns: Option<u64>,
    /// The instant from which the word's surplus no longer matters; 0 if the word has none.
    surplus_until_ns: u64,
}

impl Priced {
    /// The state of a live word, seen from the floor of its shard; `None` if the word is gone.
    fn of(book: &Book, word: TableWord, floor_ns: u64) -> Option<Self> {
        // The word is read in the ticks that it was written in, and at the floor, where every word of the shard can be
        // read.
        let unpack = |layout: &Layout| {
            let ruled = layout.ruled();
            layout.unpack(word, &ruled, ruled.moment(floor_ns))
        };
        // `None`, here and below, means that numbers are being written for another quota, so the word has been
        // replaced.
        let (lane, held, units, replaced_ns) = match book.page(word)? {
            Page::InForce(lane) => {
                // No decision counts the surplus, so it stays as it is. Its bits are used below only to see whether
                // there is any surplus.
                let surplus = lane.layout.surplus_of(OwnBits::from_bits(word.to_bits()));
                let lane = Lane { own: lane.own.and(surplus), ..lane };
                (lane, unpack(&lane.layout), surplus.to_bits(), None)
            }
            // The word is read in the ticks that it was written in, and then carried over the change.
            Page::Retired { old, at_ns, new } => {
                let (held, kept) = (unpack(&old), book.surplus(word, &old)?);
                let kept = kept.as_ref().map(|(former, units)| (former, *units));
                // The word's debt drains at the old rate up to the change, and at the new rate from there to the floor.
                let (to, most) = (new.layout.ruled(), new.layout.ahead);
                let rebased = old.ruled().rebased(&to, most, held, kept, at_ns, floor_ns);
                let Rebased { held, surplus } = rebased;
                (book.with_surplus(new, surplus)?, held, surplus, Some(at_ns))
            }
        };
        let surplus_until_ns = if units > 0 { book.surplus_until_ns(lane)? } else { 0 };
        Some(Self { lane, held, replaced_ns, surplus_until_ns })
    }

    /// True if the word's key can be forgotten at the instant from which the word is seen, because it owes nothing
    /// then.
    fn is_idle(&self, at_ns: u64) -> bool {
        let ruled = self.ruled();
        self.surplus_until_ns <= at_ns && ruled.is_idle(self.held, ruled.moment(at_ns))
    }

    fn ruled(&self) -> Ruled<'_> {
        self.lane.layout.ruled()
    }

    /// True if the change lies so far above the floor that nothing may be written at its instant yet.
    fn is_ahead_of(&self, header: Header, epoch: u64) -> bool {
        self.replaced_ns
            .is_some_and(|at_ns| at_ns >> GRANULE_BITS > header.floor().saturating_add(epoch))
    }

    /// The state seen from another instant.
    pub(in crate::keyed) fn seen_from(self, at_ns: u64, from_ns: u64) -> Self {
        // One of the two is 0, because one instant is not both earlier and later than the other.
        let passed = |from_ns, to_ns| self.lane.layout.kernel.passed(from_ns, to_ns);
        let (later, earlier) = (passed(at_ns, from_ns), passed(from_ns, at_ns));
        Self { held: self.held.seen_later(later).seen_earlier(earlier), ..self }
    }
}

impl Words<'_> {
    /// The state of a word, seen from the floor that dates it; `None` if another thread has replaced the word
    /// meanwhile.
    pub(in crate::keyed) fn priced(&self, book: &Book, found: &FoundWord) -> Option<Priced> {
        // `None` means that the numbers are being written, so the word has been replaced, too.
        let priced = Priced::of(book, found.word, found.header.floor_ns())?;
        // The word is loaded again after its numbers. They are those of its quota only if it has not been replaced.
        let stands = points::is_whole(self.shard(found.index).load(found.cell) == found.word);
        stands.then_some(priced)
    }
}

/// Reads a live word by the first of these floors, and tells whether it is idle at each of the two others; `None` if
/// the word has been replaced.
#[cold]
#[inline(never)]
pub(in crate::keyed) fn priced_idle(
    book: &Book,
    word: TableWord,
    [read_ns, floors_ns @ ..]: [u64; 3],
) -> Option<[bool; 2]> {
    // The word is read by the first floor. Its state is then seen from the instants of the two others.
    let priced = Priced::of(book, word, read_ns)?;
    Some(floors_ns.map(|at_ns| priced.seen_from(read_ns, at_ns).is_idle(at_ns)))
}

/// True if a sweep under the second floor forgets a live word, which is read by the first; `None` if the word is gone.
#[cold]
pub(in crate::keyed) fn is_stale_by(
    book: &Book,
    word: TableWord,
    floor_ns: u64,
    swept_ns: u64,
) -> Option<bool> {
    let priced = Priced::of(book, word, floor_ns)?;
    // This is the layout of the quota in force, whichever quota the word is counted in.
    let layout = priced.lane.layout;
    Some(match priced.replaced_ns {
        // A word in the quota in force is stale as in a table of one quota, but only after its surplus has expired.
        None => {
            priced.surplus_until_ns <= swept_ns && layout.staleness(floor_ns, swept_ns).of(word)
        }
        // A word in an old quota is forgotten by the first sweep if it is idle there. Otherwise `settle` re-bases it at
        // that sweep.
        Some(_) => priced.is_idle(floor_ns),
    })
}

impl Words<'_> {
    /// The instant at which a live word becomes idle; the instant of its floor if the word has been replaced.
    pub(in crate::keyed) fn idle_ns(&self, word: TableWord, floor_ns: u64) -> u64 {
        match self.quotas {
            Quotas::One(layout) => {
                let ruled = layout.ruled();
                ruled.idle_ns(layout.unpack(word, &ruled, ruled.moment(floor_ns)), floor_ns)
            }
            Quotas::Several(book) => Priced::of(book, word, floor_ns)
                // The word has been replaced, so it does not keep a newcomer from its cell any more.
                .map_or(floor_ns, |priced| {
                    priced.ruled().idle_ns(priced.held, floor_ns).max(priced.surplus_until_ns)
                }),
        }
    }
}

/// Judges a word of a shard by its floor, and re-bases it if its quota has been replaced; `None` if the shard was
/// changed meanwhile.
///
/// It does not re-base a word while the change lies beyond the reach of the floor. Until the floor has come near, the
/// word is read in the old quota, whose ticks reach that far.
#[cold]
#[inline(never)]
pub(in crate::keyed) fn settle(
    book: &Book,
    shard: &Shard,
    cell: usize,
    word: TableWord,
) -> Option<Settled> {
    let header = shard.header();
    // The word is read at the floor of its shard, and then seen from each instant that matters.
    let priced = Priced::of(book, word, header.floor_ns())?;
    let Priced { lane: Lane { layout, own }, held, replaced_ns, .. } = priced;
    let floor_ns = header.floor_ns();
    let ruled = layout.ruled();
    let moment = ruled.moment(floor_ns);
    // An idle word of the quota in force stays for an epoch, since its key may come back.
    let is_stale = replaced_ns.is_none() && layout.staleness(floor_ns, floor_ns).of(word);
    // A word that is counted in a replaced quota is not kept while it is idle.
    let is_kept = replaced_ns.is_none() && !is_stale;
    // The caller vacates the cell.
    if priced.is_idle(floor_ns) && !is_kept {
        return Some(Settled::Stale);
    }
    // A stale word that comes this far has a surplus that still matters. It is dated anew below, since the next floors
    // could not date it.
    let stays =
        !is_stale && (replaced_ns.is_none() || priced.is_ahead_of(header, layout.division.epoch));
    // The word is in the quota in force already, or the change is still out of this floor's reach.
    if points::keeps_ticks(stays) {
        return Some(Settled::Kept);
    }
    // A stale word that is dated anew owes nothing, as before.
    let held = if is_stale { Held::IDLE } else { held };
    // The word is written at the floor. The debt is measured from there, so it drains neither earlier nor later than it
    // did.
    let next = layout.live(own.and(layout.division.tag(word).into()), held, &ruled, moment);
    // `None` if it was charged meanwhile: the caller reads the shard again.
    shard.replace(cell, word, next).then_some(Settled::Kept)
}
