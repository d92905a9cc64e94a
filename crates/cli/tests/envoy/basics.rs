//! Admissions and denials, as clients of Envoy see them.

use crate::world::{Setup, World};

/// Each user may send three requests in a year.
const THREE: &str = "
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 3}}
";

const ALICE: &[&str] = &["x-user: alice"];

#[test]
fn a_limit_admits_its_number_and_denies_what_follows() {
    let world = World::start(&Setup { rules: THREE, ..Setup::default() });
    assert_eq!(world.statuses(5, "/", ALICE), [200, 200, 200, 429, 429]);
    // No other user is denied, and no denied request came through.
    assert_eq!(world.statuses(1, "/", &["x-user: bob"]), [200]);
    assert_eq!(world.upstream.seen(), 4);
}

#[test]
fn a_denial_is_marked_as_one_of_envoys_limiter() {
    let world = World::start(&Setup { rules: THREE, ..Setup::default() });
    assert_eq!(world.ask("/", ALICE).header("x-envoy-ratelimited"), None);
    assert_eq!(world.statuses(2, "/", ALICE), [200, 200]);
    let denied = world.ask("/", ALICE);
    assert_eq!((denied.status, denied.header("x-envoy-ratelimited")), (429, Some("true")));
}

#[test]
fn the_mark_of_a_denial_can_be_left_out() {
    let filter = &["disable_x_envoy_ratelimited_header: true"];
    let world = World::start(&Setup { rules: THREE, filter, ..Setup::default() });
    assert_eq!(world.statuses(3, "/", ALICE), [200; 3]);
    let denied = world.ask("/", ALICE);
    assert_eq!((denied.status, denied.header("x-envoy-ratelimited")), (429, None));
}

#[test]
fn a_denial_has_the_status_and_the_headers_that_envoy_is_told() {
    let filter = &[
        "rate_limited_status: {code: 503}",
        "response_headers_to_add: [{header: {key: x-limited-by, value: tollgate}}]",
    ];
    let world = World::start(&Setup { rules: THREE, filter, ..Setup::default() });
    assert_eq!(world.statuses(3, "/", ALICE), [200; 3]);
    let denied = world.ask("/", ALICE);
    assert_eq!((denied.status, denied.header("x-limited-by")), (503, Some("tollgate")));
}

#[test]
fn a_request_without_a_descriptor_is_not_asked_about() {
    let world = World::start(&Setup { rules: THREE, ..Setup::default() });
    assert_eq!(world.statuses(5, "/", &[]), [200; 5]);
    assert_eq!(asked(&world), 0);
    assert_eq!(world.statuses(1, "/", ALICE), [200]);
    assert_eq!(asked(&world), 1);
}

/// Returns the number of requests that the service decided for Envoy.
fn asked(world: &World) -> u64 {
    ["allowed", "over_limit", "refused"].map(|outcome| world.service().asked(outcome)).iter().sum()
}

#[test]
fn a_domain_without_rules_is_not_limited() {
    let rules = THREE.replace("shop", "another");
    let world = World::start(&Setup { rules: &rules, ..Setup::default() });
    assert_eq!(world.statuses(5, "/", ALICE), [200; 5]);
    assert_eq!(world.service().metric("tollgate_domain_not_found_total"), 5);
}

#[test]
fn a_descriptor_without_a_rule_is_not_limited() {
    let limits = "{actions: [{generic_key: {descriptor_value: unknown}}]}";
    let world = World::start(&Setup { rules: THREE, limits, ..Setup::default() });
    assert_eq!(world.statuses(5, "/", &[]), [200; 5]);
    assert_eq!(world.service().metric("tollgate_domain_not_found_total"), 0);
}

#[test]
fn http_2_is_limited_like_http_1() {
    let world = World::start(&Setup { rules: THREE, ..Setup::default() });
    let ask = || world.client().ask_with("/", ALICE, &["--http2-prior-knowledge"]);
    let statuses = [(); 4].map(|()| ask().status);
    assert_eq!(statuses, [200, 200, 200, 429]);
    assert_eq!(ask().header("x-envoy-ratelimited"), Some("true"));
    // Requests over HTTP/1 and HTTP/2 are charged to the same limit.
    assert_eq!(world.ask("/", ALICE).status, 429);
}

/// Returns the answer that a denied gRPC client sees: the status, `grpc-status` and `grpc-message`.
fn denied_call(filter: &[&str]) -> (u16, String, String) {
    let world = World::start(&Setup { rules: THREE, filter, ..Setup::default() });
    assert_eq!(world.statuses(3, "/", ALICE), [200; 3]);
    let headers = &["x-user: alice", "content-type: application/grpc", "te: trailers"];
    let options = &["--http2-prior-knowledge", "--data", ""];
    let denied = world.client().ask_with("/shop.Cart/Add", headers, options);
    let [status, message] = denied.all(["grpc-status", "grpc-message"]).map(str::to_owned);
    (denied.status, status, message)
}

#[test]
fn a_grpc_call_that_is_denied_is_unavailable() {
    assert_eq!(denied_call(&[]), (200, "14".to_owned(), String::new()));
}

#[test]
fn a_grpc_call_that_is_denied_may_be_resource_exhausted() {
    let denied = denied_call(&["rate_limited_as_resource_exhausted: true"]);
    assert_eq!(denied, (200, "8".to_owned(), String::new()));
}

#[test]
fn requests_of_one_connection_and_of_many_count_together() {
    let world = World::start(&Setup { rules: THREE, ..Setup::default() });
    let mut statuses = world.client().together(20, "/", ALICE);
    statuses.sort_unstable();
    assert_eq!(statuses, [[200; 3].as_slice(), &[429; 17]].concat());
    assert_eq!(world.upstream.seen(), 3);
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
