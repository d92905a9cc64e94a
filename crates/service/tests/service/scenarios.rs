//! The answers that a server must give in Envoy's rate limit protocol, request by request over a socket. These are the
//! black-box scenarios that the test suites of envoyproxy/ratelimit cover, with the names of the list of scenarios.
//! Tests move the clock.
//!
//! | Scenario | Where |
//! |---|---|
//! | A1-A4 basic limits; B1, B2 lookups and overrides; C wildcards | here |
//! | E several statuses; H errors | `together.rs` |
//! | I reload, merge, every bad file | `reload.rs` |
//! | J HTTP; those of Limitador and Gubernator | `http.rs`, `drain.rs` |
//! | L TLS: certificates that are renewed, and of clients | `tests/tls.rs`, which makes them |
//!
//! These scenarios are not here, because they need a Redis: A6's variants (second Redis, local cache, prefix of keys,
//! authentication, TLS, Cluster, Sentinel) and A3's counts of the local cache, A7 (the content of Redis), H's failing
//! Redis. The scenarios of this list that are covered are in `crates/redis/tests`, and `tests/with_redis`. A6 with
//! rules over xDS is not supported.
//!
//! Answered differently on purpose: a denied request is charged nowhere (A4, unless `compat`); B2's overrides have
//! no series of their own.

mod drain;
mod full;
mod http;
mod reload;
mod together;

use crate::common::{World, codes, descriptor, request, serve_at_noon};
use tollgate_rules::RuleSettings;
use tollgate_service::protocol::common::RateLimitDescriptor;
use tollgate_service::protocol::common::rate_limit_descriptor::RateLimitOverride;
use tollgate_service::protocol::rls::RateLimitResponse;
use tollgate_service::protocol::rls::rate_limit_response::rate_limit::Unit;
use tollgate_service::protocol::rls::rate_limit_response::{Code, DescriptorStatus};

const CONFIG_A: &str = "
domain: another
descriptors:
  - {key: key2, rate_limit: {unit: minute, requests_per_unit: 20}}
  - {key: key3, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: key4, rate_limit: {unit: day, requests_per_unit: 20}}
";

const CONFIG_A_BASIC: &str = "
domain: basic
descriptors:
  - {key: key1, rate_limit: {unit: second, requests_per_unit: 50}}
  - {key: one_per_minute, rate_limit: {unit: minute, requests_per_unit: 1}}
";

const CONFIG_B: &str = "
domain: test-domain
descriptors:
  - key: key1
    value: value1
    descriptors:
      - {key: subkey1, rate_limit: {unit: second, requests_per_unit: 5}}
      - {key: subkey1, value: subvalue1, rate_limit: {unit: second, requests_per_unit: 10}}
  - {key: key2, rate_limit: {unit: minute, requests_per_unit: 20}}
  - {key: key2, value: value2, rate_limit: {unit: minute, requests_per_unit: 30}}
  - {key: key2, value: value3}
  - {key: key3, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: key4, rate_limit: {unit: day, requests_per_unit: 1, name: key4_rate_limit}}
  - key: key5
    value: value5
    rate_limit: {unit: day, requests_per_unit: 15}
    descriptors:
      - {key: subkey5, value: subvalue5, rate_limit: {unit: day, requests_per_unit: 25}}
  - {key: key6, rate_limit: {unlimited: true}}
  - {key: key7, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 70}}
";

const CONFIG_C: &str = "
domain: wild
descriptors:
  - {key: wild, value: 'foo*', rate_limit: {unit: minute, requests_per_unit: 20}}
  - {key: noWild, value: foo, rate_limit: {unit: minute, requests_per_unit: 21}}
  - {key: noVal, rate_limit: {unit: minute, requests_per_unit: 22}}
  - {key: midWild, value: 'bar*b', rate_limit: {unit: minute, requests_per_unit: 23}}
  - {key: multiWild, value: 'foo*bar*baz', rate_limit: {unit: minute, requests_per_unit: 10}}
  - key: nestedWild
    value: val1
    descriptors:
      - {key: wild, value: 'goo*', rate_limit: {unit: minute, requests_per_unit: 24}}
";

async fn config_a(test: &str, settings: RuleSettings) -> World {
    let mut world = serve_at_noon(test, CONFIG_A, settings).await;
    assert!(world.reloaded().await.is_empty());
    world.put("other.yaml", CONFIG_A_BASIC);
    assert!(world.reloaded().await.is_empty());
    world
}

/// The limit of a status: requests, unit and name.
fn limit(status: &DescriptorStatus) -> Option<(u32, Unit, &str)> {
    let limit = status.current_limit.as_ref()?;
    Some((limit.requests_per_unit, limit.unit(), limit.name.as_str()))
}

/// The outcome for one descriptor: the overall code, the limit and the units that are left.
async fn finds(
    world: &World,
    domain: &str,
    entries: &[(&str, &str)],
) -> (Code, Option<(u32, Unit)>, u32) {
    let response = world.ask(request(domain, &[descriptor(entries)])).await;
    let [status] = &response.statuses[..] else { panic!("one status for one descriptor") };
    let found = limit(status).map(|(requests, unit, _)| (requests, unit));
    (response.overall_code(), found, status.limit_remaining)
}

const NONE: (Code, Option<(u32, Unit)>, u32) = (Code::Ok, None, 0);

fn reset_s(response: &RateLimitResponse) -> Vec<Option<i64>> {
    let resets = response.statuses.iter().map(|status| status.duration_until_reset);
    resets.map(|reset| reset.map(|reset| reset.seconds)).collect()
}

#[tokio::test]
async fn a1_an_unknown_domain_has_no_limit_and_is_counted() {
    let world = config_a("a1", RuleSettings::default()).await;
    assert_eq!(finds(&world, "foo", &[("hello", "world")]).await, NONE);
    assert_eq!(world.metric("tollgate_domain_not_found_total").await.as_deref(), Some("1"));
    // A known domain without a matching rule is not an unknown domain.
    assert_eq!(finds(&world, "basic", &[("hello", "world")]).await, NONE);
    assert_eq!(world.metric("tollgate_domain_not_found_total").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a2_a_limit_of_a_second_says_what_is_left_and_when_it_is_whole() {
    let world = config_a("a2", RuleSettings::default()).await;
    let response = world.ask(request("basic", &[descriptor(&[("key1", "foo")])])).await;
    assert_eq!(response.overall_code(), Code::Ok);
    assert_eq!(codes(&response), [(Code::Ok, 49)]);
    assert_eq!(limit(&response.statuses[0]), Some((50, Unit::Second, "")));
    assert_eq!(reset_s(&response), [Some(1)]);
}

#[tokio::test]
async fn a3_of_25_calls_20_pass_and_the_counters_say_so() {
    let world = config_a("a3", RuleSettings::default()).await;
    let mut client = world.client().await;
    for call in 1..=25 {
        let asked = request("another", &[descriptor(&[("key2", "r")])]);
        let response = client.should_rate_limit(asked).await.expect("an answer").into_inner();
        let expected = if call <= 20 { (Code::Ok, 20 - call) } else { (Code::OverLimit, 0) };
        assert_eq!((response.overall_code(), codes(&response)), (expected.0, vec![expected]));
        assert_eq!(limit(&response.statuses[0]), Some((20, Unit::Minute, "")));
        // The clock stands at noon and 17 s.
        assert_eq!(reset_s(&response), [Some(43)]);
    }
    for (series, count) in [
        ("rule_hits", "25"),
        ("rule_within_limit", "20"),
        ("rule_over_limit", "5"),
        // These are the last four of twenty hits: 0.8 of the limit was used before.
        ("rule_near_limit", "4"),
        ("rule_shadow", "0"),
    ] {
        let series = format!("tollgate_{series}_total{{domain=\"another\",rule=\"key2\"}}");
        assert_eq!(world.metric(&series).await.as_deref(), Some(count), "{series}");
    }
}

/// With `compat` the results are those of envoyproxy/ratelimit. Without it, they are those of its setting
/// STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT, but exact.
#[tokio::test]
async fn a4_of_two_descriptors_the_tighter_one_denies() {
    for compat in [false, true] {
        let settings = RuleSettings { compat, ..RuleSettings::default() };
        let world = config_a(&format!("a4_{compat}"), settings).await;
        let mut client = world.client().await;
        for call in 1..=15_u32 {
            let asked = [descriptor(&[("key2", "r2")]), descriptor(&[("key3", "r2")])];
            let asked = request("another", &asked);
            let response = client.should_rate_limit(asked).await.expect("an answer").into_inner();
            let expected = match call {
                1..=10 => [(Code::Ok, 20 - call), (Code::Ok, 10 - call)],
                _ => [(Code::Ok, if compat { 20 - call } else { 10 }), (Code::OverLimit, 0)],
            };
            assert_eq!(codes(&response), expected, "call {call}, compat {compat}");
            assert_eq!(response.overall_code(), expected[1].0);
            assert_eq!(reset_s(&response), [Some(43), Some(3_583)]);
        }
    }
}

#[tokio::test]
async fn b1_lookups_find_the_rule_at_the_last_entry() {
    let world = serve_at_noon("b1", CONFIG_B, RuleSettings::default()).await;
    let cases: [(&[(&str, &str)], _, u32); 13] = [
        (&[("key1", "something")], None, 0),
        (&[("key1", "value1")], None, 0),
        (&[("key2", "value2"), ("subkey", "subvalue")], None, 0),
        (&[("key5", "value5"), ("subkey5", "subvalue")], None, 0),
        (&[], None, 0),
        (&[("key1", "value1"), ("subkey1", "x")], Some((5, Unit::Second)), 4),
        (&[("key1", "value1"), ("subkey1", "subvalue1")], Some((10, Unit::Second)), 9),
        (&[("key2", "x")], Some((20, Unit::Minute)), 19),
        (&[("key2", "value2")], Some((30, Unit::Minute)), 29),
        (&[("key2", "value3")], None, 0),
        (&[("key3", "x")], Some((1, Unit::Hour)), 0),
        (&[("key5", "value5"), ("subkey5", "subvalue5")], Some((25, Unit::Day)), 24),
        (&[("key6", "x")], None, u32::MAX),
    ];
    for (entries, expected, left) in cases {
        let found = finds(&world, "test-domain", entries).await;
        assert_eq!(found, (Code::Ok, expected, left), "{entries:?}");
    }
    let response = world.ask(request("test-domain", &[descriptor(&[("key4", "x")])])).await;
    assert_eq!(limit(&response.statuses[0]), Some((1, Unit::Day, "key4_rate_limit")));
    assert_eq!(finds(&world, "test-domain", &[("key7", "abc")]).await.2, 69);
    let labels = "domain=\"test-domain\",rule=\"key7\"";
    for series in [
        format!("tollgate_rule_hits_total{{{labels}}}"),
        format!("tollgate_series_hits_total{{{labels},descriptor=\"key7_abc\"}}"),
    ] {
        assert_eq!(world.metric(&series).await.as_deref(), Some("1"), "{series}");
    }
}

#[tokio::test]
async fn b2_a_limit_of_the_requests_own_counts_in_place_of_a_rules() {
    let world = serve_at_noon("b2", CONFIG_B, RuleSettings::default()).await;
    let entries = [("key1", "value1"), ("subkey1", "something")];
    let own = |requests_per_unit, unit| RateLimitDescriptor {
        limit: Some(RateLimitOverride { requests_per_unit, unit }),
        ..descriptor(&entries)
    };
    let (_, before) = world.http("GET", "/metrics", "").await;
    let response = world.ask(request("test-domain", &[own(10, 4)])).await;
    assert_eq!(limit(&response.statuses[0]), Some((10, Unit::Day, "")));
    assert_eq!(codes(&response), [(Code::Ok, 9)]);
    let response = world.ask(request("test-domain", &[own(42, 3)])).await;
    assert_eq!(limit(&response.statuses[0]), Some((42, Unit::Hour, "")));
    assert_eq!(codes(&response), [(Code::Ok, 41)]);
    let response = world.ask(request("unknown", &[own(10, 4)])).await;
    assert_eq!((codes(&response), limit(&response.statuses[0])), (vec![(Code::Ok, 0)], None));
    // A thousand different limits add no series.
    let mut client = world.client().await;
    for requests in 1..1_000 {
        let asked = request("test-domain", &[own(requests, 2)]);
        assert!(client.should_rate_limit(asked).await.is_ok());
    }
    let (_, after) = world.http("GET", "/metrics", "").await;
    assert_eq!(after.lines().count(), before.lines().count());
}

#[tokio::test]
async fn c_wildcards_match_any_characters_in_their_place() {
    let world = serve_at_noon("c", CONFIG_C, RuleSettings::default()).await;
    let minute = |requests| Some((requests, Unit::Minute));
    let cases: [(&[(&str, &str)], _); 14] = [
        (&[("wild", "foo1")], minute(20)),
        (&[("wild", "foo")], minute(20)),
        (&[("wild", "fo")], None),
        (&[("noWild", "foo")], minute(21)),
        (&[("noWild", "foo1")], None),
        (&[("noVal", "anything")], minute(22)),
        (&[("midWild", "barab")], minute(23)),
        (&[("midWild", "barb")], minute(23)),
        (&[("midWild", "bara")], None),
        (&[("multiWild", "foo-bar-baz")], minute(10)),
        (&[("multiWild", "foobarbaz")], minute(10)),
        (&[("multiWild", "foo-baz-bar")], None),
        (&[("nestedWild", "val1"), ("wild", "goober")], minute(24)),
        (&[("nestedWild", "val2"), ("wild", "goober")], None),
    ];
    for (entries, expected) in cases {
        let (code, found, _) = finds(&world, "wild", entries).await;
        assert_eq!((code, found), (Code::Ok, expected), "{entries:?}");
    }
    // Each value has a count of its own.
    assert_eq!(finds(&world, "wild", &[("wild", "foo1")]).await.2, 18);
    assert_eq!(finds(&world, "wild", &[("wild", "foo2")]).await.2, 19);
}
