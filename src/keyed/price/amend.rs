//! Amending a word in a table of several quotas: what is given back is priced by the quota that was charged.

use crate::algorithm::Decides;
use crate::clock::Timestamp;
use crate::refund::{Amendment, Found};

use super::{FoundWord, Priced, find_priced};
use crate::keyed::book::Book;
use crate::keyed::floor::advance;
use crate::keyed::table::Table;

/// [`amend`](crate::keyed::amend::amend) for one shard of a table of several quotas: `None` if the key is not there.
#[cold]
#[inline(never)]
pub(in crate::keyed) fn amend_priced(
    table: &Table,
    book: &Book,
    index: usize,
    tag: u64,
    now: &impl Fn() -> Timestamp,
    amendment: Amendment<'_>,
) -> Option<u64> {
    // Lock-free, as in `hit_priced`.
    loop {
        let (FoundWord { cell, word, header }, priced) = find_priced(table, book, index, tag)?;
        let layout = priced.lane.layout;
        // The change lies out of the floor's reach, so what would be written at it could not be read back.
        if priced.is_ahead_of(header, layout.epoch) {
            advance(table, index, priced.replaced_ns.unwrap_or(0));
            continue;
        }
        let ruled = layout.ruled();
        // Nothing is written below the floor: what is read there is as late as the shard's time has
        // come.
        let floor_ns = header.floor_ns();
        // Only now: every thread that has charged this word read its clock before.
        let now_ns = now().as_nanos();
        let latest_ns = layout.latest_ns(header.floor());
        // The instant nearest to now at which this floor lets the word be written.
        let at_ns = now_ns.clamp(floor_ns, latest_ns.max(floor_ns));
        let Priced { held, .. } = priced.seen_from(floor_ns, at_ns);
        // What of the word is the key's: its tag, the index of the quota in force, and its surplus.
        let own = tag | priced.lane.mark;
        let found = Found { held, at_ns, now_ns: now_ns.max(at_ns) };
        // Charged under an earlier quota, whose units are not this one's: it stays until it has drained.
        if amendment.charge().is_some_and(|charge| !book.is_of(priced.lane.mark, charge)) {
            return Some(0);
        }
        let (next, units) = ruled.amend(found, amendment, |charge| {
            let moment = ruled.moment(charge.at_ns);
            word == layout.live(own, ruled.left(charge), &ruled, moment)
        });
        // A reset forgets its surplus, too.
        let is_reset = matches!(amendment, Amendment::Reset);
        let bare = book.without_surplus(priced.lane).mark;
        let kept = if is_reset { tag | bare } else { own };
        // Nothing to give back: nothing is written.
        if next == held && kept == own {
            return Some(0);
        }
        let next = layout.live(kept, next, &ruled, ruled.moment(at_ns));
        // Lock-free, as in `hit_priced`.
        if table.shard(index).charge(cell, word, next) {
            return Some(units);
        }
    }
}
