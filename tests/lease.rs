//! Leases: no unit is admitted twice, and an unspent unit is given back if it has not drained.

use std::time::Duration;

use tollgate::{DenialReason, KeyedLimiter, Limiter, ManualClock, Quota, Timestamp};

fn limiter(quota: Quota) -> (Limiter, ManualClock) {
    let clock = ManualClock::new();
    (Limiter::builder(quota).clock(clock.clone()).build(), clock)
}

#[test]
fn a_lease_spends_what_it_took_and_no_more() {
    let (limiter, _) = limiter(Quota::per_hour(10));
    let mut lease = limiter.entry().lease(4).unwrap();
    assert_eq!(limiter.entry().peek(1).remaining(), 6);
    assert_eq!((0..10).filter(|_| lease.spend(1)).count(), 4);
    assert_eq!((lease.left(), limiter.entry().peek(1).remaining()), (0, 6));
    drop(lease);
    assert_eq!(limiter.entry().peek(1).remaining(), 6);
}

#[test]
fn what_drains_meanwhile_does_not_come_back() {
    // One unit drains every 10 s, and those of the 6 unspent units that have not drained are given back. After 15 s
    // these are 4.5 units. Other requests cannot take the half unit that has come back, so five are left.
    for (after_s, left) in [(0, 6), (10, 5), (15, 5), (20, 4), (60, 0), (600, 0)] {
        let (limiter, clock) = limiter(Quota::per_minute(6).burst(12));
        let start = clock.now();
        let lease = limiter.entry().lease(6).unwrap();
        clock.set(start + Duration::from_secs(after_s));
        // Other requests have taken all units that were left.
        let rest = limiter.entry().peek(1).remaining();
        assert!(limiter.check_n(rest).is_allowed());
        drop(lease);
        assert_eq!(limiter.entry().peek(1).remaining(), left, "after {after_s} s");
    }
}

#[test]
fn a_return_that_comes_late_to_the_word_forgives_no_charge() {
    let (limiter, _) = limiter(Quota::per_second(1).burst(10));
    let [taken, later] = [100, 110].map(Timestamp::from_secs);
    let lease = limiter.entry().at(taken).lease(10).unwrap();
    assert!(limiter.entry().at(later).check_n(10).is_allowed());
    // The clock was read at 100 s, but the word has already seen 110 s, so all ten units have drained.
    limiter.entry().at(taken).refund(lease.into_unspent());
    assert!(!limiter.entry().at(later).check().is_allowed());
}

#[test]
fn checking_renews_the_lease_and_shrinks_it_before_it_denies() {
    let (limiter, clock) = limiter(Quota::per_hour(10));
    let mut lease = limiter.entry().lease(4).unwrap();
    assert_eq!((0..20).filter(|_| lease.check().is_ok()).count(), 10);
    clock.advance(Duration::from_secs(360));
    assert!(lease.check().is_ok());
    assert!(lease.check().is_err());
    assert_eq!(lease.check_n(11).unwrap_err().reason(), DenialReason::NeverFits);
}

#[test]
fn a_cost_above_the_batch_is_taken_whole() {
    let (limiter, _) = limiter(Quota::per_hour(10));
    let mut lease = limiter.entry().lease(2).unwrap();
    assert!(lease.check_n(5).is_ok());
    assert_eq!((lease.left(), limiter.entry().peek(1).remaining()), (0, 5));
}

#[test]
fn a_lease_of_the_callers_time_is_returned_only_by_the_caller() {
    let (limiter, _) = limiter(Quota::per_hour(10));
    let at = Timestamp::from_secs(1_000);
    drop(limiter.entry().at(at).lease(4).unwrap());
    assert_eq!(limiter.entry().at(at).peek(1).remaining(), 6);
    let lease = limiter.entry().at(at).lease(4).unwrap();
    assert_eq!(limiter.entry().at(at).refund(lease.into_unspent()), 4);
    assert_eq!(limiter.entry().at(at).peek(1).remaining(), 6);
    // The times of a lease are not mixed with the limiter's clock either.
    let mut lease = limiter.entry().at(at).lease(2).unwrap();
    assert!(lease.check().is_ok() && lease.check().is_ok());
    assert!(lease.check_n(5).is_err());
}

#[test]
fn a_key_of_a_table_is_leased_as_any_limit_is() {
    let clock = ManualClock::new();
    let limiter =
        KeyedLimiter::builder(Quota::per_hour(10)).clock(clock.clone()).build(10).unwrap();
    let left = |key| limiter.entry(key).peek(1).remaining();
    let mut lease = limiter.entry("alice").lease(4).unwrap();
    assert!(lease.spend(1));
    assert_eq!((left("alice"), left("bob")), (6, 10));
    drop(lease);
    assert_eq!(left("alice"), 9);
    // When the lease is renewed, the new units belong to the same key.
    let mut lease = limiter.entry("alice").lease(4).unwrap();
    assert_eq!((0..20).filter(|_| lease.check().is_ok()).count(), 9);
    assert_eq!((left("alice"), left("bob")), (0, 10));
}
