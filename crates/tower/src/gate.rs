//! [`Gate`]: one limit that a request has to pass, its key and cost, and what it does with requests above the limit.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::cost::Cost;
use crate::deny::Problems;
use crate::extract::Extract;
use crate::headers::Opening;
use crate::limit::Limit;
use crate::name::PolicyName;
use crate::observe::GateTally;

/// What is done with a request that has no key of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingKey {
    /// All such requests share one limit: leaving something out does not let a client through.
    #[default]
    Share,
    /// The gate is skipped.
    Pass,
}

pub(crate) type Sleeping = Pin<Box<dyn Future<Output = ()> + Send>>;
type Sleep = dyn Fn(Duration) -> Sleeping + Send + Sync;

/// What is done with a request that is above the limit.
#[derive(Clone)]
pub(crate) enum GateMode {
    Deny,
    Shadow,
    Delay { max_wait: Duration, sleep: Arc<Sleep> },
}

/// One limit that a request has to pass: the limit, the key, the cost, and what happens above the limit.
///
/// ```
/// use http::Method;
/// use tollgate::{KeyedLimiter, Quota};
/// use tollgate_tower::{ClientAddress, Cost, Gate, PolicyName, RateLimitLayer};
/// let writes = Gate::new(KeyedLimiter::new(Quota::per_minute(60), 10_000)?, ClientAddress::peer())
///     .named(PolicyName::new("writes")?)
///     .cost(Cost::by_method([(Method::POST, 2), (Method::DELETE, 2)], 0));
/// let layer = RateLimitLayer::of(writes);
/// # let _ = layer;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Gate {
    pub(crate) name: PolicyName,
    pub(crate) limit: Arc<dyn Limit>,
    pub(crate) by: Arc<dyn Extract>,
    pub(crate) cost: Cost,
    pub(crate) mode: GateMode,
    pub(crate) missing: MissingKey,
    pub(crate) tally: Arc<GateTally>,
    pub(crate) problems: Arc<Problems>,
    pub(crate) opening: Opening,
}

impl Gate {
    /// A gate that denies requests above a limit. Its name is `default`, and a request costs 1.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_tower::{Everyone, Gate};
    /// let gate = Gate::new(Limiter::new(Quota::per_second(10_000)), Everyone);
    /// # let _ = gate;
    /// ```
    #[must_use]
    pub fn new(limit: impl Limit + 'static, by: impl Extract + 'static) -> Self {
        let name = PolicyName::default();
        Self {
            problems: Arc::new(Problems::of(&name)),
            opening: Opening::of(limit.policy().quota().max_burst()),
            name,
            limit: Arc::new(limit),
            by: Arc::new(by),
            cost: Cost::default(),
            mode: GateMode::Deny,
            missing: MissingKey::default(),
            tally: Arc::default(),
        }
    }

    /// Sets the name that headers, denials and counters show.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_tower::{Everyone, Gate, PolicyName};
    /// let limit = Limiter::new(Quota::per_second(10_000));
    /// let gate = Gate::new(limit, Everyone).named(PolicyName::new("service")?);
    /// # let _ = gate;
    /// # Ok::<(), tollgate_tower::NameError>(())
    /// ```
    #[must_use]
    pub fn named(self, name: PolicyName) -> Self {
        Self { problems: Arc::new(Problems::of(&name)), name, ..self }
    }

    /// Sets what requests cost.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_tower::{Everyone, Gate};
    /// let gate = Gate::new(Limiter::new(Quota::per_second(10_000)), Everyone).cost(5);
    /// # let _ = gate;
    /// ```
    #[must_use]
    pub fn cost(self, cost: impl Into<Cost>) -> Self {
        Self { cost: cost.into(), ..self }
    }

    /// Sets what is done with requests that have no key of their own.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota};
    /// use tollgate_tower::{Bearer, Gate, MissingKey};
    /// // Requests without a token are left to another gate.
    /// let gate = Gate::new(KeyedLimiter::new(Quota::per_second(10), 1_000)?, Bearer)
    ///     .without_key(MissingKey::Pass);
    /// # let _ = gate;
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn without_key(self, missing: MissingKey) -> Self {
        Self { missing, ..self }
    }

    /// Only counts the requests that it would deny, and lets them through: to try a limit on real traffic. Handlers
    /// find a [`Shadowed`](crate::Shadowed) in the extensions of such a request; clients are not informed.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota};
    /// use tollgate_tower::{ClientAddress, Gate};
    /// let stricter = KeyedLimiter::new(Quota::per_second(5), 10_000)?;
    /// let gate = Gate::new(stricter, ClientAddress::peer()).shadow();
    /// # let _ = gate;
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn shadow(self) -> Self {
        Self { mode: GateMode::Shadow, ..self }
    }

    /// Lets requests wait for their turn in place of denying them, in the order of arrival; a request that would wait
    /// longer than `max_wait` is denied at once. Only `gcra` has a queue: a window denies.
    ///
    /// The policy of the limiter says how long the queue is: `5/s burst 1 queue 50`, or `wait 450ms`
    /// ([`Policy::queue`](tollgate::Policy::queue)); then `Duration::MAX` here is no further bound. Without these
    /// words a key remembers no more than twice its burst, and whatever would have to wait behind that is denied.
    ///
    /// A request that is dropped while it waits gives its place back, if it is the last in the queue. Pass the sleep
    /// of your runtime.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{KeyedLimiter, Policy};
    /// use tollgate_tower::{ClientAddress, Gate};
    /// let policy: Policy = "10/s burst 5 queue 20".parse()?;
    /// let gate = Gate::new(KeyedLimiter::new(policy, 10_000)?, ClientAddress::peer());
    /// let gate = gate.delay(Duration::from_millis(400), tokio::time::sleep);
    /// # let _ = gate;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn delay<S>(
        self,
        max_wait: Duration,
        sleep: impl Fn(Duration) -> S + Send + Sync + 'static,
    ) -> Self
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let sleep = move |wait| -> Sleeping { Box::pin(sleep(wait)) };
        Self { mode: GateMode::Delay { max_wait, sleep: Arc::new(sleep) }, ..self }
    }

    /// This gate with denying in place of waiting.
    pub(crate) fn prompt(self) -> Self {
        let mode = if self.is_shadow() { GateMode::Shadow } else { GateMode::Deny };
        Self { mode, ..self }
    }

    pub(crate) fn is_shadow(&self) -> bool {
        matches!(self.mode, GateMode::Shadow)
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.mode {
            GateMode::Deny => "deny",
            GateMode::Shadow => "shadow",
            GateMode::Delay { .. } => "delay",
        };
        f.debug_struct("Gate")
            .field("name", &self.name)
            .field("policy", &self.limit.policy())
            .field("cost", &self.cost)
            .field("mode", &mode)
            .field("missing", &self.missing)
            .finish_non_exhaustive()
    }
}
