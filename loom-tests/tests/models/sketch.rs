//! A sketch of two rows: a request first charges the row that owes more, and then the row that owes less decides.
//!
//! Properties: every key keeps its own bound in every interval, or in every window. If single requests race for a key's
//! units, as many are admitted as there are units. The cost that a denied request leaves behind causes no denial of a
//! key that has another row to itself.
//!
//! These models are sufficient because a request meets other requests only in the cells of its key. Of two rows one
//! decides and the other is charged before it. A third row would only be one more row that is charged before. A second
//! key shares one cell with the first, which may be in either of the two rows. Loom orders all read-modify-writes of
//! one word, and does not reorder those of different words (see `loom_tests`). So these models do not show the
//! properties that depend on such reordering. The head of `src/sketch/cell.rs` argues for them.

use loom_tests::race::{Call, ask, ask_all, race};
use loom_tests::sketch::{Sketch, key_with, sketch};
use loom_tests::suite::{Bound, Model};
use loom_tests::verdict::{ABOVE_BOUND, REFUSED, assert_admitted, assert_intervals};
use tollgate::control::{Fault, fail_spuriously};

fn gcra(burst: u64) -> std::sync::Arc<Sketch> {
    sketch(&format!("gcra 1/s burst {burst}"))
}

fn admitted(calls: &[Call]) -> u64 {
    calls.iter().filter(|call| call.allowed).map(|call| call.ask.cost).sum()
}

/// Each thread asks for a single unit of one key `times` times, all at one instant.
fn one_key(burst: u64, threads: usize, times: usize) {
    let sketch = gcra(burst);
    let key = key_with(&sketch, [0, 0]);
    let calls = race(&sketch, vec![vec![ask(key, 1, 5_000); times]; threads]).concat();
    assert_intervals(burst, key, &[&calls]);
    assert_eq!(admitted(&calls), burst.min(calls.len() as u64), "{REFUSED}: {calls:?}");
}

/// 2 threads with one key each. The keys share their cell in the first row. The second key asks with a time that is a
/// second behind. A key that loses the shared cell to the other key is denied, and leaves its cost in its unshared
/// cell. So one key may get nothing, but not both.
fn shared_cell() {
    let sketch = gcra(1);
    let keys = [[0, 0], [0, 1]].map(|cells| key_with(&sketch, cells));
    let lists = vec![vec![ask(keys[1], 1, 4_000); 2], vec![ask(keys[0], 1, 5_000); 2]];
    let calls = race(&sketch, lists).concat();
    // Both keys ask again: no key may have gained a unit from the other key's charge of the shared cell.
    let after = ask_all(&*sketch, &keys.map(|key| ask(key, 1, 5_000)));
    for key in keys {
        assert_intervals(1, key, &[&calls, &after]);
    }
    assert!(admitted(&calls) >= 1, "{REFUSED}: {calls:?}");
}

/// 3 threads: two ask for one key, and the third for another key that shares a cell with it.
fn shared_cell_by_three() {
    let sketch = gcra(1);
    let keys = [[0, 0], [0, 1]].map(|cells| key_with(&sketch, cells));
    let lists = [keys[1], keys[0], keys[0]].map(|key| vec![ask(key, 1, 5_000)]);
    let calls = race(&sketch, lists.to_vec()).concat();
    for key in keys {
        assert_intervals(1, key, &[&calls]);
    }
}

/// 2 threads race for one unit. The loser's cost stays in the row that did not decide. A second later the unit has
/// drained, and the other row admits a request.
fn loser() {
    let sketch = gcra(1);
    let key = key_with(&sketch, [0, 0]);
    let calls = race(&sketch, vec![vec![ask(key, 1, 5_000)]; 2]).concat();
    assert_eq!(admitted(&calls), 1, "{ABOVE_BOUND} or {REFUSED}: {calls:?}");
    let after = ask_all(&*sketch, &[ask(key, 1, 6_000)]);
    assert_admitted(&after);
    assert_intervals(1, key, &[&calls, &after]);
}

/// 2 threads ask for 2 of 3 units each. One of the threads is a second behind. A request after both must see both
/// charges.
fn late_in_flight() {
    let sketch = gcra(3);
    let key = key_with(&sketch, [0, 0]);
    let calls = race(&sketch, vec![vec![ask(key, 2, 5_000)], vec![ask(key, 2, 6_000)]]).concat();
    let after = ask_all(&*sketch, &[ask(key, 1, 6_000)]);
    assert_intervals(3, key, &[&calls, &after]);
}

/// 2 threads at 6 s, when a window of 2 units ends. One asks just before the end, and the other once before and twice
/// after it. `most` is the largest number of units that two successive windows admit.
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
