//! `tollgate serve --redis` while its Redis is killed and restarted: the log and the health check.

use std::net::SocketAddr;

use crate::common::Scratch;
use crate::processes::{Process, free_address, redis_at, until};
use crate::serving::{Serving, serve_rules};

const RULES: &str = "
domain: shop
descriptors:
  - {key: local, rate_limit: {unit: year, requests_per_unit: 30}}
  - {key: allow, on_error: allow, accuracy: exact, rate_limit: {unit: year, requests_per_unit: 30}}
  - {key: deny, on_error: deny, accuracy: exact, rate_limit: {unit: year, requests_per_unit: 30}}
";

/// Starts a service that is configured as one of three nodes on this Redis, with `more` flags.
fn serve(test: &str, redis: SocketAddr, more: &[&str]) -> Serving {
    let rules = Scratch::new(test).file("shop.yaml", RULES).at("shop.yaml");
    let redis = format!("redis://:secret@{redis}/");
    // A busy machine may be slow: a Redis that answers must not time out.
    let flags = ["--redis", &redis, "--nodes", "3", "--redis-deadline", "2000"];
    serve_rules(&rules, "", &[&flags[..], more].concat(), &[]).0
}

impl Serving {
    fn health(&self) -> (u16, String) {
        self.ask("GET /healthcheck", "")
    }

    /// Returns whether a request under a rule is admitted.
    fn check(&self, rule: &str) -> bool {
        let body = format!("{{\"domain\": \"shop\", \"descriptors\": [{{\"{rule}\": \"x\"}}]}}");
        let (status, answer) = self.ask("POST /v1/check", &body);
        assert!(matches!(status, 200 | 429), "{status}: {answer}");
        status == 200
    }

    fn until_healthy(&self) {
        until("it is healthy", || self.health().1 == "OK");
    }
}

fn redis(address: SocketAddr) -> Process {
    redis_at(address, &["--requirepass", "secret"])
}

#[test]
#[ignore = "needs redis-server"]
fn a_redis_that_is_killed_is_told_of_in_the_log_and_by_the_health_check_and_so_is_its_return() {
    let address = free_address();
    let store = format!("redis://{address}/");
    let first = redis(address);
    let serving = serve("redis_killed", address, &[]);
    serving.until_healthy();
    assert!(serving.check("local"));
    drop(first);
    let lost = serving.wait_for("store lost");
    let (_, what) = lost.split_once(" WARN ").expect("a warning");
    // An outage without requests is noticed by the next request, or by the check for evictions.
    let faults =
        ["the connection to the store broke", "no connection to the store answers in time"];
    // The text that follows comes from the system, for example that a pipe is broken.
    let begins = faults.map(|fault| format!("store lost: {store}: {fault}"));
    assert!(begins.iter().any(|begins| what.starts_with(begins)), "{lost}");
    let ends =
        "; until it is back 1 limit admits this node's share, 1 limit allows, 1 limit denies";
    assert!(what.ends_with(ends), "{lost}");
    let (status, body) = serving.health();
    let begins = format!("degraded: {store} has not answered since ");
    assert!(status == 200 && body.starts_with(&begins), "{status} {body}");
    assert!(body.contains(" GMT: ") && body.ends_with("; rules decide by on_error"), "{body}");
    // This node's share is a third of 30, so it admits 10 of 14 requests. Then 4 are allowed and 4 denied, as their
    // rules say.
    let admitted = (0..14).filter(|_| serving.check("local")).count();
    assert_eq!(admitted, 10);
    assert!((0..4).all(|_| serving.check("allow")));
    assert!((0..4).all(|_| !serving.check("deny")));
    let _second = redis(address);
    let back = serving.wait_for("store back");
    let (_, what) = back.split_once(" INFO ").expect("a piece of information");
    let begins = format!("store back: {store}: away for ");
    assert!(what.starts_with(&begins), "{back}");
    let ends = "22 decisions were made without it, 14 allowed and 8 denied";
    assert!(what.ends_with(ends), "{back}");
    serving.until_healthy();
    assert!(!lost.contains("secret") && !back.contains("secret") && !body.contains("secret"));
}

#[test]
#[ignore = "needs redis-server"]
fn while_redis_is_away_rules_that_name_no_on_error_follow_the_flag_and_others_themselves() {
    // Nothing listens there.
    let away = free_address();
    for (word, admitted) in [("local", 10), ("allow", 14), ("deny", 0)] {
        let more = ["--on-error", word];
        let serving = serve(&format!("redis_away_{word}"), away, &more);
        // The rule that is called `local` names no `on_error`. So the flag decides: a third of 30, everything or
        // nothing.
        assert_eq!((0..14).filter(|_| serving.check("local")).count(), admitted, "{word}");
        assert!((0..4).all(|_| serving.check("allow")), "{word}");
        assert!((0..4).all(|_| !serving.check("deny")), "{word}");
    }
}
