//! [`ResponseFuture`]: the future that a call of the service returns.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tollgate_http::headers::write::Stamp;
use tower_service::Service;

use crate::delay::{Next, Resume};
use crate::queue::Waiting;

pin_project! {
    /// The answer to a request: that of the inner service, with headers added, or a denial.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use tollgate_tower::services::ResponseFuture;
    /// use tower_service::Service;
    /// fn is_sent_to_another_thread<S>(future: ResponseFuture<S, (), ()>)
    /// where
    ///     S: Service<Request<()>, Response = Response<()>, Future: Send> + Send,
    /// {
    ///     fn sent(_: impl Send) {}
    ///     sent(future);
    /// }
    /// ```
    pub struct ResponseFuture<S, R, B>
    where
        S: Service<Request<R>>,
    {
        // The future of the inner service, once that has been called. It is a field and not a variant of an enum, so
        // that the large future is constructed in its final place.
        #[pin]
        pub(crate) called: Option<S::Future>,
        // The headers for the answer.
        pub(crate) stamp: Stamp,
        // The request, as long as the inner service has not been called.
        pub(crate) uncalled: Option<Uncalled<S, R, B>>,
    }
}

/// A request for which the inner service is not called, or not yet. The variants are boxed, because they are rare and
/// would enlarge every future.
pub(crate) enum Uncalled<S, R, B> {
    Waiting(Box<DelayedRequest<S, R, B>>),
    Denied(Box<Response<B>>),
}

/// A request that waits.
pub(crate) struct DelayedRequest<S, R, B> {
    waiting: Waiting,
    layer: Arc<dyn Resume<R, B>>,
    service: S,
    request: Request<R>,
}

impl<S, R, B> DelayedRequest<S, R, B> {
    /// Ready when the request may be passed on, or is denied after all. Each new decision replaces the headers in
    /// `stamp`.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        stamp: &mut Stamp,
    ) -> Poll<Result<(), Box<Response<B>>>> {
        loop {
            let next = match &mut self.waiting {
                Waiting::Turn(turn) => match ready!(turn.poll(cx)) {
                    Some(waiter) => self.layer.ask_again(turn, waiter, &mut self.request),
                    // The turn of the request has come.
                    None => return Poll::Ready(Ok(())),
                },
                Waiting::Answers(asking) => {
                    let answered = ready!(asking.as_mut().poll(cx));
                    self.layer.answered(answered, &mut self.request)
                }
            };
            match next {
                Next::Call(told) => {
                    *stamp = told;
                    return Poll::Ready(Ok(()));
                }
                Next::Wait(waiting, told) => (self.waiting, *stamp) = (*waiting, told),
                Next::Deny(response) => return Poll::Ready(Err(response)),
            }
        }
    }
}

impl<S: Service<Request<R>>, R, B> ResponseFuture<S, R, B> {
    pub(crate) fn denied(response: Response<B>) -> Self {
        let uncalled = Uncalled::Denied(Box::new(response));
        Self { called: None, stamp: Stamp::NOTHING, uncalled: Some(uncalled) }
    }

    pub(crate) fn waiting(
        waiting: Waiting,
        layer: Arc<dyn Resume<R, B>>,
        service: S,
        request: Request<R>,
        stamp: Stamp,
    ) -> Self {
        let waiting = DelayedRequest { waiting, layer, service, request };
        Self { called: None, stamp, uncalled: Some(Uncalled::Waiting(Box::new(waiting))) }
    }
}

impl<S, R, B> Future for ResponseFuture<S, R, B>
where
    S: Service<Request<R>, Response = Response<B>>,
{
    type Output = Result<Response<B>, S::Error>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.as_mut().project();
        match this.called.as_pin_mut() {
            Some(future) => stamped(future, this.stamp, cx),
            None => self.poll_uncalled(cx),
        }
    }
}

impl<S, R, B> ResponseFuture<S, R, B>
where
    S: Service<Request<R>, Response = Response<B>>,
{
    // This is a separate function, so that the common state needs none of its stack space.
    #[inline(never)]
    fn poll_uncalled(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Response<B>, S::Error>> {
        let mut this = self.project();
        if let Some(Uncalled::Waiting(waiting)) = this.uncalled
            && let Err(denied) = ready!(waiting.poll(cx, this.stamp))
        {
            *this.uncalled = Some(Uncalled::Denied(denied));
        }
        match this.uncalled.take() {
            Some(Uncalled::Waiting(waiting)) => {
                let DelayedRequest { waiting, mut service, request, .. } = *waiting;
                drop(waiting);
                this.called.set(Some(service.call(request)));
                match this.called.as_pin_mut() {
                    Some(future) => stamped(future, this.stamp, cx),
                    None => Poll::Pending,
                }
            }
            Some(Uncalled::Denied(response)) => Poll::Ready(Ok(*response)),
            // A future must not be polled after it was ready; if it is, it stays pending.
            None => Poll::Pending,
        }
    }
}

/// Adds the headers to the answer where it stands, so that the answer is not moved.
#[inline]
fn stamped<F, B, E>(
    future: Pin<&mut F>,
    stamp: &mut Stamp,
    cx: &mut Context<'_>,
) -> Poll<Result<Response<B>, E>>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    let mut polled = future.poll(cx);
    if let Poll::Ready(Ok(response)) = &mut polled {
        stamp.put(response.headers_mut());
    }
    polled
}

impl<S: Service<Request<R>>, R, B> fmt::Debug for ResponseFuture<S, R, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.uncalled {
            None => "passed",
            Some(Uncalled::Waiting(_)) => "waiting",
            Some(Uncalled::Denied(_)) => "denied",
        };
        f.debug_tuple("ResponseFuture").field(&state).finish()
    }
}
