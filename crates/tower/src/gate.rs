//! [`Gate`]: one limit that a request has to pass, with its key, its cost, and the treatment of requests above the limit.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tollgate::Policy;
use tollgate_http::headers::PolicyName;
use tollgate_http::headers::write::Opening;
use tollgate_http::keys::Extract;

use crate::cost::Cost;
use crate::deny::Problems;
use crate::lend::Lend;
use crate::limit::{GateLimit, has_claims};
use crate::observe::GateTally;

/// The number of tiers that a [`Key`](crate::keys::Key) can name.
const TIERS_MAX: usize = 255;

pub(crate) type Sleeping = Pin<Box<dyn Future<Output = ()> + Send>>;
type Sleep = dyn Fn(Duration) -> Sleeping + Send + Sync;

/// The treatment of a request that is above the limit.
#[derive(Clone)]
pub(crate) enum GateMode {
    Deny,
    Shadow,
    Delay { max_wait: Duration, sleep: Arc<Sleep> },
    Borrow { lender: Arc<dyn Lend> },
}

/// One limit that a request has to pass: the limit, the key, the cost, and the treatment of requests above the limit.
///
/// ```
/// use http::Method;
/// use tollgate::{KeyedLimiter, Quota};
/// use tollgate_tower::gates::{Cost, PolicyName};
/// use tollgate_tower::{ClientAddress, Gate, RateLimitLayer};
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
    pub(crate) limit: Arc<dyn GateLimit>,
    /// The number of quotas that the limit has.
    pub(crate) tiers: usize,
    pub(crate) by: Arc<dyn Extract>,
    pub(crate) cost: Cost,
    pub(crate) mode: GateMode,
    /// Whether the gate is skipped for a request that has no key of its own.
    pub(crate) passes_without_key: bool,
    /// Whether the gate is skipped for a request whose key is under a tier that the limit does not have.
    pub(crate) passes_unknown_tier: bool,
    pub(crate) tally: Arc<GateTally>,
    pub(crate) problems: Arc<Problems>,
    pub(crate) opening: Opening,
}

impl Gate {
    /// A gate that denies requests above a limit. Its name is `default`, and a request costs 1.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_tower::keys::Everyone;
    /// use tollgate_tower::Gate;
    /// let gate = Gate::new(Limiter::new(Quota::per_second(10_000)), Everyone);
    /// # let _ = gate;
    /// ```
    ///
    /// The limit may be kept elsewhere; then a request waits for its decision.
    ///
    #[cfg_attr(feature = "redis", doc = "```no_run")]
    #[cfg_attr(not(feature = "redis"), doc = "```ignore")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tollgate_redis::{RedisLimiter, Settings, Store};
    /// use tollgate_tower::gates::PolicyName;
    /// use tollgate_tower::{ClientAddress, Gate};
    /// let store = Store::open("redis://127.0.0.1/")?;
    /// let clients = RedisLimiter::new(&store, Settings::new("100/s".parse()?))?;
    /// let gate = Gate::new(clients, ClientAddress::peer()).named(PolicyName::new("client")?);
    /// # let _ = gate;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn new(limit: impl GateLimit, by: impl Extract + 'static) -> Self {
        let name = PolicyName::default();
        let first = limit.policy_of(0);
        Self {
            problems: Arc::new(Problems::of(&name)),
            opening: Opening::of(first.map_or(0, |policy| policy.quota().max_burst())),
            name,
            tiers: (0..).map_while(|tier| limit.policy_of(tier)).take(TIERS_MAX).count(),
            limit: Arc::new(limit),
            by: Arc::new(by),
            cost: Cost::default(),
            mode: GateMode::Deny,
            passes_without_key: false,
            passes_unknown_tier: false,
            tally: Arc::default(),
        }
    }

    /// Lets requests wait for their turn in place of denying them; a request that would wait longer than `max_wait` is
    /// denied at once. It works like [`Entry::acquire`](tollgate::Entry::acquire). Under `gcra` and in a sliding log
    /// requests go in the order of arrival. In a window, and when a key's packed word has no room for more places,
    /// requests wait in no order. Each sleeps until it would be admitted, asks again, and may be denied at the end of
    /// its wait. Stripes and sketches have no queue, and deny.
    ///
    /// The policy of the limiter can bound the queue: `5/s burst 1 queue 50`, or `wait 450ms`
    /// ([`Policy::queue`](tollgate::Policy::queue)); pass `Duration::MAX` here if that bound suffices. With such a
    /// policy all waiting requests are in order, and a request beyond the bound is denied.
    ///
    /// A request that is dropped while it waits gives its place back if that is the last place in the queue. A request
    /// without a place has been charged nothing. `sleep` is the sleep of your runtime; the limiter's clock has to
    /// advance with it.
    ///
    /// A limit that is kept elsewhere has a queue of its own ([`GateLimit::acquire`]), which orders the requests of all
    /// nodes. That limit bounds the wait by `max_wait`, and does not use `sleep`.
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

    /// Lets a lender admit requests that the limit denies for now: spare capacity that clients share, or a larger
    /// account. The limit is charged nothing then, and the request is counted as `borrowed`.
    /// [`Entry::check_or`](tollgate::Entry::check_or) says which denials are never lent.
    ///
    /// If the layer has other gates that deny, the lender is asked only when all of these would admit. If one of them
    /// denies after all, the loan is given back. A gate either borrows, delays or is a shadow; the last call decides.
    ///
    /// If the limit or the lender is kept elsewhere, all limits decide first. The lender is asked only if the reported
    /// denial is that of this gate, for the reason [`DenialReason::OverLimit`](tollgate::DenialReason::OverLimit). By
    /// then the limit has counted the denial, if its policy counts denials. A request that is dropped while the lender
    /// is asked may leave its loan charged until the loan drains.
    ///
    #[cfg_attr(feature = "elastic", doc = "```")]
    #[cfg_attr(not(feature = "elastic"), doc = "```ignore")]
    /// use std::sync::Arc;
    /// use tollgate::{KeyedLimiter, Quota};
    /// use tollgate_elastic::SparePool;
    /// use tollgate_tower::{ClientAddress, Gate};
    /// // Over their quota clients share what the server can spare.
    /// let pool = Arc::new(SparePool::new(Quota::per_second(1_000)));
    /// let clients = KeyedLimiter::builder(Quota::per_second(10)).clock(pool.clock()).build(10_000)?;
    /// let gate = Gate::new(clients, ClientAddress::peer()).or(Arc::clone(&pool));
    /// pool.report_headroom(0.5)?;
    /// # let _ = gate;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// With a limit in Redis, and a pool that all nodes share:
    ///
    #[cfg_attr(feature = "redis", doc = "```no_run")]
    #[cfg_attr(not(feature = "redis"), doc = "```ignore")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use tollgate_redis::{RedisLimiter, Settings, SharedPool, Store};
    /// use tollgate_tower::{ClientAddress, Gate};
    /// let store = Store::open("redis://127.0.0.1/")?;
    /// let clients = RedisLimiter::new(&store, Settings::new("10/s".parse()?).name("clients"))?;
    /// let spare = Settings::new("1000/s".parse()?).name("spare");
    /// let pool = SharedPool::new(&store, spare, Duration::from_secs(3))?;
    /// let gate = Gate::new(clients, ClientAddress::peer()).or(pool.clone());
    /// pool.report_headroom(0.5)?;
    /// # let _ = gate;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn or(self, lender: impl Lend + 'static) -> Self {
        Self { mode: GateMode::Borrow { lender: Arc::new(lender) }, ..self }
    }

    /// Sets the name that headers, denials and counters show.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_tower::gates::PolicyName;
    /// use tollgate_tower::keys::Everyone;
    /// use tollgate_tower::Gate;
    /// let limit = Limiter::new(Quota::per_second(10_000));
    /// let gate = Gate::new(limit, Everyone).named(PolicyName::new("service")?);
    /// # let _ = gate;
    /// # Ok::<(), tollgate_tower::gates::NameError>(())
    /// ```
    #[must_use]
    pub fn named(self, name: PolicyName) -> Self {
        Self { problems: Arc::new(Problems::of(&name)), name, ..self }
    }

    /// Sets the cost of requests.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_tower::keys::Everyone;
    /// use tollgate_tower::Gate;
    /// let gate = Gate::new(Limiter::new(Quota::per_second(10_000)), Everyone).cost(5);
    /// # let _ = gate;
    /// ```
    #[must_use]
    pub fn cost(self, cost: impl Into<Cost>) -> Self {
        Self { cost: cost.into(), ..self }
    }

    /// Skips the gate for requests that have no key of their own. By default all such requests share one limit, so a
    /// client does not get through by leaving something out.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota};
    /// use tollgate_tower::keys::Bearer;
    /// use tollgate_tower::Gate;
    /// // Requests without a token are left to another gate.
    /// let gate = Gate::new(KeyedLimiter::new(Quota::per_second(10), 1_000)?, Bearer)
    ///     .pass_without_key();
    /// # let _ = gate;
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn pass_without_key(self) -> Self {
        Self { passes_without_key: true, ..self }
    }

    /// Skips the gate for requests whose tier is unknown, or is a tier that the limit does not have: see
    /// [`Extract::tier`]. By default the gate denies such requests, with 503, since it cannot tell how much the client
    /// may use. They are counted in either case.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota};
    /// use tollgate_tower::keys::{Bearer, Extract, Key};
    /// use tollgate_tower::Gate;
    /// #[derive(Clone)]
    /// struct Plan(usize);
    /// let tiers = KeyedLimiter::<Key>::builder(Quota::per_second(1)).tier(Quota::per_second(100));
    /// let limiter = tiers.build(1_000)?;
    /// let by = Bearer.tier(|head| head.extensions.get().map(|Plan(tier)| *tier));
    /// let gate = Gate::new(limiter, by).pass_unknown_tier();
    /// # let _ = (gate, Plan(0).0);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn pass_unknown_tier(self) -> Self {
        Self { passes_unknown_tier: true, ..self }
    }

    /// Makes the gate count the requests that it would deny, and let them through: to try a limit on real traffic.
    /// Handlers find a [`Shadowed`](crate::gates::Shadowed) in the extensions of such a request; clients are not informed.
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

    /// The policy that is in force for a tier.
    #[inline]
    pub(crate) fn policy_of(&self, tier: usize) -> Option<Policy> {
        self.limit.policy_of(tier)
    }

    pub(crate) fn is_shadow(&self) -> bool {
        matches!(self.mode, GateMode::Shadow)
    }

    /// Whether a request may have to wait for the answer of its limit or its lender.
    pub(crate) fn is_elsewhere(&self) -> bool {
        let borrows_later =
            matches!(&self.mode, GateMode::Borrow { lender } if !lender.lends_now());
        borrows_later || !has_claims(&*self.limit)
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.mode {
            GateMode::Deny => "deny",
            GateMode::Shadow => "shadow",
            GateMode::Delay { .. } => "delay",
            GateMode::Borrow { .. } => "borrow",
        };
        f.debug_struct("Gate")
            .field("name", &self.name)
            .field("policy", &self.policy_of(0))
            .field("cost", &self.cost)
            .field("mode", &mode)
            .field("passes_without_key", &self.passes_without_key)
            .finish_non_exhaustive()
    }
}
