//! Random requests of several keys under several quotas, compared with the exact reference.

use proptest::prelude::*;
use std::time::Duration;
use tollgate::{ChangeError, Entry, KeyedLimiter, ManualClock, Permit};

use super::reference::{Charge, Key, Rate, Since, Wish};
use super::{SECOND, START, limiter, quota};

const KEYS: u64 = 3;

/// These rates were chosen by hand: some are equal, some nearly equal and some far apart.
const NAMED: [Rate; 9] = [
    Rate::new(30, 30, 30),
    Rate::new(30, 60, 30),
    Rate::new(60, 60, 30),
    Rate::new(30, 30, 7),
    Rate::new(20, 1, 40),
    Rate::new(20, 1, 2),
    Rate::new(5, 3_600, 40),
    Rate::new(5, 3_600, 1),
    Rate::new(31, 30, 30),
];

pub(crate) fn rates() -> impl Strategy<Value = Rate> {
    let period_s = prop_oneof![Just(1), Just(30), Just(60), Just(3_600)];
    let any = (5_u64..=20, period_s, 1_u64..=40)
        .prop_map(|(count, period_s, burst)| Rate::new(count, period_s, burst));
    prop_oneof![(0..NAMED.len()).prop_map(|n| NAMED[n]), any]
}

/// Several rates. The first is the limiter's own, for keys whose requests bring no quota.
pub(crate) fn several() -> impl Strategy<Value = Vec<Rate>> {
    prop::collection::vec(rates(), 2..=6)
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Advance(u64),
    Ask(Wish),
    /// Makes a request under a quota that does not fit in the table's words.
    AskTooLarge,
    Refund {
        nth: usize,
        part: u64,
    },
    Settle {
        nth: usize,
        used: u64,
    },
    Uncharge(u64),
    Reset,
    ForgetQuotas,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    key: u64,
    nth: usize,
    action: Action,
}

fn costs() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), 1_u64..=5, 1_u64..=41]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let advance =
        prop_oneof![0_u64..1_000, 0..SECOND / 50, 0..SECOND, 0..60 * SECOND, 0..9_000 * SECOND];
    let action = prop_oneof![
        8 => advance.prop_map(Action::Advance),
        12 => costs().prop_map(|cost| Action::Ask(Wish::Check(cost))),
        2 => costs().prop_map(|cost| Action::Ask(Wish::UpTo(cost))),
        2 => (costs(), 0..30 * SECOND).prop_map(|(cost, ns)| Action::Ask(Wish::Reserve(cost, ns))),
        1 => (0_u64..90).prop_map(|cost| Action::Ask(Wish::Charge(cost))),
        1 => Just(Action::AskTooLarge),
        2 => (0_usize..9, 0_u64..40).prop_map(|(nth, part)| Action::Refund { nth, part }),
        1 => (0_usize..9, 0_u64..40).prop_map(|(nth, used)| Action::Settle { nth, used }),
        1 => costs().prop_map(Action::Uncharge),
        1 => Just(Action::Reset),
        1 => Just(Action::ForgetQuotas),
    ];
    let step =
        (0..KEYS, 0_usize..6, action).prop_map(|(key, nth, action)| Step { key, nth, action });
    prop::collection::vec(step, 1..160)
}

/// The limiter and the reference that it is compared with.
struct Run {
    limiter: KeyedLimiter<u64>,
    clock: ManualClock,
    rates: Vec<Rate>,
    keys: Vec<Key>,
    since: Since,
    permits: Vec<Vec<(Permit, Charge)>>,
}

/// Makes the call that a wish describes. Returns the admitted units, and the permit.
fn ask(entry: &Entry<'_>, wish: Wish) -> (Option<u64>, Option<Permit>) {
    let permit = match wish {
        Wish::Check(cost) => entry.check_n(cost).into_result().ok(),
        Wish::UpTo(cost) => entry.take_up_to(cost).into_result().ok(),
        Wish::Reserve(cost, wait_ns) => {
            let place = entry.reserve(cost, Duration::from_nanos(wait_ns));
            place.ok().map(tollgate::Reservation::into_permit)
        }
        Wish::Charge(cost) => return (Some(cost - entry.charge(cost)), None),
    };
    (permit.as_ref().map(Permit::cost), permit)
}

impl Run {
    fn new(rates: Vec<Rate>) -> Self {
        let clock = ManualClock::new();
        clock.set(START);
        let keys = (0..KEYS).map(|_| Key::new(rates[0], START.as_nanos())).collect();
        Self {
            limiter: limiter(rates[0].quota(), clock.clone()),
            clock,
            rates,
            keys,
            since: Since::default(),
            permits: (0..KEYS).map(|_| Vec::new()).collect(),
        }
    }

    fn step(&mut self, Step { key, nth, action }: Step) -> Result<(), String> {
        let now_ns = self.clock.now().as_nanos();
        self.keys.iter_mut().for_each(|key| key.advance(now_ns));
        let of_key = usize::try_from(key).unwrap();
        let rate = self.rates[nth % self.rates.len()];
        let entry = self.limiter.entry(&key);
        // The first rate is the limiter's own quota.
        let entry = if rate == self.rates[0] { entry } else { entry.under(rate.quota()).unwrap() };
        let permits = &mut self.permits[of_key];
        let (reference, since) = (&mut self.keys[of_key], &mut self.since);
        match action {
            Action::Advance(ns) => self.clock.advance(Duration::from_nanos(ns)),
            Action::Ask(wish) => {
                let peeked =
                    if let Wish::Check(cost) = wish { Some(entry.peek(cost)) } else { None };
                let (answer, permit) = ask(&entry, wish);
                if let Some(peeked) = peeked {
                    assert_eq!(
                        (peeked.is_allowed(), peeked.limit()),
                        (answer.is_some(), rate.burst)
                    );
                }
                reference.follow(since, rate, wish, answer)?;
                if let Some(permit) = permit.filter(|permit| permit.cost() > 0) {
                    let [least, most] = reference.left(rate.burst);
                    let left = permit.remaining();
                    if !(least..=most).contains(&left) {
                        return Err(format!("{left} left, not {least} to {most}"));
                    }
                    let charge = Charge { rate, at_ns: now_ns, units: permit.cost() };
                    permits.push((permit, charge));
                }
            }
            Action::AskTooLarge => {
                let refused = entry.under(quota(1, 86_400, 1_000_000)).map(|_| ());
                assert!(matches!(refused, Err(ChangeError::DoesNotFit { .. })), "{refused:?}");
            }
            Action::Refund { nth, part } if !permits.is_empty() => {
                let (permit, charge) = permits.remove(nth % permits.len());
                let units = part.min(charge.units);
                let back = entry.refund(permit.portion(units));
                reference.refund(since, Charge { units, ..charge }, back)?;
            }
            Action::Settle { nth, used } if !permits.is_empty() => {
                let (permit, charge) = permits.remove(nth % permits.len());
                if used < charge.units {
                    // `settle` refunds the rest, but does not say how much came back.
                    let unused = charge.units - used;
                    let left = entry.peek(0).remaining();
                    assert_eq!(entry.settle(permit, used), 0);
                    assert!(entry.peek(0).remaining() >= left, "{unused} are given back or fewer");
                    reference.refund_untold(Charge { units: unused, ..charge });
                } else {
                    let beyond = used - charge.units;
                    let charged = beyond - entry.settle(permit, used);
                    reference.follow(since, rate, Wish::Charge(beyond), Some(charged))?;
                }
            }
            Action::Refund { .. } | Action::Settle { .. } => {}
            Action::Uncharge(units) => reference.uncharge(units, entry.uncharge(units))?,
            Action::Reset => {
                entry.reset();
                reference.reset();
                // Permits from before a reset give nothing back.
                permits.clear();
            }
            Action::ForgetQuotas => {
                let _ = self.limiter.forget_quotas();
            }
        }
        Ok(())
    }
}

fn run(rates: &[Rate], steps: &[Step]) -> Result<(), String> {
    let mut run = Run::new(rates.to_vec());
    for (n, step) in steps.iter().enumerate() {
        run.step(*step).map_err(|said| format!("step {n}, {step:?}: {said}"))?;
    }
    Ok(())
}

proptest! {
    #[test]
    fn decisions_under_quotas_of_their_own_are_those_of_the_reference(
        rates in several(),
        steps in steps(),
    ) {
        run(&rates, &steps).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn a_limiter_that_counts_a_key_apart_in_each_quota_is_told_from_the_reference() {
    let rates = [Rate::new(30, 30, 30), Rate::new(30, 60, 30)];
    let mut reference = Key::new(rates[0], 0);
    let mut since = Since::default();
    for rate in rates {
        let answer = reference.follow(&mut since, rate, Wish::Check(30), Some(30));
        assert_eq!(answer.is_ok(), rate == rates[0]);
    }
    // All 30 units are owed, so a denial is right. In 2.05 s two units drain at 1 a second, the faster of the two
    // rates. After that the limiter must not deny 2 units, and must not admit 3.
    assert!(reference.follow(&mut since, rates[1], Wish::Check(1), None).is_ok());
    reference.advance(2 * SECOND + SECOND / 20);
    assert!(reference.follow(&mut since, rates[0], Wish::Check(2), None).is_err());
    assert!(reference.follow(&mut since, rates[0], Wish::Check(3), Some(3)).is_err());
    assert!(reference.follow(&mut since, rates[0], Wish::Check(2), Some(2)).is_ok());
}

/// If a part of a tick were given back each time that a debt is carried over, these parts would add up to a unit.
#[test]
fn a_key_that_is_used_up_for_long_and_goes_to_and_fro_gets_no_tick_back() {
    let rates = [Rate::new(30, 30, 30), Rate::new(31, 30, 30)];
    let mut run = Run::new(rates.to_vec());
    let mut admitted = 0;
    for n in 0..20_000 {
        // This is a prime number of nanoseconds, and a tenth of the time of a unit, so that the parts of a tick are all
        // different.
        let advance = Action::Advance(100_000_007);
        let ask = |nth| Step { key: 0, nth, action: Action::Ask(Wish::Check(1)) };
        let before = run.permits[0].len();
        for step in [Step { key: 0, nth: 0, action: advance }, ask(n % 2), ask(1 - n % 2)] {
            run.step(step).unwrap_or_else(|said| panic!("{n}: {said}"));
        }
        admitted += run.permits[0].len() - before;
    }
    // The key is admitted its burst of thirty, and from 2,000 to 2,067 units in as many seconds.
    assert!((2_020..=2_097).contains(&admitted), "{admitted}");
}
