//! The verbs beside check and peek, on one limit and on one key of a table.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use std::time::Duration;

use common::policy;
use proptest::prelude::*;
use tollgate::{
    Decision, Denial, KeyedLimiter, Limiter, ManualClock, Permit, Policy, Reservation, Timestamp,
};

/// One limit, or one key of a table.
enum Subject {
    One(Box<Limiter>),
    Keyed(Box<KeyedLimiter<u64>>),
}

const KEY: u64 = 7;

fn subjects(policy: Policy) -> [(Subject, ManualClock); 2] {
    let clocks = [ManualClock::new(), ManualClock::new()];
    let [one, keyed] = clocks.clone();
    let one = Subject::One(Box::new(Limiter::with_clock(policy, one)));
    let keyed = KeyedLimiter::with_clock(policy, 10, keyed).unwrap();
    let keyed = Subject::Keyed(Box::new(keyed));
    let [first, second] = clocks;
    [(one, first), (keyed, second)]
}

impl Subject {
    fn check(&self, cost: u64) -> Decision {
        match self {
            Self::One(limiter) => limiter.check(cost),
            Self::Keyed(limiter) => limiter.check(&KEY, cost),
        }
    }

    fn remaining(&self) -> u64 {
        match self {
            Self::One(limiter) => limiter.entry().peek(1).remaining(),
            Self::Keyed(limiter) => limiter.entry(&KEY).peek(1).remaining(),
        }
    }

    fn take_up_to(&self, cost: u64) -> Decision {
        match self {
            Self::One(limiter) => limiter.entry().take_up_to(cost),
            Self::Keyed(limiter) => limiter.entry(&KEY).take_up_to(cost),
        }
    }

    fn charge(&self, cost: u64) -> u64 {
        match self {
            Self::One(limiter) => limiter.entry().charge(cost),
            Self::Keyed(limiter) => limiter.entry(&KEY).charge(cost),
        }
    }

    fn refund(&self, permit: Permit) -> u64 {
        match self {
            Self::One(limiter) => limiter.entry().refund(permit),
            Self::Keyed(limiter) => limiter.entry(&KEY).refund(permit),
        }
    }

    fn reserve(&self, cost: u64, max_wait: Duration) -> Result<Reservation, Denial> {
        match self {
            Self::One(limiter) => limiter.entry().reserve(cost, max_wait),
            Self::Keyed(limiter) => limiter.entry(&KEY).reserve(cost, max_wait),
        }
    }

    fn cancel(&self, place: Reservation) -> bool {
        match self {
            Self::One(limiter) => limiter.entry().cancel(place),
            Self::Keyed(limiter) => limiter.entry(&KEY).cancel(place),
        }
    }

    fn reset(&self) {
        match self {
            Self::One(limiter) => limiter.entry().reset(),
            Self::Keyed(limiter) => limiter.entry(&KEY).reset(),
        }
    }
}

const WINDOWS: [&str; 7] = [
    "fixed-window 10/m",
    "fixed-window 10/m from-first",
    "sliding-window 10/m",
    "sliding-window 10/m round-down",
    "sliding-window 10/m strict",
    "segmented-window 10/m x2",
    "segmented-window 10/m x6",
];

fn each(texts: &[&str], promise: impl Fn(&Subject, &ManualClock, &str)) {
    for text in texts {
        for (subject, clock) in subjects(policy(text)) {
            promise(&subject, &clock, text);
        }
    }
}

#[test]
fn as_much_is_taken_as_fits() {
    let texts: Vec<_> = WINDOWS.into_iter().chain(["gcra 10/m"]).collect();
    each(&texts, |subject, _, text| {
        assert_eq!(subject.take_up_to(0).into_result().unwrap().cost(), 0, "{text}");
        assert_eq!(subject.take_up_to(7).into_result().unwrap().cost(), 7, "{text}");
        assert_eq!(subject.take_up_to(u64::MAX).into_result().unwrap().cost(), 3, "{text}");
        let denial = subject.take_up_to(7).into_result().unwrap_err();
        assert_eq!((denial.cost(), denial.is_never(), denial.remaining()), (1, false, 0), "{text}");
        assert!(denial.retry_after().unwrap() > Duration::ZERO, "{text}");
    });
}

#[test]
fn a_window_gives_back_only_while_it_is_the_one_that_was_charged() {
    each(&WINDOWS, |subject, clock, text| {
        let permit = subject.check(6).into_result().unwrap();
        assert_eq!(subject.refund(permit.portion(4)), 4, "{text}");
        assert_eq!(subject.remaining(), 8, "{text}");
        // More than there is cannot come back.
        assert_eq!(subject.refund(permit), 2, "{text}");
        assert_eq!(subject.remaining(), 10, "{text}");
        let permit = subject.check(6).into_result().unwrap();
        clock.advance(Duration::from_secs(60));
        assert!(subject.check(1).is_allowed(), "{text}");
        let left = subject.remaining();
        assert_eq!(subject.refund(permit), 0, "{text}");
        assert_eq!(subject.remaining(), left, "{text}");
    });
}

#[test]
fn a_segment_gives_back_its_own_units_alone() {
    each(&["segmented-window 10/m x2", "segmented-window 10/m x6"], |subject, clock, text| {
        let old = subject.check(3).into_result().unwrap();
        clock.advance(Duration::from_secs(30));
        let new = subject.check(5).into_result().unwrap();
        assert_eq!(subject.refund(old), 0, "{text}");
        assert_eq!(subject.remaining(), 2, "{text}");
        assert_eq!(subject.refund(new), 5, "{text}");
        assert_eq!(subject.remaining(), 7, "{text}");
    });
}

#[test]
fn a_window_is_charged_no_further_than_its_limit() {
    each(&WINDOWS, |subject, clock, text| {
        assert!(subject.check(4).is_allowed());
        assert_eq!(subject.charge(5), 0, "{text}");
        assert_eq!(subject.charge(5), 4, "{text}");
        assert_eq!(subject.charge(5), 5, "{text}");
        assert!(!subject.check(1).is_allowed(), "{text}");
        clock.advance(Duration::from_secs(120));
        assert_eq!(subject.remaining(), 10, "{text}");
    });
}

#[test]
fn a_window_reserves_what_fits_now_and_nothing_else() {
    each(&WINDOWS, |subject, _, text| {
        let place = subject.reserve(10, Duration::from_secs(600)).unwrap();
        assert_eq!(place.wait(), Duration::ZERO, "{text}");
        assert!(subject.reserve(1, Duration::from_secs(600)).is_err(), "{text}");
        assert!(subject.cancel(place), "{text}");
        assert_eq!(subject.remaining(), 10, "{text}");
    });
}

#[test]
fn a_late_request_uses_what_it_reserves_of_a_window_at_once() {
    for text in WINDOWS {
        let limiter = Limiter::new(policy(text));
        assert!(limiter.entry().at(Timestamp::from_secs(120)).check(3).is_allowed(), "{text}");
        let late = Timestamp::from_secs(119);
        let place = limiter.entry().at(late).reserve(2, Duration::from_secs(600)).unwrap();
        assert_eq!((place.ready_at(), place.wait()), (late, Duration::ZERO), "{text}");
    }
}

#[test]
fn a_reset_limit_is_as_never_used() {
    let texts: Vec<_> = WINDOWS.into_iter().chain(["gcra 10/m"]).collect();
    each(&texts, |subject, clock, text| {
        subject.reset();
        assert!(subject.check(10).is_allowed(), "{text}");
        clock.advance(Duration::from_secs(1));
        assert!(!subject.check(5).is_allowed(), "{text}");
        subject.reset();
        assert_eq!(subject.remaining(), 10, "{text}");
        assert!(subject.check(10).is_allowed(), "{text}");
        assert!(!subject.check(1).is_allowed(), "{text}");
    });
}

#[test]
fn a_request_with_an_earlier_time_does_not_profit_from_a_reset() {
    for text in ["gcra 1/m burst 5", "fixed-window 5/m"] {
        let limiter = Limiter::new(policy(text));
        let at = Timestamp::from_secs(6_000);
        assert!(limiter.entry().at(at).check(5).is_allowed());
        limiter.entry().at(at).reset();
        // Were the word as never used, a full burst would fit at each of these times.
        let times = [1, 2_000, 4_000].map(Timestamp::from_secs);
        let early = times.into_iter().filter(|&now| limiter.entry().at(now).check(5).is_allowed());
        assert!(early.count() <= 1, "{text}");
    }
}

#[test]
fn a_peek_and_a_denial_have_nothing_to_give_back() {
    each(&["gcra 10/m", "fixed-window 10/m"], |subject, _, text| {
        assert!(subject.check(6).is_allowed());
        let peeked = match subject {
            Subject::One(limiter) => limiter.entry().peek(4),
            Subject::Keyed(limiter) => limiter.entry(&KEY).peek(4),
        };
        assert_eq!(subject.refund(peeked.into_result().unwrap()), 0, "{text}");
        assert_eq!(subject.refund(subject.check(0).into_result().unwrap()), 0, "{text}");
        assert_eq!(subject.remaining(), 4, "{text}");
    });
}

#[test]
fn a_permit_of_another_policy_gives_back_nothing() {
    let other = Limiter::with_clock(policy("gcra 100/m"), ManualClock::new());
    let foreign = other.check(50).into_result().unwrap();
    each(&["gcra 10/m", "fixed-window 10/m"], |subject, _, text| {
        assert!(subject.check(6).is_allowed());
        assert_eq!(subject.refund(foreign), 0, "{text}");
        assert_eq!(subject.remaining(), 4, "{text}");
    });
}

#[test]
fn a_key_that_is_not_there_has_nothing_to_give_back() {
    let limiter = KeyedLimiter::<u64>::new(policy("gcra 10/m"), 10).unwrap();
    let permit = limiter.check(&1, 5).into_result().unwrap();
    assert_eq!(limiter.entry(&2).refund(permit), 0);
    limiter.entry(&2).reset();
    assert_eq!(limiter.stats().live, 1);
}

#[test]
fn the_folly_vector_of_borrowing_waits_one_second_more_each_time() {
    // Rate 10 a second, burst 10, drained: ten places of ten units.
    let limiter = Limiter::with_clock(policy("gcra 10/s burst 10"), ManualClock::new());
    assert!(limiter.check(10).is_allowed());
    for seconds in 1..=10 {
        let place = limiter.entry().reserve(10, Duration::from_secs(10)).unwrap();
        assert_eq!(place.wait(), Duration::from_secs(seconds));
    }
    assert!(limiter.entry().reserve(10, Duration::from_secs(10)).is_err());
}

#[test]
fn v36_a_forced_charge_puts_the_next_unit_off() {
    // 10 a second, 2 units there, 100 ms since the last: 6 are charged all the same.
    let clock = ManualClock::new();
    let limiter = Limiter::with_clock(policy("gcra 10/s burst 10"), clock.clone());
    assert!(limiter.check(8).is_allowed());
    clock.advance(Duration::from_millis(100));
    assert_eq!(limiter.entry().charge(6), 0);
    let denial = limiter.check(1).into_result().unwrap_err();
    assert_eq!(denial.retry_after(), Some(Duration::from_millis(400)));
}

/// GCRA in whole units of time: one unit of cost drains in each, and in each of them a tick falls on a
/// whole number.
#[derive(Debug)]
struct Model {
    burst: i128,
    most: i128,
    tat: i128,
}

impl Model {
    fn debt(&self, now: i128) -> i128 {
        (self.tat - now).max(0)
    }

    fn take(&mut self, now: i128, cost: i128, room: i128) -> bool {
        let debt = self.debt(now) + cost;
        let fits = debt <= room && debt <= self.most;
        if fits && cost > 0 {
            self.tat = now + debt;
        }
        fits
    }

    /// What is owed of a reservation of `cost` since its turn: it was made at `made` and left the TAT `left`.
    fn owed_since_turn(&self, now: i128, cost: i128, (left, made): (i128, i128)) -> i128 {
        let turn = made.max(left - self.burst.max(cost));
        (cost - (now - turn).max(0)).clamp(0, self.debt(now))
    }

    fn refund(&mut self, now: i128, cost: i128, charged_at: i128) -> i128 {
        let debt = self.debt(now);
        let drained = (now - charged_at) + (debt - self.burst).max(0);
        let owed = (cost - drained).clamp(0, debt);
        if owed > 0 {
            self.tat -= owed;
        }
        owed
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Check(u64),
    UpTo(u64),
    Charge(u64),
    Reserve(u64, u64),
    /// So much of the permit of the charge so many charges ago.
    Refund(usize, u64),
    Cancel(usize),
    Reset,
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..12_u64).prop_map(Op::Check),
        2 => (0..15_u64).prop_map(Op::UpTo),
        1 => (0..15_u64).prop_map(Op::Charge),
        3 => (0..12_u64, 0..20_u64).prop_map(|(cost, wait)| Op::Reserve(cost, wait)),
        3 => (0..4_usize, 1..12_u64).prop_map(|(nth, units)| Op::Refund(nth, units)),
        3 => (0..4_usize).prop_map(Op::Cancel),
        1 => Just(Op::Reset),
        5 => (0..15_u64).prop_map(Op::Wait),
    ]
}

/// Does all of it on a subject and on the model, and compares every answer.
fn agree(subject: &Subject, clock: &ManualClock, mut model: Model, ops: &[Op]) {
    let mut now = 0_i128;
    let mut permits: Vec<(Permit, i128)> = Vec::new();
    let mut places: Vec<(Reservation, i128, i128)> = Vec::new();
    for &op in ops {
        match op {
            Op::Check(cost) => {
                let decision = subject.check(cost);
                let burst = model.burst;
                assert_eq!(decision.is_allowed(), model.take(now, cost.into(), burst), "{op:?}");
                permits.extend(decision.into_result().ok().map(|permit| (permit, now)));
            }
            Op::UpTo(cost) => {
                let free = (model.burst - model.debt(now)).max(0).min(cost.into());
                let decision = subject.take_up_to(cost);
                let debt_fits = model.debt(now) <= model.burst;
                assert_eq!(decision.is_allowed(), free > 0 || cost == 0 && debt_fits, "{op:?}");
                if let Decision::Allowed(permit) = decision {
                    assert_eq!(i128::from(permit.cost()), free, "{op:?}");
                    assert!(model.take(now, free, model.burst));
                    permits.push((permit, now));
                }
            }
            Op::Charge(cost) => {
                let charged = i128::from(cost).min(model.most - model.debt(now));
                assert_eq!(i128::from(cost) - charged, subject.charge(cost).into(), "{op:?}");
                assert!(model.take(now, charged, model.most));
            }
            Op::Reserve(cost, wait) => {
                let place = subject.reserve(cost, unit() * u32::try_from(wait).unwrap());
                let room = model.burst + i128::from(wait);
                assert_eq!(place.is_ok(), model.take(now, cost.into(), room), "{op:?}");
                if let Ok(place) = place {
                    let wait = (model.debt(now) - model.burst).max(0);
                    assert_eq!(place.wait(), unit() * u32::try_from(wait).unwrap(), "{op:?}");
                    places.push((place, model.tat, now));
                }
            }
            Op::Refund(nth, units) if nth < permits.len() => {
                let (permit, charged_at) = permits.remove(permits.len() - 1 - nth);
                let part = permit.portion(units);
                let owed = model.refund(now, part.cost().into(), charged_at);
                assert_eq!(i128::from(subject.refund(part)), owed, "{op:?}");
            }
            Op::Cancel(nth) if nth < places.len() => {
                let (place, left, made) = places.remove(places.len() - 1 - nth);
                let cost = i128::from(place.permit().cost());
                let same = model.tat == left;
                let owed = if same { model.owed_since_turn(now, cost, (left, made)) } else { 0 };
                assert_eq!(subject.cancel(place), owed > 0, "{op:?}");
                model.tat -= owed;
            }
            Op::Reset => {
                subject.reset();
                model.tat = now;
                // Permits from before the reset give nothing back.
                permits.clear();
            }
            Op::Wait(units) => {
                now += i128::from(units);
                clock.advance(unit() * u32::try_from(units).unwrap());
            }
            Op::Refund(..) | Op::Cancel(_) => {}
        }
        assert_eq!(
            i128::from(subject.remaining()),
            (model.burst - model.debt(now)).max(0),
            "{op:?}"
        );
    }
}

/// What drains one unit, exactly: 10 ms.
const fn unit() -> Duration {
    Duration::from_millis(10)
}

proptest! {
    #[test]
    fn every_verb_answers_as_the_definition_says(
        burst in 1..12_u64,
        ops in prop::collection::vec(op(), 1..50),
    ) {
        let policy = policy(&format!("gcra 100/s burst {burst}"));
        for (subject, clock) in subjects(policy) {
            let burst = i128::from(burst);
            let most = if matches!(subject, Subject::One(_)) { 1 << 40 } else { 2 * burst };
            agree(&subject, &clock, Model { burst, most, tat: 0 }, &ops);
        }
    }
}

#[test]
fn a_charge_that_comes_too_late_to_be_told_changes_nothing() {
    // 256 ticks a nanosecond in this keyed word: after 834 days a distance has more than 64 bits.
    let later = Timestamp::from_secs(2_000 * 86_400);
    for early_ns in (0..40).map(|bit| 1 << bit) {
        let limiter = KeyedLimiter::<u64>::new(policy("gcra 1000000000/s burst 1"), 10).unwrap();
        assert!(limiter.entry(&KEY).at(later).check(1).is_allowed());
        assert_eq!(limiter.entry(&KEY).at(Timestamp::from_nanos(early_ns)).charge(1), 1);
        let denied = limiter.entry(&KEY).at(later).check(1).into_result().unwrap_err();
        assert_eq!(denied.retry_after(), Some(Duration::from_nanos(1)), "{early_ns}");
    }
}
