//! [`ElasticLimiter`]: one limit that may borrow.

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::limit::Limit;
use crate::limiter::Limiter;
use crate::policy::Policy;

use super::pool::SparePool;
use super::{ElasticDecision, decide};

/// A [`Limiter`] that borrows from a [`SparePool`] what its own quota does not have.
///
/// The own quota comes first, and is charged the whole cost if it admits. If it denies, the pool is asked
/// for the whole cost; nothing is split between the two. A cost above the own quota is never lent.
/// Several limiters, one for each client, share one pool and its clock.
///
/// # What it guarantees
/// * Whatever is borrowed, the own quota admits what it would without a pool. At headroom 0 the answers
///   are exactly those of a [`Limiter`].
/// * In any interval it admits at most what its own policy does and what the pool lends: see
///   [`SparePool`].
///
/// ```
/// use std::sync::Arc;
/// use tollgate::{ElasticLimiter, Quota, SparePool};
/// let pool = Arc::new(SparePool::new(Quota::per_hour(3)));
/// let [alice, bob] = [(); 2].map(|()| ElasticLimiter::new(Quota::per_hour(5), Arc::clone(&pool)));
/// assert_eq!((0..20).filter(|_| alice.check(1).is_allowed()).count(), 5);
/// // The server is half idle.
/// pool.report_headroom(0.67)?;
/// assert_eq!((0..20).filter(|_| alice.check(1).is_allowed()).count(), 2);
/// // What others borrow takes nothing from anybody's own quota.
/// assert_eq!((0..20).filter(|_| bob.check(1).is_allowed()).count(), 5);
/// # Ok::<(), tollgate::HeadroomError>(())
/// ```
#[derive(Debug)]
pub struct ElasticLimiter {
    own: Limiter,
    pool: Arc<SparePool>,
}

impl ElasticLimiter {
    /// A limiter with a policy of its own and the pool's clock.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ElasticLimiter, Policy, Quota, SparePool};
    /// let pool = Arc::new(SparePool::new(Quota::per_second(1_000)));
    /// let limiter = ElasticLimiter::new("fixed-window 100/m".parse::<Policy>()?, pool);
    /// assert!(limiter.check(1).is_allowed());
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    #[must_use]
    pub fn new(policy: impl Into<Policy>, pool: Arc<SparePool>) -> Self {
        Self { own: Limiter::with_clock(policy, pool.clock()), pool }
    }

    /// Decides a request of `cost` units now, and charges it to the own quota or to the pool. A cost of 0
    /// is a peek.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ElasticLimiter, Quota, SparePool};
    /// let pool = Arc::new(SparePool::new(Quota::per_second(1_000)));
    /// let limiter = ElasticLimiter::new(Quota::per_hour(2), pool);
    /// assert!(limiter.check(2).is_allowed());
    /// assert!(!limiter.check(1).is_allowed());
    /// ```
    pub fn check(&self, cost: u64) -> ElasticDecision {
        self.check_at(cost, self.own.now())
    }

    /// [`check`](ElasticLimiter::check) at a time of the caller's. All times given to limits of one pool,
    /// its own clock's included, must count from one origin.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ElasticLimiter, ManualClock, Quota, SparePool, Timestamp};
    /// let pool = Arc::new(SparePool::with_clock(Quota::per_minute(1), ManualClock::new()));
    /// pool.report_headroom(1.0)?;
    /// let limiter = ElasticLimiter::new(Quota::per_minute(1), pool);
    /// let at = |second| limiter.check_at(1, Timestamp::from_secs(second));
    /// assert_eq!([at(0), at(1), at(2)].map(|decision| decision.is_allowed()), [true, true, false]);
    /// # Ok::<(), tollgate::HeadroomError>(())
    /// ```
    pub fn check_at(&self, cost: u64, now: Timestamp) -> ElasticDecision {
        decide(&self.pool, &Limit::One(&self.own), cost, Some(now), true)
    }

    /// Would a request of `cost` units be admitted now, and from where? Charges nothing.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ElasticLimiter, Quota, SparePool};
    /// let pool = Arc::new(SparePool::new(Quota::per_second(1_000)));
    /// assert!(ElasticLimiter::new(Quota::per_hour(2), pool).peek(2).is_allowed());
    /// ```
    pub fn peek(&self, cost: u64) -> ElasticDecision {
        self.peek_at(cost, self.own.now())
    }

    /// [`peek`](ElasticLimiter::peek) at a time of the caller's.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ElasticLimiter, Quota, SparePool, Timestamp};
    /// let pool = Arc::new(SparePool::new(Quota::per_second(1_000)));
    /// let limiter = ElasticLimiter::new(Quota::per_hour(2), pool);
    /// assert!(!limiter.peek_at(3, Timestamp::from_secs(1)).is_allowed());
    /// ```
    pub fn peek_at(&self, cost: u64, now: Timestamp) -> ElasticDecision {
        decide(&self.pool, &Limit::One(&self.own), cost, Some(now), false)
    }

    /// The own quota's limiter. What is asked of it directly borrows nothing.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ElasticLimiter, Quota, SparePool};
    /// let pool = Arc::new(SparePool::new(Quota::per_second(1_000)));
    /// assert_eq!(ElasticLimiter::new(Quota::per_hour(2), pool).own().peek(1).remaining(), 2);
    /// ```
    #[must_use]
    pub fn own(&self) -> &Limiter {
        &self.own
    }

    /// The pool that this limiter borrows from.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ElasticLimiter, Quota, SparePool};
    /// let pool = Arc::new(SparePool::new(Quota::per_second(1_000)));
    /// assert_eq!(ElasticLimiter::new(Quota::per_hour(2), pool).pool().headroom(), 0.0);
    /// ```
    #[must_use]
    pub fn pool(&self) -> &SparePool {
        &self.pool
    }
}
