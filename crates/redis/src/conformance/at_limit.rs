//! Tests of the changes that a denial causes, in cases that the reference model does not cover: the policy changes, the
//! clock is set back, or a request is under several limits.

use super::{HOUR, NEVER_SET_BACK, NOW_US, SECOND, SLACK_US, check, plan, start, view};
use crate::script::plan::ScriptPlan;
use crate::script::state::State;
use crate::script::{ScriptPart, ScriptReply, ScriptRequest, ScriptVerb, Units};
use crate::weight::Weight;

const DAY_US: u64 = NOW_US - NOW_US % (86_400 * SECOND);

/// The time until one unit fits, in microseconds, and whether a penalty is the reason.
fn wait(plan: &ScriptPlan, reply: &ScriptReply) -> (u64, bool) {
    let view = view(plan, reply);
    (view.ready_us(1) - reply.now_us, matches!(view.state, State::Penalised { .. }))
}

#[test]
#[ignore = "needs redis-server"]
fn a_changed_policy_leaves_a_client_in_its_penalty_at_most_for_its_own() {
    let (_server, mut told) = start(NEVER_SET_BACK);
    let old = plan("fixed-window 5/m penalty 1h after 1");
    for (now, after, is_penalty) in [
        ("fixed-window 9/m penalty 2h after 1", HOUR, true),
        ("fixed-window 9/m penalty 10m after 1", HOUR / 6, true),
        ("gcra 600000/s burst 100000000 penalty 1h after 1", HOUR, true),
        // The new policy has no penalty, but the units that were spent still count.
        ("fixed-window 5/m", 60 * SECOND, false),
    ] {
        let new = plan(now);
        assert!(told.call(DAY_US, check(now, &old, 5)).admitted);
        assert_eq!(wait(&old, &told.call(DAY_US, check(now, &old, 1))), (HOUR, true), "{now}");
        let reply = told.call(DAY_US, check(now, &new, 1));
        assert!(!reply.admitted, "{now}");
        assert_eq!(wait(&new, &reply), (after, is_penalty), "{now}");
        // Under the old policy the penalty still applies.
        assert_eq!(wait(&old, &told.call(DAY_US, check(now, &old, 1))), (HOUR, true), "{now}");
    }
}

#[test]
#[ignore = "needs redis-server"]
fn a_denial_is_written_once_in_a_thousandth_of_the_longest_wait_or_of_the_penalty() {
    let (_server, mut told) = start(NEVER_SET_BACK);
    for (policy, denials, longest, granule) in [
        // A denial is written only if it raises the debt by at least a granule, which here is a quarter of a unit.
        ("gcra 250/s burst 2 count-denied 1s", 125, SECOND, 1_000),
        // The granule is one unit, which drains in less than a thousandth of an hour.
        ("gcra 1/s burst 4 count-denied 1h", 1_800, HOUR, SECOND),
        ("fixed-window 5/m penalty 2m after 1 extended", 1, 120 * SECOND, 120_000),
        ("gcra 5/m penalty 2m after 1 extended", 1, 120 * SECOND, 120_000),
        // The granule is a thousandth of the window.
        ("sliding-log 1/10s count-denied", 1, 10 * SECOND, 10_000),
    ] {
        let plan = plan(policy);
        assert!(told.call(DAY_US, check(policy, &plan, plan.limit)).admitted);
        for _ in 0..denials {
            assert!(!told.call(DAY_US, check(policy, &plan, 2)).admitted);
        }
        for passed in (0..granule).step_by(97).chain([granule - 1]) {
            let reply = told.call(DAY_US + passed, check(policy, &plan, 1));
            assert_eq!(
                (reply.admitted, wait(&plan, &reply).0),
                (false, longest - passed),
                "{policy}"
            );
        }
        let reply = told.call(DAY_US + granule, check(policy, &plan, 1));
        assert_eq!((reply.admitted, wait(&plan, &reply).0), (false, longest), "{policy}");
    }
}

#[test]
#[ignore = "needs redis-server"]
fn units_that_another_policy_admits_during_a_penalty_count_when_it_ends() {
    let (_server, mut told) = start(NEVER_SET_BACK);
    let [old, new] = ["fixed-window 5/m penalty 1m after 1", "fixed-window 10/m"].map(plan);
    assert!(told.call(DAY_US, check("key", &old, 5)).admitted);
    assert!(!told.call(DAY_US + 30 * SECOND, check("key", &old, 1)).admitted);
    // The next minute begins half a minute before the penalty ends.
    assert!(told.call(DAY_US + 70 * SECOND, check("key", &new, 4)).admitted);
    let late_us = DAY_US + 91 * SECOND;
    assert!(!told.call(late_us, check("key", &old, 2)).admitted);
    assert_eq!(wait(&old, &told.call(late_us + HOUR, check("key", &old, 1))), (0, false));
}

#[test]
#[ignore = "needs redis-server"]
fn a_clock_set_back_costs_a_client_one_more_penalty_at_most() {
    let (_server, mut told) = start(SLACK_US);
    for policy in ["gcra 5/m penalty 10m after 1", "segmented-window 6/m x6 penalty 10m after 1"] {
        let plan = plan(policy);
        assert!(told.call(NOW_US, check(policy, &plan, plan.limit)).admitted);
        assert!(!told.call(NOW_US, check(policy, &plan, 1)).admitted);
        let set_back = told.call(NOW_US - 5 * HOUR, check(policy, &plan, 1));
        assert_eq!(wait(&plan, &set_back), (600 * SECOND + 1, true), "{policy}");
        // The set-back moves the penalty once. After that it runs out as usual.
        let later = told.call(NOW_US - 5 * HOUR + 60 * SECOND, check(policy, &plan, 1));
        assert_eq!(wait(&plan, &later), (540 * SECOND + 1, true), "{policy}");
        let over_us = NOW_US - 5 * HOUR + 600 * SECOND + 1;
        assert!(told.call(over_us, check(policy, &plan, plan.limit)).admitted, "{policy}");
    }
}

#[test]
#[ignore = "needs redis-server"]
fn each_limit_of_a_request_counts_its_own_denials_and_none_of_anothers() {
    let (_server, mut told) = start(NEVER_SET_BACK);
    let plan = plan("fixed-window 5/d penalty 10d after 2");
    let mut ask = |parts: &[(&str, Weight, u64)], verb| {
        let part = |&(key, say, cost): &(&str, Weight, u64)| {
            let part = ScriptPart::new(key.as_bytes().to_vec(), plan, Units::exactly(cost));
            ScriptPart { say, ..part }
        };
        let reply =
            told.call(NOW_US, ScriptRequest { verb, parts: parts.iter().map(part).collect() });
        let is_penalised = |seen: &crate::script::PartReply| {
            assert!(seen.units == 0 || reply.admitted);
            matches!(seen.state, State::Penalised { .. })
        };
        (reply.admitted, reply.parts.iter().map(is_penalised).collect::<Vec<_>>())
    };
    let (one, denies) = (ScriptVerb::Check, Weight::Denies);
    assert!(ask(&[("a", denies, 5), ("b", denies, 1)], one).0);
    // A cost above the limit counts no denial, and neither does a peek. A request that `a` denies counts no denial
    // under `b`.
    assert!(!ask(&[("a", denies, 6), ("b", denies, 1)], one).0);
    assert!(!ask(&[("a", denies, 1), ("b", denies, 1)], ScriptVerb::Peek).0);
    assert_eq!(ask(&[("a", denies, 1), ("b", denies, 1)], one), (false, vec![false, false]));
    assert_eq!(ask(&[("a", denies, 1), ("b", denies, 1)], one), (false, vec![true, false]));
    assert_eq!(ask(&[("b", denies, 4)], one), (true, vec![false]));
    // A group that only counts (`tried`) counts its own denials, as a group that denies would. Under `DeniesTogether`,
    // a group counts no denial if another group admits the request.
    let (tried, together) = (Weight::Counts, Weight::DeniesTogether);
    assert_eq!(ask(&[("c", denies, 1), ("b", tried, 1)], one), (true, vec![false, false]));
    assert_eq!(ask(&[("c", together, 1), ("b", together, 1)], one), (true, vec![false, false]));
    // The verb `Refuse` counts a denial as a check does, and charges nothing to limits that have room.
    let refuse = ScriptVerb::Refuse;
    assert_eq!(ask(&[("c", denies, 1), ("b", denies, 1)], refuse), (false, vec![false, true]));
    assert_eq!(ask(&[("c", denies, 3)], one), (true, vec![false]));
}
