//! Compares decisions with the reference model.
//!
//! The model says whether a cost is admitted at an instant. Each number in a decision is checked by two questions to
//! the model. A wait is right if the cost is admitted after it and not one nanosecond earlier. `remaining` is right if
//! that many units are admitted and one unit more is not.

use std::fmt::Debug;
use std::time::Duration;

use tollgate::{Decision, DenialReason, Policy};
use tollgate_oracle::{BigUint, Oracle, Verdict};

use crate::fineness::{LATEST_NS, TimeFineness};
use crate::plant::Plant;
use crate::step::nanos_of;

/// One request: its time and its cost.
#[derive(Clone, Copy, Debug)]
pub struct TimedRequest {
    /// The time, in nanoseconds since the origin.
    pub now_ns: u64,
    /// The cost.
    pub cost: u64,
    /// True if an admitted request is charged.
    pub charge: bool,
    /// Whether the waits in the answer are exact.
    pub exact: bool,
}

/// The models of one limit, at every fineness of time that its answers have not yet ruled out.
#[derive(Debug)]
pub(crate) struct Expectation {
    pub(crate) policy: Policy,
    models: Vec<(TimeFineness, Oracle)>,
    /// The time from which on no wait in an answer is exact.
    end_ns: u64,
    pub(crate) plant: Plant,
}

impl Expectation {
    pub(crate) fn unkeyed(policy: Policy, plant: Plant) -> Self {
        Self::new(policy, vec![TimeFineness::unkeyed(policy)], LATEST_NS, plant)
    }

    pub(crate) fn keyed(policy: Policy, plant: Plant) -> Self {
        Self::new(policy, TimeFineness::keyed(policy), u64::MAX, plant)
    }

    pub(crate) fn new(
        policy: Policy,
        choices: Vec<TimeFineness>,
        end_ns: u64,
        plant: Plant,
    ) -> Self {
        let models = choices.into_iter().map(|choice| (choice, choice.model(policy, plant)));
        Self { policy, models: models.collect(), end_ns, plant }
    }

    /// Applies a function to every model.
    pub(crate) fn amend(&mut self, mut turn: impl FnMut(&mut Oracle)) {
        self.models.iter_mut().for_each(|(_, model)| turn(model));
    }

    /// Every fineness that is not yet ruled out, and its model.
    pub(crate) fn models(&self) -> impl Iterator<Item = &(TimeFineness, Oracle)> {
        self.models.iter()
    }

    /// The time from which on no wait in an answer is exact.
    pub(crate) fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// Forgets every charge.
    pub(crate) fn renew(&mut self) {
        for (fineness, model) in &mut self.models {
            *model = fineness.model(self.policy, self.plant);
        }
    }

    /// Whether no request at this instant or later can distinguish the limit from an unused one.
    pub(crate) fn is_idle(&self, now_ns: u64) -> bool {
        self.models.iter().any(|(_, model)| model.is_idle(now_ns))
    }

    /// Whether some request may distinguish the limit from an unused one.
    pub(crate) fn may_be_live(&self, now_ns: u64) -> bool {
        self.models.iter().any(|(_, model)| !model.is_idle(now_ns))
    }

    /// The coarsest tick that is still possible.
    pub(crate) fn coarsest_tick(&self) -> u32 {
        self.models.iter().map(|(fineness, _)| fineness.tick).min().unwrap_or(0)
    }

    /// Applies the request to every model, and compares every figure of the answer.
    pub(crate) fn agrees(&mut self, ask: TimedRequest, decision: &Decision) -> Result<(), String> {
        let (end_ns, plant) = (self.end_ns, self.plant);
        same("limit", decision.limit(), self.policy.quota().max_burst())?;
        self.keep(|_, model| judge_until(model, ask, decision, (end_ns, plant)).map(|_| ()))
    }

    /// Applies a request that was admitted; every model that stays must admit it, too.
    pub(crate) fn admits(&mut self, ask: TimedRequest) -> Result<(), String> {
        self.keep(|_, model| match take(model, ask) {
            Verdict::Allowed => Ok(()),
            other => Err(format!("admitted, expected {other:?}")),
        })
    }

    /// Drops every fineness that a decision rules out; at least one must be left.
    pub(crate) fn keep(
        &mut self,
        mut test: impl FnMut(TimeFineness, &mut Oracle) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut reason = Ok(());
        self.models.retain_mut(|(fineness, model)| match test(*fineness, model) {
            Ok(()) => true,
            ruled_out => {
                reason = ruled_out;
                false
            }
        });
        if self.models.is_empty() { reason } else { Ok(()) }
    }
}

/// A decision as a verdict of the model.
#[must_use]
pub fn verdict(decision: &Decision) -> Verdict {
    match decision {
        Decision::Allowed(_) => Verdict::Allowed,
        Decision::Denied(denial) if denial.reason() == DenialReason::NeverFits => Verdict::Never,
        Decision::Denied(_) => Verdict::Denied,
    }
}

/// Applies the request to the model of an un-keyed word, and compares the verdict and every number of the answer.
///
/// # Errors
///
/// Describes the difference between the answer and the model.
pub fn judge(
    model: &mut Oracle,
    ask: TimedRequest,
    decision: &Decision,
) -> Result<Verdict, String> {
    judge_until(model, ask, decision, (LATEST_NS, Plant::Nothing))
}

fn judge_until(
    model: &mut Oracle,
    ask: TimedRequest,
    decision: &Decision,
    (end_ns, plant): (u64, Plant),
) -> Result<Verdict, String> {
    let over = model.is_over(ask.now_ns, ask.cost);
    let expected = take(model, ask);
    if let Decision::Allowed(permit) = decision {
        same("over", permit.is_over(), over)?;
    }
    compare(model, ask, end_ns, plant, (expected, decision))?;
    Ok(expected)
}

fn take(model: &mut Oracle, TimedRequest { now_ns, cost, charge, .. }: TimedRequest) -> Verdict {
    if charge { model.check(now_ns, cost) } else { model.peek(now_ns, cost) }
}

fn compare(
    model: &Oracle,
    ask: TimedRequest,
    end_ns: u64,
    plant: Plant,
    (expected, decision): (Verdict, &Decision),
) -> Result<(), String> {
    same("verdict", verdict(decision), expected)?;
    let now_ns = ask.now_ns;
    let remaining = decision.remaining();
    let admits = |cost| model.peek(now_ns, cost) == Verdict::Allowed;
    if model.most() > model.limit() {
        return compare_soft(model, ask, end_ns, (expected, decision));
    }
    // A cost of 0 is denied if the request is so late that the word's debt exceeds the burst.
    if remaining > 0 && !admits(remaining) || remaining < model.limit() && admits(remaining + 1) {
        return Err(format!("told remaining {remaining}, expected {}", model.remaining(now_ns)));
    }
    if !ask.exact {
        return Ok(());
    }
    let first = |cost, wait| is_first(model, now_ns, cost, end_ns, (wait, plant));
    first(model.limit(), decision.reset_after())
        .map_err(|instead| format!("told reset {:?}, {instead}", decision.reset_after()))?;
    compare_denial(model, now_ns, (expected, decision), &|wait| first(ask.cost, wait))
}

/// Checks the figures of a denial.
fn compare_denial(
    model: &Oracle,
    now_ns: u64,
    (expected, decision): (Verdict, &Decision),
    is_first: &dyn Fn(Duration) -> Result<(), String>,
) -> Result<(), String> {
    let Decision::Denied(denial) = decision else { return Ok(()) };
    // If the cost never fits, the denial gives that as its reason, even during a penalty.
    let penalised = expected != Verdict::Never && model.is_penalised(now_ns);
    same("penalty", denial.reason() == DenialReason::Penalty, penalised)?;
    same("never", denial.retry_after().is_none(), expected == Verdict::Never)?;
    match denial.retry_after() {
        Some(wait) => is_first(wait).map_err(|instead| format!("told retry {wait:?}, {instead}")),
        None => Ok(()),
    }
}

/// Checks the figures under a soft policy, which admits more than its limit. The figures refer to the limit.
fn compare_soft(
    model: &Oracle,
    ask: TimedRequest,
    end_ns: u64,
    (expected, decision): (Verdict, &Decision),
) -> Result<(), String> {
    let now_ns = ask.now_ns;
    same("told remaining", decision.remaining(), model.remaining(now_ns))?;
    if !ask.exact || now_ns >= end_ns {
        return Ok(());
    }
    let end = BigUint::from(end_ns);
    let within = |wait: &BigUint| wait + now_ns < end;
    let told_reset = BigUint::from(decision.reset_after().as_nanos());
    let reset = model.reset_after(now_ns);
    if within(&reset) && reset != told_reset {
        return Err(format!("told reset {told_reset}, expected {reset}"));
    }
    let first = |wait| is_first(model, now_ns, ask.cost, end_ns, (wait, Plant::Nothing));
    compare_denial(model, now_ns, (expected, decision), &first)
}

pub(crate) fn same<T: Copy + PartialEq + Debug>(
    what: &str,
    told: T,
    expected: T,
) -> Result<(), String> {
    if told == expected { Ok(()) } else { Err(format!("{what} {told:?}, expected {expected:?}")) }
}

/// Whether `wait` is the time until the first instant at which `cost` is admitted.
pub(crate) fn is_first(
    model: &Oracle,
    now_ns: u64,
    cost: u64,
    end_ns: u64,
    (wait, plant): (Duration, Plant),
) -> Result<(), String> {
    if now_ns >= end_ns {
        return Ok(()); // past the clock's end there is no first instant to name
    }
    let wait_ns = nanos_of(wait);
    let at_ns = now_ns.saturating_add(wait_ns);
    let at_ns = at_ns.saturating_add(u64::from(plant == Plant::Answer && wait_ns > 0));
    let admits = |at_ns| model.peek(at_ns, cost) == Verdict::Allowed;
    if at_ns < end_ns && !admits(at_ns) {
        return Err("at which it is not admitted".to_string());
    }
    if at_ns > now_ns && admits(at_ns.min(end_ns) - 1) {
        return Err("before which it is admitted".to_string());
    }
    Ok(())
}
