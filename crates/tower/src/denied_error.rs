//! [`DeniedError`]: a denied request as the error of the service, for services whose bodies cannot be made from bytes.
//!
//! A body of a hyper client comes from its connection and cannot be made from bytes. So the service that decides uses
//! [`ErrorBody`], which is either the body of an answer or a denial. The service around it turns the denial into an
//! error.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{HeaderMap, Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tollgate::Denial;
use tollgate_http::headers::PolicyName;
use tower_layer::Layer;
use tower_service::Service;

use crate::deny::{Denied, Deny};
use crate::layer::RateLimitLayer;
use crate::service::RateLimit;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A denied request, as the error of a service behind an [`ErrorLayer`].
///
/// ```
/// use tollgate_tower::denials::DeniedError;
/// fn seconds_to_wait(error: &(dyn std::error::Error + 'static)) -> Option<u64> {
///     error.downcast_ref::<DeniedError>()?.retry_after_secs()
/// }
/// ```
#[derive(Clone, Debug)]
pub struct DeniedError {
    policy: PolicyName,
    denial: Option<Denial>,
    retry_after_secs: Option<u64>,
    status: StatusCode,
    headers: HeaderMap,
}

impl DeniedError {
    /// The policy that denied.
    #[must_use]
    pub const fn policy(&self) -> &PolicyName {
        &self.policy
    }

    /// The denial; `None` if the key is under a tier that the limit does not have.
    #[must_use]
    pub const fn denial(&self) -> Option<&Denial> {
        self.denial.as_ref()
    }

    /// The seconds to wait, jitter included. `None` if waiting does not help.
    #[must_use]
    pub const fn retry_after_secs(&self) -> Option<u64> {
        self.retry_after_secs
    }

    /// The status that an answer to the denied request would have: see [`Denied::status`].
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The headers that an answer to the denied request would have: those of the layer's styles, and `Retry-After`.
    #[must_use]
    pub const fn headers(&self) -> &HeaderMap {
        &self.headers
    }
}

impl fmt::Display for DeniedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rate limited by {}: ", self.policy)?;
        match (self.denial, self.retry_after_secs) {
            (Some(_), Some(seconds)) => write!(f, "retry after {seconds} s"),
            (Some(denial), None) => write!(f, "{denial}"),
            (None, _) => f.write_str("there is no quota for this client"),
        }
    }
}

impl std::error::Error for DeniedError {}

/// The body of an answer, or a denial in place of an answer.
#[derive(Debug)]
pub enum ErrorBody<B> {
    /// The inner service answered.
    Answer(B),
    /// The request was denied.
    Denied(Box<DeniedError>),
}

/// The [`Deny`] that makes a [`DeniedError`] in place of an answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsError;

impl<B> Deny<ErrorBody<B>> for AsError {
    fn deny(&self, denied: &Denied<'_>) -> Response<ErrorBody<B>> {
        Response::new(ErrorBody::Denied(Box::new(DeniedError {
            policy: denied.policy.clone(),
            denial: denied.denial.copied(),
            retry_after_secs: denied.retry_after_secs,
            status: denied.status(),
            headers: HeaderMap::new(),
        })))
    }
}

impl<D: Clone> RateLimitLayer<D> {
    /// Fails with a [`DeniedError`](crate::denials::DeniedError) in place of an answer to a denied request. Use it around a
    /// client whose bodies cannot be made from bytes, such as `hyper::body::Incoming`. The service's error becomes a
    /// `Box<dyn Error + Send + Sync>`, which also holds the errors of the inner service.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use std::convert::Infallible;
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_tower::denials::DeniedError;
    /// use tollgate_tower::keys::Everyone;
    /// use tollgate_tower::RateLimitLayer;
    /// use tower::{Layer, ServiceExt, service_fn};
    ///
    /// /// A body that only its client makes.
    /// struct Incoming(());
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let client = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(Incoming(()))));
    /// let calls = Limiter::new(Quota::per_hour(1));
    /// let client = RateLimitLayer::new(calls, Everyone).denying_by_error().layer(client);
    /// assert!(client.clone().oneshot(Request::new(())).await.is_ok());
    /// let error = client.oneshot(Request::new(())).await.err().expect("the second is denied");
    /// let denied = error.downcast_ref::<DeniedError>().expect("a denial");
    /// assert_eq!(denied.to_string(), "rate limited by default: retry after 3600 s");
    /// # });
    /// ```
    #[must_use]
    pub fn denying_by_error(self) -> ErrorLayer {
        ErrorLayer(self.answering(AsError))
    }
}

/// A layer whose services fail with a [`DeniedError`] where a request is denied:
/// [`RateLimitLayer::denying_by_error`].
///
/// ```
/// use tollgate::{Limiter, Quota};
/// use tollgate_tower::denials::ErrorLayer;
/// use tollgate_tower::keys::Everyone;
/// use tollgate_tower::RateLimitLayer;
/// let calls = Limiter::new(Quota::per_second(9));
/// let layer: ErrorLayer = RateLimitLayer::new(calls, Everyone).denying_by_error();
/// # let _ = layer;
/// ```
pub struct ErrorLayer(pub(crate) RateLimitLayer<AsError>);

/// The service that an [`ErrorLayer`] makes. Its error is a `Box<dyn Error + Send + Sync>`: a [`DeniedError`], or the
/// error of the inner service.
pub struct ErrorService<S>(RateLimit<AnswerBody<S>, AsError>);

impl<S> Layer<S> for ErrorLayer {
    type Service = ErrorService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ErrorService(self.0.layer(AnswerBody(inner)))
    }
}

impl Clone for ErrorLayer {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Clone> Clone for ErrorService<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl fmt::Debug for ErrorLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ErrorLayer").field(&self.0).finish()
    }
}

impl<S: fmt::Debug> fmt::Debug for ErrorService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ErrorService").field(&self.0).finish()
    }
}

/// The inner service, with each of its bodies wrapped in [`ErrorBody::Answer`].
#[derive(Clone, Debug)]
pub struct AnswerBody<S>(S);

impl<S, R, B> Service<Request<R>> for AnswerBody<S>
where
    S: Service<Request<R>, Response = Response<B>>,
{
    type Response = Response<ErrorBody<B>>;
    type Error = S::Error;
    type Future = AnswerFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        AnswerFuture { future: self.0.call(request) }
    }
}

pin_project! {
    /// The answer of the inner service.
    #[derive(Debug)]
    pub struct AnswerFuture<F> {
        #[pin]
        future: F,
    }
}

impl<F, B, E> Future for AnswerFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<ErrorBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.project().future.poll(cx);
        polled.map(|answer| answer.map(|answer| answer.map(ErrorBody::Answer)))
    }
}

impl<S, R, B> Service<Request<R>> for ErrorService<S>
where
    S: Service<Request<R>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    RateLimit<AnswerBody<S>, AsError>:
        Service<Request<R>, Response = Response<ErrorBody<B>>, Error = S::Error>,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = ErrorFuture<<RateLimit<AnswerBody<S>, AsError> as Service<Request<R>>>::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        ErrorFuture { future: self.0.call(request) }
    }
}

pin_project! {
    /// The answer to a request, or a [`DeniedError`].
    #[derive(Debug)]
    pub struct ErrorFuture<F> {
        #[pin]
        future: F,
    }
}

impl<F, B, E> Future for ErrorFuture<F>
where
    F: Future<Output = Result<Response<ErrorBody<B>>, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Response<B>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(answer) = self.project().future.poll(cx) else { return Poll::Pending };
        let (head, body) = match answer {
            Ok(answer) => answer.into_parts(),
            Err(error) => return Poll::Ready(Err(error.into())),
        };
        Poll::Ready(match body {
            ErrorBody::Answer(body) => Ok(Response::from_parts(head, body)),
            // Keeps the headers that the layer has put on the answer.
            ErrorBody::Denied(denied) => {
                Err(Box::new(DeniedError { headers: head.headers, ..*denied }))
            }
        })
    }
}
