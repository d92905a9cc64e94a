//! [`RedisEntry`]: the limit of one key. Here are its checks, `peek` and `refund`; the other verbs are in verbs.rs and
//! reserve.rs.

use tollgate::Timestamp;

use crate::decision::{RedisDecision, RedisPermit};
use crate::error::Fault;
use crate::inner::Inner;
use crate::leased::held::HeldKey;
use crate::limiter::RedisLimiter;
use crate::script::{ScriptPart, ScriptVerb, Units};

/// The limit of one key, with its verbs: the counterpart of [`tollgate::Entry`] for a limit in a store.
///
/// The verbs have the names and the meanings of the verbs of [`tollgate::Entry`]. Limits in a store have no `check_or`,
/// no tiers, and no quotas that the caller passes with a request. [`peek`](RedisEntry::peek) always asks the store, so
/// its answer may differ from that of a check which a lease or an earlier denial decides.
/// [`check_held`](RedisEntry::check_held) never waits; every other verb that needs the store waits for its answer. The
/// verbs that give units back, or charge units that are owed, return an error if the store fails; the documentation of
/// each says what may have been charged or given back in that case. All verbs use the store's clock, so none of them
/// takes a time.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tollgate_redis::{RedisLimiter, Settings, Store};
/// # let store = Store::open("redis://127.0.0.1:1/")?;
/// let limiter = RedisLimiter::new(&store, Settings::new("10/m".parse()?))?;
/// let alice = limiter.entry("alice");
/// assert!(alice.check_n(3).await.is_allowed());
/// assert_eq!(alice.peek(1).await.decision().remaining(), 7);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RedisEntry<'a> {
    pub(crate) limiter: &'a RedisLimiter,
    pub(crate) key: &'a [u8],
}

impl RedisLimiter {
    /// The entry of a key, with its verbs: see [`RedisEntry`].
    #[inline]
    #[must_use]
    pub fn entry<'a>(&'a self, key: &'a (impl AsRef<[u8]> + ?Sized)) -> RedisEntry<'a> {
        RedisEntry { limiter: self, key: key.as_ref() }
    }
}

impl<'a> RedisEntry<'a> {
    /// Decides a request of one unit, and charges it if it is admitted: the short form of
    /// [`check_n`](RedisEntry::check_n).
    pub async fn check(self) -> RedisDecision {
        self.check_n(1).await
    }

    /// Decides a request of `cost` units, and charges it if it is admitted. A cost of 0 is a peek.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tollgate_redis::{RedisLimiter, Settings, Store};
    /// # let store = Store::open("redis://127.0.0.1:1/")?;
    /// let limiter = RedisLimiter::new(&store, Settings::new("10/m".parse()?))?;
    /// assert!(limiter.entry("203.0.113.7").check().await.is_allowed());
    /// assert!(!limiter.entry("203.0.113.7").check_n(11).await.is_allowed());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check_n(self, cost: u64) -> RedisDecision {
        match self.spend_held(cost) {
            Some(decision) => decision,
            None => self.check_slowly(cost).await,
        }
    }

    /// Decides a request that the units of this node's leases do not admit at once.
    pub(crate) async fn check_slowly(self, cost: u64) -> RedisDecision {
        let (inner, key) = (self.inner(), self.key);
        let decision = match &inner.local.leases {
            _ if cost == 0 || cost > inner.plan.limit => inner.look_at(key, cost).await,
            Some(table) => match self.spend(table, cost) {
                Ok(decision) => decision,
                Err(first) => self.wait_for_lease(first, table, cost).await,
            },
            None => self.count_or_ask(Units::exactly(cost)).await,
        };
        inner.counters().decision(decision.source(), decision.is_allowed());
        decision
    }

    /// [`check_n`](RedisEntry::check_n) for callers that cannot wait: decides from the units of this node's leases, or
    /// by this node's counts. Returns `None`, and charges nothing, if the store would have to be asked.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tollgate_redis::{RedisLimiter, Settings, Store};
    /// # let store = Store::open("redis://127.0.0.1:1/")?;
    /// let limiter = RedisLimiter::new(&store, Settings::new("10/m".parse()?))?;
    /// assert!(limiter.entry("203.0.113.7").check_held(1).is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check_held(self, cost: u64) -> Option<RedisDecision> {
        let inner = self.inner();
        if let Some(counts) = inner.local.counts.as_ref().filter(|_| cost > 0) {
            let decision =
                inner.count(counts, self.key, ScriptVerb::Check, Units::exactly(cost))?;
            inner.counters().decision(decision.source(), decision.is_allowed());
            return Some(decision);
        }
        self.spend_held(cost)
    }

    /// Finds out whether a request of `cost` units would be admitted. It charges nothing, and always asks the store.
    /// With leases, units that other nodes hold count as spent, and units that this node holds count as left.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tollgate_redis::{RedisLimiter, Settings, Store};
    /// # let store = Store::open("redis://127.0.0.1:1/")?;
    /// let limiter = RedisLimiter::new(&store, Settings::new("10/m".parse()?))?;
    /// assert_eq!(limiter.entry("203.0.113.7").peek(1).await.decision().remaining(), 10);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn peek(self, cost: u64) -> RedisDecision {
        self.inner().look_at(self.key, cost).await
    }

    /// Gives back the units of a permit of this limit, and returns how many units came back, rounded up. As with
    /// [`Entry::refund`](tollgate::Entry::refund), units that have drained since the store charged them cannot be given
    /// back, and a window gives units back only if it is still the window that was charged.
    ///
    /// A permit that the store did not charge gives back nothing.
    ///
    /// # Errors
    /// Says why the store did not confirm the call. The store may have carried out the call nevertheless.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tollgate_redis::{RedisLimiter, Settings, Store};
    /// # let store = Store::open("redis://127.0.0.1:1/")?;
    /// let limiter = RedisLimiter::new(&store, Settings::new("10/m".parse()?))?;
    /// let alice = limiter.entry("alice");
    /// let permit = alice.check_n(3).await.into_result()?;
    /// assert_eq!(alice.refund(permit).await, Ok(0));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn refund(self, permit: RedisPermit) -> Result<u64, Fault> {
        let (Some(stamp), units @ 1..) = (permit.stamp(), permit.permit().cost()) else {
            return Ok(0);
        };
        let units = Units { stamp, ..Units::exactly(units) };
        let (inner, key) = (self.inner(), self.key);
        let ask = inner.request(ScriptVerb::Refund, key, units);
        let reply = inner.link(key).call(ask, inner.due()).await?;
        if let Some(held) = self.held() {
            held.returned();
        }
        Ok(reply.parts.first().map_or(0, |seen| seen.units))
    }

    #[inline]
    pub(crate) fn inner(self) -> &'a Inner {
        &self.limiter.inner
    }

    pub(crate) fn held(self) -> Option<HeldKey<'a>> {
        self.inner().held(self.key)
    }

    pub(crate) fn part(self, units: Units) -> ScriptPart {
        self.inner().part(self.key, units)
    }

    pub(crate) fn slot(self) -> u16 {
        self.inner().slot(self.key)
    }

    /// How long the key's link has been without the store in all.
    pub(crate) fn isolated(self) -> Timestamp {
        self.inner().link(self.key).isolated()
    }
}
