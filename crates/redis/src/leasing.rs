//! Mode `leased`: requests spend what this node holds, wait for a lease, and take one ahead of time.

use std::time::Duration;

use tokio::time::timeout_at;
use tollgate::Told;

use crate::counters::Count;
use crate::decision::{RedisDecision, Source};
use crate::error::Fault;
use crate::lease::{Beyond, Grant, Holding, Spend, Terms, Want};
use crate::ledger::Ledger;
use crate::limiter::{Inner, RedisLimiter};
use crate::script::{Reply, Units, Verb};
use crate::state::View;

/// Of what is left, a lease takes no more than half.
const SHARE_OF_A_LEASE: u64 = 2;

/// What a request waits for.
pub(crate) enum Waiting {
    Lease {
        came_ns: u64,
    },
    /// There is no room for the key here.
    NoPlace,
}

impl RedisLimiter {
    /// Decides from what this node holds, or says what to wait for. Asks for the next lease if it is time.
    pub(crate) fn spend(
        &self,
        ledger: &Ledger,
        terms: Terms,
        key: &[u8],
        cost: u64,
    ) -> Result<RedisDecision, Waiting> {
        let came_ns = self.inner.now_ns();
        self.spend_since(came_ns, (ledger, terms), key, cost)
    }

    fn spend_since(
        &self,
        came_ns: u64,
        (ledger, terms): (&Ledger, Terms),
        key: &[u8],
        cost: u64,
    ) -> Result<RedisDecision, Waiting> {
        let inner = &self.inner;
        let now_ns = inner.now_ns().max(came_ns);
        let spent = ledger.set(key).with(key, now_ns, |holding| {
            let spend = holding.spend(terms, cost, [came_ns, now_ns]);
            (spend, holding.left(), holding.beyond, holding.take_expired())
        });
        let Some((spend, left, beyond, expired)) = spent else { return Err(Waiting::NoPlace) };
        if expired > 0 {
            inner.link.counters.add(Count::Expired, expired);
        }
        let told = |allowed, retry_ns| Told {
            allowed,
            cost,
            limit: inner.plan.limit,
            remaining: left.saturating_add(beyond.remaining).min(inner.plan.limit),
            retry_after: Duration::from_nanos(retry_ns),
            reset_after: Duration::from_nanos(beyond.reset_ns.saturating_sub(now_ns)),
        };
        match spend {
            Spend::Spent { stamp, more } => {
                if let Some(want) = more {
                    self.fetch(terms, key, want);
                }
                Ok(RedisDecision::new(told(true, 0), Source::Lease, stamp))
            }
            Spend::Denied { retry_ns } => {
                let told = Told { remaining: left, ..told(false, retry_ns) };
                Ok(RedisDecision::new(told, Source::Lease, 0))
            }
            Spend::Ask(want) => {
                self.fetch(terms, key, want);
                Err(Waiting::Lease { came_ns })
            }
            Spend::Wait => Err(Waiting::Lease { came_ns }),
            Spend::Failed(fault) => Ok(inner.fall_back(key, cost, fault)),
        }
    }

    pub(crate) async fn wait_for_lease(
        &self,
        first: Waiting,
        (ledger, terms): (&Ledger, Terms),
        key: &[u8],
        cost: u64,
    ) -> RedisDecision {
        let Waiting::Lease { came_ns } = first else {
            return self.inner.ask_store(Verb::Check, key, cost).await;
        };
        let due = self.inner.link.due();
        let set = ledger.set(key);
        loop {
            let answered = set.answered.notified();
            tokio::pin!(answered);
            // From here on no answer is missed, and only now the holding is looked at again.
            answered.as_mut().enable();
            match self.spend_since(came_ns, (ledger, terms), key, cost) {
                Ok(decision) => return decision,
                Err(Waiting::NoPlace) => return self.inner.ask_store(Verb::Check, key, cost).await,
                Err(Waiting::Lease { .. }) => {}
            }
            if timeout_at(due, answered).await.is_err() {
                return self.inner.fall_back(key, cost, Fault::Deadline);
            }
        }
    }

    /// Asks the store for a lease, apart from whoever wants it: so it arrives, and is counted, also if they
    /// no longer wait.
    fn fetch(&self, terms: Terms, key: &[u8], want: Want) {
        let (this, key) = (self.clone(), key.to_vec());
        tokio::spawn(async move {
            let inner = &this.inner;
            let Some((ledger, _)) = &inner.ledger else { return };
            let units =
                Units { want: want.want, least: want.least, share: SHARE_OF_A_LEASE, stamp: 0 };
            let asked_ns = inner.now_ns();
            let link = &inner.link;
            let result = link.call(inner.request(Verb::Check, &key, units), link.due()).await;
            let set = ledger.set(&key);
            let now_ns = inner.now_ns();
            set.with(&key, now_ns, |holding| match &result {
                Err(fault) => holding.failed(*fault, now_ns),
                Ok(reply) => inner.settle(reply, holding, (terms, want), [asked_ns, now_ns]),
            });
            set.answered.notify_waiters();
        });
    }
}

impl Inner {
    /// Decides from units that can be had without a lock.
    #[inline]
    pub(crate) fn spend_held(
        &self,
        ledger: &Ledger,
        key: &[u8],
        cost: u64,
    ) -> Option<RedisDecision> {
        let now_ns = self.now_ns();
        let spent = ledger.set(key).spend(key, cost, now_ns)?;
        self.link.counters.decision(Source::Lease, true);
        let limit = self.plan.limit;
        let reset_ns = spent.reset_ns.saturating_sub(now_ns);
        let told = Told {
            allowed: true,
            cost,
            limit,
            remaining: spent.left.saturating_add(spent.beyond_remaining).min(limit),
            retry_after: Duration::ZERO,
            reset_after: Duration::from_nanos(reset_ns),
        };
        Some(RedisDecision::new(told, Source::Lease, spent.stamp))
    }

    /// Enters what the store said of a lease.
    fn settle(
        &self,
        reply: &Reply,
        holding: &mut Holding,
        (terms, want): (Terms, Want),
        [asked_ns, now_ns]: [u64; 2],
    ) {
        let Some(seen) = reply.parts.first() else {
            return holding.failed(Fault::Unexpected, now_ns);
        };
        let view = View { plan: &self.plan, state: &seen.state, now_us: reply.now_us };
        let until_ns = |at_us: u64| at_us.saturating_sub(reply.now_us).saturating_mul(1_000);
        let reset_ns = now_ns.saturating_add(until_ns(view.ready_us(self.plan.limit)));
        let beyond = Beyond { remaining: view.remaining(), reset_ns };
        if !reply.admitted {
            holding.beyond = beyond;
            let fitting = want.least.min(self.plan.limit);
            return holding.denied(terms, want.least, [until_ns(view.ready_us(fitting)), now_ns]);
        }
        let counters = &self.link.counters;
        counters.add(Count::Leases, 1);
        // More than the limit is no answer to anything; nor would it add up.
        let units = seen.units.min(self.plan.limit);
        counters.add(Count::Leased, units);
        let turns_ns = view.turns_us().map(until_ns);
        let grant = Grant { units, asked_ns, turns_ns, stamp: view.stamp(), beyond };
        holding.granted(terms, grant, now_ns);
    }
}
