//! Quotas that callers bring with requests for single keys: a key has one count, whichever quotas its requests bring.
//!
//! `reference` follows a key exactly, in integers. It shares no code with the library. `random` compares the limiter
//! with `reference`. `bound` checks every interval of the admissions, with times in any order. The other modules check
//! single promises with exact values.

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

/// The instant at which the tests begin.
const START: Timestamp = Timestamp::from_secs(1_000);

/// A quota of `count` units in `seconds` seconds, with a burst of `burst` units.
fn quota(count: u64, seconds: u64, burst: u64) -> Quota {
    Quota::per(count, Duration::from_secs(seconds)).burst(burst)
}

/// A quota with a burst of thirty. Here a unit comes back in a second; under [`slow`] it takes two seconds.
fn fast() -> Quota {
    quota(30, 30, 30)
}

fn slow() -> Quota {
    quota(30, 60, 30)
}

/// A limiter whose words have room for all quotas from 20 a second to 5 an hour, with bursts of up to 40.
fn limiter(default: Quota, clock: impl Into<Clock>) -> KeyedLimiter<u64> {
    let like = [quota(20, 1, 40), quota(5, 3_600, 40)];
    KeyedLimiter::builder(default).own_quotas(8, &like).clock(clock).build(100).unwrap()
}

/// Like [`limiter`], with its own clock, which is set to [`START`].
fn started(default: Quota) -> (KeyedLimiter<u64>, ManualClock) {
    let clock = ManualClock::new();
    clock.set(START);
    (limiter(default, clock.clone()), clock)
}

/// The number of requests of one unit that are admitted out of a hundred.
fn admitted(limiter: &KeyedLimiter<u64>, key: u64, quota: Quota) -> usize {
    let entry = limiter.entry(&key).under(quota).unwrap();
    (0..100).filter(|_| entry.check().is_allowed()).count()
}
