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

async fn envoy(world: &World, hits: u64) -> Code {
    let hits =
        RateLimitDescriptor { hits_addend: Some(hits), ..descriptor(&[("tokens", "alice")]) };
    world.ask(request("ai", &[hits])).await.overall_code()
}

/// Whether a cost is admitted by `/json`, and by `/v1/check`.
async fn json_and_http(world: &World, cost: u64) -> [bool; 2] {
    let entries = json!([{"key": "tokens", "value": "alice"}]);
    let body = json!({"domain": "ai", "descriptors": [{"entries": entries, "hitsAddend": cost}]});
    let (status, _) = world.post("/json", body).await;
    [status == 200, world.check("ai", &json!([{"tokens": "alice"}]), cost).await.0]
}

#[tokio::test]
async fn json_and_http_ask_the_same() {
    let world = world("usage_json_and_http").await;
    for cost in [0, 300, 0, 300] {
        assert_eq!(json_and_http(&world, cost).await, [true; 2]);
    }
    assert_eq!(json_and_http(&world, 0).await, [false; 2]);
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
    let own = RateLimitDescriptor {
        hits_addend: Some(150),
        is_negative_hits: true,
        ..descriptor(&[("tokens", "alice")])
    };
    // The client is still in debt, but a request that gives units back is never answered with OVER_LIMIT.
    assert_eq!(world.ask(request("ai", &[own])).await.overall_code(), Code::Ok);
    assert_eq!(envoy(&world, 0).await, Code::OverLimit);
    let entries = json!([{"key": "tokens", "value": "alice"}]);
    let descriptor = json!({"entries": entries, "hitsAddend": 60, "isNegativeHits": true});
    let body = json!({"domain": "ai", "descriptors": [descriptor]});
    let (status, told) = world.post("/json", body).await;
    assert_eq!((status, &told["statuses"][0]["limitRemaining"]), (200, &json!(10)));
    assert_eq!(envoy(&world, 0).await, Code::Ok);
    let (_, metrics) = world.http("GET", "/metrics", "").await;
    for line in [
        "tollgate_rule_negative_hits_total{domain=\"ai\",rule=\"tokens\"} 210",
        "tollgate_rule_given_back_total{domain=\"ai\",rule=\"tokens\"} 210",
        "tollgate_rule_hits_total{domain=\"ai\",rule=\"tokens\"} 1200",
    ] {
        assert!(metrics.contains(line), "{line}");
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
    let hits =
        || RateLimitDescriptor { hits_addend: Some(300), ..descriptor(&[("tokens", "alice")]) };
    // The next charge has room for 200 units, so 100 are not recorded. The charge after that has no room at all.
    for units in ["100", "300"] {
        let answer = world.ask(request("ai", &[hits()])).await;
        let header =
            answer.response_headers_to_add.iter().find(|it| it.key == "X-Tollgate-Uncharged");
        assert_eq!(header.map(|it| it.value.as_str()), Some(units));
        let told = answer.dynamic_metadata.and_then(|told| told.fields.get("uncharged").cloned());
        assert_eq!(
            format!("{:?}", told.and_then(|told| told.kind)),
            format!("Some(NumberValue({units}.0))")
        );
    }
    let entries = json!([{"key": "tokens", "value": "alice"}]);
    let body = json!({"domain": "ai", "descriptors": [{"entries": entries, "hitsAddend": 300}]});
    let (_, told) = world.post("/json", body).await;
    let header = json!({"key": "X-Tollgate-Uncharged", "value": "300"});
    let headers = told["responseHeadersToAdd"].as_array().expect("headers");
    assert!(headers.contains(&header), "{told}");
    for path in ["/v1/check", "/v1/charge"] {
        let body = json!({"domain": "ai", "descriptors": [{"tokens": "alice"}], "cost": 300});
        let (_, told) = world.post(path, body).await;
        assert_eq!(told["statuses"][0]["uncharged"], json!(300), "{path}: {told}");
    }
    let (_, metrics) = world.http("GET", "/metrics", "").await;
    let line = "tollgate_rule_uncharged_total{domain=\"ai\",rule=\"tokens\"} 1300";
    assert!(metrics.contains(line), "{metrics}");
}
