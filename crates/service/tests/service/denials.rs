//! Tests the log of denials: the content of its lines over every protocol, and the number of lines.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate::ManualClock;
use tollgate_service::protocol::common::RateLimitDescriptor;
use tollgate_service::protocol::common::rate_limit_descriptor::Entry;
use tollgate_service::{Options, RespOptions};

use crate::common::reports::LogLines;
use crate::common::{World, descriptor, request, serve_on_clock};

const RULES: &str = "
domain: shop
forward_auth: [{user: text d}]
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: plan, value: free, descriptors: [{key: path, rate_limit: {unit: hour, requests_per_unit: 1}}]}
  - {key: tried, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
";

/// A service that logs as many denials as the limit `log_denials` admits.
async fn world(test: &str, log_denials: Option<&str>) -> (World, ManualClock) {
    let log_denials = log_denials.map(|limit| limit.parse().expect("a policy"));
    let resp = Some(RespOptions::new(([127, 0, 0, 1], 0)));
    serve_on_clock(test, RULES, |options| Options { log_denials, resp, ..options }).await
}

/// Sends commands in Redis' protocol, and waits for this number of answers.
async fn redis(world: &World, commands: &str, answers: usize) {
    let address = world.running.resp.expect("it is spoken");
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(commands.as_bytes()).await.expect("it is connected");
    let mut told = Vec::new();
    while told.iter().filter(|byte| **byte == b'*').count() < answers {
        stream.read_buf(&mut told).await.expect("an answer");
    }
}

#[tokio::test]
async fn a_line_tells_what_was_denied_over_every_protocol() {
    let (log, _guard) = LogLines::begin();
    let (world, _) = world("denials_of_all", Some("1000/s")).await;
    let user = |name: &str| descriptor(&[("user", name)]);
    let line = |fields: Value| {
        let mut line = json!({
            "level": "INFO", "message": "denied", "peer": "127.0.0.1", "suppressed": 0,
        });
        let all = line.as_object_mut().expect("an object");
        all.extend(fields.as_object().expect("an object").clone());
        line
    };
    let mut expected = Vec::new();

    let path = descriptor(&[("plan", "free"), ("path", "/a,b")]);
    let costly = RateLimitDescriptor { hits_addend: Some(3), ..user("ann") };
    world.ask(request("shop", &[costly, path.clone()])).await;
    expected.push(line(json!({
        "domain": "shop", "descriptors": "user=ann; plan=free,path=/a%2Cb", "rules": "user", "hits": 3,
        "protocol": "grpc",
    })));
    world.ask(request("shop", std::slice::from_ref(&path))).await;
    world.ask(request("shop", &[user("ann"), path])).await;
    expected.push(line(json!({
        "domain": "shop", "descriptors": "user=ann; plan=free,path=/a%2Cb", "rules": "plan_free.path", "hits": 1,
        "retry_after_ms": 3_583_000, "protocol": "grpc",
    })));

    let body = json!({"domain": "shop", "hitsAddend": 9, "descriptors": [{"entries": [{"key": "user", "value": "b"}]}]});
    assert_eq!(world.http("POST", "/json", &body.to_string()).await.0, 429);
    expected.push(line(json!({
        "domain": "shop", "descriptors": "user=b", "rules": "user", "hits": 9, "protocol": "json",
    })));
    let body = json!({"domain": "shop", "cost": 5, "descriptors": [{"user": "c\n"}]}).to_string();
    for path in ["/v1/check", "/v1/reserve"] {
        assert_eq!(world.http("POST", path, &body).await.0, 429);
        expected.push(line(json!({
            "domain": "shop", "descriptors": "user=c%0A", "rules": "user", "hits": 5, "protocol": "check",
        })));
    }
    assert_eq!(world.http("GET", "/v1/auth?domain=shop&cost=4&deny=403", "").await.0, 403);
    expected.push(line(json!({
        "domain": "shop", "descriptors": "user=d", "rules": "user", "hits": 4, "protocol": "auth",
    })));

    let asks = "TOLLGATE.CHECK shop 1 plan free path /x\r\n".repeat(2);
    redis(&world, &asks, 2).await;
    expected.push(line(json!({
        "domain": "shop", "descriptors": "plan=free,path=/x", "rules": "plan_free.path", "hits": 1,
        "retry_after_ms": 3_583_000, "protocol": "resp",
    })));
    redis(&world, &"CL.THROTTLE a;b 0 1 60\r\n".repeat(2), 2).await;
    expected.push(line(json!({
        "key": "a%3Bb", "hits": 1, "retry_after_ms": 60_000, "protocol": "resp",
    })));
    assert_eq!(log.denials_of(world).await, expected);
}

#[tokio::test]
async fn what_passes_and_what_only_asks_is_no_denial() {
    let (log, _guard) = LogLines::begin();
    let (world, _) = world("denials_of_none", Some("1000/s")).await;
    for _ in 0..2 {
        world.check("shop", &json!([{"user": "a"}]), 1).await;
        world.check("shop", &json!([{"tried": "a"}]), 1).await;
        world.check("elsewhere", &json!([{"user": "a"}]), 9).await;
    }
    let (status, _) = world.http("GET", "/v1/peek?domain=shop&user=a&cost=5", "").await;
    assert_eq!(status, 429);
    redis(&world, "TOLLGATE.PEEK shop 5 user a\r\n", 1).await;
    assert_eq!(world.http("POST", "/v1/check", "{}").await.0, 422);
    assert_eq!(log.denials_of(world).await, Vec::<Value>::new());
}

/// The values are very long, or not text, or contain control characters.
#[tokio::test]
async fn no_value_makes_a_line_long_or_breaks_it() {
    let (log, _guard) = LogLines::begin();
    let (world, _) = world("denials_of_rubbish", Some("1000/s")).await;
    for value in [vec![b'x'; 200_000], vec![0xff; 200_000], b"\x1b[2J\r\n\"}".to_vec()] {
        let entries = vec![Entry { key: "user".into(), value }];
        let one = RateLimitDescriptor { entries, hits_addend: Some(9), ..Default::default() };
        world.ask(request("shop", &[one])).await;
    }
    let lines = log.denials_of(world).await;
    let told: Vec<&str> = lines.iter().filter_map(|line| line["descriptors"].as_str()).collect();
    let (cut, none) = ("x".repeat(64), "\u{fffd}".repeat(64));
    let expected = [&format!("user={cut}…"), &format!("user={none}…"), "user=%1B[2J%0D%0A%22}"];
    assert_eq!(told, expected);
}

/// Causes ten denials, and one more a second later. Returns the number of lines, the number of left-out denials that
/// the last line reports, and the metrics of logged and of left-out denials.
async fn flood(test: &str, limit: &str) -> (usize, Value, [Option<String>; 2]) {
    let (log, _guard) = LogLines::begin();
    let (world, clock) = world(test, Some(limit)).await;
    let denied = json!([{"user": "a"}]);
    for _ in 0..10 {
        assert!(!world.check("shop", &denied, 5).await.0);
    }
    clock.advance(Duration::from_secs(1));
    world.check("shop", &denied, 5).await;
    let counts = ["logged", "suppressed"].map(|what| format!("tollgate_denials_{what}_total"));
    let [logged, suppressed] = &counts;
    let counts = [world.metric(logged).await, world.metric(suppressed).await];
    let lines = log.denials_of(world).await;
    (lines.len(), lines.last().expect("a line")["suppressed"].clone(), counts)
}

/// The second row is the control: a log without a bound is noticed.
#[tokio::test]
async fn a_flood_writes_as_many_lines_as_its_limit_and_the_next_tells_the_rest() {
    for (test, limit, lines, suppressed) in
        [("denials_flood", "1/s burst 2", 3, 8), ("denials_roomy", "1000/s", 11, 0)]
    {
        let counts = [lines, suppressed].map(|count: usize| Some(count.to_string()));
        assert_eq!(flood(test, limit).await, (lines, json!(suppressed), counts));
    }
}

#[tokio::test]
async fn no_denial_is_logged_or_counted_unless_it_is_asked_for() {
    let (log, _guard) = LogLines::begin();
    let (world, _) = world("denials_off", None).await;
    assert!(!world.check("shop", &json!([{"user": "a"}]), 5).await.0);
    assert_eq!(world.metric("tollgate_denials_logged_total").await, None);
    assert_eq!(log.denials_of(world).await, Vec::<Value>::new());
}
