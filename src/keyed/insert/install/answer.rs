//! The answers to requests of new keys that get no cell: the request does not charge, its cost never fits, no cell is
//! free, or the quota that the caller brought has been forgotten.

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
        // If there is no spill, or the spill does not decide this request, the request is denied. The denial names the
        // time at which a cell may be free.
        self.decide_in_spill(fresh).unwrap_or_else(|| {
            // A request that does not charge is not counted as a denial.
            self.words.tallies.full(self.home(), u64::from(fresh.ask.charge));
            self.no_cell(first_free_ns(self, &fresh.ask), fresh)
        })
    }

    /// The answer to a request that does not charge, if its key has no cell or would be forgotten before a charge. A
    /// charging request would get the same answer after it had claimed a cell in shard `own`.
    pub(super) fn question(&self, own: usize, fresh: &mut Fresh<'_>) -> Decision {
        // Nothing is claimed, so the answer may be out of date when it is given, as for every request that does not
        // charge.
        let base_ns = base_ns(self.headers(), fresh);
        // A charge would move the floor of shard `own` as far as the request's time allows.
        let floor = self.words.shard(own).header().floor().max(floor_at(fresh.ask.now_ns));
        let is_far = base_ns >> GRANULE_BITS > floor.saturating_add(self.words.division.epoch);
        // `open` would give its claim back here, and deny.
        if is_far {
            return self.no_cell(base_ns, fresh);
        }
        // Otherwise the request is decided as `open` would decide a charge.
        self.newcomer(fresh)
    }

    /// The answer to a request of a key without a cell, if the request does not charge or its cost never fits.
    pub(super) fn newcomer(&self, fresh: &mut Fresh<'_>) -> Decision {
        let at_ns = base_ns(self.headers(), fresh);
        let (asked, mut lane) = (fresh.ask.quota, None);
        // The loop ends as soon as the quota and the debt are read without a change of the quota in between.
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
        // `layout.wish` limits a queue to the times that a word of the tier can hold. With `charge: false` an admission
        // charges nothing, and a denial is not counted.
        let wish = Wish { charge: false, ..layout.wish(fresh.ask) };
        let seen = HeldAt { held: owed, at_ns, moment, late };
        let (outcome, ()) = plan(&ruled, wish, seen, (), |_| ());
        // If a charge would be denied for the key's debt in the spill, this request is denied, too.
        if outcome.verdict == Verdict::Denied
            && let Some(told) = self.denied_by_spill(&layout, owed, at_ns, outcome.cost, fresh)
        {
            return told;
        }
        fresh.told(outcome, &layout)
    }

    /// The denial of a request under a quota that the caller brought, if that quota was forgotten while the caller held
    /// the [`Entry`](crate::Entry).
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
        // The view is that of an idle word at the instant from which a cell may be free, so that the caller waits until
        // then.
        let full = Outcome::of_idle(Verdict::Denied, Held::IDLE, at_ns, ask.cost);
        // The answer for a key without a cell uses the quota in force.
        let quota = self.words.quota_of(ask.quota, &mut lane);
        fresh.told(Outcome { mark: Mark::TableFull, ..full }, quota.layout)
    }
}
