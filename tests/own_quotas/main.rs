//! Quotas that callers bring along for single keys: a key has one count, whichever quotas it is asked under.
//!
//! `reference` follows a key exactly, in integers, and shares nothing with the library. `random` compares the limiter with
//! it, and looks at every interval of what was admitted, with times in any order. The other modules hold single
//! promises against exact values.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod bound;
mod carried;
mod given_back;
mod places;
mod random;
mod reference;
mod refused;
mod threads;
mod together;
mod waits;

use std::time::Duration;

use tollgate::{Clock, KeyedLimiter, ManualClock, Quota, Timestamp};

const SECOND: u64 = 1_000_000_000;

/// The instant at which tests begin.
const START: Timestamp = Timestamp::from_secs(1_000);

/// So many units in so many seconds, and so many at once.
fn quota(count: u64, seconds: u64, burst: u64) -> Quota {
    Quota::per(count, Duration::from_secs(seconds)).burst(burst)
}

/// A limiter whose words have room for everything from 20 a second to 5 an hour, 40 at once.
fn limiter(default: Quota, clock: impl Into<Clock>) -> KeyedLimiter<u64> {
    let like = [quota(20, 1, 40), quota(5, 3_600, 40)];
    KeyedLimiter::builder(default).own_quotas(8, &like).clock(clock).build(100).unwrap()
}

/// The same with a clock of its own, which stands at [`START`].
fn started(default: Quota) -> (KeyedLimiter<u64>, ManualClock) {
    let clock = ManualClock::new();
    clock.set(START);
    (limiter(default, clock.clone()), clock)
}

/// How many of a hundred requests of one unit are admitted now.
fn admitted(limiter: &KeyedLimiter<u64>, key: u64, quota: Quota) -> usize {
    let entry = limiter.entry(&key).under(quota).unwrap();
    (0..100).filter(|_| entry.check().is_allowed()).count()
}
