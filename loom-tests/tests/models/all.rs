//! One request under several limits, charged to all of them or to none, while other threads charge the same words.
//!
//! Properties: no limit admits above its bound. If a request is denied after some limits have charged it, each of them
//! gives the charge back. A charge may stay only in a limit that another request has charged in between. If two
//! requests are denied, the charge of at most one of them stays in a limit.
//!
//! These models are sufficient because an undo changes one word once. Something can go wrong only if another charge
//! comes between the request's own charge and its undo, or between the undo's load and its compare-and-swap. If a
//! request names a limit of one unit twice, it is denied whatever the other threads do, so the undo happens in every
//! execution. Two threads that name two limits in opposite orders are enough for two requests to deny each other.

use std::sync::Arc;

use loom::thread;
use loom_tests::race::{Call, RaceRequest, ask_all};
use loom_tests::sketch::{Sketch, key_with, sketch};
use loom_tests::suite::{Bound, Model};
use loom_tests::table::{ModelKey, ModelTable, key_in, table, table_with_clock};
use loom_tests::verdict::{ABOVE_BOUND, LOST_CHARGE, assert_bound, assert_no_claims};
use tollgate::control::{self, Fault};
use tollgate::{Limiter, ManualClock, Quota, StripedLimiter, Timestamp, check_all};

use super::verbs::limiter;

/// The message when units are missing: they were not admitted, and they are not left either.
const STAYED: &str = "a denied request stays charged";

const NOW: Timestamp = Timestamp::from_secs(10);

/// One unit per second. Checks that the units admitted and left make up the burst. Up to `stays` units of denied
/// requests may stay charged.
fn account(burst: u64, admitted: u64, left: u64, stays: u64) {
    assert!(admitted <= burst, "{ABOVE_BOUND}: {admitted} admitted of {burst}");
    assert!(admitted + left <= burst, "{LOST_CHARGE}: {admitted} admitted, {left} left");
    assert!(admitted + left + stays >= burst, "{STAYED}: {admitted} admitted, {left} left");
}

/// 2 threads name 2 limits of one unit in opposite orders. One request is admitted, or none is, and then both units are
/// left.
fn opposite_orders() {
    let limits = [limiter(1), limiter(1)];
    let others = limits.clone();
    let other = thread::spawn(move || {
        check_all(&mut [others[1].entry().at(NOW).cost(1), others[0].entry().at(NOW).cost(1)])
            .is_allowed()
    });
    let own =
        check_all(&mut [limits[0].entry().at(NOW).cost(1), limits[1].entry().at(NOW).cost(1)])
            .is_allowed();
    let other = other.join().expect("the other thread");
    let admitted = u64::from(own) + u64::from(other);
    for limit in limits {
        account(1, admitted, limit.entry().at(NOW).peek(0).remaining(), 0);
    }
}

/// 2 threads share a limit. One thread's request is charged to it and then denied by a limit that only this thread
/// uses.
fn against_a_charge() {
    let shared = limiter(3);
    let other = Arc::clone(&shared);
    let other = thread::spawn(move || {
        (0..2).filter(|_| other.entry().at(NOW).check().is_allowed()).count() as u64
    });
    let own = limiter(1);
    let denied = check_all(&mut [
        shared.entry().at(NOW).cost(1),
        own.entry().at(NOW).cost(1),
        own.entry().at(NOW).cost(1),
    ]);
    assert_eq!(denied.denied_by(), Some(2));
    let admitted = other.join().expect("the other thread");
    account(3, admitted, shared.entry().at(NOW).peek(0).remaining(), 1);
    account(1, 0, own.entry().at(NOW).peek(0).remaining(), 0);
}

/// Like [`against_a_charge`], but by the limits' own clock, which stands still. A charge is given back even if it is
/// undone after the other thread's charges, except for the part that drains in about 1 ms. An undo allows for such a
/// difference between the clock readings of two threads.
fn by_own_clock(is_keyed: bool) {
    control::use_rounds(2);
    control::count_apart(true);
    control::mark_floors(false);
    let clock = ManualClock::new();
    clock.set(NOW);
    let one = Limiter::builder(Quota::per_second(1).burst(4)).clock(clock.clone()).build();
    let table = table_with_clock("gcra 1/s burst 4", 1, 1, clock.clone());
    let key = key_in(&table, [0, 0], 1);
    let limits = Arc::new((one, table));
    let check = move |limits: &(Limiter, Arc<ModelTable>)| {
        if is_keyed { limits.1.check(&key) } else { limits.0.check() }.is_allowed()
    };
    assert!(check(&limits));
    let others = Arc::clone(&limits);
    let other = thread::spawn(move || (0..2).filter(|_| check(&others)).count() as u64);
    let own = limiter(1);
    let shared = if is_keyed { limits.1.entry(&key).cost(1) } else { limits.0.entry().cost(1) };
    assert!(
        !check_all(&mut [shared, own.entry().cost(1), own.entry().cost(1)]).is_allowed(),
        "{ABOVE_BOUND}"
    );
    let admitted = 1 + other.join().expect("the other thread");
    let later = NOW + std::time::Duration::from_millis(3);
    let left = if is_keyed {
        limits.1.entry(&key).at(later).peek(0)
    } else {
        limits.0.entry().at(later).peek(0)
    };
    account(4, admitted, left.remaining(), 0);
}

/// 2 threads whose requests are both denied after both were charged to one limit. One of the charges may stay, but not
/// both, because the requests are undone in some order.
fn two_undos() {
    let shared = limiter(2);
    let ask = |shared: &Limiter| {
        let own = limiter(1);
        check_all(&mut [
            shared.entry().at(NOW).cost(1),
            own.entry().at(NOW).cost(1),
            own.entry().at(NOW).cost(1),
        ])
        .is_allowed()
    };
    let other = Arc::clone(&shared);
    let other = thread::spawn(move || ask(&other));
    assert!(!ask(&shared));
    assert!(!other.join().expect("the other thread"));
    account(2, 0, shared.entry().at(NOW).peek(0).remaining(), 1);
}

/// Asks for one unit of a key, and twice for one unit of a limit that has only one. That limit denies the request.
fn denied_after(table: &ModelTable, key: ModelKey, now: Timestamp) {
    let own = limiter(1);
    let denied = check_all(&mut [
        table.entry(&key).at(now).cost(1),
        own.entry().at(now).cost(1),
        own.entry().at(now).cost(1),
    ]);
    assert!(!denied.is_allowed(), "{ABOVE_BOUND}");
}

/// 2 threads and a key, new or already there. One thread's request is denied after the key was charged; the other
/// thread charges the key twice, the second time at `last_ms`.
fn key(is_there: bool, last_ms: u64) {
    control::use_rounds(1);
    control::count_apart(true);
    control::mark_floors(last_ms > 100_000);
    let table = table("gcra 1/s burst 3", 1, 1);
    let key = key_in(&table, [0, 0], 1);
    let one = move |now_ms| RaceRequest { key, cost: 1, now_ms };
    let setup: &[RaceRequest] = if is_there { &[one(9_500)] } else { &[] };
    let setup = ask_all(&*table, setup);
    let other = Arc::clone(&table);
    let other = thread::spawn(move || ask_all(&*other, &[one(10_000), one(last_ms)]));
    denied_after(&table, key, NOW);
    let calls: Vec<Call> = other.join().expect("the other thread");
    assert_bound(&table, 3, key, &[&setup, &calls]);
    assert_no_claims(&table);
}

/// 2 threads and one shard. One thread's request is denied after it has charged a new key; the other thread brings in
/// another key. Nothing stays charged to the first key.
fn beside_a_newcomer() {
    control::use_rounds(2);
    control::count_apart(true);
    control::mark_floors(false);
    let table = table("gcra 1/s burst 3", 1, 2);
    let [key, other_key] = [1, 2].map(|nth| key_in(&table, [0, 0], nth));
    let other = Arc::clone(&table);
    let newcomer = RaceRequest { key: other_key, cost: 1, now_ms: 10_000 };
    let other = thread::spawn(move || ask_all(&*other, &[newcomer]));
    denied_after(&table, key, NOW);
    let calls: Vec<Call> = other.join().expect("the other thread");
    assert_bound(&table, 3, other_key, &[&calls]);
    assert_no_claims(&table);
    account(3, 0, table.entry(&key).at(NOW).peek(0).remaining(), 0);
}

/// 2 threads ask a sketch of two units, then a limit of one. One request is admitted, and only that request stays
/// charged to the sketch.
fn with_a_sketch() {
    let (shared, own) = (sketch("gcra 1/s burst 2"), limiter(1));
    let key = key_with(&shared, [0, 0]);
    let ask = move |shared: &Sketch, own: &Limiter| {
        check_all(&mut [shared.entry(&key).at(NOW).cost(1), own.entry().at(NOW).cost(1)])
            .is_allowed()
    };
    let others = (Arc::clone(&shared), Arc::clone(&own));
    let other = thread::spawn(move || ask(&others.0, &others.1));
    let admitted = u64::from(ask(&shared, &own));
    let admitted = admitted + u64::from(other.join().expect("the other thread"));
    account(2, admitted, shared.entry(&key).at(NOW).peek(0).remaining(), 0);
    account(1, admitted, own.entry().at(NOW).peek(0).remaining(), 0);
}

/// 2 threads: one thread's request is denied after a stripe was charged; the other thread charges the stripes. Neither
/// gives a time, so the stripes are charged by their own clock, which stands still. The first thread's charge is
/// therefore given back even if it is undone after the other thread's charge.
fn with_stripes() {
    let (quota, clock) = (Quota::per_second(1).burst(4), ManualClock::new());
    clock.set(NOW);
    let stripes =
        StripedLimiter::builder(quota).stripes(2).clock(clock.clone()).build().expect("stripes");
    let shared = Arc::new(stripes);
    let other = Arc::clone(&shared);
    let other = thread::spawn(move || u64::from(other.check().is_allowed()));
    let own = limiter(1);
    let denied = check_all(&mut [shared.entry().cost(1), own.entry().cost(1), own.entry().cost(1)]);
    assert_eq!(denied.denied_by(), Some(2));
    let admitted = other.join().expect("the other thread");
    // An undo leaves out the part that drains in about 1 ms, the difference that it allows for between the clock
    // readings of two threads. By this time that part has drained as well.
    clock.set(NOW + std::time::Duration::from_millis(3));
    let left = (0..5).filter(|_| shared.check().is_allowed()).count() as u64;
    account(4, admitted, left, 0);
}

pub(crate) fn models() -> Vec<Model> {
    use Bound::{None as Whole, Preemptions};
    vec![
        Model::new("opposite_orders", Whole, opposite_orders)
            .control("an_undo_left_out_is_caught", Fault::UndoLeftOut, STAYED)
            .control("a_joint_plain_store_is_caught", Fault::PlainStoreForCas, ABOVE_BOUND),
        Model::new("all_with_a_sketch", Whole, with_a_sketch).control(
            "a_sketch_charged_in_its_turn_is_caught",
            Fault::SketchChargedInTurn,
            STAYED,
        ),
        Model::new("all_with_stripes", Whole, with_stripes).control(
            "an_undo_left_out_of_a_stripe_is_caught",
            Fault::UndoLeftOut,
            STAYED,
        ),
        Model::new("undo_against_a_charge", Whole, against_a_charge).control(
            "an_undo_over_a_charge_is_caught",
            Fault::UndoOverAnother,
            LOST_CHARGE,
        ),
        Model::new("undo_by_own_clock", Whole, || by_own_clock(false))
            .control(
                "an_undo_by_own_clock_over_a_charge_is_caught",
                Fault::UndoOverAnother,
                LOST_CHARGE,
            )
            .control("an_undo_by_own_clock_left_out_is_caught", Fault::UndoLeftOut, STAYED),
        Model::new("undo_of_a_key_by_own_clock", Whole, || by_own_clock(true))
            .control(
                "an_undo_of_a_key_over_a_charge_is_caught",
                Fault::UndoOverAnother,
                LOST_CHARGE,
            )
            .control("an_undo_of_a_key_left_out_is_caught", Fault::UndoLeftOut, STAYED),
        Model::new("two_undos", Whole, two_undos).control(
            "two_undos_left_out_is_caught",
            Fault::UndoLeftOut,
            STAYED,
        ),
        Model::new("undo_of_a_new_key", Whole, || key(false, 10_000)).control(
            "an_undo_over_a_new_keys_charge_is_caught",
            Fault::UndoOverAnother,
            LOST_CHARGE,
        ),
        Model::new("undo_of_a_known_key", Whole, || key(true, 10_000)).control(
            "an_undo_over_a_known_keys_charge_is_caught",
            Fault::UndoOverAnother,
            LOST_CHARGE,
        ),
        Model::new("undo_beside_a_newcomer", Whole, beside_a_newcomer).control(
            "an_undo_of_a_new_key_left_out_is_caught",
            Fault::UndoLeftOut,
            STAYED,
        ),
        Model::new("undo_across_a_floor", Preemptions(3), || key(true, 110_000)).control(
            "an_undo_over_a_charge_across_a_floor_is_caught",
            Fault::UndoOverAnother,
            LOST_CHARGE,
        ),
    ]
}
