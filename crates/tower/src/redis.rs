//! [`GateLimit`] for limits in Redis, and [`Lend`] for the pool of all nodes.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Decision, Denial, Permit, Policy, Wait};
use tollgate_http::keys::Key;
use tollgate_redis::{RedisClaim, RedisDecision, RedisLimiter, SharedPool, check_all};

use crate::answer::LimitAnswer;
use crate::lend::{Lend, Loan};
use crate::limit::{GateLimit, LimitAsk};

/// The limit as a `RedisLimiter`, if it is one or is an `Arc` of one. `None` for any other limit.
fn of(limit: &dyn GateLimit) -> Option<&RedisLimiter> {
    let limit: &dyn Any = limit;
    if let Some(shared) = limit.downcast_ref::<Arc<dyn GateLimit>>() {
        return of(&**shared);
    }
    let shared = || limit.downcast_ref::<Arc<RedisLimiter>>().map(Arc::as_ref);
    limit.downcast_ref().or_else(shared)
}

/// Each future owns a clone of the limiter. All clones share one state.
impl GateLimit for RedisLimiter {
    fn policy_of(&self, tier: usize) -> Option<Policy> {
        (tier == 0).then(|| self.policy())
    }

    /// The answer is available now if this node holds a lease that has room.
    fn check(&self, key: &Key, cost: u64) -> LimitAnswer {
        if let Some(held) = self.entry(key.as_bytes()).check_held(cost) {
            return LimitAnswer::Now(RedisDecision::into_decision(held));
        }
        let (limiter, key) = (self.clone(), *key);
        LimitAnswer::later(
            async move { limiter.check_n(key.as_bytes(), cost).await.into_decision() },
        )
    }

    fn acquire(&self, key: &Key, cost: u64, max_wait: Duration) -> LimitAnswer {
        let (limiter, key) = (self.clone(), *key);
        LimitAnswer::later(async move {
            match limiter.entry(key.as_bytes()).acquire(cost, Wait::at_most(max_wait)).await {
                Ok(permit) => Decision::Allowed(permit.into_permit()),
                Err(denial) => Decision::Denied(denial),
            }
        })
    }

    /// If the store does not answer, the units count as not charged.
    fn charge(&self, key: &Key, cost: u64) -> LimitAnswer<u64> {
        let (limiter, key) = (self.clone(), *key);
        LimitAnswer::later(async move {
            limiter.entry(key.as_bytes()).charge(cost).await.unwrap_or(cost)
        })
    }

    fn is_charged_with(&self, other: &dyn GateLimit) -> bool {
        of(other).is_some()
    }

    fn check_all(&self, asks: &[LimitAsk<'_>]) -> LimitAnswer<(usize, Decision)> {
        let asks: Vec<(RedisLimiter, Key, u64)> = asks
            .iter()
            // A layer only combines limits that can be charged together, so all of them are limits of Redis.
            .map(|ask| (of(ask.limit).unwrap_or(self).clone(), *ask.key, ask.cost))
            .collect();
        let limiter = self.clone();
        LimitAnswer::later(async move {
            let claims: Vec<RedisClaim<'_>> = asks
                .iter()
                .map(|(limiter, key, cost)| limiter.entry(key.as_bytes()).cost(*cost))
                .collect();
            let joint = check_all(&claims).await.into_joint();
            match (joint.reported_by(), joint.into_decision()) {
                (Some(index), Some(decision)) => (index, decision),
                // This is reached only for an empty list, which no layer passes.
                _ => (0, limiter.entry(Key::new().as_bytes()).peek(0).await.into_decision()),
            }
        })
    }
}

impl Lend for SharedPool {
    fn lend(&self, denial: &Denial) -> LimitAnswer<Option<Loan>> {
        let (pool, denial) = (self.clone(), *denial);
        LimitAnswer::later(async move {
            let loan = pool.lend(&denial).await?;
            Some(Loan::later(async move {
                // If the store does not take the loan back, the loan stays charged until it drains.
                _ = pool.give_back(loan).await;
            }))
        })
    }

    /// Does nothing: the loans of this pool are futures, which give the units back to the store.
    fn give_back(&self, _: Permit) {}
}
