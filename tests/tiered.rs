//! A limiter with several quotas. The caller's function chooses the quota of each key.

use std::time::Duration;

use ahash::RandomState;
use tollgate::{
    Changeable, Changing, Entry, KeyedBuilder, KeyedLimiter, ManualClock, Quota, Timestamp,
    WhenFull,
};

/// A whole number of hours, which is a whole number of ticks.
const NOW: Timestamp = Timestamp::from_secs(300 * 3_600);

type Builder = KeyedBuilder<u64, Changeable>;

fn tiers() -> Builder {
    KeyedLimiter::builder(Quota::per_hour(1)).tier(Quota::per_hour(5)).tier(Quota::per_hour(50))
}

fn limiter() -> Changing<KeyedLimiter<u64>> {
    let clock = ManualClock::new();
    clock.set(NOW);
    tiers().clock(clock).build(1_000).unwrap()
}

/// Keys below 100 are in tier 0, keys below 200 in tier 1, and the others in tier 2.
fn entry(limiter: &KeyedLimiter<u64>, key: u64) -> Entry<'_> {
    limiter.entry(&key).tier(usize::try_from(key / 100).unwrap().min(2)).unwrap()
}

#[test]
fn each_key_has_the_quota_of_its_tier() {
    let limiter = limiter();
    for (key, limit) in [(7, 1), (107, 5), (207, 50)] {
        assert_eq!(entry(&limiter, key).peek(1).limit(), limit);
        assert!(entry(&limiter, key).at(NOW).check_n(limit).is_allowed());
        assert!(!entry(&limiter, key).check().is_allowed());
    }
}

#[test]
fn every_verb_is_that_of_the_tier() {
    let limiter = limiter();
    let own = entry(&limiter, 107);
    let left = || limiter.entry(&107).tier(1).unwrap().peek(1).remaining();
    let permit = own.check_n(4).into_result().unwrap();
    assert_eq!(left(), 1);
    assert_eq!((own.refund(permit.portion(2)), left()), (2, 3));
    assert_eq!(own.take_up_to(9).into_result().unwrap().cost(), 3);
    assert_eq!((own.charge(2), left()), (0, 0));
    let place = own.reserve(1, Duration::from_secs(7_200)).unwrap();
    assert_eq!(place.wait(), Duration::from_secs(2_160));
    assert!(own.cancel(place));
    own.reset();
    assert_eq!(left(), 5);
    assert_eq!((own.at(NOW).charge(15), left()), (5, 0));
    // The key has used nothing in the other tiers.
    for (tier, limit) in [(0, 1), (2, 50)] {
        assert_eq!(limiter.entry(&107).tier(tier).unwrap().peek(1).remaining(), limit);
    }
}

#[test]
fn an_entry_goes_from_tier_to_tier_and_keeps_its_time() {
    let limiter = limiter();
    for key in 0..100 {
        assert!(limiter.entry(&key).tier(2).unwrap().check_n(20).is_allowed());
        let entry = limiter.entry(&key).at(NOW + Duration::from_secs(72)).tier(1).unwrap();
        let there = entry.tier(2).unwrap().tier(0).unwrap().tier(2).unwrap();
        assert_eq!(there.peek(0).remaining(), 31, "one has come back in 72 s");
        assert_eq!(entry.peek(0).remaining(), 5);
        assert_eq!(there.tier(0).unwrap().peek(0).remaining(), 1);
    }
}

/// A key in several tiers has a different home in each, so its words do not compete for the same cells.
#[test]
fn where_every_key_is_in_all_tiers_there_is_a_cell_for_each() {
    let seeds = RandomState::with_seeds(1, 2, 3, 4);
    let tiers = (1..16).fold(KeyedLimiter::builder(Quota::per_hour(1)).changing(), |tiers, _| {
        tiers.tier(Quota::per_hour(1))
    });
    let tiers = tiers.when_full(WhenFull::Deny);
    let table = tiers.clock(ManualClock::new()).hasher(seeds).build(200_000).unwrap();
    let all = (0..10_000_u64).flat_map(|key| (0..16).map(move |tier| (key, tier)));
    let admits = |(key, tier): (u64, usize)| {
        table.entry(&key).tier(tier).unwrap().at(NOW).check().is_allowed()
    };
    assert_eq!(all.filter(|it| !admits(*it)).count(), 0);
    // Each key has its own single unit in each tier.
    assert!((0..10_000_u64).all(|key| (0..16).all(|tier| !admits((key, tier)))));
}

#[test]
fn a_table_of_tiers_spills_where_it_has_no_cell_and_denies_if_it_is_told_to() {
    let table = |tiers: Builder| tiers.clock(ManualClock::new()).build(1).unwrap();
    let denied = |table: &KeyedLimiter<u64>| {
        let admits = |key: &u64| entry(table, 200 + key).at(NOW).check().is_allowed();
        (0..200_u64).filter(|key| !admits(key)).count()
    };
    let spilling = table(tiers());
    assert_eq!((denied(&spilling), spilling.stats().full), (0, 0));
    assert!(spilling.stats().spilled > 150);
    for denying in [
        table(tiers().when_full(WhenFull::Deny)),
        table(tiers()).when_full(WhenFull::Deny).unwrap(),
    ] {
        let denied = denied(&denying);
        assert_eq!(denied as u64, denying.stats().full);
        assert!(denied > 150, "{denied}");
    }
}

#[test]
fn filled_to_its_capacity_a_table_of_tiers_has_a_cell_for_every_key() {
    let seeds = RandomState::with_seeds(1, 2, 3, 4);
    let clock = ManualClock::new();
    let table = tiers().clock(clock).hasher(seeds).build(100_000).unwrap();
    let admits = |key: &u64| table.entry(key).tier(2).unwrap().at(NOW).check().is_allowed();
    assert!((0..100_000_u64).all(|key| admits(&key)));
}

#[test]
fn a_newcomers_charge_goes_as_far_as_twice_the_burst_of_its_tier() {
    let limiter = limiter();
    for (key, limit) in [(7, 1), (107, 5), (207, 50)] {
        assert_eq!(entry(&limiter, key).charge(3 * limit), limit);
        assert_eq!(entry(&limiter, key).charge(1), 1);
    }
}
