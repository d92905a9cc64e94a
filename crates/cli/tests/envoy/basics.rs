//! Admissions and denials, as clients of Envoy see them.

use crate::headers::{DRAFT_03, assert_seconds};
use crate::world::{ALICE, Setup, THREE, World, of_headers};

/// Returns the number of requests that the service decided for Envoy.
fn asked(world: &World) -> u64 {
    ["allowed", "over_limit", "refused"].map(|outcome| world.service().asked(outcome)).iter().sum()
}

#[test]
fn a_limit_admits_its_number_and_denies_what_follows() {
    let world = World::start(&Setup { rules: THREE, ..Setup::default() });
    // The service is not asked about a request without a descriptor.
    assert_eq!(world.statuses(5, "/", &[]), [200; 5]);
    assert_eq!(asked(&world), 0);
    assert_eq!(world.statuses(1, "/", ALICE), [200]);
    assert_eq!(asked(&world), 1);
    assert_eq!(world.statuses(4, "/", ALICE), [200, 200, 429, 429]);
    // No other user is denied, and no denied request came through.
    assert_eq!(world.statuses(1, "/", &["x-user: bob"]), [200]);
    assert_eq!(world.upstream.seen(), 5 + 4);
    // A denial is marked as one of Envoy's limiter.
    assert_eq!(world.ask("/", &["x-user: bob"]).header("x-envoy-ratelimited"), None);
    let denied = world.ask("/", ALICE);
    assert_eq!((denied.status, denied.header("x-envoy-ratelimited")), (429, Some("true")));
}

#[test]
fn http_2_is_limited_like_http_1_and_many_connections_like_one() {
    let world = World::start(&Setup { rules: THREE, ..Setup::default() });
    let ask = || world.client().ask_with("/", ALICE, &["--http2-prior-knowledge"]);
    let statuses = [(); 4].map(|()| ask().status);
    assert_eq!(statuses, [200, 200, 200, 429]);
    assert_eq!(ask().header("x-envoy-ratelimited"), Some("true"));
    // Requests over HTTP/1 and HTTP/2 are charged to the same limit.
    assert_eq!(world.ask("/", ALICE).status, 429);
    let mut statuses = world.client().together(20, "/", &["x-user: bob"]);
    statuses.sort_unstable();
    assert_eq!(statuses, [[200; 3].as_slice(), &[429; 17]].concat());
    assert_eq!(world.upstream.seen(), 3 + 3);
}

/// Starts a world whose filter has these fields, in which the limit of a user is used up.
fn used_up(filter: &[&str]) -> World {
    let world = World::start(&Setup { rules: THREE, filter, ..Setup::default() });
    assert_eq!(world.statuses(3, "/", ALICE), [200; 3]);
    world
}

#[test]
fn a_denial_has_the_mark_the_status_and_the_headers_that_envoy_is_told() {
    for (filter, status, (name, value)) in [
        (&["disable_x_envoy_ratelimited_header: true"][..], 429, ("x-envoy-ratelimited", None)),
        (
            &[
                "rate_limited_status: {code: 503}",
                "response_headers_to_add: [{header: {key: x-limited-by, value: tollgate}}]",
            ],
            503,
            ("x-limited-by", Some("tollgate")),
        ),
    ] {
        let denied = used_up(filter).ask("/", ALICE);
        assert_eq!((denied.status, denied.header(name)), (status, value));
    }
}

#[test]
fn a_grpc_call_that_is_denied_is_unavailable_or_resource_exhausted() {
    let exhausted = "rate_limited_as_resource_exhausted: true";
    for (filter, expected) in [(&[][..], "14"), (&[exhausted], "8")] {
        let headers = &["x-user: alice", "content-type: application/grpc", "te: trailers"];
        let options = &["--http2-prior-knowledge", "--data", ""];
        let denied = used_up(filter).client().ask_with("/shop.Cart/Add", headers, options);
        let told = denied.all(["grpc-status", "grpc-message"]);
        assert_eq!((denied.status, told), (200, [expected, ""]));
    }
}

#[test]
fn a_service_in_shadow_mode_denies_nothing() {
    let world = World::start(&Setup { rules: THREE, serve: &["--shadow"], ..Setup::default() });
    assert_eq!(world.statuses(5, "/", ALICE), [200; 5]);
    assert_eq!(world.service().metric("tollgate_global_shadow_mode_total"), 2);
}

#[test]
fn a_service_in_quota_mode_denies_when_all_rules_are_over() {
    let rules = "
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: team, rate_limit: {unit: year, requests_per_unit: 4}}
";
    let (limits, serve) = (of_headers(&["user", "team"]), &["--quota-mode"]);
    let world = World::start(&Setup { rules, limits: &limits, serve, ..Setup::default() });
    let headers = &["x-user: alice", "x-team: red"];
    assert_eq!(world.statuses(5, "/", headers), [200, 200, 200, 200, 429]);
}

#[test]
fn what_a_rule_says_of_its_limit_reaches_clients_of_envoy() {
    let rules = "
domain: shop
descriptors:
  - {key: shadow, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: soft, rate_limit: {unit: year, requests_per_unit: 4, mode: soft 50%}}
  - {key: penalty, rate_limit: {unit: hour, requests_per_unit: 2, algorithm: gcra, burst: 2, penalty: 10h after 2}}
  - {key: user, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: team, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 4}}
";
    let setup = Setup {
        rules,
        limits: &of_headers(&["shadow", "soft", "penalty", "user", "team"]),
        serve: &["--response-headers"],
        filter: &[DRAFT_03],
        ..Setup::default()
    };
    let world = World::start(&setup);
    let asked: [(&[&str], &[u16]); 6] = [
        (&["x-shadow: a"], &[200; 5]),
        (&["x-soft: a"], &[200, 200, 200, 200, 200, 200, 429, 429]),
        (&["x-penalty: a"], &[200, 200, 429, 429]),
        // Rules in quota mode deny when all are over, and each alone at its own limit.
        (&["x-user: alice", "x-team: red"], &[200, 200, 200, 200, 429, 429]),
        (&["x-user: alice"], &[429]),
        (&["x-user: bob"], &[200, 200, 429]),
    ];
    for (headers, statuses) in asked {
        assert_eq!(world.statuses(statuses.len(), "/", headers), statuses, "{headers:?}");
    }
    let shadow = "tollgate_rule_shadow_total{domain=\"shop\",rule=\"shadow\"}";
    assert_eq!(world.service().metric(shadow), 3);
    let answer = world.ask("/", &["x-shadow: a"]);
    assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (200, Some("0")));
    assert_seconds(&world.ask("/", &["x-penalty: a"]), "retry-after", 36_000);
}

/// A user may send one request and a team three.
#[test]
fn two_descriptors_are_charged_both_or_none_and_with_compat_each_by_itself() {
    let rules = "
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: team, rate_limit: {unit: year, requests_per_unit: 3}}
";
    let limits = of_headers(&["user", "team"]);
    // With --compat the requests that were denied to the user were charged to the team, as envoyproxy/ratelimit does.
    for (serve, of_team) in [(&[][..], [200, 200, 429]), (&["--compat"], [429; 3])] {
        let world = World::start(&Setup { rules, limits: &limits, serve, ..Setup::default() });
        let both = world.statuses(3, "/", &["x-user: alice", "x-team: red"]);
        assert_eq!(both, [200, 429, 429]);
        assert_eq!(world.statuses(3, "/", &["x-team: red"]), of_team);
    }
}

#[test]
fn envoys_local_limit_in_front_spares_the_service() {
    let local = "- {name: envoy.filters.http.local_ratelimit, typed_config: {\"@type\": \
        type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit, stat_prefix: local, \
        token_bucket: {max_tokens: 2, fill_interval: 86400s}, filter_enabled: {default_value: {numerator: 100}}, \
        filter_enforced: {default_value: {numerator: 100}}}}";
    let world = World::start(&Setup { rules: THREE, first: &[local], ..Setup::default() });
    assert_eq!(world.statuses(4, "/", ALICE), [200, 200, 429, 429]);
    assert_eq!(asked(&world), 2);
}
