//! Tests a layer around a client, whose response bodies no other code can make; nested layers; and the report of each denial.

use std::fmt;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::common::{ask, from, gate, keyed, one, served};
use http::{Request, Response, StatusCode};
use tollgate::{Limiter, ManualClock};
use tollgate_tower::RateLimitLayer;
use tollgate_tower::denials::{DeniedError, ErrorService};
use tollgate_tower::headers::HeaderStyle;
use tollgate_tower::keys::Everyone;
use tower::{Layer, Service, ServiceExt};

/// A body that only its client makes.
#[derive(Debug, PartialEq)]
struct Foreign(&'static str);

/// The error of a client.
#[derive(Debug)]
struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection broke")
    }
}

impl std::error::Error for Broken {}

/// A client whose connection breaks on `/broken`.
#[derive(Clone)]
struct Client;

impl Service<Request<()>> for Client {
    type Response = Response<Foreign>;
    type Error = Broken;
    type Future = Ready<Result<Response<Foreign>, Broken>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        let is_broken = request.uri().path() == "/broken";
        ready(if is_broken { Err(Broken) } else { Ok(Response::new(Foreign("from afar"))) })
    }
}

fn call(
    client: &ErrorService<Client>,
    path: &str,
) -> Result<Response<Foreign>, Box<dyn std::error::Error + Send + Sync>> {
    let request = Request::get(path).body(()).unwrap();
    let mut call = Box::pin(client.clone().oneshot(request));
    let mut cx = Context::from_waker(std::task::Waker::noop());
    match call.as_mut().poll(&mut cx) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("nothing is waited for"),
    }
}

#[test]
fn before_a_client_a_denial_is_the_services_error_with_all_that_an_answer_would_tell() {
    let clock = ManualClock::new();
    let layer = RateLimitLayer::new(one("2/h", &clock), Everyone).headers(HeaderStyle::Draft10);
    let client = layer.denying_by_error().layer(Client);
    let answer = call(&client, "/").unwrap();
    assert_eq!(answer.headers()["ratelimit"], "\"default\";r=1;t=1800");
    assert_eq!(answer.into_body(), Foreign("from afar"));
    let error = call(&client, "/broken").unwrap_err();
    assert!(error.downcast_ref::<Broken>().is_some(), "{error}");
    let error = call(&client, "/").unwrap_err();
    let denied = error.downcast_ref::<DeniedError>().unwrap();
    assert_eq!(denied.to_string(), "rate limited by default: retry after 1800 s");
    assert_eq!(
        (denied.status(), denied.retry_after_secs()),
        (StatusCode::TOO_MANY_REQUESTS, Some(1_800))
    );
    assert_eq!(denied.denial().unwrap().limit(), 2);
    assert_eq!(denied.headers()["retry-after"], "1800");
    assert_eq!(denied.headers()["ratelimit"], "\"default\";r=0;t=1800");
    clock.advance(Duration::from_secs(1_800));
    assert!(call(&client, "/").is_ok());
}

/// The test passes if it compiles.
#[test]
fn a_client_of_hyper_can_stand_behind_a_layer() {
    fn is_service<S: Service<Request<()>, Response = Response<hyper::body::Incoming>>>(_: &S) {}
    let client = tower::service_fn(|_: Request<()>| {
        ready(Err::<Response<hyper::body::Incoming>, _>(Broken))
    });
    let layer = RateLimitLayer::new(Limiter::new(tollgate::Quota::per_second(9)), Everyone);
    is_service(&layer.denying_by_error().layer(client));
}

#[test]
fn a_layer_around_a_layer_tells_its_policy_under_a_name_of_its_own() {
    let clock = ManualClock::new();
    let outer = RateLimitLayer::new(one("100/m", &clock), Everyone).headers(HeaderStyle::Draft10);
    let inner = RateLimitLayer::new(one("2/m", &clock), Everyone).headers(HeaderStyle::Draft10);
    let mut service = outer.layer(served(&inner));
    let answer = ask(&mut service, Request::new(()));
    let lists = |name| answer.headers().get_all(name).iter().collect::<Vec<_>>();
    assert_eq!(lists("ratelimit-policy"), ["\"default\";q=2;w=60", "\"default-2\";q=100;w=60"]);
    assert_eq!(lists("ratelimit"), ["\"default\";r=1;t=30", "\"default-2\";r=99;t=1"]);
}

#[test]
fn each_denial_is_told_with_its_key_policy_and_peer_before_it_is_answered() {
    let clock = ManualClock::new();
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let layer = RateLimitLayer::of(gate("client", keyed("1/h", &clock)));
    let layer = layer.on_denied(move |denied| {
        let key = denied.key.unwrap().as_bytes().to_vec();
        let peer = denied.peer().unwrap().to_string();
        #[cfg(feature = "axum")]
        assert_eq!(denied.route(), None);
        let told = (denied.policy.to_string(), key, peer);
        heard.lock().unwrap().push(told);
    });
    let mut service = served(&layer);
    for peer in ["203.0.113.7", "203.0.113.8", "203.0.113.7"] {
        ask(&mut service, from(peer));
    }
    let key = b"\x04\xcb\0\x71\x07".to_vec();
    let expected = ("client".to_owned(), key, "203.0.113.7".to_owned());
    assert_eq!(*told.lock().unwrap(), [expected]);
}
