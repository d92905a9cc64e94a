//! Tests of a limit whose policy changes. They check the states that its key then has, and that the simulation computes
//! the same states.

use super::{NEVER_SET_BACK, NOW_US, SECOND, TimedScript, ask, check, peek, plan, start, view};
use crate::leased::holding::{ChargeStamp, LeaseWant};
use crate::script::plan::ScriptPlan;
use crate::script::state::State;
use crate::script::{ScriptVerb, Units};
use crate::simulation::states::{ChangeFlaw, SimulatedKey};
use crate::store::backoff::mixed;

/// Units are spent under one policy at the beginning of a day. Some seconds later there is a peek at the key under
/// another policy. Then more seconds pass, and there is a second peek.
#[test]
#[ignore = "needs redis-server"]
fn what_was_spent_is_spent_under_the_next_policy_at_most_its_limit() {
    let (_server, mut told) = start(NEVER_SET_BACK);
    let day_us = NOW_US - NOW_US % (86_400 * SECOND);
    for (before, spent, after_s, now, left, later_s, left_later) in [
        // The debt drains at the old rate before the change and at the new rate after it, as in the core.
        ("60/m", 40, 10, "6/m burst 50", 20, 10, 21),
        ("60/m", 60, 30, "60/h", 30, 60, 31),
        ("100/h", 92, 0, "110/h", 18, 36, 19),
        // The debt above the new policy's burst is forgiven, and units come back at the new rate from then on.
        ("1000/h", 900, 0, "60/m burst 10", 0, 1, 1),
        // A window of the same length goes on, with its count cut to the new limit.
        ("fixed-window 5/h", 3, 9, "fixed-window 9/h", 6, 3_591, 9),
        ("fixed-window 5/h", 3, 9, "fixed-window 2/h", 0, 3_591, 2),
        ("fixed-window 5/h from-first", 3, 9, "fixed-window 9/h from-first", 6, 3_591, 9),
        ("sliding-window 100/h exact", 60, 0, "sliding-window 120/h strict", 60, 3_600, 60),
        ("segmented-window 60/h x6", 40, 600, "segmented-window 90/h x6", 50, 3_000, 90),
        // If the change is to another algorithm or window length, all used units count as used at the moment of the
        // change.
        ("fixed-window 5/m", 3, 50, "fixed-window 9/h", 6, 20, 6),
        ("fixed-window 10/m", 4, 0, "10/m", 6, 6, 7),
        ("60/m", 40, 10, "fixed-window 60/m", 30, 50, 60),
        ("segmented-window 60/h x6", 40, 600, "segmented-window 60/h x3", 20, 2_999, 20),
        ("sliding-window 100/h exact", 60, 0, "fixed-window 100/h from-first", 40, 3_599, 40),
    ] {
        let (key, at_us) = (format!("{before} {now}"), day_us + after_s * SECOND);
        let [old, new] = [before, now].map(plan);
        assert!(told.call(day_us, check(&key, &old, spent)).admitted, "{before}");
        let peeked = told.call(at_us, peek(&key, &new));
        assert_eq!(view(&new, &peeked).remaining(), left, "{before}, then {now}");
        // The new policy is in force from the first request under it, whether that request is admitted or not.
        let checked = told.call(at_us, check(&key, &new, new.limit));
        assert!(!checked.admitted, "{before}, then {now}");
        let later = told.call(at_us + later_s * SECOND, peek(&key, &new));
        assert_eq!(view(&new, &later).remaining(), left_later, "{before}, then {now}");
    }
}

/// Makes random requests under six policies in random order, and gives some of their leases back. Compares the script's
/// states with those of the simulation.
fn compare(told: &mut TimedScript, flaw: Option<ChangeFlaw>, rounds: u64) -> Result<(), String> {
    let mut random = 7;
    let mut draw = |below: u64| {
        random = mixed(random);
        random % below
    };
    for round in 0..rounds {
        let plans: Vec<ScriptPlan> = (0..6)
            .map(|_| plan(&format!("{}/{}ms burst {}", 1 + draw(50), 1 + draw(900), 1 + draw(60))))
            .collect();
        let mut key = SimulatedKey::new(flaw);
        let mut now_us = NOW_US + draw(SECOND);
        let mut charges = Vec::new();
        for _ in 0..40 {
            now_us += draw(200_000);
            if draw(3) == 0 && !charges.is_empty() {
                let last = usize::try_from(draw(charges.len() as u64)).unwrap();
                let (plan, units, stamp): (ScriptPlan, u64, ChargeStamp) =
                    charges.swap_remove(last);
                let given = Units { stamp: stamp.at, share: stamp.us, ..Units::exactly(units) };
                let given = ask(ScriptVerb::Refund, &format!("{round}"), &plan, given);
                let reply = told.call(now_us, given);
                key.give_back(&plan, units, stamp, now_us);
                if let Some(debt) = key.known_debt(&plan, now_us) {
                    let expected = State::Gcra { debt: u64::try_from(debt).unwrap() };
                    let found = &reply.parts[0].state;
                    if *found != expected {
                        return Err(format!(
                            "round {round}, given back: {found:?}, not {expected:?}"
                        ));
                    }
                }
                continue;
            }
            let plan = &plans[usize::try_from(draw(6)).unwrap()];
            let want = 1 + draw(plan.limit);
            let want = LeaseWant { want, least: 1 + draw(want) };
            let units = Units { want: want.want, least: want.least, share: 2, stamp: 0 };
            let reply = told.call(now_us, ask(ScriptVerb::Check, &format!("{round}"), plan, units));
            let expected = key.charge(plan, want, now_us);
            let stamp = ChargeStamp { at: plan.tick(now_us), us: now_us, era: 0 };
            charges.push((*plan, expected.0, stamp));
            let found = (reply.parts[0].units, reply.parts[0].state.clone());
            if found != expected {
                return Err(format!(
                    "round {round}, {}: {found:?}, not {expected:?}",
                    plan.policy()
                ));
            }
        }
    }
    Ok(())
}

#[test]
#[ignore = "needs redis-server"]
fn the_states_of_several_policies_are_those_that_the_simulation_has() {
    let (server, mut told) = start(NEVER_SET_BACK);
    assert_eq!(compare(&mut told, None, 300), Ok(()));
    for flaw in [
        ChangeFlaw::Fresh,
        ChangeFlaw::OneState,
        ChangeFlaw::OneCharged,
        ChangeFlaw::ExcessForgotten,
        ChangeFlaw::LargestForgotten,
        ChangeFlaw::LeasesLost,
        ChangeFlaw::OneReturned,
    ] {
        server.run::<()>(&["FLUSHALL"]);
        assert!(compare(&mut told, Some(flaw), 20).is_err(), "{flaw:?} is not seen");
    }
}

#[test]
#[ignore = "needs redis-server"]
fn a_change_is_written_once_and_by_a_denial_too() {
    let (server, mut told) = start(NEVER_SET_BACK);
    let [old, new] = ["10/d", "fixed-window 10/d"].map(plan);
    let check = |plan: &ScriptPlan, cost| check("key", plan, cost);
    let stored = || server.run::<String>(&["GET", "key"]);
    assert!(told.call(NOW_US, check(&old, 7)).admitted);
    assert_eq!(stored(), "1 1 1 8640000000 86400000000 1790060480000000 0");
    assert!(!told.call(NOW_US, check(&new, 4)).admitted);
    let both = "2 1 86400000000 10 0 20717 7;1 1 1 8640000000 86400000000 1790060480000000 0";
    assert_eq!(stored(), both);
    assert!(!told.call(NOW_US, check(&new, 4)).admitted);
    assert_eq!(stored(), both);
    // The key lives until the last of its states has drained.
    assert!(told.call(NOW_US, check(&new, 1)).admitted);
    let until = "2 1 86400000000 10 0 20717 8;1 1 1 8640000000 86400000000 1790069120000000 0";
    assert_eq!(stored(), until);
}
