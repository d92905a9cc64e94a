//! Tests places in queues, charges and refunds over HTTP, and the answers to Envoy, which cannot wait.

use serde_json::{Value, json};
use tollgate_rules::RuleSettings;
use tollgate_service::protocol::rls::rate_limit_response::Code;

use crate::common::{World, codes, descriptor, request, serve_at_noon};

const RULES: &str = "
domain: shop
descriptors:
  - key: queue
    rate_limit: {unit: second, requests_per_unit: 5, algorithm: gcra, burst: 1, queue: 2}
  - key: bucket
    rate_limit: {unit: minute, requests_per_unit: 60, algorithm: gcra, burst: 10}
  - key: hour
    rate_limit: {unit: hour, requests_per_unit: 10}
";

async fn world(test: &str) -> World {
    serve_at_noon(test, RULES, RuleSettings::default()).await
}

/// The body of a request with one descriptor.
fn of(key: &str, cost: u64) -> Value {
    json!({"domain": "shop", "descriptors": [{key: "alice"}], "cost": cost})
}

async fn reserve(world: &World, key: &str, cost: u64) -> (u16, Value) {
    world.post("/v1/reserve", of(key, cost)).await
}

#[tokio::test]
async fn a_place_in_the_queue_has_a_wait_and_a_token_that_gives_it_back_once() {
    let world = world("a_place_in_the_queue").await;
    let mut tokens = Vec::new();
    for wait in [Value::Null, json!(200), json!(400)] {
        let (status, mut told) = reserve(&world, "queue", 1).await;
        assert_eq!((status, &told["wait_ms"]), (200, &wait), "{told}");
        assert_eq!(told["statuses"][0]["wait_ms"], wait);
        tokens.push(told["token"].take());
    }
    let (status, denied) = reserve(&world, "queue", 1).await;
    assert_eq!((status, &denied["token"], &denied["retry_after"]), (429, &Value::Null, &json!(1)));
    // A place with another place behind it cannot be cancelled. The last place can.
    let cancel = |token: &Value| world.post("/v1/cancel", json!({"token": token}));
    assert_eq!(cancel(&tokens[1]).await, (200, json!({"cancelled": false})));
    assert_eq!(cancel(&tokens[2]).await, (200, json!({"cancelled": true})));
    let (status, told) = cancel(&tokens[2]).await;
    assert_eq!(status, 404);
    assert!(told.as_str().is_some_and(|told| told.starts_with("token is not known: ")), "{told}");
    assert_eq!(reserve(&world, "queue", 1).await.1["wait_ms"], 400);
}

#[tokio::test]
async fn a_check_and_a_peek_tell_the_wait_and_give_no_token_and_envoy_is_denied() {
    let world = world("a_check_tells_the_wait").await;
    let check = || world.post("/v1/check", of("queue", 1));
    assert_eq!(check().await.1["wait_ms"], Value::Null);
    // Envoy cannot wait. Its denied requests take no place, so the next place is still the first. A client that need
    // not wait is admitted.
    let asked = |client: &str| request("shop", &[descriptor(&[("queue", client)])]);
    assert_eq!(codes(&world.ask(asked("alice")).await), [(Code::OverLimit, 0)]);
    assert_eq!(codes(&world.ask(asked("bob")).await), [(Code::Ok, 0)]);
    let entries = json!([{"key": "queue", "value": "alice"}]);
    let body = json!({"domain": "shop", "descriptors": [{"entries": entries}]});
    assert_eq!(world.post("/json", body).await.0, 429);
    let (_, told) = world.http("GET", "/v1/peek?domain=shop&queue=alice", "").await;
    let peeked: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!((&peeked["allowed"], &peeked["wait_ms"]), (&json!(true), &json!(200)));
    let (_, told) = check().await;
    assert_eq!((&told["wait_ms"], &told["token"]), (&json!(200), &Value::Null));
}

#[tokio::test]
async fn a_callers_own_wait_bounds_a_reservation() {
    let world = world("a_callers_own_wait").await;
    let within = |ms: u64| {
        let mut body = of("bucket", 10);
        body["max_wait_ms"] = json!(ms);
        world.post("/v1/reserve", body)
    };
    assert_eq!(within(0).await.0, 200);
    assert_eq!(within(9_999).await.0, 429);
    let (status, told) = within(10_000).await;
    assert_eq!((status, &told["wait_ms"]), (200, &json!(10_000)));
}

#[tokio::test]
async fn what_was_not_used_is_refunded_once() {
    let world = world("what_was_not_used").await;
    let (_, told) = reserve(&world, "hour", 8).await;
    let refund =
        |units: u64| world.post("/v1/refund", json!({"token": told["token"], "units": units}));
    assert_eq!(refund(5).await, (200, json!({"refunded": 5})));
    assert_eq!(refund(3).await.0, 404);
    assert_eq!(world.left("shop", "hour", "alice").await, 7);
    let (_, told) = reserve(&world, "hour", 2).await;
    let all = world.post("/v1/refund", json!({"token": told["token"]})).await;
    assert_eq!(
        (all, world.left("shop", "hour", "alice").await),
        ((200, json!({"refunded": 2})), 7)
    );
}

#[tokio::test]
async fn a_charge_need_not_fit_and_tells_what_was_not_remembered() {
    let world = world("a_charge_need_not_fit").await;
    let (status, told) = world.post("/v1/charge", of("bucket", 15)).await;
    assert_eq!((status, &told["allowed"]), (200, &json!(true)));
    let status = &told["statuses"][0];
    assert_eq!((&status["remaining"], &status["retry_after"]), (&json!(0), &json!(6)), "{told}");
    assert_eq!(status["uncharged"], Value::Null);
    assert_eq!(world.post("/v1/check", of("bucket", 1)).await.0, 429);
    let (_, told) = world.post("/v1/charge", of("hour", 12)).await;
    assert_eq!(told["statuses"][0]["uncharged"], 2);
}

#[tokio::test]
async fn bad_input_is_refused_with_the_name_of_the_field() {
    let world = world("bad_input_names_the_field").await;
    let asks = |name: &str, value: Value| {
        let mut body = json!({"domain": "shop", "descriptors": []});
        body[name] = value;
        body
    };
    let (long, unknown) = ("b".repeat(1_100), "0".repeat(20));
    let texts = r#"expected an object of texts, as in {"user": "alice"}"#;
    for (path, body, status, expected) in [
        ("reserve", asks("domain", json!(5)), 422, "domain: invalid type"),
        ("reserve", asks("max_wait_ms", json!("1")), 422, "max_wait_ms: "),
        ("reserve", asks("wait", json!(1)), 422, "unknown field `wait`"),
        ("reserve", asks("cost", json!(1)), 400, "descriptor list must not be empty"),
        ("reserve", json!({"domain": "", "descriptors": [{}]}), 400, "domain must not be empty"),
        ("reserve", asks("descriptors", json!([{"a": long}])), 400, "keeps at most 1024"),
        ("check", asks("descriptors", json!([5])), 422, texts),
        ("check", asks("descriptors", json!([{"a": 5}])), 422, "invalid type: integer `5`"),
        ("check", asks("cost", json!(1)), 400, "descriptor list must not be empty"),
        ("check", json!({}), 422, "missing field `domain`"),
        ("charge", json!({"domain": "shop"}), 422, "missing field `descriptors`"),
        ("charge", asks("cost", json!(-1)), 422, "cost: invalid value"),
        ("cancel", json!({"token": 5}), 422, "token: invalid type"),
        ("cancel", json!({}), 422, "missing field `token`"),
        ("cancel", json!({"token": "abc"}), 400, "token is none; send the one"),
        ("cancel", json!({"token": unknown}), 404, "token is not known"),
        ("refund", json!({"token": unknown, "units": "3"}), 422, "units: invalid type"),
        ("refund", json!({"token": unknown, "cost": 3}), 422, "unknown field `cost`"),
    ] {
        let (found, told) = world.http("POST", &format!("/v1/{path}"), &body.to_string()).await;
        assert!(found == status && told.contains(expected), "{path}: {found} {told}");
    }
    let large = "x".repeat(1 << 20);
    for path in ["/v1/check", "/v1/reserve", "/v1/charge", "/v1/cancel", "/v1/refund"] {
        assert_eq!(world.http("POST", path, &large).await.0, 413);
        assert_eq!(world.http("POST", path, "{").await.0, 400);
        assert_eq!(world.http("POST", path, "").await.0, 400);
        assert_eq!(world.http("GET", path, "").await.0, 405);
    }
}
