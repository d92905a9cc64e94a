//! Tables with units of two shards: a unit is a pair of shards side by side, and a key may live in two units. The other
//! models have units of one shard. These models cover what the others leave out.
//!
//! Properties, in every model:
//! * At every moment at most one live cell carries a key, or two keys that the table takes for one.
//! * By the callers' own times no key is admitted above its bound.
//! * At the end no claim is left.
//!
//! Four shards with one cell each make two units, as many as any key has. These models are sufficient because an
//! install searches its key's shards as one list, whatever units they belong to. So it is enough that two threads meet
//! in a shard that is not the home of both. They meet in each step that uses the list: where an install scans the cells
//! after its claim, where it reads the floors, and where a spiller looks again. In one model two keys of one tag have
//! different homes.

use std::sync::Arc;

use loom_tests::race::{ask, ask_all, race};
use loom_tests::suite::{Bound, Model};
use loom_tests::table::{ModelKey, ModelTable, key_in, spilling_table, table};
use loom_tests::verdict::{
    ABOVE_BOUND, LOST_CHARGE, TWO_LIVE, assert_admitted, assert_bound, assert_intervals,
    assert_no_claims,
};
use tollgate::control::{self, Fault};

const QUOTA: &str = "gcra 1/s burst 4";

/// All times lie within one epoch, so headers need not record the floor that was read.
fn settings() {
    control::use_unit(2);
    control::use_rounds(1);
    control::count_apart(true);
    control::mark_floors(false);
}

/// A key whose two units are both this one, with this shard as its home. Each shard's key has a different tag, because
/// the table takes two keys of one tag and one unit for the same key.
fn alone_in(table: &ModelTable, shard: usize) -> ModelKey {
    key_in(table, [shard, shard], 1 + shard)
}

/// A table of two units in which every cell is taken. The cell of the key's home shard is busy until 12 s, and that of
/// the second unit's first shard until 9 s. The cells of the other two shards are busy for the whole model.
fn held() -> (Arc<ModelTable>, ModelKey) {
    settings();
    let table = table(QUOTA, 4, 1);
    let key = key_in(&table, [0, 2], 1);
    let [home, sibling, second, last] = [0, 1, 2, 3].map(|shard| alone_in(&table, shard));
    let setup = [
        ask(second, 1, 8_000),
        ask(home, 2, 10_000),
        ask(sibling, 4, 10_000),
        ask(last, 4, 10_000),
    ];
    assert_admitted(&ask_all(&*table, &setup));
    (table, key)
}

/// Threads that ask for one new key and disagree on where it can go: to its home, or to its second unit.
fn unlike_units(nows_ms: &[u64]) {
    let (table, key) = held();
    let calls = race(&table, nows_ms.iter().map(|&now_ms| vec![ask(key, 1, now_ms)]).collect());
    assert_bound(&table, 4, key, &[&calls.concat()]);
    assert_no_claims(&table);
}

/// 2 threads: at 20 s, one takes the idle cell of `key` at its home for another key. The second thread, still at 10 s,
/// asks for `key`. If the cell has been taken by then, only the second unit of `key` has room for it.
fn late_return() {
    settings();
    let table = table("gcra 1/s burst 2", 4, 1);
    let (key, other) = (key_in(&table, [0, 2], 1), alone_in(&table, 0));
    let [sibling, last] = [1, 3].map(|shard| alone_in(&table, shard));
    let setup = [ask(sibling, 2, 20_000), ask(last, 2, 20_000), ask(key, 2, 10_000)];
    let setup = ask_all(&*table, &setup);
    assert_admitted(&setup);
    let calls = race(&table, vec![vec![ask(key, 1, 10_000)], vec![ask(other, 2, 20_000)]]).concat();
    for key in [key, other] {
        assert_bound(&table, 2, key, &[&setup, &calls]);
    }
    assert_no_claims(&table);
}

/// 2 threads with different keys of one tag, whose homes are the two shards of one unit. The table takes them for one
/// key. At 13 s two cells are idle, one in each of the key's two units, and all other cells are busy.
fn siblings_of_one_tag() {
    let (table, one) = held();
    let other = ModelKey { first: 1, ..one };
    let calls = race(&table, vec![vec![ask(one, 4, 13_000)], vec![ask(other, 4, 10_000)]]).concat();
    // The table takes the two keys for one, so together they have one burst of four.
    let admitted: u64 = calls.iter().filter(|call| call.allowed).map(|call| call.ask.cost).sum();
    assert!(admitted <= 4, "{ABOVE_BOUND}: {calls:?}");
    assert_no_claims(&table);
}

/// 2 threads ask for a key's whole burst: one while every cell is busy, the other when the cell of its second unit is
/// idle. The key's charge in the spill is carried over to that cell.
fn hand_over() {
    settings();
    let table = spilling_table(QUOTA, 4, 1);
    let key = key_in(&table, [0, 2], 1);
    let strangers = [0, 1, 2, 3].map(|shard| alone_in(&table, shard));
    let setup = strangers.map(|key| ask(key, if key.first == 2 { 1 } else { 4 }, 10_000));
    assert_admitted(&ask_all(&*table, &setup));
    let calls = race(&table, vec![vec![ask(key, 4, 10_500)], vec![ask(key, 4, 12_000)]]).concat();
    assert_intervals(4, key, &[&calls]);
    assert_no_claims(&table);
}

pub(crate) fn models() -> Vec<Model> {
    use Bound::Preemptions;
    vec![
        Model::new("unlike_units_by_two", Preemptions(2), || unlike_units(&[10_000, 13_000]))
            .control("no_verify_in_units_is_caught", Fault::NoVerify, TWO_LIVE)
            .control("no_fence_in_units_is_caught", Fault::NoFence, TWO_LIVE)
            .control("verify_of_units_ignores_live_is_caught", Fault::VerifyIgnoresLive, TWO_LIVE),
        Model::new("late_return_to_the_second_unit", Preemptions(2), late_return)
            .control("three_floors_left_out_is_caught", Fault::OneFloorLeftOut, ABOVE_BOUND)
            .control(
                "units_forgotten_by_own_clock_is_caught",
                Fault::ForgetByOwnClock,
                LOST_CHARGE,
            ),
        Model::new("siblings_of_one_tag", Preemptions(2), siblings_of_one_tag).control(
            "no_verify_of_siblings_is_caught",
            Fault::NoVerify,
            TWO_LIVE,
        ),
        Model::new("hand_over_to_the_second_unit", Preemptions(2), hand_over)
            .control("units_left_unscanned_is_caught", Fault::SpillUnscanned, ABOVE_BOUND)
            .control("no_estimate_in_units_is_caught", Fault::EstimateLeftOut, ABOVE_BOUND),
    ]
}
