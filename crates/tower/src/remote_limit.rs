//! [`RemoteLimit`]: a limit that is kept elsewhere.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tollgate::{Decision, Policy};

use crate::key::Key;

/// An answer that arrives later.
pub type Answering<'a, T = Decision> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The request to one of several limits that are kept elsewhere: see [`RemoteLimit::check_all`].
#[derive(Clone, Copy)]
pub struct RemoteAsk<'a> {
    /// The limit.
    pub limit: &'a dyn RemoteLimit,
    /// The key that is to be charged.
    pub key: &'a Key,
    /// The units to charge.
    pub cost: u64,
}

impl fmt::Debug for RemoteAsk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteAsk")
            .field("key", self.key)
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}

/// A limit that is kept elsewhere. It always answers: while its store does not, the implementation decides by itself.
///
/// With the feature `redis`, `tollgate_redis::RedisLimiter` implements it; its `Settings::on_error` is the failure
/// policy: admit this node's share of the limit (the default), everything, or nothing.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no limit that is kept elsewhere",
    label = "no `RemoteLimit`",
    note = "with the feature `redis` of `tollgate-tower`, `tollgate_redis::RedisLimiter` is one; a limiter of this process \
            goes into `RateLimitLayer::new` or `Gate::new`"
)]
pub trait RemoteLimit: Any + Send + Sync {
    /// The policy for keys of a tier, counted from 0; headers state it. `None` if there is no such tier; gates then ask
    /// for no key of that tier.
    fn policy_of(&self, tier: usize) -> Option<Policy>;

    /// Decides at once, if that is possible without a request to the store. Otherwise returns `None`, and has charged
    /// nothing.
    #[expect(unused_variables, reason = "the names tell what an implementation is given")]
    fn check_now(&self, key: &Key, cost: u64) -> Option<Decision> {
        None
    }

    /// Decides a request of `cost` units and charges it if it is admitted.
    fn check<'a>(&'a self, key: &'a Key, cost: u64) -> Answering<'a>;

    /// Whether a request under this limit and another can be charged to both or to neither. By default it cannot; then
    /// no layer accepts the two together.
    #[expect(unused_variables, reason = "the names tell what an implementation is given")]
    fn is_charged_with(&self, other: &dyn RemoteLimit) -> bool {
        false
    }

    /// Decides a request under several limits: all are charged, or none. It is called on the first of them, and only if
    /// that [can be charged with](RemoteLimit::is_charged_with) each of the others. The answer is the decision that
    /// stands for all, with the index of its limit, from 0: the denial with the longest wait, or the permit with the
    /// fewest units left.
    fn check_all<'a>(&'a self, asks: &'a [RemoteAsk<'a>]) -> Answering<'a, (usize, Decision)> {
        Box::pin(async move {
            match asks {
                [] => (0, self.check(&Key::new(), 0).await),
                [first, ..] => (0, self.check(first.key, first.cost).await),
            }
        })
    }

    /// Waits for the turn of `cost` units, at most `max_wait`, and then admits them; a request that would wait longer
    /// is denied at once. A future that is dropped while it waits gives its place back if it is the last one. By
    /// default there is no queue: a request is decided as by [`check`](RemoteLimit::check).
    #[expect(unused_variables, reason = "the names tell what an implementation is given")]
    fn acquire<'a>(&'a self, key: &'a Key, cost: u64, max_wait: Duration) -> Answering<'a> {
        self.check(key, cost)
    }

    /// Charges even if the cost does not fit, so that the key goes into debt, and returns the number of units that
    /// could not be charged. By default nothing is charged.
    #[expect(unused_variables, reason = "the names tell what an implementation is given")]
    fn charge<'a>(&'a self, key: &'a Key, cost: u64) -> Answering<'a, u64> {
        Box::pin(std::future::ready(cost))
    }
}

#[cfg(feature = "redis")]
mod redis {
    use tollgate::Wait;
    use tollgate_redis::{RedisClaim, RedisDecision, RedisLimiter, check_all};

    use super::{Answering, Any, Decision, Duration, Key, Policy, RemoteAsk, RemoteLimit};

    fn of(limit: &dyn RemoteLimit) -> Option<&RedisLimiter> {
        (limit as &dyn Any).downcast_ref()
    }

    impl RemoteLimit for RedisLimiter {
        fn policy_of(&self, tier: usize) -> Option<Policy> {
            (tier == 0).then(|| self.policy())
        }

        fn check_now(&self, key: &Key, cost: u64) -> Option<Decision> {
            self.check_held(key.as_bytes(), cost).map(RedisDecision::into_decision)
        }

        fn check<'a>(&'a self, key: &'a Key, cost: u64) -> Answering<'a> {
            Box::pin(async move { self.check_n(key.as_bytes(), cost).await.into_decision() })
        }

        fn acquire<'a>(&'a self, key: &'a Key, cost: u64, max_wait: Duration) -> Answering<'a> {
            Box::pin(async move {
                match self.acquire(key.as_bytes(), cost, Wait::at_most(max_wait)).await {
                    Ok(permit) => Decision::Allowed(permit.into_permit()),
                    Err(denial) => Decision::Denied(denial),
                }
            })
        }

        /// If the store did not answer, the units count as not charged.
        fn charge<'a>(&'a self, key: &'a Key, cost: u64) -> Answering<'a, u64> {
            Box::pin(async move { self.charge(key.as_bytes(), cost).await.unwrap_or(cost) })
        }

        fn is_charged_with(&self, other: &dyn RemoteLimit) -> bool {
            of(other).is_some()
        }

        fn check_all<'a>(&'a self, asks: &'a [RemoteAsk<'a>]) -> Answering<'a, (usize, Decision)> {
            Box::pin(async move {
                let claims: Vec<RedisClaim<'_>> = asks
                    .iter()
                    // A layer only combines limits that can be charged together, so all of them are limits of Redis.
                    .map(|ask| of(ask.limit).unwrap_or(self).claim(ask.key.as_bytes(), ask.cost))
                    .collect();
                let joint = check_all(&claims).await;
                match (joint.reported_by(), joint.into_decision()) {
                    (Some(index), Some(decision)) => (index, decision),
                    // Only for an empty list, which no layer passes.
                    _ => (0, self.peek(Key::new().as_bytes(), 0).await.into_decision()),
                }
            })
        }
    }
}
