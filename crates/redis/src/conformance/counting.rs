//! Tests that a node in mode `async` computes exactly the state that the script computes later.

use super::{NEVER_SET_BACK, NOW_US, ask, peek, plan, start, view};
use crate::script::{ScriptVerb, Units};
use crate::store::backoff::mixed;

const POLICIES: [&str; 10] = [
    "gcra 100/s burst 20",
    "gcra 7/s",
    "gcra 1000003/d",
    "gcra 3/7us burst 50",
    "fixed-window 5/s",
    "fixed-window 100/m from-first",
    "sliding-window 5/s exact",
    "sliding-window 60/m",
    "sliding-window 5/s strict",
    "segmented-window 10/m x6",
];

#[test]
#[ignore = "needs redis-server"]
fn a_state_that_goes_on_here_is_the_one_that_the_script_finds() {
    let (_server, mut told) = start(NEVER_SET_BACK);
    let mut random = 7_u64;
    let mut draw = |below: u64| {
        random = mixed(random);
        random % below
    };
    let mut over = 0;
    for number in 0..2_000_usize {
        let plan = plan(POLICIES[number % POLICIES.len()]);
        let (key, period_us) = (number.to_string(), plan.drain_us(plan.limit).max(4));
        let mut now_us = NOW_US + draw(period_us);
        let mut known = told.call(now_us, peek(&key, &plan));
        for _ in 0..6 {
            let before_us = now_us;
            now_us += draw(period_us / 2);
            let state = &mut known.parts[0].state;
            state.advance(&plan, before_us, now_us);
            // These units are charged whether they fit or not.
            let units = draw(plan.limit + 2);
            state.charge(&plan, units);
            let ask = ask(ScriptVerb::Add, &key, &plan, Units::exactly(units));
            let found = told.call(now_us, ask);
            assert_eq!(found.parts[0].state, *state, "{} at {now_us}", plan.policy());
            assert_eq!(found.parts[0].units, units);
            over += u32::from(view(&plan, &found).remaining() == 0);
        }
    }
    assert!(over > 1_000, "{over}");
}
