//! Tests of sliding logs that live long. A log is stored as a ring of entries, which wraps around and grows. In some
//! tests the policy or the clock changes, or the key holds a value that is not a log.

use tollgate_oracle::Verdict;

use super::{
    NEVER_SET_BACK, NOW_US, SECOND, SLACK_US, TimedScript, ask, at_its_own_time, check, model,
    peek, plan, server::Server, start, view,
};
use crate::script::plan::ScriptPlan;
use crate::script::{ScriptVerb, Units};
use crate::store::backoff::mixed;

/// Makes thousands of requests at times that rise or stay the same, and compares each with the model. Returns a
/// description of the first difference.
fn differs(told: &mut TimedScript, policy: &str, seed: u64) -> Option<String> {
    let plan = plan(policy);
    let quota = plan.policy().quota();
    let window_us = u64::try_from(quota.period().as_micros()).unwrap();
    let (limit, beyond) = (plan.limit, plan.beyond());
    let mut oracle = model(&plan);
    let mut random = seed;
    let mut draw = |below: u64| {
        random = mixed(random);
        random % below
    };
    let (mut now_us, mut calls, mut expected) = (NOW_US, Vec::new(), Vec::new());
    for n in 0..3_000_u64 {
        // Together the requests ask for twice the limit. Now and then there is a pause, and in the last third there are
        // fewer requests.
        let step_us = window_us / limit * if n > 2_000 { 3 } else { 1 };
        now_us += match draw(200) {
            0 => window_us / 2 + draw(window_us),
            1..40 => 0,
            _ => draw(step_us + 2),
        };
        let cost = if draw(10) == 0 { draw(limit + 2) } else { 1 };
        let verdict = oracle.check(now_us * 1_000, cost);
        let wait_ns =
            (n % 50 == 0).then(|| oracle.retry_after(now_us * 1_000, cost.min(limit)).unwrap());
        let wait_us = wait_ns.map(|wait| u64::try_from(wait).unwrap() / 1_000);
        expected.push((verdict == Verdict::Allowed, oracle.remaining(now_us * 1_000), wait_us));
        calls.push((now_us, vec![check(&format!("{policy} {seed}"), &plan, cost)]));
    }
    let replies = told.calls(&calls);
    for (((now_us, asks), replies), (admitted, remaining, wait_us)) in
        calls.iter().zip(&replies).zip(expected)
    {
        let (cost, view) = (asks[0].parts[0].units.want, view(&plan, &replies[0]));
        let found = (replies[0].admitted, view.remaining().saturating_sub(beyond));
        if found != (admitted, remaining) {
            return Some(format!("{policy} at {now_us}: {found:?}, not {admitted}, {remaining}"));
        }
        let found_us = view.ready_us(cost.min(limit)) - now_us;
        if let Some(wait_us) = wait_us
            && found_us != wait_us
        {
            return Some(format!("{policy} at {now_us}: a wait of {found_us}, not {wait_us}"));
        }
    }
    None
}

const POLICIES: [&str; 8] = [
    "sliding-log 7/s",
    "sliding-log 64/s",
    "sliding-log 100/s",
    "sliding-log 1/s",
    "sliding-log 999/m",
    "sliding-log 7/s count-denied",
    "sliding-log 64/s soft 10% count-denied",
    "sliding-log 999/m count-denied",
];

#[test]
#[ignore = "needs redis-server"]
fn a_log_that_turns_and_grows_decides_as_the_model_does() {
    let (_server, mut told) = start(NEVER_SET_BACK);
    for policy in POLICIES {
        for seed in 1..4 {
            assert_eq!(differs(&mut told, policy, seed), None);
        }
    }
}

/// However many denials are recorded, the ring keeps only the newest units.
#[test]
#[ignore = "needs redis-server"]
fn a_client_that_is_denied_for_ever_keeps_itself_out_in_a_ring_of_its_limit() {
    let (server, mut told) = start(NEVER_SET_BACK);
    let plan = plan("sliding-log 20/m count-denied");
    let calls: Vec<_> =
        (0..500).map(|n| (NOW_US + n * SECOND, vec![check("key", &plan, 1)])).collect();
    let replies = told.calls(&calls);
    assert_eq!(replies.iter().filter(|replies| replies[0].admitted).count(), 20);
    assert_eq!(server.run::<u64>(&["STRLEN", "key"]), 72 + 20 * 16);
    // A peek records no denial, and neither does a cost above the limit. The verb `Refuse` records a denial.
    let mut wait = |verb, cost| {
        let now_us = NOW_US + 500 * SECOND;
        let _ = told.call(now_us, ask(verb, "key", &plan, Units::exactly(cost)));
        let peeked = told.call(now_us, peek("key", &plan));
        view(&plan, &peeked).ready_us(1) - now_us
    };
    assert_eq!(wait(ScriptVerb::Peek, 5), 40 * SECOND);
    assert_eq!(wait(ScriptVerb::Check, 21), 40 * SECOND);
    assert_eq!(wait(ScriptVerb::Refuse, 3), 43 * SECOND);
    assert_eq!(wait(ScriptVerb::Check, 20), 60 * SECOND);
    let again = told.call(NOW_US + 560 * SECOND, check("key", &plan, 20));
    assert!(again.admitted);
}

#[test]
#[ignore = "needs redis-server"]
fn a_ring_that_loses_an_entry_is_caught() {
    let mistakes = [
        ("ring = ring .. call('GETRANGE', log.key, HEAD, start - 1)", "ring = ring"),
        (
            "log.first, log.room = 0, min(log.room * 2, log.most)",
            "log.room = min(log.room * 2, log.most)",
        ),
        ("log.count - outside, sum", "log.count - outside, log.before"),
        ("(log.first + outside) % log.room", "log.first + outside"),
    ];
    let server = Server::start();
    for (right, wrong) in mistakes {
        let mut told = TimedScript::mistaken(&server, NEVER_SET_BACK, right, wrong);
        let compared = std::panic::AssertUnwindSafe(|| {
            POLICIES.into_iter().find_map(|policy| differs(&mut told, policy, 1))
        });
        // A planted mistake may also make the script fail when it reads back what it wrote.
        let is_the_same = std::panic::catch_unwind(compared).is_ok_and(|found| found.is_none());
        assert!(!is_the_same, "{wrong}");
    }
}

#[test]
#[ignore = "needs redis-server"]
fn one_log_serves_every_policy_of_its_key() {
    let (_server, mut told) = start(NEVER_SET_BACK);
    let [few, many] = ["sliding-log 5/s", "sliding-log 50/m"].map(plan);
    let mut remaining = |plan: &ScriptPlan, at_us: u64, cost| {
        let reply = told.call(NOW_US + at_us, check("key", plan, cost));
        assert!(reply.admitted);
        view(plan, &reply).remaining()
    };
    for second in 0..8 {
        assert_eq!(remaining(&few, second * SECOND, 5), 0);
    }
    // The log keeps the entries of the last second, which is the window, and older entries until it needs their places.
    // Three older entries of five units each are left.
    assert_eq!(remaining(&many, 8 * SECOND, 0), 35);
    assert_eq!(remaining(&many, 8 * SECOND, 3), 32);
    assert_eq!(remaining(&few, 8 * SECOND, 0), 2);
    // From now on the log keeps the entries of the longer window.
    for second in 9..15 {
        assert_eq!(remaining(&few, second * SECOND, 5), 0);
    }
    assert_eq!(remaining(&many, 16 * SECOND, 0), 2);
    assert_eq!(remaining(&many, 16 * SECOND, 2), 0);
    let full = told.call(NOW_US + 17 * SECOND, check("key", &many, 1));
    assert!(!full.admitted);
}

#[test]
#[ignore = "needs redis-server"]
fn a_log_takes_sixteen_bytes_for_a_charge_of_its_window_and_never_more_than_for_its_limit() {
    let (server, mut told) = start(NEVER_SET_BACK);
    let plan = plan("sliding-log 1000/s");
    let bytes = |key: &str| server.run::<u64>(&["STRLEN", key]);
    // Under the key `few` there are three charges in each window. Under `many`, requests ask for far more than the
    // limit.
    for n in 0..7_200 {
        assert!(told.call(NOW_US + n * SECOND / 3, check("few", &plan, 1)).admitted);
    }
    assert_eq!(bytes("few"), 72 + 8 * 16);
    let calls: Vec<_> =
        (0..5_000).map(|n| (NOW_US + n * 500, vec![check("many", &plan, 1)])).collect();
    told.calls(&calls);
    assert_eq!(bytes("many"), 72 + 1_000 * 16);
    // A charge of many units is one entry.
    assert!(told.call(NOW_US, check("large", &plan, 1_000)).admitted);
    assert_eq!(bytes("large"), 72 + 16);
}

#[test]
#[ignore = "needs redis-server"]
fn a_log_of_a_clock_that_is_set_back_holds_what_it_held() {
    let (_server, mut told) = start(SLACK_US);
    let plan = plan("sliding-log 5/m");
    for n in 0..5 {
        assert!(told.call(NOW_US + n * 10 * SECOND, check("key", &plan, 1)).admitted);
    }
    // The newest unit is moved to the microsecond after the new time, and all older units are moved by the same
    // distance.
    let back_us = NOW_US - 3_600 * SECOND;
    let denied = told.call(back_us, check("key", &plan, 1));
    assert!(!denied.admitted);
    assert_eq!(view(&plan, &denied).ready_us(1), back_us + 20 * SECOND + 1);
    assert!(!told.call(back_us + 20 * SECOND, check("key", &plan, 1)).admitted);
    assert!(told.call(back_us + 20 * SECOND + 1, check("key", &plan, 1)).admitted);
    assert!(!told.call(back_us + 20 * SECOND + 1, check("key", &plan, 1)).admitted);
    // After a set-back within the slack nothing is moved, and new charges are entered at the newest unit's time until
    // the clock has passed that time.
    let late = told.call(back_us + 20 * SECOND - SECOND / 2, check("key", &plan, 1));
    assert!(!late.admitted);
}

#[test]
#[ignore = "needs redis-server"]
fn a_refund_leaves_the_others_in_the_log_and_no_empty_entry() {
    let (_server, mut told) = start(NEVER_SET_BACK);
    let plan = plan("sliding-log 9/m");
    let mut call = |verb, at_s: u64, units: u64, stamp_s: u64| {
        let stamp = if verb == ScriptVerb::Refund { NOW_US + stamp_s * SECOND } else { 0 };
        let units = Units { stamp, ..Units::exactly(units) };
        let reply = told.call(NOW_US + at_s * SECOND, ask(verb, "key", &plan, units));
        let view = view(&plan, &reply);
        (reply.parts[0].units, view.remaining(), view.ready_us(9) - reply.now_us)
    };
    let (charge, refund, second) = (ScriptVerb::Check, ScriptVerb::Refund, SECOND);
    assert_eq!(call(charge, 0, 2, 0), (2, 7, 60 * second));
    assert_eq!(call(charge, 1, 3, 0), (3, 4, 60 * second));
    assert_eq!(call(charge, 2, 4, 0), (4, 0, 60 * second));
    assert_eq!(call(refund, 3, 2, 1), (2, 2, 59 * second));
    assert_eq!(call(refund, 3, 2, 1), (1, 3, 59 * second), "no more than was charged");
    assert_eq!(call(refund, 3, 2, 1), (0, 3, 59 * second));
    assert_eq!(call(refund, 3, 9, 2), (4, 7, 57 * second), "the newest that is left");
    assert_eq!(call(refund, 60, 2, 0), (0, 9, 0), "it has left by itself");
    assert_eq!(call(charge, 60, 9, 0), (9, 0, 60 * second));
}

/// Units that were used without asking are charged beyond the limit, with either verb. One call charges at most the
/// limit.
#[test]
#[ignore = "needs redis-server"]
fn a_log_is_charged_with_units_that_were_used_without_asking() {
    let (_server, mut told) = start(NEVER_SET_BACK);
    for policy in ["sliding-log 10/m", "sliding-log 10/m count-denied"] {
        let plan = plan(policy);
        for verb in [ScriptVerb::Add, ScriptVerb::Charge] {
            let key = format!("{policy} {verb:?}");
            let mut charge = |at_s: u64, units| {
                let ask = ask(verb, &key, &plan, Units::owed(units));
                let reply = told.call(NOW_US + at_s * SECOND, ask);
                (reply.parts[0].units, view(&plan, &reply).remaining())
            };
            assert_eq!(charge(0, 0), (0, 10), "{key}");
            assert_eq!(charge(0, 5), (5, 5), "{key}");
            assert_eq!(charge(1, 3), (3, 2), "{key}");
            assert_eq!(charge(2, 25), (10, 0), "{key}");
            let denied = told.call(NOW_US + 61 * SECOND, peek(&key, &plan));
            assert!(!denied.admitted, "{key}");
            let admitted = told.call(NOW_US + 62 * SECOND, check(&key, &plan, 10));
            assert!(admitted.admitted, "{key}");
        }
    }
}

/// A refund may write a thousand entries. A refund that would have to write more gives nothing back, and changes
/// nothing.
#[test]
#[ignore = "needs redis-server"]
fn a_refund_writes_a_thousand_entries_at_most() {
    let (_server, mut told) = start(NEVER_SET_BACK);
    let plan = plan("sliding-log 2000/m");
    let calls: Vec<_> = (0..1_500).map(|n| (NOW_US + n, vec![check("key", &plan, 1)])).collect();
    told.calls(&calls);
    for (n, given) in [(0, 0), (475, 0), (476, 1), (1_499, 1)] {
        let units = Units { stamp: NOW_US + n, ..Units::exactly(1) };
        let reply = told.call(NOW_US + 1_500, ask(ScriptVerb::Refund, "key", &plan, units));
        assert_eq!(reply.parts[0].units, given, "{n}");
    }
    let reply = told.call(NOW_US + 1_500, peek("key", &plan));
    assert_eq!(view(&plan, &reply).remaining(), 502);
}

/// Bad input 115, for logs.
#[test]
#[ignore = "needs redis-server"]
fn bad_input_115_what_is_no_log_counts_as_a_full_one_and_is_replaced() {
    let (server, mut told) = start(NEVER_SET_BACK);
    let plan = plan("sliding-log 5/m");
    let head = "log1".to_owned() + &"\u{1}".repeat(68);
    let texts = ["x", "log1", "1 1 1 6000000 30000000 7 8", &head, &(head.clone() + "xxxxxxxx")];
    for (n, text) in texts.into_iter().enumerate() {
        let key = n.to_string();
        server.run::<()>(&["SET", &key, text]);
        for verb in [ScriptVerb::Peek, ScriptVerb::Check] {
            let reply = told.call(NOW_US, ask(verb, &key, &plan, Units::exactly(1)));
            assert!(!reply.admitted && reply.parts[0].broken, "{text:?}");
            assert_eq!(view(&plan, &reply).ready_us(1), NOW_US + 60 * SECOND, "{text:?}");
        }
        let again = told.call(NOW_US, check(&key, &plan, 1));
        assert!(!again.admitted && !again.parts[0].broken, "{text:?}");
        assert!(told.call(NOW_US + 60 * SECOND, check(&key, &plan, 5)).admitted, "{text:?}");
    }
    server.run::<u64>(&["LPUSH", "list", "1"]);
    let reply = told.call(NOW_US, check("list", &plan, 1));
    assert!(!reply.admitted && reply.parts[0].broken);
    assert_eq!(server.run::<String>(&["TYPE", "list"]), "string");
}

/// With the server's own clock: a key lives until its newest unit has left the window, and a decision takes a few
/// commands, however many entries the log has.
#[test]
#[ignore = "needs redis-server"]
fn bad_inputs_118_and_122_a_log_expires_and_is_searched_not_read() {
    let (server, plan) = (Server::start(), plan("sliding-log 4000/m"));
    let mut connection = server.connection();
    let mut call = || at_its_own_time(&mut connection, &check("key", &plan, 1));
    for _ in 0..3_000 {
        assert!(call().admitted);
    }
    server.run::<()>(&["CONFIG", "RESETSTAT"]);
    let last = call();
    let stats = server.run::<String>(&["INFO", "commandstats"]);
    let calls = |name: &str| {
        let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:")));
        let calls =
            line.and_then(|line| line.split_once("calls=")?.1.split(',').next()?.parse().ok());
        calls.unwrap_or(0_u32)
    };
    assert!(calls("getrange") <= 2 + 2 * 12, "{stats}");
    assert_eq!(["setrange", "pexpire", "strlen", "time"].map(calls), [2, 1, 1, 1], "{stats}");
    let expires_us = server.run::<u64>(&["PEXPIRETIME", "key"]) * 1_000;
    let idle_us = view(&plan, &last).ready_us(plan.limit);
    assert_eq!(idle_us, last.now_us + 60 * SECOND);
    assert!((0..2_000).contains(&(expires_us - idle_us)));
}
