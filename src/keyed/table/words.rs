//! [`Words`]: a table whose cells hold words, with the quotas of the words; and [`Key`], a key in such a table.

use std::ops::Deref;

use crate::hash::{Identity, Tag, UNIT, all_shards_of, lower, shards_of};

use crate::keyed::log::LogTable;
use crate::keyed::memory::layout::Layout;
use crate::keyed::memory::shard::{Header, OwnBits, TableWord};
use crate::keyed::quotas::book::own::{Gone, Pin, QuotaId};
use crate::keyed::quotas::book::{Book, Lane, Quotas};
use crate::keyed::table::{Cells, Table};
use crate::sketch::{GOLDEN, mix};

/// A table whose cells hold words.
#[derive(Clone, Copy)]
pub(in crate::keyed) struct Words<'t> {
    table: &'t Table,
    pub(in crate::keyed) quotas: Quotas<'t>,
}

impl Deref for Words<'_> {
    type Target = Table;

    fn deref(&self) -> &Table {
        self.table
    }
}

impl Table {
    /// The table, if its cells hold words. Otherwise the error holds the table's logs.
    pub(in crate::keyed) fn words(&self) -> Result<Words<'_>, LogTable<'_>> {
        let quotas = match &self.cells {
            Cells::Plain(_, quota) | Cells::LaidOut(_, quota) => Quotas::One(&quota.layout),
            Cells::Several { book, .. } => Quotas::Several(book),
            Cells::Logs(store) => return Err(self.logs(store)),
        };
        Ok(Words { table: self, quotas })
    }
}

/// A word, the cell where it was found, and the header that dates it.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct FoundWord {
    pub(in crate::keyed) index: usize,
    pub(in crate::keyed) cell: usize,
    pub(in crate::keyed) word: TableWord,
    pub(in crate::keyed) header: Header,
}

/// A quota of the table, in which new words are counted.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct TierQuota<'a> {
    pub(in crate::keyed) tier: u16,
    pub(in crate::keyed) layout: &'a Layout,
    /// The quota's index in its position in a word; 0 in a table of one quota, whose words carry no index.
    pub(in crate::keyed) own: OwnBits,
}

impl<'t> Words<'t> {
    /// The table with these quotas for its words.
    pub(in crate::keyed) fn new(table: &'t Table, quotas: Quotas<'t>) -> Self {
        Self { table, quotas }
    }

    /// Keeps the quota of a request from being forgotten; `Err` if it has been forgotten already.
    pub(in crate::keyed) fn pinned(&self, quota: QuotaId) -> Result<Option<Pin<'t>>, Gone> {
        self.book().map_or(Ok(None), |book| book.pin(quota))
    }

    /// The quotas, if there are several.
    pub(in crate::keyed) fn book(&self) -> Option<&'t Book> {
        match self.quotas {
            Quotas::One(_) => None,
            Quotas::Several(book) => Some(book),
        }
    }

    /// The quota in force for a tier. In a table with several quotas it is read now, into `lane`.
    pub(in crate::keyed) fn quota_of<'a>(
        &self,
        quota: QuotaId,
        lane: &'a mut Option<Lane>,
    ) -> TierQuota<'a>
    where
        't: 'a,
    {
        let tier = quota.number;
        match self.quotas {
            // The words of one quota carry no index.
            Quotas::One(layout) => TierQuota { tier, layout, own: OwnBits::default() },
            Quotas::Several(book) => {
                // The result borrows the layout from the lane, so the caller keeps the lane.
                let lane = lane.insert(book.in_force(tier.into()));
                TierQuota { tier, layout: &lane.layout, own: lane.own }
            }
        }
    }

    /// Finds the live word of a tag in one shard; `None` if the key is not there.
    #[inline(always)]
    pub(in crate::keyed) fn find_dated(&self, index: usize, tag: Tag) -> Option<FoundWord> {
        let shard = self.shard(index);
        loop {
            // The header is loaded before the words and after them: see the head of `shard`.
            let before = shard.header();
            // No cell of the shard had the key. A key that was installed after this look is found by the next look, or
            // by the scan of this thread's own install.
            let (cell, word) = self.find(shard, tag)?;
            let header = shard.header_behind_word(before);
            // If the floors differ, a floor was published between the loads, and this thread cannot tell which of the
            // two floors dates the word.
            if header.floor() == before.floor() {
                return Some(FoundWord { index, cell, word, header });
            }
        }
    }

    /// The key with this identity, whose home in its second unit is shard `second`.
    pub(in crate::keyed) fn key(self, identity: Identity, second: usize) -> Key<'t> {
        Key { words: self, identity, second }
    }
}

/// A key of a table of words.
#[derive(Clone, Copy)]
pub(in crate::keyed) struct Key<'t> {
    pub(in crate::keyed) words: Words<'t>,
    pub(in crate::keyed) identity: Identity,
    /// The number of its home in its second unit.
    pub(in crate::keyed) second: usize,
}

/// The headers of a key's shards.
pub(in crate::keyed) type UnitHeaders = [Header; 2 * UNIT];

impl Key<'_> {
    pub(in crate::keyed) fn tag(&self) -> Tag {
        self.identity.tag
    }

    /// The number of the key's group. It does not depend on which of the key's shards is its home.
    #[expect(clippy::cast_possible_truncation, reason = "any bits serve")]
    pub(in crate::keyed) fn group(&self) -> usize {
        let lower = lower(self.identity, self.second) as u64;
        mix(self.tag().to_bits() ^ lower, GOLDEN) as usize
    }

    pub(in crate::keyed) fn home(&self) -> usize {
        self.identity.first
    }

    /// The numbers of the key's shards, its home first.
    pub(in crate::keyed) fn shards(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        shards_of(self.identity.first, self.second)
    }

    /// The same numbers in an array. If there are fewer numbers than elements, some numbers occur twice.
    pub(in crate::keyed) fn all_shards(&self) -> [usize; 2 * UNIT] {
        all_shards_of(self.identity.first, self.second)
    }

    /// The headers of all shards of the key.
    pub(in crate::keyed) fn headers(&self) -> UnitHeaders {
        // Acquire, in `header`: a thread that has seen a cell without its key also sees the floor below which that key
        // was forgotten, because the floor was published before the cell was vacated.
        self.all_shards().map(|index| self.words.shard(index).header())
    }
}
