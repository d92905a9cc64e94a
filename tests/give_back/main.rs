//! Giving back: whatever comes between a charge and its refund or cancellation, the admitted units less those given
//! back keep the bound. That is so even if a refund and an equal charge have restored the bits that a reservation left.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

#[path = "../common/mod.rs"]
mod common;
mod subject;
mod uncharge;

use std::time::Duration;

use common::{clock, on, policy};
use subject::{KEY, START, Subject, subjects};
use tollgate::{KeyedLimiter, Limiter, ManualClock, Timestamp, check_all};

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn a_cancellation_forgives_nothing_of_a_charge_that_restored_its_bits() {
    for (subject, clock, name) in subjects("gcra 1/s burst 10") {
        let permit = subject.entry().check_n(5).into_result().unwrap();
        let place = subject.entry().reserve(5, Duration::ZERO).unwrap();
        assert_eq!(subject.entry().refund(permit), 5);
        clock.advance(millis(4_990));
        // The word has the bits that the reservation left, but nearly all of the reservation's five units have drained.
        assert!(subject.entry().check_n(5).is_allowed());
        assert!(subject.entry().cancel(place), "{name}: a hundredth is still owed");
        let more = (0..20).filter(|_| subject.entry().check().is_allowed()).count();
        assert_eq!(more, 5, "{name}: a burst of 10 at one instant");
    }
}

#[test]
fn what_has_drained_altogether_is_not_cancelled() {
    for (subject, clock, name) in subjects("gcra 1/s burst 10") {
        let permit = subject.entry().check_n(5).into_result().unwrap();
        let place = subject.entry().reserve(5, Duration::ZERO).unwrap();
        assert_eq!(subject.entry().refund(permit), 5);
        clock.advance(millis(5_000));
        assert!(subject.entry().check_n(5).is_allowed());
        assert!(!subject.entry().cancel(place), "{name}");
        assert_eq!(subject.left(), 5, "{name}");
    }
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
    for (subject, clock, name) in subjects("gcra 1/s burst 10") {
        assert!(subject.entry().check_n(10).is_allowed());
        let first = subject.entry().reserve(4, millis(10_000)).unwrap();
        assert_eq!(first.wait(), millis(4_000), "{name}");
        clock.advance(millis(3_999));
        let owed = subject.owed();
        assert!(subject.entry().cancel(first), "{name}");
        assert_eq!(owed - subject.owed(), millis(4_000), "{name}");
        // From its turn on a place drains as a check does.
        let second = subject.entry().reserve(4, millis(10_000)).unwrap();
        clock.set(second.ready_at() + millis(1_500));
        let owed = subject.owed();
        assert!(subject.entry().cancel(second), "{name}");
        assert_eq!(owed - subject.owed(), millis(2_500), "{name}");
    }
}

/// After a whole turn of its time field, 128 windows of a minute in this table, a word has the same bits.
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
    for (subject, clock, name) in subjects("gcra 10/s burst 10") {
        let permits: Vec<_> =
            (0..10).map(|_| subject.entry().check().into_result().unwrap()).collect();
        clock.advance(millis(1));
        let told: u64 = permits.into_iter().map(|permit| subject.entry().refund(permit)).sum();
        let admitted = 10 + (0..20).filter(|_| subject.entry().check().is_allowed()).count() as u64;
        assert!(admitted <= 10 + told, "{name}: {admitted} admitted, {told} given back");
        assert_eq!((admitted, told), (19, 10), "{name}");
    }
}

/// A word can be written up to an epoch above its floor; a key with a longer penalty can owe for longer.
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

/// When one limit denies, the limits before it give their charges back, at the instant of a change, too.
#[test]
fn a_request_that_is_denied_at_the_instant_of_a_change_is_charged_nowhere() {
    let now = Timestamp::from_secs(1_000);
    let tiers = KeyedLimiter::builder(policy("gcra 1/s burst 10")).tier(policy("gcra 1/s burst 2"));
    on(now);
    let limiter = tiers.clock(clock()).build(4).unwrap();
    let [wide, tight] = [0, 1].map(|tier| limiter.entry(&7).tier(tier).unwrap());
    limiter.set_quota(policy("gcra 1/s burst 3")).unwrap();
    // Each claim fits alone, but the last does not fit after the first.
    let mut claims = [wide.at(now).cost(3), tight.at(now).cost(1), wide.at(now).cost(3)];
    assert_eq!(check_all(&mut claims).denied_by(), Some(2));
    assert_eq!([wide, tight].map(|entry| entry.at(now).peek(0).remaining()), [3, 2]);
    let permit = wide.at(now).check_n(3).into_result().unwrap();
    assert_eq!(wide.at(now).refund(permit), 3);
}

/// The charge has drained at another rate meanwhile, even if the quota was changed back.
#[test]
fn a_permit_of_before_a_change_gives_nothing_back_if_the_quota_has_changed_back() {
    let [slow, fast] = ["gcra 1/s burst 10", "gcra 20/s burst 10"].map(policy);
    for (subject, clock, name) in subjects("gcra 1/s burst 10") {
        let set_quota = |policy| match &subject {
            Subject::Live(limiter) => limiter.set_quota(policy).unwrap(),
            Subject::Tier(limiter) => limiter.set_tier_quota(1, policy).unwrap(),
            _ => {}
        };
        if matches!(subject, Subject::One(_) | Subject::Keyed(_)) {
            continue; // their quota is fixed
        }
        let permit = subject.entry().check_n(5).into_result().unwrap();
        let place = subject.entry().reserve(5, Duration::ZERO).unwrap();
        clock.advance(millis(1));
        set_quota(fast);
        clock.advance(millis(1_000));
        set_quota(slow);
        clock.advance(millis(1));
        let later = subject.entry().check_n(10).into_result().unwrap();
        assert_eq!(subject.entry().refund(permit), 0, "{name}");
        assert!(!subject.entry().cancel(place), "{name}");
        assert!(!subject.entry().check().is_allowed(), "{name}");
        assert_eq!(subject.entry().refund(later), 10, "{name}");
    }
}

/// A charge that counts from its turn on, and the part of it that was given back.
#[derive(Debug)]
struct Counts {
    turn_us: u64,
    cost_us: u64,
    back_us: u64,
}

fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap()
}

/// Pseudo-random numbers from a seed (Knuth's multiplier).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A unit drains in 8 ms, and time goes on in steps of 1 ms: nothing is rounded.
const UNIT_US: u64 = 8_000;

/// Makes random calls on one limit, and then adds up every interval between two turns.
fn keeps_its_bound(subject: &Subject, clock: &ManualClock, burst: u64, random: &mut Random) {
    let (mut all, mut permits, mut places) = (Vec::new(), Vec::new(), Vec::new());
    let mut largest = burst;
    let since = |now: Timestamp| us(now - START);
    let mut told = String::new();
    for _ in 0..random.below(14) + 3 {
        let now_us = since(clock.now());
        let count = |turn_us, cost: u64| Counts { turn_us, cost_us: cost * UNIT_US, back_us: 0 };
        match random.below(12) {
            0..3 => {
                let cost = random.below(burst) + 1;
                if let Ok(permit) = subject.entry().check_n(cost).into_result() {
                    told += &format!("check {cost} at {now_us}; ");
                    permits.push((permit, all.len()));
                    all.push(count(now_us, cost));
                }
            }
            3..6 => {
                let (cost, wait) = (random.below(burst + 2) + 1, random.below(2 * burst));
                let wait = Duration::from_micros(wait * UNIT_US / 2);
                if let Ok(place) = subject.entry().reserve(cost, wait) {
                    let turn_us = since(place.ready_at());
                    told += &format!("reserve {cost} at {now_us} for {turn_us}; ");
                    largest = largest.max(cost);
                    places.push((place, all.len()));
                    all.push(count(turn_us, cost));
                }
            }
            6..8 if !permits.is_empty() => {
                let nth = random.below(permits.len() as u64);
                let (permit, at) = permits.swap_remove(usize::try_from(nth).unwrap());
                let part = random.below(permit.cost()) + 1;
                let before = subject.owed();
                let back = subject.entry().refund(permit.portion(part));
                let given_us = us(before - subject.owed());
                told += &format!("refund {part} of {at} at {now_us}: {given_us}; ");
                assert_eq!(back, given_us.div_ceil(UNIT_US), "{told}");
                assert!(back <= part, "{told}");
                all[at].back_us += given_us;
            }
            8..10 if !places.is_empty() => {
                let nth = random.below(places.len() as u64);
                let (place, at) = places.swap_remove(usize::try_from(nth).unwrap());
                let before = subject.owed();
                let is_back = subject.entry().cancel(place);
                let given_us = us(before - subject.owed());
                told += &format!("cancel {at} at {now_us}: {given_us}; ");
                assert_eq!(is_back, given_us > 0, "{told}");
                all[at].back_us += given_us;
            }
            10 if random.below(4) == 0 => {
                let cost = random.below(2 * burst);
                told += &format!("charge {cost} at {now_us}; ");
                let _ = subject.entry().charge(cost);
            }
            _ => clock.advance(millis(random.below(8 * burst))),
        }
    }
    for from in &all {
        for to in all.iter().filter(|to| to.turn_us >= from.turn_us) {
            let within =
                all.iter().filter(|one| (from.turn_us..=to.turn_us).contains(&one.turn_us));
            let net_us: u64 = within.map(|one| one.cost_us - one.back_us).sum();
            let max_us = largest * UNIT_US + to.turn_us - from.turn_us;
            assert!(net_us <= max_us, "from {} to {}: {told}", from.turn_us, to.turn_us);
        }
    }
}

#[test]
fn whatever_is_given_back_in_whatever_order_the_bound_holds() {
    let mut random = Random(42);
    for round in 0..40_000_u64 {
        let burst = round % 5 + 1;
        for (subject, clock, _) in subjects(&format!("gcra 125/s burst {burst}")) {
            keeps_its_bound(&subject, &clock, burst, &mut random);
        }
    }
}
