//! [`RateLimitLayer`]: gates, and the headers and answers that clients get.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Response;
use ipnet::IpNet;
use tollgate_http::headers::Headers;
use tollgate_http::headers::write::secs_up;
use tollgate_http::keys::{Extract, Head, Warnings};
use tower_layer::Layer;

use crate::ask::GATES_MAX;
use crate::decide::GateRules;
use crate::deny::{Denied, DenyWith, ProblemJson};
use crate::error::LayerError;
use crate::gate::{Gate, GateMode};
use crate::limit::{GateLimit, has_claims};
use crate::service::RateLimit;
use crate::shared::LayerState;

/// A tower layer that passes on the requests that its gates admit.
///
/// All clones of a layer, and all services that it makes, share one state: however many connections a server has, a
/// client has one limit. The type parameter is the maker of answers to denied requests. It has a default, so that a
/// struct can name the type of a layer.
///
/// A request is decided once, when the service is called. A denied request never reaches the inner service. If a limit
/// is kept elsewhere, such as in Redis, the request waits for its decision.
///
/// ```
/// use tollgate::{KeyedLimiter, Quota};
/// use tollgate_tower::{ClientAddress, RateLimitLayer};
/// // 10 requests a second for each client, for 100,000 clients at a time.
/// let clients = KeyedLimiter::new(Quota::per_second(10), 100_000)?;
/// let layer: RateLimitLayer = RateLimitLayer::new(clients, ClientAddress::peer());
/// # let _ = layer;
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct RateLimitLayer<D = ProblemJson> {
    pub(crate) shared: Arc<LayerState<D>>,
}

impl RateLimitLayer {
    /// A layer with one gate.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_tower::keys::Everyone;
    /// use tollgate_tower::RateLimitLayer;
    /// let layer = RateLimitLayer::new(Limiter::new(Quota::per_second(10_000)), Everyone);
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn new(limit: impl GateLimit, by: impl Extract + 'static) -> Self {
        Self::of(Gate::new(limit, by))
    }

    /// A layer with this gate.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_tower::keys::Everyone;
    /// use tollgate_tower::{Gate, RateLimitLayer};
    /// let gate = Gate::new(Limiter::new(Quota::per_second(10_000)), Everyone).cost(2);
    /// let layer = RateLimitLayer::of(gate);
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn of(gate: Gate) -> Self {
        Self::through(vec![gate])
    }

    /// A layer with several gates: a request either passes all of them and is charged at each, or is charged at none.
    /// Headers report the most restrictive gate.
    ///
    /// Either all limits are of this process, or all are kept elsewhere. In the second case all gates but shadows need
    /// stores that can charge all of them or none ([`GateLimit::is_charged_with`]); for limits in Redis the bounds of
    /// `tollgate_redis::check_all` hold. A mixture is refused, because while the store is asked, the limit of this
    /// process would be charged for a request that may be denied, or would admit requests that it can no longer charge.
    /// For a mixture use two layers, with the limit of this process in the outer one: the store is then not asked about
    /// requests that the outer layer denies.
    ///
    /// # Errors
    /// Fails if there is no gate or more than 8, if two gates have the same name, if a gate that delays is not the only
    /// one, or if a limit cannot be charged together with the first.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Limiter, Quota};
    /// use tollgate_tower::gates::PolicyName;
    /// use tollgate_tower::keys::Everyone;
    /// use tollgate_tower::{ClientAddress, Gate, RateLimitLayer};
    /// let service = Limiter::new(Quota::per_second(10_000));
    /// let clients = KeyedLimiter::new(Quota::per_second(10), 100_000)?;
    /// let layer = RateLimitLayer::all([
    ///     Gate::new(clients, ClientAddress::peer()).named(PolicyName::new("client")?),
    ///     Gate::new(service, Everyone).named(PolicyName::new("service")?),
    /// ])?;
    /// # let _ = layer;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Limits in Redis:
    ///
    #[cfg_attr(feature = "redis", doc = "```no_run")]
    #[cfg_attr(not(feature = "redis"), doc = "```ignore")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tollgate_redis::{RedisLimiter, Settings, Store};
    /// use tollgate_tower::gates::PolicyName;
    /// use tollgate_tower::keys::Everyone;
    /// use tollgate_tower::{ClientAddress, Gate, RateLimitLayer};
    /// let store = Store::open("redis://127.0.0.1/")?;
    /// let limit = |policy: &str, name: &str| -> Result<_, Box<dyn std::error::Error>> {
    ///     Ok(RedisLimiter::new(&store, Settings::new(policy.parse()?).name(name))?)
    /// };
    /// let layer = RateLimitLayer::all([
    ///     Gate::new(limit("10/s", "clients")?, ClientAddress::peer()).named(PolicyName::new("client")?),
    ///     Gate::new(limit("1000/s", "service")?, Everyone).named(PolicyName::new("service")?),
    /// ])?;
    /// # let _ = layer;
    /// # Ok(())
    /// # }
    /// ```
    pub fn all(gates: impl IntoIterator<Item = Gate>) -> Result<Self, LayerError> {
        Ok(Self::through(checked(gates.into_iter().collect())?))
    }
}

/// Returns the gates if they may stand in one layer: there are not too many, no two have the same name, a gate that
/// delays is alone, and the limits of all gates that deny can be charged together.
fn checked(gates: Vec<Gate>) -> Result<Vec<Gate>, LayerError> {
    if gates.is_empty() {
        return Err(LayerError::NoGate);
    }
    if gates.len() > GATES_MAX {
        return Err(LayerError::TooManyGates { count: gates.len() });
    }
    for (index, gate) in gates.iter().enumerate() {
        if gates[..index].iter().any(|earlier| earlier.name == gate.name) {
            return Err(LayerError::SameName { name: gate.name.clone() });
        }
        if matches!(gate.mode, GateMode::Delay { .. }) && gates.len() > 1 {
            return Err(LayerError::DelayAmongSeveral { name: gate.name.clone() });
        }
    }
    // The limits of shadow gates must be kept where those of the other gates are. Otherwise limits of this process
    // would be charged, or would borrow, before a shadow gate that is kept elsewhere has answered.
    let is_here = |gate: &Gate| has_claims(&*gate.limit);
    if let Some(apart) = gates.iter().find(|gate| is_here(gate) != is_here(&gates[0])) {
        return Err(LayerError::Apart { name: apart.name.clone() });
    }
    let mut denying = gates.iter().filter(|gate| !gate.is_shadow());
    if let Some(first) = denying.next()
        && let Some(apart) = denying.find(|gate| !first.limit.is_charged_with(&*gate.limit))
    {
        return Err(LayerError::Apart { name: apart.name.clone() });
    }
    Ok(gates)
}

impl RateLimitLayer {
    fn through(gates: Vec<Gate>) -> Self {
        Self { shared: Arc::new(LayerState { rules: GateRules::of(gates), deny: ProblemJson }) }
    }
}

impl<D: Clone> RateLimitLayer<D> {
    fn with(self, change: impl FnOnce(&mut LayerState<D>)) -> Self {
        let mut shared = Arc::unwrap_or_clone(self.shared);
        change(&mut shared);
        Self { shared: Arc::new(shared) }
    }

    /// Sets the headers of answers.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_tower::headers::HeaderStyle;
    /// use tollgate_tower::keys::Everyone;
    /// use tollgate_tower::RateLimitLayer;
    /// let layer = RateLimitLayer::new(Limiter::new(Quota::per_second(9)), Everyone)
    ///     .headers([HeaderStyle::Draft10, HeaderStyle::XRateLimit]);
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn headers(self, headers: impl Into<Headers>) -> Self {
        let headers = headers.into();
        self.with(|shared| shared.rules = shared.rules.clone().telling(headers))
    }

    /// Adds up to this much to the `Retry-After` of denied requests, differently for each key, so that clients which
    /// were denied together do not come back together. It never shortens the wait. The maximum is rounded up to whole
    /// seconds.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_tower::keys::Everyone;
    /// use tollgate_tower::RateLimitLayer;
    /// let layer = RateLimitLayer::new(Limiter::new(Quota::per_minute(9)), Everyone)
    ///     .jitter(Duration::from_secs(5));
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn jitter(self, most: Duration) -> Self {
        self.with(|shared| shared.rules.jitter_secs = secs_up(most))
    }

    /// Lets requests pass for which this function returns `true`, as if there were no layer. Several functions may be
    /// added.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_tower::keys::Everyone;
    /// use tollgate_tower::RateLimitLayer;
    /// let layer = RateLimitLayer::new(Limiter::new(Quota::per_second(9)), Everyone)
    ///     .exempt(|head| head.uri.path() == "/healthz");
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn exempt(self, is_exempt: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.with(|shared| shared.rules.exempt.push(Arc::new(is_exempt)))
    }

    /// Lets requests pass whose connection comes from these networks, as if there were no layer. Only the address of
    /// the connection counts; headers do not. Do not list a proxy's address here: all of its clients would be exempt.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_tower::keys::Everyone;
    /// use tollgate_tower::RateLimitLayer;
    /// let layer = RateLimitLayer::new(Limiter::new(Quota::per_second(9)), Everyone)
    ///     .exempt_peers(["127.0.0.0/8".parse()?, "::1/128".parse()?]);
    /// # let _ = layer;
    /// # Ok::<(), ipnet::AddrParseError>(())
    /// ```
    #[must_use]
    pub fn exempt_peers(self, networks: impl IntoIterator<Item = IpNet>) -> Self {
        self.with(|shared| shared.rules.exempt_peers = networks.into_iter().collect())
    }

    /// Calls this function for each denied request before it is answered, with its key, peer and route: for a log or
    /// metrics of your own. Several functions may be added. They run while the request is decided, so they must not
    /// block.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_tower::keys::Everyone;
    /// use tollgate_tower::RateLimitLayer;
    /// let layer = RateLimitLayer::new(Limiter::new(Quota::per_second(9)), Everyone)
    ///     .on_denied(|denied| eprintln!("{} denied {:?}", denied.policy, denied.peer()));
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn on_denied(self, tell: impl Fn(&Denied<'_>) + Send + Sync + 'static) -> Self {
        self.with(|shared| shared.rules.on_denied.push(Arc::new(tell)))
    }

    /// Puts a [`Settle`](crate::gates::Settle) into the extensions of each admitted request, to correct the charge once the
    /// real cost is known. This takes two more allocations for each request.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_tower::keys::Everyone;
    /// use tollgate_tower::{Gate, RateLimitLayer};
    /// let tokens = Gate::new(Limiter::new(Quota::per_minute(100_000)), Everyone).cost(500);
    /// let layer = RateLimitLayer::of(tokens).settle_later();
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn settle_later(self) -> Self {
        self.with(|shared| shared.rules.settle = true)
    }

    /// Answers denied requests by a function, which sets status, body and headers; rate limit headers and
    /// `Retry-After` are added.
    ///
    /// ```
    /// use http::Response;
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_tower::keys::Everyone;
    /// use tollgate_tower::RateLimitLayer;
    /// let layer = RateLimitLayer::new(Limiter::new(Quota::per_second(9)), Everyone)
    ///     .deny_with(|denied| {
    ///         let mut response = Response::new(String::from("slow down"));
    ///         *response.status_mut() = denied.status();
    ///         response
    ///     });
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn deny_with<B>(
        self,
        function: impl Fn(&Denied<'_>) -> Response<B> + Send + Sync + 'static,
    ) -> RateLimitLayer<DenyWith<B>> {
        self.answering(DenyWith::new(function))
    }

    /// Answers denied requests with a gRPC status: see [`GrpcStatus`](crate::denials::GrpcStatus). Needs the feature
    /// `grpc`.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_tower::keys::Everyone;
    /// use tollgate_tower::RateLimitLayer;
    /// let layer = RateLimitLayer::new(Limiter::new(Quota::per_second(9)), Everyone).grpc();
    /// # let _ = layer;
    /// ```
    #[cfg(feature = "grpc")]
    #[must_use]
    pub fn grpc(self) -> RateLimitLayer<crate::denials::GrpcStatus> {
        self.answering(crate::denials::GrpcStatus)
    }

    /// Answers denied requests by your own [`Deny`](crate::denials::Deny).
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_tower::denials::ProblemJson;
    /// use tollgate_tower::keys::Everyone;
    /// use tollgate_tower::RateLimitLayer;
    /// let layer = RateLimitLayer::new(Limiter::new(Quota::per_second(9)), Everyone)
    ///     .answering(ProblemJson);
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn answering<E>(self, deny: E) -> RateLimitLayer<E> {
        let LayerState { rules, .. } = Arc::unwrap_or_clone(self.shared);
        RateLimitLayer { shared: Arc::new(LayerState { rules, deny }) }
    }

    /// The configuration mistakes that requests have shown so far. With the feature `tracing` each is also logged,
    /// once.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_tower::keys::Everyone;
    /// use tollgate_tower::services::Warnings;
    /// use tollgate_tower::RateLimitLayer;
    /// let layer = RateLimitLayer::new(Limiter::new(Quota::per_second(9)), Everyone);
    /// assert_eq!(layer.warnings(), Warnings::NONE);
    /// ```
    #[must_use]
    pub fn warnings(&self) -> Warnings {
        let all = self.shared.rules.gates.iter().map(|gate| gate.by.warnings());
        all.fold(Warnings::NONE, Warnings::and)
    }
}

impl<S, D> Layer<S> for RateLimitLayer<D> {
    type Service = RateLimit<S, D>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit::new(inner, Arc::clone(&self.shared))
    }
}

/// A clone shares its limits with the original.
impl<D> Clone for RateLimitLayer<D> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<D> fmt::Debug for RateLimitLayer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer")
            .field("gates", &self.shared.rules.gates)
            .field("headers", &self.shared.rules.headers)
            .finish_non_exhaustive()
    }
}
