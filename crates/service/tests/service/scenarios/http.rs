//! Scenario J, which is HTTP, and the scenarios that Limitador's and Gubernator's suites add. The list is in
//! `scenarios.rs`.

use crate::common::{World, codes, descriptor, request, serve_at_noon};
use serde_json::{Value, json};
use tollgate_rules::RuleSettings;
use tollgate_service::protocol::common::RateLimitDescriptor;
use tollgate_service::protocol::rls::RateLimitRequest;
use tollgate_service::protocol::rls::rate_limit_response::Code;

const RULES: &str = "
domain: d
descriptors:
  - {key: two, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: ten, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: leaky, rate_limit: {unit: minute, requests_per_unit: 60, algorithm: gcra, burst: 3}}
";

async fn world(test: &str) -> World {
    serve_at_noon(test, RULES, RuleSettings::default()).await
}

fn hits(key: &str, hits: u64) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(hits), ..descriptor(&[(key, "x")]) }
}

#[tokio::test]
async fn j_a_body_that_is_no_request_is_a_bad_request() {
    let world = world("j_bad").await;
    for body in ["", "}"] {
        let (status, told) = world.http("POST", "/json", body).await;
        assert_eq!(status, 400);
        assert!(told.starts_with("the body is no JSON object; write one as in "), "{told}");
    }
}

#[tokio::test]
async fn j_json_is_200_when_it_may_go_and_429_when_not() {
    let world = world("j_json").await;
    let body = r#"{"domain":"d","descriptors":[{"entries":[{"key":"two","value":"x"}]}]}"#;
    let of_two = |code: &str, left: u32| {
        let mut status = json!({
            "code": code,
            "currentLimit": {"requestsPerUnit": 2, "unit": "HOUR"},
            "limitRemaining": left,
            "durationUntilReset": "3583s",
        });
        if left == 0 {
            status.as_object_mut().map(|status| status.remove("limitRemaining"));
        }
        status
    };
    for (expected, overall, left) in [(200, "OK", 1), (200, "OK", 0), (429, "OVER_LIMIT", 0)] {
        let (status, answer) = world.http("POST", "/json", body).await;
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!((status, &answer["overallCode"]), (expected, &json!(overall)));
        assert_eq!(answer["statuses"], json!([of_two(overall, left)]));
    }
    // UNKNOWN, which would be a 500, is never answered: a request without a decision gets a 400 with its reason.
    let none = serve_at_noon("j_none", "domain: [", RuleSettings::default()).await;
    let answer = none.http("POST", "/json", body).await;
    assert_eq!(answer, (400, "no rate limit configuration loaded".to_owned()));
}

/// A test in `drain.rs` shows that the health check fails while the service stops, and that gRPC agrees.
#[tokio::test]
async fn j_the_health_check_is_200_with_rules_and_500_without() {
    let world = world("j_health").await;
    assert_eq!(world.http("GET", "/healthcheck", "").await, (200, "OK".to_owned()));
    let none = serve_at_noon("j_health_none", "domain: [", RuleSettings::default()).await;
    assert_eq!(none.http("GET", "/healthcheck", "").await.0, 500);
}

#[tokio::test]
async fn lm_every_descriptor_of_a_request_is_considered() {
    let world = world("lm_every").await;
    let asked = [descriptor(&[("unlimited", "x")]), hits("two", 1), hits("ten", 1)];
    let response = world.ask(request("d", &asked)).await;
    assert_eq!(codes(&response), [(Code::Ok, 0), (Code::Ok, 1), (Code::Ok, 9)]);
    let asked = [hits("ten", 1), descriptor(&[("unlimited", "x")]), hits("two", 2)];
    let response = world.ask(request("d", &asked)).await;
    assert_eq!(response.overall_code(), Code::OverLimit);
    assert_eq!(codes(&response), [(Code::Ok, 9), (Code::Ok, 0), (Code::OverLimit, 1)]);
    // No limit applies.
    let response = world.ask(request("d", &[descriptor(&[("unlimited", "x")])])).await;
    assert_eq!(response.overall_code(), Code::Ok);
}

#[tokio::test]
async fn lm_no_hits_count_as_one_and_more_than_the_limit_are_denied_at_once() {
    let world = world("lm_hits").await;
    let asked = |hits_addend| RateLimitRequest {
        hits_addend,
        ..request("d", &[descriptor(&[("ten", "x")])])
    };
    for (hits, expected) in [
        (0, (Code::Ok, 9)),
        (11, (Code::OverLimit, 9)),
        (u32::MAX, (Code::OverLimit, 9)),
        (3, (Code::Ok, 6)),
    ] {
        assert_eq!(codes(&world.ask(asked(hits)).await), [expected], "{hits}");
    }
}

#[tokio::test]
async fn gb_more_than_is_left_is_denied_and_drains_nothing() {
    let world = world("gb_more").await;
    for (cost, expected) in [
        (8, (Code::Ok, 2)),
        (3, (Code::OverLimit, 2)),
        (u64::MAX, (Code::OverLimit, 2)),
        (0, (Code::Ok, 2)),
        (2, (Code::Ok, 0)),
    ] {
        let response = world.ask(request("d", &[hits("ten", cost)])).await;
        assert_eq!(codes(&response), [expected], "{cost}");
    }
}

#[tokio::test]
async fn gb_a_leaky_bucket_has_a_burst() {
    let world = world("gb_leaky").await;
    for expected in [(Code::Ok, 2), (Code::Ok, 1), (Code::Ok, 0), (Code::OverLimit, 0)] {
        let response = world.ask(request("d", &[hits("leaky", 1)])).await;
        assert_eq!(codes(&response), [expected]);
        let limit = response.statuses[0].current_limit.as_ref().expect("a limit");
        assert_eq!(limit.requests_per_unit, 60);
    }
}

/// In Gubernator negative hits save credit above the limit. Here they never give back more than was charged.
#[tokio::test]
async fn row_11_gb_negative_hits_give_back_what_was_charged() {
    let world = world("gb_negative").await;
    let negative = |cost| RateLimitDescriptor { is_negative_hits: true, ..hits("ten", cost) };
    for (asked, expected) in [
        (negative(3), (Code::Ok, 10)),
        (hits("ten", 8), (Code::Ok, 2)),
        (negative(5), (Code::Ok, 7)),
        (negative(u64::MAX), (Code::Ok, 10)),
        (hits("ten", 11), (Code::OverLimit, 10)),
    ] {
        assert_eq!(codes(&world.ask(request("d", &[asked])).await), [expected]);
    }
}

#[tokio::test]
async fn gb_a_descriptor_without_entries_spoils_no_other() {
    let world = world("gb_without").await;
    let asked = [descriptor(&[]), hits("ten", 1), descriptor(&[("", "")])];
    let response = world.ask(request("d", &asked)).await;
    assert_eq!(response.overall_code(), Code::Ok);
    assert_eq!(codes(&response), [(Code::Ok, 0), (Code::Ok, 9), (Code::Ok, 0)]);
}

/// Row 94 of the bad inputs: each listing is charged.
#[tokio::test]
async fn a_descriptor_that_is_listed_twice_is_charged_twice_or_not_at_all() {
    let world = world("listed_twice").await;
    let response = world.ask(request("d", &[hits("two", 1), hits("two", 1)])).await;
    assert_eq!(codes(&response), [(Code::Ok, 0), (Code::Ok, 0)]);
    let response = world.ask(request("d", &[hits("ten", 6), hits("ten", 6)])).await;
    assert_eq!(response.overall_code(), Code::OverLimit);
    assert_eq!(codes(&world.ask(request("d", &[hits("ten", 0)])).await), [(Code::Ok, 10)]);
}
