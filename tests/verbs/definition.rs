//! Every verb under GCRA, drawn at random and compared with its definition in whole units of time.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Decision, ManualClock, Permit, Reservation};

use super::common::policy;
use super::{Subject, subjects};

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
                let decision = subject.entry().take_up_to(cost);
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
                assert_eq!(
                    i128::from(cost) - charged,
                    subject.entry().charge(cost).into(),
                    "{op:?}"
                );
                assert!(model.take(now, charged, model.most));
            }
            Op::Reserve(cost, wait) => {
                let place = subject.entry().reserve(cost, unit() * u32::try_from(wait).unwrap());
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
                assert_eq!(i128::from(subject.entry().refund(part)), owed, "{op:?}");
            }
            Op::Cancel(nth) if nth < places.len() => {
                let (place, left, made) = places.remove(places.len() - 1 - nth);
                let cost = i128::from(place.permit().cost());
                let same = model.tat == left;
                let owed = if same { model.owed_since_turn(now, cost, (left, made)) } else { 0 };
                assert_eq!(subject.entry().cancel(place), owed > 0, "{op:?}");
                model.tat -= owed;
            }
            Op::Reset => {
                subject.entry().reset();
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
