//! Idle keys: callers whose clocks may differ take over the keys' cells, while the keys return.
//!
//! Properties, in every model:
//! * By the callers' own times no key is admitted above its bound.
//! * At every moment at most one live cell carries a key.
//! * At the end no key has more left than its admissions allow, and no claim is left.
//!
//! These models are sufficient because a reclaim changes one word and leaves only one trace: the floor, below which
//! keys may have been forgotten. Two things can go wrong. A charge can come between the reclaim's load and its
//! compare-and-swap, or a key can return with an earlier time, in its other shard. The models include both cases, with
//! one cell in each of three shards. The first cell holds the key and is needed by the new key. The key can return to
//! the second cell. The third cell would be the new key's other choice, but it is taken.

use loom_tests::race::{ask, ask_all, race};
use loom_tests::suite::{Bound, Model};
use loom_tests::table::{ModelKey, ModelTable, key_in, table};
use loom_tests::verdict::{
    ABOVE_BOUND, LOST_CHARGE, assert_admitted, assert_bound, assert_no_claims,
};
use tollgate::control::{self, Fault};

/// A table of three shards and two keys. The first key has the first two shards, and the second key the first and the
/// last. A third key holds the last shard's cell for longer than any model runs.
fn crowded() -> (std::sync::Arc<ModelTable>, [ModelKey; 2]) {
    let table = table("gcra 1/s burst 2", 3, 1);
    let filler = key_in(&table, [2, 2], 1);
    assert_admitted(&ask_all(&*table, &[ask(filler, 2, 20_000)]));
    let keys = [key_in(&table, [0, 1], 1), key_in(&table, [0, 2], 1)];
    (table, keys)
}

/// A key that has spent its burst of 2 at 10 s, and another key. Then each thread makes requests for the two keys. A
/// request says whether it is for the first key, its cost, and its time.
fn returns(lists: &[&[(bool, u64, u64)]]) {
    // All times lie within one epoch, so headers need not record the floor that was read, which the models in `floor`
    // need.
    control::count_apart(true);
    control::mark_floors(false);
    let (table, [key, other]) = crowded();
    let setup = ask_all(&*table, &[ask(key, 2, 10_000)]);
    assert_admitted(&setup);
    let to_ask = |&(is_key, cost, now_ms): &(bool, u64, u64)| {
        ask(if is_key { key } else { other }, cost, now_ms)
    };
    let lists = lists.iter().map(|list| list.iter().map(to_ask).collect()).collect();
    let calls = race(&table, lists).concat();
    for key in [key, other] {
        assert_bound(&table, 2, key, &[&setup, &calls]);
    }
    assert_no_claims(&table);
}

/// 2 threads: a new key takes the idle cell at 20 s, while the other thread, still at 10 s, asks for the key that had
/// the cell.
fn late_return() {
    returns(&[&[(true, 1, 10_000)], &[(false, 1, 20_000)]]);
}

/// 2 threads as in [`late_return`], but the late thread asks twice, at a time when the old word has one unit left.
fn late_return_with_a_unit() {
    returns(&[&[(true, 1, 11_000), (true, 1, 11_000)], &[(false, 2, 20_000)]]);
}

/// 2 threads ask for one new key at 10 s. One of them then asks for another key at 20 s, which takes the first key's
/// cell. This thread may make all of its requests while the other thread has only begun.
fn forgotten_meanwhile() {
    // All times lie within one epoch, so headers need not record the floor that was read, which the models in `floor`
    // need.
    control::count_apart(true);
    control::mark_floors(false);
    let (table, [key, other]) = crowded();
    let lists = vec![vec![ask(key, 2, 10_000)], vec![ask(key, 2, 10_000), ask(other, 2, 20_000)]];
    let calls = race(&table, lists).concat();
    for key in [key, other] {
        assert_bound(&table, 2, key, &[&calls]);
    }
    assert_no_claims(&table);
}

/// 2 threads: one charges the idle word while the other takes its cell.
fn charge() {
    returns(&[&[(true, 2, 20_000)], &[(false, 2, 20_000)]]);
}

/// 2 threads: each asks twice. When the new key asks again, it may have lost its cell to the returned key.
fn charge_twice() {
    returns(&[&[(true, 1, 20_000), (true, 1, 20_000)], &[(false, 1, 20_000), (false, 1, 20_000)]]);
}

/// 3 threads: two return, one late and one in time, and the third asks for a new key that needs the cell of both. An
/// install ends after it has lost one round.
fn returns_and_a_newcomer() {
    control::use_rounds(1);
    returns(&[&[(true, 2, 10_000)], &[(true, 2, 20_000)], &[(false, 2, 20_000)]]);
}

pub(crate) fn models() -> Vec<Model> {
    use Bound::{None as Whole, Preemptions};
    vec![
        Model::new("late_return", Whole, late_return)
            .control("forgetting_by_own_clock_is_caught", Fault::ForgetByOwnClock, LOST_CHARGE)
            .control("floor_left_out_of_base_is_caught", Fault::FloorLeftOutOfBase, ABOVE_BOUND)
            .control("one_floor_left_out_is_caught", Fault::OneFloorLeftOut, ABOVE_BOUND)
            .control("late_tested_at_floor_is_caught", Fault::LateTestedAtFloor, ABOVE_BOUND),
        Model::new("late_return_with_a_unit", Whole, late_return_with_a_unit).control(
            "late_unit_tested_at_floor_is_caught",
            Fault::LateTestedAtFloor,
            ABOVE_BOUND,
        ),
        Model::new("forgotten_meanwhile", Preemptions(3), forgotten_meanwhile)
            .control("floors_before_the_claim_is_caught", Fault::FloorsBeforeClaim, ABOVE_BOUND)
            .control("forgotten_by_own_clock_is_caught", Fault::ForgetByOwnClock, ABOVE_BOUND),
        Model::new("charge_of_an_idle_key", Whole, charge)
            .control(
                "reclaim_without_exact_word_is_caught",
                Fault::ReclaimWithoutExactWord,
                LOST_CHARGE,
            )
            .control("charge_over_a_reclaim_is_caught", Fault::PlainStoreForCas, LOST_CHARGE),
        Model::new("charge_twice_of_an_idle_key", Whole, charge_twice).control(
            "an_unwritten_charge_of_an_idle_key_is_caught",
            Fault::FailureTakenForSuccess,
            LOST_CHARGE,
        ),
        Model::new("returns_and_a_newcomer", Preemptions(3), returns_and_a_newcomer).control(
            "returns_forgotten_by_own_clock_is_caught",
            Fault::ForgetByOwnClock,
            ABOVE_BOUND,
        ),
    ]
}
