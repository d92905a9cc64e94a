//! Tests limits in the keys of envoyproxy/ratelimit: the keys, and what a service counts in them. The tests of
//! `tollgate-redis` show that a limit is shared with a writer that counts like envoyproxy/ratelimit.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::common::{World, codes, descriptor, request};
use crate::server::Server;
use serde_json::{Value, json};
use tollgate_rules::{RuleSettings, RuleText};
use tollgate_service::protocol::common::RateLimitDescriptor;
use tollgate_service::protocol::rls::rate_limit_response::Code;
use tollgate_service::{Global, Options, rule_cache};

const YEAR_S: u64 = 365 * 86_400;

const RULES: &str = "
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 10}}
  - {key: plan, value: free, rate_limit: {unit: year, requests_per_unit: 4, name: free}}
  - key: plan
    descriptors: [{key: path, rate_limit: {unit: year, requests_per_unit: 7, replaces: [{name: free}]}}]
  - {key: wild, value: a*, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: shared, value: a*, share_threshold: true, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: trial, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: week, on_error: deny, rate_limit: {unit: week, requests_per_unit: 5}}
";

/// A service that counts in the keys of envoyproxy/ratelimit, with this prefix.
async fn serve(test: &str, server: &Server, prefix: &str) -> World {
    let envoyproxy = Some(prefix.to_owned());
    let global = Global { envoyproxy, ..crate::one_of_two(server.address()) };
    let settings = RuleSettings { compat: true, ..RuleSettings::default() };
    let more = |options| Options { settings, ..options };
    crate::serve_connected(test, RULES, global, more).await
}

/// The key of the current window of `unit_s` seconds, which is a year or a week.
fn key(stem: &str, unit_s: u64) -> String {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    format!("{stem}{}", now_s / unit_s * unit_s)
}

/// All keys that requests have written. The key by which the service tests the store is left out.
fn keys(server: &Server) -> Vec<String> {
    let mut keys: Vec<String> = server.run(&["KEYS", "*"]);
    keys.retain(|key| !key.starts_with("tollgate:"));
    keys.sort();
    keys
}

#[tokio::test]
async fn each_descriptor_has_the_key_that_envoyproxy_counts_it_under() {
    for prefix in ["", "rl:"] {
        let server = Server::start();
        let world = serve("envoyproxy_keys", &server, prefix).await;
        for (entries, stem) in [
            (&[("user", "alice")][..], "shop_user_alice_"),
            (&[("user", "")], "shop_user__"),
            (&[("user", "a_b")], "shop_user_a_b_"),
            (&[("user", "2001:db8::1")], "shop_user_2001:db8::1_"),
            (&[("user", "\u{fc} {x}%20\n")], "shop_user_\u{fc} {x}%20\n_"),
            (&[("plan", "free")], "shop_plan_free_"),
            (&[("plan", "gold"), ("path", "/x")], "shop_plan_gold_path_/x_"),
            (&[("wild", "abc")], "shop_wild_abc_"),
            (&[("shared", "abc")], "shop_shared_a*_"),
            (&[("trial", "x")], "shop_trial_x_"),
        ] {
            let asked = RateLimitDescriptor { hits_addend: Some(2), ..descriptor(entries) };
            assert_eq!(world.ask(request("shop", &[asked])).await.overall_code(), Code::Ok);
            let key = key(&format!("{prefix}{stem}"), YEAR_S);
            assert_eq!(keys(&server), [key.as_str()], "{entries:?}");
            assert_eq!(server.run::<u64>(&["GET", &key]), 2);
            let left: u64 = server.run(&["TTL", &key]);
            assert!((YEAR_S - 10..=YEAR_S + 300).contains(&left), "{left}");
            server.run::<u64>(&["DEL", &key]);
        }
        let week = request("shop", &[descriptor(&[("week", "x")])]);
        assert_eq!(world.ask(week).await.overall_code(), Code::Ok);
        assert_eq!(keys(&server), [key(&format!("{prefix}shop_week_x_"), 7 * 86_400)]);
        // A descriptor has no key if it is unlimited, if it has no rule, or if its rule is replaced by another.
        let _: u64 = server.run(&["DEL", &keys(&server)[0]]);
        for entries in [[("free", "x")], [("none", "x")]] {
            assert_eq!(
                world.ask(request("shop", &[descriptor(&entries)])).await.overall_code(),
                Code::Ok
            );
        }
        let both =
            [descriptor(&[("plan", "free")]), descriptor(&[("plan", "gold"), ("path", "/x")])];
        assert_eq!(world.ask(request("shop", &both)).await.overall_code(), Code::Ok);
        assert_eq!(keys(&server), [key(&format!("{prefix}shop_plan_gold_path_/x_"), YEAR_S)]);
    }
}

#[tokio::test]
async fn counts_are_those_of_envoyproxy_also_above_the_limit() {
    let server = Server::start();
    let world = serve("envoyproxy_counts", &server, "").await;
    let ask = async |key: &str, hits: u64, is_negative_hits: bool| {
        let own = descriptor(&[(key, "x")]);
        let asked = RateLimitDescriptor { hits_addend: Some(hits), is_negative_hits, ..own };
        codes(&world.ask(request("shop", &[asked])).await)[0]
    };
    let (ok, over) = (Code::Ok, Code::OverLimit);
    for (hits, is_negative, told) in [
        (0, false, (ok, 10)),
        (10, false, (ok, 0)),
        // A request with no hits is over the limit only when more than the limit was used.
        (0, false, (ok, 0)),
        (5, false, (over, 0)),
        (0, false, (over, 0)),
        // Negative hits lower the count, at most to 0. A request with negative hits is never answered as over the
        // limit.
        (2, true, (ok, 0)),
        (0, false, (over, 0)),
        (4, true, (ok, 1)),
        (1, false, (ok, 0)),
        (99, true, (ok, 10)),
    ] {
        assert_eq!(ask("user", hits, is_negative).await, told, "{hits} {is_negative}");
    }
    // In shadow mode a request above the limit is counted and admitted.
    assert_eq!([ask("trial", 2, false).await, ask("trial", 1, false).await], [(ok, 0), (ok, 0)]);
    assert_eq!(server.run::<u64>(&["GET", &key("shop_trial_x_", YEAR_S)]), 3);
    // Each descriptor is decided by itself: if one denies the request, the other is still counted.
    let both = [
        descriptor(&[("user", "y")]),
        RateLimitDescriptor { hits_addend: Some(6), ..descriptor(&[("wild", "ay")]) },
    ];
    assert_eq!(codes(&world.ask(request("shop", &both)).await), [(ok, 9), (over, 0)]);
    assert_eq!(server.run::<u64>(&["GET", &key("shop_user_y_", YEAR_S)]), 1);
    // A peek counts nothing, and a reset removes the client's key.
    let (_, told) = world.http("GET", "/v1/peek?domain=shop&user=y", "").await;
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told["statuses"][0]["remaining"], json!(9), "{told}");
    // Units that another writer counts in the key are spent here, too.
    assert_eq!(server.run::<u64>(&["INCRBY", &key("shop_user_y_", YEAR_S), "8"]), 9);
    for (status, count) in [((ok, 0), 10), ((over, 0), 11)] {
        let asked = request("shop", &[descriptor(&[("user", "y")])]);
        assert_eq!(codes(&world.ask(asked).await), [status]);
        assert_eq!(server.run::<u64>(&["GET", &key("shop_user_y_", YEAR_S)]), count);
    }
    let body = json!({"domain": "shop", "descriptors": [{"user": "y"}]}).to_string();
    assert_eq!(world.admin("POST", "/v1/reset", &body).await.0, 200);
    assert!(!server.run::<bool>(&["EXISTS", &key("shop_user_y_", YEAR_S)]));
}

#[tokio::test]
async fn without_redis_the_rule_decides_and_afterwards_redis_again() {
    let mut server = Server::start();
    let world = serve("envoyproxy_outage", &server, "").await;
    let ask = async |name: &str| {
        world.ask(request("shop", &[descriptor(&[(name, "x")])])).await.overall_code() == Code::Ok
    };
    assert!(ask("week").await);
    server.kill();
    world.until("tollgate_store_degraded 1").await;
    assert!(!ask("week").await);
    let mut admitted = 0;
    for _ in 0..9 {
        admitted += u32::from(ask("user").await);
    }
    assert_eq!(admitted, 5, "one of two nodes has half of the limit");
    server.restart();
    world.until("tollgate_store_degraded 0").await;
    assert!(ask("week").await);
}

#[tokio::test]
async fn rules_that_envoyproxy_does_not_know_are_refused_by_name() {
    let options = |compat| Options {
        global: Some(Global {
            envoyproxy: Some(String::new()),
            ..Global::new("redis://127.0.0.1:1/")
        }),
        settings: RuleSettings { compat, ..RuleSettings::default() },
        ..Options::new("")
    };
    let cache = rule_cache(options(true)).expect("it is built");
    let limit = "rate_limit: {unit: hour, requests_per_unit: 5}";
    for rule in [
        "{key: user, rate_limit: {unit: hour, requests_per_unit: 5, algorithm: gcra}}".to_owned(),
        "{key: user, rate_limit: {window: 90s, requests_per_unit: 5}}".to_owned(),
        "{key: user, rate_limit: {unit: hour, requests_per_unit: 5, mode: soft 20%}}".to_owned(),
        "{key: user, limits: [{unit: hour, requests_per_unit: 5}, {unit: day, requests_per_unit: 9}]}".to_owned(),
        format!("{{key: user, usage: true, {limit}}}"),
        format!("{{key: user, prefix_v4: 24, {limit}}}"),
        format!("{{key: user, cidr: 10.0.0.0/8, {limit}}}"),
        format!("{{key: user, regex: 'a+', {limit}}}"),
        format!("{{key: 'us*', {limit}}}"),
    ] {
        let text = format!("domain: shop\ndescriptors:\n  - {rule}\n");
        let errors = cache.load(&[RuleText::new("shop.yaml", text)]).expect_err("it is refused");
        let error = errors[0].to_string();
        assert!(error.starts_with("shop.us") && error.contains("envoyproxy"), "{rule}: {error}");
    }
    let good = format!("domain: shop\ndescriptors:\n  - {{key: user, {limit}}}\n");
    assert!(cache.load(&[RuleText::new("shop.yaml", good)]).is_ok());
    let error = rule_cache(options(false)).expect_err("each descriptor on its own").to_string();
    assert!(error.contains("--compat"), "{error}");
}
