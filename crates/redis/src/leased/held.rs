//! [`HeldKey`]: the units of one key that this node has in leases, and their effect on the figures that the store
//! reports.

use tokio::time::{Instant, timeout_at};

use crate::error::Fault;
use crate::inner::Inner;
use crate::leased::holding::{Beyond, EndedUnits, Expired, Glance, Holding};
use crate::leased::table::Set;
use crate::script::view::StateView;
use crate::script::{ScriptPart, ScriptReply, ScriptRequest, ScriptVerb, Units};
use crate::store::stats::StoreEvent;

/// The leases of one key, and the limiter that they belong to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldKey<'a> {
    inner: &'a Inner,
    set: &'a Set,
    key: &'a [u8],
}

impl Inner {
    /// The leases of a key on this node; `None` if the limit takes no leases.
    pub(crate) fn held<'a>(&'a self, key: &'a [u8]) -> Option<HeldKey<'a>> {
        let table = self.local.leases.as_ref()?;
        Some(HeldKey { inner: self, set: table.set(key), key })
    }

    /// Gives units of leases back to the store, each under the policy under which it was charged. The store gives them
    /// back in all states of the key. `None` if the store did not answer, or if those policies are no longer known.
    pub(crate) async fn give_back(
        &self,
        key: &[u8],
        units: Expired,
        due: Instant,
    ) -> Option<ScriptReply> {
        let mut parts = Vec::with_capacity(units.len());
        for EndedUnits { units, stamp } in units.into_iter().filter(|ended| ended.units > 0) {
            let Some(plan) = self.local.plan_of(stamp.era) else { continue };
            let units = Units { stamp: stamp.at, share: stamp.us.max(1), ..Units::exactly(units) };
            parts.push(ScriptPart::new(self.keys.of(key), plan, units));
        }
        if parts.is_empty() {
            return None;
        }
        // One call gives back all units, so that they are all there for the next lease.
        let ask = ScriptRequest { verb: ScriptVerb::Refund, parts };
        self.link(key).call(ask, due).await.ok()
    }
}

impl HeldKey<'_> {
    /// The units of the node's leases now.
    pub(crate) fn glance(&self) -> Glance {
        let now_ns = self.inner.now_ns();
        self.set.look(self.key, |holding| holding.glance(now_ns)).unwrap_or_default()
    }

    /// Waits until no lease is on its way and all expired units are given back. Returns the units of the node's leases.
    pub(crate) async fn settled(&self, due: Instant) -> Result<Glance, Fault> {
        loop {
            let answered = self.set.answered.notified();
            tokio::pin!(answered);
            // The notification is armed before the holding is read, so that an answer in between is not missed.
            answered.as_mut().enable();
            let now_ns = self.inner.now_ns();
            let found = self.set.look(self.key, |holding| {
                holding.end_older(self.inner.terms.era, now_ns);
                (holding.glance(now_ns), holding.take_expired())
            });
            let Some((glance, expired)) = found else { return Ok(Glance::default()) };
            self.give_back(expired, due).await;
            if !glance.asking {
                return Ok(glance);
            }
            if timeout_at(due, answered).await.is_err() {
                return Err(Fault::Deadline);
            }
        }
    }

    /// The units that the node has now, and whether the store's reply counts exactly these as spent. The reply does so
    /// if no units were on their way since `before`. In that case the figures of the reply are entered as the newest.
    pub(crate) fn since(&self, before: Glance, reply: &ScriptReply) -> (u64, bool) {
        let Inner { plan, terms, .. } = self.inner;
        let now_ns = self.inner.now_ns();
        let found = self.set.look(self.key, |holding| {
            let glance = holding.glance(now_ns);
            // If one call has two refunds, the state in the last part of the reply includes both.
            if glance.asks == before.asks && !before.asking && !glance.has_expired {
                if let Some(seen) = reply.parts.last() {
                    let view = StateView { plan, state: &seen.state, now_us: reply.now_us };
                    holding.see(*terms, Beyond::of(&view, now_ns));
                }
                (glance.left, true)
            } else {
                (glance.left.min(before.left), false)
            }
        });
        found.unwrap_or((0, before == Glance::default()))
    }

    /// Gives back units that have expired.
    pub(crate) async fn give_back(&self, expired: Expired, due: Instant) {
        let count = expired.iter().map(|ended| ended.units).sum();
        if count == 0 {
            return;
        }
        self.inner.counters().add(StoreEvent::Expired, count);
        let before = self.glance();
        // If the call fails, the units drain as if they had been spent.
        let reply = self.inner.give_back(self.key, expired, due).await;
        // A reply under another policy reports the units that are left under that policy, so it is not entered.
        let era = self.inner.terms.era;
        let is_own = expired.iter().all(|ended| ended.units == 0 || ended.stamp.era == era);
        if let Some(reply) = reply.filter(|_| is_own) {
            self.since(before, &reply);
        }
    }

    /// Gives back all units of the node's leases, so that the store can grant them. Returns whether there were any.
    pub(crate) async fn return_all(&self, due: Instant) -> bool {
        if self.settled(due).await.is_err() {
            return false;
        }
        let now_ns = self.inner.now_ns();
        let ended = self.set.look(self.key, |holding| holding.end(now_ns)).unwrap_or_default();
        let has_any = ended.iter().any(|ended| ended.units > 0);
        self.give_back(ended, due).await;
        has_any
    }

    /// Notes that the limit got units back in the store: see [`Holding::returned`].
    pub(crate) fn returned(&self) {
        self.set.look(self.key, Holding::returned);
    }

    /// The units of the node's leases before the store is asked about several limits. A peek first waits for a lease
    /// that is on its way; other verbs do not wait.
    pub(crate) async fn before(&self, verb: ScriptVerb, due: Instant) -> Glance {
        match verb {
            ScriptVerb::Peek => self.settled(due).await.unwrap_or_else(|_| self.glance()),
            _ => self.glance(),
        }
    }

    /// Spends up to `units`; returns how many, and their stamp.
    pub(crate) fn take_up_to(&self, units: u64) -> (u64, u64) {
        let (terms, now_ns) = (self.inner.terms, self.inner.now_ns());
        let take = |holding: &mut Holding| holding.take_up_to(terms, units, now_ns);
        self.set.look(self.key, take).unwrap_or_default()
    }

    /// The units that the limit has left: those in this node's leases, plus those in the store's last answer.
    pub(crate) fn known(&self) -> Beyond {
        let known = self.set.look(self.key, |holding| holding.known(self.inner.terms));
        known.unwrap_or_default()
    }

    /// The units that the node certainly still has after a request, and that the store's reply counts as spent.
    /// `charged` are the units that the request took in the store.
    pub(crate) fn after(&self, before: Glance, charged: u64) -> u64 {
        if charged > 0 {
            self.set.look(self.key, |holding| holding.charged_beside(charged));
        }
        self.glance().left.min(before.left)
    }
}
