//! How Envoy treats requests while the service is gone, hangs or refuses.

use crate::processes::until;
use crate::world::{Setup, World};

const THREE: &str = "
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 3}}
";

const ALICE: &[&str] = &["x-user: alice"];

#[test]
fn without_the_service_requests_pass() {
    let mut world = World::start(&Setup { rules: THREE, ..Setup::default() });
    assert_eq!(world.statuses(4, "/", ALICE), [200, 200, 200, 429]);
    world.kill_service();
    assert_eq!(world.statuses(4, "/", ALICE), [200; 4]);
}

#[test]
fn without_the_service_requests_can_be_denied() {
    let filter = &["failure_mode_deny: true"];
    let mut world = World::start(&Setup { rules: THREE, filter, ..Setup::default() });
    assert_eq!(world.statuses(1, "/", ALICE), [200]);
    world.kill_service();
    let denied = world.ask("/", ALICE);
    // The answer does not look like a denial by a limit.
    assert_eq!((denied.status, denied.header("x-envoy-ratelimited")), (500, None));
    assert_eq!(world.upstream.seen(), 1);
}

#[test]
fn without_the_service_the_status_is_what_envoy_is_told() {
    let filter = &["failure_mode_deny: true", "status_on_error: {code: 503}"];
    let mut world = World::start(&Setup { rules: THREE, filter, ..Setup::default() });
    world.kill_service();
    assert_eq!(world.statuses(3, "/", ALICE), [503; 3]);
}

#[test]
fn a_service_that_is_back_limits_again() {
    let filter = &["failure_mode_deny: true"];
    let mut world = World::start(&Setup { rules: THREE, filter, ..Setup::default() });
    let address = world.kill_service();
    assert_eq!(world.statuses(2, "/", ALICE), [500; 2]);
    world.restart_service(&address, "rules loaded");
    assert_eq!(world.statuses(4, "/", ALICE), [200, 200, 200, 429]);
}

/// Returns the statuses of requests whose service hangs, and of one after it has gone on.
fn of_a_service_that_hangs(filter: &[&str]) -> (Vec<u16>, u16) {
    let setup = Setup { rules: THREE, filter, timeout: "0.1s", ..Setup::default() };
    let world = World::start(&setup);
    // After this request Envoy has a connection to the service.
    world.ask("/", ALICE);
    world.service().signal("STOP");
    let statuses = world.statuses(2, "/", &["x-user: bob"]);
    world.service().signal("CONT");
    // The service may charge requests that it was asked about while it hung, although Envoy no longer waits for its
    // answers.
    until("a denial", || world.ask("/", &["x-user: carol"]).status == 429);
    (statuses, world.ask("/", &["x-user: carol"]).status)
}

#[test]
fn a_service_that_hangs_delays_requests_by_the_timeout_and_they_pass() {
    assert_eq!(of_a_service_that_hangs(&[]), (vec![200; 2], 429));
}

#[test]
fn a_service_that_hangs_delays_requests_by_the_timeout_and_they_can_be_denied() {
    assert_eq!(of_a_service_that_hangs(&["failure_mode_deny: true"]), (vec![500; 2], 429));
}

#[test]
fn a_service_with_bad_rules_from_the_start_is_no_limiter() {
    let filter = &["failure_mode_deny: true"];
    let mut world = World::start(&Setup { rules: THREE, filter, ..Setup::default() });
    let address = world.kill_service();
    world.write_rules("domain: shop\ndescriptors: [{key: user, rate_limit: {unit: fortnight}}]\n");
    world.restart_service(&address, "rules refused");
    assert_eq!(world.statuses(2, "/", ALICE), [500; 2]);
    world.write_rules(THREE);
    world.service().line("rules loaded");
    assert_eq!(world.statuses(4, "/", ALICE), [200, 200, 200, 429]);
}

#[test]
fn a_request_that_the_service_refuses_is_a_failure() {
    // Keys and values of a request may have 1 MiB together. Envoy accepts 60 KiB of headers; here it uses one header 20
    // times.
    let action = "{request_headers: {header_name: x-user, descriptor_key: user}}";
    let limits = format!("{{actions: [{}]}}", [action; 20].join(", "));
    let filter = &["failure_mode_deny: true"];
    let world = World::start(&Setup { rules: THREE, limits: &limits, filter, ..Setup::default() });
    let long = format!("x-user: {}", "a".repeat(55_000));
    assert_eq!(world.statuses(1, "/", &[&long]), [500]);
    assert_eq!(world.statuses(1, "/", ALICE), [200]);
}

/// Requests that a careless service would refuse, so that Envoy would let them pass: each is limited.
fn limited(header: &[u8]) -> Vec<u16> {
    // The header is used twice, as in `examples/envoy.yaml`.
    let limits = "{actions: [{remote_address: {}}, {request_headers: {header_name: x-user, descriptor_key: user}}]}, \
                  {actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]}";
    let filter = &["failure_mode_deny: true"];
    let world = World::start(&Setup { rules: THREE, limits, filter, ..Setup::default() });
    world.scratch.file("header", header);
    let header = format!("@{}", world.scratch.path().join("header").display());
    world.statuses(4, "/", &[&header])
}

#[test]
fn a_header_that_is_as_long_as_envoy_accepts_is_limited() {
    let long = ["x-user: ", &"a".repeat(55_000)].concat();
    assert_eq!(limited(long.as_bytes()), [200, 200, 200, 429]);
}

#[test]
fn a_header_that_is_no_text_is_limited() {
    assert_eq!(limited(b"x-user: \xff\xfe"), [200, 200, 200, 429]);
}
