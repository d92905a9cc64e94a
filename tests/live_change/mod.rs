//! Changes of a quota while it is in use: spent units stay spent, and a change adds no units.
//!
//! One check compares with a model of one key, in integers without rounding: a debt in fractions of a unit, which
//! drains at the rate in force. The other check is the bound itself, with times in any order.

mod at_limit;
mod log;
mod model;
mod owed;
mod threads;
mod to_and_fro;

use std::time::Duration;

use crate::common::{clock, new_clock, on, policy};
use allocation_counter::measure;
use tollgate::{
    BuildError, ChangeError, Changing, KeyedLimiter, Limiter, Policy, Quota, SnapshotError,
    Timestamp, WhenFull,
};

const SECOND: u64 = 1_000_000_000;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

/// A table whose words have room for all rates from 20 a second to 5 an hour.
fn table(quota: impl Into<Policy>) -> Changing<KeyedLimiter<u64>> {
    let slow = Quota::per_hour(5).burst(40);
    let fast = Quota::per_second(20).burst(40);
    let tiers = KeyedLimiter::builder(quota).headroom(slow).headroom(fast);
    tiers.clock(new_clock()).build(100).unwrap()
}

fn live(quota: impl Into<Policy>) -> Changing<Limiter> {
    Limiter::builder(quota).clock(clock()).changing().build().unwrap()
}

/// A table and a limiter that get the same requests.
struct Both {
    table: Changing<KeyedLimiter<u64>>,
    live: Changing<Limiter>,
}

impl Both {
    fn new(text: &str) -> Self {
        Self { table: table(policy(text)), live: live(policy(text)) }
    }

    /// The two limiters are built with the first policy, and the table has room for exactly these policies.
    fn among(texts: &[&str]) -> Self {
        let tiers = KeyedLimiter::builder(policy(texts[0])).changing();
        let tiers = texts.iter().fold(tiers, |tiers, text| tiers.headroom(policy(text)));
        let table = tiers.clock(new_clock()).build(100).unwrap();
        Self { table, live: live(policy(texts[0])) }
    }

    fn set(&self, text: &str, seconds: u64) {
        on(at(seconds));
        self.table.set_quota(policy(text)).unwrap();
        self.live.set_quota(policy(text)).unwrap();
    }

    fn check(&self, cost: u64, seconds: u64) -> bool {
        let keyed = self.table.entry(&7).at(at(seconds)).check_n(cost).is_allowed();
        assert_eq!(
            keyed,
            self.live.entry().at(at(seconds)).check_n(cost).is_allowed(),
            "at {seconds} s"
        );
        keyed
    }

    fn left(&self, seconds: u64) -> u64 {
        let keyed = self.table.entry(&7).at(at(seconds)).peek(0).remaining();
        assert_eq!(keyed, self.live.entry().at(at(seconds)).peek(0).remaining(), "at {seconds} s");
        keyed
    }
}

#[test]
fn the_past_is_priced_at_the_old_rate_and_the_future_at_the_new() {
    for touched_between in [false, true] {
        let both = Both::new("gcra 1/s burst 40");
        assert!(both.check(40, 1_000));
        both.set("gcra 20/s burst 40", 1_010);
        if touched_between {
            assert_eq!(both.left(1_010), 10);
        }
        assert_eq!(both.left(1_011), 30);
        assert!(both.check(30, 1_011));
        both.set("gcra 5/h burst 40", 1_012);
        // 20 of 40 units are left, as they were in the last second. A unit comes back in 12 minutes.
        assert_eq!(both.left(1_012), 20);
        assert_eq!(both.left(1_012 + 719), 20);
        assert_eq!(both.left(1_012 + 720), 21);
    }
}

#[test]
fn what_had_drained_at_the_old_rate_does_not_come_back_at_a_slower_one() {
    let both = Both::new("gcra 20/s burst 40");
    assert!(both.check(20, 1_000));
    both.set("gcra 5/h burst 40", 1_001);
    assert_eq!(both.left(1_001), 40);
}

#[test]
fn a_slow_debt_is_not_forgotten_when_it_would_have_drained_at_the_old_rate() {
    let both = Both::new("gcra 20/s burst 40");
    assert!(both.check(40, 1_000));
    both.set("gcra 5/h burst 40", 1_000);
    // At the old rate the key would be idle after 2 s. Now its debt lasts eight hours, and no sweep forgets it.
    for seconds in [1_003, 1_100, 1_000 + 3_600, 1_000 + 4 * 3_600] {
        for stranger in 100..130 {
            let _ = both.table.entry(&stranger).at(at(seconds)).check();
        }
        assert_eq!(both.left(seconds), 5 * (seconds - 1_000) / 3_600, "at {seconds} s");
    }
}

#[test]
fn a_change_of_nothing_changes_nothing() {
    let both = Both::new("gcra 7/s burst 33");
    let plain = Limiter::builder(policy("gcra 7/s burst 33")).clock(clock()).build();
    for second in 1_000..1_060 {
        both.set("gcra 7/s burst 33", second);
        let cost = second % 13;
        let expected = plain.entry().at(at(second)).check_n(cost);
        assert_eq!(both.check(cost, second), expected.is_allowed(), "at {second} s");
        assert_eq!(both.left(second), expected.remaining(), "at {second} s");
    }
}

#[test]
fn another_algorithm_takes_over_what_was_used() {
    let quotas = [
        "fixed-window 10/20s",
        "gcra 1/s burst 10",
        "sliding-window 20/10s exact",
        "fixed-window 10/30s from-first",
    ];
    let both = Both::among(&quotas);
    assert!(both.check(8, 1_000));
    both.set(quotas[1], 1_001);
    assert_eq!(both.left(1_001), 2);
    assert_eq!(both.left(1_004), 5);
    both.set(quotas[2], 1_004);
    assert_eq!(both.left(1_004), 15);
    both.set(quotas[3], 1_005);
    // The debt is counted in a window that opens at the time of the change.
    assert_eq!(both.left(1_005), 5);
    assert_eq!(both.left(1_034), 5);
    assert_eq!(both.left(1_035), 10);
}

#[test]
fn tiers_are_counted_apart_and_each_changes_alone() {
    let tiers = KeyedLimiter::builder(Quota::per_minute(10)).tier(Quota::per_minute(20));
    let limiter: Changing<KeyedLimiter<u64>> = tiers.clock(clock()).build(100).unwrap();
    on(at(1_000));
    let entry = |tier: usize, key: u64| limiter.entry(&key).tier(tier).unwrap();
    let all_left = |units: [u64; 2]| {
        (0..2).all(|tier| (0..50).all(|key| entry(tier, key).peek(0).remaining() == units[tier]))
    };
    for key in 0..50 {
        assert!(entry(0, key).check_n(4).is_allowed());
        assert!(entry(1, key).check_n(5).is_allowed());
    }
    limiter.set_tier_quota(1, Quota::per_minute(30)).unwrap();
    assert_eq!([0, 1].map(|tier| entry(tier, 7).peek(0).limit()), [10, 30]);
    assert!(all_left([6, 25]));
    assert_eq!(limiter.stats().live, 100);
}

#[test]
fn sixteen_tiers_of_different_algorithms_share_a_table_and_all_can_change() {
    let kinds =
        ["gcra N/m", "fixed-window N/m", "sliding-window N/m exact", "fixed-window N/m from-first"];
    let text = |tier: usize, limit: usize| kinds[tier % 4].replace('N', &limit.to_string());
    let tiers = (1..16)
        .fold(KeyedLimiter::builder(policy(&text(0, 10))).changing(), |tiers, tier| {
            tiers.tier(policy(&text(tier, 10 + tier)))
        });
    let limiter: Changing<KeyedLimiter<u64>> =
        tiers.headroom(policy("gcra 100/m")).clock(clock()).build(1_000).unwrap();
    assert_eq!(limiter.policies().len(), 16);
    on(at(1_200));
    for number in 0..16 {
        let entry = limiter.entry(&1).tier(number).unwrap();
        assert!(entry.check_n(3).is_allowed());
        for limit in [40, 50, 60] {
            limiter.set_tier_quota(number, policy(&text(number, limit))).unwrap();
            assert_eq!(limiter.policies()[number], policy(&text(number, limit)));
            assert_eq!(entry.peek(0).remaining(), limit as u64 - 3, "tier {number}");
        }
    }
    for number in 0..16 {
        assert_eq!(limiter.entry(&1).tier(number).unwrap().at(at(1_200)).peek(0).remaining(), 57);
    }
    let error = KeyedLimiter::<u64>::builder(Quota::per_second(1)).changing();
    let error = (0..16).fold(error, |tiers, _| tiers.tier(Quota::per_second(1)));
    let error = error.build(10).unwrap_err();
    assert!(matches!(error, BuildError::OutOfRange(_)), "{error:?}");
    assert_eq!(error.to_string(), "a table cannot have 17 tiers; use 1 to 16");
}

#[test]
fn a_change_that_does_not_fit_changes_nothing() {
    let tiers = KeyedLimiter::builder(Quota::per_second(100)).changing();
    let limiter: Changing<KeyedLimiter<u64>> = tiers.clock(clock()).build(100).unwrap();
    assert!(limiter.entry(&7).at(at(1_000)).check_n(60).is_allowed());
    on(at(1_000));
    let error = limiter.set_quota(Quota::per_day(1).burst(1_000)).unwrap_err();
    assert_eq!(error, ChangeError::DoesNotFit { state_bits: 29 });
    let error = error.to_string();
    assert!(error.starts_with("the quota does not fit in the 29 bits"), "{error}");
    assert_eq!(limiter.entry(&7).at(at(1_000)).peek(0).remaining(), 40);
    assert_eq!(limiter.entry(&7).at(at(1_001)).peek(0).remaining(), 100);
}

#[test]
fn what_was_not_built_for_changes_has_one_tier() {
    let quota = Quota::per_second(9);
    let plain = KeyedLimiter::<u64>::builder(quota).clock(clock()).build(100).unwrap();
    assert_eq!(plain.entry(&7).tier(0).unwrap().peek(0).limit(), 9);
    let none = ChangeError::NoSuchTier { tier: 1, tiers: 1 };
    assert_eq!(plain.entry(&7).tier(1).unwrap_err(), none);
    assert_eq!(plain.entry(&7).move_to(1), Err(none));
    assert_eq!(plain.entry(&7).move_to(0), Ok(0));
    // A limit without keys has one tier, too.
    let one = Limiter::builder(quota).clock(clock()).build();
    assert_eq!(one.entry().tier(0).unwrap().peek(0).limit(), 9);
    assert_eq!(one.entry().tier(1).unwrap_err(), none);
    assert_eq!(one.entry().move_to(1), Err(none));
}

#[test]
fn a_limiter_tells_the_policy_in_force_and_has_no_snapshot_if_it_may_change() {
    let limiter = live(Quota::per_hour(3));
    assert_eq!(limiter.policy(), Policy::from(Quota::per_hour(3)));
    limiter.set_quota(Quota::per_hour(4)).unwrap();
    assert_eq!(limiter.policy(), Policy::from(Quota::per_hour(4)));
    let refused = limiter.snapshot(std::io::sink()).unwrap_err();
    assert!(matches!(refused, SnapshotError::NotFixed));
    let counting = policy("gcra 3/h soft 50% count-denied 5s penalty 2h after 3 extended queue 2");
    limiter.set_quota(counting).unwrap();
    assert_eq!(limiter.policy(), counting);
}

#[test]
fn a_lease_of_a_limiter_that_changes_gives_back_within_a_quota_and_nothing_across_a_change() {
    let limiter = live(Quota::per_hour(10));
    for (changed, left) in [(false, 7), (true, 3)] {
        on(at(2_000 + u64::from(changed)));
        let mut lease = limiter.entry().lease(4).unwrap();
        assert!(lease.spend(if changed { 0 } else { 3 }));
        if changed {
            on(at(2_002));
            limiter.set_quota(Quota::per_hour(10)).unwrap();
        }
        drop(lease);
        assert_eq!(limiter.entry().peek(0).remaining(), left);
    }
}

#[test]
fn a_thousand_changes_need_no_more_memory_and_lose_nothing() {
    let tiers = KeyedLimiter::builder(Quota::per_hour(1_000)).tier(Quota::per_hour(3_000));
    let limiter: Changing<KeyedLimiter<u64>> = tiers.clock(clock()).build(500).unwrap();
    for key in 0..500 {
        assert!(limiter.entry(&key).tier(1).unwrap().at(at(1_000)).check_n(100 + key).is_allowed());
    }
    let live = live(Quota::per_hour(1_000));
    assert!(live.entry().at(at(1_000)).check_n(400).is_allowed());
    on(at(1_000));
    let allocations = measure(|| {
        for change in 0..1_000 {
            limiter.set_tier_quota(1, Quota::per_hour(2_000 + change)).unwrap();
        }
    });
    assert_eq!(allocations.count_total, 0);
    for change in 0..1_000 {
        live.set_quota(Quota::per_hour(2_000 + change)).unwrap();
    }
    for key in 0..500 {
        let left = limiter.entry(&key).tier(1).unwrap().at(at(1_000)).peek(0).remaining();
        assert_eq!(left, 2_999 - 100 - key);
    }
    assert_eq!(live.entry().at(at(1_000)).peek(0).remaining(), 2_599);
}

#[test]
fn refunds_and_cancellations_know_their_quota() {
    let limiter = table(Quota::per_second(10).burst(40));
    on(at(1_000));
    let entry = limiter.entry(&7);
    let mut permit = entry.check_n(20).into_result().unwrap();
    assert_eq!(entry.refund(permit.split_off(5)), 5);
    let place = entry.reserve(5, Duration::ZERO).unwrap();
    assert!(entry.cancel(place));
    let place = entry.reserve(5, Duration::ZERO).unwrap();
    limiter.set_quota(Quota::per_second(5).burst(40)).unwrap();
    assert!(!entry.cancel(place));
    assert_eq!(entry.refund(permit.portion(5)), 0);
    assert_eq!(entry.peek(0).remaining(), 20);
    entry.reset();
    assert_eq!(entry.peek(0).remaining(), 40);
}

#[test]
fn a_key_that_moves_takes_along_what_it_has_spent() {
    let tiers = KeyedLimiter::builder(Quota::per_minute(6))
        .tier(Quota::per_minute(60))
        .tier(policy("fixed-window 50/m"));
    let limiter: Changing<KeyedLimiter<u64>> = tiers.clock(clock()).build(100).unwrap();
    let left = |tier: usize, second| {
        limiter.entry(&7).tier(tier).unwrap().at(at(second)).peek(0).remaining()
    };
    assert!(limiter.entry(&7).at(at(1_000)).check_n(6).is_allowed());
    // Half a unit has come back, but only whole units move.
    assert_eq!(limiter.entry(&7).at(at(1_005)).move_to(1), Ok(6));
    assert_eq!((left(0, 1_005), left(1, 1_005)), (6, 54));
    assert_eq!(limiter.entry(&7).tier(1).unwrap().at(at(1_007)).move_to(2), Ok(4));
    assert_eq!((left(1, 1_007), left(2, 1_007)), (60, 46));
    assert_eq!(limiter.entry(&7).tier(2).unwrap().at(at(1_007)).move_to(2), Ok(0));
    assert_eq!(limiter.entry(&8).at(at(1_007)).move_to(1), Ok(0));
    let unknown = Err(ChangeError::NoSuchTier { tier: 3, tiers: 3 });
    assert_eq!(limiter.entry(&7).move_to(3), unknown);
}

#[test]
fn a_key_that_has_no_cell_in_its_new_tier_keeps_what_it_has_spent() {
    let tiers = KeyedLimiter::builder(Quota::per_hour(6))
        .tier(Quota::per_hour(60))
        .when_full(WhenFull::Deny);
    let limiter: Changing<KeyedLimiter<u64>> = tiers.clock(clock()).build(1).unwrap();
    let cells = limiter.stats().cells;
    let key = (0..).find(|key| limiter.entry(key).at(at(1_000)).check_n(6).is_allowed()).unwrap();
    for other in 1_000..1_000 + 20 * cells as u64 {
        let _ = limiter.entry(&other).at(at(1_000)).check();
    }
    on(at(1_000));
    assert_eq!(limiter.stats().live, cells);
    assert_eq!(limiter.entry(&key).at(at(1_000)).move_to(1), Err(ChangeError::NoCell));
    assert_eq!(limiter.entry(&key).at(at(1_000)).peek(0).remaining(), 0);
}
