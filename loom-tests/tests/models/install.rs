//! New keys: several threads at once ask for a key that has no cell.
//!
//! Properties, in every model:
//! * At every moment at most one live cell carries a key. Under loom the core asserts this on the newest words after
//!   each install.
//! * By the callers' own times no key is admitted above its bound.
//! * At the end no key has more left than its admissions allow, and no claim is left.
//!
//! These models are sufficient because two installs of a key meet only in the cells of its two shards and their
//! headers. The smallest tables in which two installs can choose different cells have two cells in one shard, or one
//! cell in each of two shards. Three threads are needed for one of them to overtake a stalled install while another
//! repeats the word of that install.

use std::sync::Arc;

use loom_tests::race::{ask, ask_all, race};
use loom_tests::suite::{Bound, Model};
use loom_tests::table::{ModelKey, ModelTable, key_in, table};
use loom_tests::verdict::{
    ABOVE_BOUND, LEFT_CLAIM, LOST_CHARGE, REFUSED, TWO_LIVE, assert_admitted, assert_bound,
    assert_intervals, assert_no_claims,
};
use tollgate::control::{self, Fault};

/// A table whose headers are written only to move a floor, so that threads race only for the cells.
fn cells_of(policy: &str, shards: u32, cells: usize) -> Arc<ModelTable> {
    control::count_apart(true);
    control::mark_floors(false);
    table(policy, shards, cells)
}

/// Threads ask for one new key at one instant, in a shard of `cells` cells. Each thread asks as often as `asks` says.
fn same_key(asks: &[usize], burst: u64, cells: usize) {
    let table = cells_of(&format!("gcra 1/s burst {burst}"), 1, cells);
    let key = key_in(&table, [0, 0], 1);
    let lists: Vec<_> = asks.iter().map(|&asks| vec![ask(key, 1, 5_000); asks]).collect();
    let calls = race(&table, lists).concat();
    assert_bound(&table, burst, key, &[&calls]);
    assert_no_claims(&table);
    // Threads that take over each other's claims may use up their rounds. Then they are denied, and counted as
    // contended.
    let admitted = calls.iter().filter(|call| call.allowed).count() as u64;
    let contended = table.stats().contended;
    let told = format!("{contended} contended, {calls:?}");
    assert!(admitted + contended >= burst.min(calls.len() as u64), "{REFUSED}: {told}");
}

/// Threads that ask for one new key and disagree on which cell it can take, with one cell in each of two shards. The
/// cell of the key's second shard holds an idle key. The cell of its first shard holds a key that is busy until 12 s,
/// so only threads with later times can take it. If `once` is true, an install ends after it has lost one round.
fn unlike_cells(nows_ms: &[u64], once: bool) {
    if once {
        control::use_rounds(1);
    }
    let table = cells_of("gcra 1/s burst 4", 2, 1);
    let key = key_in(&table, [0, 1], 1);
    let [old, older] = [key_in(&table, [0, 1], 2), key_in(&table, [1, 1], 1)];
    assert_admitted(&ask_all(&*table, &[ask(older, 1, 8_000), ask(old, 2, 10_000)]));
    let calls = race(&table, nows_ms.iter().map(|&now_ms| vec![ask(key, 1, now_ms)]).collect());
    assert_bound(&table, 4, key, &[&calls.concat()]);
    assert_no_claims(&table);
}

/// 2 threads with one key each, and one free cell: one key gets the cell, and the other is denied because the shard is
/// full.
fn last_free_cell() {
    let table = cells_of("gcra 1/s burst 1", 1, 2);
    let [old, one, other] = [1, 2, 3].map(|nth| key_in(&table, [0, 0], nth));
    let setup = ask_all(&*table, &[ask(old, 1, 5_000)]);
    let calls = race(&table, vec![vec![ask(one, 1, 5_000)], vec![ask(other, 1, 5_000)]]).concat();
    for key in [old, one, other] {
        assert_bound(&table, 1, key, &[&setup, &calls]);
    }
    assert_no_claims(&table);
    let admitted = calls.iter().filter(|call| call.allowed).count();
    assert!(admitted <= 1, "{ABOVE_BOUND}: one cell, two keys: {calls:?}");
    assert!(admitted >= 1, "{REFUSED}: {calls:?}");
    assert_eq!(table.stats().live, 2, "{LOST_CHARGE}");
}

/// Threads ask for one new key and find its cell by a hint, as most installs do. There is one cell in each of two
/// shards, and the key's home is the upper one. The thread that comes second claims the lower cell, and has seen the
/// claim in the upper one, so this model does not need the fence.
fn hinted(asks: &[usize]) {
    control::use_vacancies(1);
    let table = cells_of("gcra 1/s burst 2", 2, 1);
    let key = key_in(&table, [1, 0], 1);
    let lists: Vec<_> = asks.iter().map(|&asks| vec![ask(key, 1, 5_000); asks]).collect();
    let calls = race(&table, lists).concat();
    assert_bound(&table, 2, key, &[&calls]);
    assert_no_claims(&table);
}

/// 2 threads: one brings a new key to a full shard, and the other asks for the keys that fill the shard. No key is
/// evicted.
fn full_set() {
    let table = cells_of("gcra 1/s burst 2", 1, 2);
    let [one, other, new] = [1, 2, 3].map(|nth| key_in(&table, [0, 0], nth));
    let setup = ask_all(&*table, &[ask(one, 1, 5_000), ask(other, 2, 5_000)]);
    let calls = race(
        &table,
        vec![
            vec![ask(new, 1, 5_000), ask(new, 1, 5_500)],
            vec![ask(one, 1, 5_000), ask(other, 1, 5_000), ask(one, 1, 5_500)],
        ],
    );
    assert!(calls[0].iter().all(|call| !call.allowed), "{ABOVE_BOUND}: evicted: {calls:?}");
    for key in [one, other] {
        assert_bound(&table, 2, key, &[&setup, &calls.concat()]);
    }
    assert_no_claims(&table);
}

/// 2 threads with different keys of one tag. The first shard of each key is the second shard of the other, so the table
/// takes them for one key. The cell of one shard stays taken, and the cell of the other shard is idle by the time
/// of the race.
fn equal_tags() {
    let table = cells_of("gcra 1/s burst 4", 3, 1);
    let one = key_in(&table, [0, 1], 1);
    let other = ModelKey { first: 1, ..one };
    let [busy, idle] = [0, 1].map(|shard| ModelKey { first: shard, tag: alone_in(&table, shard) });
    let setup = [ask(busy, 4, 10_000), ask(idle, 1, 10_000), ask(other, 4, 10_000)];
    let setup = ask_all(&*table, &setup);
    let calls = race(&table, vec![vec![ask(other, 3, 12_000)], vec![ask(one, 1, 12_000)]]).concat();
    for key in [one, other] {
        assert_intervals(4, key, &[&setup, &calls]);
    }
    assert_no_claims(&table);
}

/// The tag of a key whose two shards are both this one, in a table of 3 shards.
fn alone_in(table: &ModelTable, shard: u32) -> u32 {
    let index = usize::try_from(shard).expect("a shard");
    key_in(table, [index, index], 1).tag
}

/// 2 threads ask for one new key after another key has moved the floor. One of the threads first asks for a third key
/// at a time far behind that floor. That install is denied after it has made its claim. There are two cells besides the
/// cell of the key that moved the floor.
fn denied_newcomer() {
    let table = cells_of("gcra 1/s burst 1", 1, 3);
    // The new key takes the next cell while the install of the late key holds its claim.
    let [late, old, key] = [1, 2, 3].map(|nth| key_in(&table, [0, 0], nth));
    let now_ms = 1_000_000;
    assert_admitted(&ask_all(&*table, &[ask(old, 1, now_ms)]));
    let lists = vec![vec![ask(late, 1, 1_000), ask(key, 1, now_ms)], vec![ask(key, 1, now_ms)]];
    let calls = race(&table, lists).concat();
    assert!(!calls[0].allowed, "{ABOVE_BOUND}: below the floor");
    assert_bound(&table, 1, key, &[&calls]);
    assert_no_claims(&table);
}

pub(crate) fn models() -> Vec<Model> {
    use Bound::{None as Whole, Preemptions};
    vec![
        Model::new("same_key_by_two", Whole, || same_key(&[1, 1], 1, 2)).control(
            "opening_over_a_lost_claim_is_caught",
            Fault::OpenWithoutExactWord,
            ABOVE_BOUND,
        ),
        Model::new("same_key_in_the_last_cell", Whole, || same_key(&[1, 1], 2, 1)).control(
            "own_word_for_strangers_is_caught",
            Fault::OwnWordForStrangers,
            REFUSED,
        ),
        // The whole model has 2.3 million executions. One in twenty of these has at most seven preemptions.
        Model::new("same_key_again", Preemptions(7), || same_key(&[1, 2], 2, 2)).control(
            "an_unwritten_charge_is_caught",
            Fault::FailureTakenForSuccess,
            ABOVE_BOUND,
        ),
        Model::new("stalled_claim_is_helped", Whole, || same_key(&[1, 1], 1, 1)).control(
            "opening_a_claim_that_was_helped_is_caught",
            Fault::OpenWithoutExactWord,
            ABOVE_BOUND,
        ),
        Model::new("same_key_by_three", Preemptions(3), || {
            control::use_rounds(1);
            same_key(&[1, 1, 1], 2, 2);
        })
        .control("a_third_charge_is_caught", Fault::FailureTakenForSuccess, ABOVE_BOUND),
        Model::new("unlike_cells_by_two", Preemptions(3), || {
            unlike_cells(&[10_000, 13_000], false);
        })
        .control("no_verify_is_caught", Fault::NoVerify, TWO_LIVE)
        .control("no_fence_is_caught", Fault::NoFence, TWO_LIVE)
        .control("verify_ignores_live_is_caught", Fault::VerifyIgnoresLive, TWO_LIVE)
        .control("verify_ignores_lower_is_caught", Fault::VerifyIgnoresLower, TWO_LIVE)
        .control("verify_ignores_higher_is_caught", Fault::VerifyIgnoresHigher, TWO_LIVE),
        // Each survey of a full shard reads the shard twice, so with three preemptions there are millions of
        // executions.
        Model::new("unlike_cells_by_three", Preemptions(2), || {
            unlike_cells(&[13_000, 10_000, 10_000], true);
        })
        .control("equal_nonces_is_caught", Fault::EqualNonces, TWO_LIVE)
        .control("help_without_reclaim_is_caught", Fault::HelpWithoutReclaim, TWO_LIVE),
        // The whole model has 1.4 million executions.
        Model::new("hinted_cells_by_two", Preemptions(7), || hinted(&[1, 2]))
            .control("no_verify_of_a_hinted_cell_is_caught", Fault::NoVerify, TWO_LIVE)
            .control("a_hinted_live_word_ignored_is_caught", Fault::VerifyIgnoresLive, TWO_LIVE)
            .control("a_hinted_lower_claim_ignored_is_caught", Fault::VerifyIgnoresLower, TWO_LIVE)
            .control(
                "a_hinted_higher_claim_ignored_is_caught",
                Fault::VerifyIgnoresHigher,
                TWO_LIVE,
            ),
        Model::new("hinted_cells_by_three", Preemptions(2), || {
            control::use_rounds(1);
            hinted(&[1, 1, 1]);
        })
        .control("no_verify_by_three_is_caught", Fault::NoVerify, TWO_LIVE),
        Model::new("last_free_cell", Whole, last_free_cell).control(
            "a_cell_taken_twice_is_caught",
            Fault::ReclaimWithoutExactWord,
            ABOVE_BOUND,
        ),
        Model::new("full_set", Whole, full_set).control(
            "a_busy_key_evicted_is_caught",
            Fault::EvictLive,
            ABOVE_BOUND,
        ),
        Model::new("equal_tags", Preemptions(3), equal_tags).control(
            "overlapping_shard_pairs_is_caught",
            Fault::OverlappingShardPairs,
            ABOVE_BOUND,
        ),
        Model::new("denied_newcomer", Preemptions(3), denied_newcomer)
            .control("no_fence_after_a_denial_is_caught", Fault::NoFence, TWO_LIVE)
            .control("give_back_forgotten_is_caught", Fault::GiveBackForgotten, LEFT_CLAIM),
    ]
}
