//! Real threads. What they may interleave is explored elsewhere; here many of them simply try.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use common::policy;
use tollgate::{KeyedLimiter, Limiter, ManualClock, Quota, Timestamp};

/// Runs `work(thread)` on that many threads that start together, and adds up what they return.
fn on_threads(threads: u64, work: impl Fn(u64) -> u64 + Sync) -> u64 {
    let barrier = Barrier::new(usize::try_from(threads).unwrap());
    let total = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..threads {
            let (barrier, total, work) = (&barrier, &total, &work);
            scope.spawn(move || {
                barrier.wait();
                total.fetch_add(work(thread), Ordering::Relaxed);
            });
        }
    });
    total.into_inner()
}

#[test]
fn row_40_of_64_threads_exactly_one_gets_the_only_unit() {
    for round in 0..50 {
        let limiter = Limiter::with_clock(Quota::per_hour(1), ManualClock::new());
        let keyed = KeyedLimiter::with_clock(Quota::per_hour(1), 10, ManualClock::new()).unwrap();
        assert_eq!(on_threads(64, |_| u64::from(limiter.check(1).is_allowed())), 1);
        assert_eq!(on_threads(64, |_| u64::from(keyed.check(&round, 1).is_allowed())), 1);
        assert_eq!(keyed.stats().live, 1);
    }
}

#[test]
fn row_41_threads_that_meet_a_new_key_together_share_one_cell() {
    let keyed =
        KeyedLimiter::with_clock(Quota::per_hour(1_000), 5_000, ManualClock::new()).unwrap();
    let admitted = on_threads(4, |_| {
        (0..5_000_u64).map(|key| u64::from(keyed.check(&key, 400).is_allowed())).sum()
    });
    // Two of the four fit for each key.
    assert_eq!(admitted, 10_000);
    assert_eq!(keyed.stats().live, 5_000);
}

#[test]
fn row_48_no_count_is_lost_when_64_threads_turn_a_window() {
    for text in ["fixed-window 1000/s", "sliding-window 1000/s", "segmented-window 1000/s x2"] {
        let limiter = Limiter::with_clock(policy(text), ManualClock::new());
        for window in [0, 3, 6, 9] {
            let now = Timestamp::from_secs(window);
            let admitted = on_threads(64, |_| {
                (0..50).map(|_| u64::from(limiter.check_at(1, now).is_allowed())).sum()
            });
            assert_eq!(admitted, 1_000, "{text} at {now:?}");
        }
    }
}

#[test]
fn row_27_threads_whose_clocks_disagree_admit_no_more_than_the_bound() {
    // Four threads, each at its own pace and up to 10 ms apart, over 2 seconds of their time.
    let keyed =
        KeyedLimiter::with_clock(Quota::per_second(1_000).burst(10), 10, ManualClock::new());
    let keyed = keyed.unwrap();
    let latest_ns = AtomicU64::new(0);
    let admitted = on_threads(4, |thread| {
        let mut admitted = 0;
        for step in 0..200_000_u64 {
            let jitter_ns =
                (step.wrapping_mul(thread + 7).wrapping_mul(0x9e37_79b9) >> 7) % 10_000_000;
            let now_ns = step * 10_000 + jitter_ns;
            latest_ns.fetch_max(now_ns, Ordering::Relaxed);
            admitted +=
                u64::from(keyed.check_at("key", 1, Timestamp::from_nanos(now_ns)).is_allowed());
        }
        admitted
    });
    let bound = 10 + latest_ns.into_inner() / 1_000_000 + 1;
    assert!(admitted <= bound, "{admitted} above {bound}");
    assert!(admitted >= bound * 99 / 100, "{admitted} far below {bound}");
}

#[test]
fn row_62_a_flood_of_new_keys_resets_nobody() {
    let keyed = KeyedLimiter::with_clock(Quota::per_hour(5), 1_000, ManualClock::new()).unwrap();
    let bytes = keyed.stats().bytes;
    let victims: Vec<u64> = (0..100).collect();
    for victim in &victims {
        assert!(keyed.check(victim, 5).is_allowed());
    }
    on_threads(4, |thread| {
        (0..100_000)
            .map(|n| u64::from(keyed.check(&(1_000 + thread * 100_000 + n), 1).is_allowed()))
            .sum()
    });
    for victim in &victims {
        assert!(!keyed.check(victim, 1).is_allowed(), "victim {victim} was reset");
    }
    let stats = keyed.stats();
    assert_eq!(stats.bytes, bytes);
    assert!(stats.live <= stats.cells);
    assert!(stats.full > 300_000, "{stats:?}");
}

#[test]
fn row_63_a_full_table_denies_newcomers_until_the_hour_it_names() {
    let clock = ManualClock::new();
    let keyed = KeyedLimiter::with_clock(Quota::per_hour(1), 1, clock.clone()).unwrap();
    let denial = (0..1_000_u64)
        .find_map(|key| keyed.check(&key, 1).into_result().err())
        .expect("a table for one key has no thousand cells");
    assert!(denial.is_table_full());
    assert!(!denial.is_never());
    let wait = denial.retry_after().unwrap();
    // The first cell is idle after an hour; the floor follows in whole granules of a millisecond.
    assert!((3_600_000..=3_600_003).contains(&wait.as_millis()), "{wait:?}");
    clock.advance(wait);
    let admitted = (1_000..2_000_u64).filter(|key| keyed.check(key, 1).is_allowed()).count();
    assert!(admitted > 0);
    assert!(keyed.stats().reclaimed > 0);
}

#[test]
fn keys_come_and_go_for_ever_in_fixed_memory() {
    let clock = ManualClock::new();
    let keyed = KeyedLimiter::with_clock(Quota::per_second(1), 1_000, clock.clone()).unwrap();
    for second in 0..1_000_u64 {
        for key in 0..100 {
            assert!(keyed.check(&(second * 100 + key), 1).is_allowed(), "{second} {key}");
        }
        clock.advance(std::time::Duration::from_millis(1_010));
    }
    assert_eq!(keyed.stats().full, 0);
    assert!(keyed.stats().reclaimed >= 98_000, "{:?}", keyed.stats());
}
