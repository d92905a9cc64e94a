//! Tests which of several limits an answer reports, over gRPC and over HTTP. It is the limit that denies. If several
//! deny, it is the limit with the longest wait. If none denies, it is the limit with the fewest units left. The order
//! of the descriptors makes no difference.

use crate::common::{World, descriptor, exchange, request, serve_at_noon};
use serde_json::{Value, json};
use tollgate_rules::RuleSettings;
use tollgate_service::protocol::common::RateLimitDescriptor;
use tollgate_service::protocol::rls::rate_limit_response::Code;

/// The clock stands at 12:00:17: the minute ends in 43 s, the hour in 3,583 s.
const RULES: &str = "
domain: d
descriptors:
  - {key: roomy, rate_limit: {unit: hour, requests_per_unit: 90}}
  - {key: over, rate_limit: {unit: hour, requests_per_unit: 8}}
  - {key: few, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: late, usage: false, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: soon, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: tried, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: pair, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
  - key: stacked
    limits:
      - {unit: minute, requests_per_unit: 3, name: minutes}
      - {unit: hour, requests_per_unit: 3, name: hours}
  - key: outer
    limits:
      - {unit: hour, requests_per_unit: 1}
      - {unit: minute, requests_per_unit: 9}
  - key: inner
    limits:
      - {unit: minute, requests_per_unit: 9}
      - {unit: hour, requests_per_unit: 1}
";

async fn world(test: &str) -> World {
    serve_at_noon(test, RULES, RuleSettings::default()).await
}

/// A descriptor: its key, and the number of units that it asks for.
type Of = (&'static str, u64);

fn asked(of: &[Of]) -> Vec<RateLimitDescriptor> {
    let asked = |(key, hits): &Of| RateLimitDescriptor {
        hits_addend: Some(*hits),
        ..descriptor(&[(key, "x")])
    };
    of.iter().map(asked).collect()
}

/// Whether the request is admitted, and the limit, the remaining units and the reset in the headers that Envoy is to
/// add. The request is sent twice, over gRPC and as JSON, so it must be denied or cost nothing.
async fn told(world: &World, of: &[Of]) -> (bool, [String; 3]) {
    const NAMES: [&str; 3] = ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"];
    let response = world.ask(request("d", &asked(of))).await;
    let headers = response.response_headers_to_add.iter();
    let grpc: Vec<_> = headers.map(|header| (header.key.clone(), header.value.clone())).collect();
    let descriptors = of.iter().map(|(key, hits)| {
        json!({"entries": [{"key": key, "value": "x"}], "hitsAddend": hits.to_string()})
    });
    let body = json!({"domain": "d", "descriptors": descriptors.collect::<Vec<_>>()});
    let (_, answer) = world.post("/json", body).await;
    let headers = answer["responseHeadersToAdd"].as_array().expect("headers").iter();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let json: Vec<_> =
        headers.map(|header| (text(&header["key"]), text(&header["value"]))).collect();
    assert_eq!(grpc, json);
    // In a denial, `Retry-After` may follow these three headers.
    let (names, values): (Vec<_>, Vec<_>) = grpc.into_iter().take(NAMES.len()).unzip();
    assert_eq!(names, NAMES);
    (response.overall_code() == Code::Ok, values.try_into().expect("three"))
}

/// Asserts the answer to these descriptors, in this order and in reverse.
async fn assert_told(world: &World, of: &[Of], passes: bool, figures: [&str; 3]) {
    let mut of = of.to_vec();
    for _ in 0..2 {
        assert_eq!(told(world, &of).await, (passes, figures.map(str::to_owned)), "{of:?}");
        of.reverse();
    }
}

#[tokio::test]
async fn the_limit_that_denies_longest_is_told_or_else_the_one_with_the_least_left() {
    let world = world("told").await;
    let spend = async |of: &[Of]| {
        let answer = world.ask(request("d", &asked(of))).await;
        assert_eq!(answer.overall_code(), Code::Ok, "{of:?}");
    };
    let denied = async |of: &[Of], figures| assert_told(&world, of, false, figures).await;
    let admitted = async |of: &[Of], figures| assert_told(&world, of, true, figures).await;
    spend(&[("late", 1), ("soon", 1), ("over", 5)]).await;
    denied(&[("soon", 1), ("late", 1), ("few", 1)], ["1", "0", "3583"]).await;
    // The limit with the longest wait is reported even if it has more left.
    denied(&[("soon", 1), ("over", 5), ("few", 1)], ["8", "3", "3583"]).await;
    // A cost that can never fit counts as the longest wait. The window of its limit has not begun, so the reset is 0.
    denied(&[("late", 1), ("few", 3)], ["2", "2", "0"]).await;
    // `over` has three of eight units left, so a cost of five does not fit. `few` has one of two units left, so a cost
    // of one fits, and it is not reported, although it has less left.
    spend(&[("few", 1)]).await;
    denied(&[("roomy", 1), ("over", 5), ("few", 1)], ["8", "3", "3583"]).await;
    // A rule in shadow mode is not reported, although it is over its limit and has nothing left.
    spend(&[("tried", 1)]).await;
    denied(&[("tried", 1), ("over", 5), ("few", 1)], ["8", "3", "3583"]).await;
    // If no limit denies, the one with the least left is reported.
    admitted(&[("roomy", 0), ("few", 0), ("over", 0)], ["2", "1", "43"]).await;
    admitted(&[("roomy", 0), ("over", 0)], ["8", "3", "3583"]).await;
    // The same limit is reported beside a rule in shadow mode that would deny and has more units left.
    admitted(&[("pair", 3), ("few", 0)], ["2", "1", "43"]).await;
}

#[tokio::test]
async fn of_stacked_limits_the_one_that_denies_longest_is_told() {
    let world = world("told_stacked").await;
    let spent = [("stacked", 3), ("outer", 1), ("inner", 1)];
    world.ask(request("d", &asked(&spent))).await;
    // The limit that denies is reported, whatever its position. Requests with several descriptors, and peeks, are
    // decided by other code, so they are tested as well.
    for (key, limit) in [("stacked", "3"), ("outer", "1"), ("inner", "1")] {
        assert_told(&world, &[(key, 1)], false, [limit, "0", "3583"]).await;
        assert_told(&world, &[(key, 1), ("roomy", 1)], false, [limit, "0", "3583"]).await;
    }
    let response = world.ask(request("d", &asked(&[("stacked", 1)]))).await;
    let name = response.statuses[0].current_limit.as_ref().map(|limit| limit.name.as_str());
    assert_eq!(name, Some("hours"));
    let (status, answer) = world.http("GET", "/v1/peek?domain=d&stacked=x", "").await;
    assert!(status == 429 && answer.contains("\"name\":\"hours\""), "{answer}");
}

/// Tests `/v1/check` and `/v1/peek`: `Retry-After` is the longest wait, and each descriptor has its own numbers.
#[tokio::test]
async fn a_plain_denial_says_the_longest_wait_and_each_descriptor_its_own_limit() {
    let world = world("told_plain").await;
    let mut of = [
        ("soon", [json!(1), json!(0), json!(43)]),
        ("late", [json!(1), json!(0), json!(3_583)]),
        ("roomy", [json!(90), json!(89), Value::Null]),
    ];
    for code in [200, 429, 429] {
        let descriptors: Vec<Value> = of.iter().map(|(key, _)| json!({(*key): "x"})).collect();
        let asked = json!({"domain": "d", "descriptors": descriptors}).to_string();
        let (status, head, answer) =
            exchange(world.running.http, "POST", "/v1/check", &asked).await;
        assert_eq!(status, code);
        if code == 200 {
            continue;
        }
        assert!(head.contains("retry-after: 3583\r\n"), "{head}");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["retry_after"], 3_583);
        for (n, (key, expected)) in of.iter().enumerate() {
            let status = &answer["statuses"][n];
            let found = ["limit", "remaining", "retry_after"].map(|name| status[name].clone());
            assert_eq!(found, *expected, "{key}");
        }
        of.reverse();
    }
}
