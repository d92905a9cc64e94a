//! What a limit has left: what the store says, and what this node knows besides.
//!
//! In mode `leased` the store counts units as spent that are in leases of this node. While a lease is on its way, the
//! node cannot tell whether the store's answer counts it, so the lease is waited for. If another is asked for in the
//! meantime, the look is repeated; after some attempts only what is left for certain is told.
//!
//! In mode `async` the store has not heard of what was admitted here and not reported. While a report is on its way,
//! the node cannot tell whether the store has heard of it: the look is repeated in the same way.

use tokio::time::{Instant, timeout_at};

use crate::counted::cell::Unheard;
use crate::counted::table::CountTable;
use crate::decision::{RedisDecision, Source};
use crate::error::Fault;
use crate::inner::Inner;
use crate::script::{ScriptReply, ScriptVerb, Units};

/// How often the store is asked at most because units were on their way.
const LOOKS: u32 = 4;

impl Inner {
    /// Would a request be admitted? Charges nothing.
    pub(crate) async fn look_at(&self, key: &[u8], cost: u64) -> RedisDecision {
        let due = self.due();
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
        let link = self.link(key);
        let ask = || link.call(self.request(ScriptVerb::Peek, key, Units::exactly(cost)), due);
        let mut looks = 0;
        if let Some(held) = self.held(key) {
            loop {
                looks += 1;
                let before = held.settled(due).await?;
                let reply = ask().await?;
                let (units, is_sure) = held.since(before, &reply);
                if is_sure || looks == LOOKS {
                    return self.looked(&reply, units, cost);
                }
            }
        }
        let Some(counts) = &self.local.counts else {
            return self.looked(&ask().await?, 0, cost);
        };
        self.report_before_asking(key, Some(self.terms.era)).await;
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

    /// The answer to a look, with the units that this node holds.
    fn looked(&self, reply: &ScriptReply, held: u64, cost: u64) -> Result<RedisDecision, Fault> {
        let view = self.view(reply)?;
        let told = view.told_beside(held, reply.admitted, cost);
        Ok(RedisDecision::new(told, Source::Store, view.stamp()))
    }
}

/// What is to be reported of a key, once no report is on its way.
async fn reported(counts: &CountTable, key: &[u8], due: Instant) -> Result<Unheard, Fault> {
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
