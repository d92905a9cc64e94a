//! Tests that answers give a reason: the mistake in a request, or the outage that is behind a denial.

use serde_json::json;
use tollgate_rules::{RuleOnError, RuleSettings};
use tollgate_service::{Global, Options};

use crate::common::{RULES, serve, serve_with};

#[tokio::test]
async fn json_that_is_no_request_is_refused() {
    let world = serve("json_that_is_no_request_is_refused", RULES, RuleSettings::default()).await;
    let deep = "[".repeat(100_000);
    let limited = |limit: &str| {
        format!(
            r#"{{"domain":"basic","descriptors":[{{"entries":[{{"key":"own"}}],"limit":{limit}}}]}}"#
        )
    };
    let (none, wrong) = ("the body is no JSON object", "the body is no request: ");
    for (what, body, why) in [
        (none, "", "; write one as in {\"domain\": \"shop\", "),
        (none, "}", ""),
        (none, "[]", ""),
        (none, &deep, ""),
        (wrong, "{", "EOF while parsing an object at line 1 column 1; write one as in {"),
        (
            wrong,
            r#"{"domain": 5}"#,
            "invalid type: integer `5`, expected a string at line 1 column 12",
        ),
        (wrong, r#"{"unknown": 1}"#, "unknown field `unknown`, expected one of `domain`, "),
        (wrong, r#"{"hitsAddend": -1}"#, "a whole number that is not negative was expected"),
        (wrong, &limited(r#"{"unit": []}"#), "a unit was expected, as in \"HOUR\" or 3"),
        (
            "hitsAddend ",
            r#"{"hitsAddend": 4294967296}"#,
            "4294967296 is no whole number from 0 to 4294967295 in digits",
        ),
        (
            "hitsAddend ",
            r#"{"hitsAddend": "many"}"#,
            "'many' is no whole number from 0 to 4294967295 in digits",
        ),
        (
            "limit.unit ",
            &limited(r#"{"unit": "FORTNIGHT"}"#),
            "'FORTNIGHT' is no unit; use SECOND, MINUTE",
        ),
        (
            "limit.unit ",
            &limited(r#"{"unit": 9}"#),
            "9 is no unit; use SECOND 1 to YEAR 6, or WEEK 7",
        ),
        (
            "limit.requestsPerUnit ",
            &limited(r#"{"requestsPerUnit": 4294967296}"#),
            "4294967296 is no whole number",
        ),
    ] {
        let (status, told) = world.http("POST", "/json", body).await;
        let reason = told.strip_prefix(what);
        let is_told = status == 400 && reason.is_some_and(|reason| reason.starts_with(why));
        assert!(is_told, "{body:.40}: {status} {told}");
    }
    let (status, text) = world.http("POST", "/json", r#"{"domain":""}"#).await;
    assert_eq!((status, text.as_str()), (400, "rate limit domain must not be empty"));
    let (status, _) = world.http("POST", "/json", &"x".repeat(1 << 20)).await;
    assert_eq!(status, 413);
    assert_eq!(world.http("GET", "/json", "").await.0, 405);
}

/// Nothing listens there.
#[tokio::test]
async fn without_the_store_a_rule_that_names_no_on_error_follows_the_service_and_others_themselves()
{
    let rules = "
domain: d
descriptors:
  - {key: none, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: local, on_error: local, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: allow, on_error: allow, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: deny, on_error: deny, rate_limit: {unit: hour, requests_per_unit: 1}}
  - key: queue_allow
    on_error: allow
    rate_limit: {unit: hour, requests_per_unit: 1, algorithm: gcra, queue: 1}
  - key: queue_local
    on_error: local
    rate_limit: {unit: hour, requests_per_unit: 1, algorithm: gcra, queue: 1}
";
    // Each array says which of two requests is admitted.
    let (local, allow, deny) = ([true, false], [true, true], [false, false]);
    for (on_error, none) in [
        (RuleOnError::default(), local),
        (RuleOnError::Local, local),
        (RuleOnError::Allow, allow),
        (RuleOnError::Deny, deny),
    ] {
        let store = "redis://limiter:secret@127.0.0.1:1/";
        let global = Some(Global { on_error, ..Global::new(store) });
        let test = format!("without_the_store_{}", on_error.word());
        let world = serve_with(&test, rules, |options| Options { global, ..options }).await;
        // Before any request the service is healthy, and says that its store does not answer, without the password.
        let (status, told) = world.http("GET", "/healthcheck", "").await;
        assert_eq!(status, 200);
        let store = "degraded: redis://127.0.0.1:1/ has not answered since ";
        assert!(told.starts_with(store) && told.ends_with("; rules decide by on_error"), "{told}");
        assert_eq!(world.metric("tollgate_store_degraded").await.as_deref(), Some("1"));
        for (key, admitted) in [
            ("none", none),
            ("local", local),
            ("allow", allow),
            ("deny", deny),
            ("queue_allow", allow),
        ] {
            for is_admitted in admitted {
                let (allowed, statuses) = world.check("d", &json!([{ key: "x" }]), 1).await;
                let reason = if is_admitted { "store_down_allowed" } else { "store_down_denied" };
                let told = (allowed, statuses[0]["reason"].as_str());
                assert_eq!(told, (is_admitted, Some(reason)), "{on_error:?}: {key}");
            }
            // If this node's share decides, it is charged the units that the store has not charged.
            let body = json!({"domain": "d", "descriptors": [{ key: "y" }], "cost": 1});
            let (status, answer) = world.post("/v1/charge", body).await;
            let uncharged = answer["statuses"][0]["uncharged"].as_u64().unwrap_or(0);
            let expected = u64::from(admitted != local);
            assert_eq!((status, uncharged), (200, expected), "{on_error:?}: {key}");
        }
        for key in ["queue_allow", "queue_local"] {
            let body = json!({"domain": "d", "descriptors": [{ key: "z" }], "cost": 1});
            let (status, answer) = world.post("/v1/reserve", body).await;
            let told = (status, answer["statuses"][0]["reason"].as_str());
            assert_eq!(told, (200, Some("store_down_allowed")), "{on_error:?}: {key}");
        }
        let descriptor = json!({"entries": [{"key": "deny", "value": "x"}]});
        let body = json!({"domain": "d", "descriptors": [descriptor]});
        let (status, answer) = world.post("/json", body).await;
        let told = json!({"key": "X-Tollgate-Reason", "value": "store_down_denied"});
        let headers = answer["responseHeadersToAdd"].as_array().expect("headers");
        assert_eq!((status, headers.last()), (429, Some(&told)));
        let connections = world.metric("tollgate_store_connections_total").await;
        assert_eq!(connections.as_deref(), Some("0"));
    }
}

/// Nothing listens there. The key of each rule says its `on_error`.
#[tokio::test]
async fn without_the_store_envoyproxys_keys_are_charged_only_what_this_nodes_share_admits() {
    let rules = "
domain: d
descriptors:
  - {key: local, on_error: local, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: allow, on_error: allow, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: deny, on_error: deny, rate_limit: {unit: hour, requests_per_unit: 1}}
";
    let store = Global::new("redis://127.0.0.1:1/");
    let global = Some(Global { envoyproxy: Some(String::new()), ..store });
    let settings = RuleSettings { compat: true, ..RuleSettings::default() };
    let more = |options| Options { global, settings, ..options };
    let world = serve_with("without_the_store_envoyproxy", rules, more).await;
    // Each array says how many units of two charges of one unit are not charged.
    for (key, uncharged) in [("local", [0, 1]), ("allow", [1, 1]), ("deny", [1, 1])] {
        for expected in uncharged {
            let body = json!({"domain": "d", "descriptors": [{ key: "x" }], "cost": 1});
            let (status, answer) = world.post("/v1/charge", body).await;
            let told = answer["statuses"][0]["uncharged"].as_u64().unwrap_or(0);
            assert_eq!((status, told), (200, expected), "{key}");
        }
        let series = format!("tollgate_rule_uncharged_total{{domain=\"d\",rule=\"{key}\"}}");
        let total = uncharged.iter().sum::<u64>().to_string();
        assert_eq!(world.metric(&series).await, Some(total), "{key}");
    }
}
