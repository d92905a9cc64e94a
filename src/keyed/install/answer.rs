//! The answers to newcomers that get no cell: to questions, to costs that never fit, and where there is none to have.

use crate::algorithm::{Decides, Held};
use crate::decision::Outcome;
use crate::verb::{Verbs, Wish};
use crate::verdict::{Mark, Verdict};

use crate::hash::Identity;
use crate::keyed::ask::{Ask, Fresh};
use crate::keyed::base::{base_ns, headers};
use crate::keyed::floor::floor_at;
use crate::keyed::shard::GRANULE_BITS;
use crate::keyed::spill::{decide_in_spill, denied_by_spill, owed};
use crate::keyed::survey::first_free_ns;
use crate::keyed::table::Table;

/// Decides in the spill, or denies.
pub(super) fn without_cell(
    table: &Table,
    identity: Identity,
    second: usize,
    fresh: &mut Fresh<'_>,
) -> Outcome {
    // No spill, or one that was disturbed too often: denied until a cell of its shards may be free.
    decide_in_spill(table, identity, second, fresh).unwrap_or_else(|| {
        let (first, ask) = (identity.first, &fresh.ask);
        // A question is no denial, and is not counted as one.
        table.tallies.full(first, u64::from(ask.charge));
        no_cell(first_free_ns(table, first, second, ask), ask)
    })
}

/// The answer to a question about a key that has no cell, or that would be forgotten before it is charged:
/// what [`open`](super::open::open) would make of a claim in shard `own`.
pub(super) fn question(
    table: &Table,
    identity: Identity,
    second: usize,
    own: usize,
    fresh: &mut Fresh<'_>,
) -> Outcome {
    // Nothing is claimed, so what is read here may be old by the time it is told: as good as any
    // answer to a question.
    let base_ns = base_ns(headers(table, identity.first, second), fresh);
    // Its own floor would come as far as now, and not further.
    let floor = table.shard(own).header().floor().max(floor_at(fresh.ask.now_ns));
    let is_far = base_ns >> GRANULE_BITS > floor.saturating_add(table.layout.epoch);
    // `open` would give its claim back here, and deny.
    if is_far {
        return no_cell(base_ns, &fresh.ask);
    }
    // As the opening would be decided.
    newcomer(table, identity, second, fresh)
}

/// The answer to a question about a key that is not there, or to a cost that never fits.
pub(super) fn newcomer(
    table: &Table,
    identity: Identity,
    second: usize,
    fresh: &mut Fresh<'_>,
) -> Outcome {
    let at_ns = base_ns(headers(table, identity.first, second), fresh);
    let (tier, mut lane) = (fresh.ask.tier, None);
    // Ends as soon as no change of quota comes between the two readings.
    let (layout, owed) = loop {
        let quota = table.quota_of(tier, &mut lane);
        // Lock-free: a turn in vain means that the quota has been changed.
        if let Some(owed) = owed(table, identity, second, at_ns, quota) {
            break (*quota.layout, owed);
        }
    };
    // The answer is told by the quota that it was decided by.
    fresh.told_by = table.book.is_some().then_some(layout.teller());
    let ruled = layout.ruled();
    let late = layout.kernel.lateness(fresh.ask.now_ns, at_ns);
    let moment = ruled.moment(at_ns);
    // A place in a queue is there as far as a word of its tier can remember.
    let wish = Wish { most: layout.ahead, ..table.wish(fresh.ask) };
    // Only asked for: an admission charges nothing here.
    let (verdict, cost) = match ruled.apply(wish, owed, moment, late) {
        Some(_) => (Verdict::Allowed, 0),
        None => (Verdict::Denied, wish.denied_cost()),
    };
    // A question is answered as the charge would be.
    if verdict == Verdict::Denied
        && let Some(told) = denied_by_spill(table, identity, &layout, owed, at_ns, cost, fresh)
    {
        return told;
    }
    let (mark, held, at_ns) = ruled.tell(verdict, owed, at_ns, late, fresh.ask.cost);
    Outcome { mark, ..Outcome::of_idle(verdict, held, at_ns, cost) }
}

/// The denial of a newcomer for which there is no cell before `free_ns`.
pub(super) fn no_cell(free_ns: u64, ask: &Ask) -> Outcome {
    let at_ns = free_ns.max(ask.now_ns);
    // The view is of an idle word at the instant from which there may be a cell: what the caller is
    // told to wait for.
    let full = Outcome::of_idle(Verdict::Denied, Held::IDLE, at_ns, ask.cost);
    Outcome { mark: Mark::TableFull, ..full }
}
