//! Deciding in a word that is there, in a table of several quotas: by the quota that the word names, or, where that has
//! been replaced, by the one in force.

use crate::algorithm::Decides;
use crate::decision::Outcome;
use crate::verb::{Verbs, Wish};
use crate::verdict::Verdict;

use super::{FoundWord, Priced, find_priced};
use crate::hash::{Identity, shards_of};
use crate::keyed::ask::Fresh;
use crate::keyed::book::Book;
use crate::keyed::floor::{follow, is_forgotten};
use crate::keyed::shard::GRANULE_BITS;
use crate::keyed::table::Table;

/// [`look`](crate::keyed::slow::look) in a table of several quotas. Out of line, so that it costs others nothing.
#[cold]
#[inline(never)]
pub(in crate::keyed) fn look_priced(
    table: &Table,
    book: &Book,
    identity: Identity,
    second: usize,
    fresh: &mut Fresh<'_>,
) -> Option<Outcome> {
    let Identity { first, tag } = identity;
    // A key that is not there is priced by the quota in force, until an install has one.
    // Should the key be found, its word's quota takes the place of this.
    fresh.kernel = Some(book.in_force(fresh.ask.tier.into()).layout.kernel);
    shards_of(first, second).find_map(|index| hit_priced(table, book, index, tag, fresh))
}

pub(in crate::keyed) fn hit_priced(
    table: &Table,
    book: &Book,
    index: usize,
    tag: u64,
    fresh: &mut Fresh<'_>,
) -> Option<Outcome> {
    let ask = fresh.ask;
    // Lock-free: each turn that does not return follows a charge, a sweep or a change of another
    // thread, or brings the floor near to what is to be written.
    loop {
        let (FoundWord { cell, word, header }, priced) = find_priced(table, book, index, tag)?;
        let layout = priced.lane.layout;
        // Of the quota in force: a word of a replaced one has been carried over in `find_priced`.
        let kernel = layout.kernel;
        let wish = Wish { verb: ask.verb, cost: ask.cost, most: layout.ahead };
        if ask.charge && !wish.is_never(&kernel) {
            // Nothing may be written further above the floor than it can be read back.
            // The later of the two, since the word is re-based at the change and charged at now.
            let goal_ns = priced.replaced_ns.unwrap_or(0).max(ask.now_ns);
            // Now, or the change that the word has to be carried over, is out of the floor's reach.
            if goal_ns >> GRANULE_BITS > header.floor().saturating_add(layout.epoch) {
                follow(table, index, goal_ns);
                continue;
            }
        }
        // A question about a key that a charge would forget first: see `forgotten_in`.
        // A question waits for no floor; but what it says must be what a charge would be told.
        let is_asked = !ask.charge && !wish.is_never(&kernel);
        if is_asked
            && !header.is_near(ask.now_ns, table.layout.epoch)
            && is_forgotten(table, header, word, ask.now_ns)
        {
            return None;
        }
        // From the floor, at which it was read, to now: earlier or later.
        let Priced { held, .. } = priced.seen_from(header.floor_ns(), ask.now_ns);
        let moment = kernel.moment(ask.now_ns);
        // The decision answers by the quota that it was made by.
        fresh.kernel = Some(kernel);
        let outcome = |verdict, (after, at_ns), cost| {
            Some(Outcome { before: held, ..Outcome::of_idle(verdict, after, at_ns, cost) })
        };
        let seen = (held, ask.now_ns);
        let Some(next) = kernel.apply(wish, held, moment, 0) else {
            let near = || kernel.seen_nearby(priced.held, header.floor_ns());
            // The request comes so late that the word cannot tell its wait: see `slow::near`.
            let seen = if held.is_cut() { near() } else { seen };
            return outcome(Verdict::Denied, seen, wish.denied_cost());
        };
        // A question, or a charge of nothing: nothing is written.
        if !ask.charge || next.cost == 0 {
            return outcome(Verdict::Allowed, seen, 0);
        }
        // Written in the quota in force: this re-bases a word of a replaced one.
        let next_word = layout.live(tag | priced.lane.mark, next.held, &kernel, moment);
        // Lock-free: if the CAS fails, another thread has charged, cleared or re-based the word.
        // From the exact word: so the numbers it was read by were its own, see the head of the
        // module above.
        if table.shard(index).charge(cell, word, next_word) {
            return outcome(Verdict::Allowed, (next.held, ask.now_ns), next.cost);
        }
    }
}
