//! [`ElasticKeyedLimiter`]: one limit per key, all of which may borrow from one pool.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use ahash::RandomState;

use crate::clock::Timestamp;
use crate::error::BuildError;
use crate::keyed::{Full, KeyedLimiter};
use crate::limit::Limit;
use crate::policy::Policy;

use super::pool::SparePool;
use super::{ElasticDecision, decide};

/// A [`KeyedLimiter`] whose keys borrow from one [`SparePool`] what their own quota does not have.
///
/// As [`ElasticLimiter`](crate::ElasticLimiter), for each key. A key for which a full table has no cell
/// borrows nothing, also if the spill decides: a flood of new keys cannot drain the pool.
///
/// ```
/// use std::sync::Arc;
/// use tollgate::{ElasticKeyedLimiter, Quota, SparePool};
/// let pool = Arc::new(SparePool::new(Quota::per_hour(3)));
/// pool.report_headroom(1.0)?;
/// let limiter = ElasticKeyedLimiter::<str>::new(Quota::per_hour(2), 1_000, pool)?;
/// let admitted = |key| (0..20).filter(|_| limiter.check(key, 1).is_allowed()).count();
/// assert_eq!(["alice", "bob"].map(admitted), [2 + 3, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ElasticKeyedLimiter<K: ?Sized, S = RandomState> {
    own: KeyedLimiter<K, S>,
    pool: Arc<SparePool>,
}

impl<K: Hash + ?Sized> ElasticKeyedLimiter<K> {
    /// A limiter for `capacity` keys at a time, with a policy of their own and the pool's clock.
    ///
    /// # Errors
    /// As [`KeyedLimiter::new`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ElasticKeyedLimiter, Quota, SparePool};
    /// let pool = Arc::new(SparePool::new(Quota::per_second(1_000)));
    /// assert!(ElasticKeyedLimiter::<u64>::new(Quota::per_second(10), 0, pool).is_err());
    /// ```
    pub fn new(
        policy: impl Into<Policy>,
        capacity: usize,
        pool: Arc<SparePool>,
    ) -> Result<Self, BuildError> {
        Ok(Self { own: KeyedLimiter::with_clock(policy, capacity, pool.clock())?, pool })
    }
}

impl<K: Hash + ?Sized, S: BuildHasher> ElasticKeyedLimiter<K, S> {
    /// [`new`](ElasticKeyedLimiter::new) with two hashes of your choice: see
    /// [`KeyedLimiter::with_hashers`].
    ///
    /// # Errors
    /// As [`KeyedLimiter::new`].
    ///
    /// ```
    /// use std::hash::RandomState;
    /// use std::sync::Arc;
    /// use tollgate::{ElasticKeyedLimiter, Quota, SparePool};
    /// let pool = Arc::new(SparePool::new(Quota::per_second(1_000)));
    /// let hashers = [RandomState::new(), RandomState::new()];
    /// let limiter =
    ///     ElasticKeyedLimiter::with_hashers(Quota::per_second(9), 1_000, pool, hashers)?;
    /// assert!(limiter.check("alice", 1).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn with_hashers(
        policy: impl Into<Policy>,
        capacity: usize,
        pool: Arc<SparePool>,
        hashers: [S; 2],
    ) -> Result<Self, BuildError> {
        let own = KeyedLimiter::with_hashers(policy, capacity, pool.clock(), hashers)?;
        Ok(Self { own, pool })
    }

    /// Says what becomes of new keys for which the table has no cell: see [`KeyedLimiter::when_full`].
    ///
    /// # Errors
    /// As [`KeyedLimiter::when_full`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ElasticKeyedLimiter, Full, Quota, SparePool};
    /// let pool = Arc::new(SparePool::new(Quota::per_second(1_000)));
    /// let limiter = ElasticKeyedLimiter::<str>::new(Quota::per_hour(2), 1_000, pool)?;
    /// assert_eq!(limiter.when_full(Full::Deny)?.own().stats().spill_bytes, 0);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn when_full(self, full: Full) -> Result<Self, BuildError> {
        Ok(Self { own: self.own.when_full(full)?, pool: self.pool })
    }

    /// Decides a request of `cost` units for `key` now, and charges it to the key's quota or to the pool.
    /// A cost of 0 is a peek.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ElasticKeyedLimiter, Quota, SparePool};
    /// let pool = Arc::new(SparePool::new(Quota::per_second(1_000)));
    /// let limiter = ElasticKeyedLimiter::<str>::new(Quota::per_hour(2), 1_000, pool)?;
    /// assert!(limiter.check("alice", 2).is_allowed());
    /// assert!(!limiter.check("alice", 1).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn check(&self, key: &K, cost: u64) -> ElasticDecision {
        decide(&self.pool, &Limit::Key(self.own.place(key)), cost, None, true)
    }

    /// [`check`](ElasticKeyedLimiter::check) at a time of the caller's. All times given to limits of one
    /// pool, its own clock's included, must count from one origin.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ElasticKeyedLimiter, ManualClock, Quota, SparePool, Timestamp};
    /// let pool = Arc::new(SparePool::with_clock(Quota::per_minute(1), ManualClock::new()));
    /// let limiter = ElasticKeyedLimiter::<str>::new(Quota::per_minute(1), 1_000, pool)?;
    /// let at = |second| limiter.check_at("alice", 1, Timestamp::from_secs(second)).is_allowed();
    /// assert_eq!([at(0), at(59), at(60)], [true, false, true]);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn check_at(&self, key: &K, cost: u64, now: Timestamp) -> ElasticDecision {
        decide(&self.pool, &Limit::Key(self.own.place(key)), cost, Some(now), true)
    }

    /// Would a request of `cost` units for `key` be admitted now, and from where? Charges nothing.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ElasticKeyedLimiter, Quota, SparePool};
    /// let pool = Arc::new(SparePool::new(Quota::per_second(1_000)));
    /// let limiter = ElasticKeyedLimiter::<str>::new(Quota::per_hour(2), 1_000, pool)?;
    /// assert!(limiter.peek("alice", 2).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn peek(&self, key: &K, cost: u64) -> ElasticDecision {
        decide(&self.pool, &Limit::Key(self.own.place(key)), cost, None, false)
    }

    /// [`peek`](ElasticKeyedLimiter::peek) at a time of the caller's.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ElasticKeyedLimiter, ManualClock, Quota, SparePool, Timestamp};
    /// let pool = Arc::new(SparePool::with_clock(Quota::per_minute(1), ManualClock::new()));
    /// let limiter = ElasticKeyedLimiter::<str>::new(Quota::per_minute(1), 1_000, pool)?;
    /// assert!(!limiter.peek_at("alice", 2, Timestamp::from_secs(1)).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn peek_at(&self, key: &K, cost: u64, now: Timestamp) -> ElasticDecision {
        decide(&self.pool, &Limit::Key(self.own.place(key)), cost, Some(now), false)
    }

    /// The keys' own quotas: for statistics. What is asked of it directly borrows nothing.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ElasticKeyedLimiter, Quota, SparePool};
    /// let pool = Arc::new(SparePool::new(Quota::per_second(1_000)));
    /// let limiter = ElasticKeyedLimiter::<str>::new(Quota::per_hour(2), 1_000, pool)?;
    /// assert_eq!(limiter.own().stats().live, 0);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn own(&self) -> &KeyedLimiter<K, S> {
        &self.own
    }

    /// The pool that all keys borrow from.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ElasticKeyedLimiter, Quota, SparePool};
    /// let pool = Arc::new(SparePool::new(Quota::per_second(1_000)));
    /// let limiter = ElasticKeyedLimiter::<str>::new(Quota::per_hour(2), 1_000, pool)?;
    /// assert_eq!(limiter.pool().headroom(), 0.0);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn pool(&self) -> &SparePool {
        &self.pool
    }
}
