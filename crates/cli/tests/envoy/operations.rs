//! Operations while requests are under way: reloads, drains, several services, a Redis that fails.

use std::net::SocketAddr;

use crate::processes::{free_address, redis_at, until};
use crate::world::{ALICE, DENY, Setup, World, of_headers};

/// Requests with `x-load` never reach their limit.
const LIMITS: &str = "{actions: [{request_headers: {header_name: x-load, descriptor_key: load}}]}, \
                      {actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]}";

const LOAD: &[&str] = &["x-load: any"];

fn rules(users: u32) -> String {
    format!(
        "domain: shop\ndescriptors:\n  - {{key: load, rate_limit: {{unit: year, requests_per_unit: 1000000}}}}\n  \
         - {{key: user, rate_limit: {{unit: year, requests_per_unit: {users}}}}}\n"
    )
}

/// Returns the statuses other than 200, each once.
fn failures(mut statuses: Vec<u16>) -> Vec<u16> {
    statuses.retain(|status| *status != 200);
    statuses.sort_unstable();
    statuses.dedup();
    statuses
}

#[test]
fn a_reload_under_load_fails_no_request_and_a_bad_one_keeps_the_old_rules() {
    let setup = Setup { rules: &rules(2), limits: LIMITS, filter: DENY, ..Setup::default() };
    let world = World::start(&setup);
    assert_eq!(world.statuses(3, "/", ALICE), [200, 200, 429]);
    let load = world.load(LOAD);
    for users in [5, 2, 4] {
        world.write_rules(&rules(users));
        world.service().line("rules loaded");
    }
    world.write_rules(&rules(9).replace("year", "fortnight"));
    world.service().line("rules refused");
    assert_eq!(failures(load.statuses()), [0; 0]);
    // The limit is four now, and two were spent.
    assert_eq!(world.statuses(3, "/", ALICE), [200, 200, 429]);
    assert_eq!(world.service().metric("tollgate_config_refused"), 1);
}

/// Envoy checks the health of its services often, and one result is enough for it.
const HEALTH: &str = "health_checks: [{timeout: 5s, interval: 0.05s, no_traffic_interval: 0.05s, \
                      unhealthy_threshold: 1, healthy_threshold: 1, grpc_health_check: {service_name: ratelimit}}]";

#[test]
fn a_service_that_drains_under_load_fails_no_request() {
    let setup = Setup {
        rules: &rules(2),
        limits: LIMITS,
        filter: DENY,
        cluster: &[HEALTH],
        services: 2,
        // This is longer than Envoy needs to notice the drain, even on a busy machine.
        serve: &["--linger-stop", "5"],
        ..Setup::default()
    };
    let mut world = World::start(&setup);
    let healthy = |world: &World| {
        let clusters = world.admin("GET", "/clusters").body;
        clusters
            .lines()
            .filter(|l| l.starts_with("tollgate::") && l.ends_with("::health_flags::healthy"))
            .count()
    };
    until("two services", || healthy(&world) == 2);
    let load = world.load(LOAD);
    world.service().signal("TERM");
    until("one service", || healthy(&world) == 1);
    world.services.remove(0).ended();
    assert_eq!(failures(load.statuses()), [0; 0]);
    // The other service goes on alone.
    assert_eq!(failures(world.client().together(100, "/", LOAD)), [0; 0]);
}

#[test]
fn a_service_that_is_killed_under_load_lets_requests_pass() {
    let setup = Setup { rules: &rules(2), limits: LIMITS, ..Setup::default() };
    let mut world = World::start(&setup);
    let load = world.load(LOAD);
    assert_eq!(world.statuses(3, "/", ALICE), [200, 200, 429]);
    let address = world.kill_service();
    assert_eq!(world.statuses(3, "/", ALICE), [200; 3]);
    world.restart_service(&address, "rules loaded");
    until("a limit again", || world.ask("/", ALICE).status == 429);
    assert_eq!(failures(load.statuses()), [0; 0]);
}

#[test]
fn two_envoys_with_one_service_share_its_limits() {
    let setup = Setup { rules: &rules(5), limits: LIMITS, filter: DENY, ..Setup::default() };
    let world = World::start(&setup);
    let second = world.second_envoy();
    assert_eq!(world.statuses(3, "/", ALICE), [200; 3]);
    assert_eq!(second.http.statuses(3, "/", ALICE), [200, 200, 429]);
    assert_eq!(world.statuses(1, "/", ALICE), [429]);
}

#[test]
fn the_metrics_tell_what_envoy_asked() {
    let setup = Setup { rules: &rules(5), limits: LIMITS, ..Setup::default() };
    let world = World::start(&setup);
    assert_eq!(world.statuses(8, "/", ALICE), [200, 200, 200, 200, 200, 429, 429, 429]);
    let of_rule = |name: &str| {
        world
            .service()
            .metric(&format!("tollgate_rule_{name}_total{{domain=\"shop\",rule=\"user\"}}"))
    };
    let counts = ["hits", "within_limit", "over_limit", "near_limit", "shadow"].map(of_rule);
    assert_eq!(counts, [8, 5, 3, 1, 0]);
    let asked = |outcome: &str| world.service().asked(outcome);
    assert_eq!(["allowed", "over_limit", "refused"].map(asked), [5, 3, 0]);
    // Envoy's own counts are the same.
    let stats = world.admin("GET", "/stats?filter=cluster.application.ratelimit").body;
    for line in ["ok: 5", "over_limit: 3"] {
        let line = format!("cluster.application.ratelimit.{line}");
        assert!(stats.lines().any(|found| found == line), "{stats}");
    }
}

#[test]
fn a_service_that_is_killed_under_load_is_caught() {
    // Without health checks and without a drain requests fail, so the test above would see failures.
    let setup =
        Setup { rules: &rules(2), limits: LIMITS, filter: DENY, services: 2, ..Setup::default() };
    let mut world = World::start(&setup);
    let load = world.load(LOAD);
    drop(world.services.remove(0));
    assert_eq!(failures(load.statuses()), [500]);
}

const SHARED: &str = "
domain: shop
descriptors:
  - {key: user, accuracy: exact, rate_limit: {unit: year, requests_per_unit: 50}}
  - {key: leased, rate_limit: {unit: year, requests_per_unit: 50}}
  - {key: allow, accuracy: exact, on_error: allow, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: deny, accuracy: exact, on_error: deny, rate_limit: {unit: year, requests_per_unit: 2}}
";

/// Starts several services behind one Envoy, which share one Redis.
fn shared(services: usize, redis: SocketAddr) -> World {
    let url = format!("redis://{redis}/");
    let nodes = services.to_string();
    let setup = Setup {
        rules: SHARED,
        // A busy machine may be slow, and no service should fall back on its share.
        serve: &["--redis", &url, "--nodes", &nodes, "--redis-deadline", "20000"],
        limits: &of_headers(&["user", "leased", "allow", "deny"]),
        filter: DENY,
        services,
        ..Setup::default()
    };
    let world = World::start(&setup);
    for service in &world.services {
        until("Redis", || service.metric("tollgate_store_degraded") == 0);
    }
    world
}

#[test]
fn three_services_with_one_redis_admit_exactly_the_limit_and_with_leases_no_more() {
    let address = free_address();
    let _redis = redis_at(address, &[]);
    let world = shared(3, address);
    let cases = [("x-user: alice", 50, 50..=50), ("x-leased: alice", 100, 25..=50)];
    for (header, asked, expected) in cases {
        let statuses = world.client().together(150, "/", &[header]);
        assert_eq!(failures(statuses.clone()), [429]);
        for service in &world.services {
            let found = service.asked("allowed") + service.asked("over_limit");
            assert_eq!(found, asked, "a third each");
        }
        let admitted = statuses.iter().filter(|status| **status == 200).count();
        assert!(expected.contains(&admitted), "{admitted}");
    }
}

#[test]
fn while_redis_is_gone_rules_decide_by_on_error_and_afterwards_by_redis() {
    let address = free_address();
    let first = redis_at(address, &[]);
    let world = shared(1, address);
    assert_eq!(world.statuses(3, "/", &["x-allow: a"]), [200, 200, 429]);
    drop(first);
    world.service().line("store lost");
    assert_eq!(world.statuses(3, "/", &["x-allow: a"]), [200; 3]);
    assert_eq!(world.statuses(3, "/", &["x-deny: a"]), [429; 3]);
    let _second = redis_at(address, &[]);
    world.service().line("store back");
    // The new Redis remembers nothing.
    assert_eq!(world.statuses(3, "/", &["x-allow: a"]), [200, 200, 429]);
    assert_eq!(world.statuses(3, "/", &["x-deny: a"]), [200, 200, 429]);
}
