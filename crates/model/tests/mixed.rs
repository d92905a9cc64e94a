//! Mixed verbs in random worlds, of every limiter and under any policy. Each step is checked against the ledger of the
//! units that were admitted and given back, and against the debt. These checks must notice each of many faults of
//! limiters.
//!
//! ```text
//! TOLLGATE_STEPS=50000000 cargo test --release -p tollgate-model --test mixed -- --nocapture
//! ```
//!
//! Use `--release` for many steps.

use std::thread;

use tollgate_model::source::*;
use tollgate_model::{
    Hunt, Judges, LogFault, MixedCase, Plant, SubjectFault, hunt, hunt_log_changes,
};

/// The default number of steps, of two threads together.
const STEPS: u64 = 200_000;

/// A control that is not caught within this many steps has failed. Most are caught within a thousandth of them.
const STEPS_OF_A_CONTROL: u64 = 2_000_000;

fn number(name: &str, otherwise: u64) -> u64 {
    let told = std::env::var(name).ok();
    told.map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

#[test]
fn mixed_verbs_keep_every_bound_in_random_worlds() {
    let (steps, seed) = (number("TOLLGATE_STEPS", STEPS), number("TOLLGATE_SEED", 1));
    let run = |half: u64| {
        let hunted = Hunt {
            seed: seed.wrapping_mul(2) ^ half,
            steps: steps.div_ceil(2),
            fault: SubjectFault::None,
            plant: Plant::Nothing,
            judges: Judges::ALL,
        };
        move || hunt(hunted)
    };
    let halves = [0, 1].map(|half| thread::spawn(run(half)));
    let mut compared = 0;
    for half in halves {
        let (steps, found) = half.join().expect("no verb panics");
        compared += steps;
        if let Some(found) = found {
            panic!("after {steps} steps: {}\n\n{:?}.run();\n", found.what, found.case);
        }
    }
    println!("{compared} steps of mixed verbs, seed {seed}: no excess, every answer as defined");
}

#[test]
fn a_log_whose_count_changes_to_and_fro_admits_what_the_list_of_its_units_leaves() {
    let (steps, seed) = (number("TOLLGATE_STEPS", STEPS), number("TOLLGATE_SEED", 1));
    let (compared, found) = hunt_log_changes(seed, steps, LogFault::None);
    if let Some(found) = found {
        panic!("after {compared} steps: {found}");
    }
    println!("{compared} steps of a log that changes, seed {seed}: every answer as defined");
}

#[test]
fn mistakes_of_a_log_whose_count_changes_are_caught() {
    let faults = [
        (LogFault::ChangeForgives, "should be left"),
        (LogFault::BeyondForgotten, "should be left"),
        (LogFault::PermitOutlivesChange, "should be left"),
        (LogFault::OneMore, "in force"),
        (LogFault::NotTakenBack, "should be left"),
    ];
    for (fault, words) in faults {
        let (steps, found) = hunt_log_changes(1, STEPS_OF_A_CONTROL, fault);
        let found = found.unwrap_or_else(|| panic!("{fault:?}: not caught in {steps} steps"));
        assert!(found.contains(words), "{found}");
        println!("{fault:?}: caught after {steps} steps");
    }
}

/// The fault must be found, with this message.
fn caught((fault, plant, judges): (SubjectFault, Plant, Judges), words: &str) {
    let hunted = Hunt { seed: 1, steps: STEPS_OF_A_CONTROL, fault, plant, judges };
    let (steps, found) = hunt(hunted);
    let found =
        found.unwrap_or_else(|| panic!("{fault:?}, {plant:?}: not caught in {steps} steps"));
    assert!(found.what.contains(words), "{}\n{:?}", found.what, found.case);
    println!("{fault:?}, {plant:?}: caught after {steps} steps: {}", found.what);
}

/// The ledger alone finds faults that admit too much. It does not depend on words and ticks.
#[test]
fn faults_that_admit_too_much_are_caught_by_the_ledger_alone() {
    for fault in [
        SubjectFault::ChargeForgotten,
        SubjectFault::BackTwice,
        SubjectFault::ReportedLess,
        SubjectFault::BackDrained,
        SubjectFault::CancelledTwice,
        SubjectFault::SpentComesBack,
        SubjectFault::ChangeForgives,
        SubjectFault::SurplusForgotten,
        SubjectFault::DebtForgiven,
    ] {
        caught((fault, Plant::Nothing, Judges::LEDGER), "excess");
    }
}

/// The ledger alone also finds the excess units that `UndoneByBits` admits:
/// `the_ledger_alone_sees_14_units_at_one_instant_where_10_are_the_burst`. Random worlds need millions of steps for
/// that.
#[test]
fn other_faults_are_caught_by_the_model_or_the_ledger() {
    for (fault, words) in [
        (SubjectFault::ReportedMore, "given back"),
        (SubjectFault::UndoneByBits, ""),
        (SubjectFault::StaysCharged, ""),
        (SubjectFault::NeverCancelled, "not cancelled, and nothing was behind it"),
        (SubjectFault::StricterLook, ""),
        (SubjectFault::MoveForgives, "were moved"),
        (SubjectFault::OldWindowBack, "given back"),
        (SubjectFault::ChargedAsleep, ""),
        (SubjectFault::GivesUpAtOnce, "are enough"),
        (SubjectFault::GoesUnasked, ""),
        (SubjectFault::DebtStopsAtTwice, "were charged"),
    ] {
        caught((fault, Plant::Nothing, Judges::ALL), words);
    }
}

#[test]
fn a_wait_of_a_nanosecond_less_is_caught() {
    caught((SubjectFault::None, Plant::Answer, Judges::ALL), "before which it is admitted");
}

#[test]
fn a_limit_of_a_unit_more_is_caught() {
    caught((SubjectFault::None, Plant::Limit, Judges::ALL), "");
}

/// A check and a place take 5 units each, which leaves 10. The check is refunded, and 5 units are charged when 5 have
/// drained. Now the word has the same bits as right after the place. If the place were undone by these bits, 14 units
/// would be admitted at one instant.
fn equal_bits() -> MixedCase {
    let does = |verb| Does { key: 0, verb };
    MixedCase {
        policy: Gcra(QuotaCase { count: One, period: Second, burst: Some(Small(10)) }),
        rules: RulesCase::default(),
        kind: Alone,
        own_clock: false,
        ops: Steps(vec![
            does(Take { cost: Units(5) }),
            does(Reserve { cost: Units(5), thousandths: 0 }),
            does(Refund { nth: 0, most: 5 }),
            does(Later { span: Thousandths(4_990), fine: 0 }),
            does(Take { cost: Units(5) }),
            does(Cancel { nth: 0 }),
            does(Take { cost: Units(9) }),
        ]),
    }
}

#[test]
fn the_ledger_alone_sees_14_units_at_one_instant_where_10_are_the_burst() {
    let case = equal_bits();
    assert_eq!(case.follow(Plant::Nothing, SubjectFault::None, Judges::ALL), Ok(7));
    let found =
        case.follow(Plant::Nothing, SubjectFault::UndoneByBits, Judges::LEDGER).unwrap_err();
    assert!(
        found.contains("excess: 14 units from 4990000000 ns to 4990000000 ns, 4 above"),
        "{found}"
    );
}

/// Ten units are admitted. They are refunded when a thousandth of a unit has drained, so almost all of them come back.
#[test]
fn the_ledger_alone_sees_parts_of_units_that_are_given_back_and_not_told() {
    let does = |verb| Does { key: 0, verb };
    let mut ops = vec![does(Take { cost: Single }); 10];
    ops.push(does(Later { span: Thousandths(1), fine: 0 }));
    ops.extend(vec![does(Refund { nth: 0, most: 1 }); 10]);
    ops.push(does(UpTo { cost: Whole }));
    let case = MixedCase { ops: Steps(ops), ..equal_bits() };
    assert_eq!(case.follow(Plant::Nothing, SubjectFault::None, Judges::ALL), Ok(22));
    let found =
        case.follow(Plant::Nothing, SubjectFault::ReportedLess, Judges::LEDGER).unwrap_err();
    assert!(found.contains("excess: "), "{found}");
}
