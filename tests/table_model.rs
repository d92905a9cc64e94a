//! The keyed table as a state machine against one model per key.
//!
//! Inserts, charges, peeks, time that goes on by a little and by many wraps, steps back, reclaims and
//! full sets: a table of a few cells and a dozen keys, driven through its public API.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use std::time::Duration;

use common::model::{Grain, model, tells_the_same, verdict};
use common::rules::{calendar_unit, horizon_ns, ruled_up_to};
use proptest::prelude::*;
use tollgate::{
    Algorithm, AtLimit, Decision, DenialReason, KeyedLimiter, ManualClock, Policy, PolicyError,
    Quota, Rounding, Timestamp, WhenFull,
};
use tollgate_oracle::{Oracle, Verdict};

const KEYS: usize = 12;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Time goes on by so many thousandths of a period.
    On(u64),
    /// The next request alone carries a time so many thousandths of a period back.
    Back(u64),
    /// A key asks for so many fifths of the limit.
    Check { key: usize, fifths: u64 },
    /// A key looks whether it would get so many fifths of the limit.
    Peek { key: usize, fifths: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let on = prop_oneof![0_u64..2_000, 0_u64..200_000, 0_u64..30_000_000].prop_map(Step::On);
    let back = prop_oneof![0_u64..2_000, 0_u64..200_000].prop_map(Step::Back);
    let check = (0..KEYS, 0_u64..=6).prop_map(|(key, fifths)| Step::Check { key, fifths });
    let peek = (0..KEYS, 0_u64..=6).prop_map(|(key, fifths)| Step::Peek { key, fifths });
    prop::collection::vec(prop_oneof![6 => on, 1 => back, 10 => check, 2 => peek], 1..250)
}

/// With words for what happens at the limit, where they leave room for the finest ticks and quanta.
fn policies() -> impl Strategy<Value = Policy> {
    let ruled = ruled_up_to(plain_policies(), 1_000, 6).prop_filter("coarser", |policy| {
        let (algorithm, quota) = (policy.algorithm(), policy.quota());
        policy.at_limit() == AtLimit::default()
            || match algorithm {
                Algorithm::Gcra => quota.max_burst() <= 500,
                Algorithm::FixedWindowFromFirst => quota.count() <= 7,
                _ => true,
            }
    });
    ruled.prop_filter("does not fit a keyed word", |&policy| fitting(Ok(policy)).is_some())
}

fn plain_policies() -> impl Strategy<Value = Policy> {
    let period_ns =
        prop_oneof![Just(1_000_000_000_u64), Just(60_000_000_000), 50_000_000_u64..100_000_000_000];
    let small = |most| prop_oneof![1_u64..most, 1_u64..8];
    (small(1_000), small(5_000), 0..11_usize, period_ns, calendar_unit()).prop_filter_map(
        "does not fit a keyed word",
        |(count, burst, algorithm, period_ns, unit)| {
            let quota =
                |count, parts| Quota::per(count, Duration::from_nanos(period_ns / parts * parts));
            let segmented = |count, segments: u8| {
                Policy::new(Algorithm::SegmentedWindow { segments }, quota(count, segments.into()))
            };
            let algorithm = match algorithm {
                0 | 1 => return Some(Policy::from(quota(count, 1).burst(burst))),
                2 => Algorithm::FixedWindow,
                3 => Algorithm::SlidingWindow { rounding: Rounding::Exact },
                4 => Algorithm::SlidingWindow { rounding: Rounding::Down },
                // With larger limits a start may be coarser than the model's.
                5 => {
                    let algorithm = Algorithm::FixedWindowFromFirst;
                    return fitting(Policy::new(algorithm, quota(count % 256 + 1, 1)));
                }
                6 => Algorithm::SlidingWindow { rounding: Rounding::Strict },
                // Side by side in the word; as one number; and where that is what fits.
                7 => return fitting(segmented(count % 60 + 1, 4)),
                8 => return fitting(segmented(count % 200 + 1, 6)),
                9 => return fitting(Policy::calendar(unit, count)),
                _ => return fitting(segmented(count % 20 + 1, 10)),
            };
            fitting(Policy::new(algorithm, quota(count, 1)))
        },
    )
}

fn fitting(policy: Result<Policy, PolicyError>) -> Option<Policy> {
    let policy = policy.ok()?;
    KeyedLimiter::<usize>::with_clock(policy, 4, ManualClock::new()).is_ok().then_some(policy)
}

/// One key's model, and whether the table is bound to give its exact answers.
///
/// Not after a key may have been forgotten and has come back late: it then starts at a floor that cannot
/// be seen from outside. Until all of that must be over, GCRA may admit less, never more; windows count
/// such requests in the window that holds the floor.
struct Expected {
    model: Oracle,
    inexact_until_ns: Option<u64>,
}

struct Machine {
    policy: Policy,
    table: KeyedLimiter<usize>,
    fresh: Oracle,
    expected: Vec<Expected>,
    /// After so long without a request every key is idle.
    horizon_ns: u64,
    latest_ns: u64,
    back_ns: u64,
}

impl Machine {
    fn new(policy: Policy) -> Self {
        Self::against(policy, policy)
    }

    /// A table of one policy, expected to answer by another of the same period.
    fn against(policy: Policy, expected: Policy) -> Self {
        let table = KeyedLimiter::with_clock(policy, 4, ManualClock::new()).unwrap();
        // What a spill admits and denies depends on other keys: see `tests/spill`.
        let table = table.when_full(WhenFull::Deny).unwrap();
        let period_ns = u64::try_from(policy.quota().period().as_nanos()).unwrap();
        // Such quotas count in ticks of 2^-12 units, and starts in 65,536ths of a window or finer.
        let quantum_ns = 10_u64.pow((period_ns >> 16).ilog10());
        // Ends of penalties in 4,096ths or finer.
        let end_quantum_ns = 10_u64.pow((period_ns >> 12).ilog10());
        let fresh = model(expected, Grain { tick: 12, quantum_ns, end_quantum_ns });
        let drained_ns = u64::try_from(horizon_ns(policy)).unwrap().max(2 * period_ns);
        let penalty = policy.at_limit().penalty.map_or(Duration::ZERO, |penalty| penalty.length);
        let penalty_ns = u64::try_from(penalty.as_nanos()).unwrap();
        let horizon_ns = drained_ns + penalty_ns + 2_000_000;
        let expected = (0..KEYS).map(|_| Expected { model: fresh.clone(), inexact_until_ns: None });
        let expected = expected.collect();
        Self { policy, table, expected, horizon_ns, fresh, latest_ns: 0, back_ns: 0 }
    }

    fn run(&mut self, step: Step) -> Result<(), TestCaseError> {
        let thousandth_ns = u64::try_from(self.policy.quota().period().as_nanos()).unwrap() / 1_000;
        match step {
            Step::On(thousandths) => {
                let on_ns = thousandth_ns.saturating_mul(thousandths);
                self.latest_ns = self.latest_ns.saturating_add(on_ns).min(1 << 63);
            }
            Step::Back(thousandths) => self.back_ns = thousandth_ns.saturating_mul(thousandths),
            Step::Check { key, fifths } => self.ask(key, fifths, true)?,
            Step::Peek { key, fifths } => self.ask(key, fifths, false)?,
        }
        Ok(())
    }

    fn ask(&mut self, key: usize, fifths: u64, charge: bool) -> Result<(), TestCaseError> {
        let now_ns = self.latest_ns.saturating_sub(std::mem::take(&mut self.back_ns));
        let now = Timestamp::from_nanos(now_ns);
        let Expected { model, inexact_until_ns } = &mut self.expected[key];
        if inexact_until_ns.is_some_and(|until_ns| until_ns < now_ns) {
            (*model, *inexact_until_ns) = (self.fresh.clone(), None);
        }
        let cost = fifths * model.most() / 5;
        let decision = if charge {
            self.table.entry(&key).at(now).check_n(cost)
        } else {
            self.table.entry(&key).at(now).peek(cost)
        };
        let may_be_forgotten = model.is_idle(self.latest_ns);
        let late = now_ns < self.latest_ns && may_be_forgotten;
        if late || inexact_until_ns.is_some() {
            *inexact_until_ns = Some(self.latest_ns + self.horizon_ns);
        }
        let exact = inexact_until_ns.is_none();
        let told =
            format!("{} key {key} cost {cost} at {now_ns} of {}", self.policy, self.latest_ns);
        if let Decision::Denied(denial) = decision
            && denial.reason() == DenialReason::TableFull
        {
            prop_assert!(may_be_forgotten || !exact, "a live key lost its cell: {told}");
            return Ok(());
        }
        let before = model.clone();
        let over = model.is_over(now_ns, cost);
        let expected = if charge { model.check(now_ns, cost) } else { model.peek(now_ns, cost) };
        if !exact {
            // A penalty that is over at the floor is over for late requests, too.
            let penalty = self.policy.at_limit().penalty;
            if self.policy.algorithm() == Algorithm::Gcra && penalty.is_none() {
                prop_assert!(!decision.is_allowed() || expected == Verdict::Allowed, "{told}");
                if !decision.is_allowed() {
                    *model = before; // denied because of its floor: nothing is charged
                }
                prop_assert!(decision.remaining() <= model.remaining(now_ns), "{told}");
            }
            return Ok(());
        }
        prop_assert_eq!(verdict(&decision), expected, "{}", told);
        let same = tells_the_same(&decision, model, (now_ns, cost), over);
        prop_assert_eq!(same, Ok(()), "{}", told);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_table_answers_as_a_model_per_key_does(policy in policies(), steps in steps()) {
        let mut machine = Machine::new(policy);
        for step in steps {
            machine.run(step)?;
        }
    }
}

#[test]
fn a_model_of_one_unit_more_is_caught() {
    for [policy, other] in [
        ["gcra 10/s burst 10", "gcra 10/s burst 11"],
        ["fixed-window 10/s", "fixed-window 11/s"],
        ["calendar-month 10", "calendar-month 11"],
        ["calendar-week 10", "calendar-week 11"],
        ["sliding-window 10/s strict", "sliding-window 11/s strict"],
        ["segmented-window 100/m x6", "segmented-window 101/m x6"],
        ["gcra 10/s soft 10%", "gcra 10/s soft 20%"],
    ] {
        let mut machine = Machine::against(common::policy(policy), common::policy(other));
        let peeks = [1, 5, 6].map(|fifths| machine.run(Step::Peek { key: 1, fifths }).is_err());
        assert!(peeks.contains(&true), "{policy}");
    }
}

#[test]
fn a_model_with_other_words_is_caught() {
    for [policy, other] in [
        ["gcra 10/s penalty 2s after 2", "gcra 10/s penalty 2s after 3"],
        ["gcra 10/s penalty 2s after 2", "gcra 10/s penalty 3s after 2"],
        ["gcra 10/s penalty 2s after 2", "gcra 10/s penalty 2s after 2 extended"],
        ["gcra 10/s count-denied", "gcra 10/s count-denied 2s"],
        ["sliding-window 10/s exact count-denied", "sliding-window 10/s exact"],
        ["fixed-window 10/s penalty 2s after 2", "fixed-window 10/s penalty 2001ms after 2"],
    ] {
        let mut machine = Machine::against(common::policy(policy), common::policy(other));
        let check = Step::Check { key: 1, fifths: 5 };
        let steps = [check; 5].into_iter().chain([Step::On(1_500), check]);
        let told: Vec<_> = steps.map(|step| machine.run(step).is_err()).collect();
        assert!(told.contains(&true), "{policy} agrees with {other}");
    }
}
