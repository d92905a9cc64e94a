//! [`Store`]: a Redis or Valkey server that keeps limits.

use std::sync::Arc;
use std::time::Duration;

use redis::{Client, IntoConnectionInfo};
use std::time::Instant;
use tokio::runtime::Handle;

use crate::counters::Stats;
use crate::error::BuildError;
use crate::link::Link;
use crate::plan::Plan;
use crate::script::{Ask, Part, Units, Verb};
use crate::settings::check_name;

/// How long a caller waits for the store, unless told otherwise: a quarter of what Envoy waits for a rate
/// limit service by default.
const DEADLINE: Duration = Duration::from_millis(5);

/// Of the key that is charged to see whether the store works: often enough for any node.
const PROBE: &str = "gcra 1000000/s burst 1000000";

/// A Redis or Valkey server that keeps limits: one connection, shared by all limiters and tasks.
///
/// It connects in the background, again and again if it must, and never makes a caller wait for that.
/// Clones are the same store. When the last clone and the last limiter are dropped, it disconnects.
///
/// # Panics
/// It works on tokio: a limiter that is asked outside of a tokio runtime with timers panics.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tollgate_redis::{RedisLimiter, Settings, Store};
/// let store = Store::open("redis://127.0.0.1/")?;
/// store.ready().await;
/// let limiter = RedisLimiter::new(&store, Settings::new("100/s".parse()?).nodes(3))?;
/// if limiter.check("203.0.113.7", 1).await.is_allowed() {
///     // serve the request
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) link: Arc<Link>,
    pub(crate) prefix: Arc<str>,
    /// What local times count from.
    pub(crate) origin: Instant,
}

impl Store {
    /// A store at an address as the `redis` crate reads it: `redis://user:password@host:port/database`,
    /// `unix:///path`. Callers wait for it at most 5 ms; its keys start with `tollgate:`.
    ///
    /// # Errors
    /// An address that is not understood, or no tokio runtime. Whether anybody answers there is not
    /// looked at.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use tollgate_redis::Store;
    /// assert!(Store::open("redis://127.0.0.1/").is_ok());
    /// assert!(Store::open("http://127.0.0.1/").is_err());
    /// # }
    /// ```
    pub fn open(address: &str) -> Result<Self, BuildError> {
        Self::with(address, DEADLINE, "tollgate")
    }

    /// [`open`](Store::open) with a deadline for callers, from 1 ms to a minute, and a prefix for keys.
    ///
    /// # Errors
    /// As [`open`](Store::open); a deadline or prefix out of range.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use tollgate_redis::Store;
    /// let with = |ms| Store::with("redis://127.0.0.1/", Duration::from_millis(ms), "limits");
    /// assert!(with(10).is_ok() && with(0).is_err());
    /// # }
    /// ```
    pub fn with(address: &str, deadline: Duration, prefix: &str) -> Result<Self, BuildError> {
        if !(Duration::from_millis(1)..=Duration::from_secs(60)).contains(&deadline) {
            let (setting, accepted) = ("the deadline", "1 ms to 60 s");
            return Err(BuildError::Setting { setting, accepted });
        }
        check_name("the prefix", prefix)?;
        let refused = |error: redis::RedisError| BuildError::Address { reason: error.to_string() };
        let info = address.into_connection_info().map_err(refused)?;
        let client = Client::open(info).map_err(refused)?;
        if Handle::try_current().is_err() {
            return Err(BuildError::NoRuntime);
        }
        let link = Arc::new(Link::open(client, deadline, probe(prefix)?));
        Ok(Self { link, prefix: prefix.into(), origin: Instant::now() })
    }

    /// Waits until the store has answered in time once, or does so again. For start-up and tests: requests
    /// need not wait for it.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate_redis::BuildError> {
    /// let store = tollgate_redis::Store::open("redis://127.0.0.1/")?;
    /// store.ready().await;
    /// assert!(!store.is_degraded());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ready(&self) {
        while !self.link.health.is_up() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Whether decisions are now made without the store.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate_redis::BuildError> {
    /// assert!(tollgate_redis::Store::open("redis://127.0.0.1:1/")?.is_degraded());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        !self.link.health.is_up()
    }

    /// What the store has done, in numbers.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate_redis::BuildError> {
    /// assert_eq!(tollgate_redis::Store::open("redis://127.0.0.1:1/")?.stats().calls, 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::read(&self.link.counters, &self.link.health)
    }
}

/// A charge that nobody asked for.
fn probe(prefix: &str) -> Result<Ask, BuildError> {
    let policy = PROBE.parse().map_err(|error: tollgate::PolicyError| BuildError::Address {
        reason: error.to_string(),
    })?;
    let key = format!("{prefix}:probe").into_bytes();
    let part = Part::new(key, Plan::new(policy)?, Units::exactly(1));
    Ok(Ask { verb: Verb::Check, parts: vec![part] })
}
