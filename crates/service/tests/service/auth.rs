//! Tests `/v1/auth`: the questions of proxies, and the answers. The tests with real proxies are in
//! `crates/cli/tests/proxies`.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tollgate_rules::RuleSettings;
use tollgate_service::{Global, Options, TrustedProxies};

use crate::common::{World, answered, serve_at_noon, serve_on_clock, serve_with};
use crate::headers::told;

const RULES: &str = "
domain: shop
forward_auth:
  - remote_address: address
  - {path: path, method: method}
  - user: header x-user
  - {plan: header x-plan else free, host: host}
descriptors:
  - {key: remote_address, rate_limit: {unit: hour, requests_per_unit: 5, name: per-client}}
  - key: path
    value: /login
    descriptors:
      - {key: method, value: POST, rate_limit: {unit: hour, requests_per_unit: 2, name: logins}}
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1, name: per-user}}
  - key: plan
    value: free
    descriptors:
      - {key: host, rate_limit: {unit: hour, requests_per_unit: 100, name: free}}
";

/// Sends a request from this address of the machine; returns the status, the headers in lower case, and the body of the
/// answer.
async fn ask_from(
    world: &World,
    from: &str,
    start: &str,
    headers: &[&str],
) -> (u16, String, String) {
    let socket = TcpSocket::new_v4().expect("a socket");
    let from: SocketAddr = format!("{from}:0").parse().expect("an address");
    socket.bind(from).expect("an address of this machine");
    let mut stream = socket.connect(world.running.http).await.expect("it listens");
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let request =
        format!("{start} HTTP/1.1\r\nhost: tollgate\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("it answers");
    answered(&String::from_utf8(answer).expect("text"))
}

/// Asks as a proxy on this machine; returns the status of the answer.
async fn ask(world: &World, path: &str, headers: &[&str]) -> u16 {
    ask_from(world, "127.0.0.1", &format!("GET {path}"), headers).await.0
}

/// Asks as a proxy; returns the status of the answer, and the limits that decided, each with its remaining units.
async fn limits(world: &World, headers: &[&str]) -> String {
    let asked = "GET /v1/auth?domain=shop";
    let (status, _, body) = ask_from(world, "127.0.0.1", asked, headers).await;
    let body: Value = serde_json::from_str(&body).expect("JSON");
    let statuses = body["statuses"].as_array().expect("statuses").iter();
    let named = statuses.filter_map(|status| {
        Some(format!("{} {}", status["name"].as_str()?, status["remaining"].as_u64()?))
    });
    format!("{status}: {}", named.collect::<Vec<_>>().join(", "))
}

#[tokio::test]
async fn a_request_is_decided_by_every_descriptor_whose_parts_it_has() {
    let world = serve_at_noon("auth_descriptors", RULES, RuleSettings::default()).await;
    let client = "x-forwarded-for: 192.0.2.1";
    assert_eq!(limits(&world, &[client]).await, "200: per-client 4");
    let host = "X-Forwarded-Host: Shop.Example:8443";
    let user = "x-user: alice";
    let login = ["x-forwarded-uri: /x/..//LOGIN/?next=/", "x-forwarded-method: POST"];
    let all = [client, user, login[0], login[1], host];
    assert_eq!(limits(&world, &all).await, "200: per-client 3, logins 1, per-user 0, free 99");
    // One of the limits denies the request, so no limit is charged.
    assert_eq!(limits(&world, &all).await, "429: per-client 3, logins 1, per-user 0, free 99");
    // For other methods, paths and plans there is no rule.
    let other = [client, "x-forwarded-method: GET", login[0], "x-plan: paid", host];
    assert_eq!(limits(&world, &other).await, "200: per-client 2");
    // The next host is the same host in another spelling.
    let other = [client, "x-forwarded-host: SHOP.example."];
    assert_eq!(limits(&world, &other).await, "200: per-client 1, free 98");
}

#[tokio::test]
async fn an_answer_has_the_headers_of_a_check_and_the_status_that_the_proxy_wants() {
    let world = serve_at_noon("auth_headers", RULES, RuleSettings::default()).await;
    let path = "GET /v1/auth?domain=shop&cost=5";
    let policy = r#"ratelimit-policy: "per-client";q=5;w=3600"#;
    let left = r#"ratelimit: "per-client";r=0;t=3583"#;
    let (status, head, _) = ask_from(&world, "127.0.0.1", path, &[]).await;
    assert_eq!((status, told(&head)), (200, vec![policy, left]));
    for (deny, expected) in [("", 429), ("&deny=403", 403), ("&deny=400", 400), ("&deny=599", 599)]
    {
        let (status, head, body) =
            ask_from(&world, "127.0.0.1", &format!("{path}{deny}"), &[]).await;
        assert_eq!((status, told(&head)[2]), (expected, "retry-after: 3583"), "{deny}");
        assert!(body.starts_with(r#"{"allowed":false,"retry_after":3583,"#), "{body}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PURGE"] {
        let start = format!("{method} /v1/auth?domain=shop");
        assert_eq!(ask_from(&world, "127.0.0.1", &start, &[]).await.0, 429, "{method}");
    }
    let (status, head, body) =
        ask_from(&world, "127.0.0.1", "HEAD /v1/auth?domain=shop", &[]).await;
    assert_eq!((status, told(&head).len(), body.as_str()), (429, 3, ""));
    let count =
        |outcome| format!("tollgate_requests_total{{protocol=\"auth\",outcome=\"{outcome}\"}}");
    for (outcome, expected) in [("allowed", "1"), ("over_limit", "10"), ("refused", "0")] {
        assert_eq!(world.metric(&count(outcome)).await.as_deref(), Some(expected), "{outcome}");
    }
}

/// Addresses that ask, each with values of a header that name one client: its first request passes, and the others are
/// denied.
type Clients<'a> = &'a [(&'a str, &'a [&'a str])];

/// The tests of `crates/http` show how each header of a proxy is read.
#[tokio::test]
async fn an_address_is_believed_from_trusted_proxies_and_from_no_client() {
    const PROXY: &str = "127.0.0.1";
    const CLIENT: &str = "127.0.0.2";
    let (here, nobody) = (TrustedProxies::default(), "none".parse().expect("a list"));
    let forged = ["192.0.2.1", "192.0.2.2", "127.0.0.1", "127.0.0.3", "", "192.0.2.2, 127.0.0.1"];
    // A trusted proxy has appended the client's address at the right end of the header.
    let appended = ["198.51.100.7, 192.0.2.1", "198.51.100.8, 192.0.2.1", "192.0.2.1, 127.0.0.1"];
    // All addresses of one /64 are one client.
    let network = ["2001:db8::1", "2001:db8::2"];
    let forwarded =
        [r#"for=198.51.100.7, for="[2001:db8::1]""#, r#"for=198.51.100.8, for="[2001:db8::1]""#];
    let cases: [(&str, &str, &TrustedProxies, Clients<'_>); 4] = [
        (
            "address",
            "x-forwarded-for",
            &here,
            &[(CLIENT, &forged), (PROXY, &appended), (PROXY, &network)],
        ),
        ("address", "x-forwarded-for", &nobody, &[(PROXY, &["192.0.2.1", "192.0.2.2"])]),
        (
            "address of x-real-ip",
            "x-real-ip",
            &here,
            &[
                (PROXY, &["192.0.2.1", "192.0.2.1"]),
                (PROXY, &["192.0.2.2"]),
                (CLIENT, &["192.0.2.3", "192.0.2.4"]),
            ],
        ),
        ("address of forwarded", "forwarded", &here, &[(PROXY, &forwarded)]),
    ];
    for (nth, (part, header, trusted, clients)) in cases.into_iter().enumerate() {
        let rules = RULES.replace("address: address", &format!("address: {part}"));
        let more = |options| Options { trusted_proxies: trusted.clone(), ..options };
        let (world, _) = serve_on_clock(&format!("auth_addresses_{nth}"), &rules, more).await;
        for (from, values) in clients {
            for (nth, value) in values.iter().enumerate() {
                let header = format!("{header}: {value}");
                let asked = "GET /v1/auth?domain=shop&cost=5";
                let (status, ..) = ask_from(&world, from, asked, &[header.as_str()]).await;
                assert_eq!(status, if nth == 0 { 200 } else { 429 }, "{from} {header}");
            }
        }
    }
}

#[tokio::test]
async fn a_request_that_no_descriptor_applies_to_passes_and_is_counted() {
    let rules = RULES.replace("  - remote_address: address\n", "");
    let world = serve_at_noon("auth_unmapped", &rules, RuleSettings::default()).await;
    let asked = "GET /v1/auth?domain=shop";
    let (status, head, body) = ask_from(&world, "127.0.0.1", asked, &[]).await;
    let passes = r#"{"allowed":true,"statuses":[{"allowed":true,"rule":null}]}"#;
    assert_eq!((status, body.as_str()), (200, passes));
    assert!(!head.contains("ratelimit"), "{head}");
    let unmapped = "tollgate_auth_unmapped_total";
    assert_eq!(world.metric(unmapped).await.as_deref(), Some("1"));
    assert_eq!(ask(&world, "/v1/auth?domain=shop", &["x-user: a"]).await, 200);
    assert_eq!(world.metric(unmapped).await.as_deref(), Some("1"));
    // In an unknown domain requests pass, as with `/v1/check`.
    assert_eq!(ask(&world, "/v1/auth?domain=bank", &["x-user: a"]).await, 200);
    assert_eq!(world.metric(unmapped).await.as_deref(), Some("1"));
    assert_eq!(world.metric("tollgate_domain_not_found_total").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_question_that_is_none_is_refused_with_what_would_be_accepted() {
    let world = serve_at_noon("auth_refused", RULES, RuleSettings::default()).await;
    let long = format!("domain=shop&{}=1", "x".repeat(60_000));
    for (query, expected) in [
        ("", "rate limit domain must not be empty"),
        ("domain=", "rate limit domain must not be empty"),
        ("domain=shop&cost=many", "cost is many; write it in digits, as in cost=5"),
        ("domain=shop&cost=-1", "cost is -1; write it in digits, as in cost=5"),
        ("domain=shop&deny=200", "deny is 200; use a status from 400 to 599, as in deny=403"),
        ("domain=shop&deny=600", "deny is 600; use a status from 400 to 599, as in deny=403"),
        ("domain=shop&deny=%0a", "deny is \\n; use a status from 400 to 599, as in deny=403"),
        ("domain=shop&hits=2", "unknown hits; use domain, cost or deny"),
        (long.as_str(), "unknown xxxx"),
    ] {
        let start = format!("GET /v1/auth?{query}");
        let (status, _, body) = ask_from(&world, "127.0.0.1", &start, &[]).await;
        assert!(status == 400 && body.starts_with(expected), "{query:.60}: {status} {body:.200}");
    }
    let refused = "tollgate_requests_total{protocol=\"auth\",outcome=\"refused\"}";
    assert_eq!(world.metric(refused).await.as_deref(), Some("9"));
    let plain = serve_at_noon("auth_no_mapping", "{domain: shop}", RuleSettings::default()).await;
    let (status, _, body) = ask_from(&plain, "127.0.0.1", "GET /v1/auth?domain=shop", &[]).await;
    let expected = "domain 'shop' has no forward_auth; write beside domain: which descriptors a request becomes";
    assert!(status == 400 && body.starts_with(expected), "{status} {body}");
    let none = serve_at_noon("auth_no_rules", "domain: ''", RuleSettings::default()).await;
    assert_eq!(ask(&none, "/v1/auth?domain=shop", &[]).await, 503);
}

#[tokio::test]
async fn headers_of_any_content_are_decided() {
    let world = serve_at_noon("auth_any_headers", RULES, RuleSettings::default()).await;
    // Values that differ only after 8 KiB count as the same value. Two lines of a header are joined.
    let long = |end: &str| format!("x-user: {}{end}", "u".repeat(8_192));
    for (nth, (headers, status)) in (0..).zip([
        (&[&*long("a")][..], 200),
        (&[&*long("b")], 429),
        (&["x-user: "], 200),
        (&["x-user: "], 429),
        (&["x-user: a"], 200),
        (&["x-user: a", "x-user: b"], 200),
        (&["x-user: a,b"], 429),
    ]) {
        let client = format!("x-forwarded-for: 192.0.2.{nth}");
        let headers = [headers, &[&client[..]]].concat();
        assert_eq!(ask(&world, "/v1/auth?domain=shop", &headers).await, status, "{nth}");
    }
    for strange in
        ["x-forwarded-uri: %%%/\t%00%ff?", "x-forwarded-host: a b://c", "x-forwarded-for: ,"]
    {
        assert_eq!(ask(&world, "/v1/auth?domain=shop", &[strange]).await, 200, "{strange}");
    }
}

#[tokio::test]
async fn what_would_have_to_wait_is_denied_and_a_shadow_lets_pass() {
    let rules = "
domain: shop
forward_auth: [{a: text x}, {b: text x}]
descriptors:
  - {key: a, rate_limit: {unit: hour, requests_per_unit: 2, algorithm: gcra, burst: 1, queue: 5}}
  - {key: b, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 0}}
";
    let world = serve_at_noon("auth_queue", rules, RuleSettings::default()).await;
    assert_eq!(ask(&world, "/v1/auth?domain=shop", &[]).await, 200);
    let start = "GET /v1/auth?domain=shop";
    let (status, head, _) = ask_from(&world, "127.0.0.1", start, &[]).await;
    assert!(status == 429 && head.contains("\r\nretry-after: 1800"), "{head}");
    let settings = RuleSettings { global_shadow_mode: true, ..RuleSettings::default() };
    let world = serve_at_noon("auth_shadow", rules, settings).await;
    for _ in 0..2 {
        assert_eq!(ask(&world, "/v1/auth?domain=shop", &[]).await, 200);
    }
}

#[tokio::test]
async fn the_admin_sees_what_a_request_becomes_and_a_reload_changes_it() {
    let mut world = serve_at_noon("auth_reload", RULES, RuleSettings::default()).await;
    assert_eq!(world.reloaded().await, []);
    let (_, page) = world.admin("GET", "/rlconfig", "").await;
    assert!(
        page.ends_with(
            "shop: forward_auth {remote_address: address of x-forwarded-for}\n\
         shop: forward_auth {path: path of x-forwarded-uri, method: header x-forwarded-method}\n\
         shop: forward_auth {user: header x-user}\n\
         shop: forward_auth {plan: header x-plan else free, host: host of x-forwarded-host}\n"
        ),
        "{page}"
    );
    world.put("basic.yaml", &RULES.replace("header x-user", "header x-account"));
    assert_eq!(world.reloaded().await, []);
    let headers = ["x-user: a", "x-forwarded-for: 192.0.2.1"];
    assert_eq!(limits(&world, &headers).await, "200: per-client 4");
    world.put("basic.yaml", &RULES.replace("header x-user", "heder x-user"));
    assert_eq!(world.reloaded().await.len(), 1);
    let headers = ["x-account: a", "x-forwarded-for: 192.0.2.1"];
    assert_eq!(limits(&world, &headers).await, "200: per-client 3, per-user 0");
}

/// Nothing listens at the store's address, so each rule's `on_error` decides. By default that is this node's share of
/// the limit.
#[tokio::test]
async fn limits_that_are_kept_in_redis_are_asked_and_without_it_each_rule_says_what_happens() {
    let rules = RULES.replace("{key: user,", "{key: user, on_error: deny,");
    let global = Some(Global::new("redis://127.0.0.1:1/"));
    let world = serve_with("auth_redis", &rules, |options| Options { global, ..options }).await;
    assert_eq!(ask(&world, "/v1/auth?domain=shop", &["x-forwarded-for: 192.0.2.1"]).await, 200);
    assert_eq!(ask(&world, "/v1/auth?domain=shop", &["x-user: a"]).await, 429);
}
