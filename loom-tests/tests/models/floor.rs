//! Floors advance while other threads charge keys, install keys, sweep, or ask with an old time.
//!
//! Properties, in every model:
//! * By the callers' own times no key is admitted above its bound.
//! * At the end no key has more left than its admissions allow.
//! * An idle key is admitted.
//!
//! The times in a shard's words are read against the shard's floor: the floor *dates* them. In these models an epoch is
//! 102 s. The time in a word wraps at 512 s. A word is taken to be at most 307 s older than the floor. Floors begin at
//! 200 s, so that a sweep can forget a key. A check at 450 s moves the floor more than once. If a word of 450 s is
//! dated by the first floor, it reads as long expired. If no thread sweeps a word of 210 s, it reads as busy at 600 s.
//!
//! These models are sufficient because a floor can advance at only four points of a reader: before its first header,
//! between header and words, between words and second header, and after the second header. Two threads cover all four.
//! A second advance, or a second reader, only repeats them.

use loom_tests::race::{ask, ask_all, race};
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

/// A table whose floors are at the first time of the models.
fn table(shards: u32, cells: usize) -> std::sync::Arc<ModelTable> {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_millis(START_MS));
    table_with_clock("gcra 1/s burst 1", shards, cells, clock)
}

/// A table of one shard with some cells, and two keys. An install gives up after it has lost one round; in production
/// it gives up after many.
fn shard(cells: usize) -> (std::sync::Arc<ModelTable>, [ModelKey; 2]) {
    control::count_apart(true);
    control::use_rounds(1);
    let table = table(1, cells);
    let keys = [1, 2].map(|nth| key_in(&table, [0, 0], nth));
    (table, keys)
}

/// 2 threads ask for one live key. One brings a time before the floor moves, the other a time that moves it.
fn charge() {
    let (table, [key, _]) = shard(2);
    let setup = ask_all(&*table, &[ask(key, 1, BEFORE_MS)]);
    let calls = race(&table, vec![vec![ask(key, 1, BEFORE_MS)], vec![ask(key, 1, AFTER_MS)]]);
    assert_bound(&table, 1, key, &[&setup, &calls.concat()]);
    assert_no_claims(&table);
}

/// 2 threads: the times of one thread go past the floor and back again; those of the other are always behind the floor.
fn backward() {
    let (table, [key, _]) = shard(2);
    let there_and_back = [AFTER_MS, BEFORE_MS, AFTER_MS].map(|now_ms| ask(key, 1, now_ms));
    let calls = race(&table, vec![vec![ask(key, 1, BEFORE_MS)], there_and_back.to_vec()]);
    assert_bound(&table, 1, key, &[&calls.concat()]);
    assert_no_claims(&table);
}

/// 2 threads move the floor, each to install a new key. Each thread's sweep may meet the new word of the other.
fn sweeps() {
    let (table, [key, other]) = shard(2);
    let lists = vec![vec![ask(other, 1, 440_000)], vec![ask(key, 1, AFTER_MS)]];
    let calls = race(&table, lists).concat();
    for key in [key, other] {
        assert_bound(&table, 1, key, &[&calls]);
    }
    assert_no_claims(&table);
}

/// 2 threads and one cell, which belongs to an idle key. One new key looks at the cell before the floor moves; another
/// new key moves the floor.
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

/// After a long silence one of 2 threads asks for the key that was there, and the other for another key. Both keys are
/// idle, so both are admitted, unless the install of one key makes the other install lose its only round. The
/// statistics count such a denial.
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

/// 2 threads: one installs a new key and stalls after its claim, and the other advances the floor. It advances the
/// floor twice, because a third key that has spent its burst is still live at the first advance. A word with the new
/// key's old time would be dated by the last floor, and would read as busy a little later. At the end the new key is
/// idle, so it must be admitted.
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

/// 2 threads: one installs a new key, and the other finds no live key and moves the floor far ahead at once. A word
/// with the new key's old time would be dated by that floor. At the end the new key is idle, so it must be admitted.
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

/// 2 threads ask for one new key, in a model that combines header, install and reclaim. Much later one thread installs
/// another key, for which the floors move and the first key's cell is taken.
fn composition() {
    control::use_rounds(1);
    control::count_apart(true);
    let table = table(3, 1);
    // The other key's second shard is full, so that the key needs the cell of the first key.
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
