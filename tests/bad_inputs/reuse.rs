//! Section C of the catalogue, continued: cells that other keys take over, and compare-and-swaps that fail.
//! `loom-tests` explores every order; these tests check the results with many threads.

use std::time::Duration;

use tollgate::{KeyedLimiter, ManualClock, Quota, Timestamp, WhenFull};

use crate::bad_inputs::concurrency::on_threads;
use crate::common::policy;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// The units that key 7 is admitted while 4 threads charge it and other keys in turn. The steps are a millisecond
/// apart, and the table has so few cells that new keys take over each cell again and again.
fn admitted_of_one_key(text: &str, steps: u64) -> u64 {
    let table = KeyedLimiter::builder(policy(text))
        .clock(ManualClock::new())
        .when_full(WhenFull::Deny)
        .build(8)
        .unwrap();
    on_threads(4, |thread| {
        let mut admitted = 0;
        for step in 0..steps {
            // Each thread also uses other keys, different from those of other threads. These are idle a millisecond
            // later.
            let stranger = 1_000 + (step * 4 + thread) % 5_000;
            let _ = table.entry(&stranger).at(at(step)).check();
            admitted += u64::from(table.entry(&7).at(at(step)).check().is_allowed());
        }
        admitted
    })
}

#[test]
fn row_42_a_charge_that_meets_a_reclaim_is_kept_or_made_again() {
    // A unit drains in a millisecond, so key 7's cell is reclaimed all the time, while other threads charge it. Each of
    // the four threads takes the same 20,000 steps of time. So at most a burst plus one unit for each step
    // are admitted, however far one thread is ahead of the others.
    let admitted = admitted_of_one_key("gcra 1000/s burst 2", 20_000);
    assert!((1..=20_000 + 2).contains(&admitted), "{admitted}");
}

#[test]
fn row_43_a_cell_that_another_key_has_with_equal_bits_is_not_charged_for_the_first() {
    // All keys are charged one unit at one instant, so their words differ only in the tag. In the next second each of
    // the few cells belongs to another key with the same state.
    let table = KeyedLimiter::builder(Quota::per_second(2))
        .clock(ManualClock::new())
        .when_full(WhenFull::Deny)
        .build(4)
        .unwrap();
    for second in 0..200_u64 {
        let now = at(1_100 * second);
        let keys = || second * 100..second * 100 + 4;
        let found: Vec<u64> =
            keys().filter(|key| table.entry(key).at(now).check().is_allowed()).collect();
        assert!(!found.is_empty());
        for key in &found {
            assert_eq!(table.entry(key).at(now).peek(1).remaining(), 1, "{key} in second {second}");
        }
        // The keys of the second before have their whole limit again, whichever keys have their cells now.
        for old in (second.saturating_sub(1)) * 100..second * 100 {
            assert_eq!(
                table.entry(&old).at(now).peek(0).remaining(),
                2,
                "{old} in second {second}"
            );
        }
    }
    assert!(table.stats().reclaimed > 100, "{:?}", table.stats());
}

#[test]
fn row_44_and_53_exchanges_that_fail_are_made_again_from_what_was_found() {
    // Eight threads contend for one word, so most compare-and-swaps fail. Still each unit is charged exactly once.
    let table =
        KeyedLimiter::builder(Quota::per_hour(50_000)).clock(ManualClock::new()).build(10).unwrap();
    let admitted = on_threads(8, |_| {
        (0..10_000).map(|_| u64::from(table.entry(&7).at(at(1)).check().is_allowed())).sum()
    });
    assert_eq!(admitted, 50_000);
    assert_eq!(table.entry(&7).at(at(1)).peek(1).remaining(), 0);
}

#[test]
fn row_47_where_installs_disturb_each_other_no_key_is_admitted_twice() {
    // Eight threads ask for each new key at once, so their claims meet. A thread that loses too often is denied, and
    // that denial is counted. The other threads find that the key is installed.
    let table = KeyedLimiter::builder(Quota::per_hour(1))
        .clock(ManualClock::new())
        .when_full(WhenFull::Deny)
        .build(20_000)
        .unwrap();
    let admitted = on_threads(8, |_| {
        (0..5_000_u64).map(|key| u64::from(table.entry(&key).at(at(1)).check().is_allowed())).sum()
    });
    let stats = table.stats();
    let without_cell = stats.contended + stats.full;
    assert!(admitted <= 5_000 && admitted + without_cell >= 5_000, "{admitted}, {stats:?}");
    // A key that was denied because of contention is admitted as soon as no other thread disturbs its install.
    let later = at(1) + Duration::from_millis(3);
    let now: u64 =
        (0..5_000_u64).map(|key| u64::from(table.entry(&key).at(later).check().is_allowed())).sum();
    assert_eq!(admitted + now, 5_000);
}
