//! Reads the words of a table of several quotas, where each word carries the index of its quota. Also re-bases words
//! whose quota has been replaced.
//!
//! A word whose quota has been replaced is *re-based* when a request writes it. It is read in its old ticks as of the
//! shard's floor, converted to the new quota (`algorithm/rebase.rs`), and written in the new quota's ticks. No thread
//! re-bases a word to an older quota, because a word's index names the quota in which the word is counted, and the
//! numbers of that quota are read after the word.
//!
//! Words that no request writes are re-based in two other ways, each by a CAS that expects the exact word. The change
//! of the quota itself goes through the whole table before it returns. If a shard's floor advances before the change
//! has reached the shard, the sweep of the shard re-bases its words. So no word in old ticks is left under a floor
//! above the instant of the change. Therefore times in old ticks must stay unambiguous for at most one epoch after the
//! change.
//!
//! # A word and its numbers
//! A word is read first, and then the numbers of its quota. A thread that writes is safe, because its CAS fails if the
//! word has been replaced. A thread that does not write must load the word once more after the numbers. If the word has
//! not been replaced, neither have its numbers (`book.rs`). Both checks can be deceived in one case only. The thread
//! sleeps between its loads until the index has been retired, freed and taken again, *and* it then finds the same bits
//! in the cell (tag, index and time). The table assumes that no thread sleeps that long, just as it assumes elsewhere
//! that no thread sleeps until a time wraps.

pub(in crate::keyed) mod all_words;
pub(in crate::keyed) mod spent;

use crate::algorithm::{Decides, Held, Rebased, Ruled};

use crate::keyed::memory::layout::Layout;
use crate::keyed::memory::points;
use crate::keyed::memory::shard::{GRANULE_BITS, Header, OwnBits, Shard, TableWord};
use crate::keyed::quotas::book::{Book, Lane, Page, Quotas};
use crate::keyed::table::words::{FoundWord, Words};

/// What a sweep or a change of quota does with one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::keyed) enum Settled {
    /// The word should be forgotten. The caller vacates the cell.
    Stale,
    /// The word stays, perhaps re-based.
    Kept,
}

/// The state of a word, converted to the quota in force.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Priced {
    /// The quota in force, and the word's index with its surplus.
    pub(in crate::keyed) lane: Lane,
    /// The word's debt as of the floor, or as of the instant given to `seen_from`.
    pub(in crate::keyed) held: Held,
    /// The instant at which the quota of the word was replaced, if the word is still in the ticks of that quota.
    pub(in crate::keyed) replaced_ns: Option<u64>,
    /// The instant from which the word's surplus no longer matters; 0 if the word has none.
    surplus_until_ns: u64,
}

impl Priced {
    /// The state of a live word as of the floor of its shard; `None` if the word has been replaced.
    fn of(book: &Book, word: TableWord, floor_ns: u64) -> Option<Self> {
        // The word is read in the ticks in which it was written. It is read as of the floor, since every word of the
        // shard can be read as of that instant.
        let unpack = |layout: &Layout| {
            let ruled = layout.ruled();
            layout.unpack(word, &ruled, ruled.moment(floor_ns))
        };
        // `None`, here and below, means that another quota's numbers are being written at the word's index, so the word
        // has been replaced.
        let (lane, held, units, replaced_ns) = match book.page(word)? {
            Page::InForce(lane) => {
                // No decision uses the surplus, so it stays as the bits of the word. Below, these bits only tell
                // whether there is any surplus.
                let surplus = lane.layout.surplus_of(OwnBits::from_bits(word.to_bits()));
                let lane = Lane { own: lane.own.and(surplus), ..lane };
                (lane, unpack(&lane.layout), surplus.to_bits(), None)
            }
            // The word is read in its old ticks, and then converted to the new quota.
            Page::Retired { old, at_ns, new } => {
                let (held, kept) = (unpack(&old), book.surplus(word, &old)?);
                let kept = kept.as_ref().map(|(former, units)| (former, *units));
                // The word's debt drains at the old rate until the change, and at the new rate from the change to the
                // floor.
                let (to, most) = (new.layout.ruled(), new.layout.ahead);
                let rebased = old.ruled().rebased(&to, most, held, kept, at_ns, floor_ns);
                let Rebased { held, surplus } = rebased;
                (book.with_surplus(new, surplus)?, held, surplus, Some(at_ns))
            }
        };
        let surplus_until_ns = if units > 0 { book.surplus_until_ns(lane)? } else { 0 };
        Some(Self { lane, held, replaced_ns, surplus_until_ns })
    }

    /// True if the word's key owes nothing at `at_ns` and the surplus no longer matters. `at_ns` must be the instant of
    /// `held`.
    fn is_idle(&self, at_ns: u64) -> bool {
        let ruled = self.ruled();
        self.surplus_until_ns <= at_ns && ruled.is_idle(self.held, ruled.moment(at_ns))
    }

    fn ruled(&self) -> Ruled<'_> {
        self.lane.layout.ruled()
    }

    /// True if the word's quota was replaced more than an epoch above the floor. No word may be written at that instant
    /// yet.
    fn is_ahead_of(&self, header: Header, epoch: u64) -> bool {
        self.replaced_ns
            .is_some_and(|at_ns| at_ns >> GRANULE_BITS > header.floor().saturating_add(epoch))
    }

    /// The state, converted from the instant `at_ns` to the instant `from_ns`.
    pub(in crate::keyed) fn seen_from(self, at_ns: u64, from_ns: u64) -> Self {
        // At least one of `later` and `earlier` is 0, since `passed` is 0 if its second instant comes first.
        let passed = |from_ns, to_ns| self.lane.layout.kernel.passed(from_ns, to_ns);
        let (later, earlier) = (passed(at_ns, from_ns), passed(from_ns, at_ns));
        Self { held: self.held.seen_later(later).seen_earlier(earlier), ..self }
    }
}

impl Words<'_> {
    /// The state of a word as of the floor that dates it; `None` if another thread has replaced the word meanwhile.
    pub(in crate::keyed) fn priced(&self, book: &Book, found: &FoundWord) -> Option<Priced> {
        // `None` means that the numbers of another quota are being written, so the word has been replaced.
        let priced = Priced::of(book, found.word, found.header.floor_ns())?;
        // The word is loaded again after the numbers, which belong to its quota only if the word has not been replaced.
        let stands = points::is_whole(self.shard(found.index).load(found.cell) == found.word);
        stands.then_some(priced)
    }
}

/// For each of the last two floors, true if a live word is idle at that floor. The first floor dates the word. `None`
/// if the word has been replaced.
#[cold]
#[inline(never)]
pub(in crate::keyed) fn priced_idle(
    book: &Book,
    word: TableWord,
    [read_ns, floors_ns @ ..]: [u64; 3],
) -> Option<[bool; 2]> {
    let priced = Priced::of(book, word, read_ns)?;
    Some(floors_ns.map(|at_ns| priced.seen_from(read_ns, at_ns).is_idle(at_ns)))
}

/// True if a sweep under floor `swept_ns` forgets a live word. Floor `floor_ns` dates the word. `None` if the word has
/// been replaced.
#[cold]
pub(in crate::keyed) fn is_stale_by(
    book: &Book,
    word: TableWord,
    floor_ns: u64,
    swept_ns: u64,
) -> Option<bool> {
    let priced = Priced::of(book, word, floor_ns)?;
    // The layout of the quota in force, even if the word is counted in a replaced quota.
    let layout = priced.lane.layout;
    Some(match priced.replaced_ns {
        // A word in the quota in force becomes stale as in a table of one quota, but not before its surplus has
        // expired.
        None => {
            priced.surplus_until_ns <= swept_ns && layout.staleness(floor_ns, swept_ns).of(word)
        }
        // A word in a replaced quota is forgotten by the first sweep that finds it idle. Otherwise that sweep re-bases
        // it (`settle`).
        Some(_) => priced.is_idle(floor_ns),
    })
}

impl Words<'_> {
    /// The instant at which a live word becomes idle. If the word has been replaced, the instant of the floor.
    pub(in crate::keyed) fn idle_ns(&self, word: TableWord, floor_ns: u64) -> u64 {
        match self.quotas {
            Quotas::One(layout) => {
                let ruled = layout.ruled();
                ruled.idle_ns(layout.unpack(word, &ruled, ruled.moment(floor_ns)), floor_ns)
            }
            Quotas::Several(book) => Priced::of(book, word, floor_ns)
                // The word has been replaced, so its cell may already be free.
                .map_or(floor_ns, |priced| {
                    priced.ruled().idle_ns(priced.held, floor_ns).max(priced.surplus_until_ns)
                }),
        }
    }
}

/// Tells whether a word should be forgotten at its shard's floor. A word that stays is re-based if its quota has been
/// replaced. `None` if the shard was changed meanwhile.
///
/// A word is not re-based while the instant of the change is more than an epoch above the floor. Until the floor has
/// come near to that instant, the word stays in the ticks of the old quota, which can still express its times.
#[cold]
#[inline(never)]
pub(in crate::keyed) fn settle(
    book: &Book,
    shard: &Shard,
    cell: usize,
    word: TableWord,
) -> Option<Settled> {
    let header = shard.header();
    let priced = Priced::of(book, word, header.floor_ns())?;
    let Priced { lane: Lane { layout, own }, held, replaced_ns, .. } = priced;
    let floor_ns = header.floor_ns();
    let ruled = layout.ruled();
    let moment = ruled.moment(floor_ns);
    // An idle word of the quota in force stays for an epoch, since its key may come back.
    let is_stale = replaced_ns.is_none() && layout.staleness(floor_ns, floor_ns).of(word);
    // An idle word that is counted in a replaced quota is forgotten at once.
    let is_kept = replaced_ns.is_none() && !is_stale;
    // Here the caller must vacate the cell.
    if priced.is_idle(floor_ns) && !is_kept {
        return Some(Settled::Stale);
    }
    // A stale word that is not forgotten above has a surplus that still matters. Such a word gets a new time below,
    // since the next floors could not date its old time.
    let stays =
        !is_stale && (replaced_ns.is_none() || priced.is_ahead_of(header, layout.division.epoch));
    // The word is already in the quota in force, or the change is still too far above this floor.
    if points::keeps_ticks(stays) {
        return Some(Settled::Kept);
    }
    // A stale word still owes nothing after it gets a new time.
    let held = if is_stale { Held::IDLE } else { held };
    // Both the new word and its debt are as of the floor, so the debt drains at the same instant as before.
    let next = layout.live(own.and(layout.division.tag(word).into()), held, &ruled, moment);
    // If the CAS fails, the word was changed meanwhile, and the caller reads the shard again.
    shard.replace(cell, word, next).then_some(Settled::Kept)
}
