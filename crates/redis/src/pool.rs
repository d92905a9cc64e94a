//! [`SharedPool`]: units that all nodes together can spare. They are lent to callers that have used up their own quota.
//!
//! # One pool
//! Like a `SparePool` of `tollgate-elastic`, the pool is one GCRA limit at the rate for a headroom of 1. Here that
//! limit is a [`RedisLimiter`] with one key in the store. At headroom h, a loan of one unit charges 1/h units to the
//! limiter, counted in parts of units and rounded up. A report of headroom writes nothing to the limiter's key, so it
//! creates no units. In a closed interval of length W, all nodes together charge no more than the limiter's mode
//! admits: `burst + rate * W` units in mode `Exact`. Let h be the largest headroom at which a loan of the interval was
//! charged. Each unit of a loan has charged at least 1/h units, so the loans are at most `h * (burst + rate * W)`
//! units.
//!
//! # Whose headroom
//! The headroom in force is the least that any node has reported within the time to live. The least is right for a
//! resource that all nodes use, such as a database: each node could lend all of it, so the lowest report has to count.
//! If each node has resources of its own to spare, use a `SparePool` on each node; it needs no store. A mean would be
//! wrong in both cases, since a busy node would then lend by the headroom of idle nodes.
//!
//! # Reports are timers
//! A headroom is rounded to one of 33 levels. Each level has a *word* in the store: a key with a GCRA limit, used as a
//! timer. A report of a level fills its word with debt, which drains in the time to live. So a level was reported
//! within the time to live if its word is not empty. The lowest level with such a word is the headroom in force.
//! Reports may arrive in any order, and twice, since a full word stays as it is. No list of nodes is kept, and nothing
//! grows with their number. A node that is gone fills no words, so it is forgotten. One call fills a word and looks at
//! all words.
//!
//! # How old a headroom is
//! A node looks at the words four times in the time to live. The result is valid for the time to live, which the node
//! counts by its own clock from the moment at which it *asked*. So a late answer is valid for a shorter time, and
//! clocks of different nodes are never compared. Until the node's own reports have reached the store, the node lends by
//! no more than the least of them. Suppose that a node keeps reporting a headroom. While the store answers, the report
//! is in the store after at most a quarter of the time to live, and after another quarter every other node has looked
//! and lends by no more than that headroom. (The times of the calls come on top.) If some nodes cannot reach the store,
//! all nodes lend by no more than that headroom after twice the time to live, since by then such nodes lend nothing. A
//! higher headroom takes effect after the time to live, when the word of the lower level has drained. A node lends
//! nothing if no headroom was reported within the time to live, or if it cannot look at the words.
//!
//! # When the store fails
//! A loan that the store does not decide is denied, or taken from the node's share, by the settings' [`OnError`]. A
//! node whose last look is older than the time to live lends nothing in any case. A store that comes back empty has
//! forgotten all loans, as with any limit. It has also forgotten the reports: until all nodes have reported again, the
//! headroom in force is the least that has been reported since.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Mutex;
use tollgate::{Algorithm, AtLimit, Denial, DenialReason, Quota};
use tollgate_elastic::HeadroomError;

use crate::decision::RedisPermit;
use crate::error::{Fault, RedisBuildError};
use crate::headroom::{Headroom, WHOLE, price};
use crate::key::StoredKeys;
use crate::limiter::RedisLimiter;
use crate::script::plan::ScriptPlan;
use crate::script::state::State;
use crate::script::{ScriptPart, ScriptRequest, ScriptVerb, Units};
use crate::settings::{OnError, Settings};
use crate::store::Store;
use crate::store::counter::StoreTotal;

/// The units of a level's word. A full word drains in the time to live. A report adds whole units, so after a report
/// the word lacks less than one unit.
const TIMER: u64 = 1_024;

/// The number of times that a node looks at the words within the time to live.
const LOOKS: u32 = 4;

/// Loans are charged in parts of a unit. A unit has at most 2^10 parts, and this is the base-2 logarithm of that
/// number.
const FINEST: u32 = 10;

/// The units that all nodes together can spare. They are lent to callers that have used up their own quota.
///
/// All nodes with the same store, name and policy share one pool. The policy says how much they may lend together when
/// the resource that they protect is idle. Nodes [report](SharedPool::report_headroom) their headroom. The least
/// headroom that any node has reported within the time to live, rounded down to a multiple of 1/32, is in force at all
/// nodes. At headroom h the pool is a bucket h times as large that fills at h times the rate. If no node reports, the
/// pool lends nothing.
///
/// # What it guarantees
/// In any closed interval of length W, all nodes together lend at most `h * (burst + rate * W)` units, where h is the
/// largest headroom in force at any loan of the interval. In other modes than `Exact`, or while the store fails, they
/// may lend more; the crate's page says how much. If a node keeps reporting, no other node lends by more than the
/// highest headroom that the reporting node has had within twice the time to live. A report creates no units.
///
/// At headroom h, a loan of more than `h * burst` units is never granted. A loan is charged to the pool alone.
///
/// A clone is a handle to the same pool. A background task sends reports and looks at those of other nodes, until the
/// last clone is dropped.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use tollgate_redis::{OnError, RedisLimiter, Settings, SharedPool, Store};
/// let store = Store::open("redis://127.0.0.1/")?;
/// let clients = RedisLimiter::new(&store, Settings::new("10/s".parse()?).name("clients"))?;
/// let spare = Settings::new("1000/s".parse()?).name("spare").on_error(OnError::Deny);
/// let pool = SharedPool::new(&store, spare, Duration::from_secs(3))?;
/// // This node finds the database half idle.
/// pool.report_headroom(0.5)?;
/// let is_admitted = match clients.check("203.0.113.7").await.into_result() {
///     Ok(_) => true,
///     Err(denial) => pool.lend(&denial).await.is_some(),
/// };
/// # let _ = is_admitted;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SharedPool {
    inner: Arc<PoolNode>,
}

/// The state that the clones of a pool share.
#[derive(Debug)]
struct PoolNode {
    /// The limiter of the pool. One unit of this limiter is one part of a unit of the pool.
    limiter: RedisLimiter,
    /// The client in the name of the limiter's only key.
    client: Vec<u8>,
    /// The number of parts in a unit. `burst` is the number of parts in the burst.
    unit: u64,
    burst: u64,
    headroom: Headroom,
    timer: ScriptPlan,
    /// The keys of the levels' words, in the order of the levels.
    levels: Vec<Vec<u8>>,
    unknown: StoreTotal,
    /// Locked while a report is sent to the store, so that only one is sent at a time.
    refreshing: Mutex<()>,
}

impl SharedPool {
    /// Makes a pool on a store. A report is valid for `ttl`, which is between 100 ms and an hour. Make `ttl` several
    /// times as long as the time between two reports of a node.
    ///
    /// # Errors
    /// The errors of [`RedisLimiter::new`]. Also an error for a policy that is not plain `gcra`, for a `ttl` out of
    /// range, and for [`OnError::Allow`], with which the pool would lend without a bound while the store fails.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use tollgate_redis::{Settings, SharedPool, Store};
    /// let store = Store::open("redis://127.0.0.1:1/")?;
    /// let pool = |policy: &str| -> Result<_, Box<dyn std::error::Error>> {
    ///     Ok(SharedPool::new(&store, Settings::new(policy.parse()?), Duration::from_secs(3))?)
    /// };
    /// assert!(pool("1000/s").is_ok());
    /// let error = pool("fixed-window 1000/s").unwrap_err();
    /// assert_eq!(error.to_string(), "policy of a pool is out of range; use gcra, without soft, count-denied or penalty");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(store: &Store, settings: Settings, ttl: Duration) -> Result<Self, RedisBuildError> {
        let refused = |setting, accepted| Err(RedisBuildError::Setting { setting, accepted });
        let policy = settings.policy;
        if policy.algorithm() != Algorithm::Gcra || policy.at_limit() != AtLimit::default() {
            return refused("policy of a pool", "gcra, without soft, count-denied or penalty");
        }
        if settings.on_error == OnError::Allow {
            return refused("on_error of a pool", "Local or Deny");
        }
        if !(Duration::from_millis(100)..=Duration::from_secs(3_600)).contains(&ttl) {
            return refused("time to live of a report", "100 ms to 1 h");
        }
        let timer = ScriptPlan::new(Quota::per(TIMER, ttl).into())?;
        let (client, part) = (settings.name.clone().into_bytes(), settings.part.clone());
        let (name, ttl_ms) =
            (settings.name.clone(), u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        let (unit, limiter) = in_parts(store, settings)?;
        // The `part` of a limit never contains a colon, so no limit has the same keys.
        let level = |level: u64| {
            let part = format!("{part}:headroom-{level:02}");
            StoredKeys::new(&store.prefix, &name, &part, &timer).of(&client)
        };
        let levels = (0..=WHOLE).map(level).collect();
        let (burst, headroom) = (limiter.policy().quota().max_burst(), Headroom::new(ttl_ms));
        let (unknown, refreshing) = (StoreTotal::default(), Mutex::default());
        let inner =
            PoolNode { limiter, client, unit, burst, headroom, timer, levels, unknown, refreshing };
        let inner = Arc::new(inner);
        store.links.spawn(refresh_regularly(Arc::downgrade(&inner), ttl / LOOKS));
        Ok(Self { inner })
    }

    /// Reports the headroom that this node sees, which is the share of the pool that can be spared: 0 for none, 1 for
    /// all. It may be called often. Four times in the time to live, the least headroom reported since the last time is
    /// sent to the store. After the time to live, the reports of a node that has stopped reporting are no longer valid.
    ///
    /// # Errors
    /// The headroom is below 0, above 1 or not a number. The reported headroom stays as it was.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use tollgate_redis::{Settings, SharedPool, Store};
    /// # let store = Store::open("redis://127.0.0.1:1/")?;
    /// let pool = SharedPool::new(&store, Settings::new("9/s".parse()?), Duration::from_secs(3))?;
    /// pool.report_headroom(0.5)?;
    /// assert!(pool.report_headroom(1.5).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn report_headroom(&self, headroom: f64) -> Result<(), HeadroomError> {
        self.inner.headroom.report(headroom)
    }

    /// The headroom by which this node lends at this moment. `None` if the headroom is not known, because no node has
    /// reported or the store has not answered within the time to live. In that case nothing is lent.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use tollgate_redis::{Settings, SharedPool, Store};
    /// # let store = Store::open("redis://127.0.0.1:1/")?;
    /// let pool = SharedPool::new(&store, Settings::new("9/s".parse()?), Duration::from_secs(3))?;
    /// assert_eq!(pool.headroom(), None);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn headroom(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "32 at most")]
        let share = |level| level as f64 / WHOLE as f64;
        self.inner.level().map(share)
    }

    /// Lends the units that a limit, local or in a store, has denied for now ([`DenialReason::OverLimit`]). The
    /// returned permit is counted in parts of units, so use it only for [`give_back`](SharedPool::give_back).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use tollgate::{Limiter, Quota};
    /// # use tollgate_redis::{Settings, SharedPool, Store};
    /// # let store = Store::open("redis://127.0.0.1:1/")?;
    /// let pool = SharedPool::new(&store, Settings::new("9/s".parse()?), Duration::from_secs(3))?;
    /// let limiter = Limiter::new(Quota::per_hour(1));
    /// assert!(limiter.check().is_allowed());
    /// let denial = limiter.check().into_result().unwrap_err();
    /// // No store, no headroom.
    /// assert!(pool.lend(&denial).await.is_none());
    /// assert_eq!(pool.unknown(), 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "what is not lent is denied"]
    pub async fn lend(&self, denial: &Denial) -> Option<RedisPermit> {
        if denial.reason() != DenialReason::OverLimit || denial.cost() == 0 {
            return None;
        }
        let node = &self.inner;
        let Some(level) = node.level() else {
            node.unknown.add(1);
            return None;
        };
        let price = price(denial.cost(), node.unit, level).filter(|price| *price <= node.burst)?;
        node.limiter.check_n(&node.client, price).await.into_result().ok()
    }

    /// Gives a loan back to the pool, except for the part that has drained. Use it if the request of the loan was
    /// denied for another reason.
    ///
    /// # Errors
    /// Says why the store did not confirm the call. The store may have carried out the call nevertheless.
    pub async fn give_back(&self, loan: RedisPermit) -> Result<(), Fault> {
        self.inner.limiter.entry(&self.inner.client).refund(loan).await.map(|_| ())
    }

    /// Sends this node's report and looks at those of all nodes now, without waiting for the background task. Use it at
    /// start-up and in tests.
    ///
    /// # Errors
    /// Says why the store did not answer. The report is kept, and sent later.
    pub async fn refresh(&self) -> Result<(), Fault> {
        self.inner.refresh().await
    }

    /// The number of requests that were lent nothing because the headroom was not known. All other decisions of the
    /// pool are counted in [`Store::stats`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use tollgate_redis::{Settings, SharedPool, Store};
    /// # let store = Store::open("redis://127.0.0.1:1/")?;
    /// let pool = SharedPool::new(&store, Settings::new("9/s".parse()?), Duration::from_secs(3))?;
    /// assert_eq!(pool.unknown(), 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn unknown(&self) -> u64 {
        self.inner.unknown.get()
    }
}

impl PoolNode {
    fn now_ms(&self) -> u64 {
        self.limiter.inner.now_ns() / 1_000_000
    }

    fn level(&self) -> Option<u64> {
        self.headroom.level(self.now_ms())
    }

    /// Sends the store the report of this node, and learns the least report of all nodes.
    async fn refresh(&self) -> Result<(), Fault> {
        let _one = self.refreshing.lock().await;
        let told = self.headroom.send();
        let part = |(level, key): (u64, &Vec<u8>)| {
            // A report charges as many units as the word has room for. A full word stays as it is.
            let want = if told == Some(level) { TIMER } else { 0 };
            ScriptPart::new(key.clone(), self.timer, Units { least: 0, ..Units::up_to(want) })
        };
        let parts = (0..).zip(&self.levels).map(part).collect();
        let (inner, asked_ms) = (&self.limiter.inner, self.now_ms());
        // The words are in the same slot as the limiter's key.
        let ask = ScriptRequest { verb: ScriptVerb::Check, parts };
        let reply = inner.link(&self.client).call(ask, inner.due()).await?;
        // The script has charged no report, since some word was above its capacity, as after the server's clock was set
        // back. The report is sent again.
        if !reply.admitted {
            return Err(Fault::Unexpected);
        }
        let is_empty = |state: &State| matches!(state, State::Gcra { debt: 0 });
        let found = (0..).zip(&reply.parts).find(|(_, seen)| !is_empty(&seen.state));
        self.headroom.learn(found.map(|(level, _)| level), asked_ms);
        Ok(())
    }
}

/// The limiter of a pool, and the number of parts in a unit, which is the largest that the limiter's numbers allow.
fn in_parts(store: &Store, settings: Settings) -> Result<(u64, RedisLimiter), RedisBuildError> {
    // A pool has one key.
    let settings = Settings { keys: 1, ..settings };
    let quota = settings.policy.quota();
    let cut = |unit: u64| {
        let [count, burst] = [quota.count(), quota.max_burst()].map(|it| it.checked_mul(unit));
        let parts = Quota::try_per(count?, quota.period()).ok()?.try_burst(burst?).ok()?;
        let max_held = settings.max_held.map(|units| units.saturating_mul(unit));
        let settings = Settings { policy: parts.into(), max_held, ..settings.clone() };
        Some((unit, RedisLimiter::new(store, settings).ok()?))
    };
    match (1..=FINEST).rev().find_map(|bits| cut(1 << bits)) {
        Some(found) => Ok(found),
        None => Ok((1, RedisLimiter::new(store, settings)?)),
    }
}

/// Sends reports and looks at the words, until the pool is no longer in use.
async fn refresh_regularly(node: Weak<PoolNode>, interval: Duration) {
    while let Some(node) = node.upgrade() {
        // A failure is counted among the store's faults, and the refresh is tried again later.
        _ = node.refresh().await;
        drop(node);
        tokio::time::sleep(interval).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash_slot;

    /// All words are in one slot, so one call can read them in a cluster, too. No limit of a user can have the same
    /// keys.
    #[tokio::test]
    async fn the_words_of_a_pool_are_in_one_slot_and_are_no_limits() {
        let store = Store::open("redis://127.0.0.1:1/").unwrap();
        for (name, part) in [("spare", ""), ("spare", "database/reads")] {
            let settings = Settings { part: part.into(), ..Settings::new("9/s".parse().unwrap()) };
            let settings = settings.name(name);
            let pool = SharedPool::new(&store, settings, Duration::from_secs(3)).unwrap();
            let node = &pool.inner;
            let own = node.limiter.inner.keys.of(&node.client);
            let slots = node.levels.iter().map(|key| hash_slot::of_key(key));
            assert!(slots.clone().all(|slot| slot == hash_slot::of_key(&own)));
            assert_eq!(slots.len(), 33);
            let last = String::from_utf8(node.levels[32].clone()).unwrap();
            assert_eq!(last, format!("tollgate:{name}:{part}:headroom-32:{{{name}}}"));
        }
    }
}
