//! Limits that come with requests: each request says how many units its limit has. All requests of a client are counted
//! in one key.

use std::sync::Arc;

use tollgate::{Algorithm, Policy, Quota};

use crate::error::RedisBuildError;
use crate::inner::Inner;
use crate::limiter::{RedisLimiter, build};
use crate::script::plan::ScriptPlan;
use crate::settings::{Mode, OnError, Settings};
use crate::share::LocalShare;
use crate::store::Store;

/// Counts requests that each bring their own limit, in windows of one length. [`with_limit`](RequestLimits::with_limit)
/// makes a limiter for the limit that a request brings.
#[derive(Clone, Debug)]
pub struct RequestLimits {
    /// The limiter of the settings. Limiters with other numbers of units are made from it.
    any: RedisLimiter,
}

impl RequestLimits {
    /// Prepares limits of one window length on a store. The policy of the settings must be a fixed window. Its number
    /// of units has no meaning here. The store makes every decision, whatever the mode of the settings.
    ///
    /// While the store does not answer, a key has one share for all limits that its requests bring. For each request
    /// the share is the request's limit divided by the number of nodes, at least 1 and at most 100,000,000.
    ///
    /// # Errors
    /// As [`RedisLimiter::new`], and [`RedisBuildError::NotOfEnvoyproxy`] if the policy is not a plain fixed window.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tollgate_redis::{OnError, RequestLimits, Settings, Store};
    /// let store = Store::open("redis://127.0.0.1:1/")?;
    /// let hourly = Settings::new("fixed-window 1/h".parse()?).name("tenants");
    /// let hourly = RequestLimits::new(&store, hourly)?;
    /// // The store is away, and this is the only node.
    /// let small = hourly.with_limit(10, OnError::Local)?;
    /// assert!(small.check_n("alice", 10).await.is_allowed() && !small.check("alice").await.is_allowed());
    /// assert!(hourly.with_limit(20, OnError::Allow)?.check("alice").await.is_allowed());
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(store: &Store, settings: Settings) -> Result<Self, RedisBuildError> {
        let settings = settings.mode(Mode::Exact);
        let (given, quota) = (settings.policy, settings.policy.quota());
        if Policy::new(Algorithm::FixedWindow, quota) != Ok(given) {
            return Err(RedisBuildError::NotOfEnvoyproxy { policy: given.into() });
        }
        let share = LocalShare::of_parts(&settings.plan()?, settings.nodes, settings.keys)?;
        // The log says how many limits decide without the store. That number does not include limits that come with
        // requests.
        Ok(Self { any: build(store, settings, share, None)? })
    }

    /// A limiter with the same keys, for a request that brings its own limit of `units` in the window. The key's count
    /// includes the units that were admitted under all limits that requests have brought.
    ///
    /// # Errors
    /// An error if `units` is 0, or so large that the rate cannot be counted.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tollgate_redis::{OnError, RequestLimits, Settings, Store};
    /// let store = Store::open("redis://127.0.0.1:1/")?;
    /// let hourly = RequestLimits::new(&store, Settings::new("fixed-window 1/h".parse()?))?;
    /// assert_eq!(hourly.with_limit(10, OnError::Deny)?.policy().to_string(), "fixed-window 10/h");
    /// assert!(hourly.with_limit(0, OnError::Deny).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_limit(
        &self,
        units: u64,
        on_error: OnError,
    ) -> Result<RedisLimiter, RedisBuildError> {
        with_limit(&self.any, units, on_error)
    }

    /// Returns the limiter of the settings, from which those with other numbers of units are made.
    pub(crate) fn any(&self) -> &RedisLimiter {
        &self.any
    }
}

/// A limiter with the same keys and another limit.
pub(crate) fn with_limit(
    any: &RedisLimiter,
    units: u64,
    on_error: OnError,
) -> Result<RedisLimiter, RedisBuildError> {
    let Inner { store, plan, share, local, terms, keys, nodes, .. } = &*any.inner;
    let refused = RedisBuildError::Setting {
        setting: "the limit",
        accepted: "1 or more units, as many as a window counts",
    };
    let quota = Quota::try_per(units, plan.policy().quota().period());
    let policy = quota.and_then(|quota| Policy::new(Algorithm::FixedWindow, quota));
    let plan = ScriptPlan::new(policy.map_err(|_| refused)?)?;
    let inner = Inner {
        store: store.clone(),
        plan,
        on_error,
        share: share.under(&plan, *nodes),
        local: Arc::clone(local),
        terms: *terms,
        keys: keys.clone(),
        nodes: *nodes,
        _enrolled: None,
    };
    Ok(RedisLimiter { inner: Arc::new(inner), alive: None })
}
