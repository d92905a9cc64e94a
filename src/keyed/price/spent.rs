//! [`Spent`]: what a key owes in one tier, to be moved to another.

use crate::algorithm::{Decides, Held};

use super::{FoundWord, Priced, find_priced};
use crate::hash::{Identity, shards_of};
use crate::keyed::book::Lane;
use crate::keyed::floor::advance;
use crate::keyed::shard::GRANULE_BITS;
use crate::keyed::table::Table;

/// What a key has spent, and the word that says so.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Spent {
    index: usize,
    standing: FoundWord,
    /// The word of a key that has spent nothing.
    cleared: u64,
    /// Units, rounded up.
    pub(in crate::keyed) units: u64,
}

impl Spent {
    /// What a key has spent by now, in a table of several quotas; `None` if it has no word.
    pub(in crate::keyed) fn of(
        table: &Table,
        identity: Identity,
        second: usize,
        now_ns: u64,
    ) -> Option<Self> {
        let book = table.book.as_deref()?;
        // In the first shard that has the key; there is one at most at any moment.
        let Identity { first, tag } = identity;
        shards_of(first, second).find_map(|index| {
            loop {
                // Not here: the next shard is looked at.
                let (standing, priced) = find_priced(table, book, index, tag)?;
                let Lane { layout, mark } = priced.lane;
                let floor = standing.header.floor();
                // The last granule at which this floor lets a word be written.
                let latest = floor.saturating_add(layout.epoch);
                // The cleared word is written at now, which the floor must have in its reach; so must the change.
                if priced.is_ahead_of(standing.header, layout.epoch)
                    || now_ns >> GRANULE_BITS > latest
                {
                    advance(table, index, priced.replaced_ns.unwrap_or(0).max(now_ns));
                    continue;
                }
                let (ruled, floor_ns) = (layout.ruled(), standing.header.floor_ns());
                // A late now counts as the floor: nothing may be written below it.
                let at_ns = now_ns.max(floor_ns);
                let Priced { held, .. } = priced.seen_from(floor_ns, at_ns);
                let moment = ruled.moment(at_ns);
                // It stays in its cell, idle from now on, until a sweep or a newcomer takes that.
                let cleared = layout.live(tag | mark, Held::IDLE, &ruled, moment);
                let units = ruled.used(held, moment);
                return Some(Self { index, standing, cleared, units });
            }
        })
    }

    /// Forgets what a key has spent, if its word still says exactly that. Others may have restored the bits
    /// meanwhile: they say what is owed now, and just that has been moved.
    pub(in crate::keyed) fn clear(&self, table: &Table) -> bool {
        let FoundWord { cell, word, .. } = self.standing;
        // From the exact word: if it was charged since, this fails, and the caller moves the rest
        // in its next turn.
        table.shard(self.index).replace(cell, word, self.cleared)
    }
}
