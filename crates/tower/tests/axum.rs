//! Tests a layer behind axum's router, with its peers, routes and bodies.

use std::net::SocketAddr;

use crate::common::{keyed, text};
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::routing::{get, post};
use http::Request;
use http_body_util::BodyExt;
use tollgate::ManualClock;
use tollgate_tower::gates::Cost;
use tollgate_tower::keys::Route;
use tollgate_tower::{ClientAddress, Gate, RateLimitLayer};
use tower::ServiceExt;

fn request(method: &str, path: &str, peer: [u8; 4]) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from((peer, 4_711))));
    request
}

async fn status(app: &Router, method: &str, path: &str) -> u16 {
    app.clone().oneshot(request(method, path, [203, 0, 113, 7])).await.unwrap().status().as_u16()
}

fn app(layer: &RateLimitLayer) -> Router {
    Router::new()
        .route("/users/{id}", get(|| async { "a user" }))
        .route("/user", post(|| async { "made" }))
        .fallback(|| async { "nothing" })
        .layer(layer.clone())
}

#[tokio::test]
async fn a_client_is_the_peer_that_axum_knows() {
    let clock = ManualClock::new();
    let app = app(&RateLimitLayer::new(keyed("2/h", &clock), ClientAddress::peer()));
    assert_eq!(status(&app, "GET", "/users/1").await, 200);
    assert_eq!(status(&app, "GET", "/users/2").await, 200);
    let denied = app.clone().oneshot(request("GET", "/users/3", [203, 0, 113, 7])).await.unwrap();
    assert_eq!(denied.status(), 429);
    assert_eq!(text(denied.headers(), "retry-after"), Some("1800"));
    let body = denied.into_body().collect().await.unwrap().to_bytes();
    assert!(body.starts_with(b"{\"type\":"));
    let other = app.oneshot(request("GET", "/users/3", [203, 0, 113, 8])).await.unwrap();
    assert_eq!(other.status(), 200);
}

#[tokio::test]
async fn row_80_a_route_is_one_key_whatever_is_in_its_segments() {
    let clock = ManualClock::new();
    let app = app(&RateLimitLayer::new(keyed("2/h", &clock), (ClientAddress::peer(), Route)));
    for path in ["/users/1", "/users/2"] {
        assert_eq!(status(&app, "GET", path).await, 200);
    }
    assert_eq!(status(&app, "GET", "/users/3").await, 429);
    assert_eq!(status(&app, "POST", "/user").await, 200);
    // All requests that match no route share one key.
    let none = [status(&app, "GET", "/a").await, status(&app, "GET", "/b").await];
    assert_eq!((none, status(&app, "GET", "/c").await), ([200, 200], 429));
}

#[tokio::test]
async fn a_request_costs_what_its_route_says() {
    let clock = ManualClock::new();
    let cost = Cost::by_route([("/user", 2), ("/users/{id}", 1)], 5);
    let gate = Gate::new(keyed("5/h", &clock), ClientAddress::peer()).cost(cost);
    let app = app(&RateLimitLayer::of(gate));
    assert_eq!(status(&app, "POST", "/user").await, 200);
    assert_eq!(status(&app, "GET", "/users/7").await, 200);
    assert_eq!(status(&app, "GET", "/nowhere").await, 429);
    assert_eq!(status(&app, "POST", "/user").await, 200);
    assert_eq!(status(&app, "GET", "/users/7").await, 429);
}
