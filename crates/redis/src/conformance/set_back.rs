//! Tests of a server's clock that is set back. They check how many units keys still owe then, and that no more units
//! are admitted than allowed.
//!
//! The tests pass the time to the script. If the clock goes back by more than the slack, the script treats it as set
//! back. The tests use the slack of the shipped script.

use super::{
    HOUR, NOW_US, SECOND, SLACK_US, TimedScript, ask, check, peek, plan, server::Server, start,
    view,
};
use crate::script::plan::ScriptPlan;
use crate::script::{ScriptPart, ScriptReply, ScriptRequest, ScriptVerb, Units};
use crate::store::backoff::mixed;

/// The time until `cost` fits, computed from a reply.
fn wait_us(plan: &ScriptPlan, reply: &ScriptReply, cost: u64) -> u64 {
    view(plan, reply).ready_us(cost) - reply.now_us
}

/// A check under this limit and under a second limit that is never reached. Requests under several limits take another
/// path through the script.
fn joint(key: &str, other: &str, plan: &ScriptPlan, cost: u64) -> ScriptRequest {
    let mut ask = check(key, plan, cost);
    let wide = self::plan("gcra 1000000/s");
    ask.parts.push(ScriptPart::new(other.as_bytes().to_vec(), wide, Units::exactly(1)));
    ask
}

/// Twenty seconds into a minute all units are spent, and the clock is set back by an hour. For each policy, the table
/// gives the time until a request is admitted again. If the script did not move states, the time would be an hour
/// longer.
#[test]
#[ignore = "needs redis-server"]
fn a_clock_set_back_an_hour_costs_a_key_no_more_than_it_can_owe() {
    let policies = [
        // One unit drains in 10 ms, and a set-back adds one tick to the wait.
        ("gcra 100/s burst 200", 10_000 + 1),
        ("gcra 10/m burst 5", 6 * SECOND + 1),
        // This policy has ticks of ten microseconds.
        ("gcra 1000003/d burst 1000003", 86_410),
        // The wait is the rest of this minute and the next minute.
        ("fixed-window 5/m", 100 * SECOND),
        ("fixed-window 5/s", 2 * SECOND),
        // The window in which all units were spent is moved so that it begins in the next tick.
        ("fixed-window 5/m from-first", 60 * SECOND + 1),
        // The wait is as long as for fixed windows, plus the time until the five units of the previous window weigh one
        // unit less.
        ("sliding-window 5/m exact", 112 * SECOND),
        ("sliding-window 5/m", 100 * SECOND + 1),
        ("sliding-window 5/m strict", 160 * SECOND),
        // The wait is the rest of the present segment of ten seconds, the next segment, which all units are moved to,
        // and five more segments.
        ("segmented-window 10/m x6", 70 * SECOND),
    ];
    let (_server, mut told) = start(SLACK_US);
    for (policy, expected_us) in policies {
        let plan = plan(policy);
        for is_joint in [false, true] {
            let (key, other) = (format!("{policy} {is_joint}"), format!("{policy} other"));
            let check = |cost| match is_joint {
                true => joint(&key, &other, &plan, cost),
                false => check(&key, &plan, cost),
            };
            assert!(told.call(NOW_US, check(plan.limit)).admitted, "{policy}");
            let back_us = NOW_US - HOUR;
            let peeked = told.call(back_us, peek(&key, &plan));
            let denied = told.call(back_us, check(1));
            for reply in [&peeked, &denied] {
                let found = (reply.admitted, wait_us(&plan, reply, 1));
                assert_eq!(found, (false, expected_us), "{policy}");
            }
            // The state is moved once. From then on it drains, however many requests follow.
            let early = told.call(back_us + expected_us - plan.tick_us, check(1));
            assert_eq!(
                (early.admitted, wait_us(&plan, &early, 1)),
                (false, plan.tick_us),
                "{policy}"
            );
            assert!(told.call(back_us + expected_us, check(1)).admitted, "{policy}");
        }
    }
}

#[test]
#[ignore = "needs redis-server"]
fn a_state_that_is_a_second_ahead_is_left_as_it_is() {
    let (server, mut told) = start(SLACK_US);
    let plan = plan("gcra 10/s burst 5");
    let check = |cost| check("key", &plan, cost);
    assert!(told.call(NOW_US, check(5)).admitted);
    let stored = server.run::<String>(&["GET", "key"]);
    let denied = told.call(NOW_US - SECOND, check(1));
    assert_eq!((denied.admitted, wait_us(&plan, &denied, 1)), (false, SECOND + 100_000));
    assert_eq!(server.run::<String>(&["GET", "key"]), stored);
    let denied = told.call(NOW_US - SECOND - 1, check(1));
    assert_eq!((denied.admitted, wait_us(&plan, &denied, 1)), (false, 100_001));
    assert_ne!(server.run::<String>(&["GET", "key"]), stored);
}

/// Mode `async` charges admitted units whether they fit or not. After a set-back these units are owed for as long as
/// they would have been without it.
#[test]
#[ignore = "needs redis-server"]
fn what_was_admitted_without_asking_is_owed_across_a_set_back() {
    let (_server, mut told) = start(SLACK_US);
    let plan = plan("gcra 10/s burst 5");
    let add = ask(ScriptVerb::Add, "key", &plan, Units::exactly(50));
    let owed = told.call(NOW_US, add);
    assert_eq!(wait_us(&plan, &owed, 1), 4_600_000);
    for (n, hours) in [(1, 1), (2, 2), (3, 7)] {
        let denied = told.call(NOW_US - hours * HOUR, check("key", &plan, 1));
        // Each set-back adds one tick.
        assert_eq!((denied.admitted, wait_us(&plan, &denied, 1)), (false, 4_600_000 + n));
    }
}

#[test]
#[ignore = "needs redis-server"]
fn a_refund_of_what_was_charged_before_a_set_back_gives_nothing_back() {
    let (_server, mut told) = start(SLACK_US);
    for policy in [
        "gcra 10/s burst 5",
        "fixed-window 5/m",
        "fixed-window 5/m from-first",
        "sliding-window 5/m exact",
    ] {
        let plan = plan(policy);
        let charged = told.call(NOW_US, check(policy, &plan, 5));
        let stamp = view(&plan, &charged).stamp();
        let refund = Units { stamp, ..Units::exactly(3) };
        // The first request moves the state. The second request finds the moved state.
        for _ in 0..2 {
            let given = told.call(NOW_US - HOUR, ask(ScriptVerb::Refund, policy, &plan, refund));
            assert_eq!(given.parts[0].units, 0, "{policy}");
            assert!(!told.call(NOW_US - HOUR, check(policy, &plan, 1)).admitted, "{policy}");
        }
    }
}

/// The most units that a policy admits in any interval of this length, in true time.
fn most(plan: &ScriptPlan, true_us: u64) -> u64 {
    let (quota, limit) = (plan.policy().quota(), plan.limit);
    let period_us = u64::try_from(quota.period().as_micros()).unwrap();
    match plan.policy().algorithm() {
        tollgate::Algorithm::Gcra => limit + quota.count() * (true_us + plan.tick_us) / period_us,
        // These policies admit at most the limit in any period, and the interval is covered by one period more than it
        // has whole periods. The other policies count in windows, of which the interval may touch one more.
        tollgate::Algorithm::SlidingWindow { rounding: tollgate::Rounding::Strict }
        | tollgate::Algorithm::SlidingLog => limit * (1 + true_us / period_us),
        _ => limit * (2 + true_us / period_us),
    }
}

/// Makes requests for one key all the time, while the clock is set back now and then. The higher the seed, the fewer
/// the set-backs. Returns where more units were admitted than allowed.
fn overrun(told: &mut TimedScript, policy: &str, seed: u64) -> Option<String> {
    let plan = plan(policy);
    let mut random = seed;
    let mut draw = |below: u64| {
        random = mixed(random);
        random % below
    };
    let period_us = u64::try_from(plan.policy().quota().period().as_micros()).unwrap();
    let (mut true_us, mut back_us) = (0, 0);
    let mut calls = Vec::new();
    let mut times = Vec::new();
    for _ in 0..900 {
        true_us += draw(period_us / 20);
        back_us += match draw(60 + 40 * seed) {
            0..2 => draw(3 * HOUR),
            // This is within the slack, so the script moves no state.
            2 => draw(SECOND / 2),
            3..5 => draw(3 * period_us),
            _ => 0,
        };
        let units = Units { want: 1 + draw(plan.limit), least: 1, share: 1, stamp: 0 };
        calls.push((
            3_000 * HOUR + NOW_US + true_us - back_us,
            vec![ask(ScriptVerb::Check, &format!("{policy} {seed}"), &plan, units)],
        ));
        times.push(true_us);
    }
    let admitted: Vec<u64> =
        told.calls(&calls).iter().map(|replies| replies[0].parts[0].units).collect();
    // With the higher seeds the clock is set back so rarely that the whole limit comes back several times.
    assert!(seed < 10 || admitted.iter().sum::<u64>() > 2 * plan.limit, "{policy}");
    for first in 0..times.len() {
        let mut sum = 0;
        for last in first..times.len() {
            sum += admitted[last];
            let (time_us, most) =
                (times[last] - times[first], most(&plan, times[last] - times[first]));
            if sum > most {
                return Some(format!("{policy}: {sum} in {time_us} us, {most} at most"));
            }
        }
    }
    None
}

const POLICIES: [&str; 13] = [
    "gcra 100/m burst 20",
    "gcra 1000003/d",
    "fixed-window 5/m",
    "fixed-window 5/10m from-first",
    "sliding-window 5/m exact",
    "sliding-window 5/10m",
    "sliding-window 5/m strict",
    "segmented-window 10/m x6",
    "sliding-log 5/m",
    "sliding-log 20/10m",
    "gcra 100/m burst 20 count-denied",
    "fixed-window 5/m penalty 1m after 2",
    "sliding-window 5/m penalty 2m after 3",
];

#[test]
#[ignore = "needs redis-server"]
fn a_clock_set_back_again_and_again_admits_no_more_than_true_time_allows() {
    let (_server, mut told) = start(SLACK_US);
    for policy in POLICIES {
        for seed in 0..20 {
            assert_eq!(overrun(&mut told, policy, seed), None);
        }
    }
}

/// Plants mistakes in the script: when a state is moved, it loses units or is moved to a time so early that it ends too
/// soon.
#[test]
#[ignore = "needs redis-server"]
fn a_state_moved_with_less_in_it_is_caught() {
    let mistakes = [
        ("gcra", "(written and (idle - written) * a + over or c) + a", "0"),
        ("fixed-window 5/m", "stored[1] = window + 1", "stored[1] = window"),
        ("from-first", "stored[1] = window + 1", "stored[1] = window - a"),
        ("strict", "stored[1] = window + 1", "stored[1] = window - 1"),
        ("segmented", "stored[1] = window + 1", "stored[1] = window - c + 1"),
        ("log", "log.shift + by, now_us + 1", "log.shift + by + a + 1, now_us - a"),
        ("log", "log.now = max(now_us, log.last)", "log.now = now_us + slack_us"),
    ];
    let server = Server::start();
    for (policy, right, wrong) in mistakes {
        let mut told = TimedScript::mistaken(&server, SLACK_US, right, wrong);
        let policy = POLICIES.into_iter().find(|one| one.contains(policy)).unwrap();
        let caught = (0..20).filter_map(|seed| overrun(&mut told, policy, seed)).count();
        assert!(caught > 0, "{policy}: {wrong}");
    }
}
