//! [`Spent`]: what a key owes in one tier, to be moved to another.

use crate::algorithm::{Decides, Held};
use crate::keyed::memory::shard::TableWord;

use super::Priced;
use crate::keyed::quotas::book::Lane;
use crate::keyed::table::words::{FoundWord, Key, Words};

/// What a key has spent, and the word that says so.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Spent {
    standing: FoundWord,
    /// The word of a key that has spent nothing.
    cleared: TableWord,
    /// Units, rounded up.
    pub(in crate::keyed) units: u64,
}

impl Spent {
    /// What a key has spent by now, in a table of several quotas; `None` if it has no word.
    pub(in crate::keyed) fn of(key: &Key<'_>, now_ns: u64) -> Option<Self> {
        let (words, tag) = (key.words, key.tag());
        let book = words.book()?;
        // In the first shard that has the key; there is one at most at any moment.
        key.shards().find_map(|index| {
            loop {
                // Not here: the next shard is looked at.
                let standing = words.find_dated(index, tag)?;
                // Another thread has replaced the word, and its numbers may be another quota's. Lock-free: it went on.
                let Some(priced) = words.priced(book, &standing) else { continue };
                let Lane { layout, own } = priced.lane;
                // The cleared word is written at now, which the floor must have in its reach; so must the change.
                let goal_ns = priced.replaced_ns.unwrap_or(0).max(now_ns);
                if layout.division.is_behind(standing.header, goal_ns) {
                    words.advance(index, goal_ns);
                    continue;
                }
                let (ruled, floor_ns) = (layout.ruled(), standing.header.floor_ns());
                // A late now counts as the floor: nothing may be written below it.
                let at_ns = now_ns.max(floor_ns);
                let Priced { held, .. } = priced.seen_from(floor_ns, at_ns);
                let moment = ruled.moment(at_ns);
                // It stays in its cell, idle from now on, until a sweep or a newcomer takes that.
                let cleared = layout.live(own.and(tag.into()), Held::IDLE, &ruled, moment);
                let units = ruled.used(held, moment);
                return Some(Self { standing, cleared, units });
            }
        })
    }

    /// Forgets what a key has spent, if its word still says exactly that. Others may have restored the bits
    /// meanwhile: they say what is owed now, and just that has been moved.
    pub(in crate::keyed) fn clear(&self, words: &Words<'_>) -> bool {
        let FoundWord { index, cell, word, .. } = self.standing;
        // From the exact word: if it was charged since, this fails, and the caller moves the rest
        // in its next turn.
        words.shard(index).replace(cell, word, self.cleared)
    }
}
