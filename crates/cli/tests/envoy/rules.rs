//! The decisions of rules when Envoy asks.

use crate::headers::assert_seconds;
use crate::world::{Setup, World};

const ALICE: &[&str] = &["x-user: alice"];

/// Returns a value from a header, as a descriptor with this key.
fn of_header(key: &str) -> String {
    format!("{{actions: [{{request_headers: {{header_name: x-{key}, descriptor_key: {key}}}}}]}}")
}

/// Returns the descriptors of several headers, each by itself.
fn of_headers(keys: &[&str]) -> String {
    keys.iter().map(|key| of_header(key)).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_rule_in_shadow_mode_counts_and_denies_nothing() {
    let rules = "
domain: shop
descriptors:
  - {key: user, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 2}}
";
    let filter = &["enable_x_ratelimit_headers: DRAFT_VERSION_03"];
    let world = World::start(&Setup { rules, filter, ..Setup::default() });
    assert_eq!(world.statuses(5, "/", ALICE), [200; 5]);
    let shadow = "tollgate_rule_shadow_total{domain=\"shop\",rule=\"user\"}";
    assert_eq!(world.service().metric(shadow), 3);
    let answer = world.ask("/", ALICE);
    assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (200, Some("0")));
}

#[test]
fn a_service_in_shadow_mode_denies_nothing() {
    let rules = "
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 2}}
";
    let world = World::start(&Setup { rules, serve: &["--shadow"], ..Setup::default() });
    assert_eq!(world.statuses(5, "/", ALICE), [200; 5]);
    assert_eq!(world.service().metric("tollgate_global_shadow_mode_total"), 3);
}

const QUOTA: &str = "
domain: shop
descriptors:
  - {key: user, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: team, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 4}}
";

#[test]
fn rules_in_quota_mode_deny_when_all_are_over() {
    let limits = of_headers(&["user", "team"]);
    let world = World::start(&Setup { rules: QUOTA, limits: &limits, ..Setup::default() });
    let headers = &["x-user: alice", "x-team: red"];
    assert_eq!(world.statuses(6, "/", headers), [200, 200, 200, 200, 429, 429]);
    // Each of the descriptors alone is denied at its own limit.
    assert_eq!(world.statuses(1, "/", ALICE), [429]);
    assert_eq!(world.statuses(3, "/", &["x-user: bob"]), [200, 200, 429]);
}

#[test]
fn a_service_in_quota_mode_denies_when_all_rules_are_over() {
    let rules = QUOTA.replace("quota_mode: true, ", "");
    let limits = of_headers(&["user", "team"]);
    let serve = &["--quota-mode"];
    let world = World::start(&Setup { rules: &rules, limits: &limits, serve, ..Setup::default() });
    let headers = &["x-user: alice", "x-team: red"];
    assert_eq!(world.statuses(5, "/", headers), [200, 200, 200, 200, 429]);
}

#[test]
fn a_rule_that_replaces_another_is_counted_in_its_place() {
    let rules = "
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 1, name: everybody}}
  - {key: partner, rate_limit: {unit: year, requests_per_unit: 3, replaces: [{name: everybody}]}}
";
    let limits = of_headers(&["user", "partner"]);
    let world = World::start(&Setup { rules, limits: &limits, ..Setup::default() });
    let partner = &["x-user: alice", "x-partner: acme"];
    assert_eq!(world.statuses(4, "/", partner), [200, 200, 200, 429]);
    // These requests were not charged to the rule that was replaced.
    assert_eq!(world.statuses(2, "/", ALICE), [200, 429]);
}

const LEVELS: &str = "
domain: shop
descriptors:
  - key: path
    value: /api/*
    rate_limit: {unit: year, requests_per_unit: 1}
  - key: path
    value: /files/*
    share_threshold: true
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: path
    value: /login
    rate_limit: {unit: year, requests_per_unit: 3}
  - key: path
    regex: '/users/[0-9]+'
    rate_limit: {unit: year, requests_per_unit: 1}
  - key: path
    value: /static/*
    rate_limit: {unlimited: true}
";

const PATH: &str = "{actions: [{request_headers: {header_name: ':path', descriptor_key: path}}]}";

/// Returns the statuses of requests for these paths, in their order.
fn of_paths(world: &World, paths: &[&str]) -> Vec<u16> {
    paths.iter().map(|path| world.ask(path, &[]).status).collect()
}

#[test]
fn each_value_of_a_wildcard_has_a_limit_of_its_own() {
    let world = World::start(&Setup { rules: LEVELS, limits: PATH, ..Setup::default() });
    let paths = ["/api/a", "/api/b", "/api/a", "/api/b", "/ap"];
    assert_eq!(of_paths(&world, &paths), [200, 200, 429, 429, 200]);
}

#[test]
fn all_values_of_a_wildcard_can_share_one_limit() {
    let world = World::start(&Setup { rules: LEVELS, limits: PATH, ..Setup::default() });
    let paths = ["/files/a", "/files/b", "/files/c", "/files/a"];
    assert_eq!(of_paths(&world, &paths), [200, 200, 429, 429]);
}

#[test]
fn an_exact_value_and_a_regular_expression_choose_rules() {
    let world = World::start(&Setup { rules: LEVELS, limits: PATH, ..Setup::default() });
    assert_eq!(of_paths(&world, &["/login"; 4]), [200, 200, 200, 429]);
    let users = ["/users/7", "/users/8", "/users/7", "/users/x", "/users/x"];
    assert_eq!(of_paths(&world, &users), [200, 200, 429, 200, 200]);
}

#[test]
fn what_is_unlimited_is_never_denied() {
    let world = World::start(&Setup { rules: LEVELS, limits: PATH, ..Setup::default() });
    assert_eq!(of_paths(&world, &["/static/a"; 20]), [200; 20]);
}

#[test]
fn nested_descriptors_are_matched_level_by_level() {
    let rules = "
domain: shop
descriptors:
  - key: plan
    value: free
    descriptors:
      - {key: user, rate_limit: {unit: year, requests_per_unit: 1}}
      - {key: user, value: alice, rate_limit: {unit: year, requests_per_unit: 2}}
  - key: plan
    rate_limit: {unit: year, requests_per_unit: 0}
";
    let limits = "{actions: [
        {request_headers: {header_name: x-plan, descriptor_key: plan}},
        {request_headers: {header_name: x-user, descriptor_key: user}}]}";
    let limits = limits.replace('\n', " ");
    let world = World::start(&Setup { rules, limits: &limits, ..Setup::default() });
    let of = |requests, user: &str, plan: &str| {
        world.statuses(requests, "/", &[&format!("x-user: {user}"), &format!("x-plan: {plan}")])
    };
    assert_eq!(of(3, "alice", "free"), [200, 200, 429]);
    assert_eq!(of(2, "bob", "free"), [200, 429]);
    // Only the limit at the last entry applies, so the limit of the plan alone does not deny.
    assert_eq!(of(2, "bob", "paid"), [200, 200]);
}

#[test]
fn networks_choose_rules_and_each_address_counts_by_itself() {
    let rules = "
domain: shop
descriptors:
  - {key: remote_address, cidr: 198.51.100.0/24, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: remote_address, cidr: '2001:db8::/32', rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: remote_address, cidr: 10.0.0.0/8, rate_limit: {unlimited: true}}
";
    let limits = "{actions: [{remote_address: {}}]}";
    let world = World::start(&Setup { rules, limits, ..Setup::default() });
    let from = |requests, address: &str| {
        world.statuses(requests, "/", &[&format!("x-forwarded-for: {address}")])
    };
    assert_eq!(from(2, "198.51.100.7"), [200, 429]);
    assert_eq!(from(2, "198.51.100.8"), [200, 429]);
    assert_eq!(from(3, "192.0.2.1"), [200; 3]);
    assert_eq!(from(3, "10.1.2.3"), [200; 3]);
    // All addresses of one /64 are one client.
    assert_eq!(from(2, "2001:db8::1"), [200, 200]);
    assert_eq!(from(1, "2001:db8::2"), [429]);
    assert_eq!(from(1, "2001:db8:0:1::2"), [200]);
}

#[test]
fn stacked_limits_are_charged_together_or_not_at_all() {
    let rules = "
domain: shop
descriptors:
  - key: user
    limits:
      - {unit: year, requests_per_unit: 5, name: years}
      - {unit: hour, requests_per_unit: 1, algorithm: gcra, burst: 2, name: hours}
";
    let serve = &["--response-headers"];
    let world = World::start(&Setup { rules, serve, ..Setup::default() });
    assert_eq!(world.statuses(6, "/", ALICE), [200, 200, 429, 429, 429, 429]);
    let denied = world.ask("/", ALICE);
    assert_eq!((denied.header("ratelimit-limit"), denied.status), (Some("1"), 429));
    // Five denials charged nothing to the limit of the year. So three of its units are left when the hour has room
    // again.
    world.write_rules(&rules.replace("burst: 2", "burst: 20"));
    world.service().line("rules loaded");
    assert_eq!(world.statuses(4, "/", ALICE), [200, 200, 200, 429]);
}

#[test]
fn a_soft_limit_admits_its_share_above_the_limit() {
    let rules = "
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 4, mode: soft 50%}}
";
    let world = World::start(&Setup { rules, ..Setup::default() });
    let expected = [200, 200, 200, 200, 200, 200, 429, 429];
    assert_eq!(world.statuses(8, "/", ALICE), expected);
}

#[test]
fn a_penalty_denies_what_a_limit_would_admit() {
    let rules = "
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 2, algorithm: gcra, burst: 2, penalty: 10h after 2}
";
    let serve = &["--response-headers"];
    let world = World::start(&Setup { rules, serve, ..Setup::default() });
    assert_eq!(world.statuses(4, "/", ALICE), [200, 200, 429, 429]);
    assert_seconds(&world.ask("/", ALICE), "retry-after", 36_000);
}

#[test]
fn two_descriptors_are_charged_both_or_none() {
    assert_eq!(both_then_team(&[]), [200, 200, 429]);
}

#[test]
fn compat_charges_each_descriptor_by_itself() {
    // The second and third request were denied to the user, and charged to the team, as envoyproxy/ratelimit does.
    assert_eq!(both_then_team(&["--compat"]), [429, 429, 429]);
}

/// A user may send one request and a team three. Returns the statuses of three requests of a user of the team, and then
/// of three of the team.
fn both_then_team(serve: &[&str]) -> Vec<u16> {
    let rules = "
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: team, rate_limit: {unit: year, requests_per_unit: 3}}
";
    let limits = of_headers(&["user", "team"]);
    let world = World::start(&Setup { rules, limits: &limits, serve, ..Setup::default() });
    assert_eq!(world.statuses(3, "/", &["x-user: alice", "x-team: red"]), [200, 429, 429]);
    world.statuses(3, "/", &["x-team: red"])
}
