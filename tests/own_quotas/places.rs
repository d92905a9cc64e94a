//! The places of quotas in a table: `forget_quotas` frees the unused ones. Entries that were made before such a call
//! still work after it.

use std::time::Duration;

use tollgate::{ChangeError, DenialReason, Entry, KeyedLimiter, ManualClock, Quota, Timestamp};

use super::{quota, started};

const SECOND: Duration = Duration::from_secs(1);

/// The time by which floors are behind the clock. A key is forgotten when a floor passes it.
const LAG: Duration = Duration::from_millis(5);

/// A limiter with room for one quota at a time.
fn one_place() -> (KeyedLimiter<u64>, ManualClock) {
    let clock = ManualClock::new();
    let builder = KeyedLimiter::builder(Quota::per_minute(10)).own_quotas(1, &[quota(20, 1, 40)]);
    (builder.clock(clock.clone()).build(100).unwrap(), clock)
}

fn under(limiter: &KeyedLimiter<u64>, key: u64, quota: Quota) -> Entry<'_> {
    limiter.entry(&key).under(quota).unwrap()
}

#[test]
fn a_quota_is_spared_while_a_live_key_is_counted_in_it() {
    let (limiter, clock) = started(Quota::per_minute(10));
    for key in 1..=8 {
        assert!(under(&limiter, key, quota(1, 60, key)).check_n(key).is_allowed());
    }
    clock.advance(LAG);
    // The key that owes n units becomes idle after n minutes.
    for minute in 1..=8 {
        assert_eq!(limiter.forget_quotas(), 0, "before minute {minute}");
        clock.advance(60 * SECOND);
        assert_eq!(limiter.forget_quotas(), 1, "minute {minute}");
        for key in minute + 1..=8 {
            let left = under(&limiter, key, quota(1, 60, key)).peek(0).remaining();
            assert_eq!(left, minute, "key {key}");
        }
    }
    assert_eq!(limiter.stats().live, 0);
}

#[test]
fn the_quota_of_the_limiter_is_never_forgotten() {
    let (limiter, clock) = started(quota(1, 60, 10));
    assert_eq!(limiter.forget_quotas(), 0);
    assert!(limiter.check_n(&7, 10).is_allowed());
    clock.advance(600 * SECOND);
    assert_eq!(limiter.forget_quotas(), 0);
    assert_eq!(limiter.check(&7).remaining(), 9);
}

#[test]
fn a_quota_that_its_last_key_has_left_is_forgotten_and_the_key_is_not() {
    let (limiter, _) = started(quota(1, 60, 10));
    assert!(under(&limiter, 7, quota(1, 60, 20)).check_n(4).is_allowed());
    assert!(limiter.check(&7).is_allowed());
    assert_eq!(limiter.forget_quotas(), 1);
    assert_eq!(limiter.entry(&7).peek(0).remaining(), 5);
}

#[test]
fn an_entry_that_is_kept_while_its_quota_is_forgotten_still_works() {
    let (limiter, clock) = one_place();
    let kept = under(&limiter, 7, quota(1, 1, 5));
    assert!(kept.check_n(5).is_allowed());
    clock.advance(5 * SECOND + LAG);
    assert_eq!(limiter.forget_quotas(), 1);
    assert!(kept.check_n(4).is_allowed());
    assert_eq!((kept.peek(0).limit(), kept.peek(0).remaining()), (5, 1));
    // Now the quota of `kept` is in use again.
    assert_eq!(limiter.forget_quotas(), 0);
    assert!(limiter.entry(&8).under(quota(2, 1, 5)).is_err());
}

#[test]
fn an_entry_whose_place_another_quota_has_denies_as_a_full_table_does() {
    let (limiter, clock) = one_place();
    let kept = under(&limiter, 7, quota(1, 1, 5));
    assert!(kept.check_n(5).is_allowed());
    clock.advance(5 * SECOND + LAG);
    assert_eq!(limiter.forget_quotas(), 1);
    let other = under(&limiter, 8, quota(20, 1, 40));
    for is_live in [false, true] {
        // First no key belongs to the other quota. Then key 8 and key 7 both do.
        if is_live {
            assert!(other.check().is_allowed());
            assert!(under(&limiter, 7, quota(20, 1, 40)).check().is_allowed());
        }
        let left = limiter.entry(&7).peek(0).remaining();
        for denied in [kept.check(), kept.peek(1), kept.take_up_to(3)] {
            assert_eq!(denied.denial().unwrap().reason(), DenialReason::TableFull);
        }
        assert_eq!(kept.charge(3), 3);
        assert!(kept.reserve(1, SECOND).is_err());
        assert_eq!(limiter.entry(&7).peek(0).remaining(), left);
    }
    // A new entry works as soon as there is a place for its quota.
    assert!(limiter.entry(&7).under(quota(1, 1, 5)).is_err());
    clock.advance(5 * SECOND);
    assert_eq!(limiter.forget_quotas(), 1);
    assert!(under(&limiter, 7, quota(1, 1, 5)).check_n(5).is_allowed());
}

#[test]
fn quotas_come_and_go_for_as_long_as_the_limiter_lives() {
    let (limiter, clock) = one_place();
    for n in 1..2_000 {
        let entry = under(&limiter, n % 50, quota(20, 1, 1 + n % 40));
        assert_eq!(entry.check().remaining(), n % 40);
        clock.advance(SECOND);
        assert_eq!(limiter.forget_quotas(), 1);
    }
}

#[test]
fn a_limiter_without_own_quotas_forgets_nothing() {
    let clock = ManualClock::new();
    let builder = || KeyedLimiter::<u64>::builder(Quota::per_second(10)).clock(clock.clone());
    assert_eq!(builder().build(10).unwrap().forget_quotas(), 0);
    let tiers = builder().tier(Quota::per_second(20)).build(10).unwrap();
    assert!(tiers.check(&7).is_allowed());
    assert_eq!(tiers.forget_quotas(), 0);
    assert_eq!(tiers.entry(&7).peek(0).remaining(), 9);
}

#[test]
fn a_key_that_was_forgotten_owes_nothing_to_late_requests_either() {
    let (limiter, clock) = started(quota(30, 30, 30));
    let slow = quota(30, 60, 30);
    assert!(under(&limiter, 7, slow).check_n(30).is_allowed());
    let first = clock.now();
    clock.advance(60 * SECOND + LAG);
    assert_eq!(limiter.forget_quotas(), 1);
    // At its own time the request is a minute late. So it is decided at the floor, and must fit at both times.
    let late = under(&limiter, 7, slow).at(first);
    assert!(late.check().is_denied());
    assert!(under(&limiter, 7, slow).check_n(30).is_allowed());
}

#[test]
fn an_entry_of_a_quota_that_is_gone_keeps_no_place() {
    let [default, first, second, third] = [5, 6, 7, 8].map(Quota::per_hour);
    let builder = KeyedLimiter::<str>::builder(default).own_quotas(1, &[]);
    let limiter = builder.clock(ManualClock::new()).build(100).expect("it fits");
    let under = |quota| limiter.entry("alice").under(quota);
    let gone = under(first).expect("the one place");
    assert_eq!(limiter.forget_quotas(), 1);
    assert!(under(second).is_ok());
    assert_eq!(limiter.forget_quotas(), 1);
    assert!(!gone.check().is_allowed());
    assert!(under(third).is_ok());
    assert_eq!(under(first).map(|_| ()), Err(ChangeError::TooManyQuotas { most: 1 }));
}

#[test]
fn a_permit_from_before_a_slower_quota_is_worth_nothing_when_its_place_has_changed_hands() {
    let [fast, slow, own] = [Quota::per_second(10), Quota::per_minute(1), Quota::per_minute(2)]
        .map(|quota| quota.burst(10));
    let clock = ManualClock::new();
    let builder = KeyedLimiter::<str>::builder(fast).own_quotas(1, &[slow, own]);
    let limiter = builder.clock(clock.clone()).build(100).expect("it fits");
    let alice = limiter.entry("alice");
    let under = |quota| alice.under(quota).expect("a place");
    clock.set(Timestamp::from_secs(100));
    let permit = under(own).check_n(5).into_result().expect("it fits");
    // The five units drain while `alice` uses the quota of the limiter.
    assert!(alice.check().is_allowed());
    assert_eq!(limiter.forget_quotas(), 1);
    clock.set(Timestamp::from_secs(102));
    assert!(under(slow).check().is_allowed());
    clock.set(Timestamp::from_secs(200));
    assert_eq!(limiter.forget_quotas(), 1);
    assert!(under(own).check_n(10).is_allowed());
    assert_eq!(under(own).refund(permit), 0);
}
