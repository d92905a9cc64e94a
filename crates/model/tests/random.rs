//! Random worlds: each case of the crate with policies, requests and times that proptest draws, and the control of
//! each.
//!
//! `PROPTEST_CASES=10000000 cargo test --release -p tollgate-model --test random` draws 10,000,000 cases of each.

mod common;

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arbitrary::Arbitrary;
use common::drawn;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tollgate_model::source::*;
use tollgate_model::{Plant, PolicyCase, StepCost, run_beside};

/// The kind of the requests of a world: whether time runs back, whether it goes far, and how many keys there are.
#[derive(Clone, Copy, Debug)]
struct Walk {
    back: bool,
    far: bool,
    keys: u8,
}

fn walks() -> impl Strategy<Value = Walk> {
    let far = prop_oneof![3 => Just(false), 1 => Just(true)];
    (any::<bool>(), far, prop::sample::select(vec![1_u8, 3, 12, 40]))
        .prop_map(|(back, far, keys)| Walk { back, far, keys })
}

impl Walk {
    fn request(self, step: RequestStep) -> RequestStep {
        let span = if self.far { step.span } else { step.span.near() };
        RequestStep { span, backward: step.backward && self.back, ..step }
    }

    fn op(self, op: tollgate_model::Op) -> tollgate_model::Op {
        let span_of = |span: tollgate_model::Span| if self.far { span } else { span.near() };
        match op {
            Check { key, cost } => Check { key: key % self.keys, cost },
            Peek { key, cost } => Peek { key: key % self.keys, cost },
            Crowd { first, keys, cost } => {
                Crowd { first: first % self.keys, keys: keys % self.keys, cost }
            }
            Back { span, fine } if self.back => Back { span: span_of(span), fine },
            Advance { span, fine } | Back { span, fine } => Advance { span: span_of(span), fine },
        }
    }
}

fn steps<T>(most: usize, walk: fn(Walk, T) -> T) -> impl Strategy<Value = Steps<T>>
where
    T: for<'b> Arbitrary<'b> + Debug + Clone + 'static,
{
    (walks(), prop::collection::vec(drawn::<T>(), 1..most))
        .prop_map(move |(by, drawn)| Steps(drawn.into_iter().map(|step| walk(by, step)).collect()))
}

fn requests() -> impl Strategy<Value = Steps<RequestStep>> {
    steps(60, Walk::request)
}

fn ops() -> impl Strategy<Value = Steps<tollgate_model::Op>> {
    steps(150, Walk::op)
}

/// Two thirds of all policies have no options for what happens at the limit.
fn rules() -> impl Strategy<Value = RulesCase> {
    prop_oneof![2 => Just(RulesCase::default()), 1 => drawn()]
}

fn policies() -> impl Strategy<Value = PolicyCase> {
    drawn::<PolicyCase>().prop_filter("refused", |policy| policy.policy().is_some())
}

fn gcra() -> impl Strategy<Value = GcraCase> {
    let quotas = drawn::<QuotaCase>().prop_filter("refused", |quota| quota.quota().is_some());
    (quotas, requests(), rules()).prop_map(|(quota, steps, rules)| GcraCase { quota, steps, rules })
}

fn windows() -> impl Strategy<Value = WindowCase> {
    (policies(), requests(), rules()).prop_filter_map("no window", |(policy, steps, rules)| {
        let Window { shape, limit, period } = policy else { return None };
        Some(WindowCase { shape, limit, period, steps, rules })
    })
}

fn layouts() -> impl Strategy<Value = LayoutCase> {
    (policies(), any::<u64>(), requests(), rules())
        .prop_map(|(policy, start_ns, steps, rules)| LayoutCase { policy, start_ns, steps, rules })
}

fn tables() -> impl Strategy<Value = KeyedCase> {
    (policies(), any::<u8>(), any::<bool>(), ops(), rules()).prop_map(
        |(policy, capacity, own_clock, ops, rules)| KeyedCase {
            policy,
            capacity,
            own_clock,
            ops,
            rules,
        },
    )
}

fn sketches() -> impl Strategy<Value = SketchCase> {
    // There are few cells, so that keys share them.
    (policies(), any::<u8>(), 0_u8..8, ops()).prop_map(|(policy, rows, cells, ops)| SketchCase {
        policy,
        rows,
        cells,
        ops,
    })
}

fn logs() -> impl Strategy<Value = SlidingLogCase> {
    let limits = prop_oneof![3 => 0_u8..12, 1 => any::<u8>()];
    (limits, drawn(), drawn(), ops(), rules()).prop_map(|(limit, window, capacity, ops, rules)| {
        SlidingLogCase { limit, window, capacity, ops, rules }
    })
}

fn joint() -> impl Strategy<Value = TogetherCase> {
    let rated = || drawn::<Rated>();
    let ops = prop::collection::vec(drawn(), 1..100).prop_map(Steps);
    (rated(), rated(), rated(), rated(), rated(), ops).prop_map(
        |(first, second, single, own, pool, ops)| TogetherCase {
            first,
            second,
            single,
            own,
            pool,
            ops,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// All answers are right to the nanosecond, even if times run backward.
    #[test]
    fn the_pure_function_answers_as_the_model_does(case in gcra()) {
        case.run();
    }

    #[test]
    fn the_pure_function_of_a_window_answers_as_the_model_does(case in windows()) {
        case.run();
    }

    #[test]
    fn a_keyed_word_gives_back_what_it_holds(case in layouts()) {
        case.run();
    }

    #[test]
    fn the_table_answers_as_a_model_per_key_does(case in tables()) {
        case.run();
    }

    #[test]
    fn a_sketch_never_gives_a_key_more_than_its_quota(case in sketches()) {
        case.run();
    }

    #[test]
    fn a_log_answers_as_the_model_does_and_no_window_holds_more_than_its_limit(case in logs()) {
        case.run();
    }

    #[test]
    fn several_limits_are_all_charged_or_none_is(case in joint()) {
        case.run();
    }
}

/// A control that is not caught in this many cases has failed.
const CASES_OF_A_CONTROL: usize = 2_000;

fn caught<C: Debug>(name: &str, cases: impl Strategy<Value = C>, run: impl Fn(&C)) {
    let mut runner = TestRunner::deterministic();
    let is_caught = (0..CASES_OF_A_CONTROL).any(|_| {
        let case = cases.new_tree(&mut runner).expect("a case").current();
        catch_unwind(AssertUnwindSafe(|| run(&case))).is_err()
    });
    assert!(is_caught, "{name} is not caught");
}

#[test]
fn one_unit_more_and_a_nanosecond_less_are_caught_in_every_world() {
    for plant in [Plant::Limit, Plant::Answer] {
        caught("gcra", gcra(), |case| case.run_against(plant));
        caught("windows", windows(), |case| case.run_against(plant));
        caught("layouts", layouts(), |case| case.run_against(plant));
        caught("tables", tables(), |case| case.run_against(plant));
        caught("sketches", sketches(), |case| case.run_against(plant));
        caught("logs", logs(), |case| case.run_against(plant));
        caught("joint", joint(), |case| case.run_against(plant));
    }
}

#[test]
fn a_bound_of_one_unit_less_is_caught_in_every_world() {
    caught("layouts", layouts(), |case| case.run_against(Plant::Bound));
    caught("tables", tables(), |case| case.run_against(Plant::Bound));
    caught("sketches", sketches(), |case| case.run_against(Plant::Bound));
    caught("logs", logs(), |case| case.run_against(Plant::Bound));
    caught("joint", joint(), |case| case.run_against(Plant::Bound));
}

#[test]
fn a_cell_that_is_lost_is_caught_in_every_table() {
    caught("tables", tables(), |case| case.run_against(Plant::Cell));
    caught("logs", logs(), |case| case.run_against(Plant::Cell));
    caught("joint", joint(), |case| case.run_against(Plant::Cell));
}

/// Asserts that a table of one policy does not give the answers that are expected under the other policy.
fn differs(policy: &str, other: &str, ops: &[tollgate_model::Op]) {
    let [right, wrong] = [policy, other].map(common::policy);
    run_beside([right, right], ops);
    let told = catch_unwind(|| run_beside([right, wrong], ops));
    assert!(told.is_err(), "{policy} agrees with {other}");
}

fn ask(cost: StepCost) -> tollgate_model::Op {
    Check { key: 1, cost }
}

#[test]
fn a_model_of_one_unit_more_is_caught() {
    for [policy, other] in [
        ["gcra 10/s burst 10", "gcra 10/s burst 11"],
        ["fixed-window 10/s", "fixed-window 11/s"],
        ["calendar-month 10", "calendar-month 11"],
        ["calendar-week 10", "calendar-week 11"],
        ["sliding-window 10/s strict", "sliding-window 11/s strict"],
        ["segmented-window 100/m x6", "segmented-window 101/m x6"],
        ["gcra 10/s soft 10%", "gcra 10/s soft 20%"],
    ] {
        differs(policy, other, &[ask(Whole), ask(Single), Peek { key: 1, cost: Never }]);
    }
}

#[test]
fn a_model_with_other_words_is_caught() {
    for [policy, other] in [
        ["gcra 10/s penalty 2s after 2", "gcra 10/s penalty 2s after 3"],
        ["gcra 10/s penalty 2s after 2", "gcra 10/s penalty 3s after 2"],
        ["gcra 10/s penalty 2s after 2", "gcra 10/s penalty 2s after 2 extended"],
        ["gcra 10/s count-denied", "gcra 10/s count-denied 2s"],
        ["sliding-window 10/s exact count-denied", "sliding-window 10/s exact"],
        ["fixed-window 10/s penalty 2s after 2", "fixed-window 10/s penalty 2001ms after 2"],
    ] {
        let mut ops = vec![ask(Whole); 5];
        ops.extend([Advance { span: Thousandths(1_500), fine: 0 }, ask(Whole)]);
        differs(policy, other, &ops);
    }
}
