//! The un-keyed limiter under GCRA: one word, changed by one compare-and-swap loop.
//!
//! Property, in every model: the answers, and the units left after all threads have ended, are those of the exact
//! reference model for some order of the requests. This is the whole contract: never too many admissions, never too
//! few, and no charge lost.
//!
//! These models are sufficient because a request's loop depends on other threads only through the word that it finds.
//! With two threads, each charge can come between the load and the compare-and-swap of any other charge. With two
//! requests for each thread, the other thread's second charge can also come between a failed compare-and-swap and its
//! retry, so that the retry fails too. With three threads the two failures can be caused by two different threads.

use std::sync::Arc;

use loom_tests::race::{RaceRequest, ask_all, race};
use loom_tests::suite::{Bound, Model};
use loom_tests::table::ModelKey;
use loom_tests::verdict::{UNEXPLAINED, assert_explained};
use tollgate::control::Fault;
use tollgate::{Limiter, ManualClock, Policy};
use tollgate_oracle::Algorithm;

pub(crate) fn ask(cost: u64, now_ms: u64) -> RaceRequest {
    RaceRequest { key: ModelKey::default(), cost, now_ms }
}

/// One unit per second.
fn gcra(burst: u64) -> (Arc<Limiter>, Algorithm) {
    let policy: Policy = format!("gcra 1/s burst {burst}").parse().expect("a policy");
    (Arc::new(Limiter::builder(policy).clock(ManualClock::new()).build()), gcra_algorithm(burst))
}

/// The algorithm of the reference model.
pub(crate) fn gcra_algorithm(burst: u64) -> Algorithm {
    Algorithm::Gcra { count: 1, period_ns: 1_000_000_000, burst, tick: None }
}

/// Makes a limiter, asks it `setup`, and then runs each of the lists in its own thread. Asserts that the reference
/// model explains the answers.
fn races(burst: u64, setup: &[RaceRequest], lists: Vec<Vec<RaceRequest>>) {
    let (limiter, algorithm) = gcra(burst);
    let last_ms = lists.iter().flatten().map(|ask| ask.now_ms).max().unwrap_or(0);
    let setup = ask_all(&*limiter, setup);
    let calls = race(&limiter, lists);
    assert_explained(&*limiter, algorithm, &setup, &calls, ask(1, last_ms));
}

/// 2 threads make 2 checks each at one instant.
pub(crate) fn two_threads_twice(burst: u64) {
    races(burst, &[], vec![vec![ask(1, 5_000); 2]; 2]);
}

/// 3 threads make 1 check each at one instant.
fn three_threads_once(burst: u64) {
    races(burst, &[], vec![vec![ask(1, 5_000)]; 3]);
}

/// 2 threads share a burst of 3. One asks once for 2 units, the other twice for 1 unit, and the order decides what
/// fits.
fn unequal_costs() {
    races(3, &[], vec![vec![ask(2, 5_000)], vec![ask(1, 5_000), ask(1, 5_000)]]);
}

/// 2 threads. The clock of one is a second behind, and this thread must not set the word back to its own time.
fn stale_now() {
    races(2, &[ask(1, 5_000)], vec![vec![ask(1, 5_000); 2], vec![ask(1, 6_000); 2]]);
}

/// The clocks of 2 threads step back between two checks, to before the time of the other thread's first check.
fn backward_now() {
    let there_and_back = vec![ask(1, 9_000), ask(1, 7_000)];
    races(2, &[ask(2, 5_000)], vec![there_and_back.clone(), there_and_back]);
}

/// 2 threads ask at the instant at which one unit has come back.
fn one_unit_comes_back() {
    races(1, &[ask(1, 5_000)], vec![vec![ask(1, 5_999), ask(1, 6_000)], vec![ask(1, 6_000)]]);
}

pub(crate) fn models() -> Vec<Model> {
    use Bound::{None as Whole, Preemptions};
    use Fault::{FailureTakenForSuccess, PlainStoreForCas};
    vec![
        Model::new("two_threads_twice_burst_1", Whole, || two_threads_twice(1)).control(
            "two_threads_twice_burst_1_is_caught",
            PlainStoreForCas,
            UNEXPLAINED,
        ),
        Model::new("two_threads_twice_burst_2", Whole, || two_threads_twice(2)).control(
            "two_threads_twice_burst_2_is_caught",
            FailureTakenForSuccess,
            UNEXPLAINED,
        ),
        Model::new("three_threads_once_burst_1", Preemptions(3), || three_threads_once(1)).control(
            "three_threads_once_burst_1_is_caught",
            PlainStoreForCas,
            UNEXPLAINED,
        ),
        Model::new("three_threads_once_burst_2", Preemptions(3), || three_threads_once(2)).control(
            "three_threads_once_burst_2_is_caught",
            FailureTakenForSuccess,
            UNEXPLAINED,
        ),
        Model::new("unequal_costs", Whole, unequal_costs).control(
            "unequal_costs_is_caught",
            PlainStoreForCas,
            UNEXPLAINED,
        ),
        Model::new("stale_now", Whole, stale_now).control(
            "stale_now_is_caught",
            PlainStoreForCas,
            UNEXPLAINED,
        ),
        Model::new("backward_now", Whole, backward_now).control(
            "backward_now_is_caught",
            PlainStoreForCas,
            UNEXPLAINED,
        ),
        Model::new("one_unit_comes_back", Whole, one_unit_comes_back).control(
            "one_unit_comes_back_is_caught",
            FailureTakenForSuccess,
            UNEXPLAINED,
        ),
    ]
}
