//! Floors that advance while other threads charge, install, sweep and come late.
//!
//! Properties, in every model: no key is admitted above its bound, counted over the callers' own nows;
//! afterwards no key has more left than its admissions allow; an idle key is admitted.
//!
//! Times: an epoch is 102 s here, a word's time wraps at 512 s, and it is read from 307 s back on. Floors begin at 200 s,
//! so that a sweep could forget. So a check at 450 s moves the floor, more than once, and a word of 450 s dated by the
//! first floor reads as long expired; a word of 210 s that no thread swept reads as busy at 600 s.
//!
//! Enough, because a reader can meet an advance at four places only: before its first header, between header and
//! words, between words and second header, and after; two threads reach them all. A second advance, or a second
//! reader, repeats these.

use loom_tests::race::{RaceRequest, ask_all, race};
use loom_tests::suite::{Bound, Model};
use loom_tests::table::{ModelKey, ModelTable, key_in, table_with_clock};
use loom_tests::verdict::{
    ABOVE_BOUND, LOST_CHARGE, REFUSED, assert_admitted, assert_bound, assert_no_claims,
};
use tollgate::control::{self, Fault};
use tollgate::{ManualClock, Timestamp};

const START_MS: u64 = 200_000;
const BEFORE_MS: u64 = 210_000;
const AFTER_MS: u64 = 450_000;
const SILENCE_MS: u64 = 600_000;

fn ask(key: ModelKey, cost: u64, now_ms: u64) -> RaceRequest {
    RaceRequest { key, cost, now_ms }
}

/// A table whose floors stand where the times begin.
fn table(shards: u32, cells: usize) -> std::sync::Arc<ModelTable> {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_millis(START_MS));
    table_with_clock("gcra 1/s burst 1", shards, cells, clock)
}

/// One shard, some cells, two keys. An install gives up after one lost round, as it otherwise does after the last of
/// many.
fn shard(cells: usize) -> (std::sync::Arc<ModelTable>, [ModelKey; 2]) {
    control::count_apart(true);
    control::use_rounds(1);
    let table = table(1, cells);
    let keys = [1, 2].map(|nth| key_in(&table, [0, 0], nth));
    (table, keys)
}

/// 2 threads ask for one live key: one before the floor moves, one at a time that moves it.
fn charge() {
    let (table, [key, _]) = shard(2);
    let setup = ask_all(&*table, &[ask(key, 1, BEFORE_MS)]);
    let calls = race(&table, vec![vec![ask(key, 1, BEFORE_MS)], vec![ask(key, 1, AFTER_MS)]]);
    assert_bound(&table, 1, key, &[&setup, &calls.concat()]);
    assert_no_claims(&table);
}

/// 2 threads: one's clock runs forward over the floor and back, the other's is behind all the time.
fn backward() {
    let (table, [key, _]) = shard(2);
    let there_and_back = [AFTER_MS, BEFORE_MS, AFTER_MS].map(|now_ms| ask(key, 1, now_ms));
    let calls = race(&table, vec![vec![ask(key, 1, BEFORE_MS)], there_and_back.to_vec()]);
    assert_bound(&table, 1, key, &[&calls.concat()]);
    assert_no_claims(&table);
}

/// 2 threads move the floor, each for a newcomer of its own: one's sweep meets the other's new word.
fn sweeps() {
    let (table, [key, other]) = shard(2);
    let lists = vec![vec![ask(other, 1, 440_000)], vec![ask(key, 1, AFTER_MS)]];
    let calls = race(&table, lists).concat();
    for key in [key, other] {
        assert_bound(&table, 1, key, &[&calls]);
    }
    assert_no_claims(&table);
}

/// 2 threads and one cell, which an idle key has: a newcomer looks at the cell before the floor moves, another moves it.
fn install() {
    let (table, [key, other]) = shard(1);
    let old = key_in(&table, [0, 0], 3);
    assert_admitted(&ask_all(&*table, &[ask(old, 1, START_MS)]));
    let lists = vec![vec![ask(other, 1, BEFORE_MS)], vec![ask(key, 1, AFTER_MS)]];
    let calls = race(&table, lists).concat();
    for key in [key, other] {
        assert_bound(&table, 1, key, &[&calls]);
    }
    assert_no_claims(&table);
}

/// 2 threads after a long silence: the key that was there, and another. Both are idle: both are admitted, or one was
/// denied because of the other's install, and that is counted.
fn silence() {
    let (table, [key, other]) = shard(2);
    assert_admitted(&ask_all(&*table, &[ask(key, 1, BEFORE_MS)]));
    let lists = vec![vec![ask(key, 1, SILENCE_MS)], vec![ask(other, 1, SILENCE_MS)]];
    let calls = race(&table, lists).concat();
    let denied = calls.iter().filter(|call| !call.allowed).count() as u64;
    let contended = table.stats().contended;
    assert!(denied <= contended, "{REFUSED}: {calls:?}");
    for key in [key, other] {
        assert_bound(&table, 1, key, &[&calls]);
    }
}

/// 2 threads: a newcomer that stalls while its claim stands, and one that advances the floor twice, since a key that
/// has spent its burst is live at the first time. A word of the newcomer's old time would be dated by the last floor,
/// and from a little later read as busy. Its key is idle then: it is admitted.
fn stalled_claim() {
    let (table, [busy, key]) = shard(2);
    let other = key_in(&table, [0, 0], 3);
    let setup = ask_all(&*table, &[ask(busy, 1, BEFORE_MS)]);
    let calls = race(&table, vec![vec![ask(key, 1, BEFORE_MS)], vec![ask(other, 1, SILENCE_MS)]]);
    for key in [busy, key, other] {
        assert_bound(&table, 1, key, &[&setup, &calls.concat()]);
    }
    assert_no_claims(&table);
    assert_admitted(&ask_all(&*table, &[ask(key, 1, 630_000)]));
}

/// 2 threads: a newcomer, and one that finds nothing alive and takes the floor far ahead at once. A word of
/// the newcomer's old time would be dated by that floor. Its key is idle then: it is admitted.
fn jump() {
    let (table, [key, other]) = shard(1);
    let lists = vec![vec![ask(key, 1, BEFORE_MS)], vec![ask(other, 1, SILENCE_MS)]];
    let calls = race(&table, lists).concat();
    for key in [key, other] {
        assert_bound(&table, 1, key, &[&calls]);
    }
    assert_no_claims(&table);
    assert_admitted(&ask_all(&*table, &[ask(key, 1, 630_000)]));
}

/// 2 threads, header and install and reclaim in one: both ask for one new key, then one of them brings in
/// another, far later, for which the floors move and the first key's cell is taken.
fn composition() {
    control::use_rounds(1);
    control::count_apart(true);
    let table = table(3, 1);
    // The other key's second cell is taken, so that it wants the first one's.
    let filler = key_in(&table, [2, 2], 1);
    assert_admitted(&ask_all(&*table, &[ask(filler, 1, AFTER_MS)]));
    let [key, other] = [[0, 1], [0, 2]].map(|shards| key_in(&table, shards, 1));
    let (early, late) = (ask(key, 1, BEFORE_MS), ask(other, 1, AFTER_MS));
    let calls = race(&table, vec![vec![early], vec![early, late]]).concat();
    for key in [key, other] {
        assert_bound(&table, 1, key, &[&calls]);
    }
    assert_no_claims(&table);
}

pub(crate) fn models() -> Vec<Model> {
    use Bound::Preemptions;
    vec![
        Model::new("charge_across_a_floor", Preemptions(3), charge)
            .control(
                "header_only_before_words_is_caught",
                Fault::HeaderOnlyBeforeWords,
                ABOVE_BOUND,
            )
            .control("relaxed_words_is_caught", Fault::RelaxedWords, ABOVE_BOUND)
            .control("decoding_against_now_is_caught", Fault::DecodeAgainstNow, LOST_CHARGE),
        Model::new("backward_across_a_floor", Preemptions(3), backward).control(
            "backward_decoding_against_now_is_caught",
            Fault::DecodeAgainstNow,
            ABOVE_BOUND,
        ),
        Model::new("sweeps_across_a_floor", Preemptions(3), sweeps).control(
            "sweep_with_stale_header_is_caught",
            Fault::SweepWithStaleHeader,
            LOST_CHARGE,
        ),
        Model::new("install_across_a_floor", Preemptions(3), install).control(
            "survey_with_stale_header_is_caught",
            Fault::SurveyWithStaleHeader,
            LOST_CHARGE,
        ),
        Model::new("long_silence", Preemptions(3), silence)
            .control("publishing_without_a_sweep_is_caught", Fault::PublishWithoutSweep, REFUSED)
            .control("jumping_over_live_words_is_caught", Fault::JumpOverLiveWords, REFUSED),
        Model::new("stalled_claim_across_floors", Preemptions(3), stalled_claim).control(
            "a_sweep_that_spares_claims_is_caught",
            Fault::SweepSparesClaims,
            REFUSED,
        ),
        Model::new("jump_past_a_newcomer", Preemptions(3), jump).control(
            "a_floor_read_unmarked_is_caught",
            Fault::FloorReadUnmarked,
            REFUSED,
        ),
        Model::new("header_install_reclaim", Preemptions(3), composition).control(
            "composed_floors_before_the_claim_is_caught",
            Fault::FloorsBeforeClaim,
            ABOVE_BOUND,
        ),
    ]
}
