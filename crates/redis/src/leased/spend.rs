//! Mode `leased`: requests spend units of this node's leases, or wait for a lease. The next lease is asked for before
//! the present one is spent.
//!
//! # What is left
//! An answer reports the sum of two numbers of units: those that the store had left in its last answer, and those in
//! this node's leases. Only answers that came while no other lease was on its way count for the first number. Expired
//! units are given back, so a node that uses the limit alone reports exactly how many units are left. The sum still
//! includes units that other nodes have taken since the store's last answer, which is at most as old as a lease, a
//! second.

use std::time::Duration;

use tokio::time::timeout_at;

use crate::decision::{RedisDecision, Source};
use crate::entry::RedisEntry;
use crate::error::Fault;
use crate::inner::Inner;
use crate::leased::fast_entry::KeySpend;
use crate::leased::holding::{Beyond, Expired, Grant, Holding, LeaseWant, Spend};
use crate::leased::table::LeaseTable;
use crate::script::{ScriptReply, ScriptVerb, Units};
use crate::store::stats::StoreEvent;
use crate::told::Told;

/// A lease takes at most one part in `SHARE_OF_A_LEASE` of the units that are left, which is half of them, unless a
/// request needs more.
const SHARE_OF_A_LEASE: u64 = 2;

/// The reason why a request cannot be decided at once.
pub(crate) enum WaitReason {
    Lease {
        came_ns: u64,
    },
    /// The key has no place, because its set is full.
    NoPlace,
}

impl RedisEntry<'_> {
    /// Decides from the units that can be spent without a lock.
    #[inline]
    pub(crate) fn spend_held(self, cost: u64) -> Option<RedisDecision> {
        let inner = self.inner();
        let table = inner.local.leases.as_ref()?;
        if cost == 0 || cost > inner.plan.limit {
            return None;
        }
        let (now_ns, era) = (inner.now_ns(), inner.terms.era);
        let KeySpend { spent, remaining } =
            table.set(self.key).spend(self.key, cost, now_ns, era)?;
        inner.counters().decision(Source::Lease, true);
        let known = Beyond { remaining, reset_ns: spent.reset_ns };
        let told = known.told(&inner.plan, cost, now_ns);
        Some(RedisDecision::new(told, Source::Lease, spent.stamp))
    }

    /// Decides from this node's leases, or returns what the request has to wait for. Also asks for the next lease when
    /// that is due.
    pub(crate) fn spend(self, table: &LeaseTable, cost: u64) -> Result<RedisDecision, WaitReason> {
        self.spend_since(self.inner().now_ns(), table, cost)
    }

    fn spend_since(
        self,
        came_ns: u64,
        table: &LeaseTable,
        cost: u64,
    ) -> Result<RedisDecision, WaitReason> {
        let (inner, key) = (self.inner(), self.key);
        let now_ns = inner.now_ns().max(came_ns);
        let spent = table.set(key).with(key, now_ns, |holding| {
            let spend = holding.spend(inner.terms, cost, came_ns, now_ns);
            (spend, holding.known(inner.terms), holding.take_expired())
        });
        let Some((spend, known, expired)) = spent else { return Err(WaitReason::NoPlace) };
        let told = known.told(&inner.plan, cost, now_ns);
        let want = match &spend {
            Spend::Spent { more, .. } => *more,
            Spend::Ask(want) => Some(*want),
            _ => None,
        };
        if want.is_some() || expired[0].units > 0 {
            self.fetch(want, expired);
        }
        match spend {
            Spend::Spent { stamp, .. } => Ok(RedisDecision::new(told, Source::Lease, stamp)),
            Spend::Denied { retry_ns } => {
                // The answer to a denial has to report fewer units than the cost, even if the store has reported more
                // since.
                let (remaining, retry_after) =
                    (told.remaining.min(cost - 1), Duration::from_nanos(retry_ns));
                let told = Told { allowed: false, remaining, retry_after, ..told };
                Ok(RedisDecision::new(told, Source::Lease, 0))
            }
            Spend::Ask(_) => Err(WaitReason::Lease { came_ns }),
            Spend::Wait => Err(WaitReason::Lease { came_ns }),
            Spend::Failed(fault) => Ok(inner.fall_back(key, Units::exactly(cost), fault)),
        }
    }

    pub(crate) async fn wait_for_lease(
        self,
        first: WaitReason,
        table: &LeaseTable,
        cost: u64,
    ) -> RedisDecision {
        let (inner, key) = (self.inner(), self.key);
        let WaitReason::Lease { came_ns } = first else {
            return inner.ask_store(key, Units::exactly(cost)).await;
        };
        let due = inner.due();
        let set = table.set(key);
        loop {
            let answered = set.answered.notified();
            tokio::pin!(answered);
            // The notification is armed before the holding is read again, so that an answer in between is not missed.
            answered.as_mut().enable();
            match self.spend_since(came_ns, table, cost) {
                Ok(decision) => return decision.after_asking(),
                Err(WaitReason::NoPlace) => {
                    return inner.ask_store(key, Units::exactly(cost)).await;
                }
                Err(WaitReason::Lease { .. }) => {}
            }
            if timeout_at(due, answered).await.is_err() {
                return inner.fall_back(key, Units::exactly(cost), Fault::Deadline);
            }
        }
    }

    /// Gives back expired units and asks the store for a lease, in a separate task. So the lease is entered when it
    /// arrives, even if no caller waits for it any more.
    fn fetch(self, want: Option<LeaseWant>, expired: Expired) {
        let (limiter, key) = (self.limiter.clone(), self.key.to_vec());
        tokio::spawn(async move {
            let entry = limiter.entry(&key);
            let Some(held) = entry.held() else { return };
            let due = entry.inner().due();
            let Some(want) = want else { return held.give_back(expired, due).await };
            // The refund is sent before the request for the lease, so that the lease can have the refunded units. The
            // request does not wait for the refund's reply.
            let given = held.give_back(expired, due);
            tokio::join!(biased; given, entry.lease(want));
        });
    }

    async fn lease(self, want: LeaseWant) {
        let (inner, key) = (self.inner(), self.key);
        let Some(table) = &inner.local.leases else { return };
        let units = Units { want: want.want, least: want.least, share: SHARE_OF_A_LEASE, stamp: 0 };
        let asked_ns = inner.now_ns();
        let ask = inner.request(ScriptVerb::Check, key, units);
        let result = inner.link(key).call(ask, inner.due()).await;
        let set = table.set(key);
        let now_ns = inner.now_ns();
        set.with(key, now_ns, |holding| match &result {
            Err(fault) => holding.failed(*fault, now_ns),
            Ok(reply) => inner.settle(reply, holding, want, asked_ns, now_ns),
        });
        set.answered.notify_waiters();
    }
}

impl Inner {
    /// Enters the store's answer to a request for a lease.
    fn settle(
        &self,
        reply: &ScriptReply,
        holding: &mut Holding,
        want: LeaseWant,
        asked_ns: u64,
        now_ns: u64,
    ) {
        let (Some(seen), Ok(view)) = (reply.parts.first(), self.view(reply)) else {
            return holding.failed(Fault::Unexpected, now_ns);
        };
        let terms = self.terms;
        let until_ns = |at_us: u64| at_us.saturating_sub(reply.now_us).saturating_mul(1_000);
        let beyond = Beyond::of(&view, now_ns);
        if want.want == 0 {
            return holding.seen(terms, beyond);
        }
        if !reply.admitted {
            let fitting = want.least.min(self.plan.limit);
            let retry_ns = until_ns(view.ready_us(fitting));
            return holding.denied(terms, want.least, beyond, retry_ns, now_ns);
        }
        let counters = self.counters();
        counters.add(StoreEvent::Leases, 1);
        // A faulty server could claim to have granted more units than the limit. Without the `min`, the sums below
        // could overflow.
        let units = seen.units.min(self.plan.limit);
        counters.add(StoreEvent::Leased, units);
        let turns_ns = view.turns_us().map(until_ns);
        let (stamp, charged_us) = (view.stamp(), reply.now_us);
        let grant = Grant { units, asked_ns, turns_ns, stamp, charged_us, beyond };
        holding.granted(terms, grant, now_ns);
    }
}
