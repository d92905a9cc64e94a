//! Tests HTTP over a real socket.

use crate::common::{
    NOON, RULES, World, codes, descriptor, exchange, raw, request, serve, serve_at_noon, serve_with,
};
use serde_json::{Value, json};
use tollgate::ManualClock;
use tollgate_rules::RuleSettings;
use tollgate_service::offline::Offline;
use tollgate_service::protocol::rls::rate_limit_response::Code;
use tollgate_service::{MetricsNames, Options};

async fn world(test: &str) -> World {
    serve(test, RULES, RuleSettings::default()).await
}

fn parsed(body: &str) -> Value {
    serde_json::from_str(body).expect("JSON")
}

/// Fuzzers and benchmarks send requests without a socket. They must get the same answers as clients.
#[tokio::test]
async fn j_json_is_envoys_protocol_with_or_without_a_socket_and_200_if_it_may_go_and_429_if_not() {
    let world = serve_at_noon("j_json", RULES, RuleSettings::default()).await;
    let clock = ManualClock::new();
    clock.set(NOON);
    let offline = Offline::new(RULES, RuleSettings::default(), clock).expect("good rules");
    let body = r#"{"domain":"basic","descriptors":[{"entries":[{"key":"key3","value":"x"}],"hitsAddend":"5"}]}"#;
    for (expected, code, left) in [(200, "OK", 5), (200, "OK", 0), (429, "OVER_LIMIT", 0)] {
        let (status, answer) = world.http("POST", "/json", body).await;
        assert_eq!(offline.json(body.as_bytes()), (status, answer.clone()));
        let answer = parsed(&answer);
        assert_eq!((status, &answer["overallCode"]), (expected, &json!(code)));
        let mut of_ten = json!({
            "code": code,
            "currentLimit": {"requestsPerUnit": 10, "unit": "YEAR", "name": "ten"},
            "durationUntilReset": "7559983s",
        });
        if left > 0 {
            of_ten["limitRemaining"] = json!(left);
        }
        assert_eq!(answer["statuses"], json!([of_ten]));
    }
    let refused = world.http("POST", "/json", "}").await;
    assert_eq!((refused.0, &refused), (400, &offline.json(b"}")));
    // This request uses the names of the `.proto` file, a number for an enumeration, and a text for a number.
    let own = r#"{"domain":"basic","hits_addend":"2","descriptors":[{"entries":[{"key":"own"}],
        "limit":{"requests_per_unit":5,"unit":6}},{"entries":[{"key":"key2"}]},
        {"entries":[{"key":"hourly"}],"limit":{"requests_per_unit":7,"unit":"HOUR"}}]}"#;
    let (status, answer) = world.http("POST", "/json", own).await;
    let statuses = &parsed(&answer)["statuses"];
    assert_eq!((status, &statuses[0]["limitRemaining"]), (200, &json!(3)));
    // A limit without a name is told without one.
    for (n, requests, unit) in [(1, 20, "YEAR"), (2, 7, "HOUR")] {
        let limit = json!({"requestsPerUnit": requests, "unit": unit});
        assert_eq!(statuses[n]["currentLimit"], limit, "{answer}");
    }
}

#[tokio::test]
async fn check_peek_and_reset_are_the_same_questions_in_plain() {
    let world = world("check_peek_and_reset").await;
    let body = r#"{"domain": "basic", "descriptors": [{"key3": "x"}], "cost": 10}"#;
    let peek = "/v1/peek?domain=basic&cost=10&key3=x";
    let (status, answer) = world.http("GET", peek, "").await;
    assert_eq!((status, &parsed(&answer)["statuses"][0]["remaining"]), (200, &json!(10)));
    let (status, answer) = world.http("POST", "/v1/check", body).await;
    assert_eq!((status, &parsed(&answer)["allowed"]), (200, &json!(true)));
    let (status, headers, answer) = exchange(world.running.http, "POST", "/v1/check", body).await;
    let answer = parsed(&answer);
    assert_eq!(status, 429);
    assert_eq!(answer["statuses"][0]["window"], 31_536_000);
    let wait = answer["retry_after"].as_u64().expect("a wait");
    assert!(wait >= 1 && headers.contains(&format!("retry-after: {wait}")), "{headers}");
    assert_eq!(world.http("GET", peek, "").await.0, 429);
    assert_eq!(world.admin("POST", "/v1/reset", body).await, (200, r#"{"reset":1}"#.to_owned()));
    assert_eq!(world.http("POST", "/v1/check", body).await.0, 200);
    assert_eq!(world.http("GET", "/v1/peek?domain=basic&cost=many", "").await.0, 400);
}

#[tokio::test]
async fn each_descriptor_is_answered_with_its_limit_or_that_it_has_none() {
    let rules = "
domain: d
descriptors:
  - {key: free, rate_limit: {unlimited: true, name: any}}
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 5, name: five}}
";
    let world = serve_at_noon("each_descriptor", rules, RuleSettings::default()).await;
    let asked = json!([{"free": "x"}, {"user": "x"}, {"other": "x"}]);
    let any = json!({"allowed": true, "name": "any"});
    // The answer says that no rule matches the third descriptor.
    let other = json!({"allowed": true, "rule": null});
    let five = json!({"allowed": true, "name": "five", "limit": 5, "window": 3_600, "remaining": 0,
        "reset_after": 3_583});
    assert_eq!(world.check("d", &asked, 5).await, (true, json!([any, five, other])));
    let mut five = five;
    (five["allowed"], five["retry_after"]) = (json!(false), json!(3_583));
    assert_eq!(world.check("d", &asked, 5).await, (false, json!([any, five, other])));
    assert_eq!(world.metric("tollgate_descriptor_not_found_total").await.as_deref(), Some("2"));
    let unknown = world.check("unknown", &json!([{"user": "x"}, {"free": "x"}]), 5).await;
    assert_eq!(unknown, (true, json!([other, other])));
    assert_eq!(world.metric("tollgate_descriptor_not_found_total").await.as_deref(), Some("4"));
}

#[tokio::test]
async fn health_config_and_page_tell_what_is_in_force_and_that_there_is_nothing() {
    let world = world("health_and_config").await;
    assert_eq!(world.http("GET", "/healthcheck", "").await, (200, "OK".to_owned()));
    let (status, page) = world.admin("GET", "/rlconfig", "").await;
    assert_eq!(status, 200);
    assert!(page.starts_with("basic.key1: fixed-window 50/s\n"), "{page}");
    let none = serve("health_without_rules", "domain: [", RuleSettings::default()).await;
    assert_eq!(none.http("GET", "/healthcheck", "").await.0, 500);
    let check = r#"{"domain": "basic", "descriptors": [{"key3": "x"}]}"#;
    assert_eq!(none.http("POST", "/v1/check", check).await.0, 503);
    let (_, page) = none.admin("GET", "/rlconfig", "").await;
    assert!(page.starts_with("refused: ") && page.contains("error loading config file"), "{page}");
    let (status, page) = none.http("GET", "/", "").await;
    assert_eq!(status, 200);
    assert!(page.contains("no rules") && page.contains("1 error in the newest rules"), "{page}");
    // In envoyproxy/ratelimit, the answer UNKNOWN to a request without a decision would be a 500.
    let json = r#"{"domain":"basic","descriptors":[{"entries":[{"key":"key3","value":"x"}]}]}"#;
    let answer = none.http("POST", "/json", json).await;
    assert_eq!(answer, (400, "no rate limit configuration loaded".to_owned()));
}

/// Rules for which each counter gets a different number.
const COUNTED: &str = "
domain: d
descriptors:
  - {key: user, capacity: 16, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: shadow, value: 'a.b:c', shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - key: plan
    descriptors:
      - {key: user, descriptors: [{key: path, rate_limit: {unit: hour, requests_per_unit: 9}}]}
";

/// The page of metrics after a few requests, without the lines that vary, such as times and bytes.
async fn counted(test: &str, names: MetricsNames) -> String {
    let world = serve_with(test, COUNTED, |options| Options {
        metrics_names: names,
        max_connections: Some(100),
        clock: ManualClock::new().into(),
        ..options
    })
    .await;
    let nobody = r#"{"domain": "elsewhere", "descriptors": [{"user": "x"}]}"#;
    let user = r#"{"domain": "d", "descriptors": [{"user": "x"}], "cost": 5}"#;
    let shadow = r#"{"domain": "d", "descriptors": [{"shadow": "a.b:c"}]}"#;
    let deep = r#"{"domain": "d", "descriptors": [{"plan": "p", "user": "u", "path": "/"}]}"#;
    for (body, status) in [
        (nobody, 200),
        (user, 200),
        (user, 429),
        (shadow, 200),
        (shadow, 200),
        (deep, 200),
        ("{}", 422),
    ] {
        assert_eq!(world.http("POST", "/v1/check", body).await.0, status, "{body}");
    }
    let asked = request("d", &[descriptor(&[("user", "y")])]);
    assert_eq!(codes(&world.ask(asked).await), [(Code::Ok, 4)]);
    let (status, page) = world.http("GET", "/metrics", "").await;
    assert_eq!(status, 200);
    let is_fixed = |line: &&str| {
        let is_series = |name: &str| line.starts_with(name);
        !["tollgate_decision_seconds_", "ratelimit_service_response_time_seconds_"]
            .into_iter()
            .any(|name| is_series(&format!("{name}sum")) || is_series(&format!("{name}bucket")))
            && !line.contains("_bytes")
            // This count varies, because connections that have ended may not be closed yet.
            && !is_series("tollgate_connections ")
    };
    page.lines().filter(is_fixed).map(|line| format!("{line}\n")).collect()
}

#[tokio::test]
async fn the_metrics_are_these_and_dashboards_of_envoyproxy_ratelimit_find_their_names_before_ours()
{
    let own = include_str!("../metrics_own.txt");
    let both = [include_str!("../metrics_envoyproxy.txt"), own].concat();
    for (test, names, expected) in [
        ("metrics_own", MetricsNames::Own, own),
        ("metrics_theirs", MetricsNames::Envoyproxy, &both),
    ] {
        let page = counted(test, names).await;
        assert_eq!(page, expected, "{page}");
    }
}

#[tokio::test]
async fn readers_that_accept_open_metrics_get_it_and_others_the_older_format() {
    let world = serve("metrics_accept", COUNTED, RuleSettings::default()).await;
    let prometheus = "accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3\r\n";
    let open = ("application/openmetrics-text; version=1.0.0", "requests", Some("# EOF"));
    let plain = ("text/plain; version=0.0.4", "requests_total", None);
    for (headers, (kind, counter, end)) in
        [(prometheus, open), ("accept: */*\r\n", plain), ("", plain)]
    {
        let head =
            format!("GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
        let told = raw(world.running.http, &head).await;
        let counter = format!("# TYPE tollgate_{counter} counter");
        let kind = format!("{kind}; charset=utf-8");
        assert!(told.contains(&format!("\r\ncontent-type: {kind}\r\n")), "{headers}: {told}");
        assert_eq!(told.lines().filter(|line| *line == counter).count(), 1, "{headers}");
        assert_eq!(told.lines().find(|line| *line == "# EOF"), end, "{headers}");
    }
}

#[tokio::test]
async fn the_status_page_shows_rules_and_to_the_admin_alone_the_clients_that_they_deny() {
    let rules = "
domain: d
descriptors:
  - {key: '<b>&', rate_limit: {unit: hour, requests_per_unit: 2}}
";
    let world = serve("status_page", rules, RuleSettings::default()).await;
    let check = r#"{"domain": "d", "descriptors": [{"<b>&": "<i>secret\n"}]}"#;
    for _ in 0..3 {
        world.http("POST", "/v1/check", check).await;
    }
    for address in [world.running.http, world.running.admin] {
        let (status, headers, page) = exchange(address, "GET", "/", "").await;
        assert_eq!(status, 200);
        assert!(headers.contains("content-type: text/html; charset=utf-8"), "{headers}");
        assert!(headers.contains("content-security-policy: default-src 'none'"), "{headers}");
        assert!(
            page.contains("<td class=\"name\">d.&lt;b&gt;&amp;<div")
                && page.contains(">fixed-window 2/h<"),
            "{page}"
        );
        assert!(!page.contains("<i>secret") && !page.contains("<b>&"), "{page}");
        // Only the admin sees the names of clients.
        let is_admins = address == world.running.admin;
        assert_eq!(page.contains(">&lt;i&gt;secret\\n<"), is_admins, "{page}");
        assert_eq!(page.contains("secret"), is_admins, "{page}");
        let (status, headers, script) = exchange(address, "GET", "/status.js", "").await;
        assert!(status == 200 && headers.contains("content-type: text/javascript"), "{headers}");
        assert!(script.contains("replaceWith"));
    }
    // With this many rules, not every rule has a list of clients.
    let rule = |n| format!("  - {{key: k{n}, value: x, rate_limit: {{unit: hour}}}}\n");
    let many: String = (0..257).map(rule).collect();
    let many =
        format!("domain: d\ndescriptors:\n  - {{key: user, rate_limit: {{unit: hour}}}}\n{many}");
    let note = "Of the 258 rules the first 256 that refused a client keep such a list; the others name none.";
    let many = serve("status_page_many", &many, RuleSettings::default()).await;
    let check = r#"{"domain": "d", "descriptors": [{"user": "x"}]}"#;
    many.http("POST", "/v1/check", check).await;
    assert!(many.admin("GET", "/", "").await.1.contains(note));
    assert!(!world.admin("GET", "/", "").await.1.contains("name none"));
}

/// 2.0 and 2 are one number in JSON.
#[tokio::test]
async fn a_whole_number_with_a_fraction_of_zero_is_that_number() {
    let world = world("whole_numbers").await;
    let check = r#"{"domain":"basic","descriptors":[{"key3":"x"}],"cost":2.0}"#;
    assert_eq!(world.http("POST", "/v1/check", check).await.0, 200);
    assert_eq!(world.left("basic", "key3", "x").await, 8);
    let json = r#"{"domain":"basic","descriptors":[{"entries":[{"key":"key3","value":"x"}],"hitsAddend":3.0},
        {"entries":[{"key":"own"}],"limit":{"requestsPerUnit":5.0,"unit":2.0}}]}"#;
    let (status, answer) = world.http("POST", "/json", json).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(parsed(&answer)["statuses"][1]["currentLimit"]["unit"], "MINUTE");
    assert_eq!(world.left("basic", "key3", "x").await, 5);
    let reserve = r#"{"domain":"basic","descriptors":[{"key3":"x"}],"cost":3.0,"max_wait_ms":5.0}"#;
    let (_, reserved) = world.http("POST", "/v1/reserve", reserve).await;
    let token = parsed(&reserved)["token"].as_str().expect("a token").to_owned();
    let refund = format!(r#"{{"token":"{token}","units":1.0}}"#);
    assert_eq!(world.http("POST", "/v1/refund", &refund).await, (200, r#"{"refunded":1}"#.into()));
    assert_eq!(world.left("basic", "key3", "x").await, 3);
    // A fraction is refused.
    let half = check.replace("2.0", "2.5");
    assert_eq!(world.http("POST", "/v1/check", &half).await.0, 422);
    assert_eq!(world.left("basic", "key3", "x").await, 3);
}

/// serde reads a struct from a list, too.
#[tokio::test]
async fn a_list_in_place_of_an_object_is_refused_and_charges_nothing() {
    let world = world("a_list").await;
    let asked = r#"["basic", [{"key3": "x"}], 1]"#;
    let token = r#"["00000123456789abcdef"]"#;
    for (path, body) in [
        ("/v1/check", asked),
        ("/v1/charge", asked),
        ("/v1/reserve", asked),
        ("/v1/cancel", token),
        ("/v1/refund", token),
    ] {
        let answer = world.http("POST", path, body).await;
        assert!(answer.0 == 422 && answer.1.contains("expected an object"), "{answer:?}");
    }
    for path in ["/v1/reset", "/v1/headroom"] {
        let answer = world.admin("POST", path, asked).await;
        assert!(answer.0 == 422 && answer.1.contains("expected an object"), "{answer:?}");
    }
    assert_eq!(world.left("basic", "key3", "x").await, 10);
}
