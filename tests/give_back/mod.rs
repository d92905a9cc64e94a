//! Giving back: whatever comes between a charge and its refund or cancellation, the admitted units less those given
//! back keep the bound. This holds even if a refund and an equal charge have restored the bits that a reservation left.

mod uncharge;

use std::time::Duration;

use crate::common::{clock, each, on, policy};
use tollgate::{Entry, KeyedLimiter, Limiter, ManualClock, Timestamp, check_all};

const KEY: u64 = 7;
const START: Timestamp = Timestamp::from_secs(1_000);

/// The units that are left.
fn left(entry: Entry<'_>) -> u64 {
    entry.peek(1).remaining()
}

/// The time until the limit owes nothing any more.
fn owed(entry: Entry<'_>) -> Duration {
    entry.peek(0).reset_after()
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn a_cancellation_forgives_nothing_of_a_charge_that_restored_its_bits() {
    each("gcra 1/s burst 10", START, |entry, clock, name| {
        let permit = entry.check_n(5).into_result().unwrap();
        let place = entry.reserve(5, Duration::ZERO).unwrap();
        assert_eq!(entry.refund(permit), 5);
        clock.advance(millis(4_990));
        // The word has the bits that the reservation left, but nearly all of the reservation's five units have drained.
        assert!(entry.check_n(5).is_allowed());
        assert!(entry.cancel(place), "{name}: a hundredth is still owed");
        let more = (0..20).filter(|_| entry.check().is_allowed()).count();
        assert_eq!(more, 5, "{name}: a burst of 10 at one instant");
    });
}

#[test]
fn what_has_drained_altogether_is_not_cancelled() {
    each("gcra 1/s burst 10", START, |entry, clock, name| {
        let permit = entry.check_n(5).into_result().unwrap();
        let place = entry.reserve(5, Duration::ZERO).unwrap();
        assert_eq!(entry.refund(permit), 5);
        clock.advance(millis(5_000));
        assert!(entry.check_n(5).is_allowed());
        assert!(!entry.cancel(place), "{name}");
        assert_eq!(left(entry), 5, "{name}");
    });
}

#[test]
fn a_lease_that_is_returned_lets_no_cancellation_forgive_another_charge() {
    let clock = ManualClock::new();
    clock.set(START);
    let limiter = Limiter::builder(policy("gcra 1/s burst 10")).clock(clock.clone()).build();
    let lease = limiter.entry().lease(5).unwrap();
    let place = limiter.entry().reserve(5, Duration::ZERO).unwrap();
    drop(lease);
    clock.advance(millis(4_990));
    assert!(limiter.check_n(5).is_allowed());
    assert!(limiter.entry().cancel(place));
    assert_eq!((0..20).filter(|_| limiter.check().is_allowed()).count(), 5);
}

#[test]
fn a_place_whose_turn_is_still_to_come_is_given_back_whole() {
    each("gcra 1/s burst 10", START, |entry, clock, name| {
        assert!(entry.check_n(10).is_allowed());
        let first = entry.reserve(4, millis(10_000)).unwrap();
        assert_eq!(first.wait(), millis(4_000), "{name}");
        clock.advance(millis(3_999));
        let before = owed(entry);
        assert!(entry.cancel(first), "{name}");
        assert_eq!(before - owed(entry), millis(4_000), "{name}");
        // After its turn a place drains like a check.
        let second = entry.reserve(4, millis(10_000)).unwrap();
        clock.set(second.ready_at() + millis(1_500));
        let before = owed(entry);
        assert!(entry.cancel(second), "{name}");
        assert_eq!(before - owed(entry), millis(2_500), "{name}");
    });
}

/// After a whole cycle of its time field, which is 128 windows of a minute in this table, a word has the same bits.
#[test]
fn a_window_whose_number_has_the_same_bits_is_another_window() {
    for minutes in 1..=1_024 {
        let clock = ManualClock::new();
        clock.set(START);
        let policy = policy("fixed-window 100/m");
        let limiter = KeyedLimiter::<u64>::builder(policy).clock(clock.clone()).build(10).unwrap();
        let place = limiter.entry(&KEY).reserve(60, Duration::ZERO).unwrap();
        clock.advance(Duration::from_secs(60 * minutes));
        assert!(limiter.check_n(&KEY, 60).is_allowed());
        assert!(!limiter.entry(&KEY).cancel(place), "{minutes} windows later");
        assert_eq!(limiter.entry(&KEY).peek(1).remaining(), 40, "{minutes} windows later");
    }
}

#[test]
fn what_is_told_to_be_given_back_is_no_less_than_what_is() {
    each("gcra 10/s burst 10", START, |entry, clock, name| {
        let permits: Vec<_> = (0..10).map(|_| entry.check().into_result().unwrap()).collect();
        clock.advance(millis(1));
        let told: u64 = permits.into_iter().map(|permit| entry.refund(permit)).sum();
        let admitted = 10 + (0..20).filter(|_| entry.check().is_allowed()).count() as u64;
        assert!(admitted <= 10 + told, "{name}: {admitted} admitted, {told} given back");
        assert_eq!((admitted, told), (19, 10), "{name}");
    });
}

/// A word can hold times up to an epoch above its floor. A key with a longer penalty can owe units for longer than
/// that.
#[test]
fn a_refund_gives_back_what_has_not_drained_however_far_the_floor_is_behind() {
    let policy = policy("gcra 1/22s burst 1 penalty 145s after 34");
    let limiter = KeyedLimiter::<u64>::builder(policy).clock(ManualClock::new()).build(1).unwrap();
    let floor = Timestamp::from_secs(1_000_000);
    (0..7).for_each(|other| _ = limiter.entry(&other).at(floor).check());
    let start = floor + limiter.stats().epoch;
    let place = limiter.entry(&0).at(start).reserve(5, Duration::from_secs(150)).unwrap();
    let turn = place.ready_at();
    let late = turn + Duration::from_millis(21_900);
    assert_eq!(limiter.entry(&0).at(late).peek(0).remaining(), 0);
    assert_eq!(limiter.entry(&0).at(late).refund(place.into_permit()), 1);
    assert_eq!(limiter.entry(&0).at(late).peek(0).remaining(), 1);
}

/// If one limit denies, the limits before it give their charges back, even at the instant of a change.
#[test]
fn a_request_that_is_denied_at_the_instant_of_a_change_is_charged_nowhere() {
    let now = Timestamp::from_secs(1_000);
    let tiers = KeyedLimiter::builder(policy("gcra 1/s burst 10")).tier(policy("gcra 1/s burst 2"));
    on(now);
    let limiter = tiers.clock(clock()).build(4).unwrap();
    let [wide, tight] = [0, 1].map(|tier| limiter.entry(&7).tier(tier).unwrap());
    limiter.set_quota(policy("gcra 1/s burst 3")).unwrap();
    // Each part of the request fits alone, but the last does not fit after the first.
    let mut claims = [wide.at(now).cost(3), tight.at(now).cost(1), wide.at(now).cost(3)];
    assert_eq!(check_all(&mut claims).denied_by(), Some(2));
    assert_eq!([wide, tight].map(|entry| entry.at(now).peek(0).remaining()), [3, 2]);
    let permit = wide.at(now).check_n(3).into_result().unwrap();
    assert_eq!(wide.at(now).refund(permit), 3);
}

/// The charge has drained at another rate in between, even if the quota was changed back.
#[test]
fn a_permit_of_before_a_change_gives_nothing_back_if_the_quota_has_changed_back() {
    let [slow, fast] = ["gcra 1/s burst 10", "gcra 20/s burst 10"].map(policy);
    let clock = ManualClock::new();
    clock.set(START);
    let live = Limiter::builder(slow).clock(clock.clone()).changing().build().unwrap();
    let tiers = KeyedLimiter::builder(slow).tier(slow).clock(clock.clone()).build(10).unwrap();
    let entries = [live.entry(), tiers.entry(&KEY).tier(1).unwrap()];
    let set_quota = |policy| {
        live.set_quota(policy).unwrap();
        tiers.set_tier_quota(1, policy).unwrap();
    };
    let charged = entries.map(|entry| {
        let permit = entry.check_n(5).into_result().unwrap();
        (entry, permit, entry.reserve(5, Duration::ZERO).unwrap())
    });
    clock.advance(millis(1));
    set_quota(fast);
    clock.advance(millis(1_000));
    set_quota(slow);
    clock.advance(millis(1));
    for (entry, permit, place) in charged {
        let later = entry.check_n(10).into_result().unwrap();
        assert_eq!(entry.refund(permit), 0, "{entry:?}");
        assert!(!entry.cancel(place), "{entry:?}");
        assert!(!entry.check().is_allowed(), "{entry:?}");
        assert_eq!(entry.refund(later), 10, "{entry:?}");
    }
}
