//! How Envoy makes descriptors of requests: its actions, stages, overrides and costs.

use crate::headers::DRAFT_03;
use crate::world::{ALICE, Setup, World};

/// The rules admit one request in a year for each value of any of these keys, so that a second one with the same
/// descriptor is denied.
const ONCE: &str = "
domain: shop
descriptors:
  - {key: remote_address, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: masked_remote_address, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: masked_remote_address, value: 203.0.113.0/24, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: generic_key, value: checkout, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: header_match, value: mobile, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: query_match, value: slow, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: page, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: plan, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: path, value: /api/*, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: destination_cluster, value: application, rate_limit: {unit: year, requests_per_unit: 1}}
  - key: source_cluster
    value: edge
    descriptors:
      - {key: destination_cluster, value: application, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: user, rate_limit: {unit: year, requests_per_unit: 4}}
";

/// The status of a request, which is a path or headers with semicolons between them.
fn asked(world: &World, request: &str) -> u16 {
    if request.starts_with('/') {
        return world.ask(request, &[]).status;
    }
    let headers: Vec<&str> = request.split("; ").collect();
    world.ask("/", &headers).status
}

/// Actions, requests with commas between them, each behind a beginning that all have, and the statuses of these.
const ACTIONS: [(&str, &str, &str, &[u16]); 13] = [
    // All addresses of one /64 are one client.
    (
        "{remote_address: {}}",
        "x-forwarded-for: ",
        "192.0.2.1, 192.0.2.2, 192.0.2.1, ::ffff:192.0.2.2, 198.51.100.1, \
         2001:db8::1, 2001:db8::2, 2001:db8:0:1::2",
        &[200, 200, 429, 429, 200, 200, 429, 200],
    ),
    // A rule for one network has its own limit.
    (
        "{masked_remote_address: {v4_prefix_mask_len: 24, v6_prefix_mask_len: 48}}",
        "x-forwarded-for: ",
        "192.0.2.1, 192.0.2.200, 192.0.3.1, 2001:db8:1::1, 2001:db8:1:2::1, \
         203.0.113.7, 203.0.113.8, 203.0.113.9",
        &[200, 429, 200, 200, 429, 200, 200, 429],
    ),
    // With a team a request has another descriptor, for which there is no rule. Without a plan it has none at all.
    (
        "{request_headers: {header_name: x-plan, descriptor_key: plan}}, \
         {request_headers: {header_name: x-team, descriptor_key: team, skip_if_absent: true}}",
        "x-",
        "plan: free, plan: paid, plan: free, plan: free; x-team: red, plan: free; x-team: red, \
         team: red, team: red",
        &[200, 200, 429, 200, 200, 200, 200],
    ),
    (
        "{request_headers: {header_name: ':path', descriptor_key: path}}",
        "/",
        "api/a, api/b, api/a, api/b, ap",
        &[200, 200, 429, 429, 200],
    ),
    ("{generic_key: {descriptor_value: checkout}}", "/", "a, b", &[200, 429]),
    ("{generic_key: {descriptor_key: page, descriptor_value: front}}", "/", "a, b", &[200, 429]),
    (
        "{header_value_match: {descriptor_value: mobile, headers: \
         [{name: user-agent, string_match: {contains: Mobile}}]}}",
        "user-agent: ",
        "Mobile/1, Desktop, Other Mobile, Desktop",
        &[200, 200, 429, 200],
    ),
    (
        "{header_value_match: {descriptor_value: mobile, expect_match: false, headers: \
         [{name: user-agent, string_match: {contains: Mobile}}]}}",
        "user-agent: ",
        "Mobile/1, Mobile/1, Desktop, Desktop, Mobile/1",
        &[200, 200, 200, 429, 200],
    ),
    (
        "{query_parameters: {query_parameter_name: page, descriptor_key: page}}",
        "/",
        "?page=1, ?page=2, ?page=1, a",
        &[200, 200, 429, 200],
    ),
    (
        "{query_parameter_value_match: {descriptor_value: slow, query_parameters: \
         [{name: size, string_match: {exact: large}}]}}",
        "/?size=",
        "large, small, large, small",
        &[200, 200, 429, 200],
    ),
    ("{destination_cluster: {}}", "/", "a, b", &[200, 429]),
    ("{source_cluster: {}}, {destination_cluster: {}}", "/", "a, b, c", &[200, 200, 429]),
    (
        "{metadata: {descriptor_key: plan, default_value: none, \
         metadata_key: {key: token, path: [{key: plan}]}}}",
        "x-",
        "token: free, token: paid, token: free, other: 1, other: 1",
        &[200, 200, 429, 200, 429],
    ),
];

/// Turns a header into metadata of the request.
const PLAN_OF_HEADER: &str = "- {name: envoy.filters.http.header_to_metadata, typed_config: {\"@type\": \
    type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config, request_rules: \
    [{header: x-token, on_header_present: {metadata_namespace: token, key: plan, type: STRING}}]}}";

#[test]
fn each_action_limits_what_it_takes_from_a_request() {
    for (actions, beginning, requests, statuses) in ACTIONS {
        let limits = format!("{{actions: [{actions}]}}");
        let first = &[PLAN_OF_HEADER];
        let setup = Setup { rules: ONCE, limits: &limits, first, ..Setup::default() };
        let world = World::start(&setup);
        let requests = requests.split(", ").map(|request| format!("{beginning}{request}"));
        let found: Vec<u16> = requests.map(|request| asked(&world, &request)).collect();
        assert_eq!(found, statuses, "{actions}");
    }
}

#[test]
fn metadata_of_the_route_limits_it() {
    let limits = "{actions: [{metadata: {descriptor_key: plan, source: ROUTE_ENTRY, \
                  metadata_key: {key: shop, path: [{key: plan}]}}}]}";
    let route = &["metadata: {filter_metadata: {shop: {plan: trial}}}"];
    let world = World::start(&Setup { rules: ONCE, limits, route, ..Setup::default() });
    assert_eq!(world.statuses(2, "/", &[]), [200, 429]);
}

const USER: &str = "actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]";

// Envoy reads `hits_addend` in the limits of its filter (or of `RateLimitPerRoute`), and ignores it in the limits of a
// `RouteAction`.

/// Starts an Envoy in which a request of a user has the cost that this field says.
fn with_cost(hits_addend: &str) -> World {
    let limits = format!("rate_limits: [{{hits_addend: {{{hits_addend}}}, {USER}}}]");
    World::start(&Setup { rules: ONCE, filter: &[&limits], ..Setup::default() })
}

#[test]
fn a_descriptor_costs_what_its_hits_addend_says() {
    assert_eq!(with_cost("number: 2").statuses(3, "/", ALICE), [200, 200, 429]);
    let world = with_cost("number: 0");
    assert_eq!(world.statuses(9, "/", ALICE), [200; 9]);
    let peek = world.service().http().ask("/v1/peek?domain=shop&user=alice", &[]);
    assert!(peek.body.contains("\"remaining\":4"), "{peek:?}");
}

#[test]
fn a_cost_can_come_from_the_request_and_one_that_is_no_number_makes_no_descriptor() {
    let world = with_cost("format: \"%REQ(x-items)%\"");
    let of = |items: &str| asked(&world, &format!("x-user: alice; x-items: {items}"));
    // Envoy lets a request without a descriptor pass, so a cost must not come from a header that a client writes.
    for items in ["abc", "-1", "18446744073709551615"] {
        assert_eq!([of(items), of(items)], [200; 2], "{items}");
    }
    let hits = "tollgate_rule_hits_total{domain=\"shop\",rule=\"user\"}";
    assert_eq!(world.service().metric(hits), 0);
    assert_eq!(["3", "2", "1", "1"].map(of), [200, 429, 200, 429]);
}

#[test]
fn a_limit_that_comes_with_the_request_counts_in_place_of_the_rules() {
    let first = &["- {name: envoy.filters.http.set_metadata, typed_config: {\"@type\": \
                   type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config, metadata: \
                   [{metadata_namespace: account, value: {limit: {requests_per_unit: 2, unit: YEAR}}}]}}"];
    let limits = format!(
        "{{limit: {{dynamic_metadata: {{metadata_key: {{key: account, path: [{{key: limit}}]}}}}}}, {USER}}}"
    );
    let filter = &[DRAFT_03];
    let setup = Setup { rules: ONCE, limits: &limits, first, filter, ..Setup::default() };
    let world = World::start(&setup);
    let told = world.ask("/", ALICE);
    assert_eq!(told.header("x-ratelimit-limit"), Some("2, 2;w=31536000"));
    assert_eq!(world.statuses(3, "/", ALICE), [200, 429, 429]);
}

#[test]
fn each_stage_asks_about_its_own_descriptors() {
    let early = "- {name: early, typed_config: {\"@type\": \
        type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit, domain: early, stage: 1, \
        timeout: 30s, rate_limit_service: {transport_api_version: V3, grpc_service: {envoy_grpc: \
        {cluster_name: tollgate}}}}}";
    let rules = "
domain: early
descriptors:
  - {key: generic_key, value: all, rate_limit: {unit: year, requests_per_unit: 2}}
";
    let limits =
        format!("{{stage: 1, actions: [{{generic_key: {{descriptor_value: all}}}}]}}, {{{USER}}}");
    let scratch = crate::world::scratch();
    scratch.file("rules/early.yaml", rules);
    let setup = Setup { rules: ONCE, limits: &limits, first: &[early], ..Setup::default() };
    let world = World::start_in(scratch, &setup);
    assert_eq!(world.statuses(4, "/", ALICE), [200, 200, 429, 429]);
    // Envoy did not ask the second stage about requests that the first stage denied.
    let peek = world.service().http().ask("/v1/peek?domain=shop&user=alice", &[]);
    assert!(peek.body.contains("\"remaining\":2"), "{peek:?}");
}

#[test]
fn a_descriptor_can_be_disabled_at_run_time() {
    let limits = format!("{{disable_key: users, {USER}}}");
    let world = World::start(&Setup { rules: ONCE, limits: &limits, ..Setup::default() });
    assert_eq!(world.statuses(5, "/", ALICE), [200, 200, 200, 200, 429]);
    let key = "ratelimit.users.http_filter_enabled";
    assert_eq!(world.admin("POST", &format!("/runtime_modify?{key}=0")).status, 200);
    assert_eq!(world.statuses(3, "/", ALICE), [200; 3]);
    assert_eq!(world.admin("POST", &format!("/runtime_modify?{key}=100")).status, 200);
    assert_eq!(world.statuses(1, "/", ALICE), [429]);
}

#[test]
fn a_filter_that_is_not_enforced_asks_and_denies_nothing() {
    let filter = &["filter_enforced: {default_value: {numerator: 0}, runtime_key: enforced}"];
    let limits = format!("{{{USER}}}");
    let world = World::start(&Setup { rules: ONCE, limits: &limits, filter, ..Setup::default() });
    assert_eq!(world.statuses(6, "/", ALICE), [200; 6]);
    let over = "tollgate_rule_over_limit_total{domain=\"shop\",rule=\"user\"}";
    assert_eq!(world.service().metric(over), 2);
}

#[test]
fn the_limits_of_a_route_override_those_of_its_host_or_include_them() {
    let choice = "typed_per_filter_config: {envoy.filters.http.ratelimit: {\"@type\": \
        type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute, vh_rate_limits: INCLUDE}}";
    for (route, expected) in
        [(&[][..], [200, 200, 200, 200, 429]), (&[choice], [200, 429, 429, 429, 429])]
    {
        let setup = Setup {
            rules: ONCE,
            limits: &format!("{{{USER}}}"),
            host_limits: "{actions: [{generic_key: {descriptor_value: checkout}}]}",
            route,
            ..Setup::default()
        };
        assert_eq!(World::start(&setup).statuses(5, "/", ALICE), expected);
    }
}

#[test]
fn a_route_can_have_limits_and_a_domain_of_its_own() {
    let rules = ONCE.replace("domain: shop", "domain: cart");
    let route = &["typed_per_filter_config: {envoy.filters.http.ratelimit: {\"@type\": \
        type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute, domain: cart, rate_limits: \
        [{actions: [{generic_key: {descriptor_value: checkout}}]}]}}"];
    let world = World::start(&Setup { rules: &rules, route, ..Setup::default() });
    assert_eq!(world.statuses(3, "/", ALICE), [200, 429, 429]);
}
