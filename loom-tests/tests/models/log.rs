//! One sliding log: slots that several threads contend for.
//!
//! Properties, in every model: no window holds more than the limit, and the units left at the end are exactly the limit
//! less the admitted units. If all requests ask for single units, the answers are those of the exact reference model in
//! some order. A request of several units may be denied when it meets another request, but if one of the two fits, at
//! least one is admitted.
//!
//! These models are sufficient because requests meet only in slots, and each slot is a word that is taken by a
//! compare-and-swap. With two threads, every such step of one thread can come between the other thread's load and
//! compare-and-swap. With two slots, a request for both can fail at the first slot or at the last, and a thread's
//! second request finds what a failed one has left. The cursor, at which a search begins, is only a hint, and the
//! bounds of rows are only caches. A model with rows of two slots shows that no slot is skipped for good.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use loom_tests::logs::{WINDOW_MS, assert_left, assert_windows, log, units};
use loom_tests::race::{Call, RaceRequest, ask_all, race};
use loom_tests::suite::{Bound, Model};
use loom_tests::table::ModelKey;
use loom_tests::verdict::{
    ABOVE_BOUND, REFUSED, UNEXPLAINED, assert_admitted, assert_explained, assert_explained_from,
};
use tollgate::control::{self, Fault};
use tollgate::{Limiter, ManualClock, Policy, Timestamp};
use tollgate_oracle::{Algorithm, AtLimit, CountDenied, Oracle};

use crate::limiter::ask;

/// A setting that puts all slots in one row.
const ONE_ROW: u32 = u32::MAX;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

/// Races lists of single units: the answers are those of the reference model, in some order.
fn single_units(limit: u64, setup: &[RaceRequest], lists: Vec<Vec<RaceRequest>>) {
    let log = log(limit, ONE_ROW);
    let last_ms = lists.iter().flatten().map(|ask| ask.now_ms).max().unwrap_or(0);
    let setup = ask_all(&*log, setup);
    let calls = race(&log, lists);
    let algorithm = Algorithm::SlidingLog { limit, window_ns: WINDOW_MS * 1_000_000 };
    assert_explained(&*log, algorithm, &setup, &calls, ask(1, last_ms));
}

/// 2 threads race for the one free slot of two.
fn last_slot() {
    single_units(2, &[ask(1, 5_000)], vec![vec![ask(1, 6_000)], vec![ask(1, 6_000)]]);
}

/// 2 threads make two requests and one request, for two free slots.
fn last_two_slots() {
    single_units(2, &[], vec![vec![ask(1, 5_000), ask(1, 5_000)], vec![ask(1, 5_000)]]);
}

/// 3 threads race for two slots.
fn three_for_two() {
    control::tell_answers(false);
    single_units(2, &[], vec![vec![ask(1, 5_000)]; 3]);
}

/// 2 threads ask at the instant at which the one slot becomes free. One of them also asks just before.
fn at_the_instant() {
    let late = vec![ask(1, 14_999), ask(1, 15_000)];
    single_units(1, &[ask(1, 5_000)], vec![late, vec![ask(1, 15_000)]]);
}

/// Races requests of several units: no window holds more than the limit, and the admitted units and the units left add
/// up to the limit.
fn several(limit: u64, setup: &[RaceRequest], lists: Vec<Vec<RaceRequest>>) -> Vec<Vec<Call>> {
    let log = log(limit, ONE_ROW);
    let setup = ask_all(&*log, setup);
    assert_admitted(&setup);
    let now_ms = lists.iter().flatten().map(|ask| ask.now_ms).max().unwrap_or(0);
    let calls = race(&log, lists);
    let all = calls.concat();
    assert_windows(limit, ModelKey::default(), &[&setup, &all]);
    assert_left(&*log, limit, ModelKey::default(), now_ms, &[&setup, &all]);
    calls
}

/// 2 threads ask for two units and for one, of two slots. At least one request is admitted.
fn two_against_one() {
    let calls = several(2, &[], vec![vec![ask(2, 5_000)], vec![ask(1, 5_000)]]).concat();
    assert!(units(&calls) >= 1, "{REFUSED}: {calls:?}");
}

/// 2 threads ask for two units each, of three slots. At most one request is admitted, and no slot is left marked.
fn two_against_two() {
    several(3, &[], vec![vec![ask(2, 5_000)], vec![ask(2, 5_000)]]);
}

/// 2 threads: one asks for two units. The other takes one of the slots, and then asks with a time in the window before.
/// Both slots were taken in that earlier window, so the late request is denied, even if it finds a slot that was marked
/// and put back.
fn put_back_as_it_was() {
    let lists = vec![vec![ask(2, 20_000)], vec![ask(1, 20_000), ask(1, 15_000)]];
    let calls = several(2, &[ask(2, 10_000)], lists);
    assert!(!calls[1][1].allowed, "{ABOVE_BOUND}: {calls:?}");
}

/// 3 threads ask for two units, one and one, of two slots.
fn two_against_one_and_one() {
    control::tell_answers(false);
    let lists = vec![vec![ask(2, 5_000)], vec![ask(1, 5_000)], vec![ask(1, 5_000)]];
    let calls = several(2, &[], lists).concat();
    assert!(units(&calls) >= 1, "{REFUSED}: {calls:?}");
}

/// 2 threads and three slots in rows of two. One thread also asks a second before the slots are free, and is denied.
fn rows() {
    let log = log(3, 1);
    assert_admitted(&ask_all(&*log, &[ask(3, 5_000)]));
    let lists = vec![vec![ask(1, 14_000), ask(1, 15_000)], vec![ask(1, 15_000), ask(1, 15_000)]];
    let calls = race(&log, lists);
    assert!(!calls[0][0].allowed, "{ABOVE_BOUND}: {calls:?}");
    assert_eq!(units(&calls.concat()), 3, "{REFUSED}: {calls:?}");
}

/// 2 threads and one slot. One thread gives a unit back just before the unit leaves the window; the other asks just
/// after that. No window holds two units, not counting the unit that was given back.
fn refund_against_take() {
    let log = log(1, ONE_ROW);
    let permit = log.entry().at(at(5_000)).check().into_result().expect("the slot is free");
    let other = Arc::clone(&log);
    let giving_back = thread::spawn(move || other.entry().at(at(14_999)).refund(permit));
    let taken = log.entry().at(at(15_000)).check().is_allowed();
    let given = giving_back.join().expect("the other thread");
    assert!(taken && given <= 1, "{REFUSED}: the slot is free whether it was given back or not");
    assert!(!log.entry().at(at(15_000)).check().is_allowed(), "{ABOVE_BOUND}: {given} given back");
}

/// 2 threads and one slot, which is taken. One thread reserves the slot for a later time, while the other asks at the
/// time at which the slot becomes free. The two admissions are a window apart, whichever comes first.
fn reserve_against_take() {
    let log = log(1, ONE_ROW);
    assert!(log.entry().at(at(5_000)).check().is_allowed());
    let other = Arc::clone(&log);
    let reserving = thread::spawn(move || {
        let place = other.entry().at(at(6_000)).reserve(1, Duration::from_secs(60));
        place.expect("there is a place").ready_at()
    });
    let taken = log.entry().at(at(15_000)).check().is_allowed();
    let ready = reserving.join().expect("the other thread");
    assert_eq!(ready, at(if taken { 25_000 } else { 15_000 }), "{ABOVE_BOUND}: one place for two");
    // The next admission comes a window later.
    let next = if taken { 34_999 } else { 24_999 };
    assert!(!log.entry().at(at(next)).check().is_allowed(), "{ABOVE_BOUND}: at {next} ms");
}

/// Races the lists for a log of `limit` units that records denials as well. The answers and the units left are those of
/// the reference model in some order.
fn denials_recorded(limit: u64, setup: &[RaceRequest], lists: Vec<Vec<RaceRequest>>) {
    control::use_row_bits(ONE_ROW);
    let policy: Policy = format!("sliding-log {limit}/10s count-denied").parse().expect("a policy");
    let log: Arc<Limiter> = Arc::new(Limiter::builder(policy).clock(ManualClock::new()).build());
    let algorithm = Algorithm::SlidingLog { limit, window_ns: WINDOW_MS * 1_000_000 };
    let count_denied = Some(CountDenied { wait_ns: None });
    let oracle = Oracle::with_rules(algorithm, AtLimit { count_denied, ..AtLimit::default() });
    let last_ms = lists.iter().flatten().map(|ask| ask.now_ms).max().unwrap_or(0);
    let setup = ask_all(&*log, setup);
    let calls = race(&log, lists);
    assert_explained_from(&*log, &oracle, &setup, &calls, ask(1, last_ms));
}

/// 2 threads and one slot. One thread is denied, which moves the slot's time forward, while the other asks when the
/// slot is free, and then once more.
fn denial_against_take() {
    let lists = vec![vec![ask(1, 14_000)], vec![ask(1, 15_000), ask(1, 25_000)]];
    denials_recorded(1, &[ask(1, 5_000)], lists);
}

/// 2 threads and two slots. Each thread is denied, and its denial moves the oldest remaining slot forward. Then one
/// thread asks when the older slot is free.
fn two_denials() {
    let lists = vec![vec![ask(1, 14_000)], vec![ask(1, 14_500), ask(1, 24_400)]];
    denials_recorded(2, &[ask(1, 5_000), ask(1, 6_000)], lists);
}

pub(crate) fn models() -> Vec<Model> {
    use Bound::{None as Whole, Preemptions};
    let mut models = vec![
        Model::new("last_slot", Whole, last_slot).control(
            "a_slot_taken_twice_is_caught",
            Fault::PlainStoreForCas,
            UNEXPLAINED,
        ),
        Model::new("last_two_slots", Whole, last_two_slots).control(
            "a_unit_not_written_is_caught",
            Fault::FailureTakenForSuccess,
            UNEXPLAINED,
        ),
        Model::new("three_for_two", Preemptions(3), three_for_two).control(
            "three_for_two_is_caught",
            Fault::PlainStoreForCas,
            UNEXPLAINED,
        ),
        Model::new("at_the_instant", Whole, at_the_instant).control(
            "at_the_instant_is_caught",
            Fault::PlainStoreForCas,
            UNEXPLAINED,
        ),
        Model::new("two_against_one", Whole, two_against_one)
            .control("a_marked_slot_taken_is_caught", Fault::MarkedSlotTaken, ABOVE_BOUND)
            .control("a_cost_half_taken_is_caught", Fault::ShortGatherAdmitted, ABOVE_BOUND)
            .control("marks_left_behind_is_caught", Fault::MarksForgotten, REFUSED),
        Model::new("two_against_two", Preemptions(3), two_against_two).control(
            "two_attempts_that_leave_marks_is_caught",
            Fault::MarksForgotten,
            REFUSED,
        ),
        Model::new("put_back_as_it_was", Preemptions(3), put_back_as_it_was).control(
            "a_slot_put_back_as_unused_is_caught",
            Fault::MarksEndUnused,
            ABOVE_BOUND,
        ),
        Model::new("two_against_one_and_one", Preemptions(2), two_against_one_and_one).control(
            "three_and_a_marked_slot_taken_is_caught",
            Fault::MarkedSlotTaken,
            ABOVE_BOUND,
        ),
        Model::new("refund_against_take", Whole, refund_against_take).control(
            "a_refund_of_anothers_unit_is_caught",
            Fault::GivenBackWhatever,
            ABOVE_BOUND,
        ),
        Model::new("reserve_against_take", Whole, reserve_against_take)
            .control("a_place_promised_twice_is_caught", Fault::PlainStoreForCas, ABOVE_BOUND)
            .control("a_place_taken_for_now_is_caught", Fault::ReservedFromNow, ABOVE_BOUND),
        Model::new("denial_against_take", Preemptions(2), denial_against_take).control(
            "a_denial_in_place_of_a_unit_is_caught",
            Fault::PlainStoreForCas,
            UNEXPLAINED,
        ),
        Model::new("two_denials", Preemptions(3), two_denials)
            .control(
                "a_denial_that_is_not_recorded_is_caught",
                Fault::DenialNotWritten,
                UNEXPLAINED,
            )
            .control("two_denials_recorded_as_one_is_caught", Fault::PlainStoreForCas, UNEXPLAINED),
        Model::new("rows", Preemptions(2), rows).control(
            "a_row_passed_over_is_caught",
            Fault::RowPassedOver,
            REFUSED,
        ),
    ];
    // Bit n of the mask makes the n-th of the first three weak compare-and-swaps fail spuriously.
    models.extend((1..8).map(|mask| {
        let name = format!("last_two_slots_mask_{mask:03b}");
        let scenario = move || {
            control::fail_spuriously(mask);
            last_two_slots();
        };
        let control = format!("{name}_is_caught");
        Model::new(name, Preemptions(2), scenario).control(
            control,
            Fault::FailureTakenForSuccess,
            UNEXPLAINED,
        )
    }));
    models
}
