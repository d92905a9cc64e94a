//! Every verb of a sliding log, with exact values, for a single limit and for a key of a table.

use std::time::Duration;

use ahash::RandomState;

use tollgate::{
    DenialReason, Entry, KeyedLimiter, Limiter, ManualClock, Policy, Quota, Timestamp, Wait,
    check_all,
};

/// A log with a window of a second, unless a test says otherwise.
fn log(limit: u64) -> Policy {
    Policy::sliding_log(Quota::per_second(limit)).unwrap()
}

/// Runs a test on a limit, and on a key of a table. Each has a clock that starts at 100 s.
fn each(limit: u64, test: impl Fn(Entry<'_>, &ManualClock)) {
    let begun = || {
        let clock = ManualClock::new();
        clock.set(Timestamp::from_secs(100));
        clock
    };
    let clock = begun();
    test(Limiter::builder(log(limit)).clock(clock.clone()).build().entry(), &clock);
    let clock = begun();
    let table = KeyedLimiter::<str>::builder(log(limit)).clock(clock.clone()).build(10).unwrap();
    test(table.entry("alice"), &clock);
    assert_eq!(table.entry("bob").peek(1).remaining(), limit);
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn left(entry: Entry<'_>) -> u64 {
    entry.peek(1).remaining()
}

#[test]
fn take_up_to_takes_what_is_free_and_no_more() {
    each(5, |entry, clock| {
        assert_eq!(entry.take_up_to(3).into_result().unwrap().cost(), 3);
        clock.advance(ms(400));
        let permit = entry.take_up_to(7).into_result().unwrap();
        assert_eq!((permit.cost(), permit.remaining()), (2, 0));
        let denial = entry.take_up_to(7).into_result().unwrap_err();
        assert_eq!((denial.cost(), denial.retry_after()), (1, Some(ms(600))));
        // If `take_up_to` asks for more units than the log can ever hold, it is not denied as `NeverFits`, but takes
        // what fits.
        clock.advance(ms(600));
        assert_eq!(entry.take_up_to(u64::MAX).into_result().unwrap().cost(), 3);
        assert_eq!(entry.take_up_to(0).into_result().unwrap().cost(), 0);
    });
}

#[test]
fn a_charge_goes_into_debt_of_as_much_as_one_window_holds() {
    each(2, |entry, clock| {
        assert!(entry.check().is_allowed());
        clock.advance(ms(300));
        // One slot is free now. The other becomes free in 700 ms, and is charged for that time.
        assert_eq!(entry.charge(2), 0);
        let denial = entry.check().into_result().unwrap_err();
        // The slots now count at 300 and at 1000 ms, so they are free again at 1300 and at 2000 ms.
        assert_eq!(denial.retry_after(), Some(ms(1_000)));
        assert_eq!(denial.reset_after(), ms(1_700));
        // The slot that becomes free within a window, at 1300 ms, is charged. More units than that are not remembered.
        assert_eq!(entry.charge(5), 4);
        assert_eq!(entry.charge(u64::MAX), u64::MAX);
        clock.advance(ms(1_700));
        // At 2000 ms the slot that counts at 1000 ms is free. The slot of 1300 ms is taken until 2300 ms.
        assert_eq!(left(entry), 1);
        assert_eq!(entry.charge(0), 0);
        assert!(entry.check().is_allowed());
        clock.advance(ms(300));
        assert!(entry.check().is_allowed());
    });
}

#[test]
fn a_charge_of_more_than_the_log_holds_wraps_around_its_slots_once() {
    each(3, |entry, clock| {
        assert_eq!(entry.charge(10), 4);
        assert_eq!(entry.check().retry_after(), Some(ms(2_000)));
        clock.advance(ms(2_000));
        assert_eq!(left(entry), 3);
    });
}

#[test]
fn a_reservation_has_the_first_place_at_which_all_its_units_are_free() {
    each(2, |entry, clock| {
        assert!(entry.check().is_allowed());
        clock.advance(ms(400));
        let now = entry.reserve(1, Duration::ZERO).unwrap();
        assert_eq!((now.wait(), now.permit().cost()), (Duration::ZERO, 1));
        // The slots become free at 1000 and at 1400 ms, so both are free at 1400 ms.
        assert_eq!(entry.reserve(2, ms(999)).unwrap_err().retry_after(), Some(ms(1_000)));
        let both = entry.reserve(2, ms(1_000)).unwrap();
        assert_eq!(both.ready_at(), Timestamp::from_millis(101_400));
        let behind = entry.reserve(1, Duration::MAX).unwrap();
        assert_eq!(behind.ready_at(), Timestamp::from_millis(102_400));
        assert_eq!(entry.reserve(3, Duration::MAX).unwrap_err().reason(), DenialReason::NeverFits);
        // The unit is free neither before the place's turn nor in the window after it.
        clock.advance(ms(1_999));
        assert_eq!(left(entry), 0);
        clock.advance(ms(1));
        assert_eq!(left(entry), 1);
    });
}

#[test]
fn a_queue_is_as_long_as_the_caller_says() {
    each(1, |entry, _| {
        let wait = Wait::at_most(Duration::MAX).behind(2);
        let waits: Vec<_> = (0..9).filter_map(|_| entry.queue(1, wait).ok()).collect();
        assert_eq!(waits.iter().map(|place| place.wait().as_secs()).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(entry.acquire_blocking(1, wait).unwrap_err().retry_after(), Some(ms(3_000)));
    });
    each(3, |entry, _| {
        let wait = Wait::at_most(Duration::MAX).behind(3);
        assert_eq!((0..9).filter(|_| entry.queue(1, wait).is_ok()).count(), 6);
    });
}

#[test]
fn a_place_that_is_given_back_is_free_again_from_its_turn_on() {
    each(1, |entry, clock| {
        assert!(entry.check().is_allowed());
        let [first, second] = [(); 2].map(|()| entry.reserve(1, Duration::MAX).unwrap());
        // The first place cannot be cancelled, because the second is behind it.
        assert!(!entry.cancel(first));
        assert!(entry.cancel(second));
        assert_eq!(entry.reserve(1, Duration::MAX).unwrap().wait(), ms(2_000));
        clock.advance(ms(3_000));
        assert!(entry.check().is_allowed());
    });
}

#[test]
fn a_refund_gives_back_what_is_still_in_the_window() {
    each(5, |entry, clock| {
        let mut permit = entry.check_n(3).into_result().unwrap();
        clock.advance(ms(500));
        let other = entry.check_n(2).into_result().unwrap();
        assert_eq!(entry.refund(permit.split_off(2)), 2);
        assert_eq!(left(entry), 2);
        assert!(entry.check_n(2).is_allowed());
        // One of the three units is still in the window.
        assert_eq!(entry.refund(permit), 1);
        clock.advance(ms(1_000));
        // The other unit has left the window already.
        assert_eq!(entry.refund(other), 0);
        assert_eq!(left(entry), 5);
    });
}

#[test]
fn a_refund_lets_no_late_caller_in_beside_what_was_admitted_before() {
    each(1, |entry, clock| {
        assert!(entry.check().is_allowed());
        clock.advance(ms(1_500));
        let permit = entry.check().into_result().unwrap();
        assert_eq!(entry.refund(permit), 1);
        let late = entry.at(Timestamp::from_millis(100_500)).check();
        assert!(!late.is_allowed());
        assert!(entry.check().is_allowed());
    });
}

#[test]
fn a_refund_in_a_log_of_many_rows_is_found_again() {
    each(1_000, |entry, clock| {
        let permits: Vec<_> = (0..1_000)
            .map(|_| {
                clock.advance(Duration::from_micros(1));
                entry.check().into_result().unwrap()
            })
            .collect();
        assert!(!entry.check().is_allowed());
        for permit in permits.into_iter().step_by(100) {
            assert_eq!(entry.refund(permit), 1);
        }
        assert_eq!(left(entry), 10);
        assert_eq!(entry.take_up_to(u64::MAX).into_result().unwrap().cost(), 10);
    });
}

#[test]
fn a_permit_of_another_limit_gives_nothing_back() {
    each(5, |entry, clock| {
        assert!(entry.check_n(4).is_allowed());
        for policy in [log(6), log(5).quota().into(), "log 5/m".parse().unwrap()] {
            let other = Limiter::builder(policy).clock(clock.clone()).build();
            assert_eq!(entry.refund(other.check_n(2).into_result().unwrap()), 0, "{policy}");
        }
        assert_eq!(left(entry), 1);
    });
}

#[test]
fn a_reset_forgets_all_and_callers_of_before_still_wait() {
    each(3, |entry, clock| {
        assert_eq!(entry.charge(5), 0);
        clock.advance(ms(100));
        entry.reset();
        assert_eq!((left(entry), entry.peek(1).reset_after()), (3, Duration::ZERO));
        let before = entry.at(Timestamp::from_millis(100_050));
        assert_eq!(before.check().retry_after(), Some(ms(50)));
        assert!(entry.check_n(3).is_allowed());
    });
}

#[test]
fn a_joint_decision_charges_a_log_or_leaves_it_as_it_was() {
    each(3, |entry, clock| {
        let other = Limiter::builder(Quota::per_hour(4)).clock(clock.clone()).build();
        assert!(check_all(&mut [entry.cost(2), other.entry().cost(2)]).is_allowed());
        let denied = check_all(&mut [entry.cost(1), other.entry().cost(3)]);
        assert_eq!((denied.is_allowed(), denied.denied_by()), (false, Some(1)));
        assert_eq!(left(entry), 1);
        // The request names the limit twice: its second charge is denied after the first has taken the last unit.
        let twice = check_all(&mut [entry.cost(1), entry.cost(1)]);
        assert!(!twice.is_allowed());
        assert_eq!((left(entry), other.entry().peek(1).remaining()), (1, 2));
        let mut claims = [other.entry().cost(1), entry.cost(1)];
        assert!(check_all(&mut claims).is_allowed());
        assert_eq!(entry.refund(claims[1].take_permit().unwrap()), 1);
    });
}

#[test]
fn a_lease_spends_a_batch_and_gives_back_the_rest() {
    each(10, |entry, _| {
        let mut lease = entry.lease(6).unwrap();
        assert!((0..4).all(|_| lease.check().is_ok()));
        assert_eq!(entry.refund(lease.into_unspent()), 2);
        assert_eq!(left(entry), 6);
    });
}

#[test]
fn the_longest_window_and_the_latest_times_end_in_an_answer() {
    let policy = Policy::sliding_log(Quota::per(2, Duration::from_nanos(u64::MAX))).unwrap();
    let limiter = Limiter::builder(policy).clock(ManualClock::new()).build();
    for now in [Timestamp::default(), Timestamp::from_nanos(u64::MAX)] {
        let entry = limiter.entry().at(now);
        assert!(entry.charge(u64::MAX) > 0);
        assert!(entry.reserve(1, Duration::MAX).is_err());
        assert!(entry.queue(2, Wait::at_most(Duration::MAX).behind(1)).is_err());
        entry.reset();
        assert!(entry.reserve(2, Duration::MAX).is_ok());
        entry.reset();
    }
}

#[test]
fn a_table_of_logs_counts_its_keys_and_what_they_are_denied() {
    let clock = ManualClock::new();
    // With other seeds, one of the keys would find no cell in one run of 200.
    let seeds = RandomState::with_seeds(1, 2, 3, 4);
    let builder = KeyedLimiter::<u64>::builder(log(2)).clock(clock.clone()).hasher(seeds);
    let table = builder.build(100).unwrap();
    assert!((0..100).all(|key| table.check(&key).is_allowed()));
    let stats = table.stats();
    assert_eq!((stats.live, stats.tag_bits, stats.spill_bytes), (100, 39, 0));
    assert!(stats.bytes >= stats.cells * 40, "{stats:?}");
    let mut answers = Vec::new();
    table.check_many(&[1, 2, 1, 500], 1, |&key, told| answers.push((key, told.is_allowed())));
    assert_eq!(answers, [(1, true), (2, true), (1, false), (500, true)]);
    let admitted = (1_000..3_000).filter(|key| table.check(key).is_allowed()).count();
    assert!(admitted < 100, "{admitted}");
    let full = table.stats();
    assert!(full.full > 1_000 && full.live <= full.cells, "{full:?}");
    clock.advance(ms(1_000));
    assert_eq!(table.stats().live, 0);
    assert!(table.check(&5_000).is_allowed());
    assert!(table.stats().reclaimed > 0);
}
