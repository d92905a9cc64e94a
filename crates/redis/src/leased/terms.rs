//! What a [`Holding`](crate::leased::holding::Holding) is given, and what it answers.

use std::time::Duration;

use crate::error::Fault;
use crate::script::plan::ScriptPlan;
use crate::script::view::StateView;
use crate::told::Told;

/// Units that are not spent by then have expired.
pub(crate) const LIFE_NS: u64 = 1_000_000_000;

/// For so long after a denial the store is not asked again, or for an eighth of the time in which an empty limit
/// fills up, if that is shorter.
const POLL_NS: u64 = 10_000_000;

/// What is the same for every key of a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The most units that a node holds of a key; at least 1.
    pub(crate) most: u64,
    /// How long the store is left alone after a denial.
    pub(crate) poll_ns: u64,
    /// Which policy of the limit this is: while it changes, limiters of both policies spend from one holding. What
    /// the store said under one policy is not told under the other. Units that were charged under an older policy are
    /// given back before the store is asked under a newer one: so that charges what is spent, and nothing besides.
    pub(crate) era: u64,
}

impl Terms {
    /// For a limit that is full again `fill_ns` after it was empty.
    pub(crate) fn new(most: u64, fill_ns: u64) -> Self {
        Self { most: most.max(1), poll_ns: POLL_NS.min(fill_ns / 8), era: 0 }
    }

    /// The largest lease: half of what a node may hold, so that the next lease is there before this one is spent.
    pub(crate) fn largest(&self) -> u64 {
        (self.most / 2).max(1)
    }
}

/// When units were charged, and under which policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChargeStamp {
    /// In the numbers of the policy: a tick, or a window.
    pub(crate) at: u64,
    /// In microseconds of the server's clock, for the states of other policies.
    pub(crate) us: u64,
    pub(crate) era: u64,
}

impl ChargeStamp {
    /// The stamp that a permit of a policy names. Of units that were charged under another it is 0, for which the store
    /// gives nothing back: a caller that keeps a permit over a change may have been charged long before it.
    pub(crate) fn of(self, era: u64) -> u64 {
        if era == self.era { self.at } else { 0 }
    }

    /// The stamp for units of both: the earlier one, so that none of them counts as charged later than it was. It is of the
    /// older policy, since the store has charged that for the units of the newer one, too.
    pub(crate) fn min(self, other: Self) -> Self {
        let (older, newer) = if other.era < self.era { (other, self) } else { (self, other) };
        let us = older.us.min(newer.us);
        let at = match (older.era == newer.era, older.us <= newer.us) {
            (true, _) => older.at.min(newer.at),
            (false, true) => older.at,
            // The server's clock was set back meanwhile.
            (false, false) => 0,
        };
        Self { at, us, ..older }
    }
}

/// Units charged together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeasedUnits {
    pub(crate) left: u64,
    pub(crate) taken: u64,
    pub(crate) since_ns: u64,
    pub(crate) until_ns: u64,
    pub(crate) stamp: ChargeStamp,
}

/// Units of one lease that threads spend from pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lent {
    pub(crate) units: u64,
    pub(crate) until_ns: u64,
    pub(crate) stamp: u64,
    /// Only limiters of this policy may spend them.
    pub(crate) era: u64,
    /// What the limit has left besides.
    pub(crate) beyond: Beyond,
}

/// A lease that the store has granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) units: u64,
    /// When it was asked for.
    pub(crate) asked_ns: u64,
    /// How long its window lasts, counted from when the store charged it; `None` without windows.
    pub(crate) turns_ns: Option<u64>,
    pub(crate) stamp: u64,
    /// When the store charged it, in microseconds of its clock.
    pub(crate) charged_us: u64,
    pub(crate) beyond: Beyond,
}

/// What the store said last: the units that it has left, and when all would be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Beyond {
    pub(crate) remaining: u64,
    pub(crate) reset_ns: u64,
}

impl Beyond {
    /// By a reply that came now.
    pub(crate) fn of(view: &StateView<'_>, now_ns: u64) -> Self {
        let reset_us = view.ready_us(view.plan.limit).saturating_sub(view.now_us);
        let reset_ns = now_ns.saturating_add(reset_us.saturating_mul(1_000));
        Self { remaining: view.remaining(), reset_ns }
    }

    /// The figures of a request that spends units of this node.
    #[inline]
    pub(crate) fn told(self, plan: &ScriptPlan, cost: u64, now_ns: u64) -> Told {
        Told {
            allowed: true,
            cost,
            limit: plan.limit,
            soft_bp: plan.soft_bp,
            remaining: self.remaining.min(plan.limit),
            retry_after: Duration::ZERO,
            reset_after: Duration::from_nanos(self.reset_ns.saturating_sub(now_ns)),
            penalty: false,
        }
    }
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spend {
    /// The request is admitted. `more` if the next lease is due: then the holding waits for its outcome.
    Spent { stamp: u64, more: Option<LeaseWant> },
    /// The store has denied as much, and is not asked again for so long.
    Denied { retry_ns: u64 },
    /// The caller that gets this asks the store; the holding waits for the outcome.
    Ask(LeaseWant),
    /// Another caller has asked the store: look again when it has answered.
    Wait,
    /// The store failed since the request came.
    Failed(Fault),
}

/// Units to ask for. With both 0 no units are asked for: the store only says what it has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseWant {
    pub(crate) want: u64,
    pub(crate) least: u64,
}

/// A denial by the store, which answers later requests for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreDenial {
    /// So many units, and every larger cost, are denied.
    pub(crate) least: u64,
    /// When they would fit, as far as the store knew.
    pub(crate) until_ns: u64,
    /// From then on the store is asked again: refunds or a restart may have changed its answer.
    pub(crate) again_ns: u64,
    /// The policy that was denied. Under another there may be room.
    pub(crate) era: u64,
}

impl StoreDenial {
    pub(crate) fn new(terms: Terms, least: u64, retry_ns: u64, now_ns: u64) -> Self {
        let until_ns = now_ns.saturating_add(retry_ns.max(terms.poll_ns));
        let again_ns = until_ns.min(now_ns.saturating_add(LIFE_NS));
        Self { least, until_ns, again_ns, era: terms.era }
    }
}

/// Units, and when they were charged.
pub(crate) type Expired = [(u64, ChargeStamp); 2];

/// What a holding has, at one look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Glance {
    pub(crate) left: u64,
    /// Whether units are under way.
    pub(crate) asking: bool,
    pub(crate) asks: u64,
    /// Whether units have expired that are not given back yet.
    pub(crate) has_expired: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leased::holding::Holding;

    #[test]
    fn what_was_charged_beside_units_under_way_is_not_told_as_left() {
        let (mut holding, terms) = (Holding::default(), Terms::new(64, 0));
        assert!(matches!(holding.spend(terms, 4, 0, 0), Spend::Ask(_)));
        assert_eq!(holding.glance(0).asks, 1);
        holding.charged_beside(3);
        assert_eq!(holding.glance(0).asks, 2, "an older answer does not know of it");
        let beyond = Beyond { remaining: 99, reset_ns: 0 };
        let grant =
            Grant { units: 4, asked_ns: 0, turns_ns: None, stamp: 0, charged_us: 0, beyond };
        holding.granted(terms, grant, 0);
        assert_eq!(holding.known(terms).remaining, 4 + 96);
        holding.charged_beside(6);
        assert_eq!(holding.known(terms).remaining, 4 + 90);
    }
}
