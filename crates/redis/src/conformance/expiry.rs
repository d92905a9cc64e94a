//! Tests with the server's own clock: when keys expire, and how the script treats a key whose value it did not
//! write.

use super::{at_its_own_time as call, check, peek, plan, server::Server, view};
use crate::script::plan::ScriptPlan;

fn policies() -> Vec<ScriptPlan> {
    [
        "gcra 10/m burst 5",
        "gcra 7/s",
        "fixed-window 5/m",
        "fixed-window 5/m from-first",
        "sliding-window 5/m exact",
        "segmented-window 10/m x6",
    ]
    .map(plan)
    .into()
}

/// Bad input 122: every key expires, but not while its state can still deny a request.
#[test]
#[ignore = "needs redis-server"]
fn bad_input_122_every_key_expires_and_none_too_early() {
    let server = Server::start();
    let mut connection = server.connection();
    for plan in policies() {
        for cost in [1, 2] {
            let key = plan.policy().to_string();
            let reply = call(&mut connection, &check(&key, &plan, cost));
            assert!(reply.admitted);
            let expires_ms: u64 = server.run(&["PEXPIRETIME", &key]);
            let idle_us = view(&plan, &reply).ready_us(plan.limit);
            assert!(expires_ms * 1_000 >= idle_us, "{key}: {expires_ms} ms, {idle_us} us");
        }
    }
    let keys: Vec<String> = server.run(&["KEYS", "*"]);
    assert_eq!(keys.len(), policies().len());
    for key in keys {
        let ttl_ms: i64 = server.run(&["PTTL", &key]);
        assert!((1..=120_001).contains(&ttl_ms), "{key}: {ttl_ms} ms");
    }
}

/// A key that a denial has written lives until the denial has no effect any more.
#[test]
#[ignore = "needs redis-server"]
fn a_penalty_does_not_expire_before_its_end() {
    let server = Server::start();
    let mut connection = server.connection();
    for policy in ["gcra 5/m count-denied", "fixed-window 5/m penalty 10m after 1"] {
        let plan = plan(policy);
        assert!(call(&mut connection, &check(policy, &plan, 5)).admitted);
        let reply = call(&mut connection, &check(policy, &plan, 5));
        let ends_us = view(&plan, &reply).ready_us(5);
        let least_us = if policy.contains("10m") { 600 } else { 90 };
        assert!(ends_us - reply.now_us >= least_us * 1_000_000, "{policy}");
        let expires_ms: u64 = server.run(&["PEXPIRETIME", policy]);
        assert!((0..2_000).contains(&(expires_ms * 1_000 - ends_us)), "{policy}");
    }
}

#[test]
#[ignore = "needs redis-server"]
fn a_denial_and_a_peek_write_nothing() {
    let server = Server::start();
    let mut connection = server.connection();
    for plan in policies() {
        let key = plan.policy().to_string();
        assert!(call(&mut connection, &peek(&key, &plan)).admitted);
        assert!(!call(&mut connection, &check(&key, &plan, 99)).admitted);
    }
    assert_eq!(server.run::<u64>(&["DBSIZE"]), 0);
}

/// Bad input 115: text, numbers beyond 2^53, and lists in place of a state. Such a key is treated as a limit with no
/// units left, which is safe.
#[test]
#[ignore = "needs redis-server"]
fn bad_input_115_what_is_no_state_counts_as_a_full_limit_and_is_replaced() {
    let server = Server::start();
    let mut connection = server.connection();
    let texts =
        ["", "x", "1", "1 2 x", "-1 2", "9007199254740992 1", "1e9 0", "99999999999999999999 0"];
    for plan in policies() {
        for text in texts {
            server.run::<()>(&["SET", "key", text]);
            let peeked = call(&mut connection, &peek("key", &plan));
            assert!(!peeked.admitted && peeked.parts[0].broken, "{} {text:?}", plan.policy());
            let checked = call(&mut connection, &check("key", &plan, 1));
            assert!(!checked.admitted && checked.parts[0].broken, "{} {text:?}", plan.policy());
            let again = call(&mut connection, &check("key", &plan, 1));
            assert!(!again.admitted && !again.parts[0].broken, "{} {text:?}", plan.policy());
            assert!(server.run::<i64>(&["PTTL", "key"]) > 0);
        }
        server.run::<()>(&["DEL", "key"]);
        server.run::<u64>(&["LPUSH", "key", "1"]);
        let checked = call(&mut connection, &check("key", &plan, 1));
        assert!(!checked.admitted && checked.parts[0].broken);
        assert_eq!(server.run::<String>(&["TYPE", "key"]), "string");
        server.run::<()>(&["DEL", "key"]);
    }
}

/// Bad input 118: the cost of one decision for the server, in commands. The server counts the commands. Times are not
/// asserted.
#[test]
#[ignore = "needs redis-server"]
fn bad_input_118_a_decision_takes_two_commands_whatever_the_limit_holds() {
    let server = Server::start();
    let mut connection = server.connection();
    for plan in policies() {
        for _ in 0..3 {
            call(&mut connection, &check("a", &plan, 1));
        }
        server.run::<()>(&["CONFIG", "RESETSTAT"]);
        call(&mut connection, &check("a", &plan, 1));
        let stats: String = server.run(&["INFO", "commandstats"]);
        let calls = |name: &str| stats.contains(&format!("cmdstat_{name}:calls=1,"));
        assert!(calls("get") && calls("set") && calls("time"), "{stats}");
        server.run::<()>(&["DEL", "a"]);
    }
}
