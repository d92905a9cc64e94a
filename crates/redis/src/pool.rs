//! [`SharedPool`]: units that all nodes together can spare, lent to callers that are over their own quota.
//!
//! # One pool
//! Like a `SparePool` of `tollgate-elastic`, the pool is one GCRA limit at its full rate; here it is a [`RedisLimiter`]
//! with one key in the store. At headroom h a unit costs 1/h of a unit, counted in parts of units and rounded up. A report
//! of headroom writes nothing into that key, so it mints nothing. The prices of the loans of all nodes in a closed interval
//! of length W are at most what the limiter's mode admits there, `burst + rate * W` in mode `Exact`. A unit's price is at
//! least 1/h, where h is the largest headroom that a loan of the interval was priced at. So the loans are at most
//! `h * (burst + rate * W)` units.
//!
//! # Whose headroom
//! The headroom in force is the least that a node has reported within a time to live. That is right for a resource behind
//! all nodes, such as a database: each node may lend all of it away, so the node that finds it slow is believed. If each
//! node spares resources of its own, a `SparePool` for each is right, and needs no store. A mean is right for neither: a
//! busy node would lend by the headroom of idle ones.
//!
//! # Reports are timers
//! A headroom is one of 33 levels. Each level is a word in the store: a GCRA limit that a report fills, whatever its debt
//! was, and that drains in the time to live. So a level has been reported lately if its word is not empty, and the
//! headroom is that of the lowest such level. Reports may come in any order, and twice: a full word stays as it is. No
//! list of nodes is kept, and nothing grows with their number. A node that is gone is forgotten, since it fills its word
//! no more. One call fills a word and looks at all.
//!
//! # How old a headroom is
//! A node looks four times in a time to live. A look counts for a time to live from when it was *asked* for, by the node's
//! own clock, so a late answer counts for less; no two clocks are compared. Until the node's own reports have reached the
//! store, it lends by the least of them. If a node keeps reporting a headroom, every other node lends by no more than that
//! after a quarter of the time to live and the time of a call, if the store answers. After twice the time to live this
//! holds whatever happens, since nodes that do not reach the store lend nothing by then. A rise counts after a time to
//! live, when the lower word has drained. If no headroom was reported, or only too long ago, or a node cannot look at it,
//! nothing is lent.
//!
//! # When the store fails
//! A loan that the store does not decide is denied, or taken from the node's share, by the settings' [`OnError`]. Once the
//! last look is too old, nothing is lent in any case. A store that comes back empty has forgotten all loans, as with any
//! limit. It has forgotten the reports, too: nodes may lend by the reports of a few until the others report again.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Mutex;
use tollgate::{Algorithm, AtLimit, Denial, DenialReason, Quota};
use tollgate_elastic::HeadroomError;

use crate::decision::RedisPermit;
use crate::error::{BuildError, Fault};
use crate::headroom::{Headroom, WHOLE, price};
use crate::key::StoredKeys;
use crate::limiter::RedisLimiter;
use crate::script::plan::ScriptPlan;
use crate::script::state::State;
use crate::script::{ScriptPart, ScriptRequest, ScriptVerb, Units};
use crate::settings::{OnError, Settings};
use crate::store::Store;
use crate::store::counter::StoreTotal;

/// The units of a level's word. It drains in a time to live, and a word that was just filled lacks less than a unit.
const TIMER: u64 = 1_024;

/// The number of looks of a node in a time to live.
const LOOKS: u32 = 4;

/// The logarithm of the largest number of parts of a unit: prices are counted in parts, of which a unit has at most
/// 2^10.
const FINEST: u32 = 10;

/// The units that all nodes together can spare, lent to callers that are over their own quota.
///
/// All nodes with the same store, name and policy share one pool. The policy says how much they may lend together when the
/// resource that they protect is idle. Nodes [report](SharedPool::report_headroom) their headroom; the least that was
/// reported within the time to live is in force at all of them, in steps of 1/32, rounded down. At headroom h the pool is
/// a bucket h times as large that fills at h times the rate. If no node reports, it lends nothing.
///
/// # What it guarantees
/// In any closed interval of length W, all nodes together lend at most `h * (burst + rate * W)` units, where h is the
/// largest headroom that a loan of the interval was made at. The additions for the settings' mode and for a store that
/// fails are on the crate's page. If a node keeps reporting, no other node lends by more than the highest headroom that
/// the reporting node has had within twice the time to live. A report mints no units.
///
/// A cost above `h * burst` is not lent at headroom h. A loan is charged to the pool alone.
///
/// Clones are the same pool. A task reports and looks in the background, until the last clone is dropped.
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
    /// The limiter of the pool. Its units are parts of the pool's units.
    limiter: RedisLimiter,
    /// The client of the limiter's only key.
    client: Vec<u8>,
    /// The parts of a unit, and of the whole burst.
    unit: u64,
    burst: u64,
    headroom: Headroom,
    timer: ScriptPlan,
    /// The keys of the levels' words, from 0 on.
    levels: Vec<Vec<u8>>,
    unknown: StoreTotal,
    /// Locked while the store is sent a report: there is one at a time.
    refreshing: Mutex<()>,
}

impl SharedPool {
    /// Makes a pool on a store. A report counts for `ttl`, from 100 ms to an hour; it should be several times as long as
    /// the time between two reports of a node.
    ///
    /// # Errors
    /// As [`RedisLimiter::new`]; also for a policy that is not plain `gcra`, for [`OnError::Allow`], with which a pool
    /// without its store would lend without a bound, and for a time to live out of range.
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
    pub fn new(store: &Store, settings: Settings, ttl: Duration) -> Result<Self, BuildError> {
        let refused = |setting, accepted| Err(BuildError::Setting { setting, accepted });
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
        // The part of a limit's name never contains a colon.
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

    /// Reports the share of the pool that can be spared as this node sees it: 0 for none, 1 for all. It may be called
    /// often: four times in the time to live, the store is sent the least share reported since the last time. The
    /// reports of a node that stops reporting count no longer after the time to live.
    ///
    /// # Errors
    /// The share is below 0 or above 1, or not a number. The headroom stays as it was.
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

    /// The headroom that this node lends by now. `None` if it is not known: no node has reported lately, or the store has
    /// not answered for the time to live. Then nothing is lent.
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

    /// Lends the units that a limit, local or in a store, has denied for now ([`DenialReason::OverLimit`]). The loan counts
    /// in parts of units, and is only of use for [`give_back`](SharedPool::give_back).
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

    /// Takes a loan back, as far as it has not drained since. Use it for a request that something else has denied, and only
    /// once for each loan.
    ///
    /// # Errors
    /// Why the store did not confirm it. It may have done it nevertheless.
    pub async fn give_back(&self, loan: RedisPermit) -> Result<(), Fault> {
        self.inner.limiter.refund(&self.inner.client, loan).await.map(|_| ())
    }

    /// Reports and looks at once, not only when the background task does: for start-up and tests.
    ///
    /// # Errors
    /// Why the store did not answer. The report is kept, and sent later.
    pub async fn refresh(&self) -> Result<(), Fault> {
        self.inner.refresh().await
    }

    /// How many requests were lent nothing because the headroom was not known. The pool's own decisions are counted like
    /// any other, in [`Store::stats`].
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
            // It takes as much as there is room for: a full word has none, and stays.
            let want = if told == Some(level) { TIMER } else { 0 };
            ScriptPart::new(key.clone(), self.timer, Units { least: 0, ..Units::up_to(want) })
        };
        let parts = (0..).zip(&self.levels).map(part).collect();
        let (inner, asked_ms) = (&self.limiter.inner, self.now_ms());
        // The words are in the same slot as the limiter's key.
        let ask = ScriptRequest { verb: ScriptVerb::Check, parts };
        let reply = inner.link(&self.client).call(ask, inner.due()).await?;
        let is_empty = |state: &State| matches!(state, State::Gcra { debt: 0 });
        let found = (0..).zip(&reply.parts).find(|(_, seen)| !is_empty(&seen.state));
        self.headroom.learn(found.map(|(level, _)| level), asked_ms);
        Ok(())
    }
}

/// The limiter of a pool, and the number of parts of a unit: as many as the limiter's numbers allow.
fn in_parts(store: &Store, settings: Settings) -> Result<(u64, RedisLimiter), BuildError> {
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

/// Refreshes as long as the pool is in use.
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

    /// One call can then read all of them, in a cluster too; and no limit of a user has these keys.
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
