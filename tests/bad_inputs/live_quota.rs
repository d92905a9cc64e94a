//! Rows 22, 23, 25 and 26 of the catalogue: a quota changes while keys are in debt.

use tollgate::{Changing, Entry, KeyedLimiter, Limiter, ManualClock, Quota, Timestamp};

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

fn burst(units: u64) -> Quota {
    Quota::per_second(1).burst(units)
}

/// A table and a limit under one quota, both on a clock that reads 50 s.
struct Both {
    table: Changing<KeyedLimiter<u64>>,
    live: Changing<Limiter>,
}

impl Both {
    fn new(quota: Quota) -> Self {
        let clock = ManualClock::new();
        clock.set(at(50));
        let tiers = KeyedLimiter::builder(quota).headroom(burst(1_000));
        let table = tiers.clock(clock.clone()).build(100).unwrap();
        Self { table, live: Limiter::builder(quota).clock(clock).changing().build().unwrap() }
    }

    fn entries(&self) -> [Entry<'_>; 2] {
        [self.table.entry(&7), self.live.entry()]
    }

    fn set(&self, quota: Quota) {
        self.table.set_quota(quota).unwrap();
        self.live.set_quota(quota).unwrap();
    }
}

#[test]
fn row_22_a_burst_lowered_deep_in_debt_locks_out_for_no_longer_than_the_new_one_takes() {
    let both = Both::new(burst(1_000));
    for entry in both.entries() {
        assert!(entry.check_n(1_000).is_allowed());
        // This charge brings the limit into debt.
        assert_eq!(entry.charge(900), 0);
    }
    both.set(burst(5));
    for entry in both.entries() {
        assert_eq!(entry.check_n(5).retry_after().unwrap().as_secs(), 5);
        assert!(entry.at(at(51)).check().is_allowed());
    }
}

#[test]
fn row_23_a_burst_raised_gives_the_difference_once() {
    let both = Both::new(burst(10));
    for entry in both.entries() {
        assert!(entry.check_n(10).is_allowed());
    }
    for _ in 0..3 {
        both.set(burst(15));
    }
    for entry in both.entries() {
        assert_eq!(entry.take_up_to(99).into_result().unwrap().cost(), 5);
    }
    // Changing the burst back and forth gives no additional units, because the spent units stay spent.
    for units in [10, 15, 10, 15] {
        both.set(burst(units));
    }
    for entry in both.entries() {
        assert_eq!(entry.peek(0).remaining(), 0);
    }
}

#[test]
fn row_25_a_limit_lowered_during_a_batch_leaves_none_and_never_less() {
    let both = Both::new(burst(100));
    for n in 0..40 {
        if n == 20 {
            both.set(burst(10));
        }
        let left = if n < 20 { 100 - 3 * (n + 1) } else { 0 };
        assert_eq!(both.entries().map(|entry| entry.check_n(3).remaining()), [left; 2], "{n}");
    }
}

#[test]
fn row_26_a_maximum_below_what_is_there_is_a_maximum() {
    let both = Both::new(burst(1_000));
    for entry in both.entries() {
        assert!(entry.check().is_allowed());
    }
    both.set(burst(10));
    for entry in both.entries() {
        // 999 units were left before the change. Now the limit is 10, of which one unit is spent.
        assert_eq!(entry.peek(0).remaining(), 9);
        assert_eq!(entry.at(at(99)).peek(0).remaining(), 10);
    }
}
