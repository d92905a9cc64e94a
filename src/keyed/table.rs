//! [`Table`]: the shards of a keyed limiter, and how a word in one of them is found and read.

use crate::algorithm::{Kernel, Ruled};
use crate::change::ChangeError;
use crate::decision::Outcome;
use crate::verb::Wish;

use super::ask::Ask;
use super::book::Book;
use super::layout::Layout;
use super::log::{Entries, LogStore, LogTable};
use super::memory::Memory;
use super::shard::{CELLS, HINTS_ARE_QUICK, Missed, Shard, cells, is_live};
use super::spill::store::Spill;
use super::tally::Tallies;

/// The code that is laid out for a table's policy: chosen once, when the table is built. It gives the outcome; the
/// decision is built in line, where what no caller asks for is not computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way(pub(super) fn(&Table, &Shard, u64, Ask) -> Result<Outcome, Missed>);

/// All cells of a keyed limiter. Allocated once; never grows, never shrinks.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) memory: Memory,
    pub(super) layout: Layout,
    pub(super) way: Option<Way>,
    pub(super) tallies: Tallies,
    /// Decides keys that find no cell. Without it they are denied.
    pub(super) spill: Option<Spill>,
    /// The quotas, if there are several or they may change. Then the layout knows only what all of them
    /// share, and no arithmetic: so the path of the plain table is closed to it, at no cost to that.
    pub(super) book: Option<Box<Book>>,
    /// Set for sliding logs: the slots of all keys. A cell then only names the entry of its key, and `layout.kernel` is
    /// unused, as it is where there is a book.
    pub(super) logs: Option<LogStore>,
}

impl Table {
    #[inline]
    pub(super) fn shards(&self) -> usize {
        self.memory.len()
    }

    /// How many quotas it has: one, if it has no book.
    pub(super) fn tiers(&self) -> usize {
        self.book.as_ref().map_or(1, |book| book.tiers())
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
        let logs = self.logs.as_ref().map_or(0, LogStore::bytes);
        self.memory.bytes() + self.spill.as_ref().map_or(0, Spill::bytes) + logs
    }

    /// A shard by its number, which is below [`shards`](Self::shards): so `hash` makes them.
    #[inline]
    pub(super) fn shard(&self, index: usize) -> &Shard {
        self.memory.shard(index)
    }

    /// Its logs, if it is a table of them.
    #[inline]
    pub(super) fn logs(&self) -> Option<LogTable<'_>> {
        let store = self.logs.as_ref()?;
        let entries = Entries { memory: &self.memory, store };
        Some(LogTable { entries, rule: store.rule, tallies: &self.tallies })
    }

    #[inline]
    pub(super) fn kernel(&self) -> &Kernel {
        &self.layout.kernel
    }

    /// The algorithm with what happens at its limit, which may be nothing.
    pub(super) fn ruled(&self) -> Ruled<'_> {
        self.layout.ruled()
    }

    /// What a request asks of a word of this table.
    #[inline(always)]
    pub(super) fn wish(&self, ask: Ask) -> Wish {
        // A word can say no more than that, so nothing is charged further ahead.
        Wish { verb: ask.verb, cost: ask.cost, most: self.layout.ahead }
    }

    /// The live word of `tag` in a shard, and its cell.
    ///
    /// Looks where a hint says first. Else it compares all cells and then loads the one that was found: which of them
    /// holds a key cannot be foreseen, and a branch taken wrongly costs more than the other comparisons, all in one line.
    #[inline(always)]
    pub(super) fn find(&self, shard: &Shard, tag: u64) -> Option<(usize, u64)> {
        let words_per_tag = self.layout.words_per_tag; // a copy: past a load that acquires it would be loaded anew
        let is_it = |word: u64| is_live(word, tag, words_per_tag);
        // A hint is believed in nothing but where to look. Where it is no vector instruction it would be a second look at
        // every word.
        if HINTS_ARE_QUICK && let Some(cell) = shard.hint(tag, self.layout.state_bits) {
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
