//! Compares each answer of the pure function with the model, with times in both directions.

use arbitrary::Arbitrary;
use tollgate::{CountDenied, Decision, Meter, Policy, Timestamp, Word};

use crate::expect::{Expectation, TimedRequest};
use crate::fineness::{LATEST_NS, latest_ns};
use crate::plant::Plant;
use crate::policy::{Amount, Period, QuotaCase, WindowShape};
use crate::rules::{RulesCase, ceiling};
use crate::step::{RequestStep, StepPace, Steps};

/// Target `gcra_oracle`: any quota, by GCRA. `Meter` answers as the oracle does, at any costs and times in both
/// directions.
#[derive(Arbitrary, Clone, Debug, PartialEq, Eq)]
pub struct GcraCase {
    /// The quota.
    pub quota: QuotaCase,
    /// The requests.
    pub steps: Steps<RequestStep>,
    /// What happens at the limit.
    pub rules: RulesCase,
}

/// Target `window_oracle`: any limit, by any window algorithm. `Meter` answers as the oracle does.
#[derive(Arbitrary, Clone, Debug, PartialEq, Eq)]
pub struct WindowCase {
    /// The algorithm.
    pub shape: WindowShape,
    /// The limit.
    pub limit: Amount,
    /// The window.
    pub period: Period,
    /// The requests.
    pub steps: Steps<RequestStep>,
    /// What happens at the limit.
    pub rules: RulesCase,
}

impl GcraCase {
    /// Panics if an answer is wrong.
    pub fn run(&self) {
        self.run_against(Plant::Nothing);
    }

    /// Panics if an answer is not the one expected.
    pub fn run_against(&self, plant: Plant) {
        if let Some(quota) = self.quota.quota() {
            run(self.rules.apply(quota.into()), &self.steps.0, plant);
        }
    }
}

impl WindowCase {
    /// Panics if an answer is wrong.
    pub fn run(&self) {
        self.run_against(Plant::Nothing);
    }

    /// Panics if an answer is not the one expected.
    pub fn run_against(&self, plant: Plant) {
        if let Some(policy) = self.shape.policy(self.limit, self.period) {
            run(self.rules.apply(policy), &self.steps.0, plant);
        }
    }
}

fn run(policy: Policy, steps: &[RequestStep], plant: Plant) {
    assert_eq!(
        policy.to_string().parse(),
        Ok(policy),
        "what a policy prints is read as the same policy"
    );
    let meter = Meter::new(policy).expect("a word");
    let mut expected = Expectation::unkeyed(policy, plant);
    // This limiter has no floor, and its times do not wrap. Spans that are named after these are just long times.
    let mut pace = StepPace::new(policy, LATEST_NS / 64, LATEST_NS / 4);
    let mut word = Word::UNUSED;
    for (number, step) in steps.iter().enumerate() {
        pace.move_by(step.span, step.fine, step.backward);
        let now = Timestamp::from_nanos(pace.now_ns);
        let cost = step.cost.units(ceiling(policy), meter.peek(word, now, 0).remaining());
        // For a word, time stops at the latest instant.
        let now_ns = pace.now_ns.min(latest_ns(policy));
        let ask = TimedRequest { now_ns, cost, charge: false, exact: true };
        let mut must_agree = |ask: TimedRequest, decision: &Decision| {
            if let Err(reason) = expected.agrees(ask, decision) {
                panic!("{policy}, step {number}, {ask:?}: {reason}");
            }
        };
        must_agree(ask, &meter.peek(word, now, cost));
        let (decision, next) = meter.check(word, now, cost);
        must_agree(TimedRequest { charge: true, ..ask }, &decision);
        let at_limit = policy.at_limit();
        let counts = at_limit.count_denied != CountDenied::No || at_limit.penalty.is_some();
        let charged = cost > 0 && (decision.is_allowed() || counts && cost <= ceiling(policy));
        assert!(charged || next == word, "{policy}, step {number}: written, but not charged");
        word = next;
        pace.heard(&decision);
    }
}
