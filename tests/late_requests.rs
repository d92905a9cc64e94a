//! Requests whose time lies behind that of others: by a little, and by whole windows.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use ahash::RandomState;
use common::policy;
use tollgate::{KeyedLimiter, ManualClock, Timestamp};

fn table(text: &str, capacity: usize) -> KeyedLimiter<u64, RandomState> {
    let seeds = [RandomState::with_seeds(1, 2, 3, 4), RandomState::with_seeds(5, 6, 7, 8)];
    KeyedLimiter::with_hashers(policy(text), capacity, ManualClock::new(), seeds).unwrap()
}

#[test]
fn threads_a_millisecond_apart_are_in_step() {
    let table = table("1/s burst 1", 100);
    let now_ms = 1_000_000;
    for key in 0..50 {
        assert!(table.check_at(&key, 1, Timestamp::from_millis(now_ms)).is_allowed());
    }
    // Every floor has moved by now, to a little before these: a new key has its whole burst.
    for key in 50..100 {
        let decision = table.check_at(&key, 1, Timestamp::from_millis(now_ms - 1));
        assert!(decision.is_allowed(), "{key}");
    }
}

#[test]
fn a_late_request_is_counted_in_its_own_window_while_the_key_is_there() {
    let table = table("fixed-window 10/m", 1);
    assert!(table.check_at(&1, 10, Timestamp::from_secs(10)).is_allowed());
    // The first instant that moves a floor, and it moves by a whole epoch: past the key's window. Its
    // word is left to the next sweep.
    let granule_ns = 1 << 20;
    let after_ns = u64::try_from(table.stats().epoch.as_nanos()).unwrap() + granule_ns;
    for other in 2..8 {
        assert!(table.check_at(&other, 1, Timestamp::from_nanos(after_ns)).is_allowed());
    }
    assert!(!table.check_at(&1, 1, Timestamp::from_secs(20)).is_allowed());
    assert_eq!(table.peek_at(&1, 1, Timestamp::from_secs(60)).remaining(), 10);
}

#[test]
fn a_silence_as_long_as_a_clock_tells_is_passed_in_a_few_steps() {
    // An epoch is about a minute here: 2^26 of them would be noticed.
    let table = table("gcra 1000/s burst 10", 100);
    let latest = Timestamp::from_secs(4_102_444_799);
    for key in 0..50 {
        assert!(table.check_at(&key, 10, Timestamp::from_secs(1)).is_allowed());
    }
    for key in 50..100 {
        assert!(table.check_at(&key, 10, latest).is_allowed());
    }
    assert_eq!(table.stats().contended, 0);
}
