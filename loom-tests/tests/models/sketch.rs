//! A sketch of two rows: the other row is charged first, then the emptier one decides.
//!
//! Properties: every key keeps its own bound in every interval, or in every window; and of single requests
//! that race for a key's units, enough are admitted. What a loser has left behind refuses no key that has
//! another row.
//!
//! Enough, because a request meets others only in the cells of its key: with two rows each is either the one
//! that decides or one that is charged before, and a third row would be one more of the second kind. A second
//! key shares one cell with the first, whichever of the two rows decides. Loom takes every read-modify-write
//! of one word in one order and does not reorder those of different words (`loom_tests`): what depends on
//! that is argued at the head of `src/sketch/cell.rs`, and not shown here.

use loom_tests::race::{Call, RaceRequest, ask_all, race};
use loom_tests::sketch::{Sketch, key_with, sketch};
use loom_tests::suite::{Bound, Model};
use loom_tests::table::ModelKey;
use loom_tests::verdict::{ABOVE_BOUND, REFUSED, assert_admitted, assert_intervals};
use tollgate::control::{Fault, fail_spuriously};

fn ask(key: ModelKey, cost: u64, now_ms: u64) -> RaceRequest {
    RaceRequest { key, cost, now_ms }
}

fn gcra(burst: u64) -> std::sync::Arc<Sketch> {
    sketch(&format!("gcra 1/s burst {burst}"))
}

fn admitted(calls: &[Call]) -> u64 {
    calls.iter().filter(|call| call.allowed).map(|call| call.ask.cost).sum()
}

/// Threads ask for single units of one key at one instant, each so often.
fn one_key(burst: u64, threads: usize, times: usize) {
    let sketch = gcra(burst);
    let key = key_with(&sketch, [0, 0]);
    let calls = race(&sketch, vec![vec![ask(key, 1, 5_000); times]; threads]).concat();
    assert_intervals(burst, key, &[&calls]);
    assert_eq!(admitted(&calls), burst.min(calls.len() as u64), "{REFUSED}: {calls:?}");
}

/// 2 threads, a key each; the keys share their cell in the first row. The second key is a second late. The key
/// that loses that cell to the other is denied, and has left its cost in its other cell: one key may get
/// nothing, but not both.
fn shared_cell() {
    let sketch = gcra(1);
    let keys = [[0, 0], [0, 1]].map(|cells| key_with(&sketch, cells));
    let lists = vec![vec![ask(keys[1], 1, 4_000); 2], vec![ask(keys[0], 1, 5_000); 2]];
    let calls = race(&sketch, lists).concat();
    // Once more, after both: the other's charge of the shared cell must not have given the key a unit.
    let after = ask_all(&*sketch, &keys.map(|key| ask(key, 1, 5_000)));
    for key in keys {
        assert_intervals(1, key, &[&calls, &after]);
    }
    assert!(admitted(&calls) >= 1, "{REFUSED}: {calls:?}");
}

/// 3 threads: two ask for one key, one for another that shares a cell with it.
fn shared_cell_by_three() {
    let sketch = gcra(1);
    let keys = [[0, 0], [0, 1]].map(|cells| key_with(&sketch, cells));
    let lists = [keys[1], keys[0], keys[0]].map(|key| vec![ask(key, 1, 5_000)]);
    let calls = race(&sketch, lists.to_vec()).concat();
    for key in keys {
        assert_intervals(1, key, &[&calls]);
    }
}

/// 2 threads race for one unit. The loser's cost stays in the row that did not decide; when the unit is back
/// the other row admits.
fn loser() {
    let sketch = gcra(1);
    let key = key_with(&sketch, [0, 0]);
    let calls = race(&sketch, vec![vec![ask(key, 1, 5_000)]; 2]).concat();
    assert_eq!(admitted(&calls), 1, "{ABOVE_BOUND} or {REFUSED}: {calls:?}");
    let after = ask_all(&*sketch, &[ask(key, 1, 6_000)]);
    assert_admitted(&after);
    assert_intervals(1, key, &[&calls, &after]);
}

/// 2 threads ask for 2 units of 3, one of them a second late. What comes last must find both.
fn late_in_flight() {
    let sketch = gcra(3);
    let key = key_with(&sketch, [0, 0]);
    let calls = race(&sketch, vec![vec![ask(key, 2, 5_000)], vec![ask(key, 2, 6_000)]]).concat();
    let after = ask_all(&*sketch, &[ask(key, 1, 6_000)]);
    assert_intervals(3, key, &[&calls, &after]);
}

/// 2 threads at the turn of a window of 2 units, at 6 s: one asks at its end, the other before and twice after
/// it. `most` is what two windows that follow each other admit.
fn turn(policy: &str, most: u64) {
    let sketch = sketch(policy);
    let key = key_with(&sketch, [0, 0]);
    let setup = ask_all(&*sketch, &[ask(key, 1, 5_100)]);
    assert_admitted(&setup);
    let turner = [5_800, 6_200, 6_300].map(|now_ms| ask(key, 1, now_ms));
    let calls = race(&sketch, vec![vec![ask(key, 1, 5_900)], turner.to_vec()]).concat();
    let in_time: Vec<_> = calls.iter().copied().filter(|call| call.ask.now_ms >= 6_000).collect();
    assert!(admitted(&in_time) <= 2, "{ABOVE_BOUND}: {calls:?}");
    assert!(admitted(&setup) + admitted(&calls) <= most, "{ABOVE_BOUND}: {calls:?}");
}

/// 2 threads race for one unit while compare-and-swaps fail spuriously.
fn weak(mask: u32) {
    fail_spuriously(mask);
    one_key(1, 2, 1);
}

pub(crate) fn models() -> Vec<Model> {
    use Bound::{None as Whole, Preemptions};
    vec![
        Model::new("one_key_two_threads", Whole, || one_key(2, 2, 2))
            .control("a_decision_without_cas_is_caught", Fault::PlainStoreForCas, ABOVE_BOUND)
            .control("others_not_charged_is_caught", Fault::OthersNotCharged, ABOVE_BOUND)
            .control("others_charged_late_is_caught", Fault::OthersChargedLate, ABOVE_BOUND),
        Model::new("one_key_three_threads", Preemptions(3), || one_key(2, 3, 1)).control(
            "others_charged_late_by_three_is_caught",
            Fault::OthersChargedLate,
            ABOVE_BOUND,
        ),
        Model::new("one_unit_three_threads", Preemptions(3), || one_key(1, 3, 1)).control(
            "a_lost_step_taken_for_won_is_caught",
            Fault::FailureTakenForSuccess,
            ABOVE_BOUND,
        ),
        Model::new("shared_cell", Whole, shared_cell).control(
            "an_add_that_lowers_is_caught",
            Fault::AddLowersRow,
            ABOVE_BOUND,
        ),
        Model::new("shared_cell_by_three", Preemptions(3), shared_cell_by_three).control(
            "shared_cell_charged_late_is_caught",
            Fault::OthersChargedLate,
            ABOVE_BOUND,
        ),
        Model::new("loser", Whole, loser)
            .control("a_losers_row_that_decides_is_caught", Fault::FullestRowDecides, REFUSED)
            .control("a_losers_row_not_charged_is_caught", Fault::OthersNotCharged, ABOVE_BOUND),
        Model::new("late_in_flight", Whole, late_in_flight).control(
            "an_add_that_stops_early_is_caught",
            Fault::AddStopsAtBurst,
            ABOVE_BOUND,
        ),
        Model::new("fixed_turn", Whole, || turn("fixed-window 2/s", 4)).control(
            "a_turned_row_that_decides_is_caught",
            Fault::TurnedRowDecides,
            ABOVE_BOUND,
        ),
        Model::new("strict_turn", Whole, || turn("sliding-window 2/s strict", 2)).control(
            "a_strict_turn_not_charged_is_caught",
            Fault::OthersNotCharged,
            ABOVE_BOUND,
        ),
        Model::new("weak_mask_101", Whole, || weak(0b101)).control(
            "weak_mask_101_taken_for_won_is_caught",
            Fault::FailureTakenForSuccess,
            ABOVE_BOUND,
        ),
    ]
}
