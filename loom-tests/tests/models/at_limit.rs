//! Denials that write: two threads are both denied on one word, or one is denied and the other admitted.
//!
//! Property, in every model: for some order of the requests, the exact reference model gives the same answers. After
//! both threads have ended, it has the same units left, and agrees whether a penalty is in force. So each denial is
//! added to the count once, exactly the N-th denial begins the penalty, and an admission resets the count. The charge
//! of a denied request is not lost, and the end of a penalty never moves back.
//!
//! These models are sufficient because a denial that writes uses the same loop as a charge, so it depends on other
//! threads only through the word that it finds. With two threads, the other thread's write can come before the denial,
//! after it, or between its load and its compare-and-swap. If the other thread has a second request, its write can also
//! come after the denial's compare-and-swap has failed once. In a table the loop differs only by the floor, which need
//! not advance for these requests. Under several limits a request is decided first and its denial is counted
//! afterwards. So there is one more load before which another thread may write.

use std::sync::Arc;

use loom_tests::race::{RaceRequest, RacedLimit, ask_all, race};
use loom_tests::suite::{Bound, Model};
use loom_tests::table::{key_in, table};
use loom_tests::verdict::{UNEXPLAINED, assert_explained_from};
use tollgate::control::{self, Fault};
use tollgate::{Decision, Limiter, ManualClock, Policy, Quota, Timestamp, check_all};
use tollgate_oracle::{AtLimit, CountDenied, Oracle, Penalty};

use crate::limiter::{ask, gcra_algorithm};

/// A policy of one unit per second, and its exact reference model.
fn ruled(burst: u64, words: &str, at_limit: AtLimit) -> (Policy, Oracle) {
    let policy = format!("gcra 1/s burst {burst} {words}").parse().expect("a policy");
    (policy, Oracle::with_rules(gcra_algorithm(burst), at_limit))
}

fn penalty(burst: u64, seconds: u64, after: u64, extended: bool) -> (Policy, Oracle) {
    let word = if extended { " extended" } else { "" };
    let length_ns = seconds * 1_000_000_000;
    let penalty = Penalty { length_ns, after, extended, unit_ns: 1, quantum_ns: 1 };
    let at_limit = AtLimit { penalty: Some(penalty), ..AtLimit::default() };
    ruled(burst, &format!("penalty {seconds}s after {after}{word}"), at_limit)
}

/// Races the lists for a limit that has answered `setup`, then asks the limit again at `last_ms`.
fn races_for<L: RacedLimit>(
    limit: &Arc<L>,
    oracle: &Oracle,
    setup: &[RaceRequest],
    lists: Vec<Vec<RaceRequest>>,
    last: RaceRequest,
) {
    let setup = ask_all(&**limit, setup);
    let calls = race(limit, lists);
    assert_explained_from(&**limit, oracle, &setup, &calls, last);
}

fn races(
    (policy, oracle): (Policy, Oracle),
    setup: &[RaceRequest],
    lists: Vec<Vec<RaceRequest>>,
    last_ms: u64,
) {
    let limiter = Arc::new(Limiter::builder(policy).clock(ManualClock::new()).build());
    races_for(&limiter, &oracle, setup, lists, ask(1, last_ms));
}

/// Two denials on two threads: the second denial begins the penalty, whichever thread it is on.
fn the_nth_denial() {
    races(penalty(1, 2, 2, false), &[ask(1, 5_000)], vec![vec![ask(1, 5_000)]; 2], 5_000);
}

/// Three denials where a penalty begins at the fourth: none is counted twice, even if a compare-and-swap fails
/// spuriously.
fn one_too_few(spurious: u32) {
    control::fail_spuriously(spurious);
    let lists = vec![vec![ask(1, 5_000)], vec![ask(1, 5_000); 2]];
    races(penalty(1, 2, 4, false), &[ask(1, 5_000)], lists, 5_000);
}

/// Three requests that are denied, where three denials in a row start a penalty.
fn just_enough(spurious: u32) {
    control::fail_spuriously(spurious);
    let lists = vec![vec![ask(1, 5_000)], vec![ask(1, 5_000); 2]];
    races(penalty(1, 2, 3, false), &[ask(1, 5_000)], lists, 5_000);
}

/// One denial so far, where a penalty begins at the second: one thread is admitted, and the other is denied before or
/// after the admission.
fn an_admission_in_between() {
    let setup = [ask(1, 5_000), ask(1, 5_000)];
    let lists = vec![vec![ask(1, 6_000)], vec![ask(1, 5_999)]];
    races(penalty(1, 2, 2, false), &setup, lists, 6_000);
}

/// Both threads are denied during a penalty, half a second apart. The later of the two ends of the penalty stays.
fn an_end_that_moves_on() {
    let setup = [ask(1, 5_000), ask(1, 5_000)];
    races(penalty(1, 2, 1, true), &setup, vec![vec![ask(1, 6_000)], vec![ask(1, 6_500)]], 8_250);
}

/// The end of a penalty: one thread asks just before the end and again at the end, and the other asks only at the end.
/// One request at the end is admitted.
fn at_the_end() {
    let setup = [ask(1, 5_000), ask(1, 5_000)];
    let lists = vec![vec![ask(1, 7_000)], vec![ask(1, 6_999), ask(1, 7_000)]];
    races(penalty(1, 2, 1, false), &setup, lists, 7_000);
}

/// Each denied request is charged once, while units drain.
fn charged_denials() {
    let counted = CountDenied { wait_ns: Some(3_000_000_000) };
    let at_limit = AtLimit { count_denied: Some(counted), ..AtLimit::default() };
    let policy = ruled(2, "count-denied 3s", at_limit);
    let lists = vec![vec![ask(1, 5_000)], vec![ask(1, 5_000), ask(1, 7_000)]];
    races(policy, &[ask(2, 5_000)], lists, 8_000);
}

/// Runs [`the_nth_denial`] and [`an_admission_in_between`] on one word of a table.
fn in_a_table(after: u64, asks_ms: [u64; 2]) {
    control::count_apart(true);
    control::mark_floors(false);
    let (policy, oracle) = penalty(1, 2, after, false);
    let table = table(&policy.to_string(), 1, 1);
    let key = key_in(&table, [0, 0], 1);
    let ask = |now_ms| RaceRequest { key, cost: 1, now_ms };
    let setup = [ask(5_000), ask(5_000)];
    let lists = asks_ms.map(|now_ms| vec![ask(now_ms)]).to_vec();
    races_for(&table, &oracle, &setup, lists, ask(asks_ms[0].max(asks_ms[1])));
}

/// A limit that is asked together with a second limit, which has room for everything.
struct Joint {
    limiter: Limiter,
    wide: Limiter,
}

impl RacedLimit for Joint {
    fn decide(&self, ask: RaceRequest) -> Decision {
        let now = Timestamp::from_millis(ask.now_ms);
        let claims = [&self.limiter, &self.wide].map(|limit| limit.entry().at(now).cost(ask.cost));
        let joint = check_all(&mut { claims });
        joint.into_decision().expect("the answer of two limits")
    }

    fn look(&self, ask: RaceRequest) -> Decision {
        self.limiter.look(ask)
    }
}

/// Runs [`the_nth_denial`] and [`an_admission_in_between`] on a limit that is one of two.
fn among_two_limits(after: u64, asks_ms: [u64; 2]) {
    let (policy, oracle) = penalty(1, 2, after, false);
    let limiter = Limiter::builder(policy).clock(ManualClock::new()).build();
    let wide = Limiter::builder(Quota::per_second(9)).clock(ManualClock::new()).build();
    let limits = Arc::new(Joint { limiter, wide });
    let lists = asks_ms.map(|now_ms| vec![ask(1, now_ms)]).to_vec();
    let last_ms = asks_ms[0].max(asks_ms[1]);
    races_for(&limits, &oracle, &[ask(1, 5_000), ask(1, 5_000)], lists, ask(1, last_ms));
}

pub(crate) fn models() -> Vec<Model> {
    use Bound::None as Whole;
    use Fault::{
        DenialCountedTwice, DenialNotCounted, DenialNotWritten, DenialsOutliveAdmission,
        FailureTakenForSuccess, PlainStoreForCas,
    };
    vec![
        Model::new("the_nth_denial", Whole, the_nth_denial)
            .control("a_denial_that_is_not_counted_is_caught", DenialNotCounted, UNEXPLAINED)
            .control("a_denial_that_is_not_written_is_caught", DenialNotWritten, UNEXPLAINED)
            .control("a_denial_over_a_denial_is_caught", PlainStoreForCas, UNEXPLAINED),
        Model::new("one_denial_too_few", Whole, || one_too_few(0b010)).control(
            "one_denial_too_few_is_caught",
            DenialCountedTwice,
            UNEXPLAINED,
        ),
        Model::new("just_enough_denials", Whole, || just_enough(0b010)).control(
            "a_denial_that_failed_and_counts_is_caught",
            FailureTakenForSuccess,
            UNEXPLAINED,
        ),
        Model::new("an_admission_between_denials", Whole, an_admission_in_between)
            .control(
                "a_row_that_outlives_an_admission_is_caught",
                DenialsOutliveAdmission,
                UNEXPLAINED,
            )
            .control("a_denial_over_an_admission_is_caught", PlainStoreForCas, UNEXPLAINED),
        Model::new("a_penalty_that_is_extended", Whole, an_end_that_moves_on).control(
            "an_end_that_moves_back_is_caught",
            PlainStoreForCas,
            UNEXPLAINED,
        ),
        Model::new("the_end_of_a_penalty", Whole, at_the_end).control(
            "two_that_are_let_out_is_caught",
            PlainStoreForCas,
            UNEXPLAINED,
        ),
        Model::new("denials_that_are_charged", Whole, charged_denials)
            .control("a_lost_charge_of_a_denial_is_caught", PlainStoreForCas, UNEXPLAINED)
            .control("a_denial_that_is_not_charged_is_caught", DenialNotWritten, UNEXPLAINED),
        Model::new("the_nth_denial_in_a_table", Whole, || in_a_table(3, [5_000; 2]))
            .control("a_lost_denial_in_a_table_is_caught", PlainStoreForCas, UNEXPLAINED)
            .control("an_uncounted_denial_in_a_table_is_caught", DenialNotCounted, UNEXPLAINED),
        Model::new("the_nth_denial_among_two_limits", Whole, || among_two_limits(3, [5_000; 2]))
            .control("a_joint_denial_over_another_is_caught", PlainStoreForCas, UNEXPLAINED)
            .control("an_uncounted_joint_denial_is_caught", DenialNotCounted, UNEXPLAINED),
        Model::new("an_admission_among_two_limits", Whole, || among_two_limits(2, [6_000, 5_999]))
            .control(
                "a_row_that_outlives_a_joint_admission_is_caught",
                DenialsOutliveAdmission,
                UNEXPLAINED,
            ),
        Model::new("an_admission_in_a_table", Whole, || in_a_table(2, [6_000, 5_999])).control(
            "a_row_that_outlives_in_a_table_is_caught",
            DenialsOutliveAdmission,
            UNEXPLAINED,
        ),
    ]
}
