//! An admitted request allocates only its headers.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use std::convert::Infallible;
use std::future::{Ready, ready};

use allocation_counter::measure;
use bytes::Bytes;
use common::{ask, from, keyed, one};
use http::{HeaderMap, Request, Response};
use tollgate::ManualClock;
use tollgate_tower::gates::PolicyName;
use tollgate_tower::headers::{HeaderStyle, Headers};
use tollgate_tower::keys::{Everyone, Methods, NormalPath};
use tollgate_tower::{ClientAddress, Gate, RateLimitLayer};
use tower::{Layer, Service};

const REQUESTS: usize = 1_000;

type Answered = Ready<Result<Response<Bytes>, Infallible>>;

/// A handler whose answer has room for headers, as answers of frameworks have.
fn handler() -> tower::util::ServiceFn<fn(Request<()>) -> Answered> {
    fn answer(_: Request<()>) -> Answered {
        let mut response = Response::new(Bytes::from_static(b"hello"));
        *response.headers_mut() = HeaderMap::with_capacity(8);
        ready(Ok(response))
    }
    tower::service_fn(answer)
}

/// The allocations of this many admitted requests. A first request, which registers counters, is left out.
fn allocations(layer: Option<&RateLimitLayer>) -> u64 {
    let requests = || -> Vec<_> { (0..REQUESTS).map(|_| from("203.0.113.7")).collect() };
    fn run<S>(service: &mut S, requests: Vec<Request<()>>) -> u64
    where
        S: Service<Request<()>, Response = Response<Bytes>, Error = Infallible>,
    {
        assert_eq!(ask(service, from("203.0.113.7")).status(), 200);
        let counted = measure(|| {
            for request in requests {
                assert_eq!(ask(service, request).status(), 200);
            }
        });
        counted.count_total
    }
    match layer {
        Some(layer) => run(&mut layer.layer(handler()), requests()),
        None => run(&mut handler(), requests()),
    }
}

#[test]
fn an_admitted_request_allocates_its_header_and_nothing_else() {
    let clock = ManualClock::new();
    let per_request = |layer: &RateLimitLayer| {
        let more = allocations(Some(layer)) - allocations(None);
        assert!(more.is_multiple_of(REQUESTS as u64), "{more} in {REQUESTS}");
        more / REQUESTS as u64
    };
    let client = || {
        let by = (ClientAddress::peer(), Methods, NormalPath);
        Gate::new(keyed("9999/s", &clock), by)
    };
    assert_eq!(per_request(&RateLimitLayer::of(client())), 1);
    assert_eq!(per_request(&RateLimitLayer::of(client()).headers(Headers::NONE)), 0);
    assert_eq!(per_request(&RateLimitLayer::of(client()).headers(HeaderStyle::Draft7)), 1);
    // One text for each of the three figures.
    assert_eq!(per_request(&RateLimitLayer::of(client()).headers(HeaderStyle::XRateLimit)), 3);
    let several = |headers: Headers| {
        let name = PolicyName::new("service").unwrap();
        let service = Gate::new(one("99999/s", &clock), Everyone).named(name);
        RateLimitLayer::all([client(), service]).unwrap().headers(headers)
    };
    assert_eq!(per_request(&several(HeaderStyle::Draft10.into())), 1);
    assert_eq!(per_request(&several(Headers::NONE)), 0);
    // The control: a setting that is documented to allocate shows in the count.
    assert!(per_request(&RateLimitLayer::of(client()).settle_later()) > 1);
}
