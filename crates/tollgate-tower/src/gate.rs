//! [`Gate`]: one limit on the way of a request, whom it concerns, and what it does.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tollgate::Timer;

use crate::cost::Cost;
use crate::deny::Problems;
use crate::extract::Extract;
use crate::headers::Opening;
use crate::limit::Limit;
use crate::name::PolicyName;
use crate::observe::Tally;

/// What is done with a request that has no key of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingKey {
    /// All such requests share one limit: nobody is let through for leaving something out.
    #[default]
    Share,
    /// The gate is passed over.
    Pass,
}

pub(crate) type Sleeping = Pin<Box<dyn Future<Output = ()> + Send>>;
type Sleep = dyn Fn(Duration) -> Sleeping + Send + Sync;

/// What is done with a request that is above the limit.
#[derive(Clone)]
pub(crate) enum Mode {
    Deny,
    Shadow,
    Delay { max_wait: Duration, sleep: Arc<Sleep> },
}

/// One limit on the way of a request: which limit, whose, what it costs, and what happens above it.
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
    pub(crate) mode: Mode,
    pub(crate) missing: MissingKey,
    pub(crate) tally: Arc<Tally>,
    pub(crate) problems: Arc<Problems>,
    pub(crate) opening: Opening,
}

impl Gate {
    /// A gate that denies what is above a limit. It is named `default`, and a request costs 1.
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
            opening: Opening::of(&limit.policy()),
            name,
            limit: Arc::new(limit),
            by: Arc::new(by),
            cost: Cost::default(),
            mode: Mode::Deny,
            missing: MissingKey::default(),
            tally: Arc::default(),
        }
    }

    /// Names it: in headers, in denials, in counters.
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

    /// What requests cost.
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

    /// What is done with requests that have no key of their own.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota};
    /// use tollgate_tower::{Bearer, Gate, MissingKey};
    /// // Requests without a token are the concern of another gate.
    /// let gate = Gate::new(KeyedLimiter::new(Quota::per_second(10), 1_000)?, Bearer)
    ///     .without_key(MissingKey::Pass);
    /// # let _ = gate;
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn without_key(self, missing: MissingKey) -> Self {
        Self { missing, ..self }
    }

    /// Only counts what it would deny, and lets it through: to try a limit on real traffic. Handlers find a
    /// [`Shadowed`](crate::Shadowed) in the extensions of such a request; clients are told nothing.
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
        Self { mode: Mode::Shadow, ..self }
    }

    /// Lets requests wait for their turn in place of denying them, first come, first served; who would wait
    /// longer than `max_wait` is denied at once. Only under `gcra` is there a queue: a window denies.
    ///
    /// A client that gives up gives his place back, if he is the last. The timer is that of your runtime:
    /// `tollgate::TokioTimer`, with the feature `tokio` of `tollgate`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{KeyedLimiter, Quota, TokioTimer};
    /// use tollgate_tower::{ClientAddress, Gate};
    /// let paced = KeyedLimiter::new(Quota::per_second(10).burst(5), 10_000)?;
    /// let gate = Gate::new(paced, ClientAddress::peer()).delay(Duration::from_millis(400), TokioTimer);
    /// # let _ = gate;
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn delay<T>(self, max_wait: Duration, timer: T) -> Self
    where
        T: Timer + Clone + Send + Sync + 'static,
    {
        let sleep = move |wait| -> Sleeping {
            let timer = timer.clone();
            Box::pin(async move { timer.sleep(wait).await })
        };
        Self { mode: Mode::Delay { max_wait, sleep: Arc::new(sleep) }, ..self }
    }

    pub(crate) fn is_shadow(&self) -> bool {
        matches!(self.mode, Mode::Shadow)
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.mode {
            Mode::Deny => "deny",
            Mode::Shadow => "shadow",
            Mode::Delay { .. } => "delay",
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
