//! The reference model decides the textbooks' examples of `crates/oracle/src/worked.txt` as they say.

mod common;

use tollgate::{Algorithm, AtLimit, Policy};
use tollgate_model::{Plant, TimeFineness};
use tollgate_oracle::{Algorithm as Model, Oracle, Verdict, WorkedExample, worked_examples};

/// The models of a policy. A bucket has several: in rational time and in ticks. No example may distinguish them.
fn models(policy: Policy) -> Vec<Oracle> {
    let (fineness, quota) = (TimeFineness::unkeyed(policy), policy.quota());
    if policy.algorithm() != Algorithm::Gcra {
        return vec![fineness.model(policy, Plant::Nothing)];
    }
    // A coarse tick, and the finest that a word has.
    let ticks = [12, fineness.tick].map(|tick| TimeFineness { tick, ..fineness });
    let mut models = ticks.map(|fineness| fineness.model(policy, Plant::Nothing)).to_vec();
    if policy.at_limit() == AtLimit::default() {
        let period_ns = u64::try_from(quota.period().as_nanos()).expect("a short period");
        let (count, burst) = (quota.count(), quota.max_burst());
        models.push(Oracle::new(Model::Gcra { count, period_ns, burst, tick: None }));
    }
    models
}

fn decide(oracle: &mut Oracle, example: &WorkedExample) -> String {
    let decide = |(now_ns, cost)| match oracle.check(now_ns, cost) {
        Verdict::Allowed => 'A',
        Verdict::Denied | Verdict::Never => 'D',
    };
    example.asked().into_iter().map(decide).collect()
}

#[test]
fn the_reference_model_decides_the_worked_examples_as_they_say() {
    let mut decided = 0;
    for example in worked_examples().iter().filter(|example| !example.waits()) {
        let [text] = example.policies[..] else { continue };
        for mut oracle in models(common::policy(text)) {
            assert_eq!(decide(&mut oracle, example), example.expected(), "{example:?}");
        }
        decided += 1;
    }
    assert!(decided > 80, "{decided}");
}

#[test]
fn a_model_of_one_unit_more_is_caught() {
    let first = &worked_examples()[0];
    let policy = common::policy(first.policies[0]);
    let mut wrong = TimeFineness::unkeyed(policy).model(policy, Plant::Limit);
    assert_ne!(decide(&mut wrong, first), first.expected());
}
