//! The verdict on one execution: checks that its answers were right.

use std::cell::RefCell;
use std::collections::HashMap;
use std::thread;

use tollgate::{Decision, DenialReason, control};
use tollgate_oracle::{Algorithm, Oracle, Verdict};

use crate::race::{Call, RaceRequest, RacedLimit};
use crate::table::{ModelKey, ModelTable};

/// The message of [`assert_explained`] for an execution that is wrong.
pub const UNEXPLAINED: &str = "no order of the requests explains the answers";
/// The message of [`assert_intervals`] for too many admissions.
pub const ABOVE_BOUND: &str = "admitted above the bound";
/// The message of [`assert_bound`] when more units are left than the admissions allow.
pub const LOST_CHARGE: &str = "a charge was lost";
/// The message of the core when an install leaves a key live in two cells.
pub const TWO_LIVE: &str = "live cells carry one key";
/// The message of [`assert_no_claims`] when a claim has outlived its install.
pub const LEFT_CLAIM: &str = "a claim was left behind";
/// The message of a model for a request that was denied for no reason.
pub const REFUSED: &str = "refused without a reason";

/// The result of one race: the answers to the setup, then those of each thread; the units that were left; and true if a
/// penalty was in force.
type RaceResult = (Vec<Vec<Call>>, u64, bool);

thread_local! {
    static EXPLAINED: RefCell<HashMap<(Oracle, RaceResult), bool>> = RefCell::default();
}

/// Asserts linearizability by brute force. There must be an order of all calls that keeps each thread's own order. In
/// this order the exact reference model must give the same answers and leave the same units. This proves that nothing
/// is admitted above the limit, nothing is denied without a reason, and no charge is lost.
///
/// # Panics
/// Panics if there is no such order.
pub fn assert_explained(
    limit: &impl RacedLimit,
    algorithm: Algorithm,
    setup: &[Call],
    calls: &[Vec<Call>],
    last: RaceRequest,
) {
    assert_explained_from(limit, &Oracle::new(algorithm), setup, calls, last);
}

/// Like [`assert_explained`], with a reference model that the caller provides and that has answered nothing yet.
///
/// # Panics
/// Panics if there is no such order.
pub fn assert_explained_from(
    limit: &impl RacedLimit,
    fresh: &Oracle,
    setup: &[Call],
    calls: &[Vec<Call>],
    last: RaceRequest,
) {
    control::plant(None); // only what the race has left behind is checked
    let left = limit.look(last);
    let is_penalty =
        matches!(left, Decision::Denied(denial) if denial.reason() == DenialReason::Penalty);
    let mut told = vec![setup.to_vec()];
    told.extend_from_slice(calls);
    let outcome = (fresh.clone(), (told, left.remaining(), is_penalty));
    let known = EXPLAINED.with_borrow(|known| known.get(&outcome).copied());
    let explained = known.unwrap_or_else(|| {
        // Threads in a model have small stacks, so the search runs on a separate thread.
        let explained =
            thread::scope(|scope| scope.spawn(|| is_explained(fresh, &outcome.1, last)).join());
        explained.expect("the reference model does not panic")
    });
    assert!(explained, "{UNEXPLAINED}: {:?}", outcome.1);
    EXPLAINED.with_borrow_mut(|known| known.insert(outcome, true));
}

fn is_explained(fresh: &Oracle, (told, left, is_penalty): &RaceResult, last: RaceRequest) -> bool {
    let (setup, calls) = (&told[0], &told[1..]);
    let mut oracle = fresh.clone();
    let last_ns = ns(last.now_ms);
    setup.iter().all(|&call| agrees(&mut oracle, call))
        && some_order(&oracle, &mut vec![0; calls.len()], calls, &|end: &Oracle| {
            end.remaining(last_ns) == *left && end.is_penalised(last_ns) == *is_penalty
        })
}

/// Tries every interleaving of the remaining calls, starting from the oracle's state.
fn some_order(
    oracle: &Oracle,
    done: &mut Vec<usize>,
    calls: &[Vec<Call>],
    is_right: &impl Fn(&Oracle) -> bool,
) -> bool {
    let mut finished = true;
    for thread in 0..calls.len() {
        let Some(&call) = calls[thread].get(done[thread]) else { continue };
        finished = false;
        let mut next = oracle.clone();
        if agrees(&mut next, call) {
            done[thread] += 1;
            if some_order(&next, done, calls, is_right) {
                return true;
            }
            done[thread] -= 1;
        }
    }
    finished && is_right(oracle)
}

fn agrees(oracle: &mut Oracle, call: Call) -> bool {
    let verdict = oracle.check(ns(call.ask.now_ms), call.ask.cost);
    (verdict == Verdict::Allowed) == call.allowed
}

/// Asserts the bound of GCRA at one unit per second for one key: [`assert_intervals`] holds, and at the end no more
/// units are left than these admissions allow.
///
/// # Panics
/// Panics if the bound is broken.
pub fn assert_bound(table: &ModelTable, burst: u64, key: ModelKey, calls: &[&[Call]]) {
    assert_intervals(burst, key, calls);
    let admitted = admitted(key, calls);
    // The earliest instant at which all admitted units will have drained.
    let drained =
        admitted.iter().map(|ask| ask.now_ms + 1000 * units(&admitted, ask.now_ms, u64::MAX));
    let (Some(drained_ms), Some(now_ms)) =
        (drained.max(), admitted.iter().map(|ask| ask.now_ms).max())
    else {
        return;
    };
    let most = (burst * 1000).saturating_sub(drained_ms.saturating_sub(now_ms)) / 1000;
    control::plant(None); // only what the race has left behind is checked
    let left = table.look(RaceRequest { key, cost: 1, now_ms }).remaining();
    assert!(left <= most, "{LOST_CHARGE}: {left} left of {most}, {admitted:?}");
}

/// Asserts that in every interval a key's admitted units are at most `burst` plus one for each second of the interval.
/// Intervals are measured by the callers' own times.
///
/// # Panics
/// Panics if more was admitted.
pub fn assert_intervals(burst: u64, key: ModelKey, calls: &[&[Call]]) {
    let admitted = admitted(key, calls);
    for from in admitted.iter().map(|ask| ask.now_ms) {
        for to in admitted.iter().map(|ask| ask.now_ms).filter(|&to| from <= to) {
            let most = burst + (to - from) / 1000;
            let units = units(&admitted, from, to);
            assert!(units <= most, "{ABOVE_BOUND}: {from}..={to} ms, {admitted:?}");
        }
    }
}

fn admitted(key: ModelKey, calls: &[&[Call]]) -> Vec<RaceRequest> {
    let calls = calls.iter().flat_map(|calls| calls.iter());
    calls.filter(|call| call.allowed && call.ask.key == key).map(|call| call.ask).collect()
}

fn units(admitted: &[RaceRequest], from: u64, to: u64) -> u64 {
    let inside = admitted.iter().filter(|ask| from <= ask.now_ms && ask.now_ms <= to);
    inside.map(|ask| ask.cost).sum()
}

/// Asserts that no install has left its claim behind. All threads must have ended.
///
/// # Panics
/// Panics if a claim is left.
pub fn assert_no_claims(table: &ModelTable) {
    assert_eq!(table.claims(), 0, "{LEFT_CLAIM}");
}

/// Asserts that every one of these calls was admitted.
///
/// # Panics
/// Panics if a call was denied.
pub fn assert_admitted<'a>(calls: impl IntoIterator<Item = &'a Call>) {
    for call in calls {
        assert!(call.allowed, "{REFUSED}: {call:?}");
    }
}

fn ns(now_ms: u64) -> u64 {
    now_ms * 1_000_000
}
