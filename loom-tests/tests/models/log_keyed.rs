//! Keyed sliding logs: entries are given to keys, and taken from idle keys that may come back.
//!
//! Properties, in every model:
//! * At every moment at most one entry belongs to a key. Under loom the core asserts this on the newest headers after
//!   each install.
//! * By the callers' own times no window of any key holds more than the limit.
//! * At the end each key has exactly as many units left as its admissions allow.
//!
//! These models are sufficient because two keys meet only in one entry: in its header, its slots and its `until`, the
//! instant from which all its slots are free. Two requests of one key meet only in the headers of its two shards. The
//! smallest store in which two installs can choose different entries, and in which a forgotten key has another place to
//! go, has one entry in each of two shards. One slot is the smallest log. If a unit is lost in it, one unit too many is
//! admitted.

use std::sync::Arc;

use loom_tests::logs::{ModelLogs, assert_left, assert_windows, log_key_in, logs, units};
use loom_tests::race::{RacedLimit, ask, ask_all, race};
use loom_tests::suite::{Bound, Model};
use loom_tests::verdict::{ABOVE_BOUND, LOST_CHARGE, REFUSED, TWO_LIVE, assert_admitted};
use tollgate::control::{self, Fault};
use tollgate::{Decision, DenialReason};

/// 2 threads ask for one new key at one instant, in a shard of `entries` entries.
fn same_key(limit: u64, entries: usize) {
    let logs = logs(limit, 1, entries);
    let key = log_key_in(&logs, [0, 0], 1);
    let calls = race(&logs, vec![vec![ask(key, 1, 5_000)], vec![ask(key, 1, 5_000)]]).concat();
    assert_windows(limit, key, &[&calls]);
    assert_left(&*logs, limit, key, 5_000, &[&calls]);
    assert!(units(&calls) >= 1, "{REFUSED}: {calls:?}");
}

/// Threads ask for one new key and disagree on which entry it can take. There is one entry in each of two shards. The
/// entry of the key's first shard holds another key, which is idle only for the threads with the latest times.
fn unlike_entries(nows_ms: &[u64], limit: u64) {
    control::use_rounds(1);
    let logs = logs(limit, 2, 1);
    let [key, old] = [1, 2].map(|nth| log_key_in(&logs, [0, 1], nth));
    assert_admitted(&ask_all(&*logs, &[ask(old, 1, 1_000)]));
    let calls = race(&logs, nows_ms.iter().map(|&now_ms| vec![ask(key, 1, now_ms)]).collect());
    let last_ms = nows_ms.iter().max().copied().unwrap_or(0);
    assert_windows(limit, key, &[&calls.concat()]);
    assert_left(&*logs, limit, key, last_ms, &[&calls.concat()]);
}

/// A key that was admitted a unit at 0 s in the entry of its first shard, and another key that will take that entry
/// when the first key is idle. Then each thread asks for one of the two keys. A pair says whether its request is for
/// the first key, and when it comes.
fn returns(lists: &[&[(bool, u64)]]) {
    let logs: Arc<ModelLogs> = logs(1, 2, 1);
    let [key, other] = [1, 2].map(|nth| log_key_in(&logs, [0, 1], nth));
    let setup = ask_all(&*logs, &[ask(key, 1, 0)]);
    assert_admitted(&setup);
    let to_ask = |&(is_key, now_ms): &(bool, u64)| ask(if is_key { key } else { other }, 1, now_ms);
    let last_ms = lists.iter().flat_map(|list| list.iter()).map(|&(_, now_ms)| now_ms).max();
    let lists = lists.iter().map(|list| list.iter().map(to_ask).collect()).collect();
    let calls = race(&logs, lists).concat();
    // The new key is checked first: if another key takes its entry away, the new key's units are the ones that are
    // lost.
    for key in [other, key] {
        assert_windows(1, key, &[&setup, &calls]);
        assert_left(&*logs, 1, key, last_ms.unwrap_or(0), &[&setup, &calls]);
    }
}

/// 2 threads: a new key takes the idle entry, while the entry's former key asks again, twice.
fn charge() {
    returns(&[&[(true, 10_000), (true, 10_000)], &[(false, 10_000)]]);
}

/// 2 threads: a key asks again with an old time while its entry is taken.
fn late_return() {
    returns(&[&[(true, 5_000)], &[(false, 20_000)]]);
}

/// 3 threads: two ask for the old key, one for a new key. An install ends after it has lost one round.
fn charges_and_a_newcomer() {
    control::use_rounds(1);
    control::tell_answers(false);
    returns(&[&[(true, 10_000)], &[(true, 10_000)], &[(false, 10_000)]]);
}

/// 2 threads: one asks for two units of a key that comes back to its idle log of two slots; the other brings in a new
/// key.
fn several_units() {
    let logs: Arc<ModelLogs> = logs(2, 2, 1);
    let [key, other] = [1, 2].map(|nth| log_key_in(&logs, [0, 1], nth));
    let setup = ask_all(&*logs, &[ask(key, 1, 0)]);
    assert_admitted(&setup);
    let lists = vec![vec![ask(key, 2, 10_000), ask(key, 1, 10_000)], vec![ask(other, 1, 10_000)]];
    let calls = race(&logs, lists).concat();
    // The new key is checked first: if another key takes its entry away, the new key's units are the ones that are
    // lost.
    for key in [other, key] {
        assert_windows(2, key, &[&setup, &calls]);
        assert_left(&*logs, 2, key, 10_000, &[&setup, &calls]);
    }
}

/// 2 threads: one brings a new key to a full shard. The other asks for the key that fills the shard, now and when that
/// key's unit is back. While that key limits something it is not evicted, and it finds its entry again or a free one.
fn full_shard() {
    let logs = logs(1, 1, 1);
    let [one, new] = [1, 2].map(|nth| log_key_in(&logs, [0, 0], nth));
    let setup = ask_all(&*logs, &[ask(one, 1, 5_000)]);
    let lists = vec![vec![ask(new, 1, 6_000)], vec![ask(one, 1, 6_000), ask(one, 1, 15_000)]];
    let calls = race(&logs, lists).concat();
    control::plant(None); // only what the race has left behind is checked
    let one_now = logs.look(ask(one, 1, 15_000));
    let evicted =
        matches!(&one_now, Decision::Denied(denial) if denial.reason() == DenialReason::TableFull);
    assert!(!evicted, "{LOST_CHARGE}: {calls:?}");
    assert_eq!(calls.iter().map(|call| call.allowed).collect::<Vec<_>>(), [false, false, true]);
    assert_windows(1, one, &[&setup, &calls]);
}

pub(crate) fn models() -> Vec<Model> {
    use Bound::{None as Whole, Preemptions};
    vec![
        Model::new("log_same_key", Preemptions(3), || same_key(1, 2)).control(
            "log_same_key_taken_twice_is_caught",
            Fault::PlainStoreForCas,
            ABOVE_BOUND,
        ),
        Model::new("log_stalled_claim_is_helped", Preemptions(3), || same_key(2, 1)).control(
            "log_unit_not_written_is_caught",
            Fault::FailureTakenForSuccess,
            LOST_CHARGE,
        ),
        Model::new("log_unlike_entries", Preemptions(3), || unlike_entries(&[10_000, 12_000], 1))
            .control("log_no_verify_is_caught", Fault::NoVerify, TWO_LIVE)
            .control("log_no_fence_is_caught", Fault::NoFence, TWO_LIVE),
        Model::new("log_charge_of_an_idle_key", Preemptions(3), charge)
            .control("log_charge_unconfirmed_is_caught", Fault::ChargeUnconfirmed, LOST_CHARGE)
            .control("log_charge_left_with_a_stranger_is_caught", Fault::ChargeLeftBehind, REFUSED)
            .control("log_confirm_without_fence_is_caught", Fault::ConfirmWithoutFence, LOST_CHARGE)
            .control(
                "log_forgotten_at_first_sight_is_caught",
                Fault::ForgetAtFirstSight,
                LOST_CHARGE,
            ),
        Model::new("log_late_return", Preemptions(3), late_return).control(
            "log_below_the_floor_is_caught",
            Fault::LogBelowFloor,
            ABOVE_BOUND,
        ),
        Model::new("log_charges_and_a_newcomer", Preemptions(1), charges_and_a_newcomer).control(
            "log_charges_forgotten_at_first_sight_is_caught",
            Fault::ForgetAtFirstSight,
            LOST_CHARGE,
        ),
        Model::new("log_several_units", Preemptions(2), several_units)
            .control(
                "log_several_units_unconfirmed_is_caught",
                Fault::ChargeUnconfirmed,
                LOST_CHARGE,
            )
            .control("log_marks_left_with_a_stranger_is_caught", Fault::MarksForgotten, REFUSED),
        Model::new("log_full_shard", Whole, full_shard).control(
            "log_busy_key_evicted_is_caught",
            Fault::EvictLive,
            LOST_CHARGE,
        ),
    ]
}
