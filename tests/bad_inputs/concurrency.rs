//! Section C of the catalogue of bad inputs: concurrency, on real threads. `loom-tests` explores the possible orders;
//! here many threads run, and the tests check the results.

use std::hash::{Hash, Hasher};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::common::policy;
use tollgate::{KeyedLimiter, Limiter, ManualClock, Quota, Timestamp};

/// Runs `work(thread)` on `threads` threads that start together, and adds up their results.
pub(crate) fn on_threads(threads: u64, work: impl Fn(u64) -> u64 + Sync) -> u64 {
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
        let limiter = Limiter::builder(Quota::per_hour(1)).clock(ManualClock::new()).build();
        let keyed =
            KeyedLimiter::builder(Quota::per_hour(1)).clock(ManualClock::new()).build(10).unwrap();
        assert_eq!(on_threads(64, |_| u64::from(limiter.check().is_allowed())), 1);
        assert_eq!(on_threads(64, |_| u64::from(keyed.check(&round).is_allowed())), 1);
        assert_eq!(keyed.stats().live, 1);
    }
}

#[test]
fn row_41_threads_that_meet_a_new_key_together_share_one_cell() {
    let keyed = KeyedLimiter::builder(Quota::per_hour(1_000))
        .clock(ManualClock::new())
        .build(10_000)
        .unwrap();
    let admitted = on_threads(4, |_| {
        (0..5_000_u64).map(|key| u64::from(keyed.check_n(&key, 400).is_allowed())).sum()
    });
    // For each key two of the four requests fit.
    assert_eq!(admitted, 10_000);
    assert_eq!(keyed.stats().live, 5_000);
}

#[test]
fn row_48_no_count_is_lost_when_64_threads_turn_a_window() {
    for text in ["fixed-window 1000/s", "sliding-window 1000/s exact", "segmented-window 1000/s x2"]
    {
        let limiter = Limiter::builder(policy(text)).clock(ManualClock::new()).build();
        for window in [0, 3, 6, 9] {
            let now = Timestamp::from_secs(window);
            let admitted = on_threads(64, |_| {
                (0..50).map(|_| u64::from(limiter.entry().at(now).check().is_allowed())).sum()
            });
            assert_eq!(admitted, 1_000, "{text} at {now:?}");
        }
    }
}

#[test]
fn row_46_a_panic_in_the_hash_of_a_key_leaves_nothing_stuck() {
    struct Key(u64);
    impl Hash for Key {
        fn hash<H: Hasher>(&self, state: &mut H) {
            assert_ne!(self.0, 13, "this key cannot be hashed");
            self.0.hash(state);
        }
    }
    let keyed =
        KeyedLimiter::builder(Quota::per_hour(2)).clock(ManualClock::new()).build(10).unwrap();
    assert!(keyed.check(&Key(1)).is_allowed());
    let caught = panic::catch_unwind(AssertUnwindSafe(|| keyed.check(&Key(13)).is_allowed()));
    assert!(caught.is_err());
    assert!(keyed.check(&Key(1)).is_allowed());
    assert!(!keyed.check(&Key(1)).is_allowed());
    assert_eq!(keyed.stats().live, 1);
}

#[test]
fn row_52_sweeps_in_a_storm_of_installs_lose_nothing() {
    // Four keys owe units for hours, among thousands of keys that come and go within milliseconds. Time leaps ahead so
    // that floors advance.
    let table =
        KeyedLimiter::builder(policy("gcra 100/h burst 100")).clock(ManualClock::new()).build(200);
    let table = table.unwrap();
    let admitted = on_threads(4, |thread| {
        let mut admitted = 0;
        for step in 0..50_000_u64 {
            let now = Timestamp::from_millis(step / 10);
            let _ = table.entry(&(1_000 + (thread * 50_000 + step) % 20_000)).at(now).check();
            admitted += u64::from(table.entry(&(step % 4)).at(now).check().is_allowed());
        }
        admitted
    });
    // At 100 an hour no unit comes back within five seconds, so each key is admitted exactly its burst.
    assert_eq!(admitted, 400);
}
