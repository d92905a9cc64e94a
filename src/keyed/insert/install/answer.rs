//! The answers to requests of new keys that get no cell: the request only asks, its cost never fits, or no cell is
//! free.

use crate::algorithm::{Decides, Held};
use crate::decision::{Decision, Outcome};
use crate::verb::{HeldAt, Wish, plan};
use crate::verdict::{Mark, Verdict};

use crate::keyed::floors::base::base_ns;
use crate::keyed::floors::floor::{LAG_NS, floor_at};
use crate::keyed::insert::survey::first_free_ns;
use crate::keyed::memory::ask::Fresh;
use crate::keyed::memory::shard::GRANULE_BITS;
use crate::keyed::quotas::book::own::QuotaId;
use crate::keyed::table::words::Key;

impl Key<'_> {
    /// Decides in the spill, or denies if the spill does not decide.
    pub(super) fn without_cell(&self, fresh: &mut Fresh<'_>) -> Decision {
        // There is no spill, or it does not decide this request. The request is denied, and told when a cell of its
        // shards may be free.
        self.decide_in_spill(fresh).unwrap_or_else(|| {
            // Only a charge is counted as a denial, not a question.
            self.words.tallies.full(self.home(), u64::from(fresh.ask.charge));
            self.no_cell(first_free_ns(self, &fresh.ask), fresh)
        })
    }

    /// The answer to a question about a key that has no cell, or that would be forgotten before it is charged. It is
    /// the answer that an install would give if it had claimed a cell in shard `own`.
    pub(super) fn question(&self, own: usize, fresh: &mut Fresh<'_>) -> Decision {
        // Nothing is claimed, so the answer may be out of date when it is given, like any answer to a question.
        let base_ns = base_ns(self.headers(), fresh);
        // A charge would move the floor of shard `own` as far as now allows, and no further.
        let floor = self.words.shard(own).header().floor().max(floor_at(fresh.ask.now_ns));
        let is_far = base_ns >> GRANULE_BITS > floor.saturating_add(self.words.division.epoch);
        // `open` would give its claim back here, and deny.
        if is_far {
            return self.no_cell(base_ns, fresh);
        }
        // Otherwise the question is decided as `open` would decide a charge.
        self.newcomer(fresh)
    }

    /// The answer to a question about a key that has no cell, or to a cost that never fits.
    pub(super) fn newcomer(&self, fresh: &mut Fresh<'_>) -> Decision {
        let at_ns = base_ns(self.headers(), fresh);
        let (asked, mut lane) = (fresh.ask.quota, None);
        // The loop ends as soon as the quota does not change between its reading and the reading of the debt.
        let (layout, owed) = loop {
            let quota = self.words.quota_of(asked, &mut lane);
            // Lock-free: a further turn means that the quota has been changed.
            if let Some(owed) = self.owed(at_ns, quota) {
                break (*quota.layout, owed);
            }
        };
        let ruled = layout.ruled();
        let late = layout.kernel.lateness(fresh.ask.now_ns, at_ns);
        let moment = ruled.moment(at_ns);
        // `wish` limits a queue to the times that a word of its tier can hold. Here the request is only asked: an
        // admission charges nothing, and a denial is not counted.
        let wish = Wish { charge: false, ..layout.wish(fresh.ask) };
        let seen = HeldAt { held: owed, at_ns, moment, late };
        let (outcome, ()) = plan(&ruled, wish, seen, (), |_| ());
        // If a charge would be denied for what the key owes in the spill, so is this request.
        if outcome.verdict == Verdict::Denied
            && let Some(told) = self.denied_by_spill(&layout, owed, at_ns, outcome.cost, fresh)
        {
            return told;
        }
        // The answer is computed with the quota that decided.
        fresh.told(outcome, &layout)
    }

    /// The denial of a request whose own quota was forgotten while the caller held the [`Entry`](crate::Entry).
    pub(in crate::keyed) fn without_quota(&self, fresh: &mut Fresh<'_>) -> Decision {
        // The request is counted as if there were no cell. A later request through a new entry is decided as usual.
        self.words.tallies.full(self.home(), u64::from(fresh.ask.charge));
        fresh.ask.quota = QuotaId::tier(0);
        // The answer uses the quota of tier 0, whose limit may be smaller than the cost. The cost is cut to one unit,
        // so that the denial does not claim that the cost never fits.
        fresh.ask.cost = fresh.ask.cost.min(1);
        self.no_cell(fresh.ask.now_ns.saturating_add(LAG_NS), fresh)
    }

    /// The denial of a new key for which there is no cell before `free_ns`.
    pub(super) fn no_cell(&self, free_ns: u64, fresh: &mut Fresh<'_>) -> Decision {
        let (ask, mut lane) = (fresh.ask, None);
        let at_ns = free_ns.max(ask.now_ns);
        // The view shows an idle word at the instant from which there may be a cell, so that the caller waits until
        // then.
        let full = Outcome::of_idle(Verdict::Denied, Held::IDLE, at_ns, ask.cost);
        // The answer for a key without a cell uses the quota in force.
        let quota = self.words.quota_of(ask.quota, &mut lane);
        fresh.told(Outcome { mark: Mark::TableFull, ..full }, quota.layout)
    }
}
