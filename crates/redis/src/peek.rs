//! Finds the units that a limit has left. The store's number is corrected by the leases or counts of this node.
//!
//! In mode `leased` the store counts units in this node's leases as spent. While the node waits for a lease, it does
//! not know whether the store's answer to the peek already includes that lease, so it waits for the lease first. If
//! another lease is asked for in the meantime, the peek is repeated. After a few attempts the answer reports only the
//! units that are certainly left.
//!
//! In mode `async` the store does not count units that were admitted here and are not reported yet. While a report is
//! on its way, the node does not know whether the store's answer includes it, so the peek is repeated in the same way.

use tokio::time::{Instant, timeout_at};

use crate::counted::cell::Unheard;
use crate::counted::table::CountTable;
use crate::decision::{RedisDecision, Source};
use crate::error::Fault;
use crate::inner::Inner;
use crate::script::{ScriptReply, ScriptVerb, Units};

/// The maximum number of attempts. A peek is repeated if a lease or a report was on its way.
const LOOKS: u32 = 4;

impl Inner {
    /// Finds out whether a request would be admitted. Charges nothing.
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

    /// The answer to a peek, with the units that this node holds in leases.
    fn looked(&self, reply: &ScriptReply, held: u64, cost: u64) -> Result<RedisDecision, Fault> {
        let view = self.view(reply)?;
        let told = view.told_beside(held, reply.admitted, cost);
        Ok(RedisDecision::new(told, Source::Store, view.stamp()))
    }
}

/// Waits until no report of the key is on its way, and returns its unreported units.
async fn reported(counts: &CountTable, key: &[u8], due: Instant) -> Result<Unheard, Fault> {
    loop {
        let answered = counts.answered.notified();
        tokio::pin!(answered);
        // The notification is armed before the count is read, so that no answer is missed.
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
