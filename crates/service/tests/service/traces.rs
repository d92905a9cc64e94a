//! Tests the traces that a collector of OpenTelemetry receives over OTLP.

use std::time::Duration;

use axum::http::StatusCode;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::json;
use tollgate_service::{Options, OtlpProtocol, TraceSampling, Traces};
use tonic::Request;

use crate::common::reports::{CollectorMood, attribute, collector, collector_over_http, hex};
use crate::common::{World, descriptor, directory, raw, refused, request, serve_with};

const RULES: &str = "
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: plan, rate_limit: {unit: year, requests_per_unit: 9}}
";

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0b1902b7";
const TRACED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0b1902b7-01";

async fn world(test: &str, endpoint: &str, sampling: TraceSampling) -> World {
    let traces = Traces { sampling, ..Traces::new(endpoint) };
    let grace = Duration::from_millis(200);
    serve_with(test, RULES, |options| Options { traces: Some(traces), grace, ..options }).await
}

/// The values of the attributes with these names of a span.
fn told<const N: usize>(span: &Span, names: [&str; N]) -> [String; N] {
    names.map(|name| attribute(&span.attributes, name))
}

async fn ask(world: &World, traceparent: Option<&str>) {
    let mut asked = Request::new(request("shop", &[descriptor(&[("user", "alice")])]));
    if let Some(traceparent) = traceparent {
        let value = traceparent.parse().expect("ASCII");
        asked.metadata_mut().insert("traceparent", value);
    }
    world.client().await.should_rate_limit(asked).await.expect("an answer");
}

/// Asks `/v1/check` as a caller that traces the request; returns the status.
async fn check(world: &World, body: &str) -> String {
    let head = format!(
        "POST /v1/check HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         traceparent: {TRACED}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    raw(world.running.http, &head).await[9..12].to_owned()
}

#[tokio::test]
async fn a_request_that_its_caller_traces_is_a_span_below_the_callers() {
    let (endpoint, mut received) = collector(CollectorMood::Takes).await;
    let world = world("traces_grpc", &endpoint, TraceSampling::default()).await;
    ask(&world, Some(TRACED)).await;
    let (resource, spans) = received.next().await;
    let [span] = &spans[..] else { panic!("one span: {spans:?}") };
    assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.into(), PARENT.into()));
    let name = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    // The kind 2 is the span of a server.
    assert_eq!((span.name.as_str(), span.kind), (name, 2));
    let names =
        ["rpc.system", "rpc.service", "rpc.method", "rpc.grpc.status_code", "network.peer.address"];
    let service = "envoy.service.ratelimit.v3.RateLimitService";
    assert_eq!(told(span, names), ["grpc", service, "ShouldRateLimit", "0", "127.0.0.1"]);
    let names = ["tollgate.domain", "tollgate.rules", "tollgate.hits", "tollgate.outcome"];
    assert_eq!(told(span, names), ["shop", "user", "1", "allowed"]);
    assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
    assert_eq!(attribute(&resource, "service.name"), "tollgate");
    world.until("tollgate_spans_sent_total 1").await;
}

#[tokio::test]
async fn a_request_over_http_is_a_span_with_its_route_and_status() {
    let (endpoint, mut received) = collector(CollectorMood::Takes).await;
    let world = world("traces_http", &endpoint, TraceSampling::default()).await;
    let both = json!({"domain": "shop", "cost": 5, "descriptors": [{"plan": "p"}, {"user": "a"}]});
    assert_eq!(check(&world, &both.to_string()).await, "429");
    assert_eq!(check(&world, "{}").await, "422");
    let mut spans = Vec::new();
    while spans.len() < 2 {
        spans.extend(received.next().await.1);
    }
    for (span, [status, outcome, rules, hits]) in
        spans.iter().zip([["429", "over_limit", "user", "5"], ["422", "refused", "None", "None"]])
    {
        assert_eq!(hex(&span.parent_span_id), PARENT);
        assert_eq!((span.name.as_str(), span.kind), ("POST /v1/check", 2));
        let names = ["http.request.method", "http.route", "http.response.status_code"];
        assert_eq!(told(span, names), ["POST", "/v1/check", status]);
        let names = ["tollgate.outcome", "tollgate.rules", "tollgate.hits"];
        assert_eq!(told(span, names), [outcome, rules, hits]);
    }
}

/// Headers by which the caller does not trace the request: no header, a header that is not sampled, and two headers
/// that are not valid.
const UNTRACED: [Option<&str>; 4] = [
    None,
    Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0b1902b7-00"),
    Some("00-00000000000000000000000000000000-0000000000000000-01"),
    Some("rubbish"),
];

/// Sends these requests and stops the service; returns the number of spans that the collector has received.
async fn spans_of_untraced(test: &str, sampling: TraceSampling) -> usize {
    let (endpoint, mut received) = collector(CollectorMood::Takes).await;
    let world = world(test, &endpoint, sampling).await;
    for traceparent in UNTRACED {
        ask(&world, traceparent).await;
    }
    world.running.stop().await;
    let mut spans = 0;
    while let Ok(message) = received.0.try_recv() {
        let of = message.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
        spans += of.map(|scope| scope.spans.len()).sum::<usize>();
    }
    spans
}

/// `of_roots` applies only to requests without a valid trace of their caller. A request whose caller sends a trace that
/// is not sampled stays untraced. The last row is the control: if callers are not followed, all requests are traced.
#[tokio::test]
async fn of_what_callers_do_not_trace_nothing_is_sent_or_a_share_of_what_they_have_not_decided() {
    let roots = TraceSampling { of_roots: 1.0, ..TraceSampling::default() };
    for (test, sampling, expected) in [
        ("traces_none", TraceSampling::default(), 0),
        ("traces_roots", roots, UNTRACED.len() - 1),
        ("traces_all", TraceSampling { follows_caller: false, ..roots }, UNTRACED.len()),
    ] {
        assert_eq!(spans_of_untraced(test, sampling).await, expected, "{test}");
    }
}

#[tokio::test]
async fn spans_that_the_collector_refuses_are_counted() {
    let (endpoint, mut received) = collector(CollectorMood::Refuses).await;
    let world = world("traces_refused", &endpoint, TraceSampling::default()).await;
    ask(&world, Some(TRACED)).await;
    assert_eq!(received.next().await.1.len(), 1);
    world.until("tollgate_spans_failed_total 1").await;
    assert_eq!(world.metric("tollgate_spans_sent_total").await.as_deref(), Some("0"));
}

/// OTLP over HTTP, as envoyproxy/ratelimit sends it by default.
#[tokio::test]
async fn spans_can_be_sent_over_http_and_what_is_refused_is_counted() {
    for (status, line) in [
        (StatusCode::OK, "tollgate_spans_sent_total 1"),
        (StatusCode::BAD_REQUEST, "tollgate_spans_failed_total 1"),
    ] {
        let (endpoint, mut received) = collector_over_http(status).await;
        let traces = Traces { protocol: OtlpProtocol::Http, ..Traces::new(endpoint) };
        let more = |options| Options { traces: Some(traces), ..options };
        let world = serve_with("traces_over_http", RULES, more).await;
        ask(&world, Some(TRACED)).await;
        let (resource, spans) = received.next().await;
        assert_eq!(attribute(&resource, "service.name"), "tollgate");
        let [span] = &spans[..] else { panic!("one span: {spans:?}") };
        assert_eq!(hex(&span.parent_span_id), PARENT);
        world.until(line).await;
        world.running.stop().await;
    }
}

#[tokio::test]
async fn a_collector_that_hangs_delays_no_answer_and_not_the_end() {
    let (endpoint, mut received) = collector(CollectorMood::Hangs).await;
    let world = world("traces_hang", &endpoint, TraceSampling::default()).await;
    let mut client = world.client().await;
    // These requests make more spans than fit into the queue and into the message that is being sent.
    for _ in 0..3_000 {
        let mut asked = Request::new(request("shop", &[descriptor(&[("user", "alice")])]));
        asked.metadata_mut().insert("traceparent", TRACED.parse().expect("ASCII"));
        client.should_rate_limit(asked).await.expect("an answer");
    }
    received.next().await;
    let dropped = world.metric("tollgate_spans_dropped_total").await.expect("it is counted");
    assert!(dropped.parse::<u64>().is_ok_and(|dropped| dropped > 0), "{dropped}");
    drop(client);
    // The service stops after its grace, although the collector does not answer.
    world.running.stop().await;
    assert!(received.is_empty());
}

#[tokio::test]
async fn what_cannot_be_a_collector_is_refused_at_the_start() {
    let rules = directory("traces_refused");
    std::fs::write(rules.join("rules.yaml"), RULES).expect("a file below target");
    for (endpoint, of_roots, reason) in [
        ("collector:4317", 0.0, "it begins with neither http:// nor https://"),
        ("http://", 0.0, ""),
        ("http://127.0.0.1:1", 1.5, "the share of traced requests is 1.5"),
        ("http://127.0.0.1:1", f64::NAN, "the share of traced requests is NaN"),
    ] {
        let sampling = TraceSampling { of_roots, ..TraceSampling::default() };
        let traces = Some(Traces { sampling, ..Traces::new(endpoint) });
        let error = refused(Options { traces, ..Options::new(&rules) }).await;
        let expected = format!("traces cannot be sent to {endpoint}: {reason}");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
}
