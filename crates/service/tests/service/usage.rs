//! Tests limits on costs that are known only afterwards. An Envoy in front of a language model asks with a cost of 0
//! before the request, and reports the used tokens after the response.

use serde_json::{Value, json};
use tollgate_rules::RuleSettings;
use tollgate_service::protocol::common::RateLimitDescriptor;
use tollgate_service::protocol::rls::rate_limit_response::Code;

use crate::common::{World, descriptor, request, serve_at_noon};

const RULES: &str = "
domain: ai
descriptors:
  - {key: tokens, usage: true, rate_limit: {unit: hour, requests_per_unit: 1000, algorithm: gcra, burst: 1000}}
";

async fn world(test: &str) -> World {
    serve_at_noon(test, RULES, RuleSettings::default()).await
}

fn tokens(hits: u64) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(hits), ..descriptor(&[("tokens", "alice")]) }
}

async fn envoy(world: &World, hits: u64) -> Code {
    world.ask(request("ai", &[tokens(hits)])).await.overall_code()
}

/// Asks `/json` for this cost, or gives it back; returns the status and the answer.
async fn over_json(world: &World, cost: u64, is_negative: bool) -> (u16, Value) {
    let entries = json!([{"key": "tokens", "value": "alice"}]);
    let descriptor = json!({"entries": entries, "hitsAddend": cost, "isNegativeHits": is_negative});
    world.post("/json", json!({"domain": "ai", "descriptors": [descriptor]})).await
}

#[tokio::test]
async fn json_and_http_ask_the_same() {
    let world = world("usage_json_and_http").await;
    for (cost, is_admitted) in [(0, true), (300, true), (0, true), (300, true), (0, false)] {
        let status = if is_admitted { 200 } else { 429 };
        assert_eq!(over_json(&world, cost, false).await.0, status);
        let (found, _) = world.check("ai", &json!([{"tokens": "alice"}]), cost).await;
        assert_eq!(found, is_admitted);
    }
    let (status, told) = world.http("GET", "/v1/peek?domain=ai&tokens=alice&cost=0", "").await;
    let told: Value = serde_json::from_str(&told).expect("JSON");
    // The client has room again after 201 units have come back, which takes 723.6 s.
    assert_eq!((status, &told["retry_after"]), (429, &json!(724)), "{told}");
}

#[tokio::test]
async fn negative_hits_give_back_over_grpc_and_json_and_are_counted() {
    let world = world("usage_negative").await;
    assert_eq!(envoy(&world, 1_200).await, Code::Ok);
    assert_eq!(envoy(&world, 0).await, Code::OverLimit);
    // The client is still in debt, but a request that gives units back is never answered with OVER_LIMIT.
    let back = RateLimitDescriptor { is_negative_hits: true, ..tokens(150) };
    assert_eq!(world.ask(request("ai", &[back])).await.overall_code(), Code::Ok);
    assert_eq!(envoy(&world, 0).await, Code::OverLimit);
    let (status, told) = over_json(&world, 60, true).await;
    assert_eq!((status, &told["statuses"][0]["limitRemaining"]), (200, &json!(10)));
    assert_eq!(envoy(&world, 0).await, Code::Ok);
    for (series, count) in [("negative_hits", "210"), ("given_back", "210"), ("hits", "1200")] {
        let series = format!("tollgate_rule_{series}_total{{domain=\"ai\",rule=\"tokens\"}}");
        assert_eq!(world.metric(&series).await.as_deref(), Some(count), "{series}");
    }
}

/// Many responses of 300 tokens each come at the same time. The limit is 1,000 per hour, and it can record at most
/// 101,000 tokens.
#[tokio::test]
async fn what_no_limit_remembers_is_told_over_every_protocol_and_counted() {
    let world = world("usage_uncharged").await;
    for _ in 0..336 {
        assert!(matches!(envoy(&world, 300).await, Code::Ok | Code::OverLimit));
    }
    // The next charge has room for 200 units, so 100 are not recorded. The charge after that has no room at all.
    for units in ["100", "300"] {
        let answer = world.ask(request("ai", &[tokens(300)])).await;
        let mut headers = answer.response_headers_to_add.iter();
        let header = headers.find(|it| it.key == "X-Tollgate-Uncharged");
        assert_eq!(header.map(|it| it.value.as_str()), Some(units));
        let told = answer.dynamic_metadata.and_then(|told| told.fields.get("uncharged").cloned());
        let told = format!("{:?}", told.and_then(|told| told.kind));
        assert_eq!(told, format!("Some(NumberValue({units}.0))"));
    }
    let (_, told) = over_json(&world, 300, false).await;
    let header = json!({"key": "X-Tollgate-Uncharged", "value": "300"});
    let headers = told["responseHeadersToAdd"].as_array().expect("headers");
    assert!(headers.contains(&header), "{told}");
    for path in ["/v1/check", "/v1/charge"] {
        let body = json!({"domain": "ai", "descriptors": [{"tokens": "alice"}], "cost": 300});
        let (_, told) = world.post(path, body).await;
        assert_eq!(told["statuses"][0]["uncharged"], json!(300), "{path}: {told}");
    }
    let series = "tollgate_rule_uncharged_total{domain=\"ai\",rule=\"tokens\"}";
    assert_eq!(world.metric(series).await.as_deref(), Some("1300"));
}
