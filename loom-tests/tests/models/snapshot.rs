//! Snapshots taken while other threads charge, install, forget keys and move a floor.
//!
//! These properties hold in every model for the table that is restored from the snapshot. The restored table accepts
//! the file, so no key has two live cells and no claim is left. No charge from before the snapshot began is lost. Each
//! key has a state that it had at some moment, never a mixture of two states.
//!
//! These models are sufficient because a snapshot reads one shard after the other, and each shard in eight loads
//! between which other threads can write. One shard is enough to show what can happen to a word and its header. One
//! cell in each of two shards shows a key that moves during the copying, in the order of reading or against that order.

use std::sync::Arc;

use loom_tests::race::{Call, RaceRequest, RacedLimit, ask, ask_all, race_beside};
use loom_tests::suite::{Bound, Model};
use loom_tests::table::{ModelKey, ModelTable, REFUSED_FILE, key_in, restored, table};
use loom_tests::verdict::{LOST_CHARGE, assert_admitted, assert_bound, assert_no_claims};
use tollgate::control::{self, Fault};

/// The message for a state that the key never had.
const NEVER_WAS: &str = "a state that never was";

fn snapshot(table: &ModelTable) -> Vec<u8> {
    let mut file = Vec::new();
    table.snapshot(&mut file).expect("a vector takes everything");
    file
}

/// The units that are left for a key at each of the given times.
fn left<const N: usize>(table: &ModelTable, key: ModelKey, nows_ms: [u64; N]) -> [u64; N] {
    control::plant(None); // only what the snapshot holds is checked
    nows_ms.map(|now_ms| table.look(ask(key, 1, now_ms)).remaining())
}

/// Makes requests while a snapshot is taken. Returns the restored table and the answers.
fn race(
    table: &Arc<ModelTable>,
    policy: &str,
    shards: u32,
    asks: Vec<RaceRequest>,
) -> (ModelTable, Vec<Call>) {
    let (calls, file) = race_beside(table, asks, snapshot);
    let restored = restored(policy, shards, &file);
    assert_no_claims(&restored);
    (restored, calls)
}

/// 2 threads: one charges twice. The other charges and then takes a snapshot, which must contain that charge.
fn charge() {
    control::count_apart(true);
    let policy = "gcra 1/s burst 5";
    let table = table(policy, 1, 1);
    let key = key_in(&table, [0, 0], 1);
    let [one, two] = [1, 2].map(|cost| ask(key, cost, 10_000));
    assert_admitted(&ask_all(&*table, &[one]));
    let (_, file) = race_beside(&table, vec![one; 2], move |table: &ModelTable| {
        ask_all(table, &[two]);
        snapshot(table)
    });
    let [left] = left(&restored(policy, 1, &file), key, [10_000]);
    assert!(left <= 2, "{LOST_CHARGE}: {left} left, and 3 of 5 were charged before");
}

/// 2 threads: one takes a snapshot. The other charges at a time for which the floor must first move two steps, past all
/// live keys. If a word of 532 s is dated by the floor of 0, it reads as a word of 20 s, because a word's time wraps at
/// 512 s.
fn floor() {
    control::count_apart(true);
    control::use_rounds(1);
    let policy = "gcra 1/s burst 1";
    let table = table(policy, 1, 1);
    let key = key_in(&table, [0, 0], 1);
    assert_admitted(&ask_all(&*table, &[ask(key, 1, 10_000)]));
    let (restored, _) = race(&table, policy, 1, vec![ask(key, 1, 532_000)]);
    let left = left(&restored, key, [20_000, 22_000, 532_000]);
    // The states that the key had: the old word; no word, at a newer floor; the new word.
    let is_known = [[1, 1, 1], [0, 0, 1], [0, 0, 0]].contains(&left);
    assert!(is_known, "{NEVER_WAS}: {left:?}");
}

/// 2 threads: one installs a key, and the other takes a snapshot.
fn install() {
    control::count_apart(true);
    control::use_rounds(1);
    let policy = "gcra 1/s burst 2";
    let table = table(policy, 1, 2);
    let [key, other] = [1, 2].map(|nth| key_in(&table, [0, 0], nth));
    assert_admitted(&ask_all(&*table, &[ask(other, 1, 10_000)]));
    let (restored, _) = race(&table, policy, 1, vec![ask(key, 2, 10_000)]);
    assert_eq!(left(&restored, other, [10_000]), [1], "{LOST_CHARGE}");
    let [left] = left(&restored, key, [10_000]);
    assert!(left == 0 || left == 2, "{NEVER_WAS}: {left} left");
}

/// 2 threads: one asks for another key, which takes the first key's cell, and then for the first key again, which must
/// go to its other shard. So the first key moves from shard `from` to its other shard. Meanwhile the other thread takes
/// a snapshot, which reads shard 0 first. The second shard of the key that takes the cell is full.
fn moved(from: u32) {
    control::count_apart(true);
    control::use_rounds(1);
    let policy = "gcra 1/s burst 2";
    let table = table(policy, 3, 1);
    let shards = if from == 0 { [[0, 1], [0, 2]] } else { [[1, 0], [1, 2]] };
    let [key, other] = shards.map(|shards| key_in(&table, shards, 1));
    let filler = key_in(&table, [2, 2], 1);
    let setup = ask_all(&*table, &[ask(filler, 2, 20_000), ask(key, 2, 10_000)]);
    assert_admitted(&setup);
    let asks = vec![ask(other, 2, 20_000), ask(key, 2, 20_000)];
    let (restored, _) = race(&table, policy, 3, asks);
    let [late, now] = left(&restored, key, [10_000, 20_000]);
    assert_eq!(late, 0, "{LOST_CHARGE}: what was charged at 10 s has not drained then");
    assert!(now == 0 || now == 2, "{NEVER_WAS}: {now} left");
    assert_bound(&restored, 2, key, &[&setup]);
}

pub(crate) fn models() -> Vec<Model> {
    use Bound::{None as Whole, Preemptions};
    vec![
        Model::new("beside_charges", Whole, charge).control(
            "a_charge_lost_before_the_snapshot_is_caught",
            Fault::PlainStoreForCas,
            LOST_CHARGE,
        ),
        Model::new("across_a_floor", Preemptions(3), floor).control(
            "a_word_dated_by_an_older_floor_is_caught",
            Fault::SnapshotWithStaleHeader,
            NEVER_WAS,
        ),
        Model::new("beside_an_install", Whole, install).control(
            "an_install_kept_unfinished_is_caught",
            Fault::SnapshotKeepsClaims,
            REFUSED_FILE,
        ),
        Model::new("a_key_moves_on", Preemptions(3), || moved(0)).control(
            "a_key_kept_twice_is_caught",
            Fault::SnapshotKeepsTwins,
            REFUSED_FILE,
        ),
        Model::new("a_key_moves_back", Whole, || moved(1))
            .control(
                "a_floor_older_than_what_it_forgot_is_caught",
                Fault::SnapshotWithStaleHeader,
                LOST_CHARGE,
            )
            .control("words_without_their_floor_is_caught", Fault::RelaxedWords, LOST_CHARGE),
    ]
}
