//! [`RateLimit`]: the service that a layer makes.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tollgate_http::headers::write::Stamp;
use tollgate_http::keys::Head;
use tower_service::Service;

use crate::decide::{GateVerdict, PassMarks, Rare};
use crate::delay::Resume;
use crate::deny::{Deny, ProblemJson};
use crate::future::ResponseFuture;
use crate::shared::LayerState;

/// A service behind the gates of a [`RateLimitLayer`](crate::RateLimitLayer).
///
/// It is ready when the inner service is. A request is decided once, when the service is called; if it is denied, the
/// inner service is not called and stays ready. If a limit is kept elsewhere, the future of the call waits for the
/// decision.
///
/// ```
/// use tollgate::{Limiter, Quota};
/// use tollgate_tower::keys::Everyone;
/// use tollgate_tower::services::RateLimit;
/// use tollgate_tower::RateLimitLayer;
/// use tower_layer::Layer;
/// struct Inner;
/// let layer = RateLimitLayer::new(Limiter::new(Quota::per_second(9)), Everyone);
/// let service: RateLimit<Inner> = layer.layer(Inner);
/// # let _ = service;
/// ```
pub struct RateLimit<S, D = ProblemJson> {
    pub(crate) inner: S,
    pub(crate) shared: Arc<LayerState<D>>,
}

impl<S, D> RateLimit<S, D> {
    pub(crate) fn new(inner: S, shared: Arc<LayerState<D>>) -> Self {
        Self { inner, shared }
    }

    /// The service behind the gates.
    ///
    /// ```
    /// use tollgate_tower::services::RateLimit;
    /// fn behind(service: &RateLimit<String>) -> &String {
    ///     service.inner()
    /// }
    /// ```
    #[must_use]
    pub fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S, D, R, B> Service<Request<R>> for RateLimit<S, D>
where
    S: Service<Request<R>, Response = Response<B>> + Clone,
    D: Deny<B> + Send + Sync + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = ResponseFuture<S, R, B>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, request: Request<R>) -> Self::Future {
        match self.shared.rules.decide(&Head::of(&request)) {
            GateVerdict::Pass(stamp) => {
                ResponseFuture { called: Some(self.inner.call(request)), stamp, uncalled: None }
            }
            GateVerdict::Rare(rare) => rarely(&mut self.inner, &self.shared, request, *rare),
        }
    }
}

#[inline(never)]
fn rarely<S, D, R, B>(
    inner: &mut S,
    layer: &Arc<LayerState<D>>,
    mut request: Request<R>,
    rare: Rare<'_>,
) -> ResponseFuture<S, R, B>
where
    S: Service<Request<R>, Response = Response<B>> + Clone,
    D: Deny<B> + Send + Sync + 'static,
{
    match rare {
        Rare::Note(marks) => {
            let stamp = marks.note(&mut request);
            ResponseFuture { called: Some(inner.call(request)), stamp, uncalled: None }
        }
        Rare::Wait(waiting, marks) => {
            let stamp = marks.note(&mut request);
            // Only the instance that was polled ready may be called, so it is moved, and a clone takes its place.
            let clone = inner.clone();
            let ready = mem::replace(inner, clone);
            let layer: Arc<dyn Resume<R, B>> = Arc::<LayerState<D>>::clone(layer);
            ResponseFuture::waiting(waiting, layer, ready, request, stamp)
        }
        Rare::Deny(refusal) => ResponseFuture::denied(layer.answer(refusal, Head::of(&request))),
    }
}

impl PassMarks {
    /// Puts the extensions for the handler into the request, and returns the headers for the answer.
    pub(crate) fn note<R>(self, request: &mut Request<R>) -> Stamp {
        if let Some(settle) = self.settle {
            request.extensions_mut().insert(settle);
        }
        if let Some(shadowed) = self.shadowed {
            request.extensions_mut().insert(shadowed);
        }
        self.stamp
    }
}

/// A clone shares its limits with the original.
impl<S: Clone, D> Clone for RateLimit<S, D> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<S: fmt::Debug, D> fmt::Debug for RateLimit<S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("inner", &self.inner)
            .field("gates", &self.shared.rules.gates)
            .finish_non_exhaustive()
    }
}
