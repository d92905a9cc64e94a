//! Shared by the tests of the layer: a service, clients, and a clock that the tests move.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "not every test needs all of it, and a test fails loudly"
)]

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::net::IpAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use tollgate::{KeyedLimiter, Limiter, ManualClock, Policy};
use tollgate_tower::denials::{Deny, ProblemJson};
use tollgate_tower::gates::PolicyName;
use tollgate_tower::keys::{Key, PeerAddress};
use tollgate_tower::limits::GateLimit;
use tollgate_tower::services::RateLimit;
use tollgate_tower::{ClientAddress, Gate, RateLimitLayer};
use tower::{Layer, Service};

pub(crate) type Answer = Response<Bytes>;
type Answered = Ready<Result<Answer, Infallible>>;
pub(crate) type Inner = tower::util::ServiceFn<fn(Request<()>) -> Answered>;

/// A handler that always answers.
pub(crate) fn inner() -> Inner {
    fn hello(_: Request<()>) -> Answered {
        ready(Ok(Response::new(Bytes::from_static(b"hello"))))
    }
    tower::service_fn(hello)
}

/// A handler that answers with this body.
pub(crate) fn telling<B: Into<Bytes>>(
    body: impl Fn(&Request<()>) -> B + Clone,
) -> impl Service<Request<()>, Response = Answer, Error = Infallible, Future = Answered> + Clone {
    tower::service_fn(move |request: Request<()>| -> Answered {
        ready(Ok(Response::new(body(&request).into())))
    })
}

pub(crate) fn policy(text: &str) -> Policy {
    text.parse().unwrap()
}

pub(crate) fn keyed(text: &str, clock: &ManualClock) -> KeyedLimiter<Key> {
    KeyedLimiter::builder(policy(text)).clock(clock.clone()).build(1_000).unwrap()
}

pub(crate) fn one(text: &str, clock: &ManualClock) -> Limiter {
    Limiter::builder(policy(text)).clock(clock.clone()).build()
}

pub(crate) fn named(name: &str) -> PolicyName {
    PolicyName::new(name).unwrap()
}

/// A gate that counts each peer.
pub(crate) fn gate(name: &str, limit: impl GateLimit) -> Gate {
    Gate::new(limit, ClientAddress::peer()).named(named(name))
}

/// A request whose connection comes from this address.
pub(crate) fn from(peer: &str) -> Request<()> {
    let mut request = Request::new(());
    request.extensions_mut().insert(PeerAddress(peer.parse::<IpAddr>().unwrap()));
    request
}

/// A request from this address, with headers.
pub(crate) fn with(peer: &str, headers: &[(&'static str, &str)]) -> Request<()> {
    let mut request = from(peer);
    for (name, value) in headers {
        request.headers_mut().append(*name, value.parse().unwrap());
    }
    request
}

pub(crate) fn served<D: Deny<Bytes> + Clone>(layer: &RateLimitLayer<D>) -> RateLimit<Inner, D> {
    layer.layer(inner())
}

/// A handler that is never ready.
#[derive(Clone)]
pub(crate) struct Never;

impl Service<Request<()>> for Never {
    type Response = Answer;
    type Error = Infallible;
    type Future = Answered;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Pending
    }

    fn call(&mut self, _: Request<()>) -> Answered {
        unreachable!("it was never ready")
    }
}

pub(crate) fn is_ready<S: Service<Request<()>>>(service: &mut S) -> bool {
    service.poll_ready(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// The answer, which must be there at once.
pub(crate) fn ask<S, R>(service: &mut S, request: R) -> S::Response
where
    S: Service<R, Error = Infallible>,
{
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(service.poll_ready(&mut cx), Poll::Ready(Ok(()))));
    match pin!(service.call(request)).poll(&mut cx) {
        Poll::Ready(Ok(answer)) => answer,
        Poll::Pending => panic!("the answer is not there"),
    }
}

pub(crate) fn status<D: Deny<Bytes> + Send + Sync + 'static>(
    service: &mut RateLimit<Inner, D>,
    request: Request<()>,
) -> u16 {
    ask(service, request).status().as_u16()
}

/// The statuses of the answers to this many requests from one address.
pub(crate) fn statuses(
    service: &mut RateLimit<Inner, ProblemJson>,
    peer: &str,
    count: usize,
) -> Vec<u16> {
    (0..count).map(|_| status(service, from(peer))).collect()
}

pub(crate) fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}
