//! Tests connections beyond the maximum number.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_service::{Options, RespOptions};
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::common::{RULES, World, descriptor, request, serve_with};

/// A service with two places, both taken by connections that ask nothing.
async fn full(test: &str) -> (World, [TcpStream; 2]) {
    let more = |options| Options {
        max_connections: Some(2),
        resp: Some(RespOptions::new(([127, 0, 0, 1], 0))),
        ..options
    };
    let world = serve_with(test, RULES, more).await;
    let connect = async || TcpStream::connect(world.running.grpc).await.expect("it listens");
    let idle = [connect().await, connect().await];
    world.until("tollgate_connections 2").await;
    (world, idle)
}

#[tokio::test]
async fn beyond_the_maximum_health_metrics_and_the_admin_are_answered_and_nothing_else() {
    let (world, idle) = full("connections").await;
    let mut health = HealthClient::new(world.channel().await);
    let asked = HealthCheckRequest { service: "ratelimit".to_owned() };
    let answer = health.check(asked).await.expect("known").into_inner();
    assert_eq!(answer.status(), ServingStatus::Serving);
    let asked = || request("basic", &[descriptor(&[("key2", "a")])]);
    let mut client = world.client().await;
    let refused = client.should_rate_limit(asked()).await.expect_err("no place");
    let expected = "too many connections: beyond the maximum only health and metrics are answered";
    assert_eq!((refused.code(), refused.message()), (Code::Unavailable, expected));
    assert_eq!(world.admin("GET", "/rlconfig", "").await.0, 200);
    assert_eq!(world.admin("GET", "/healthcheck", "").await.0, 200);
    assert_eq!(world.http("GET", "/", "").await.0, 503);
    let resp = world.running.resp.expect("it is spoken");
    let mut redis = TcpStream::connect(resp).await.expect("it listens");
    let _ = redis.write_all(b"PING\r\n").await;
    let mut told = String::new();
    redis.read_to_string(&mut told).await.expect("it is closed in order");
    assert_eq!(told, "-ERR max number of clients reached\r\n");
    drop((idle, redis));
    world.until("tollgate_connections 1").await;
    assert!(world.client().await.should_rate_limit(asked()).await.is_ok());
}

/// More connections than the reserve has places are open and ask nothing. A probe that comes later is still answered.
#[tokio::test]
async fn connections_that_take_the_reserve_keep_no_probe_out() {
    let (world, _idle) = full("connections_reserve").await;
    let mut all = Vec::new();
    for _ in 0..100 {
        all.push(TcpStream::connect(world.running.http).await.expect("it listens"));
        all.push(TcpStream::connect(world.running.grpc).await.expect("it listens"));
    }
    for _ in 0..10 {
        assert_eq!(world.http("GET", "/healthcheck", "").await, (200, "OK".to_owned()));
    }
}
