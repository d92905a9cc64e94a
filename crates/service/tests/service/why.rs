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
    for (body, why) in [
        ("", "the body is no JSON object; write one as in {\"domain\": \"shop\", "),
        ("}", "the body is no JSON object"),
        ("[]", "the body is no JSON object"),
        (
            "{",
            "the body is no request: EOF while parsing an object at line 1 column 1; write one as in {",
        ),
        (
            r#"{"domain": 5}"#,
            "the body is no request: invalid type: integer `5`, expected a string at line 1 column 12",
        ),
        (
            r#"{"hitsAddend": -1}"#,
            "the body is no request: a whole number that is not negative was expected",
        ),
        (
            r#"{"hitsAddend": 4294967296}"#,
            "hitsAddend 4294967296 is no whole number from 0 to 4294967295 in digits",
        ),
        (
            r#"{"hitsAddend": "many"}"#,
            "hitsAddend 'many' is no whole number from 0 to 4294967295 in digits",
        ),
        (
            r#"{"unknown": 1}"#,
            "the body is no request: unknown field `unknown`, expected one of `domain`, ",
        ),
        (
            &limited(r#"{"unit": "FORTNIGHT"}"#),
            "limit.unit 'FORTNIGHT' is no unit; use SECOND, MINUTE",
        ),
        (
            &limited(r#"{"unit": []}"#),
            "the body is no request: a unit was expected, as in \"HOUR\" or 3",
        ),
        (&limited(r#"{"unit": 9}"#), "limit.unit 9 is no unit; use SECOND 1 to YEAR 6, or WEEK 7"),
        (
            &limited(r#"{"requestsPerUnit": 4294967296}"#),
            "limit.requestsPerUnit 4294967296 is no whole number",
        ),
        (&deep, "the body is no JSON object"),
    ] {
        let (status, told) = world.http("POST", "/json", body).await;
        let body = &body[..body.len().min(40)];
        assert_eq!(status, 400, "{body}");
        assert!(told.starts_with(why), "{body}: {told}");
    }
    let (status, text) = world.http("POST", "/json", r#"{"domain":""}"#).await;
    assert_eq!((status, text.as_str()), (400, "rate limit domain must not be empty"));
    let (status, _) = world.http("POST", "/json", &"x".repeat(1 << 20)).await;
    assert_eq!(status, 413);
    assert_eq!(world.http("GET", "/json", "").await.0, 405);
}

/// Nothing listens there.
#[tokio::test]
async fn a_denial_for_want_of_the_store_is_told_as_that_in_a_header() {
    let rules = "
domain: d
descriptors:
  - {key: deny, on_error: deny, rate_limit: {unit: hour, requests_per_unit: 5}}
";
    let global = Some(Global::new("redis://127.0.0.1:1/"));
    let world =
        serve_with("without_the_store", rules, |options| Options { global, ..options }).await;
    let entries = json!([{"key": "deny", "value": "x"}]);
    let body = json!({"domain": "d", "descriptors": [{"entries": entries}]});
    let (status, answer) = world.post("/json", body).await;
    let told = json!({"key": "X-Tollgate-Reason", "value": "store_down_denied"});
    let headers = answer["responseHeadersToAdd"].as_array().expect("headers");
    assert_eq!((status, headers.last()), (429, Some(&told)));
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
";
    // Each array says which of two requests is admitted.
    let (local, allow, deny) = ([true, false], [true, true], [false, false]);
    for (on_error, none) in [
        (RuleOnError::default(), local),
        (RuleOnError::Local, local),
        (RuleOnError::Allow, allow),
        (RuleOnError::Deny, deny),
    ] {
        let global = Some(Global { on_error, ..Global::new("redis://127.0.0.1:1/") });
        let test = format!("without_the_store_{}", on_error.word());
        let world = serve_with(&test, rules, |options| Options { global, ..options }).await;
        for (key, admitted) in [("none", none), ("local", local), ("allow", allow), ("deny", deny)]
        {
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
    }
}
