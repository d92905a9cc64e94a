//! [`RedisClaim`]: one limit, and the cost of a request under it.

use tollgate::Timestamp;

use crate::inner::Inner;
use crate::limiter::RedisLimiter;

/// The part of one limit in a request: see [`check_all`](crate::check_all).
#[derive(Clone, Copy, Debug)]
pub struct RedisClaim<'a> {
    pub(crate) limiter: &'a RedisLimiter,
    pub(crate) key: &'a [u8],
    pub(crate) cost: u64,
}

impl RedisLimiter {
    /// The part of this limit in a request under several: see [`check_all`](crate::check_all).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tollgate_redis::{RedisLimiter, Settings, Store, check_all};
    /// # let store = Store::open("redis://127.0.0.1:1/")?;
    /// let clients = RedisLimiter::new(&store, Settings::new("10/m".parse()?).name("clients"))?;
    /// let pages = RedisLimiter::new(&store, Settings::new("99/m".parse()?).name("pages"))?;
    /// let joint = check_all(&[clients.claim("203.0.113.7", 1), pages.claim("/search", 1)]).await;
    /// assert!(joint.is_allowed());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn claim<'a>(&'a self, key: &'a (impl AsRef<[u8]> + ?Sized), cost: u64) -> RedisClaim<'a> {
        RedisClaim { limiter: self, key: key.as_ref(), cost }
    }
}

impl RedisClaim<'_> {
    pub(crate) fn inner(&self) -> &Inner {
        &self.limiter.inner
    }

    pub(crate) fn slot(&self) -> u16 {
        self.inner().slot(self.key)
    }

    /// The time that the link of the claim's key has spent without the store.
    pub(crate) fn isolated(&self) -> Timestamp {
        self.inner().link(self.key).isolated()
    }

    pub(crate) fn is_same_limit(&self, other: &Self) -> bool {
        self.inner().is_same_limit(other.inner()) && self.key == other.key
    }
}
