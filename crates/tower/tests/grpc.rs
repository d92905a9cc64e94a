//! Denials of gRPC, as tonic's client reads them.

use std::convert::Infallible;
use std::future::{Ready, ready};

use http::{Request, Response};
use prost::Message;
use tollgate::{Limiter, ManualClock, Quota};
use tollgate_tower::denials::GrpcStatus;
use tollgate_tower::gates::PolicyName;
use tollgate_tower::keys::Everyone;
use tollgate_tower::{Gate, RateLimitLayer};
use tonic::body::Body;
use tower::{Layer, ServiceExt};

/// `google.rpc.Status` and `google.rpc.RetryInfo`, as their definitions number the fields.
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<prost_types::Duration>,
}

/// A handler with an empty answer.
fn empty(_: Request<Body>) -> Ready<Result<Response<Body>, Infallible>> {
    ready(Ok(Response::new(Body::default())))
}

#[tokio::test]
async fn a_denied_call_is_resource_exhausted_and_says_when_to_retry() {
    let limit = Limiter::builder(Quota::per_minute(1)).clock(ManualClock::new()).build();
    let name = PolicyName::new("100 % of calls").unwrap();
    let layer: RateLimitLayer<GrpcStatus> =
        RateLimitLayer::of(Gate::new(limit, Everyone).named(name)).grpc();
    let service = layer.layer(tower::service_fn(empty));
    let admitted = service.clone().oneshot(Request::new(Body::default())).await.unwrap();
    assert!(tonic::Status::from_header_map(admitted.headers()).is_none());
    let denied = service.oneshot(Request::new(Body::default())).await.unwrap();
    assert_eq!(denied.status(), 200);
    assert_eq!(denied.headers()["content-type"], "application/grpc");
    assert_eq!(denied.headers()["retry-after"], "60");
    let status = tonic::Status::from_header_map(denied.headers()).unwrap();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    assert_eq!(status.message(), "100 % of calls: rate limited: retry after 60s");
    let details = Status::decode(status.details()).unwrap();
    assert_eq!((details.code, &*details.message), (8, status.message()));
    assert_eq!(details.details[0].type_url, "type.googleapis.com/google.rpc.RetryInfo");
    let retry = RetryInfo::decode(&*details.details[0].value).unwrap();
    assert_eq!(retry.retry_delay.map(|delay| (delay.seconds, delay.nanos)), Some((60, 0)));
}

#[tokio::test]
async fn a_cost_that_never_fits_has_no_retry_info() {
    let limit = Limiter::builder(Quota::per_minute(1)).clock(ManualClock::new()).build();
    let layer = RateLimitLayer::of(Gate::new(limit, Everyone).cost(2)).grpc();
    let service = layer.layer(tower::service_fn(empty));
    let denied = service.oneshot(Request::new(Body::default())).await.unwrap();
    let status = tonic::Status::from_header_map(denied.headers()).unwrap();
    let details = Status::decode(status.details()).unwrap();
    assert_eq!((details.code, details.details.len()), (8, 0));
}
