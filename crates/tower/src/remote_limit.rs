//! [`RemoteLimit`]: a limit that is kept elsewhere.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tollgate::{Decision, Policy};

use crate::key::Key;

/// A decision that arrives later.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Decision> + Send + 'a>>;

/// A limit that is kept elsewhere. It always answers: while the place where it is kept does not, the implementation
/// decides by itself.
///
/// With the feature `redis`, `tollgate_redis::RedisLimiter` implements it; its `Settings::on_error` is the failure
/// policy: admit this node's share of the limit (the default), everything, or nothing.
pub trait RemoteLimit: Send + Sync {
    /// The policy, for the headers.
    fn policy(&self) -> Policy;

    /// Decides at once, if that is possible without a request to the remote side. `None` has charged nothing.
    #[expect(unused_variables, reason = "the names tell what an implementation is given")]
    fn check_now(&self, key: &Key, cost: u64) -> Option<Decision> {
        None
    }

    /// Decides a request of `cost` units and charges it if it is admitted.
    fn check<'a>(&'a self, key: &'a Key, cost: u64) -> Answering<'a>;
}

impl<L: RemoteLimit + ?Sized> RemoteLimit for Arc<L> {
    fn policy(&self) -> Policy {
        (**self).policy()
    }

    fn check_now(&self, key: &Key, cost: u64) -> Option<Decision> {
        (**self).check_now(key, cost)
    }

    fn check<'a>(&'a self, key: &'a Key, cost: u64) -> Answering<'a> {
        (**self).check(key, cost)
    }
}

#[cfg(feature = "redis")]
impl RemoteLimit for tollgate_redis::RedisLimiter {
    fn policy(&self) -> Policy {
        self.policy()
    }

    fn check_now(&self, key: &Key, cost: u64) -> Option<Decision> {
        self.check_held(key.as_bytes(), cost).map(|decision| decision.decision())
    }

    fn check<'a>(&'a self, key: &'a Key, cost: u64) -> Answering<'a> {
        Box::pin(async move { self.check_n(key.as_bytes(), cost).await.decision() })
    }
}
