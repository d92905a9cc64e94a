//! Small worlds, in full: every sequence of requests up to some length against the reference model.
//!
//! Windows of a few milliseconds, limits of a few units, and every choice of step and cost at every
//! turn, backward steps included: each behaviour that an algorithm has shows within a few requests.
//! Sequences that begin alike share their beginning, so a *case* is one request after one history.
//!
//! `TOLLGATE_EXHAUSTIVE=32 cargo test --release --test exhaustive` looks at 2^32 cases instead.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use common::model::{finest_quantum_ns, finest_tick, model, verdict};
use common::policy;
use tollgate::{Algorithm, Meter, Policy, Quota, Timestamp, Word};
use tollgate_oracle::{Oracle, Verdict};

/// The worlds. Each period is short enough for the steps below to cross it several times.
const WORLDS: [&str; 14] = [
    "gcra 1/3ms",
    "gcra 2/3ms burst 3",
    "gcra 1/2ms burst 4",
    "gcra 3/7ms burst 2",
    "fixed-window 1/3ms",
    "fixed-window 3/4ms",
    "fixed-window 2/3ms from-first",
    "fixed-window 3/4ms from-first",
    "sliding-window 2/3ms",
    "sliding-window 4/4ms",
    "sliding-window 3/4ms round-down",
    "sliding-window 3/3ms strict",
    "segmented-window 3/4ms x2",
    "segmented-window 4/6ms x3",
];

/// Steps in time and costs, of every request of every sequence.
const STEPS_NS: [i64; 6] = [0, 1_000_000, 2_000_000, 3_000_000, 5_000_000, -2_000_000];
const COSTS: [u64; 4] = [0, 1, 2, 3];

/// 2 to this: the number of cases over all worlds.
fn power() -> u32 {
    let asked = std::env::var("TOLLGATE_EXHAUSTIVE").ok();
    asked.map_or(19, |number| number.parse().expect("TOLLGATE_EXHAUSTIVE is a power of two"))
}

/// One world, walked depth first.
struct Walk {
    meter: Meter,
    cases: u64,
    /// Decides when the model is asked for what is dear to compute.
    every: u64,
}

impl Walk {
    /// Looks at every next request, and at every one after those, to `depth`.
    fn explore(&mut self, word: Word, oracle: &Oracle, now_ns: u64, depth: u32) {
        for step_ns in STEPS_NS {
            for cost in COSTS {
                let now_ns = now_ns.saturating_add_signed(step_ns);
                let mut oracle = oracle.clone();
                let next = self.case(word, &mut oracle, now_ns, cost);
                // What a denial or a look leaves is what was there: its sequels are other cases.
                if depth > 1 && next != word {
                    self.explore(next, &oracle, now_ns, depth - 1);
                }
            }
        }
    }

    fn case(&mut self, word: Word, oracle: &mut Oracle, now_ns: u64, cost: u64) -> Word {
        self.cases += 1;
        let now = Timestamp::from_nanos(now_ns);
        let (decision, next) = self.meter.check(word, now, cost);
        let before = oracle.clone();
        let expected = oracle.check(now_ns, cost);
        assert_eq!(verdict(&decision), expected, "cost {cost} at {now_ns} after {before:?}");
        assert_eq!(decision.is_allowed() && cost > 0, next != word, "a look or a denial wrote");
        if self.cases.is_multiple_of(self.every) {
            assert_eq!(decision.remaining(), oracle.remaining(now_ns), "at {now_ns} of {oracle:?}");
            let reset = u64::try_from(oracle.reset_after(now_ns)).unwrap();
            assert_eq!(decision.reset_after().as_nanos(), u128::from(reset));
            if expected == Verdict::Denied {
                let wait = oracle.retry_after(now_ns, cost).map(|ns| u64::try_from(ns).unwrap());
                let denial = decision.into_result().unwrap_err();
                let told = denial.retry_after().map(|wait| u64::try_from(wait.as_nanos()).unwrap());
                assert_eq!(told, wait, "cost {cost} at {now_ns} after {before:?}");
            }
        }
        next
    }
}

/// Walks one world, one request deeper each time, until enough cases were seen.
fn exhaust(policy: Policy, oracle: &Oracle, enough: u64) -> u64 {
    let mut cases = 0;
    for depth in 1.. {
        let mut walk = Walk { meter: Meter::new(policy), cases: 0, every: 1 << (depth / 2) };
        // From the middle of a window, so that steps back do not end at time 0.
        walk.explore(Word::UNUSED, oracle, 25_000_000, depth);
        cases += walk.cases;
        if cases >= enough {
            break;
        }
    }
    cases
}

fn oracle_of(policy: Policy) -> Oracle {
    let quota = policy.quota();
    model(policy, finest_tick(quota), finest_quantum_ns(quota.count()))
}

#[test]
fn every_short_history_is_decided_as_the_model_decides_it() {
    let enough = (1_u64 << power()) / WORLDS.len() as u64;
    let mut cases = 0;
    for text in WORLDS {
        let policy = policy(text);
        cases += exhaust(policy, &oracle_of(policy), enough);
    }
    println!("{cases} cases in {} worlds", WORLDS.len());
    assert!(cases >= enough * WORLDS.len() as u64);
}

#[test]
fn a_model_that_is_off_by_one_is_caught_in_every_world() {
    for text in WORLDS {
        let policy = policy(text);
        let quota = policy.quota();
        let larger = match policy.algorithm() {
            Algorithm::Gcra => Policy::from(quota.burst(quota.max_burst() + 1)),
            window => Policy::new(window, Quota::per(quota.count() + 1, quota.period())).unwrap(),
        };
        let wrong = oracle_of(larger);
        let quiet = std::panic::catch_unwind(|| exhaust(policy, &wrong, 100_000));
        assert!(quiet.is_err(), "{text} agrees with a limit that is one larger");
    }
}
