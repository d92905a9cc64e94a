//! [`Spent`]: the units that a key owes in one tier, to be moved to another tier.

use crate::algorithm::{Decides, Held};
use crate::keyed::memory::shard::TableWord;

use super::Priced;
use crate::keyed::quotas::book::Lane;
use crate::keyed::table::words::{FoundWord, Key, Words};

/// The units that a key owes, and the word in which they are counted.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Spent {
    standing: FoundWord,
    /// The word that replaces the key's word when the units have been moved. It owes nothing.
    cleared: TableWord,
    /// The units that the key owes, rounded up.
    pub(in crate::keyed) units: u64,
}

impl Spent {
    /// The units that a key owes at `now_ns`, in a table of several quotas; `None` if the key has no word.
    pub(in crate::keyed) fn of(key: &Key<'_>, now_ns: u64) -> Option<Self> {
        let (words, tag) = (key.words, key.tag());
        let book = words.book()?;
        // At any moment at most one shard has a word of the key, so the first one found is used.
        key.shards().find_map(|index| {
            loop {
                // `None` means that the key is not in this shard, and the next shard is searched.
                let standing = words.find_dated(index, tag)?;
                // `None` means that another thread has replaced the word. Lock-free: that thread has made progress.
                let Some(priced) = words.priced(book, &standing) else { continue };
                let Lane { layout, own } = priced.lane;
                // The cleared word is written as of `now_ns`, so the floor must not lie more than an epoch below
                // `now_ns`. Nor may it lie so far below the instant at which the word's quota was replaced.
                let goal_ns = priced.replaced_ns.unwrap_or(0).max(now_ns);
                if layout.division.is_behind(standing.header, goal_ns) {
                    words.advance(index, goal_ns);
                    continue;
                }
                let (ruled, floor_ns) = (layout.ruled(), standing.header.floor_ns());
                // If `now_ns` is before the floor, the floor is used instead, since no time below the floor may be
                // written.
                let at_ns = now_ns.max(floor_ns);
                let Priced { held, .. } = priced.seen_from(floor_ns, at_ns);
                let moment = ruled.moment(at_ns);
                // The cleared word is idle, and stays in its cell until a sweep forgets it or a new key takes the cell.
                let cleared = layout.live(own.and(tag.into()), Held::IDLE, &ruled, moment);
                let units = ruled.used(held, moment);
                return Some(Self { standing, cleared, units });
            }
        })
    }

    /// Clears a key's debt, if its word still has the same bits. If other threads have changed the word and restored
    /// these bits meanwhile, the key still owes exactly the units that have been moved.
    pub(in crate::keyed) fn clear(&self, words: &Words<'_>) -> bool {
        let FoundWord { index, cell, word, .. } = self.standing;
        // The CAS expects the exact word. If the word has been charged since, the CAS fails, and the caller moves the
        // remaining units in its next turn.
        words.shard(index).replace(cell, word, self.cleared)
    }
}
