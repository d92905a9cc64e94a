//! [`Inner`]: the state that the clones of a limiter share.

use std::sync::Arc;

use tokio::time::Instant;

use crate::counted::cell::{CallTimes, Era};
use crate::decision::{RedisDecision, Source};
use crate::error::Fault;
use crate::hash_slot;
use crate::key::StoredKeys;
use crate::leased::holding::Terms;
use crate::local::Local;
use crate::script::plan::ScriptPlan;
use crate::script::view::StateView;
use crate::script::{ScriptPart, ScriptReply, ScriptRequest, ScriptVerb, Units};
use crate::settings::OnError;
use crate::share::LocalShare;
use crate::store::Store;
use crate::store::link::Link;
use crate::store::link_set::Enrolled;
use crate::store::stats::StoreCounters;
use crate::told::Told;

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) plan: ScriptPlan,
    pub(crate) on_error: OnError,
    pub(crate) share: LocalShare,
    pub(crate) local: Arc<Local>,
    pub(crate) terms: Terms,
    pub(crate) keys: StoredKeys,
    pub(crate) nodes: u64,
    /// While this exists, the limit is included in the number of limits in the log. `None` for a limit that came with a
    /// request.
    pub(crate) _enrolled: Option<Enrolled>,
}

impl Inner {
    /// Nanoseconds since the store was opened.
    pub(crate) fn now_ns(&self) -> u64 {
        self.store.now_ns()
    }

    pub(crate) fn is_same_store(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.store.links, &other.store.links)
    }

    /// The cluster slot of a key's limit; 0 if the store is one server. Limits in the same slot are asked in one call.
    pub(crate) fn slot(&self, key: &[u8]) -> u16 {
        if self.store.links.is_cluster() { hash_slot::of_key(&self.keys.of(key)) } else { 0 }
    }

    /// The link over which the store is asked about a key.
    pub(crate) fn link(&self, key: &[u8]) -> &Arc<Link> {
        self.store.links.of(self.slot(key))
    }

    pub(crate) fn due(&self) -> Instant {
        self.store.links.due()
    }

    pub(crate) fn counters(&self) -> &StoreCounters {
        self.store.links.counters()
    }

    /// A request under this limit alone.
    pub(crate) fn request(&self, verb: ScriptVerb, key: &[u8], units: Units) -> ScriptRequest {
        ScriptRequest { verb, parts: vec![self.part(key, units)] }
    }

    pub(crate) fn part(&self, key: &[u8], units: Units) -> ScriptPart {
        ScriptPart::new(self.keys.of(key), self.plan, units)
    }

    /// Asks the store to decide. If the store fails, [`OnError`] decides.
    pub(crate) async fn ask_store(&self, key: &[u8], units: Units) -> RedisDecision {
        let reply = self.ask(ScriptVerb::Check, key, units, self.due()).await;
        let decision = reply.and_then(|reply| {
            let (told, stamp) = told(self, &reply, units)?;
            Ok(RedisDecision::new(told, Source::Store, stamp))
        });
        decision.unwrap_or_else(|fault| self.fall_back(key, units, fault))
    }

    /// Asks the store about this limit alone. In mode `async` this node's counts learn from the reply.
    pub(crate) async fn ask(
        &self,
        verb: ScriptVerb,
        key: &[u8],
        units: Units,
        due: Instant,
    ) -> Result<ScriptReply, Fault> {
        let asked_ns = self.now_ns();
        let reply = self.link(key).call(self.request(verb, key, units), due).await?;
        if let Some(counts) = &self.local.counts {
            let times = CallTimes { asked_ns, replied_ns: self.now_ns() };
            counts.learn(self.era(), key, &reply, times);
        }
        Ok(reply)
    }

    /// The policy of this limiter, and its number among the policies that the limit has had so far.
    pub(crate) fn era(&self) -> Era<'_> {
        Era { plan: &self.plan, number: self.terms.era }
    }

    /// Reads the state of this limit from the reply to a request that asked about this limit alone.
    pub(crate) fn view<'a>(&'a self, reply: &'a ScriptReply) -> Result<StateView<'a>, Fault> {
        let seen = reply.parts.first().ok_or(Fault::Unexpected)?;
        Ok(StateView { plan: &self.plan, state: &seen.state, now_us: reply.now_us })
    }
}

/// The figures of a reply to a request of `units`, and the stamp of its charge. If the request was denied, the cost is
/// the least number of units that it asked for.
pub(crate) fn told(inner: &Inner, reply: &ScriptReply, units: Units) -> Result<(Told, u64), Fault> {
    let view = inner.view(reply)?;
    let charged = reply.parts.first().map_or(0, |seen| seen.units);
    let cost = if reply.admitted { charged } else { units.least };
    Ok((view.told(reply.admitted, cost), view.stamp()))
}
