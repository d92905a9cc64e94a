//! Helpers of the integration tests, above all one script of requests that runs through every engine.
#![allow(unreachable_pub, reason = "each test file includes this module for itself")]
#![allow(clippy::unwrap_used, reason = "a test helper fails as loudly as a test")]
#![allow(dead_code, reason = "and uses only a part of it")]

use ahash::RandomState;
use tollgate::{Decision, KeyedLimiter, Limiter, ManualClock, Meter, Policy, Timestamp, Word};

/// A request: its time in nanoseconds since the origin, and its cost.
pub type Request = (u64, u64);

thread_local! {
    static CLOCK: ManualClock = ManualClock::new();
}

/// The clock of a test's limiters, one for each thread. Most requests are given times of their own.
pub fn clock() -> ManualClock {
    CLOCK.with(Clone::clone)
}

/// The same clock, set back to its start: for a table, whose floors begin at the time of its clock.
pub fn new_clock() -> ManualClock {
    on(Timestamp::default());
    clock()
}

/// Sets the clock, for calls that take no time: a change of quota, or a look at a whole table.
pub fn on(now: Timestamp) {
    clock().set(now);
}

/// Reads a policy that is known to be valid.
pub fn policy(text: &str) -> Policy {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// A table whose keys have the same places in every run, with a clock of its own.
pub fn seeded_table(text: &str, capacity: usize) -> KeyedLimiter<u64, RandomState> {
    KeyedLimiter::builder(policy(text))
        .clock(ManualClock::new())
        .hasher(RandomState::with_seeds(1, 2, 3, 4))
        .build(capacity)
        .unwrap()
}

/// Reads `"0:05 1:01.5 2:20"`, minutes and seconds after the origin, as requests of one unit.
pub fn at(times: &str) -> Vec<Request> {
    times.split_whitespace().map(|time| (instant(time).as_nanos(), 1)).collect()
}

/// Reads one time: `"1:01.5"`.
pub fn instant(time: &str) -> Timestamp {
    let (minutes, seconds) = time.split_once(':').unwrap_or(("0", time));
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let millis: u64 = format!("{fraction:0<3}").parse().unwrap();
    let seconds = minutes.parse::<u64>().unwrap() * 60 + whole.parse::<u64>().unwrap();
    Timestamp::from_millis(seconds * 1000 + millis)
}

/// `count` requests of one unit, `step_ms` apart, from `start_ms` on.
pub fn every(start_ms: u64, step_ms: u64, count: u64) -> Vec<Request> {
    (0..count).map(|n| ((start_ms + n * step_ms) * 1_000_000, 1)).collect()
}

/// `count` requests of one unit at one instant.
pub fn together(time: &str, count: u64) -> Vec<Request> {
    (0..count).map(|_| (instant(time).as_nanos(), 1)).collect()
}

/// Runs the requests through the pure function, the shared limiter and the keyed table. Checks that all three agree,
/// and gives the decisions as a string of A (allowed) and D (denied).
pub fn decisions(text: &str, requests: &[Request]) -> String {
    let policy = policy(text);
    let meter = Meter::new(policy).unwrap();
    let limiter = Limiter::builder(policy).clock(ManualClock::new()).build();
    let keyed = KeyedLimiter::builder(policy).clock(ManualClock::new()).build(100).unwrap();
    let mut word = Word::UNUSED;
    requests
        .iter()
        .map(|&(now_ns, cost)| {
            let now = Timestamp::from_nanos(now_ns);
            let (pure, next) = meter.check(word, now, cost);
            word = next;
            let shared = limiter.entry().at(now).check_n(cost);
            let in_table = keyed.entry("key").at(now).check_n(cost);
            assert_eq!(answers(&pure), answers(&shared), "Meter and Limiter, {text} at {now:?}");
            assert_eq!(
                pure.is_allowed(),
                in_table.is_allowed(),
                "Meter and table, {text} at {now:?}"
            );
            assert_eq!(
                pure.remaining(),
                in_table.remaining(),
                "Meter and table, {text} at {now:?}"
            );
            if pure.is_allowed() { 'A' } else { 'D' }
        })
        .collect()
}

fn answers(decision: &Decision) -> (bool, u64, u64, std::time::Duration) {
    (decision.is_allowed(), decision.limit(), decision.remaining(), decision.reset_after())
}
