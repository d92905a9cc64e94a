//! What a limit has left: what the store says, and what this node knows besides.
//!
//! In mode `leased` the store counts units as spent that are in leases of this node. While a lease is on its way, the
//! node cannot tell whether the store's answer counts it, so the lease is waited for. If another is asked for in the
//! meantime, the look is repeated; after some attempts only what is left for certain is told.
//!
//! In mode `async` the store has not heard of what was admitted here and not reported. While a report is on its way,
//! the node cannot tell whether the store has heard of it: the look is repeated in the same way.

use tokio::time::{Instant, timeout_at};

use crate::count::Unheard;
use crate::counters::Count;
use crate::counts::Counts;
use crate::decision::{RedisDecision, Source};
use crate::error::Fault;
use crate::inner::Inner;
use crate::lease::{Expired, Glance};
use crate::ledger::Ledger;
use crate::script::{Reply, Units, Verb};
use crate::state::View;

/// How often the store is asked at most because units were on their way.
const LOOKS: u32 = 4;

impl Inner {
    /// Would a request be admitted? Charges nothing.
    pub(crate) async fn look_at(&self, key: &[u8], cost: u64) -> RedisDecision {
        let due = self.link.due();
        match self.look_until(due, key, cost).await {
            Ok(decision) => decision,
            Err(fault) => self.peek_fallen_back(key, cost, fault),
        }
    }

    async fn look_until(
        &self,
        due: Instant,
        key: &[u8],
        cost: u64,
    ) -> Result<RedisDecision, Fault> {
        let ask = || self.link.call(self.request(Verb::Peek, key, Units::exactly(cost)), due);
        let mut looks = 0;
        if let Some(ledger) = &self.local.ledger {
            loop {
                looks += 1;
                let before = self.settled(ledger, key, due).await?;
                let reply = ask().await?;
                let (held, is_sure) = self.held_since(ledger, key, before, &reply);
                if is_sure || looks == LOOKS {
                    return self.looked(&reply, held, cost);
                }
            }
        }
        let Some(counts) = &self.local.counts else {
            return self.looked(&ask().await?, 0, cost);
        };
        self.report_before_asking(key).await;
        loop {
            looks += 1;
            let before = reported(counts, key, due).await?;
            let mut reply = ask().await?;
            let (unheard, is_sure) = counts.unheard(key).since(before);
            if is_sure || looks == LOOKS {
                if let Some(seen) = reply.parts.first_mut() {
                    seen.state.charge(&self.plan, unheard);
                }
                return self.looked(&reply, 0, cost);
            }
        }
    }

    /// What this node holds of a key once no lease is on its way and nothing has expired.
    pub(crate) async fn settled(
        &self,
        ledger: &Ledger,
        key: &[u8],
        due: Instant,
    ) -> Result<Glance, Fault> {
        let set = ledger.set(key);
        loop {
            let answered = set.answered.notified();
            tokio::pin!(answered);
            // First the notification is armed, so that no answer is missed, and only then the holding is looked at.
            answered.as_mut().enable();
            let now_ns = self.now_ns();
            let found = set.look(key, |holding| (holding.glance(now_ns), holding.take_expired()));
            let Some((glance, expired)) = found else { return Ok(Glance::default()) };
            self.give_back(key, expired).await;
            if !glance.asking {
                return Ok(glance);
            }
            if timeout_at(due, answered).await.is_err() {
                return Err(Fault::Deadline);
            }
        }
    }

    /// What this node holds now, and whether the store counts exactly that as spent, because no units were on their
    /// way since `before`. If so, the store's figure is entered as the newest.
    pub(crate) fn held_since(
        &self,
        ledger: &Ledger,
        key: &[u8],
        before: Glance,
        reply: &Reply,
    ) -> (u64, bool) {
        let now_ns = self.now_ns();
        let found = ledger.set(key).look(key, |holding| {
            let glance = holding.glance(now_ns);
            if glance.asks == before.asks && !before.asking && !glance.has_expired {
                let seen = reply.parts.first();
                if let Some(view) = seen.map(|seen| self.view(&seen.state, reply)) {
                    holding.see(self.terms, self.beyond(&view, now_ns));
                }
                (glance.left, true)
            } else {
                (glance.left.min(before.left), false)
            }
        });
        found.unwrap_or((0, before == Glance::default()))
    }

    fn view<'a>(&'a self, state: &'a crate::state::State, reply: &Reply) -> View<'a> {
        View { plan: &self.plan, state, now_us: reply.now_us }
    }

    /// The answer to a look, with the units that this node holds.
    fn looked(&self, reply: &Reply, held: u64, cost: u64) -> Result<RedisDecision, Fault> {
        let seen = reply.parts.first().ok_or(Fault::Unexpected)?;
        if seen.broken {
            self.link.counters.add(Count::Broken, 1);
        }
        let view = self.view(&seen.state, reply);
        let told = view.told_beside(held, reply.admitted, cost);
        Ok(RedisDecision::new(told, Source::Store, view.stamp()))
    }

    /// Gives back units that have expired and were charged under this policy.
    pub(crate) async fn give_back(&self, key: &[u8], expired: Expired) {
        let (link, ledger) = (&self.link, &self.local.ledger);
        for (units, stamp) in expired.into_iter().filter(|(units, _)| *units > 0) {
            link.counters.add(Count::Expired, units);
            if let (Some(ledger), stamp @ 1..) = (ledger, stamp.of(self.terms.era)) {
                let units = Units { stamp, ..Units::exactly(units) };
                let before = self.glance(ledger, key);
                // What is not given back drains as if it had been spent.
                let reply = link.call(self.request(Verb::Refund, key, units), link.due()).await;
                if let Ok(reply) = reply {
                    self.held_since(ledger, key, before, &reply);
                }
            }
        }
    }

    fn glance(&self, ledger: &Ledger, key: &[u8]) -> Glance {
        let now_ns = self.now_ns();
        let glance = ledger.set(key).look(key, |holding| holding.glance(now_ns));
        glance.unwrap_or_default()
    }

    /// What this node holds of a key before the store is asked under several limits. A look waits for a lease that is
    /// on its way, a request does not.
    pub(crate) async fn held_before(&self, verb: Verb, key: &[u8], due: Instant) -> Glance {
        match &self.local.ledger {
            None => Glance::default(),
            Some(ledger) if verb == Verb::Peek => {
                self.settled(ledger, key, due).await.unwrap_or_else(|_| self.glance(ledger, key))
            }
            Some(ledger) => self.glance(ledger, key),
        }
    }

    /// What this node holds afterwards for certain, besides what the store says. `charged` is what the request took
    /// there.
    pub(crate) fn held_after(&self, key: &[u8], before: Glance, charged: u64) -> u64 {
        let Some(ledger) = &self.local.ledger else { return 0 };
        if charged > 0 {
            ledger.set(key).look(key, |holding| holding.charged_beside(charged));
        }
        self.glance(ledger, key).left.min(before.left)
    }
}

/// What is to be reported of a key, once no report is on its way.
async fn reported(counts: &Counts, key: &[u8], due: Instant) -> Result<Unheard, Fault> {
    loop {
        let answered = counts.answered.notified();
        tokio::pin!(answered);
        // First the notification is armed, so that no answer is missed, and only then the count is looked at.
        answered.as_mut().enable();
        let unheard = counts.unheard(key);
        if !unheard.is_under_way {
            return Ok(unheard);
        }
        if timeout_at(due, answered).await.is_err() {
            return Err(Fault::Deadline);
        }
    }
}
