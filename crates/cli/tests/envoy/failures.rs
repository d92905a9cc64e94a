//! How Envoy treats requests while the service is gone, hangs or refuses. While it is gone under load, see
//! `operations.rs`.

use crate::processes::until;
use crate::world::{ALICE, DENY, Setup, THREE, World};

#[test]
fn without_the_service_requests_can_be_denied_and_a_service_that_is_back_limits_again() {
    let mut world = World::start(&Setup { rules: THREE, filter: DENY, ..Setup::default() });
    assert_eq!(world.statuses(1, "/", ALICE), [200]);
    let address = world.kill_service();
    let denied = world.ask("/", ALICE);
    // The answer does not look like a denial by a limit.
    assert_eq!((denied.status, denied.header("x-envoy-ratelimited")), (500, None));
    assert_eq!(world.upstream.seen(), 1);
    world.restart_service(&address, "rules loaded");
    assert_eq!(world.statuses(4, "/", ALICE), [200, 200, 200, 429]);
    // A service that starts with bad rules is no limiter until it has loaded good ones.
    let address = world.kill_service();
    world.write_rules("domain: shop\ndescriptors: [{key: user, rate_limit: {unit: fortnight}}]\n");
    world.restart_service(&address, "rules refused");
    assert_eq!(world.statuses(2, "/", ALICE), [500; 2]);
    world.write_rules(THREE);
    world.service().line("rules loaded");
    assert_eq!(world.statuses(4, "/", ALICE), [200, 200, 200, 429]);
}

#[test]
fn without_the_service_the_status_is_what_envoy_is_told() {
    let filter = &["failure_mode_deny: true", "status_on_error: {code: 503}"];
    let mut world = World::start(&Setup { rules: THREE, filter, ..Setup::default() });
    world.kill_service();
    assert_eq!(world.statuses(3, "/", ALICE), [503; 3]);
}

#[test]
fn a_service_that_hangs_delays_requests_by_the_timeout_and_they_pass_or_are_denied() {
    for (filter, status) in [(&[][..], 200), (DENY, 500)] {
        let world =
            World::start(&Setup { rules: THREE, filter, timeout: "0.1s", ..Setup::default() });
        // After this request Envoy has a connection to the service.
        world.ask("/", ALICE);
        world.service().signal("STOP");
        assert_eq!(world.statuses(2, "/", &["x-user: bob"]), [status; 2]);
        world.service().signal("CONT");
        // The service may charge requests that it was asked about while it hung, although Envoy no longer waits for its
        // answers.
        until("a denial", || world.ask("/", &["x-user: carol"]).status == 429);
        assert_eq!(world.ask("/", &["x-user: carol"]).status, 429);
    }
}

#[test]
fn a_request_that_the_service_refuses_is_a_failure() {
    // Keys and values of a request may have 1 MiB together. Envoy accepts 60 KiB of headers; here it uses one header 20
    // times.
    let action = "{request_headers: {header_name: x-user, descriptor_key: user}}";
    let limits = format!("{{actions: [{}]}}", [action; 20].join(", "));
    let setup = Setup { rules: THREE, limits: &limits, filter: DENY, ..Setup::default() };
    let world = World::start(&setup);
    let long = format!("x-user: {}", "a".repeat(55_000));
    assert_eq!(world.statuses(1, "/", &[&long]), [500]);
    assert_eq!(world.statuses(1, "/", ALICE), [200]);
}

/// A careless service would refuse these requests, so that Envoy would let them pass.
#[test]
fn a_header_that_is_as_long_as_envoy_accepts_or_no_text_is_limited() {
    // The header is used twice, as in `examples/envoy.yaml`.
    let limits = "{actions: [{remote_address: {}}, {request_headers: {header_name: x-user, descriptor_key: user}}]}, \
                  {actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]}";
    let world = World::start(&Setup { rules: THREE, limits, filter: DENY, ..Setup::default() });
    for value in [&b"a".repeat(55_000)[..], b"\xff\xfe"] {
        world.scratch.file("header", [&b"x-user: "[..], value].concat());
        let header = format!("@{}", world.scratch.path().join("header").display());
        assert_eq!(world.statuses(4, "/", &[&header]), [200, 200, 200, 429]);
    }
}
