//! Tests `mode: elastic` over HTTP and gRPC, and the reports that decide how much pools lend.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_rules::RuleSettings;
use tollgate_service::protocol::rls::rate_limit_response::Code::{Ok, OverLimit};
use tollgate_service::{Global, Options};

use crate::common::{World, codes, descriptor, request, serve_at_noon, serve_on_clock, serve_with};

const RULES: &str = "
domain: shop
pool: {unit: hour, requests_per_unit: 8}
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1, mode: elastic}}
";

const CHECK: &str = r#"{"domain": "shop", "descriptors": [{"user": "alice"}]}"#;

async fn report(world: &World, report: Value) -> (u16, String) {
    world.admin("POST", "/v1/headroom", &report.to_string()).await
}

/// Sends one request; returns the status of the answer, and `borrowed` of its only descriptor.
async fn check(world: &World) -> (u16, Value) {
    let (status, told) = world.http("POST", "/v1/check", CHECK).await;
    let mut told: Value = serde_json::from_str(&told).expect("JSON");
    (status, told["statuses"][0]["borrowed"].take())
}

/// The lines of `/metrics` that begin with this prefix.
async fn metrics(world: &World, prefix: &str) -> Vec<String> {
    let (_, page) = world.admin("GET", "/metrics", "").await;
    page.lines().filter(|line| line.starts_with(prefix)).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_report_lends_for_its_time_to_live_and_then_nothing() {
    let (world, clock) = serve_on_clock("headroom_time_to_live", RULES, |options| options).await;
    assert_eq!(check(&world).await, (200, Value::Null));
    assert_eq!(check(&world).await.0, 429);
    let told = report(&world, json!({"domain": "shop", "headroom": 0.5, "ttl_ms": 5000})).await;
    assert_eq!(told, (200, r#"{"headroom":0.5,"ttl_ms":5000}"#.to_owned()));
    let (_, page) = world.admin("GET", "/rlconfig", "").await;
    assert_eq!(page, "shop.user: fixed-window 1/h, elastic\nshop: pool 8/h, headroom 0.5\n");
    clock.advance(Duration::from_millis(4_999));
    assert_eq!(check(&world).await, (200, json!(true)));
    let pool = |headroom: &str, expired: u8| {
        [
            format!("tollgate_pool_headroom{{domain=\"shop\"}} {headroom}"),
            "tollgate_pool_lent_total{domain=\"shop\"} 1".to_owned(),
            format!("tollgate_pool_expired_total{{domain=\"shop\"}} {expired}"),
        ]
    };
    assert_eq!(metrics(&world, "tollgate_pool").await, pool("0.5", 0));
    clock.advance(Duration::from_millis(1));
    assert_eq!(check(&world).await.0, 429);
    assert_eq!(metrics(&world, "tollgate_pool").await, pool("0.0", 1));
    assert_eq!(metrics(&world, "tollgate_pool").await, pool("0.0", 1), "told once");
    let borrowed = metrics(&world, "tollgate_rule_borrowed_total").await;
    assert_eq!(borrowed, ["tollgate_rule_borrowed_total{domain=\"shop\",rule=\"user\"} 1"]);
    // A report without `ttl_ms` lasts ten seconds.
    let told = report(&world, json!({"domain": "shop", "headroom": 1})).await;
    assert_eq!(told, (200, r#"{"headroom":1.0,"ttl_ms":10000}"#.to_owned()));
    clock.advance(Duration::from_millis(9_999));
    assert_eq!(check(&world).await, (200, json!(true)));
    clock.advance(Duration::from_millis(1));
    assert_eq!(check(&world).await.0, 429);
}

#[tokio::test]
async fn envoy_is_told_ok_and_that_it_was_borrowed() {
    let world = serve_at_noon("headroom_envoy", RULES, RuleSettings::default()).await;
    assert_eq!(report(&world, json!({"domain": "shop", "headroom": 0.125})).await.0, 200);
    let mut told = Vec::new();
    for _ in 0..3 {
        let answer = world.ask(request("shop", &[descriptor(&[("user", "alice")])])).await;
        let metadata = answer.dynamic_metadata.as_ref();
        let borrowed = metadata.map(|told| told.fields.contains_key("borrowed"));
        told.push((answer.overall_code(), codes(&answer)[0], borrowed));
    }
    let (ok, over) = ((Ok, (Ok, 0)), (OverLimit, (OverLimit, 0)));
    let expected = [(ok, None), (ok, Some(true)), (over, None)];
    assert_eq!(told, expected.map(|((code, status), borrowed)| (code, status, borrowed)));
}

#[tokio::test]
async fn a_report_is_refused_where_it_says_nothing_and_from_clients_that_may_only_ask() {
    let world = serve_at_noon("headroom_refused", RULES, RuleSettings::default()).await;
    for (body, status, expected) in [
        (json!({"domain": "bank", "headroom": 0.5}), 404, "domain 'bank' has no rules"),
        (json!({"domain": "shop", "headroom": 1.5}), 400, "headroom 1.5 is refused; use 0 to 1"),
        (
            json!({"domain": "shop", "headroom": 1, "ttl_ms": 0}),
            400,
            "a time to live of 0ns is refused",
        ),
        (json!({"domain": "shop", "headroom": 1, "ttl": 5}), 422, "Failed to deserialize"),
        (json!({"domain": "shop", "headroom": "idle"}), 422, "Failed to deserialize"),
    ] {
        let (found, told) = report(&world, body).await;
        assert!(found == status && told.starts_with(expected), "{found} {told}");
    }
    let body = r#"{"domain": "shop", "headroom": 1}"#;
    assert_eq!(world.http("POST", "/v1/headroom", body).await.0, 404);
    let headroom = metrics(&world, "tollgate_pool_headroom").await;
    assert_eq!(headroom, ["tollgate_pool_headroom{domain=\"shop\"} 0.0"]);
}

#[tokio::test]
async fn with_redis_an_elastic_rule_is_refused_and_so_is_a_report() {
    let global = Some(Global::new("redis://127.0.0.1:1/"));
    let world = serve_with("headroom_redis", RULES, |options| Options { global, ..options }).await;
    let (_, page) = world.admin("GET", "/rlconfig", "").await;
    let expected = "mode: elastic borrows from a pool of this process, which is not kept in Redis";
    assert!(page.contains(expected), "{page}");
    assert_eq!(report(&world, json!({"domain": "shop", "headroom": 0.5})).await.0, 501);
}
