//! Tests the reports to an operator about requests whose limits are in Redis.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_service::{Options, RespOptions, TraceSampling, Traces};

use crate::common::World;
use crate::common::reports::{CollectorMood, LogLines, attribute, collector};
use crate::server::Server;

const RULES: &str = "
domain: shop
descriptors:
  - {key: user, accuracy: exact, rate_limit: {unit: year, requests_per_unit: 1}}
";

async fn serve(test: &str, server: &Server, more: impl FnOnce(Options) -> Options) -> World {
    crate::serve_connected(test, RULES, crate::one_of_two(server.address()), more).await
}

#[tokio::test]
async fn the_wait_for_redis_is_a_span_below_that_of_the_request() {
    let server = Server::start();
    let (endpoint, mut received) = collector(CollectorMood::Takes).await;
    let sampling = TraceSampling { of_roots: 1.0, follows_caller: true };
    let traces = Some(Traces { sampling, ..Traces::new(endpoint) });
    let world = serve("redis_traces", &server, |options| Options { traces, ..options }).await;
    assert!(world.check("shop", &json!([{"user": "a"}]), 1).await.0);
    let mut spans = Vec::new();
    while spans.len() < 2 {
        spans.extend(received.next().await.1);
    }
    let [wait, request] = &spans[..] else { panic!("two spans: {spans:?}") };
    // The kind 3 is the span of a client, and 2 that of a server.
    assert_eq!((wait.name.as_str(), wait.kind), ("redis", 3));
    assert_eq!((request.name.as_str(), request.kind), ("POST /v1/check", 2));
    assert_eq!((&wait.trace_id, &wait.parent_span_id), (&request.trace_id, &request.span_id));
    assert_eq!(attribute(&wait.attributes, "db.system.name"), "redis");
    assert_eq!(attribute(&request.attributes, "tollgate.rules"), "user");
    assert!(request.start_time_unix_nano <= wait.start_time_unix_nano);
    assert!(wait.end_time_unix_nano <= request.end_time_unix_nano);
}

#[tokio::test]
async fn a_denial_by_redis_is_logged_with_its_words_over_every_protocol() {
    let (log, _guard) = LogLines::begin();
    let server = Server::start();
    let log_denials = Some("1000/s".parse().expect("a policy"));
    let resp = Some(RespOptions::new(([127, 0, 0, 1], 0)));
    let more = |options| Options { log_denials, resp, ..options };
    let world = serve("redis_denials", &server, more).await;
    assert!(!world.check("shop", &json!([{"user": "a"}]), 2).await.0);
    let mut redis = TcpStream::connect(world.running.resp.expect("it is spoken")).await;
    let redis = redis.as_mut().expect("it listens");
    redis.write_all(b"TOLLGATE.CHECK shop 3 user b,c\r\n").await.expect("it is connected");
    redis.read_buf(&mut Vec::new()).await.expect("an answer");
    let told = |line: &Value| {
        ["descriptors", "rules", "hits", "protocol", "peer"].map(|field| line[field].clone())
    };
    let lines: Vec<_> = log.denials_of(world).await.iter().map(told).collect();
    let line = |descriptors, hits, protocol| {
        let texts = [descriptors, "user"].map(|text: &str| json!(text));
        let [descriptors, rules] = texts;
        [descriptors, rules, json!(hits), json!(protocol), json!("127.0.0.1")]
    };
    assert_eq!(lines, [line("user=a", 2, "check"), line("user=b%2Cc", 3, "resp")]);
}
