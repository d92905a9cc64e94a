//! [`RedisLimiter`]: one limit over many nodes.

use std::sync::Arc;

use tokio::sync::oneshot;
use tollgate::Policy;

use crate::counted::report::report_regularly;
use crate::decision::RedisDecision;
use crate::error::RedisBuildError;
use crate::inner::Inner;
use crate::key::StoredKeys;
use crate::leased::holding::Terms;
use crate::local::SharedSettings;
use crate::settings::{Mode, OnError, Settings};
use crate::share::LocalShare;
use crate::store::Store;
use crate::store::link_set::Enrolled;

/// A limit for each key, over all nodes that use the same store and name.
///
/// To change its policy, build another limiter of the same name and drop this one: spent units stay spent, and the new
/// limiter takes over the leases and counts of this one. The crate's page has more about this, under *When a limit
/// changes*.
///
/// A decision never fails, and never takes longer than the store's deadline. If the store cannot decide,
/// [`OnError`](crate::OnError) decides, and [`RedisDecision::fault`] says why. A request that the store did not answer
/// may have been charged there.
///
/// All decisions go by the store's clock, so no method takes a time. Keys are bytes; the crate's page shows how they
/// are named in the store.
///
/// A clone is a handle to the same limiter, and shares its leases.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tollgate_redis::{RedisLimiter, Settings, Store};
/// let store = Store::open("redis://127.0.0.1/")?;
/// // One of three nodes that share 100 requests per second and client.
/// let limiter = RedisLimiter::new(&store, Settings::new("100/s".parse()?).nodes(3))?;
/// assert!(limiter.check("203.0.113.7").await.is_allowed());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RedisLimiter {
    pub(crate) inner: Arc<Inner>,
    /// Only in mode `async`. When the last clone of the limiter is dropped, so is this, and the background task reports
    /// once more and ends.
    #[expect(dead_code, reason = "it ends the task when it is dropped")]
    pub(crate) alive: Option<Arc<oneshot::Sender<()>>>,
}

impl RedisLimiter {
    /// Makes a limiter on a store.
    ///
    /// # Errors
    /// The errors of [`Settings::check`]. Also an error if the table of the local shares cannot be built, because there
    /// are too many keys or the burst is too large (see [`tollgate::KeyedLimiter`]).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tollgate_redis::{RedisLimiter, Settings, Store};
    /// let store = Store::open("redis://127.0.0.1:1/")?;
    /// assert!(RedisLimiter::new(&store, Settings::new("100/s".parse()?).nodes(3)).is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(store: &Store, settings: Settings) -> Result<Self, RedisBuildError> {
        let share = LocalShare::new(&settings.plan()?, settings.nodes, settings.keys)?;
        let enrolled = store.links.enrol(settings.on_error);
        build(store, settings, share, Some(enrolled))
    }

    /// The policy.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tollgate_redis::{RedisLimiter, Settings, Store};
    /// # let store = Store::open("redis://127.0.0.1:1/")?;
    /// let limiter = RedisLimiter::new(&store, Settings::new("10/m".parse()?))?;
    /// assert_eq!(limiter.policy().to_string(), "gcra 10/m");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.inner.plan.policy()
    }

    /// How requests are decided while the store does not answer.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tollgate_redis::{OnError, RedisLimiter, Settings, Store};
    /// # let store = Store::open("redis://127.0.0.1:1/")?;
    /// let settings = Settings::new("10/m".parse()?).on_error(OnError::Deny);
    /// assert_eq!(RedisLimiter::new(&store, settings)?.on_error(), OnError::Deny);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn on_error(&self) -> OnError {
        self.inner.on_error
    }

    /// Decides a request of one unit of a key, and charges it if it is admitted: the short form of
    /// `entry(key).check()`.
    pub async fn check(&self, key: impl AsRef<[u8]>) -> RedisDecision {
        self.entry(&key).check_n(1).await
    }

    /// Decides a request of `cost` units of a key, and charges it if it is admitted. A cost of 0 is a peek. It is the
    /// short form of `entry(key).check_n(cost)`; all other verbs are on the [entry](RedisLimiter::entry).
    pub async fn check_n(&self, key: impl AsRef<[u8]>, cost: u64) -> RedisDecision {
        self.entry(&key).check_n(cost).await
    }

    /// Call this before a node shuts down. It gives back the units of the node's leases that have not drained, and
    /// returns how many came back. In mode `Async` it reports the units that the node has admitted, and returns 0. A
    /// node that shuts down without this call leaves its units charged until they drain, and may lose units that it has
    /// not reported.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tollgate_redis::{RedisLimiter, Settings, Store};
    /// # let store = Store::open("redis://127.0.0.1:1/")?;
    /// let limiter = RedisLimiter::new(&store, Settings::new("10/m".parse()?))?;
    /// assert_eq!(limiter.return_leases().await, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn return_leases(&self) -> u64 {
        self.inner.report().await;
        let Some(table) = &self.inner.local.leases else { return 0 };
        let mut returned = 0;
        for set in table.sets() {
            for (key, mut holding) in set.drain() {
                for units in [holding.end(self.inner.now_ns()), holding.take_expired()] {
                    let reply = self.inner.give_back(&key, units, self.inner.due()).await;
                    let parts = reply.map(|reply| reply.parts).unwrap_or_default();
                    returned += parts.iter().map(|seen| seen.units).sum::<u64>();
                }
            }
        }
        returned
    }
}

/// Builds a limiter that decides by `share` while the store does not answer.
pub(crate) fn build(
    store: &Store,
    settings: Settings,
    share: LocalShare,
    enrolled: Option<Enrolled>,
) -> Result<RedisLimiter, RedisBuildError> {
    let plan = settings.plan()?;
    let fill_ns = plan.drain_us(plan.limit).saturating_mul(1_000);
    let (held, form) = (settings.held(), SharedSettings::of(&settings));
    let Settings { name, part, on_error, interval, mode, nodes, .. } = settings;
    let keys = StoredKeys::new(&store.prefix, &name, &part, &plan);
    let (local, era) = store.links.locals.of(&keys.head, form, plan, store.now_ns());
    let terms = Terms { era, ..Terms::new(held, fill_ns) };
    let store = store.clone();
    let inner =
        Inner { store, plan, on_error, share, local, terms, keys, nodes, _enrolled: enrolled };
    let inner = Arc::new(inner);
    let alive = (mode == Mode::Async).then(|| {
        let (alive, gone) = oneshot::channel();
        inner.store.links.spawn(report_regularly(Arc::clone(&inner), gone, interval));
        Arc::new(alive)
    });
    Ok(RedisLimiter { inner, alive })
}
