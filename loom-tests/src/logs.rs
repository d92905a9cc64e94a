//! Sliding logs of a few slots, keyed sliding logs, and the verdict on what they admit.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{KeyedLimiter, Limiter, ManualClock, Policy, Quota, control};

use crate::race::{Call, RaceRequest, RacedLimit};
use crate::table::{ModelKey, UnseededHash, keys_in};
use crate::verdict::{ABOVE_BOUND, LOST_CHARGE, REFUSED};

/// The window of every log in the models, in milliseconds.
pub const WINDOW_MS: u64 = 10_000;

/// The keyed log of the models.
pub type ModelLogs = KeyedLimiter<ModelKey, UnseededHash>;

fn quota(limit: u64) -> Quota {
    Quota::per(limit, Duration::from_millis(WINDOW_MS))
}

/// A log of `limit` units, in rows of at most `2^row_bits` slots.
///
/// # Panics
/// Panics if there is no such log.
#[must_use]
pub fn log(limit: u64, row_bits: u32) -> Arc<Limiter> {
    control::use_row_bits(row_bits);
    let policy = Policy::sliding_log(quota(limit)).expect("a log");
    Arc::new(Limiter::builder(policy).clock(ManualClock::new()).build())
}

/// Logs of `limit` units in 1 to 3 shards with 1 to 3 entries each.
///
/// # Panics
/// Panics if there are no such logs.
#[must_use]
pub fn logs(limit: u64, shards: u32, entries: usize) -> Arc<ModelLogs> {
    control::use_cells(entries);
    let capacity = match shards {
        1 => 1,
        2 => 2,
        _ => 4,
    };
    let clock = ManualClock::new();
    let policy = Policy::sliding_log(quota(limit)).expect("a log");
    Arc::new(
        KeyedLimiter::builder(policy)
            .clock(clock)
            .hasher(UnseededHash::of(shards))
            .build(capacity)
            .expect("logs"),
    )
}

/// The `nth` key, counted from 1, that has these two shards as its first and second shard.
#[must_use]
pub fn log_key_in(logs: &ModelLogs, shards: [usize; 2], nth: usize) -> ModelKey {
    keys_in(|key| logs.shards_of(key), shards, nth)
}

/// Asserts that no half-open window holds more of a key's units than the limit. Windows are measured by the callers'
/// own times.
///
/// # Panics
/// Panics if a window holds more.
pub fn assert_windows(limit: u64, key: ModelKey, calls: &[&[Call]]) {
    let admitted = admitted(key, calls);
    for from_ms in admitted.iter().map(|ask| ask.now_ms) {
        let inside = from_ms..from_ms + WINDOW_MS;
        let units: u64 =
            admitted.iter().filter(|ask| inside.contains(&ask.now_ms)).map(|ask| ask.cost).sum();
        assert!(units <= limit, "{ABOVE_BOUND}: {units} from {from_ms} ms, {admitted:?}");
    }
}

/// Asserts that the units left are exactly the limit less the units admitted in the window before `now`.
///
/// # Panics
/// Panics if more or less is left.
pub fn assert_left(
    log: &impl RacedLimit,
    limit: u64,
    key: ModelKey,
    now_ms: u64,
    calls: &[&[Call]],
) {
    let inside = admitted(key, calls).into_iter().filter(|ask| ask.now_ms + WINDOW_MS > now_ms);
    let units: u64 = inside.map(|ask| ask.cost).sum();
    control::plant(None); // only what the race has left behind is checked
    let left = log.look(RaceRequest { key, cost: 0, now_ms }).remaining();
    assert!(left + units <= limit, "{LOST_CHARGE}: {left} left, {units} admitted: {calls:?}");
    assert!(left + units >= limit, "{REFUSED}: {left} left, {units} admitted: {calls:?}");
}

/// The units that were admitted.
#[must_use]
pub fn units(calls: &[Call]) -> u64 {
    calls.iter().filter(|call| call.allowed).map(|call| call.ask.cost).sum()
}

fn admitted(key: ModelKey, calls: &[&[Call]]) -> Vec<RaceRequest> {
    let calls = calls.iter().flat_map(|calls| calls.iter());
    calls.filter(|call| call.allowed && call.ask.key == key).map(|call| call.ask).collect()
}
