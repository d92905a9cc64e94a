//! Scenarios E (the effect of several statuses on a request) and H (errors); the list is in `scenarios.rs`.

use crate::common::{World, codes, descriptor, request, serve_at_noon};
use tollgate_rules::RuleSettings;
use tollgate_service::protocol::rls::rate_limit_response::Code::{self, Ok, OverLimit as Over};
use tonic::Code as Grpc;

const RULES: &str = "
domain: d
descriptors:
  - {key: normal, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: wide, rate_limit: {unit: hour, requests_per_unit: 100}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: quota, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: large, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 9}}
";

/// A service whose small limits are spent.
async fn spent(test: &str, settings: RuleSettings) -> World {
    let world = serve_at_noon(test, RULES, settings).await;
    for key in ["normal", "shadow", "quota"] {
        assert_eq!(overall(&world, &[key]).await, (Ok, vec![Ok]));
    }
    world
}

/// The overall code, and the code of each status.
async fn overall(world: &World, keys: &[&str]) -> (Code, Vec<Code>) {
    let asked: Vec<_> = keys.iter().map(|key| descriptor(&[(key, "x")])).collect();
    let response = world.ask(request("d", &asked)).await;
    (response.overall_code(), codes(&response).into_iter().map(|(code, _)| code).collect())
}

fn compat(compat: bool) -> RuleSettings {
    RuleSettings { compat, ..RuleSettings::default() }
}

#[tokio::test]
async fn e_a_normal_rule_that_is_over_denies() {
    let world = spent("e_normal", RuleSettings::default()).await;
    assert_eq!(overall(&world, &["normal"]).await, (Over, vec![Over]));
    assert_eq!(overall(&world, &["wide", "normal"]).await, (Over, vec![Ok, Over]));
}

#[tokio::test]
async fn e_a_shadow_rule_that_is_over_denies_nothing_and_is_counted() {
    let world = spent("e_shadow", RuleSettings::default()).await;
    assert_eq!(overall(&world, &["shadow"]).await, (Ok, vec![Ok]));
    assert_eq!(overall(&world, &["shadow", "normal"]).await, (Over, vec![Ok, Over]));
    let series = "tollgate_rule_shadow_total{domain=\"d\",rule=\"shadow\"}";
    assert_eq!(world.metric(series).await.as_deref(), Some("2"));
}

#[tokio::test]
async fn e_global_shadow_mode_denies_nothing_and_tells_what_would_be() {
    let settings = RuleSettings { global_shadow_mode: true, ..RuleSettings::default() };
    let world = spent("e_global_shadow", settings).await;
    let series = "tollgate_global_shadow_mode_total";
    assert_eq!(world.metric(series).await.as_deref(), Some("0"));
    assert_eq!(overall(&world, &["normal"]).await, (Ok, vec![Over]));
    assert_eq!(world.metric(series).await.as_deref(), Some("1"));
    // The admitted part of a denied request is not counted.
    assert_eq!(overall(&world, &["wide"]).await, (Ok, vec![Ok]));
    assert_eq!(world.metric(series).await.as_deref(), Some("1"));
}

#[tokio::test]
async fn e_global_quota_mode_denies_only_if_all_are_over() {
    let settings = RuleSettings { global_quota_mode: true, ..RuleSettings::default() };
    let world = spent("e_global_quota", settings).await;
    assert_eq!(overall(&world, &["normal", "quota"]).await, (Over, vec![Over, Over]));
    assert_eq!(overall(&world, &["normal", "wide"]).await, (Ok, vec![Over, Ok]));
}

#[tokio::test]
async fn e_quota_rules_deny_together() {
    for mode in [false, true] {
        let world = spent(&format!("e_quota_{mode}"), compat(mode)).await;
        assert_eq!(
            overall(&world, &["wide", "quota"]).await,
            (Over, vec![Ok, Over]),
            "all are over"
        );
        assert_eq!(
            overall(&world, &["quota", "large"]).await,
            (Ok, vec![Over, Ok]),
            "one has room"
        );
        assert_eq!(overall(&world, &["normal", "large"]).await, (Over, vec![Over, Ok]));
    }
}

#[tokio::test]
async fn h_a_request_that_says_nothing_is_an_error_with_its_text_and_is_counted() {
    let world = serve_at_noon("h_nothing", RULES, RuleSettings::default()).await;
    let mut client = world.client().await;
    for (asked, text) in [
        (request("", &[descriptor(&[("normal", "x")])]), "rate limit domain must not be empty"),
        (request("d", &[]), "rate limit descriptor list must not be empty"),
    ] {
        let status = client.should_rate_limit(asked).await.expect_err("no request");
        // envoyproxy/ratelimit answers UNKNOWN, which clients cannot tell from a failure.
        assert_eq!((status.code(), status.message()), (Grpc::InvalidArgument, text));
    }
    let series = "tollgate_requests_total{protocol=\"grpc\",outcome=\"refused\"}";
    assert_eq!(world.metric(series).await.as_deref(), Some("2"));
}

#[tokio::test]
async fn h_without_rules_every_call_fails_and_is_counted() {
    let mut world = serve_at_noon("h_no_rules", "domain: [", RuleSettings::default()).await;
    assert!(world.reloaded().await[0].to_string().contains("error loading config file"));
    let asked = request("d", &[descriptor(&[("normal", "x")])]);
    let status = world.client().await.should_rate_limit(asked).await.expect_err("no rules");
    assert_eq!(
        (status.code(), status.message()),
        (Grpc::Unavailable, "no rate limit configuration loaded")
    );
    let series = "tollgate_requests_total{protocol=\"grpc\",outcome=\"refused\"}";
    assert_eq!(world.metric(series).await.as_deref(), Some("1"));
    assert_eq!(world.metric("tollgate_config_load_error_total").await.as_deref(), Some("1"));
    assert_eq!(world.metric("tollgate_config_refused").await.as_deref(), Some("1"));
}
