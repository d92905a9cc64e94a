//! [`Table`]: the shards of a keyed limiter, and how a word in one of them is found.

#[cfg(any(loom, shuttle))]
pub(in crate::keyed) mod newest;
pub(in crate::keyed) mod words;

use crate::algorithm::Gcra;
use crate::change::ChangeError;
use crate::decision::Outcome;
use crate::hash::Tag;
use crate::verb::Wish;

use super::log::{Entries, LogStore, LogTable};
use super::memory::Memory;
use crate::keyed::memory::ask::Ask;
use crate::keyed::memory::layout::{Division, Layout};
use crate::keyed::memory::shard::{
    CELLS, HINTS_ARE_QUICK, Missed, Shard, TableWord, cells, is_live,
};
use crate::keyed::memory::tally::Tallies;
use crate::keyed::overflow::store::Spill;
use crate::keyed::quotas::book::Book;
use crate::keyed::quotas::book::own::QuotaId;

/// The code that decides a hit, compiled for one algorithm. It returns the outcome. The caller builds the decision from
/// it inline, so that unused parts of the decision are not computed.
pub(super) type LaidOut = fn(&Table, &Layout, &Shard, Tag, Ask) -> Result<Outcome, Missed>;

/// All cells of a keyed limiter. They are allocated once, and their number never changes.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) memory: Memory,
    pub(super) division: Division,
    pub(super) tallies: Tallies,
    pub(super) cells: Cells,
}

/// The content of a table's cells.
#[derive(Debug)]
#[repr(u8)] // so that one comparison tells which variant it is
pub(super) enum Cells {
    /// Words of one quota of plain GCRA, as in nearly all tables. Requests are decided inline, by a copy of the quota's
    /// arithmetic.
    Plain(Gcra, OneQuota),
    /// Words of one quota of any other policy. Requests are decided by code for the policy's algorithm, which is chosen
    /// when the table is built.
    LaidOut(LaidOut, OneQuota),
    /// Words of several quotas, or of quotas that may change. Each word has the index of its quota.
    Several { book: Box<Book>, spill: Option<Spill> },
    /// The table of a sliding log. Each cell names the key that owns a log entry.
    Logs(LogStore),
}

/// The one quota of a table.
#[derive(Debug)]
pub(super) struct OneQuota {
    pub(super) layout: Layout,
    /// Decides requests of keys that find no cell. Without a spill they are denied.
    pub(super) spill: Option<Spill>,
}

impl Table {
    #[inline]
    pub(super) fn shards(&self) -> usize {
        self.memory.len()
    }

    /// The layout, if the table has one quota.
    #[inline]
    pub(super) fn layout(&self) -> Option<&Layout> {
        match &self.cells {
            Cells::Plain(_, quota) | Cells::LaidOut(_, quota) => Some(&quota.layout),
            Cells::Several { .. } | Cells::Logs(_) => None,
        }
    }

    /// The quotas, if the table has several or they may change.
    #[inline]
    pub(super) fn book(&self) -> Option<&Book> {
        if let Cells::Several { book, .. } = &self.cells { Some(book) } else { None }
    }

    #[inline]
    pub(super) fn spill(&self) -> Option<&Spill> {
        match &self.cells {
            Cells::Plain(_, quota) | Cells::LaidOut(_, quota) => quota.spill.as_ref(),
            Cells::Several { spill, .. } => spill.as_ref(),
            Cells::Logs(_) => None,
        }
    }

    /// The field for the spill, or `None` if the table can have no spill.
    pub(super) fn spill_mut(&mut self) -> Option<&mut Option<Spill>> {
        match &mut self.cells {
            Cells::Plain(_, quota) | Cells::LaidOut(_, quota) => Some(&mut quota.spill),
            Cells::Several { spill, .. } => Some(spill),
            Cells::Logs(_) => None,
        }
    }

    /// The number of tiers of the table.
    pub(super) fn tiers(&self) -> usize {
        self.book().map_or(1, Book::tiers)
    }

    /// True if callers bring quotas along for the table's keys.
    pub(super) fn takes_own(&self) -> bool {
        self.book().is_some_and(Book::takes_own)
    }

    /// The tier's number as a `u16`, or an error if there is no such tier.
    #[inline]
    pub(super) fn tier(&self, tier: usize) -> Result<u16, ChangeError> {
        let tiers = self.tiers();
        let found = u16::try_from(tier).ok().filter(|_| tier < tiers);
        found.ok_or(ChangeError::NoSuchTier { tier, tiers })
    }

    pub(super) fn cells(&self) -> usize {
        self.shards() * CELLS
    }

    pub(super) fn bytes(&self) -> usize {
        let behind = match &self.cells {
            Cells::Logs(logs) => logs.bytes(),
            _ => self.spill().map_or(0, Spill::bytes),
        };
        self.memory.bytes() + behind
    }

    /// The shard with this number. The number comes from `hash`, and is below [`shards`](Self::shards).
    #[inline]
    pub(super) fn shard(&self, index: usize) -> &Shard {
        self.memory.shard(index)
    }

    /// The table's logs. `store` must be the table's own.
    pub(super) fn logs<'t>(&'t self, store: &'t LogStore) -> LogTable<'t> {
        let entries = Entries { memory: &self.memory, store };
        LogTable { entries, rule: store.rule, tallies: &self.tallies }
    }

    /// The longest wait that the tier's quota in force allows a request, and the number of units that may queue before
    /// it; `None` if the quota has no queue.
    pub(super) fn queue(&self, quota: QuotaId) -> Option<[u64; 2]> {
        match &self.cells {
            Cells::Plain(_, quota) | Cells::LaidOut(_, quota) => quota.layout.rules.queue,
            Cells::Several { book, .. } => book.rules_of(quota).queue,
            Cells::Logs(store) => store.rule.queue,
        }
    }

    /// True if the quota in force for a tier counts denials.
    #[inline(always)]
    pub(super) fn counts_denials(&self, quota: QuotaId) -> bool {
        match &self.cells {
            Cells::Plain(_, quota) | Cells::LaidOut(_, quota) => quota.layout.rules.count_denials(),
            Cells::Several { book, .. } => book.rules_of(quota).count_denials(),
            Cells::Logs(store) => store.rule.counts_denials,
        }
    }

    /// Finds the live word of `tag` in a shard, and its cell.
    ///
    /// The cell that a hint names is tried first. Otherwise all cells are compared before the right one is loaded.
    /// Which cell holds a key cannot be predicted, and a mispredicted branch costs more than the other comparisons,
    /// which all read one cache line.
    #[inline(always)]
    pub(super) fn find(&self, shard: &Shard, tag: Tag) -> Option<(usize, TableWord)> {
        let words_per_tag = self.division.words_per_tag; // a copy: past an Acquire load, the field is loaded anew
        let is_it = |word: TableWord| is_live(word, tag, words_per_tag);
        // A hint decides only where to look first. Without vector instructions it would cost a second look at every
        // word.
        if HINTS_ARE_QUICK && let Some(cell) = shard.hint(tag, self.division.state_bits) {
            let word = shard.load(cell);
            if is_it(word) {
                return Some((cell, word));
            }
        }
        // The result of each comparison is shifted in, so that bit n stands for cell n.
        let found = cells()
            .rev()
            .fold(0_u32, |found, cell| found + found + u32::from(is_it(shard.load(cell))));
        if found == 0 {
            return None;
        }
        // Take the lowest cell if there are two. At one moment there are never two (`insert/install.rs`), but the loads
        // above happen one after the other: a key that is forgotten and installed again between two of them is found in
        // both cells.
        let cell = found.trailing_zeros() as usize;
        let word = shard.load(cell);
        // If the cell no longer has a word of the key, the key counts as absent, and an install will look again.
        is_it(word).then_some((cell, word))
    }
}

impl Layout {
    /// The [`Wish`] of a request, for a word of this quota.
    #[inline(always)]
    pub(super) fn wish(&self, ask: Ask) -> Wish {
        // A word can express no time further ahead than this, so nothing is charged beyond it.
        Wish::of(ask.verb, ask.cost, ask.charge, self.ahead)
    }
}
