//! [`Words`]: a table whose cells hold words, with the quotas that these are counted in; and [`Key`], a key of it.

use std::ops::Deref;

use crate::hash::{Identity, UNIT, all_shards_of, shards_of};

use super::book::{Book, Lane, Quotas};
use super::layout::Layout;
use super::log::LogTable;
use super::shard::Header;
use super::spill::store::Spill;
use super::table::{Cells, Table};

/// A table whose cells hold words.
#[derive(Clone, Copy)]
pub(super) struct Words<'t> {
    table: &'t Table,
    pub(super) quotas: Quotas<'t>,
    /// Decides keys that find no cell.
    pub(super) spill: Option<&'t Spill>,
}

impl Deref for Words<'_> {
    type Target = Table;

    fn deref(&self) -> &Table {
        self.table
    }
}

impl Table {
    /// Its words; or its logs, if it holds none.
    pub(super) fn words(&self) -> Result<Words<'_>, LogTable<'_>> {
        let (quotas, spill) = match &self.cells {
            Cells::Plain { quota, .. } | Cells::LaidOut { quota, .. } => {
                (Quotas::One(&quota.layout), quota.spill.as_ref())
            }
            Cells::Several { book, spill } => (Quotas::Several(book), spill.as_ref()),
            Cells::Logs(store) => return Err(self.logs(store)),
        };
        Ok(Words { table: self, quotas, spill })
    }
}

/// The quota of a tier, as new words of the table are counted in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TierQuota<'a> {
    pub(super) tier: u8,
    pub(super) layout: &'a Layout,
    /// Its index where it stands in words; 0 in a table of one quota, whose words carry none.
    pub(super) mark: u64,
}

impl<'t> Words<'t> {
    pub(super) fn new(table: &'t Table, quotas: Quotas<'t>, spill: Option<&'t Spill>) -> Self {
        Self { table, quotas, spill }
    }

    /// The quotas, if there are several.
    pub(super) fn book(&self) -> Option<&'t Book> {
        match self.quotas {
            Quotas::One(_) => None,
            Quotas::Several(book) => Some(book),
        }
    }

    /// The quota in force for a tier. In a table of several it is read now, and `lane` holds it.
    pub(super) fn quota_of<'a>(&self, tier: u8, lane: &'a mut Option<Lane>) -> TierQuota<'a>
    where
        't: 'a,
    {
        match self.quotas {
            // The words of one quota carry no index.
            Quotas::One(layout) => TierQuota { tier, layout, mark: 0 },
            Quotas::Several(book) => {
                // Kept by the caller, since the layout is borrowed from it.
                let lane = lane.insert(book.in_force(tier.into()));
                TierQuota { tier, layout: &lane.layout, mark: lane.mark }
            }
        }
    }

    /// A key of the table, whose second home this is.
    pub(super) fn key(self, identity: Identity, second: usize) -> Key<'t> {
        Key { words: self, identity, second }
    }
}

/// A key of a table of words.
#[derive(Clone, Copy)]
pub(super) struct Key<'t> {
    pub(super) words: Words<'t>,
    pub(super) identity: Identity,
    /// The number of its home in its second unit.
    pub(super) second: usize,
}

/// The headers of a key's shards.
pub(super) type UnitHeaders = [Header; 2 * UNIT];

impl Key<'_> {
    pub(super) fn tag(&self) -> u64 {
        self.identity.tag
    }

    pub(super) fn home(&self) -> usize {
        self.identity.first
    }

    /// The numbers of its shards, home first.
    pub(super) fn shards(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        shards_of(self.identity.first, self.second)
    }

    /// The same; of small units the last ones again.
    pub(super) fn all_shards(&self) -> [usize; 2 * UNIT] {
        all_shards_of(self.identity.first, self.second)
    }

    /// The headers of all its shards.
    pub(super) fn headers(&self) -> UnitHeaders {
        // Acquire, by `header`: a thread that has seen a cell without its key sees the floor below
        // which that was forgotten, for it was published before the cell was vacated.
        self.all_shards().map(|index| self.words.shard(index).header())
    }
}
