//! Helpers of the integration tests, above all one script of requests that runs through every engine.
#![allow(unreachable_pub, reason = "each test file includes this module for itself")]
#![allow(clippy::unwrap_used, reason = "a test helper fails as loudly as a test")]
#![allow(dead_code, reason = "and uses only a part of it")]

use ahash::RandomState;
use tollgate::{
    Decision, DenialReason, Entry, KeyedLimiter, Limiter, ManualClock, Meter, Policy, Timestamp,
    Word,
};

/// A request: its time in nanoseconds since the origin, and its cost.
pub type Request = (u64, u64);

thread_local! {
    static CLOCK: ManualClock = ManualClock::new();
}

/// The clock of a test's limiters. Each thread has one. Most requests in these tests bring their own times.
pub fn clock() -> ManualClock {
    CLOCK.with(Clone::clone)
}

/// The same clock, set back to its start. It is for tables, whose floors begin at the time of their clock.
pub fn new_clock() -> ManualClock {
    on(Timestamp::default());
    clock()
}

/// Sets the clock for calls that take no time: a change of quota, or a view of a whole table.
pub fn on(now: Timestamp) {
    clock().set(now);
}

/// Reads a policy that is known to be valid.
pub fn policy(text: &str) -> Policy {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// A table on [`new_clock`] whose keys have the same places in every run.
pub fn seeded_table(text: &str, capacity: usize) -> KeyedLimiter<u64, RandomState> {
    KeyedLimiter::builder(policy(text))
        .clock(new_clock())
        .hasher(RandomState::with_seeds(1, 2, 3, 4))
        .build(capacity)
        .unwrap()
}

/// Reads a text like `"0:05 1:01.5 2:20"`, in minutes and seconds after the origin, as requests of one unit.
pub fn at(times: &str) -> Vec<Request> {
    times.split_whitespace().map(|time| (instant(time).as_nanos(), 1)).collect()
}

/// Reads one time, such as `"1:01.5"`.
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

/// One limit in three engines: the pure function, a shared limiter and a keyed table. All three get the same requests.
pub struct Engines {
    pub meter: Meter,
    pub word: Word,
    pub limiter: Limiter,
    pub keyed: KeyedLimiter<str>,
}

impl Engines {
    pub fn new(text: &str) -> Self {
        let policy = policy(text);
        Self {
            meter: Meter::new(policy).unwrap(),
            word: Word::UNUSED,
            limiter: Limiter::builder(policy).clock(ManualClock::new()).build(),
            keyed: KeyedLimiter::builder(policy).clock(ManualClock::new()).build(100).unwrap(),
        }
    }

    /// Asks all three engines, checks that they agree, and returns their answer.
    pub fn check(&mut self, cost: u64, now: Timestamp) -> Decision {
        let (pure, next) = self.meter.check(self.word, now, cost);
        self.word = next;
        let policy = self.limiter.policy();
        let shared = self.limiter.entry().at(now).check_n(cost);
        assert_eq!(pure, shared, "Meter and Limiter, {policy} at {now:?}");
        let in_table = self.keyed.entry("key").at(now).check_n(cost);
        // The word of a keyed limiter may round times that are not whole ticks or quanta, so times are not compared.
        assert_eq!(told(&pure), told(&in_table), "Meter and table, {policy} at {now:?}");
        pure
    }
}

/// A decision without its times: allowed or not, the limit, the units left, and whether it is over the limit or in a
/// penalty.
fn told(decision: &Decision) -> (bool, u64, u64, bool) {
    let marked = match decision {
        Decision::Allowed(permit) => permit.is_over(),
        Decision::Denied(denial) => denial.reason() == DenialReason::Penalty,
    };
    (decision.is_allowed(), decision.limit(), decision.remaining(), marked)
}

/// Runs the requests through all engines, and returns the decisions as a string of A (allowed) and D (denied).
pub fn decisions(text: &str, requests: &[Request]) -> String {
    let mut engines = Engines::new(text);
    let decide = |&(now_ns, cost): &Request| {
        let decision = engines.check(cost, Timestamp::from_nanos(now_ns));
        if decision.is_allowed() { 'A' } else { 'D' }
    };
    requests.iter().map(decide).collect()
}

/// Runs a test on each kind of limit that keeps its count in a word. These are one limit, a key of a table, a key of a
/// second tier, and a limit whose quota may change. Each limit has a name and its own clock, which shows `start`.
pub fn each(text: &str, start: Timestamp, test: impl Fn(Entry<'_>, &ManualClock, &str)) {
    let policy = policy(text);
    let with_clock = |test: &dyn Fn(&ManualClock)| {
        let clock = ManualClock::new();
        clock.set(start);
        test(&clock);
    };
    with_clock(&|clock| {
        let one = Limiter::builder(policy).clock(clock.clone()).build();
        test(one.entry(), clock, "one");
    });
    with_clock(&|clock| {
        let keyed = KeyedLimiter::builder(policy).clock(clock.clone()).build(10).unwrap();
        test(keyed.entry("key"), clock, "keyed");
    });
    with_clock(&|clock| {
        let tiers = KeyedLimiter::builder(policy).tier(policy);
        let tiers = tiers.clock(clock.clone()).build(10).unwrap();
        test(tiers.entry("key").tier(1).unwrap(), clock, "tier");
    });
    with_clock(&|clock| {
        let changing = Limiter::builder(policy).clock(clock.clone()).changing().build().unwrap();
        test(changing.entry(), clock, "changing");
    });
}
