//! The arguments and answers of a [`Holding`](crate::leased::holding::Holding).

use std::time::Duration;

use crate::error::Fault;
use crate::script::plan::ScriptPlan;
use crate::script::view::StateView;
use crate::told::Told;

/// The life of a lease, in nanoseconds. Units that are not spent by its end have expired.
pub(crate) const LIFE_NS: u64 = 1_000_000_000;

/// After a denial, the store is not asked again for this many nanoseconds, or for an eighth of the time in which all
/// units of the limit come back, if that is less.
const POLL_NS: u64 = 10_000_000;

/// The numbers that all keys of a limit share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The most units of a key that a node may hold in leases; at least 1.
    pub(crate) most: u64,
    /// The time for which the store is not asked again after a denial, in nanoseconds.
    pub(crate) poll_ns: u64,
    /// The number of the policy among the policies that the limit has had so far. While the policy changes, limiters of
    /// both policies spend from one holding. A limiter does not use the store's answers under the other policy. Units
    /// that were charged under an older policy are given back before the store is asked under a newer policy, so that
    /// the newer policy is charged only for units that were spent.
    pub(crate) era: u64,
}

impl Terms {
    /// Makes the terms of a limit whose units all come back within `fill_ns`.
    pub(crate) fn new(most: u64, fill_ns: u64) -> Self {
        Self { most: most.max(1), poll_ns: POLL_NS.min(fill_ns / 8), era: 0 }
    }

    /// The largest lease, except for a request that needs more. It is half of what a node may hold, so that the next
    /// lease can be taken before the present lease is spent.
    pub(crate) fn largest(&self) -> u64 {
        (self.most / 2).max(1)
    }
}

/// The time and the policy of a charge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChargeStamp {
    /// The number of the tick or of the window, by the policy of the charge.
    pub(crate) at: u64,
    /// The time in microseconds of the server's clock, for the states of other policies.
    pub(crate) us: u64,
    pub(crate) era: u64,
}

impl ChargeStamp {
    /// The stamp for a permit under the policy `era`. It is 0 if the units were charged under another policy. A caller
    /// may keep a permit until long after its policy has changed. So a refund with a stamp of 0 gives nothing back.
    pub(crate) fn of(self, era: u64) -> u64 {
        if era == self.era { self.at } else { 0 }
    }

    /// The stamp for units of both charges. It has the earlier time, so that no unit counts as charged later than it
    /// was. It has the older policy, because the store charges each unit to the states of all policies, so both charges
    /// are in the older policy's state.
    pub(crate) fn min(self, other: Self) -> Self {
        let (older, newer) = if other.era < self.era { (other, self) } else { (self, other) };
        let us = older.us.min(newer.us);
        let at = match (older.era == newer.era, older.us <= newer.us) {
            (true, _) => older.at.min(newer.at),
            (false, true) => older.at,
            // The server's clock was set back between the two charges.
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

/// The units of one lease that threads may spend from pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lent {
    pub(crate) units: u64,
    pub(crate) until_ns: u64,
    pub(crate) stamp: u64,
    /// The number of the policy. Only limiters with this policy may spend the units.
    pub(crate) era: u64,
    /// The units that the limit has left, without the lent units.
    pub(crate) beyond: Beyond,
}

/// A lease that the store has granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) units: u64,
    /// The time when the lease was asked for.
    pub(crate) asked_ns: u64,
    /// The time from the charge until the window of the charge ends; `None` if the policy has no windows.
    pub(crate) turns_ns: Option<u64>,
    pub(crate) stamp: u64,
    /// The time of the charge, in microseconds of the store's clock.
    pub(crate) charged_us: u64,
    pub(crate) beyond: Beyond,
}

/// The store's last answer: the units that it has left, and the time when all units will be back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Beyond {
    pub(crate) remaining: u64,
    pub(crate) reset_ns: u64,
}

impl Beyond {
    /// Takes these figures from a reply that came at `now_ns`.
    pub(crate) fn of(view: &StateView<'_>, now_ns: u64) -> Self {
        let reset_us = view.ready_us(view.plan.limit).saturating_sub(view.now_us);
        let reset_ns = now_ns.saturating_add(reset_us.saturating_mul(1_000));
        Self { remaining: view.remaining(), reset_ns }
    }

    /// The figures of the answer to a request that spends units of this node.
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

/// The decision of a request, or the next step towards it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spend {
    /// The request is admitted. If the next lease is due, `more` says how many units the caller has to ask for, and the
    /// holding waits for the outcome.
    Spent { stamp: u64, more: Option<LeaseWant> },
    /// The store has denied this cost, or a smaller one, and is not asked again yet. The units fit after `retry_ns`.
    Denied { retry_ns: u64 },
    /// The caller that gets this answer has to ask the store. The holding waits for the outcome.
    Ask(LeaseWant),
    /// Another caller has asked the store. The request is to be decided again when the store has answered.
    Wait,
    /// The store has failed since the request came.
    Failed(Fault),
}

/// Units to ask for. If both numbers are 0, the request is a peek: the store only says how many units it has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseWant {
    pub(crate) want: u64,
    pub(crate) least: u64,
}

/// A denial by the store. For a while it also decides later requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreDenial {
    /// This cost, and every larger one, is denied.
    pub(crate) least: u64,
    /// The time when `least` units would fit, by the store's answer.
    pub(crate) until_ns: u64,
    /// The time at which the store is asked again, since refunds or a restart may have changed its answer.
    pub(crate) again_ns: u64,
    /// The number of the policy of the denied request. Under another policy there may be room.
    pub(crate) era: u64,
}

impl StoreDenial {
    pub(crate) fn new(terms: Terms, least: u64, retry_ns: u64, now_ns: u64) -> Self {
        let until_ns = now_ns.saturating_add(retry_ns.max(terms.poll_ns));
        let again_ns = until_ns.min(now_ns.saturating_add(LIFE_NS));
        Self { least, until_ns, again_ns, era: terms.era }
    }
}

/// Units of a lease that are to be given back, and when they were charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EndedUnits {
    pub(crate) units: u64,
    pub(crate) stamp: ChargeStamp,
}

/// Units that have expired. They may belong to two policies.
pub(crate) type Expired = [EndedUnits; 2];

/// The units of a holding at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Glance {
    pub(crate) left: u64,
    /// Whether the store is being asked for units.
    pub(crate) asking: bool,
    pub(crate) asks: u64,
    /// Whether units have expired that are not given back yet.
    pub(crate) has_expired: bool,
}
