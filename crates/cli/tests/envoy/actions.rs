//! How Envoy makes descriptors of requests: its actions, stages, overrides and costs.

use crate::world::{Setup, World};

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
  - {key: destination_cluster, value: application, rate_limit: {unit: year, requests_per_unit: 1}}
  - key: source_cluster
    value: edge
    descriptors:
      - {key: destination_cluster, value: application, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: user, rate_limit: {unit: year, requests_per_unit: 4}}
";

const ALICE: &[&str] = &["x-user: alice"];

fn world(actions: &str) -> World {
    let limits = format!("{{actions: [{actions}]}}");
    World::start(&Setup { rules: ONCE, limits: &limits, ..Setup::default() })
}

/// Returns the status of one request with this header.
fn with(world: &World, header: &str) -> u16 {
    world.ask("/", &[header]).status
}

#[test]
fn remote_address_limits_each_client() {
    let world = world("{remote_address: {}}");
    let of = |address: &str| with(&world, &format!("x-forwarded-for: {address}"));
    let addresses = ["192.0.2.1", "192.0.2.2", "192.0.2.1", "::ffff:192.0.2.2", "198.51.100.1"];
    assert_eq!(addresses.map(of), [200, 200, 429, 429, 200]);
}

#[test]
fn masked_remote_address_limits_each_network() {
    let world = world("{masked_remote_address: {v4_prefix_mask_len: 24, v6_prefix_mask_len: 48}}");
    let of = |address: &str| with(&world, &format!("x-forwarded-for: {address}"));
    let addresses = ["192.0.2.1", "192.0.2.200", "192.0.3.1", "2001:db8:1::1", "2001:db8:1:2::1"];
    assert_eq!(addresses.map(of), [200, 429, 200, 200, 429]);
    // A rule for one network has its own limit.
    assert_eq!(["203.0.113.7", "203.0.113.8", "203.0.113.9"].map(of), [200, 200, 429]);
}

#[test]
fn request_headers_limit_each_value_and_absent_ones_are_skipped() {
    let world = world(
        "{request_headers: {header_name: x-plan, descriptor_key: plan}}, \
         {request_headers: {header_name: x-team, descriptor_key: team, skip_if_absent: true}}",
    );
    let plans = ["x-plan: free", "x-plan: paid", "x-plan: free"];
    assert_eq!(plans.map(|plan| with(&world, plan)), [200, 200, 429]);
    // With a team the request has another descriptor, for which there is no rule. Without a plan it has no descriptor
    // at all.
    assert_eq!(world.statuses(2, "/", &["x-plan: free", "x-team: red"]), [200; 2]);
    assert_eq!(world.statuses(2, "/", &["x-team: red"]), [200; 2]);
}

#[test]
fn generic_key_limits_a_route() {
    let world = world("{generic_key: {descriptor_value: checkout}}");
    assert_eq!(world.statuses(2, "/", &[]), [200, 429]);
}

#[test]
fn generic_key_can_have_a_key_of_its_own() {
    let world = world("{generic_key: {descriptor_key: page, descriptor_value: front}}");
    assert_eq!(world.statuses(2, "/", &[]), [200, 429]);
}

#[test]
fn header_value_match_limits_what_matches() {
    let world = world(
        "{header_value_match: {descriptor_value: mobile, headers: \
         [{name: user-agent, string_match: {contains: Mobile}}]}}",
    );
    let agents = ["user-agent: Mobile/1", "user-agent: Desktop", "user-agent: Other Mobile"];
    assert_eq!(agents.map(|agent| with(&world, agent)), [200, 200, 429]);
    assert_eq!(world.statuses(3, "/", &["user-agent: Desktop"]), [200; 3]);
}

#[test]
fn header_value_match_can_limit_what_does_not_match() {
    let world = world(
        "{header_value_match: {descriptor_value: mobile, expect_match: false, headers: \
         [{name: user-agent, string_match: {contains: Mobile}}]}}",
    );
    assert_eq!(world.statuses(3, "/", &["user-agent: Mobile/1"]), [200; 3]);
    assert_eq!(world.statuses(2, "/", &["user-agent: Desktop"]), [200, 429]);
}

#[test]
fn query_parameters_limit_each_value() {
    let world = world("{query_parameters: {query_parameter_name: page, descriptor_key: page}}");
    let paths = ["/?page=1", "/?page=2", "/?page=1", "/"];
    assert_eq!(paths.map(|path| world.ask(path, &[]).status), [200, 200, 429, 200]);
}

#[test]
fn query_parameter_value_match_limits_what_matches() {
    let world = world(
        "{query_parameter_value_match: {descriptor_value: slow, query_parameters: \
         [{name: size, string_match: {exact: large}}]}}",
    );
    let paths = ["/?size=large", "/?size=small", "/?size=large", "/?size=small"];
    assert_eq!(paths.map(|path| world.ask(path, &[]).status), [200, 200, 429, 200]);
}

#[test]
fn destination_and_source_cluster_limit_a_service_behind_envoy() {
    let of_destination = world("{destination_cluster: {}}");
    assert_eq!(of_destination.statuses(2, "/", &[]), [200, 429]);
    let of_both = world("{source_cluster: {}}, {destination_cluster: {}}");
    assert_eq!(of_both.statuses(3, "/", &[]), [200, 200, 429]);
}

/// Turns a header into metadata of the request.
const PLAN_OF_HEADER: &str = "- {name: envoy.filters.http.header_to_metadata, typed_config: {\"@type\": \
    type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config, request_rules: \
    [{header: x-token, on_header_present: {metadata_namespace: token, key: plan, type: STRING}}]}}";

#[test]
fn metadata_of_another_filter_limits_each_value() {
    let limits = "{actions: [{metadata: {descriptor_key: plan, default_value: none, \
                  metadata_key: {key: token, path: [{key: plan}]}}}]}";
    let first = &[PLAN_OF_HEADER];
    let world = World::start(&Setup { rules: ONCE, limits, first, ..Setup::default() });
    let tokens = ["x-token: free", "x-token: paid", "x-token: free", "x-other: 1", "x-other: 1"];
    assert_eq!(tokens.map(|token| with(&world, token)), [200, 200, 429, 200, 429]);
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

#[test]
fn a_descriptor_costs_what_its_hits_addend_says() {
    let limits = format!("rate_limits: [{{hits_addend: {{number: 2}}, {USER}}}]");
    let world = World::start(&Setup { rules: ONCE, filter: &[&limits], ..Setup::default() });
    assert_eq!(world.statuses(3, "/", ALICE), [200, 200, 429]);
}

#[test]
fn a_cost_can_come_from_the_request() {
    let limits = format!("rate_limits: [{{hits_addend: {{format: \"%REQ(x-items)%\"}}, {USER}}}]");
    let world = World::start(&Setup { rules: ONCE, filter: &[&limits], ..Setup::default() });
    let of = |items: &str| world.ask("/", &["x-user: alice", &format!("x-items: {items}")]).status;
    assert_eq!(["3", "2", "1", "1"].map(of), [200, 429, 200, 429]);
}

#[test]
fn a_cost_that_is_no_number_makes_no_descriptor() {
    // Envoy then lets every request pass, so a cost must not come from a header that a client writes.
    let limits = format!("rate_limits: [{{hits_addend: {{format: \"%REQ(x-items)%\"}}, {USER}}}]");
    let world = World::start(&Setup { rules: ONCE, filter: &[&limits], ..Setup::default() });
    for items in ["abc", "-1", "18446744073709551615"] {
        let items = format!("x-items: {items}");
        assert_eq!(world.statuses(2, "/", &["x-user: alice", &items]), [200; 2], "{items}");
    }
    assert_eq!(
        world.service().metric("tollgate_rule_hits_total{domain=\"shop\",rule=\"user\"}"),
        0
    );
}

#[test]
fn a_question_with_a_cost_of_0_charges_nothing() {
    let limits = format!("rate_limits: [{{hits_addend: {{number: 0}}, {USER}}}]");
    let world = World::start(&Setup { rules: ONCE, filter: &[&limits], ..Setup::default() });
    assert_eq!(world.statuses(9, "/", ALICE), [200; 9]);
    let peek = world.service().http().ask("/v1/peek?domain=shop&user=alice", &[]);
    assert!(peek.body.contains("\"remaining\":4"), "{peek:?}");
}

#[test]
fn a_limit_that_comes_with_the_request_counts_in_place_of_the_rules() {
    let first = &["- {name: envoy.filters.http.set_metadata, typed_config: {\"@type\": \
                   type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config, metadata: \
                   [{metadata_namespace: account, value: {limit: {requests_per_unit: 2, unit: YEAR}}}]}}"];
    let limits = format!(
        "{{limit: {{dynamic_metadata: {{metadata_key: {{key: account, path: [{{key: limit}}]}}}}}}, {USER}}}"
    );
    let filter = &["enable_x_ratelimit_headers: DRAFT_VERSION_03"];
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

/// Returns the statuses of requests under the limits of the virtual host and of the route, combined as the route says.
fn with_those_of_the_host(choice: &[&str]) -> Vec<u16> {
    let limits = format!("{{{USER}}}");
    let setup = Setup {
        rules: ONCE,
        limits: &limits,
        host_limits: "{actions: [{generic_key: {descriptor_value: checkout}}]}",
        route: choice,
        ..Setup::default()
    };
    World::start(&setup).statuses(5, "/", ALICE)
}

#[test]
fn the_limits_of_a_route_override_those_of_its_host() {
    assert_eq!(with_those_of_the_host(&[]), [200, 200, 200, 200, 429]);
}

#[test]
fn the_limits_of_a_host_can_be_included() {
    let choice = "typed_per_filter_config: {envoy.filters.http.ratelimit: {\"@type\": \
        type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute, vh_rate_limits: INCLUDE}}";
    assert_eq!(with_those_of_the_host(&[choice]), [200, 429, 429, 429, 429]);
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
