//! Tests of the worked examples of decisions from textbooks, each at its own times: see
//! `tollgate_oracle::worked_examples`.

use tollgate_oracle::{WorkedExample, worked_examples};

use super::{NEVER_SET_BACK, TimedScript, plan, start};
use crate::script::{ScriptPart, ScriptReply, ScriptRequest, ScriptVerb, Units};

/// The decisions of an example as a string of A and D. If `policies` is not empty, it replaces the policies of the
/// example.
fn decided(told: &mut TimedScript, example: &WorkedExample, policies: &[&str]) -> String {
    let name = format!("{example:?} {policies:?}");
    let part = |(n, policy): (usize, &&str), cost| {
        let key = format!("{name} {n}").into_bytes();
        ScriptPart::new(key, plan(policy), Units::exactly(cost))
    };
    let call = |(now_ns, cost): (u64, u64)| {
        let parts = policies.iter().enumerate().map(|policy| part(policy, cost)).collect();
        (now_ns / 1_000, vec![ScriptRequest { verb: ScriptVerb::Check, parts }])
    };
    let calls: Vec<_> = example.asked().into_iter().map(call).collect();
    let letter = |reply: &Vec<ScriptReply>| if reply[0].admitted { 'A' } else { 'D' };
    told.calls(&calls).iter().map(letter).collect()
}

/// Runs all examples except those in which a request waits, since a check does not wait.
#[test]
#[ignore = "needs redis-server"]
fn the_script_decides_the_worked_examples_as_they_say() {
    let (_server, mut told) = start(NEVER_SET_BACK);
    for example in worked_examples().iter().filter(|example| !example.waits()) {
        let decided = decided(&mut told, example, &example.policies);
        assert_eq!(decided, example.expected(), "{example:?}");
    }
}

#[test]
#[ignore = "needs redis-server"]
fn a_script_that_has_one_unit_more_is_caught() {
    let (_server, mut told) = start(NEVER_SET_BACK);
    let first = &worked_examples()[0];
    assert_eq!(decided(&mut told, first, &["fixed-window 4/60s"]), "AAAAAAA");
    assert_ne!(first.expected(), "AAAAAAA");
}
