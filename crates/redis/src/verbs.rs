//! The verbs of an entry besides a check: take as many units as fit, charge units that were used without asking, give
//! units back, and forget all charges.

use std::time::Duration;

use crate::decision::{RedisDecision, RedisPermit, Source};
use crate::entry::RedisEntry;
use crate::error::Fault;
use crate::inner::told;
use crate::leased::held::HeldKey;
use crate::leased::holding::Glance;
use crate::script::{ScriptVerb, Units};
use crate::settings::OnError;
use crate::told::Told;

impl RedisEntry<'_> {
    /// Admits as many of `units` as fit; the permit's [`cost`](tollgate::Permit::cost) says how many. The request is
    /// denied if not even one unit fits; the denial then has the figures for a cost of 1. A request of 0 units is a
    /// peek.
    ///
    /// With leases, it first takes the units of this node's leases, and then the rest from the store.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tollgate_redis::{RedisLimiter, Settings, Store};
    /// # let store = Store::open("redis://127.0.0.1:1/")?;
    /// let limiter = RedisLimiter::new(&store, Settings::new("10/m".parse()?))?;
    /// let alice = limiter.entry("alice");
    /// let taken = [alice.take_up_to(7).await, alice.take_up_to(7).await];
    /// let taken = taken.map(|it| it.into_result().ok().map(|it| it.permit().cost()));
    /// assert_eq!(taken, [Some(7), Some(3)]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn take_up_to(self, units: u64) -> RedisDecision {
        let (inner, key) = (self.inner(), self.key);
        let decision = match self.held() {
            _ if units == 0 => inner.look_at(key, 0).await,
            Some(held) => self.take_beside(held, units).await,
            None => self.count_or_ask(Units::up_to(units)).await,
        };
        inner.counters().decision(decision.source(), decision.is_allowed());
        decision
    }

    /// Charges units whether they fit or not, and returns how many could not be charged. Use it for a cost that is
    /// known only afterwards. As with [`Entry::charge`](tollgate::Entry::charge), under GCRA the limit goes into debt,
    /// here up to the largest debt that the script can count (2^53 parts of a unit). A window is charged as many units
    /// as fit, and a sliding log at most its limit in one call. During a penalty nothing is charged.
    ///
    /// With leases the charge first uses up the units that this node holds. Units that other nodes hold were charged
    /// before. They may still be spent although the limit is in debt, until they expire after a second at most. In mode
    /// `Async` this node counts the charge at once and reports it, like units that it admits.
    ///
    /// # Errors
    /// Says why the store did not confirm the charge. The store may have charged the units nevertheless, so the call is
    /// not repeated. With [`OnError::Local`](crate::OnError::Local) the units are charged to this node's share.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tollgate_redis::{Fault, RedisLimiter, Settings, Store};
    /// # let store = Store::open("redis://127.0.0.1:1/")?;
    /// let limiter = RedisLimiter::new(&store, Settings::new("10/m".parse()?))?;
    /// assert!(limiter.check("alice").await.is_allowed());
    /// // The request turned out to be worth 15 units, and the store is away.
    /// assert_eq!(limiter.entry("alice").charge(14).await, Err(Fault::Unreachable));
    /// assert!(!limiter.check("alice").await.is_allowed());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn charge(self, units: u64) -> Result<u64, Fault> {
        self.charge_by(ScriptVerb::Charge, units).await
    }

    /// Charges a cost that was denied. Unlike [`charge`](RedisEntry::charge), it raises the count of a window above the
    /// limit, so that even a [`check_n`](RedisEntry::check_n) of cost 0 is denied. In mode `Async` the count of a
    /// window stays within its limit.
    ///
    /// # Errors
    /// As [`charge`](RedisEntry::charge).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tollgate_redis::{Fault, RedisLimiter, Settings, Store};
    /// # let store = Store::open("redis://127.0.0.1:1/")?;
    /// let limiter = RedisLimiter::new(&store, Settings::new("fixed-window 10/m".parse()?))?;
    /// assert!(!limiter.check_n("alice", 11).await.is_allowed());
    /// assert_eq!(limiter.entry("alice").count_denied(11).await, Err(Fault::Unreachable));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn count_denied(self, units: u64) -> Result<u64, Fault> {
        self.charge_by(ScriptVerb::Add, units).await
    }

    /// Corrects a charge when the real cost is known. If less was used than the permit was charged, the rest is given
    /// back, as by [`refund`](RedisEntry::refund). If more was used, the excess is charged, as by
    /// [`charge`](RedisEntry::charge). Returns how many units could not be charged.
    ///
    /// # Errors
    /// The errors of [`refund`](RedisEntry::refund) and [`charge`](RedisEntry::charge).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tollgate_redis::{RedisLimiter, Settings, Store};
    /// # let store = Store::open("redis://127.0.0.1:1/")?;
    /// let limiter = RedisLimiter::new(&store, Settings::new("10/m".parse()?))?;
    /// let alice = limiter.entry("alice");
    /// let estimate = alice.check_n(3).await.into_result()?;
    /// assert_eq!(alice.settle(estimate, 3).await, Ok(0));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn settle(self, permit: RedisPermit, used: u64) -> Result<u64, Fault> {
        let charged = permit.permit().cost();
        if used > charged {
            return self.charge(used - charged).await;
        }
        self.refund(permit.portion(charged - used)).await.map(|_| 0)
    }

    /// Gives back up to `units` that were charged to the key, whichever charge they belong to, and returns how many
    /// came back, rounded up. It is the opposite of [`charge`](RedisEntry::charge). Use it if a cost turns out lower
    /// than was charged and the permit no longer exists. As with [`Entry::uncharge`](tollgate::Entry::uncharge), at
    /// most the units that are charged at present come back. A window gives back units of its newest count, and a
    /// sliding log its newest units. During a penalty nothing comes back. Units are given back only in the state of
    /// this limiter's policy.
    ///
    /// Units in leases count as charged. A caller that gives back no more than it was charged never gives back units of
    /// leases. A caller that gives back more also frees units that nodes hold in leases, at most `max_held` for each
    /// node. In mode `Async` this node reports the key first, and learns from its next report that units came back.
    ///
    /// # Errors
    /// Says why the store did not confirm the call. The store may have carried out the call nevertheless, so it is not
    /// repeated.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tollgate_redis::{Fault, RedisLimiter, Settings, Store};
    /// # let store = Store::open("redis://127.0.0.1:1/")?;
    /// let limiter = RedisLimiter::new(&store, Settings::new("10/m".parse()?))?;
    /// assert_eq!(limiter.entry("alice").uncharge(5).await, Err(Fault::Unreachable));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn uncharge(self, units: u64) -> Result<u64, Fault> {
        let (inner, key) = (self.inner(), self.key);
        if units == 0 {
            return Ok(0);
        }
        inner.report_before_asking(key, None).await;
        let reply = inner.ask(ScriptVerb::Uncharge, key, Units::owed(units), inner.due()).await?;
        inner.view(&reply)?;
        if let Some(held) = self.held() {
            held.returned();
        }
        Ok(reply.parts.first().map_or(0, |seen| seen.units))
    }

    /// Forgets all charges to the key: from now on its limit is as if it had never been used. The store forgets the
    /// charges under all policies of the key. This node forgets the units of its leases, the units that it has not
    /// reported, and the charges to its share. As with [`Entry::reset`](tollgate::Entry::reset), do not refund earlier
    /// permits, since that would undo part of a later charge.
    ///
    /// Other nodes do not learn of the reset. The units of their leases were charged before the reset, and may still be
    /// spent or given back until they expire. So in the second after the reset, these units may be admitted beyond the
    /// limit, at most `max_held` for each node. In mode `Async` the units that other nodes had admitted and not
    /// reported are charged after the reset, and these nodes deny by their old counts for two intervals at most.
    ///
    /// # Errors
    /// Says why the store did not confirm the call. In that case this node has forgotten nothing, but the store may
    /// have done so. The store's user needs the right to `DEL`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tollgate_redis::{Fault, RedisLimiter, Settings, Store};
    /// # let store = Store::open("redis://127.0.0.1:1/")?;
    /// let limiter = RedisLimiter::new(&store, Settings::new("10/m".parse()?))?;
    /// assert_eq!(limiter.entry("alice").reset().await, Err(Fault::Unreachable));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reset(self) -> Result<(), Fault> {
        let (inner, key) = (self.inner(), self.key);
        inner.ask(ScriptVerb::Reset, key, Units::exactly(0), inner.due()).await?;
        inner.share.entry(key, inner.link(key).isolated()).reset();
        if let Some(table) = &inner.local.leases {
            table.set(key).look(key, |holding| holding.forget());
        }
        if let Some(counts) = &inner.local.counts {
            counts.forget(key);
        }
        Ok(())
    }

    /// Decides by the counts of this node or, if these cannot decide, by the store.
    pub(crate) async fn count_or_ask(self, units: Units) -> RedisDecision {
        let (inner, key, check) = (self.inner(), self.key, ScriptVerb::Check);
        let counts = inner.local.counts.as_ref();
        if let Some(decision) = counts.and_then(|counts| inner.count(counts, key, check, units)) {
            return decision;
        }
        inner.report_before_asking(key, Some(inner.terms.era)).await;
        inner.ask_store(key, units).await
    }

    /// Uses up the units of this node's leases first, and charges the rest to the store with `verb`.
    async fn charge_by(self, verb: ScriptVerb, units: u64) -> Result<u64, Fault> {
        let (inner, key) = (self.inner(), self.key);
        let (held, _) = self.held().map_or((0, 0), |held| held.take_up_to(units));
        let owed = Units::owed(units - held);
        if owed.want == 0 {
            return Ok(0);
        }
        let counts = inner.local.counts.as_ref();
        if let Some(decision) =
            counts.and_then(|counts| inner.count(counts, key, ScriptVerb::Charge, owed))
        {
            return Ok(owed.want - decision.into_result().map_or(0, |it| it.permit().cost()));
        }
        inner.report_before_asking(key, Some(inner.terms.era)).await;
        let reply = inner.ask(verb, key, owed, inner.due()).await;
        let reply = reply.inspect_err(|_| {
            if inner.on_error == OnError::Local {
                // The share may not be able to charge all units. That makes no difference, since it then admits nothing
                // for a long time.
                let (share, isolated) = (&inner.share, inner.link(key).isolated());
                let _ = share.entry(key, isolated).charge(share.counted(owed.want));
            }
        })?;
        let charged = reply.parts.first().map_or(0, |seen| seen.units);
        if let Some(held) = self.held() {
            held.after(Glance::default(), charged);
        }
        Ok(owed.want.saturating_sub(charged))
    }

    /// Takes as many units as fit: first those of this node's leases, and the rest from the store.
    async fn take_beside(self, held: HeldKey<'_>, units: u64) -> RedisDecision {
        let (inner, key) = (self.inner(), self.key);
        let due = inner.due();
        // The limit's remaining units include those of a lease that is on its way, and expired units that are not given
        // back yet. So this waits until the lease has arrived and the expired units are given back. If that takes too
        // long, fewer units are taken.
        _ = held.settled(due).await;
        let (taken, stamp) = held.take_up_to(units);
        let rest = Units::up_to(units - taken);
        let lent = |cost| {
            let told = held.known().told(&inner.plan, cost, inner.now_ns());
            RedisDecision::new(told, Source::Lease, stamp)
        };
        if rest.want == 0 {
            return lent(taken);
        }
        let reply = inner.ask(ScriptVerb::Check, key, rest, due).await;
        match reply.and_then(|reply| told(inner, &reply, rest)) {
            Err(fault) if taken == 0 => inner.fall_back(key, rest, fault),
            Err(_) => lent(taken),
            Ok((told, at)) => {
                let charged = if told.allowed { told.cost } else { 0 };
                held.after(Glance::default(), charged);
                if taken == 0 {
                    return RedisDecision::new(told, Source::Store, at);
                }
                let (allowed, cost) = (true, taken + charged);
                let told = Told { allowed, cost, retry_after: Duration::ZERO, ..told };
                // The permit gets the earlier stamp, so that no unit counts as charged later than it was.
                let stamp = if charged > 0 { stamp.min(at) } else { stamp };
                RedisDecision::new(told, Source::Store, stamp)
            }
        }
    }
}
