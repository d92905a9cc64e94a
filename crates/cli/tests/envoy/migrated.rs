//! Configurations of users: the example of this repository, and one in the shape of envoyproxy/ratelimit's.

use crate::common::Scratch;
use crate::headers::assert_seconds;
use crate::world::{Setup, World, scratch};

/// Makes a directory with these rules.
fn with_rules(rules: &str) -> Scratch {
    let scratch = scratch();
    scratch.file("rules/shop.yaml", rules);
    scratch
}

/// Starts an Envoy with a configuration in which it listens on 10000 and asks on 8081: free ports replace these. The
/// timeout is replaced by one that a busy machine keeps.
fn start(scratch: Scratch, config: &str, serve: &[&str]) -> World {
    let config = config.replace("timeout: 0.02s", "timeout: 30s");
    World::start_config(scratch, serve, |grpc, upstream| {
        let port = |config: String, from: u16, to: u16| {
            let from = format!("port_value: {from}}}");
            assert_eq!(config.matches(&from).count(), 1, "{from}");
            config.replace(&from, &format!("port_value: {to}}}"))
        };
        port(port(port(config.clone(), 10_000, 0), 8_081, grpc), 9_000, upstream)
    })
}

#[test]
fn the_example_of_this_repository_runs_with_its_rules() {
    let rules = include_str!("../../../../examples/rules/shop.yaml");
    let world = start(with_rules(rules), include_str!("../../../../examples/envoy.yaml"), &[]);
    let login = |user: &str| world.ask("/login", &[&format!("x-user: {user}")]);
    // The rules admit three at once, and one more after two minutes. A user may send 60 in a minute, of which three
    // were used.
    assert_eq!([(); 3].map(|()| login("alice").status), [200; 3]);
    let denied = login("alice");
    assert_eq!((denied.status, denied.header("x-envoy-ratelimited")), (429, Some("true")));
    assert_eq!(denied.header("x-ratelimit-remaining"), Some("0"));
    assert_seconds(&denied, "x-ratelimit-reset", 360);
    assert_eq!(login("bob").status, 200);
    assert_eq!(world.ask("/", &["x-user: alice"]).status, 200);
    assert_eq!(world.upstream.seen(), 5);
}

/// Starts a world with the configuration in the shape of envoyproxy/ratelimit's, with these options of the service.
fn migrated(serve: &[&str]) -> World {
    let rules = include_str!("envoyproxy/rules.yaml");
    start(with_rules(rules), include_str!("envoyproxy/envoy.yaml"), serve)
}

#[test]
fn a_configuration_of_envoyproxy_ratelimit_limits_as_it_says() {
    let closed = &["customer: a", "section: closed"];
    let of = |more: &[&'static str]| [closed, more].concat();
    let visitor = &["customer: b", "section: news"];
    let gold = [visitor, &["source: trusted", "destination: orders", "account: gold"][..]].concat();
    for serve in [&[][..], &["--compat"]] {
        let world = migrated(serve);
        let asked: [(&str, &[&str], &[u16]); 13] = [
            ("/clusters", &[], &[200, 429]),
            ("/one", &["customer: a"], &[200, 200, 429]),
            ("/one", &[], &[200, 200, 200]),
            ("/two", &["customer: a", "section: news"], &[200, 200, 200, 429]),
            ("/two", closed, &[429]),
            ("/two", &["customer: a", "language: en"], &[200, 429]),
            ("/two", &["customer: a", "open: yes"], &[200, 200, 200]),
            ("/elsewhere", &[], &[404]),
            // Limits that are replaced are neither asked nor charged.
            ("/five", &of(&["source: trusted", "destination: orders"]), &[429]),
            ("/five", &of(&["source: trusted", "destination: payments"]), &[200, 200, 429]),
            // The limit of an account replaces two limits, and nothing was charged to these.
            ("/five", &gold, &[200, 200, 200, 200, 429]),
            ("/two", visitor, &[200, 200, 200, 429]),
            // Quotas deny when all are used up.
            ("/quota", &[], &[200, 200, 429]),
        ];
        for (path, headers, statuses) in asked {
            let found = world.statuses(statuses.len(), path, headers);
            assert_eq!(found, statuses, "{path} {headers:?}");
        }
        let trial = &["customer: a", "language: trial"];
        assert_eq!(world.statuses(4, "/two", trial), [200; 4]);
        assert_eq!(world.ask("/two", trial).header("x-ratelimit-remaining"), Some("0"));
    }
}

#[test]
fn a_cost_that_is_denied_leaves_what_was_left_and_with_compat_uses_it_up() {
    for (serve, expected) in [(&[][..], [200, 429, 200]), (&["--compat"], [200, 429, 429])] {
        let setup = Setup {
            rules: "domain: shop\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 5}}]\n",
            limits: "",
            filter: &["rate_limits: [{hits_addend: {format: \"%REQ(x-items)%\"}, actions: \
                       [{request_headers: {header_name: x-user, descriptor_key: user}}]}]"],
            serve,
            ..Setup::default()
        };
        let world = World::start(&setup);
        let of = |items: &str| world.ask("/", &["x-user: a", &format!("x-items: {items}")]).status;
        assert_eq!(["3", "3", "1"].map(of), expected);
    }
}
