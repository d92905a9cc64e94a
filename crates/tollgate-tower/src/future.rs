//! [`ResponseFuture`]: what a call of the service returns.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::decide::Turn;
use crate::headers::Stamp;

pin_project! {
    /// The answer to a request: of the inner service, with headers; or that it is denied.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use tollgate_tower::ResponseFuture;
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
        // The inner service has been called.
        Passed { #[pin] future: S::Future, stamp: Option<Stamp> },
        // Its turn has not come. Boxed: few requests wait, and all would be as large.
        Waiting { waiting: Option<Box<Waiting<S, R>>> },
        Denied { response: Option<Response<B>> },
    }
}

struct Waiting<S, R> {
    turn: Box<Turn>,
    service: S,
    request: Request<R>,
    stamp: Option<Stamp>,
}

impl<S: Service<Request<R>>, R, B> ResponseFuture<S, R, B> {
    #[inline]
    pub(crate) fn passed(future: S::Future, stamp: Option<Stamp>) -> Self {
        Self { state: State::Passed { future, stamp } }
    }

    pub(crate) fn denied(response: Response<B>) -> Self {
        Self { state: State::Denied { response: Some(response) } }
    }

    pub(crate) fn waiting(
        turn: Box<Turn>,
        service: S,
        request: Request<R>,
        stamp: Option<Stamp>,
    ) -> Self {
        let waiting = Box::new(Waiting { turn, service, request, stamp });
        Self { state: State::Waiting { waiting: Some(waiting) } }
    }
}

impl<S, R, B> Future for ResponseFuture<S, R, B>
where
    S: Service<Request<R>, Response = Response<B>>,
{
    type Output = Result<Response<B>, S::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProjection::Passed { future, stamp } => {
                    let mut response = ready!(future.poll(cx))?;
                    if let Some(stamp) = stamp.take() {
                        stamp.put(response.headers_mut());
                    }
                    return Poll::Ready(Ok(response));
                }
                StateProjection::Waiting { waiting } => {
                    if let Some(waiting) = waiting {
                        ready!(waiting.turn.poll(cx));
                    }
                    let Some(waiting) = waiting.take() else { return Poll::Pending };
                    let Waiting { turn, mut service, request, stamp } = *waiting;
                    drop(turn);
                    let future = service.call(request);
                    state.set(State::Passed { future, stamp });
                }
                StateProjection::Denied { response } => {
                    // A future is not polled after it was ready; if it is, it has no answer.
                    return match response.take() {
                        Some(response) => Poll::Ready(Ok(response)),
                        None => Poll::Pending,
                    };
                }
            }
        }
    }
}

impl<S: Service<Request<R>>, R, B> fmt::Debug for ResponseFuture<S, R, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Passed { .. } => "passed",
            State::Waiting { .. } => "waiting",
            State::Denied { .. } => "denied",
        };
        f.debug_tuple("ResponseFuture").field(&state).finish()
    }
}
