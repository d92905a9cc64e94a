//! A limiter that finds a key's tier itself.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ahash::RandomState;
use tollgate::{Full, KeyedLimiter, ManualClock, Quota, TieredLimiter, Tiers, Timestamp};

/// A whole number of hours: whole ticks.
const NOW: Timestamp = Timestamp::from_secs(300 * 3_600);

fn tiers() -> Tiers {
    Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(5)).and(Quota::per_hour(50))
}

/// Keys below 100 are in tier 0, below 200 in tier 1, and so on, also beyond the last.
fn hundreds(key: &u64) -> usize {
    usize::try_from(key / 100).unwrap()
}

fn limiter() -> TieredLimiter<u64> {
    let clock = ManualClock::new();
    clock.set(NOW);
    tiers().build_by_with_clock(1_000, hundreds as fn(&u64) -> usize, clock).unwrap()
}

#[test]
fn each_key_has_the_quota_of_its_tier() {
    let limiter = limiter();
    for (key, limit) in [(7, 1), (107, 5), (207, 50)] {
        assert_eq!(limiter.peek(&key, 1).limit(), limit);
        assert!(limiter.entry(&key).at(NOW).check(limit).is_allowed());
        assert!(!limiter.check(&key, 1).is_allowed());
        assert_eq!(limiter.tier_of(&key).limit(), limit);
    }
}

#[test]
fn a_tier_beyond_the_last_is_the_last() {
    let limiter = limiter();
    for key in [307, 1_000_007, u64::MAX] {
        assert!(limiter.check(&key, 50).is_allowed());
        // And its key is one of that tier, not one of its own.
        let last = limiter.limiter().tier(2).unwrap();
        assert_eq!(last.entry(&key).at(NOW).peek(1).remaining(), 0);
    }
}

#[test]
fn every_verb_is_that_of_the_tier() {
    let limiter = limiter();
    let tier = limiter.limiter().tier(1).unwrap();
    let left = || tier.entry(&107).at(NOW).peek(1).remaining();
    let permit = limiter.check(&107, 4).into_result().unwrap();
    assert_eq!((left(), limiter.entry(&107).at(NOW).peek(1).remaining()), (1, 1));
    assert_eq!((limiter.entry(&107).refund(permit.portion(2)), left()), (2, 3));
    assert_eq!(limiter.entry(&107).take_up_to(9).into_result().unwrap().cost(), 3);
    assert_eq!((limiter.entry(&107).charge(2), left()), (0, 0));
    let place = limiter.entry(&107).reserve(1, Duration::from_secs(7_200)).unwrap();
    assert_eq!(place.wait(), Duration::from_secs(2_160));
    assert!(limiter.entry(&107).cancel(place));
    limiter.entry(&107).reset();
    assert_eq!(left(), 5);
    let place = limiter.entry(&107).at(NOW).reserve(5, Duration::ZERO).unwrap();
    assert!(limiter.entry(&107).at(NOW).cancel(place));
    let permit = limiter.entry(&107).at(NOW).take_up_to(9).into_result().unwrap();
    assert_eq!((limiter.entry(&107).at(NOW).refund(permit), left()), (5, 5));
    assert_eq!((limiter.entry(&107).at(NOW).charge(15), left()), (5, 0));
    limiter.entry(&107).at(NOW).reset();
    assert_eq!(left(), 5);
    // Of the other tiers the key has used nothing.
    for tier in [0, 2] {
        let tier = limiter.limiter().tier(tier).unwrap();
        assert_eq!(tier.entry(&107).at(NOW).peek(1).remaining(), tier.limit());
    }
}

#[test]
fn a_function_that_captures_is_asked_once_for_each_request() {
    let asked = AtomicUsize::new(0);
    let resolve = |key: &str| {
        asked.fetch_add(1, Ordering::Relaxed);
        key.len() - 1
    };
    let limiter = tiers().build_by(1_000, resolve).unwrap();
    assert!(limiter.check("a", 1).is_allowed());
    assert!(limiter.check("bb", 5).is_allowed());
    assert!(limiter.check("ccc", 50).is_allowed());
    assert_eq!(asked.load(Ordering::Relaxed), 3);
}

#[test]
fn a_key_that_changes_its_tier_takes_along_what_it_has_spent() {
    let paid = AtomicUsize::new(0);
    let limiter = tiers().build_by_with_clock(
        100,
        |_: &u64| paid.load(Ordering::Relaxed),
        ManualClock::new(),
    );
    let limiter = limiter.unwrap();
    assert!(limiter.check(&7, 1).is_allowed());
    assert_eq!(limiter.limiter().move_key(&7, 0, 1).unwrap(), 1);
    paid.store(1, Ordering::Relaxed);
    assert_eq!(limiter.peek(&7, 1).remaining(), 4);
}

#[test]
fn a_restored_limiter_can_be_given_its_function_again() {
    let limiter = limiter();
    assert!(limiter.check(&207, 50).is_allowed());
    let mut file = Vec::new();
    limiter.limiter().snapshot(&mut file).unwrap();
    let clock = ManualClock::new();
    clock.set(NOW);
    let restored: KeyedLimiter<u64> = tiers().restore(clock, &file[..]).unwrap();
    let limiter = TieredLimiter::new(restored, hundreds);
    assert!(!limiter.check(&207, 1).is_allowed());
    assert!(limiter.check(&107, 5).is_allowed());
}

#[test]
fn a_table_of_tiers_spills_where_it_has_no_cell_and_denies_if_it_is_told_to() {
    let table = |tiers: Tiers| tiers.build_with_clock::<u64>(1, ManualClock::new()).unwrap();
    let denied = |table: &KeyedLimiter<u64>| {
        let last = table.tier(2).unwrap();
        (0..200_u64).filter(|key| !last.entry(key).at(NOW).check(1).is_allowed()).count()
    };
    let spilling = table(tiers());
    assert_eq!((denied(&spilling), spilling.stats_at(NOW).full), (0, 0));
    assert!(spilling.stats_at(NOW).spilled > 150);
    for denying in
        [table(tiers().when_full(Full::Deny)), table(tiers()).when_full(Full::Deny).unwrap()]
    {
        let denied = denied(&denying);
        assert_eq!(denied as u64, denying.stats_at(NOW).full);
        assert!(denied > 150, "{denied}");
    }
}

#[test]
fn filled_to_its_capacity_a_table_of_tiers_has_a_cell_for_every_key() {
    let seeds = [RandomState::with_seeds(1, 2, 3, 4), RandomState::with_seeds(5, 6, 7, 8)];
    let clock = ManualClock::new();
    let table = tiers().build_with_hashers::<u64, _>(100_000, clock, seeds).unwrap();
    let last = table.tier(2).unwrap();
    let denied =
        (0..100_000_u64).filter(|key| !last.entry(key).at(NOW).check(1).is_allowed()).count();
    assert_eq!(denied, 0);
}

#[test]
fn a_newcomers_charge_goes_as_far_as_twice_the_burst_of_its_tier() {
    let limiter = limiter();
    for (key, limit) in [(7, 1), (107, 5), (207, 50)] {
        assert_eq!(limiter.entry(&key).at(NOW).charge(3 * limit), limit);
        assert_eq!(limiter.entry(&key).at(NOW).charge(1), 1);
    }
}
