//! Permits that were granted under one quota and are given back after requests under another quota.

use std::time::Duration;

use tollgate::Permit;

use super::{fast, quota, slow, started};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_permit_of_the_quota_that_the_key_is_in_gives_back_what_has_not_drained() {
    let (limiter, clock) = started(slow());
    let entry = limiter.entry(&7).under(fast()).unwrap();
    let permit = entry.check_n(20).into_result().unwrap();
    clock.advance(5 * SECOND);
    assert_eq!(entry.refund(permit), 15);
    assert_eq!(entry.peek(0).remaining(), 30);
}

#[test]
fn a_permit_of_another_quota_gives_nothing_back() {
    for [first, second] in [[fast(), slow()], [slow(), fast()]] {
        let (limiter, _) = started(slow());
        let [first, second] = [first, second].map(|quota| limiter.entry(&7).under(quota).unwrap());
        let permit = first.check_n(20).into_result().unwrap();
        assert!(second.check().is_allowed());
        // The refund gives nothing back, through either entry.
        let mut permit = permit;
        assert_eq!(first.refund(permit.split_off(10)), 0);
        assert_eq!(second.refund(permit), 0);
        assert_eq!(second.peek(0).remaining(), 9);
    }
}

#[test]
fn after_a_faster_quota_and_back_a_permit_gives_nothing_back() {
    let (limiter, clock) = started(slow());
    let [slow, fast] = [slow(), fast()].map(|quota| limiter.entry(&7).under(quota).unwrap());
    let permit = slow.check_n(20).into_result().unwrap();
    assert!(fast.check().is_allowed());
    clock.advance(15 * SECOND);
    assert!(slow.check().is_allowed());
    // Fifteen units have drained and seven are owed, but the word cannot say whether any of the seven belong to the
    // permit.
    assert_eq!(slow.refund(permit), 0);
    assert_eq!(slow.peek(0).remaining(), 23);
    let permit = slow.check_n(2).into_result().unwrap();
    assert_eq!(slow.refund(permit), 2);
}

#[test]
fn what_is_given_back_is_no_more_than_what_was_admitted_whichever_way_the_key_went() {
    for middle in [fast(), quota(20, 1, 40), quota(5, 3_600, 40)] {
        let (limiter, clock) = started(slow());
        let [slow, middle] = [slow(), middle].map(|quota| limiter.entry(&7).under(quota).unwrap());
        let permit: Permit = slow.check_n(30).into_result().unwrap();
        clock.advance(SECOND);
        let _ = middle.check();
        clock.advance(SECOND);
        let between: u64 = middle.take_up_to(40).into_result().map_or(0, |permit| permit.cost());
        let _ = slow.check();
        let back = slow.refund(permit);
        // If more units were admitted since then than the permit can give back, only the difference may be owed.
        let left = slow.peek(0).remaining();
        assert!(back + 30 >= left && left + between <= 30 + back, "{back}, {between}, {left}");
        assert_eq!(back, 0);
    }
}

#[test]
fn settling_gives_back_or_charges_under_the_quota_of_the_entry() {
    let (limiter, _) = started(slow());
    let [slow, fast] = [slow(), fast()].map(|quota| limiter.entry(&7).under(quota).unwrap());
    let settled = |used| fast.settle(fast.check_n(10).into_result().unwrap(), used);
    assert_eq!(settled(4), 0);
    assert_eq!(fast.peek(0).remaining(), 26);
    assert_eq!(settled(16), 0);
    assert_eq!(fast.peek(0).remaining(), 10);
    // At most twice the burst can be charged.
    assert_eq!(settled(60), 20);
    assert_eq!(slow.uncharge(60), 60);
}

#[test]
fn what_is_taken_back_without_a_permit_is_what_is_owed_whatever_the_quota() {
    let (limiter, _) = started(slow());
    assert!(limiter.entry(&7).under(fast()).unwrap().check_n(20).is_allowed());
    let slow = limiter.entry(&7).under(slow()).unwrap();
    assert_eq!(slow.uncharge(5), 5);
    assert_eq!(slow.peek(0).remaining(), 15);
    assert_eq!(slow.uncharge(u64::MAX), 15);
}
