//! Requests under one quota and then under another: a key's spent units stay spent, counted in units.

use std::time::Duration;

use super::{admitted, fast, quota, slow, started};

const MS: Duration = Duration::from_millis(1);

#[test]
fn to_and_fro_under_two_quotas_admits_thirty_at_one_instant() {
    let (limiter, _) = started(slow());
    let mut sum = 0;
    for n in 0..100 {
        let entry = limiter.entry(&7).under(if n % 2 == 0 { fast() } else { slow() }).unwrap();
        sum += usize::from(entry.check().is_allowed());
    }
    assert_eq!(sum, 30);
}

#[test]
fn to_and_fro_gives_what_the_faster_quota_gives_and_no_more() {
    let (limiter, clock) = started(slow());
    assert_eq!(admitted(&limiter, 7, fast()) + admitted(&limiter, 7, slow()), 30);
    // At 10.5 s the fast quota, which each round asks first, has given ten units.
    for seconds in 1..=10 {
        clock.advance(1_050 * MS);
        let sum = admitted(&limiter, 7, fast()) + admitted(&limiter, 7, slow());
        assert_eq!(sum, 1, "after {seconds} s");
    }
}

#[test]
fn a_unit_that_is_spent_stays_spent_under_the_other_quota() {
    for [first, second] in [[fast(), slow()], [slow(), fast()]] {
        let (limiter, _) = started(slow());
        assert!(limiter.entry(&7).under(first).unwrap().check_n(12).is_allowed());
        let under = |quota| limiter.entry(&7).under(quota).unwrap();
        assert_eq!(under(second).peek(0).remaining(), 18);
        assert_eq!(under(second).check().remaining(), 17);
        assert_eq!(under(first).check().remaining(), 16);
    }
}

#[test]
fn a_larger_burst_leaves_what_it_has_more_and_a_smaller_one_less() {
    let (limiter, clock) = started(slow());
    let [small, large] = [7, 40].map(|burst| quota(30, 30, burst));
    assert_eq!(admitted(&limiter, 7, small), 7);
    assert_eq!(admitted(&limiter, 7, large), 33);
    assert_eq!(admitted(&limiter, 7, small), 0);
    clock.advance(33 * 1_000 * MS);
    assert_eq!(admitted(&limiter, 7, small), 0);
    clock.advance(1_010 * MS);
    assert_eq!(admitted(&limiter, 7, small), 1);
}

#[test]
fn a_raised_rate_counts_from_the_first_denial_on() {
    let (limiter, clock) = started(slow());
    assert_eq!(admitted(&limiter, 7, slow()), 30);
    let entry = limiter.entry(&7).under(fast()).unwrap();
    assert!(entry.check_n(30).is_denied());
    // At the slow rate only fifteen of the units would be left.
    clock.advance(29_000 * MS);
    assert_eq!(entry.peek(0).remaining(), 29);
    assert!(entry.check_n(30).is_denied());
    clock.advance(1_000 * MS);
    assert!(entry.check_n(30).is_allowed());
}

#[test]
fn without_a_request_the_old_rate_goes_on() {
    let (limiter, clock) = started(slow());
    assert_eq!(admitted(&limiter, 7, slow()), 30);
    clock.advance(10_000 * MS);
    assert_eq!(limiter.entry(&7).under(fast()).unwrap().peek(0).remaining(), 5);
}

#[test]
fn a_lowered_rate_locks_nobody_out_for_longer_than_the_old_one_would() {
    let slowest = quota(5, 3_600, 30);
    let (limiter, clock) = started(fast());
    assert_eq!(admitted(&limiter, 7, fast()), 30);
    // The clock advances by more than a tick, because answers are rounded up.
    clock.advance(10 * MS);
    for second in 0..30 {
        // The key is denied each second, but its debt still drains at the old rate.
        let entry = limiter.entry(&7).under(slowest).unwrap();
        assert!(entry.check_n(30).is_denied(), "{second} s");
        assert_eq!(entry.peek(0).remaining(), second);
        clock.advance(1_000 * MS);
    }
    let entry = limiter.entry(&7).under(slowest).unwrap();
    assert!(entry.check_n(30).is_allowed());
    // After the admission the debt drains at the new rate.
    clock.advance(719_000 * MS);
    assert_eq!(entry.peek(0).remaining(), 0);
    clock.advance(1_000 * MS);
    assert_eq!(entry.peek(0).remaining(), 1);
}

#[test]
fn a_denial_under_a_quota_that_is_not_faster_writes_nothing() {
    let (limiter, clock) = started(fast());
    assert_eq!(admitted(&limiter, 7, fast()), 30);
    // If each denied request rounded the debt up by a tick, the debt would never drain.
    for _ in 0..10_000 {
        clock.advance(Duration::from_micros(99));
        for quota in [slow(), quota(60, 60, 30)] {
            let _ = limiter.entry(&7).under(quota).unwrap().check_n(30);
        }
    }
    assert_eq!(admitted(&limiter, 7, fast()), 0);
    clock.advance(10 * MS);
    assert_eq!(admitted(&limiter, 7, fast()), 1);
}

#[test]
fn denials_in_turns_do_not_keep_a_key_from_draining() {
    let (limiter, clock) = started(slow());
    assert_eq!(admitted(&limiter, 7, slow()), 30);
    for _ in 0..29_999 {
        clock.advance(MS);
        for quota in [slow(), fast()] {
            assert!(limiter.entry(&7).under(quota).unwrap().check_n(30).is_denied());
        }
    }
    // Carrying the debt over once has rounded it up by one tick, which is at most 4 ms.
    clock.advance(6 * MS);
    assert!(limiter.entry(&7).under(fast()).unwrap().check_n(30).is_allowed());
}

#[test]
fn a_key_without_a_quota_of_its_own_is_under_the_limiters_and_has_one_count() {
    let (limiter, _) = started(slow());
    assert!(limiter.check_n(&7, 10).is_allowed());
    let own = limiter.entry(&7).under(slow()).unwrap();
    assert_eq!(own.check_n(5).remaining(), 15);
    assert_eq!(limiter.entry(&7).under(fast()).unwrap().check_n(5).remaining(), 10);
    assert_eq!(limiter.check(&7).remaining(), 9);
    assert_eq!(limiter.entry(&7).peek(0).remaining(), 9);
    let mut left = 0;
    limiter.check_many(&[7_u64], 1, |_, decision| left = decision.remaining());
    assert_eq!(left, 8);
    assert_eq!(limiter.stats().live, 1);
}

#[test]
fn tier_0_of_a_key_is_the_quota_of_the_limiter_with_the_same_count() {
    let (limiter, _) = started(slow());
    let own = limiter.entry(&7).under(quota(30, 30, 40)).unwrap();
    assert_eq!(own.check_n(10).remaining(), 30);
    let first = own.tier(0).unwrap();
    assert_eq!((first.peek(0).limit(), first.peek(0).remaining()), (30, 20));
    assert_eq!(first.check().remaining(), 19);
    // The key cannot move, because there is no other tier, and nothing is charged twice.
    assert_eq!(own.move_to(0), Ok(0));
    assert_eq!(limiter.entry(&7).peek(0).remaining(), 19);
    assert_eq!(limiter.stats().live, 1);
}

#[test]
fn keys_are_counted_apart() {
    let (limiter, _) = started(slow());
    for key in 0..50 {
        assert_eq!(admitted(&limiter, key, fast()), 30);
        assert_eq!(admitted(&limiter, key, slow()), 0);
    }
}

#[test]
fn a_raised_rate_counts_at_once_also_with_a_burst_far_below_the_debt() {
    let (limiter, clock) = started(slow());
    assert_eq!(admitted(&limiter, 7, slow()), 30);
    // 29 of the 30 units must come back before one more fits in a burst of two. 20 of them come back in a second.
    let entry = limiter.entry(&7).under(quota(20, 1, 2)).unwrap();
    assert!(entry.check().is_denied());
    clock.advance(1_449 * MS);
    assert!(entry.check().is_denied());
    clock.advance(2 * MS);
    assert!(entry.check().is_allowed());
}

#[test]
fn a_charge_into_debt_is_carried_over() {
    let (limiter, clock) = started(slow());
    let [slow, fast] = [slow(), fast()].map(|quota| limiter.entry(&7).under(quota).unwrap());
    assert_eq!(slow.charge(45), 0);
    // A word can hold at most twice the burst.
    assert_eq!(fast.charge(20), 5);
    assert!(fast.check().is_denied());
    clock.advance(30_990 * MS);
    assert!(fast.check().is_denied());
    clock.advance(11 * MS);
    assert!(fast.check().is_allowed());
}

#[test]
fn every_verb_decides_under_the_quota_that_is_asked_for() {
    let (limiter, _) = started(fast());
    assert!(limiter.check_n(&7, 20).is_allowed());
    let small = limiter.entry(&7).under(quota(30, 60, 25)).unwrap();
    assert!(small.peek(6).is_denied());
    assert!(small.peek(5).is_allowed());
    let taken = small.take_up_to(9).into_result().unwrap();
    assert_eq!((taken.cost(), taken.limit(), taken.remaining()), (5, 25, 0));
    // Three units come back in six seconds under the quota to which the key belongs now.
    let second = Duration::from_secs(1);
    assert!(small.reserve(3, 5 * second).is_err());
    let place = small.reserve(3, 7 * second).unwrap();
    assert!(place.wait() <= 6 * second && place.wait() > 5 * second, "{:?}", place.wait());
    assert!(small.cancel(place));
    assert_eq!(small.uncharge(4), 4);
    assert_eq!(limiter.entry(&7).peek(0).remaining(), 9);
    small.reset();
    assert_eq!(limiter.entry(&7).peek(0).remaining(), 30);
}

#[test]
fn a_reservation_under_a_larger_quota_is_not_held_to_the_bits_of_the_smaller_one() {
    let (limiter, _) = started(fast());
    let [small, large] =
        [quota(30, 30, 5), quota(30, 60, 30)].map(|quota| limiter.entry(&7).under(quota).unwrap());
    assert!(small.check_n(5).is_allowed());
    assert!(large.peek(25).is_allowed());
    assert!(large.reserve(25, Duration::ZERO).is_ok());
}
