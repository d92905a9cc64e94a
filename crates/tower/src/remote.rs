//! Limits that are kept elsewhere: [`RemoteLayer`] asks, waits, and hands the answer to a [`RateLimitLayer`].
//!
//! A layer decides while it is called, but a decision from Redis takes longer. So there are two layers. The outer one
//! builds the question of its gate, asks it, and calls the inner one when the answer is there. The inner one is a
//! normal layer with its headers, denials, counters and logs; its limit is a [`ToldLimit`], which returns the decision
//! that the outer one received.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tollgate::Decision;
use tower_layer::Layer;
use tower_service::Service;

use crate::deny::{Deny, ProblemJson};
use crate::extract::{Extract, Head, NoKey};
use crate::future::ResponseFuture;
use crate::gate::{Gate, MissingKey};
use crate::key::Key;
use crate::layer::RateLimitLayer;
use crate::remote_limit::RemoteLimit;
use crate::service::RateLimit;
use crate::told::{ToldLimit, with_found};

/// Limits requests by a limit that is kept elsewhere, such as in Redis.
///
/// ```
/// # use std::pin::Pin;
/// use tollgate::{Decision, Limiter, Policy, Quota};
/// use tollgate_tower::{Answering, Everyone, Key, RemoteLayer, RemoteLimit};
///
/// /// For this example, elsewhere is here.
/// struct Elsewhere(Limiter);
///
/// impl RemoteLimit for Elsewhere {
///     fn policy(&self) -> Policy {
///         self.0.policy()
///     }
///
///     fn check<'a>(&'a self, _: &'a Key, cost: u64) -> Answering<'a> {
///         Box::pin(async move { self.0.check_n(cost) })
///     }
/// }
///
/// let layer = RemoteLayer::new(Elsewhere(Limiter::new(Quota::per_second(10))), Everyone);
/// assert!(format!("{layer:?}").starts_with("RemoteLayer"));
/// ```
pub struct RemoteLayer<D = ProblemJson> {
    gate: Arc<Gate>,
    remote: Arc<dyn RemoteLimit>,
    told: RateLimitLayer<D>,
}

impl RemoteLayer {
    /// A layer that denies what is over the limit.
    #[must_use]
    pub fn new(remote: impl RemoteLimit + 'static, by: impl Extract + 'static) -> Self {
        Self::of(remote, by, |gate| gate)
    }

    /// The same, with a gate that has a name, costs, or no key for some requests: everything that [`Gate`] offers
    /// except waiting, which would need a remote queue. A gate that waits is treated as one that denies.
    ///
    /// ```
    /// # struct Elsewhere(tollgate::Limiter);
    /// # impl tollgate_tower::RemoteLimit for Elsewhere {
    /// #     fn policy(&self) -> tollgate::Policy { self.0.policy() }
    /// #     fn check<'a>(&'a self, _: &'a tollgate_tower::Key, cost: u64) -> tollgate_tower::Answering<'a> {
    /// #         Box::pin(async move { self.0.check_n(cost) })
    /// #     }
    /// # }
    /// # let elsewhere = Elsewhere(tollgate::Limiter::new(tollgate::Quota::per_second(10)));
    /// use tollgate_tower::{Cost, Everyone, PolicyName, RemoteLayer};
    /// let name = PolicyName::new("writes")?;
    /// let layer = RemoteLayer::of(elsewhere, Everyone, |gate| {
    ///     gate.named(name).cost(Cost::by_method([(http::Method::POST, 5)], 1))
    /// });
    /// # let _ = layer;
    /// # Ok::<(), tollgate_tower::NameError>(())
    /// ```
    #[must_use]
    pub fn of(
        remote: impl RemoteLimit + 'static,
        by: impl Extract + 'static,
        gate: impl FnOnce(Gate) -> Gate,
    ) -> Self {
        let remote: Arc<dyn RemoteLimit> = Arc::new(remote);
        let gate = gate(Gate::new(ToldLimit::of(Arc::clone(&remote)), by)).prompt();
        Self { told: RateLimitLayer::of(gate.clone()), gate: Arc::new(gate), remote }
    }
}

impl<D> RemoteLayer<D> {
    /// The headers and answers that clients get, as of any [`RateLimitLayer`]. Requests that the given layer exempts
    /// are charged all the same; to exempt them, let the gate's [`Extract`] say that it does not apply. What is
    /// charged elsewhere cannot be settled here: a [`Settle`](crate::Settle) gives nothing back, charges nothing, and
    /// says so.
    ///
    /// ```
    /// # struct Elsewhere(tollgate::Limiter);
    /// # impl tollgate_tower::RemoteLimit for Elsewhere {
    /// #     fn policy(&self) -> tollgate::Policy { self.0.policy() }
    /// #     fn check<'a>(&'a self, _: &'a tollgate_tower::Key, cost: u64) -> tollgate_tower::Answering<'a> {
    /// #         Box::pin(async move { self.0.check_n(cost) })
    /// #     }
    /// # }
    /// # let elsewhere = Elsewhere(tollgate::Limiter::new(tollgate::Quota::per_second(10)));
    /// use tollgate_tower::{Everyone, HeaderStyle, RemoteLayer};
    /// let layer = RemoteLayer::new(elsewhere, Everyone).telling(|told| told.headers(HeaderStyle::XRateLimit));
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn telling<E>(
        self,
        change: impl FnOnce(RateLimitLayer<D>) -> RateLimitLayer<E>,
    ) -> RemoteLayer<E> {
        RemoteLayer { gate: self.gate, remote: self.remote, told: change(self.told) }
    }
}

impl<S, D> Layer<S> for RemoteLayer<D> {
    type Service = Remote<S, D>;

    fn layer(&self, inner: S) -> Self::Service {
        let (gate, remote) = (Arc::clone(&self.gate), Arc::clone(&self.remote));
        Remote { told: self.told.layer(inner), gate, remote }
    }
}

impl<D> Clone for RemoteLayer<D> {
    fn clone(&self) -> Self {
        let (gate, remote) = (Arc::clone(&self.gate), Arc::clone(&self.remote));
        Self { gate, remote, told: self.told.clone() }
    }
}

impl<D> fmt::Debug for RemoteLayer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteLayer").field(&self.gate).finish()
    }
}

/// The service that a [`RemoteLayer`] makes. Clones share everything.
pub struct Remote<S, D = ProblemJson> {
    told: RateLimit<S, D>,
    gate: Arc<Gate>,
    remote: Arc<dyn RemoteLimit>,
}

impl<S: Clone, D> Clone for Remote<S, D> {
    fn clone(&self) -> Self {
        let (gate, remote) = (Arc::clone(&self.gate), Arc::clone(&self.remote));
        Self { told: self.told.clone(), gate, remote }
    }
}

impl<S, D> fmt::Debug for Remote<S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Remote").field(&self.gate).finish()
    }
}

/// What the gate asks for this request, found as the layer itself finds it; `None` if the gate does not apply.
fn asked(gate: &Gate, head: &Head<'_>) -> Option<(Key, u64)> {
    let mut key = Key::new();
    match gate.by.extract(head, &mut key) {
        Ok(()) => {}
        Err(NoKey::NotConcerned) => return None,
        Err(NoKey::Missing) if gate.missing == MissingKey::Pass => return None,
        Err(NoKey::Missing) => key = Key::nobody(),
    }
    Some((key, gate.cost.of(head)))
}

/// Calls the inner layer with the decision that was received.
fn call_with<S, D, R, B>(
    told: &mut RateLimit<S, D>,
    request: Request<R>,
    found: Option<Decision>,
) -> ResponseFuture<S, R, B>
where
    S: Service<Request<R>, Response = Response<B>> + Clone,
    D: Deny<B>,
{
    with_found(found, || told.call(request))
}

impl<S, D, R, B> Service<Request<R>> for Remote<S, D>
where
    S: Service<Request<R>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    D: Deny<B> + Send + Sync + 'static,
    R: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = RemoteFuture<S, R, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.told.poll_ready(cx)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        let Some((key, cost)) = asked(&self.gate, &Head::of(&request)) else {
            return RemoteFuture::now(call_with(&mut self.told, request, None));
        };
        if let Some(found) = self.remote.check_now(&key, cost) {
            return RemoteFuture::now(call_with(&mut self.told, request, Some(found)));
        }
        let remote = Arc::clone(&self.remote);
        // Only the instance that was polled ready may be called, so it is moved and a clone stays.
        let clone = self.told.clone();
        let mut ready = std::mem::replace(&mut self.told, clone);
        RemoteFuture::later(Box::pin(async move {
            let found = remote.check(&key, cost).await;
            call_with(&mut ready, request, Some(found)).await
        }))
    }
}

type RemoteCall<S, R, B> =
    Pin<Box<dyn Future<Output = Result<Response<B>, <S as Service<Request<R>>>::Error>> + Send>>;

pin_project! {
    /// What a call of [`Remote`] returns.
    pub struct RemoteFuture<S, R, B>
    where
        S: Service<Request<R>>,
    {
        #[pin]
        state: State<S, R, B>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, R, B>
    where
        S: Service<Request<R>>,
    {
        // Decided at once.
        Now { #[pin] future: ResponseFuture<S, R, B> },
        Later { waiting: RemoteCall<S, R, B> },
    }
}

impl<S: Service<Request<R>>, R, B> RemoteFuture<S, R, B> {
    fn now(future: ResponseFuture<S, R, B>) -> Self {
        Self { state: State::Now { future } }
    }

    fn later(waiting: RemoteCall<S, R, B>) -> Self {
        Self { state: State::Later { waiting } }
    }
}

impl<S, R, B> Future for RemoteFuture<S, R, B>
where
    S: Service<Request<R>, Response = Response<B>>,
{
    type Output = Result<Response<B>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Now { future } => future.poll(cx),
            StateProjection::Later { waiting } => waiting.as_mut().poll(cx),
        }
    }
}

impl<S: Service<Request<R>>, R, B> fmt::Debug for RemoteFuture<S, R, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Now { .. } => "now",
            State::Later { .. } => "later",
        };
        f.debug_tuple("RemoteFuture").field(&state).finish()
    }
}
