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

/// The code that is laid out for a policy. It gives the outcome; the decision is built in line, where what no caller asks
/// for is not computed.
pub(super) type LaidOut = fn(&Table, &Layout, &Shard, Tag, Ask) -> Result<Outcome, Missed>;

/// All cells of a keyed limiter. Allocated once; never grows, never shrinks.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) memory: Memory,
    pub(super) division: Division,
    pub(super) tallies: Tallies,
    pub(super) cells: Cells,
}

/// What the cells of a table hold.
#[derive(Debug)]
#[repr(u8)] // so that one comparison tells which
pub(super) enum Cells {
    /// Words of one quota, plain GCRA, which nearly all tables have: decided in line, by its arithmetic once more.
    Plain(Gcra, OneQuota),
    /// Words of one quota, whatever else: decided by the code that is laid out for it, chosen when the table is built.
    LaidOut(LaidOut, OneQuota),
    /// Words of several quotas, or of such as may change: each says by an index which it is counted in.
    Several { book: Box<Book>, spill: Option<Spill> },
    /// Of a policy of sliding logs: each names the key whose entry stands behind it in the slots.
    Logs(LogStore),
}

/// The one quota of a table.
#[derive(Debug)]
pub(super) struct OneQuota {
    pub(super) layout: Layout,
    /// Decides keys that find no cell. Without it they are denied.
    pub(super) spill: Option<Spill>,
}

impl Table {
    #[inline]
    pub(super) fn shards(&self) -> usize {
        self.memory.len()
    }

    /// Its layout, if it has one quota.
    #[inline]
    pub(super) fn layout(&self) -> Option<&Layout> {
        match &self.cells {
            Cells::Plain(_, quota) | Cells::LaidOut(_, quota) => Some(&quota.layout),
            Cells::Several { .. } | Cells::Logs(_) => None,
        }
    }

    /// Its quotas, if it has several or they may change.
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

    /// Where its spill is; `None` if it can have none.
    pub(super) fn spill_mut(&mut self) -> Option<&mut Option<Spill>> {
        match &mut self.cells {
            Cells::Plain(_, quota) | Cells::LaidOut(_, quota) => Some(&mut quota.spill),
            Cells::Several { spill, .. } => Some(spill),
            Cells::Logs(_) => None,
        }
    }

    /// How many quotas it has.
    pub(super) fn tiers(&self) -> usize {
        self.book().map_or(1, Book::tiers)
    }

    /// The number of a tier, if there is such a one.
    #[inline]
    pub(super) fn tier(&self, tier: usize) -> Result<u8, ChangeError> {
        let tiers = self.tiers();
        let found = u8::try_from(tier).ok().filter(|_| tier < tiers);
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

    /// A shard by its number, which is below [`shards`](Self::shards): so `hash` makes them.
    #[inline]
    pub(super) fn shard(&self, index: usize) -> &Shard {
        self.memory.shard(index)
    }

    /// Its logs, which stand there.
    pub(super) fn logs<'t>(&'t self, store: &'t LogStore) -> LogTable<'t> {
        let entries = Entries { memory: &self.memory, store };
        LogTable { entries, rule: store.rule, tallies: &self.tallies }
    }

    /// How long the quota in force for a tier lets a request wait, and behind how many units; `None` if it says nothing
    /// of it.
    pub(super) fn queue(&self, tier: u8) -> Option<[u64; 2]> {
        match &self.cells {
            Cells::Plain(_, quota) | Cells::LaidOut(_, quota) => quota.layout.rules.queue,
            Cells::Several { book, .. } => book.in_force(tier.into()).layout.rules.queue,
            Cells::Logs(store) => store.rule.queue,
        }
    }

    /// Whether the quota in force for a tier counts denials.
    #[inline(always)]
    pub(super) fn counts_denials(&self, tier: u8) -> bool {
        match &self.cells {
            Cells::Plain(_, quota) | Cells::LaidOut(_, quota) => quota.layout.rules.count_denials(),
            Cells::Several { book, .. } => book.in_force(tier.into()).layout.rules.count_denials(),
            Cells::Logs(store) => store.rule.counts_denials,
        }
    }

    /// The live word of `tag` in a shard, and its cell.
    ///
    /// Looks where a hint says first. Else it compares all cells and then loads the one that was found: which of them
    /// holds a key cannot be foreseen, and a branch taken wrongly costs more than the other comparisons, all in one line.
    #[inline(always)]
    pub(super) fn find(&self, shard: &Shard, tag: Tag) -> Option<(usize, TableWord)> {
        let words_per_tag = self.division.words_per_tag; // a copy: past a load that acquires it would be loaded anew
        let is_it = |word: TableWord| is_live(word, tag, words_per_tag);
        // A hint is believed in nothing but where to look. Where it is no vector instruction it would be a second look at
        // every word.
        if HINTS_ARE_QUICK && let Some(cell) = shard.hint(tag, self.division.state_bits) {
            let word = shard.load(cell);
            if is_it(word) {
                return Some((cell, word));
            }
        }
        // The borrow of each comparison is shifted in: bit n for cell n.
        let found = cells()
            .rev()
            .fold(0_u32, |found, cell| found + found + u32::from(is_it(shard.load(cell))));
        if found == 0 {
            return None;
        }
        // The lowest, if there are two: there never are at one moment (`install`), but the loads
        // above are not of one moment, and a key that was forgotten and installed between them is
        // found in both.
        let cell = found.trailing_zeros() as usize;
        let word = shard.load(cell);
        // Replaced since it was found: as good as not there. An install looks again.
        is_it(word).then_some((cell, word))
    }
}

impl Layout {
    /// What a request asks of a word of this quota.
    #[inline(always)]
    pub(super) fn wish(&self, ask: Ask) -> Wish {
        // A word can say no more than that, so nothing is charged further ahead.
        Wish::of(ask.verb, ask.cost, ask.charge, self.ahead)
    }
}
