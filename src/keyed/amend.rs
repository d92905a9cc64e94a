//! Changes to the word of a key that is there: refunds, cancellations, resets. A key that is not there
//! owes nothing, so nothing is installed.
//!
//! Unlike a charge, an amendment may write a time *below* the one that it found, though never below the
//! floor that it read. Should its thread then sleep, between that reading and its exchange, while the
//! floor advances twice, and the word stay as it was all the while, what it writes lies out of the
//! word's reach and is read as far ahead: the key is denied until that has passed (fail closed). Two
//! epochs are two minutes, or what twice the burst takes to come back if that is less; a hit rests on a
//! sleep shorter than a whole wrap in the same way.

use crate::algorithm::{Decides, Held};
use crate::clock::Timestamp;
use crate::decision::View;
use crate::refund::Found;
use crate::sync::{Fault, planted};

use super::hash::Identity;
use super::layout::GRANULE_BITS;
use super::shard::Row;
use super::survey::pair;
use super::table::Table;

/// What to make of a key's word.
#[derive(Clone, Copy)]
pub(super) enum Amendment<'a> {
    /// Give back as much of a charge as has not drained.
    Refund(&'a View),
    /// Undo a charge, if the word is still the one that it left.
    Undo(&'a View),
    /// Forget everything that was charged.
    Reset,
}

impl Table {
    /// Amends the key's word, and says how many whole units that gave back: `None` if the key has no
    /// word, or a charge cannot be undone any more.
    pub(super) fn amend(
        &self,
        identity: Identity,
        second: usize,
        now: &impl Fn() -> Timestamp,
        amendment: Amendment<'_>,
    ) -> Option<u64> {
        if let Some(book) = &self.book {
            return pair(identity.first, second)
                .find_map(|index| self.amend_priced(book, index, identity.tag, now, amendment))
                .flatten();
        }
        pair(identity.first, second)
            .find_map(|index| self.amend_in(index, identity.tag, now, amendment))
            .flatten()
    }

    /// In one shard: the outer `None` if the key is not there. Lock-free as `hit` is.
    fn amend_in(
        &self,
        index: usize,
        tag: u64,
        now: &impl Fn() -> Timestamp,
        amendment: Amendment<'_>,
    ) -> Option<Option<u64>> {
        let shard = self.shard(index);
        loop {
            let before = shard.header();
            let (cell, word) = self.find(Row::whole(shard), tag)?;
            let header = shard.header();
            if header.floor() != before.floor() {
                continue;
            }
            // Only now: see `Cell::give_back`.
            let now_ns = now().as_nanos();
            // Where the word can be read as it is, and what is written can be read back.
            let latest = header.floor().saturating_add(self.layout.epoch) << GRANULE_BITS;
            let at_ns = now_ns.clamp(header.floor_ns(), latest.max(header.floor_ns()));
            let ruled = self.ruled();
            let moment = ruled.moment(at_ns);
            let held = self.layout.unpack(word, &ruled, moment);
            // Time has come as far as the floor, whatever the caller's now: see `Gcra::given_back`.
            let found = Found { held, at_ns, now_ns: now_ns.max(at_ns) };
            let Some((next, units)) = self.amended(found, word, tag, amendment) else {
                return Some(None);
            };
            if next == held {
                return Some(Some(0));
            }
            if shard.charge(cell, word, self.layout.live(tag, next, &ruled, moment)) {
                return Some(Some(units));
            }
        }
    }

    fn amended(
        &self,
        found: Found,
        word: u64,
        tag: u64,
        amendment: Amendment<'_>,
    ) -> Option<(Held, u64)> {
        match amendment {
            Amendment::Refund(charge) => Some(self.ruled().given_back(found, charge)),
            Amendment::Undo(charge) => {
                let ruled = self.ruled();
                let moment = ruled.moment(charge.at_ns);
                let left = self.layout.live(tag, ruled.left(charge), &ruled, moment);
                let same = word == left || planted(Fault::UndoWhatChanged);
                (same && *self.kernel() == charge.kernel)
                    .then(|| ruled.undone(found.held, found.at_ns, charge))
            }
            Amendment::Reset => Some((Held::IDLE, 0)),
        }
    }
}
