//! nginx, HAProxy and Caddy, with the files of `examples/forward-auth`, ask the real `tollgate serve`.
//!
//! Each test starts a proxy, an application behind it and a service on free ports. Clients have addresses of their own
//! (127.0.0.2 and so on), which no proxy has. Limits are of a year, so that no test meets the end of a window.

#![cfg(unix)]

#[allow(dead_code, reason = "shared with the tests of Envoy")]
#[path = "../envoy/client.rs"]
mod client;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/processes.rs"]
mod processes;
#[allow(dead_code, reason = "shared with the tests of Envoy")]
#[path = "../envoy/service.rs"]
mod service;
#[path = "../common/serving.rs"]
mod serving;
mod world;

use world::{ALL, PER_CLIENT, Proxy, World};

/// The seconds of a leap year: no window is longer.
const YEAR_S: u64 = 366 * 86_400;

#[test]
fn clients_have_limits_of_their_own_and_a_forged_address_does_not_help() {
    for proxy in ALL {
        let world = World::start("own_limits", proxy);
        for left in (0..PER_CLIENT).rev() {
            let answer = world.ask("127.0.0.2", "/", &[]);
            assert_eq!((answer.status, answer.body.as_str()), (200, "GET / "), "{proxy:?}");
            if proxy.passes_headers() {
                let told = answer.header("ratelimit").unwrap_or_default();
                assert!(told.starts_with(&format!("\"per-client\";r={left};t=")), "{answer:?}");
            }
        }
        for forged in ["198.51.100.7", "127.0.0.3", "127.0.0.1", "198.51.100.7, 127.0.0.1"] {
            let headers = [format!("x-forwarded-for: {forged}"), format!("x-real-ip: {forged}")];
            let answer = world.ask("127.0.0.2", "/", &headers.each_ref().map(String::as_str));
            assert_eq!(answer.status, 429, "{proxy:?} {forged}");
            let wait = answer.header("retry-after").and_then(|wait| wait.parse::<u64>().ok());
            assert!(wait.is_some_and(|wait| (1..=YEAR_S).contains(&wait)), "{proxy:?} {answer:?}");
            let policy = answer.header("ratelimit-policy").unwrap_or_default();
            assert!(policy.starts_with("\"per-client\";q=4;w="), "{proxy:?} {answer:?}");
        }
        assert_eq!(world.ask("127.0.0.3", "/", &[]).status, 200, "{proxy:?}");
        let count = |outcome| {
            world.service.metric(&format!(
                "tollgate_requests_total{{protocol=\"auth\",outcome=\"{outcome}\"}}"
            ))
        };
        assert_eq!(
            (count("allowed"), count("over_limit"), count("refused")),
            (5, 4, 0),
            "{proxy:?}"
        );
    }
}

#[test]
fn behind_a_further_proxy_that_is_trusted_the_client_is_the_one_that_it_names() {
    // Caddy drops the `X-Forwarded-For` of a client, unless its own configuration trusts the client.
    for proxy in [Proxy::Nginx, Proxy::Ha] {
        let trusted = ["--trusted-proxies", "127.0.0.1,127.0.0.9"];
        let world = World::start_with("further_proxy", proxy, &trusted, |config| config);
        let statuses = |from: &str, named: &str| {
            let header = format!("x-forwarded-for: {named}");
            let all = (0..=PER_CLIENT).map(|_| world.ask(from, "/", &[&header]).status);
            all.collect::<Vec<_>>()
        };
        let one_client = [200, 200, 200, 200, 429];
        assert_eq!(statuses("127.0.0.9", "198.51.100.7"), one_client, "{proxy:?}");
        assert_eq!(statuses("127.0.0.9", "203.0.113.1, 198.51.100.8"), one_client, "{proxy:?}");
        assert_eq!(statuses("127.0.0.9", "203.0.113.2, 198.51.100.8"), [429; 5], "{proxy:?}");
        assert_eq!(statuses("127.0.0.2", "198.51.100.9"), one_client, "{proxy:?}");
        assert_eq!(statuses("127.0.0.2", "198.51.100.10"), [429; 5], "{proxy:?}");
    }
}

/// Each client has limits of its own, so clients with different addresses do not affect each other.
#[test]
fn what_rules_name_reaches_them_and_the_rest_passes_as_it_was_sent() {
    for proxy in ALL {
        let world = World::start("as_sent", proxy);
        // All spellings of a path are one, and a query is no part of it.
        let status = |path: &str| world.ask("127.0.0.2", path, &[]).status;
        let found = ["/login", "/x/../LOGIN?next=/", "/%6Cogin/", "/other"].map(status);
        assert_eq!(found, [200, 200, 429, 200], "{proxy:?}");
        // Denied requests were charged to no limit.
        assert_eq!(["/", "/"].map(status), [200, 429], "{proxy:?}");
        let statuses = ["x-api-key: a", "X-Api-Key: a", "x-api-key: b"]
            .map(|header| world.ask("127.0.0.3", "/", &[header]).status);
        assert_eq!(statuses, [200, 429, 200], "{proxy:?}");
        let body = "0123456789abcdef".repeat(12_500);
        world.scratch.file("body", &body);
        let data = format!("@{}", world.scratch.at("body"));
        let answer = world.ask_with("127.0.0.4", "/", &["-X", "POST", "--data-binary", &data]);
        assert_eq!(answer.status, 200, "{proxy:?}");
        assert!(answer.body == format!("POST / {body}"), "{proxy:?}: {} bytes", answer.body.len());
        // If the application itself refuses a request, the proxy passes on the application's answer.
        let answer = world.ask("127.0.0.5", "/forbidden", &[]);
        assert_eq!((answer.status, answer.body.as_str()), (403, "GET /forbidden "), "{proxy:?}");
    }
}

#[test]
fn without_the_service_nothing_passes_or_everything_as_the_configuration_says() {
    for (proxy, status) in [(Proxy::Nginx, 500), (Proxy::Ha, 503), (Proxy::Caddy, 502)] {
        let world = World::start("service_gone", proxy);
        assert_eq!(world.ask("127.0.0.2", "/", &[]).status, 200, "{proxy:?}");
        let world = world.without_service();
        assert_eq!(world.ask("127.0.0.2", "/", &[]).status, status, "{proxy:?}");
    }
    for proxy in [Proxy::Nginx, Proxy::Ha] {
        let world = World::start_with("fails_open", proxy, &[], |config| match proxy {
            Proxy::Nginx => config.replace("# error_page 500", "error_page 500"),
            _ => {
                let is_kept = |line: &&str| !line.contains("deny_status 503");
                config.lines().filter(is_kept).map(|line| format!("{line}\n")).collect()
            }
        });
        let over = PER_CLIENT + 1;
        let statuses: Vec<u16> =
            (0..over).map(|_| world.ask("127.0.0.2", "/", &[]).status).collect();
        assert_eq!(statuses, [200, 200, 200, 200, 429], "{proxy:?}");
        let world = world.without_service();
        let answer = world.ask_with("127.0.0.2", "/", &["-d", "a body"]);
        assert_eq!((answer.status, answer.body.as_str()), (200, "POST / a body"), "{proxy:?}");
    }
}
