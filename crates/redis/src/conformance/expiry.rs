//! Tests with the server's own clock: when keys expire, and how the script treats a key whose value it did not
//! write.

use redis::Value;

use super::{ask, plan, server::Server};
use crate::script::plan::ScriptPlan;
use crate::script::view::StateView;
use crate::script::{Invoked, ScriptReply, ScriptRequest, ScriptVerb, Units, command, replies};

fn call(connection: &mut redis::Connection, ask: &ScriptRequest) -> ScriptReply {
    let text = crate::script::text();
    let call = command(Invoked::ByText(&text), std::iter::once(ask));
    let value: Value = call.query(connection).unwrap();
    replies(&value, std::iter::once(ask)).unwrap().remove(0)
}

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
fn bad_input_122_every_key_expires_and_none_too_early() {
    let server = Server::start();
    let mut connection = server.connection();
    for plan in policies() {
        for cost in [1, 2] {
            let key = plan.policy().to_string();
            let reply =
                call(&mut connection, &ask(ScriptVerb::Check, &key, &plan, Units::exactly(cost)));
            assert!(reply.admitted);
            let view =
                StateView { plan: &plan, state: &reply.parts[0].state, now_us: reply.now_us };
            let expires_ms: u64 =
                redis::cmd("PEXPIRETIME").arg(&key).query(&mut connection).unwrap();
            let idle_us = view.ready_us(plan.limit);
            assert!(expires_ms * 1_000 >= idle_us, "{key}: {expires_ms} ms, {idle_us} us");
        }
    }
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    assert_eq!(keys.len(), policies().len());
    for key in keys {
        let ttl_ms: i64 = redis::cmd("PTTL").arg(&key).query(&mut connection).unwrap();
        assert!((1..=120_001).contains(&ttl_ms), "{key}: {ttl_ms} ms");
    }
}

/// A key that a denial has written lives until the denial has no effect any more.
#[test]
fn a_penalty_does_not_expire_before_its_end() {
    let server = Server::start();
    let mut connection = server.connection();
    for policy in ["gcra 5/m count-denied", "fixed-window 5/m penalty 10m after 1"] {
        let plan = plan(policy);
        let check = |cost| ask(ScriptVerb::Check, policy, &plan, Units::exactly(cost));
        assert!(call(&mut connection, &check(5)).admitted);
        let reply = call(&mut connection, &check(5));
        let view = StateView { plan: &plan, state: &reply.parts[0].state, now_us: reply.now_us };
        let (ends_us, least_us) = (view.ready_us(5), if policy.contains("10m") { 600 } else { 90 });
        assert!(ends_us - reply.now_us >= least_us * 1_000_000, "{policy}");
        let expires_ms: u64 = redis::cmd("PEXPIRETIME").arg(policy).query(&mut connection).unwrap();
        assert!((0..2_000).contains(&(expires_ms * 1_000 - ends_us)), "{policy}");
    }
}

#[test]
fn a_denial_and_a_peek_write_nothing() {
    let server = Server::start();
    let mut connection = server.connection();
    for plan in policies() {
        let key = plan.policy().to_string();
        assert!(
            call(&mut connection, &ask(ScriptVerb::Peek, &key, &plan, Units::exactly(1))).admitted
        );
        assert!(
            !call(&mut connection, &ask(ScriptVerb::Check, &key, &plan, Units::exactly(99)))
                .admitted
        );
    }
    let keys: u64 = redis::cmd("DBSIZE").query(&mut connection).unwrap();
    assert_eq!(keys, 0);
}

/// Bad input 115: text, numbers beyond 2^53, and lists in place of a state. Such a key is treated as a limit with no
/// units left, which is safe.
#[test]
fn bad_input_115_what_is_no_state_counts_as_a_full_limit_and_is_replaced() {
    let server = Server::start();
    let mut connection = server.connection();
    let texts =
        ["", "x", "1", "1 2 x", "-1 2", "9007199254740992 1", "1e9 0", "99999999999999999999 0"];
    for plan in policies() {
        for text in texts {
            let () = redis::cmd("SET").arg("key").arg(text).query(&mut connection).unwrap();
            let peeked =
                call(&mut connection, &ask(ScriptVerb::Peek, "key", &plan, Units::exactly(1)));
            assert!(!peeked.admitted && peeked.parts[0].broken, "{} {text:?}", plan.policy());
            let checked =
                call(&mut connection, &ask(ScriptVerb::Check, "key", &plan, Units::exactly(1)));
            assert!(!checked.admitted && checked.parts[0].broken, "{} {text:?}", plan.policy());
            let again =
                call(&mut connection, &ask(ScriptVerb::Check, "key", &plan, Units::exactly(1)));
            assert!(!again.admitted && !again.parts[0].broken, "{} {text:?}", plan.policy());
            let ttl_ms: i64 = redis::cmd("PTTL").arg("key").query(&mut connection).unwrap();
            assert!(ttl_ms > 0);
        }
        let () = redis::cmd("DEL").arg("key").query(&mut connection).unwrap();
        let _: u64 = redis::cmd("LPUSH").arg("key").arg(1).query(&mut connection).unwrap();
        let checked =
            call(&mut connection, &ask(ScriptVerb::Check, "key", &plan, Units::exactly(1)));
        assert!(!checked.admitted && checked.parts[0].broken);
        let kind: String = redis::cmd("TYPE").arg("key").query(&mut connection).unwrap();
        assert_eq!(kind, "string");
        let () = redis::cmd("DEL").arg("key").query(&mut connection).unwrap();
    }
}

/// Bad input 118: the cost of one decision for the server, in commands. The server counts the commands. Times are not
/// asserted.
#[test]
fn bad_input_118_a_decision_takes_two_commands_whatever_the_limit_holds() {
    let server = Server::start();
    let mut connection = server.connection();
    for plan in policies() {
        for _ in 0..3 {
            call(&mut connection, &ask(ScriptVerb::Check, "a", &plan, Units::exactly(1)));
        }
        let () = redis::cmd("CONFIG").arg("RESETSTAT").query(&mut connection).unwrap();
        call(&mut connection, &ask(ScriptVerb::Check, "a", &plan, Units::exactly(1)));
        let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut connection).unwrap();
        let calls = |name: &str| stats.contains(&format!("cmdstat_{name}:calls=1,"));
        assert!(calls("get") && calls("set") && calls("time"), "{stats}");
        let () = redis::cmd("DEL").arg("a").query(&mut connection).unwrap();
    }
}
