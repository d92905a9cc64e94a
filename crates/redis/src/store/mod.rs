//! [`Store`]: a Redis or Valkey server that keeps limits.

pub(crate) mod backoff;
pub(crate) mod batch;
pub(crate) mod counter;
pub(crate) mod endpoint;
pub(crate) mod evictions;
pub(crate) mod flight;
pub(crate) mod health;
pub(crate) mod link;
pub(crate) mod link_set;
pub(crate) mod options;
pub(crate) mod outage;
pub(crate) mod pipeline;
pub(crate) mod redirects;
pub(crate) mod stats;
pub(crate) mod watch;
pub(crate) mod wire;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::store::link_set::LinkSet;
use crate::store::outage::Outage;
use crate::store::stats::StoreStats;

/// A Redis or Valkey server that keeps limits. All limiters and tasks share one connection to the server.
///
/// The server may also be the master that Sentinels name, or a cluster: see [`StoreOptions`](crate::StoreOptions).
///
/// The store connects and reconnects in the background, and no caller waits for that. A clone is a handle to the same
/// store. When the last clone and the last limiter are dropped, the store disconnects.
///
/// # Panics
/// The store needs tokio: if a limiter is used outside of a tokio runtime with timers, it panics.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tollgate_redis::{RedisLimiter, Settings, Store};
/// let store = Store::open("redis://127.0.0.1/")?;
/// store.ready().await;
/// let limiter = RedisLimiter::new(&store, Settings::new("100/s".parse()?).nodes(3))?;
/// if limiter.check("203.0.113.7").await.is_allowed() {
///     // serve the request
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) links: Arc<LinkSet>,
    pub(crate) prefix: Arc<str>,
    /// The instant at which local times are 0.
    pub(crate) origin: Instant,
}

impl Store {
    /// Waits until the store answers within the deadline; in a cluster, until all slots do. Use it at start-up and in
    /// tests. Requests need not wait for it.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate_redis::RedisBuildError> {
    /// let store = tollgate_redis::Store::open("redis://127.0.0.1/")?;
    /// store.ready().await;
    /// assert!(!store.is_degraded());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ready(&self) {
        while !self.links.are_up() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Returns true if decisions are now made without the store, in a cluster for any slot.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate_redis::RedisBuildError> {
    /// assert!(tollgate_redis::Store::open("redis://127.0.0.1:1/")?.is_degraded());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        !self.links.are_up()
    }

    /// If the store does not answer now, how long this outage has lasted, and why. In a cluster, the slots' longest
    /// outage.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate_redis::RedisBuildError> {
    /// assert!(tollgate_redis::Store::open("redis://127.0.0.1:1/")?.outage().is_some());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn outage(&self) -> Option<Outage> {
        self.links.outage(tokio::time::Instant::now())
    }

    /// The counters of the store.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate_redis::RedisBuildError> {
    /// assert_eq!(tollgate_redis::Store::open("redis://127.0.0.1:1/")?.stats().calls, 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        self.links.stats()
    }

    /// Nanoseconds since the store was opened.
    pub(crate) fn now_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
