//! Rows 22, 23, 25 and 26 of the catalogue: a quota that is changed while keys are in debt.

use tollgate::{Changing, KeyedLimiter, Limiter, ManualClock, Quota, Timestamp};

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

/// A table and a limit, on a clock that reads 50 s.
fn both(quota: Quota) -> (Changing<KeyedLimiter<u64>>, Changing<Limiter>) {
    let clock = ManualClock::new();
    clock.set(at(50));
    let tiers = KeyedLimiter::builder(quota).headroom(Quota::per_second(1).burst(1_000));
    let table = tiers.clock(clock.clone()).build(100).unwrap();
    (table, Limiter::builder(quota).clock(clock).changing().build().unwrap())
}

#[test]
fn row_22_a_burst_lowered_deep_in_debt_locks_out_for_no_longer_than_the_new_one_takes() {
    let (table, live) = both(Quota::per_second(1).burst(1_000));
    assert!(table.entry(&7).at(at(50)).check_n(1_000).is_allowed());
    assert!(live.entry().at(at(50)).check_n(1_000).is_allowed());
    // These charges bring both limits into debt.
    assert_eq!(
        (table.entry(&7).at(at(50)).charge(900), live.entry().at(at(50)).charge(900)),
        (0, 0)
    );
    let quota = Quota::per_second(1).burst(5);
    table.set_quota(quota).unwrap();
    live.set_quota(quota).unwrap();
    for denied in [table.entry(&7).at(at(50)).check_n(5), live.entry().at(at(50)).check_n(5)] {
        let wait = denied.into_result().unwrap_err().retry_after().unwrap();
        assert_eq!(wait.as_secs(), 5);
    }
    assert!(
        table.entry(&7).at(at(51)).check().is_allowed()
            && live.entry().at(at(51)).check().is_allowed()
    );
}

#[test]
fn row_23_a_burst_raised_gives_the_difference_once() {
    let (table, live) = both(Quota::per_second(1).burst(10));
    assert!(
        table.entry(&7).at(at(50)).check_n(10).is_allowed()
            && live.entry().at(at(50)).check_n(10).is_allowed()
    );
    for _ in 0..3 {
        let quota = Quota::per_second(1).burst(15);
        table.set_quota(quota).unwrap();
        live.set_quota(quota).unwrap();
    }
    assert_eq!(table.entry(&7).at(at(50)).take_up_to(99).into_result().unwrap().cost(), 5);
    assert_eq!(live.entry().at(at(50)).take_up_to(99).into_result().unwrap().cost(), 5);
    // Changing the burst back and forth gives nothing more.
    for burst in [10, 15, 10, 15] {
        let quota = Quota::per_second(1).burst(burst);
        table.set_quota(quota).unwrap();
        live.set_quota(quota).unwrap();
    }
    // The spent units are still spent, whatever the burst was meanwhile.
    assert_eq!(table.entry(&7).at(at(50)).peek(0).remaining(), 0);
    assert_eq!(live.entry().at(at(50)).peek(0).remaining(), 0);
}

#[test]
fn row_25_a_limit_lowered_during_a_batch_leaves_none_and_never_less() {
    let (table, live) = both(Quota::per_second(1).burst(100));
    let mut left = Vec::new();
    for n in 0..40 {
        if n == 20 {
            let quota = Quota::per_second(1).burst(10);
            table.set_quota(quota).unwrap();
            live.set_quota(quota).unwrap();
        }
        let decision = table.entry(&7).at(at(50)).check_n(3);
        assert_eq!(decision.remaining(), live.entry().at(at(50)).check_n(3).remaining());
        left.push(decision.remaining());
    }
    assert_eq!(left[..20], (1..=20).map(|n| 100 - 3 * n).collect::<Vec<_>>());
    assert_eq!(left[20..], [0; 20]);
}

#[test]
fn row_26_a_maximum_below_what_is_there_is_a_maximum() {
    let (table, live) = both(Quota::per_second(1).burst(1_000));
    assert!(
        table.entry(&7).at(at(50)).check().is_allowed()
            && live.entry().at(at(50)).check().is_allowed()
    );
    let quota = Quota::per_second(1).burst(10);
    table.set_quota(quota).unwrap();
    live.set_quota(quota).unwrap();
    // 999 units were left before; now there are 10, of which one is spent.
    assert_eq!(table.entry(&7).at(at(50)).peek(0).remaining(), 9);
    assert_eq!(live.entry().at(at(50)).peek(0).remaining(), 9);
    assert_eq!(table.entry(&7).at(at(99)).peek(0).remaining(), 10);
    assert_eq!(live.entry().at(at(99)).peek(0).remaining(), 10);
}
