//! Tests the end of a service under load: each request that was decided is answered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{descriptor, request, serve_with};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tollgate_rules::{Refresh, RuleSet};
use tollgate_service::Options;
use tollgate_service::protocol::rls::rate_limit_service_client::RateLimitServiceClient;
use tonic::transport::Channel;

const RULES: &str = "
domain: d
descriptors:
  - {key: all, rate_limit: {unit: year, requests_per_unit: 1000000000}}
";

/// The number of answers to wait for before the service is told to stop.
const WARM: u32 = 2_000;
const CONNECTIONS: usize = 4;
/// The number of concurrent requests on each gRPC connection.
const STREAMS: usize = 16;

/// Sends requests until one is refused; returns the number of answers.
async fn grpc(mut client: RateLimitServiceClient<Channel>, warm: Arc<Semaphore>) -> u64 {
    let mut answers = 0;
    while let Ok(answer) =
        client.should_rate_limit(request("d", &[descriptor(&[("all", "x")])])).await
    {
        assert_eq!(answer.into_inner().statuses.len(), 1);
        answers += 1;
        warm.add_permits(1);
    }
    answers
}

/// Does the same as `grpc` over HTTP. An answer arrives in full or not at all.
async fn http(address: SocketAddr, warm: Arc<Semaphore>) -> u64 {
    const BODY: &str = r#"{"domain": "d", "descriptors": [{"all": "x"}]}"#;
    let asked = format!(
        "POST /v1/check HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let mut answers = 0;
    loop {
        // An error in sending is ignored, because an answer may still arrive; otherwise the read below ends.
        let _ = stream.write_all(asked.as_bytes()).await;
        let mut answer = Vec::new();
        while !is_whole(&answer) {
            let read = stream.read_buf(&mut answer).await.unwrap_or_default();
            if read == 0 {
                assert!(answer.is_empty(), "cut off: {}", answer.escape_ascii());
                return answers;
            }
        }
        answers += 1;
        warm.add_permits(1);
    }
}

fn is_whole(answer: &[u8]) -> bool {
    let text = str::from_utf8(answer).unwrap_or_default();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.and_then(|length| length.parse().ok()).is_some_and(|length: usize| body.len() == length)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_100_stopped_under_load_it_answers_all_that_it_decided() {
    let mut world = serve_with("drain", RULES, |options| options).await;
    let Some(Refresh::Loaded(rules)) = world.told.recv().await else { panic!("good rules") };
    let warm = Arc::new(Semaphore::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..CONNECTIONS {
        clients.spawn(http(world.running.http, Arc::clone(&warm)));
        let client = world.client().await;
        for _ in 0..STREAMS {
            clients.spawn(grpc(client.clone(), Arc::clone(&warm)));
        }
    }
    let _ = warm.acquire_many(WARM).await.expect("it is never closed");
    world.running.stop().await;
    let answers: u64 = clients.join_all().await.into_iter().sum();
    assert_eq!(answers, decided(&rules), "answers, and decisions");
    assert!(answers > u64::from(WARM), "{answers}");
}

/// The number of decisions. The counters outlive the service.
fn decided(rules: &RuleSet) -> u64 {
    rules.rules().iter().map(|rule| rule.counts().total()).sum()
}

/// Scenario J: from the moment when the service is told to stop, the health check over HTTP answers 500, and that over
/// gRPC NOT_SERVING.
#[tokio::test]
async fn it_is_unhealthy_before_it_takes_nothing_more() {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_check_response::ServingStatus;
    use tonic_health::pb::health_client::HealthClient;
    let linger = Duration::from_millis(500);
    let world = serve_with("drain_health", RULES, |options| Options { linger, ..options }).await;
    assert_eq!(world.http("GET", "/healthcheck", "").await.0, 200);
    let mut client = world.client().await;
    let mut health = HealthClient::new(world.channel().await);
    let asked = HealthCheckRequest { service: "ratelimit".into() };
    let mut watched = health.watch(asked).await.expect("known").into_inner();
    let first = watched.message().await.expect("a stream").expect("a status");
    assert_eq!(first.status(), ServingStatus::Serving);
    let (address, grpc) = (world.running.http, world.running.grpc);
    let ends = tokio::spawn(world.running.stop());
    let next = watched.message().await.expect("a stream").expect("a status");
    assert_eq!(next.status(), ServingStatus::NotServing);
    let (status, _, body) = crate::common::exchange(address, "GET", "/healthcheck", "").await;
    assert_eq!((status, body.as_str()), (500, "no rules, or shutting down"));
    // A client that goes on sending is still answered.
    let asked = request("d", &[descriptor(&[("all", "x")])]);
    assert!(client.should_rate_limit(asked).await.is_ok());
    drop((client, health, watched));
    ends.await.expect("it ends");
    for address in [address, grpc] {
        assert!(TcpStream::connect(address).await.is_err());
    }
}
