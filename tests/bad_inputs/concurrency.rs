//! Section C: concurrency, on real threads. `loom-tests` explores which orders are possible; here many threads run and
//! the results are checked.

use std::hash::{Hash, Hasher};
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use crate::common::policy;
use tollgate::{KeyedLimiter, Limiter, ManualClock, Quota, Timestamp, Wait, check_all};

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
    // Two of the four requests fit for each key.
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
fn row_45_a_thread_that_slept_ten_seconds_gets_nothing_back() {
    let limiter = Limiter::builder(policy("gcra 1/s burst 5")).clock(ManualClock::new()).build();
    let keyed = KeyedLimiter::builder(policy("gcra 1/s burst 5"))
        .clock(ManualClock::new())
        .build(10)
        .unwrap();
    let (then, now) = (Timestamp::from_secs(100), Timestamp::from_secs(110));
    for _ in 0..5 {
        assert!(limiter.entry().at(now).check().is_allowed());
        assert!(keyed.entry("key").at(now).check().is_allowed());
    }
    assert!(!limiter.entry().at(then).check().is_allowed());
    assert!(!keyed.entry("key").at(then).check().is_allowed());
    // It has not delayed other requests either.
    assert!(limiter.entry().at(now + Duration::from_secs(1)).check().is_allowed());
    assert!(keyed.entry("key").at(now + Duration::from_secs(1)).check().is_allowed());
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
fn row_49_when_the_last_of_several_limits_denies_nothing_stays_charged() {
    let limits = [5, 4, 3].map(|limit| Limiter::new(Quota::per_hour(limit)));
    let clients = KeyedLimiter::<str>::new(Quota::per_hour(1), 10).unwrap();
    let now = Timestamp::from_secs(1_000);
    let all = || {
        let [a, b, c] = limits.each_ref().map(|limit| limit.entry().at(now).cost(1));
        check_all(&mut [a, b, c, clients.entry("client").at(now).cost(1)])
    };
    assert!(all().is_allowed());
    assert_eq!([all().denied_by(), all().denied_by()], [Some(3), Some(3)]);
    let left = limits.each_ref().map(|limit| limit.entry().at(now).peek(1).remaining());
    assert_eq!(left, [4, 3, 2]);
}

#[test]
fn row_52_sweeps_in_a_storm_of_installs_lose_nothing() {
    // Four keys owe units for hours, among thousands that come and go within milliseconds, while time leaps ahead so
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
    // At 100 an hour no unit comes back within five seconds: each key is admitted its burst and no more.
    assert_eq!(admitted, 400);
}

#[test]
fn row_50_a_future_that_is_dropped_leaks_no_permit_and_charges_nothing() {
    let never = |_| std::future::pending();
    let limiter = Limiter::builder(Quota::per_hour(1)).clock(ManualClock::new()).build();
    let wait = Wait::at_most(Duration::from_secs(1_000_000));
    assert!(limiter.check().is_allowed());
    for polled in [false, true, true] {
        let mut waiting = pin!(limiter.entry().acquire(1, wait, never));
        if polled {
            let mut context = Context::from_waker(Waker::noop());
            assert!(waiting.as_mut().poll(&mut context).is_pending());
        }
    }
    // Each future was dropped where its block ends. Only the one unit that was admitted is owed.
    assert_eq!(limiter.entry().queue(1, wait).unwrap().wait(), Duration::from_secs(3_600));
}
