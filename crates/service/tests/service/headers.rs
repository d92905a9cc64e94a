//! Tests the headers that report limits, over a real socket.

use serde_json::{Value, json};
use tollgate_rules::RuleSettings;
use tollgate_service::Options;

use crate::common::{World, descriptor, exchange, request, serve_at_noon, serve_on_clock};

/// The lines of headers that report limits.
pub(crate) fn told(headers: &str) -> Vec<&str> {
    headers.lines().filter(|line| line.contains("ratelimit") || line.contains("retry")).collect()
}

#[tokio::test]
async fn plain_answers_carry_the_headers_that_are_chosen() {
    let rules = "
domain: d
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 5, name: five}}
  - {key: wide, rate_limit: {unit: day, requests_per_unit: 99}}
";
    let body = r#"{"domain": "d", "descriptors": [{"wide": "x"}, {"user": "x"}], "cost": 5}"#;
    let cases: [(&str, &[&str]); 3] = [
        (
            "draft-10",
            &[r#"ratelimit-policy: "five";q=5;w=3600"#, r#"ratelimit: "five";r=0;t=3583"#],
        ),
        (
            "x-ratelimit,a:b:ratelimit-c",
            &[
                "x-ratelimit-limit: 5",
                "x-ratelimit-remaining: 0",
                "x-ratelimit-reset: 3583",
                "ratelimit-c: 3583",
            ],
        ),
        ("none", &[]),
    ];
    for (nth, (styles, admitted)) in cases.into_iter().enumerate() {
        let headers = styles.parse().expect("styles");
        let more = |options| Options { headers, ..options };
        let (world, _) = serve_on_clock(&format!("headers_{nth}"), rules, more).await;
        let denied = [admitted, &["retry-after: 3583"][..]].concat();
        let peek = "/v1/peek?domain=d&user=x";
        for (method, path, body, code, expected) in [
            ("POST", "/v1/check", body, 200, admitted),
            ("POST", "/v1/check", body, 429, &denied[..]),
            ("GET", peek, "", 429, &denied[..]),
        ] {
            let (status, headers, _) = exchange(world.running.http, method, path, body).await;
            assert_eq!((status, &told(&headers)[..]), (code, expected), "{styles} {path}");
        }
    }
}

#[tokio::test]
async fn an_admission_above_a_soft_limit_is_told() {
    let rules = "
domain: d
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 2, mode: soft 50%}}
  - {key: hard, rate_limit: {unit: hour, requests_per_unit: 3}}
";
    for (test, body) in [
        ("soft", r#"{"domain": "d", "descriptors": [{"user": "x"}]}"#),
        ("soft_and_hard", r#"{"domain": "d", "descriptors": [{"user": "x"}, {"hard": "x"}]}"#),
    ] {
        let world = serve_at_noon(test, rules, RuleSettings::default()).await;
        for (code, over) in [(200, false), (200, false), (200, true), (429, false)] {
            let (status, headers, answer) =
                exchange(world.running.http, "POST", "/v1/check", body).await;
            assert_eq!(status, code, "{answer}");
            assert_eq!(headers.contains("x-ratelimit-over: true"), over, "{headers}");
            let told: Value = serde_json::from_str(&answer).expect("JSON");
            let expected = over.then_some(json!(true));
            assert_eq!(told["statuses"][0].get("over"), expected.as_ref(), "{answer}");
        }
    }
}

/// Asks as Envoy; returns the header `Retry-After` of the answer, if there is one.
async fn retry_after(world: &World, keys: &[&str]) -> Option<String> {
    let asked: Vec<_> = keys.iter().map(|key| descriptor(&[(key, "x")])).collect();
    let headers = world.ask(request("d", &asked)).await.response_headers_to_add;
    let mut found = headers.into_iter().filter(|header| header.key == "Retry-After");
    let value = found.next().map(|header| header.value);
    assert!(found.next().is_none());
    value
}

#[tokio::test]
async fn envoy_is_told_of_a_denial_alone_when_to_return() {
    let rules = "
domain: d
descriptors:
  - {key: gcra, rate_limit: {unit: hour, requests_per_unit: 2, algorithm: gcra}}
  - {key: minute, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: never, rate_limit: {unit: minute, requests_per_unit: 0}}
  - {key: tried, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 0}}
";
    let world = serve_at_noon("retry_after_for_envoy", rules, RuleSettings::default()).await;
    for _ in 0..2 {
        assert_eq!(retry_after(&world, &["gcra", "minute"]).await, None);
    }
    // The GCRA limit has room for one unit in half an hour, long before it is full again. The window of the other limit
    // ends in 43 s.
    assert_eq!(retry_after(&world, &["gcra"]).await.as_deref(), Some("1800"));
    assert_eq!(retry_after(&world, &["minute"]).await.as_deref(), Some("43"));
    // If several limits deny, the longest wait is reported. If waiting never helps, none is reported.
    assert_eq!(retry_after(&world, &["minute", "gcra"]).await.as_deref(), Some("1800"));
    assert_eq!(retry_after(&world, &["never"]).await, None);
    assert_eq!(retry_after(&world, &["tried"]).await, None);
}
