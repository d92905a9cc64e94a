//! Deciding in a word that is there, in a table of several quotas: by the quota that the word names, or, where that has
//! been replaced, by the one in force.

use crate::algorithm::Decides;
use crate::decision::Outcome;
use crate::verb::{Verbs, Wish};
use crate::verdict::Verdict;

use super::{FoundWord, Priced, find_priced};
use crate::hash::{Identity, shards_of};
use crate::keyed::ask::{Ask, Fresh};
use crate::keyed::book::Book;
use crate::keyed::floor::{follow, is_forgotten};
use crate::keyed::shard::{GRANULE_BITS, Header};
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
    fresh.told_by = Some(book.in_force(fresh.ask.tier.into()).layout.teller());
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
        let (kernel, ruled) = (layout.kernel, layout.ruled());
        let wish = Wish { verb: ask.verb, cost: ask.cost, most: layout.ahead };
        let is_never = wish.is_never(&kernel);
        if ask.charge && !is_never {
            // Nothing may be written further above the floor than it can be read back, neither the change nor now.
            let goal_ns = priced.replaced_ns.unwrap_or(0).max(ask.now_ns);
            // Now, or the change that the word has to be carried over, is out of the floor's reach.
            if goal_ns >> GRANULE_BITS > header.floor().saturating_add(layout.epoch) {
                follow(table, index, goal_ns);
                continue;
            }
        }
        if !ask.charge && !is_never && is_forgotten_first(table, header, word, ask) {
            return None;
        }
        // From the floor, at which it was read, to now: earlier or later.
        let Priced { held, .. } = priced.seen_from(header.floor_ns(), ask.now_ns);
        let moment = ruled.moment(ask.now_ns);
        // The decision answers by the quota that it was made by.
        fresh.told_by = Some(layout.teller());
        let outcome = |verdict, (after, at_ns), cost, unpaid| {
            let (mark, after, at_ns) = ruled.tell(verdict, after, at_ns, 0, unpaid);
            Some(Outcome { verdict, mark, before: held, held: after, at_ns, cost })
        };
        let seen = (held, ask.now_ns);
        // In the quota in force: this re-bases a word of a replaced one. From the exact word, so the numbers it was read
        // by were its own: see the head of the module above. Lock-free: else another thread has replaced it.
        let write = |held| {
            let next = layout.live(tag | priced.lane.mark, held, &ruled, moment);
            table.shard(index).charge(cell, word, next)
        };
        let Some(next) = ruled.apply(wish, held, moment, 0) else {
            let cost = wish.denied_cost();
            // Written only where the policy counts denials; for the argument see `cell`.
            let counts = ask.charge && wish.counts_its_denial();
            if let Some(next) = ruled.refuse(held, ask.now_ns, cost).filter(|_| counts) {
                if write(next) {
                    return outcome(Verdict::Denied, (next, ask.now_ns), cost, 0);
                }
                continue;
            }
            let near = || kernel.seen_nearby(priced.held, header.floor_ns());
            // The request comes so late that the word cannot tell its wait: see `slow::near`.
            let seen = if held.is_cut() { near() } else { seen };
            return outcome(Verdict::Denied, seen, cost, 0);
        };
        // A question, or a charge of nothing: nothing is written.
        if !ask.charge || next.cost == 0 {
            let unpaid = if ask.charge { 0 } else { ask.cost };
            return outcome(Verdict::Allowed, seen, 0, unpaid);
        }
        if write(next.held) {
            return outcome(Verdict::Allowed, (next.held, ask.now_ns), next.cost, 0);
        }
    }
}

/// Whether a charge would forget the key first that is asked for: see `forgotten_in`. A question waits for no floor; but
/// what it says must be what a charge would be told.
fn is_forgotten_first(table: &Table, header: Header, word: u64, ask: Ask) -> bool {
    !header.is_near(ask.now_ns, table.layout.epoch) && is_forgotten(table, header, word, ask.now_ns)
}
