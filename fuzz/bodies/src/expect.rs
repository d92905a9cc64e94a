//! What the reference model expects of a decision.
//!
//! The model says whether a cost is admitted at an instant. Whether a number that a decision tells is right is shown
//! by asking the model twice: a wait is right if the cost is admitted then and not one nanosecond earlier,
//! `remaining` is right if that much is admitted and one unit more is not.

use std::fmt::Debug;
use std::time::Duration;

use tollgate::{Algorithm, AtLimit, CountDenied, Decision, DenialReason, Policy, Quota};
use tollgate_oracle::{Algorithm as Model, BigUint, Oracle, Rounding, Verdict};
use tollgate_oracle::{AtLimit as Rules, CountDenied as Counted, Penalty};

use crate::grain::{self, LATEST_NS};
use crate::policy::{period_ns, unit_of};
use crate::rules::penalty_ns;
use crate::step::nanos_of;

/// An error in the expectation, to show that the seeds would notice one in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// The expectation is right.
    Nothing,
    /// The limit, or the burst, is expected to be one unit more; the end of the calendar, a century
    /// earlier.
    Limit,
    /// Waits are expected to be one nanosecond shorter; a text, to be read as another policy.
    Answer,
    /// Every interval is expected to hold one unit less.
    Bound,
    /// No key is expected to be without a cell.
    Cell,
}

/// How finely a word counts time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeFineness {
    /// GCRA: one unit is 2^this ticks.
    pub(crate) tick: u32,
    /// From-first windows: what a start is rounded up to.
    pub(crate) quantum_ns: u64,
    /// Other windows: what the end of a penalty is rounded up to.
    pub(crate) end_quantum_ns: u64,
}

const PLAIN: TimeFineness = TimeFineness { tick: 0, quantum_ns: 1, end_quantum_ns: 1 };

impl TimeFineness {
    /// That of an un-keyed word, by the rules in the documentation: the finest that leaves room.
    pub(crate) fn unkeyed(policy: Policy) -> Self {
        let is_plain = policy.at_limit() == AtLimit::default();
        match policy.algorithm() {
            Algorithm::Gcra if is_plain => Self { tick: finest_tick(policy.quota()), ..PLAIN },
            Algorithm::Gcra => Self { tick: grain::tick(policy), ..PLAIN },
            Algorithm::FixedWindowFromFirst if is_plain => {
                Self { quantum_ns: finest_quantum_ns(policy.quota().count()), ..PLAIN }
            }
            Algorithm::FixedWindowFromFirst => {
                Self { quantum_ns: grain::quantum_ns(policy), ..PLAIN }
            }
            _ if is_plain => PLAIN,
            _ => Self { end_quantum_ns: grain::end_quantum_ns(policy), ..PLAIN },
        }
    }

    /// Those that a keyed word may have: the finest if the word has plenty of room, else several, of which one must
    /// fit all answers.
    pub(crate) fn keyed(policy: Policy) -> Vec<Self> {
        let (quota, window_ns) = (policy.quota(), period_ns(policy));
        let quanta = |n: u64| 10_u64.pow((window_ns / n).max(1).ilog10());
        let is_plain = policy.at_limit() == AtLimit::default();
        match policy.algorithm() {
            Algorithm::Gcra => {
                // At most 4,096 units at once and 20,000 per second: epochs of 4 s, with the finest tick.
                let roomy = quota.max_burst() <= 4_096 && quota.count() <= window_ns / 50_000;
                let ticks = if roomy && is_plain { 12..=12 } else { coarsest_tick(policy)..=12 };
                ticks.map(|tick| Self { tick, ..PLAIN }).collect()
            }
            Algorithm::FixedWindowFromFirst => {
                let roomy = quota.count() <= 256 && window_ns >= 1_000_000_000;
                let parts: &[u64] =
                    if roomy && is_plain { &[1 << 16] } else { &[1 << 16, 1 << 12] };
                parts.iter().map(|&n| Self { quantum_ns: quanta(n), ..PLAIN }).collect()
            }
            _ => vec![Self { end_quantum_ns: quanta(1 << 12), ..PLAIN }],
        }
    }

    /// A limit that was never used.
    pub(crate) fn model(self, policy: Policy, plant: Plant) -> Oracle {
        let (quota, window_ns) = (policy.quota(), period_ns(policy));
        let more = u64::from(plant == Plant::Limit);
        let limit = quota.count().saturating_add(more);
        let sliding = |rounding| Model::SlidingWindow { limit, window_ns, rounding };
        let algorithm = match policy.algorithm() {
            Algorithm::Gcra => Model::Gcra {
                count: quota.count(),
                period_ns: window_ns,
                burst: quota.max_burst() + more,
                tick: Some(self.tick),
            },
            Algorithm::FixedWindow => Model::FixedWindow { limit, window_ns },
            Algorithm::Calendar(unit) => Model::Calendar { limit, unit: unit_of(unit) },
            Algorithm::FixedWindowFromFirst => {
                Model::FixedWindowFromFirst { limit, window_ns, quantum_ns: self.quantum_ns }
            }
            Algorithm::SlidingWindow { rounding: tollgate::Rounding::Exact } => {
                sliding(Rounding::Exact)
            }
            Algorithm::SlidingWindow { rounding: tollgate::Rounding::Down } => {
                sliding(Rounding::Down)
            }
            Algorithm::SlidingWindow { rounding: tollgate::Rounding::Strict } => {
                sliding(Rounding::Strict)
            }
            Algorithm::SegmentedWindow { segments } => {
                Model::SegmentedWindow { limit, window_ns, segments: segments.into() }
            }
            other => panic!("no model of {other:?}"),
        };
        Oracle::with_rules(algorithm, self.rules(policy))
    }

    fn rules(self, policy: Policy) -> Rules {
        let at_limit = policy.at_limit();
        let window_ns = period_ns(policy);
        let (unit_ns, quantum_ns) = match policy.algorithm() {
            Algorithm::Gcra => (1, 1),
            Algorithm::FixedWindowFromFirst => (self.quantum_ns, self.quantum_ns),
            Algorithm::SegmentedWindow { segments } => {
                (window_ns / u64::from(segments), self.end_quantum_ns)
            }
            _ => (window_ns, self.end_quantum_ns),
        };
        let wait_ns = match at_limit.count_denied {
            CountDenied::UpTo(wait) => Some(nanos_of(wait)),
            _ => None,
        };
        Rules {
            soft_bp: at_limit.soft.hundredths().into(),
            count_denied: (at_limit.count_denied != CountDenied::No).then_some(Counted { wait_ns }),
            penalty: at_limit.penalty.map(|penalty| Penalty {
                length_ns: penalty_ns(policy),
                after: penalty.after.into(),
                extended: penalty.extended,
                unit_ns,
                quantum_ns,
            }),
        }
    }
}

/// The coarsest tick of a keyed word: a 256th of a unit, or down to a 16th while it has 1 to 15 whole ns.
pub(crate) fn coarsest_tick(policy: Policy) -> u32 {
    let unit_ns = period_ns(policy) / policy.quota().count();
    (4..8).find(|tick| (1..16).contains(&(unit_ns >> tick))).unwrap_or(8)
}

/// The largest k for which the ticks until 2100, and the burst, stay below 2^63.
fn finest_tick(quota: Quota) -> u32 {
    let period = BigUint::from(quota.period().as_nanos());
    let units_until_2100 = BigUint::from(quota.count()) * LATEST_NS;
    let end = BigUint::from(1_u64 << 63);
    let fits = |k: &u32| {
        (&units_until_2100 << *k) / &period < end && BigUint::from(quota.max_burst()) << *k < end
    };
    (0..=62).rev().find(fits).expect("the quota was accepted")
}

/// The least power of ten nanoseconds that leaves room for the count.
fn finest_quantum_ns(limit: u64) -> u64 {
    let bits = |largest: u64| u64::BITS - largest.leading_zeros();
    let fits = |quantum: &u64| bits(limit) + bits(LATEST_NS / quantum + 1) <= 64;
    (0..18).map(|power| 10_u64.pow(power)).find(fits).expect("the policy was accepted")
}

/// One request: when, and how much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimedRequest {
    pub(crate) now_ns: u64,
    pub(crate) cost: u64,
    /// Whether it is charged if it is admitted.
    pub(crate) charge: bool,
    /// Whether the waits that it is told are exact.
    pub(crate) exact: bool,
}

/// One limit as the model sees it, at every fineness that its answers have not yet ruled out.
#[derive(Debug)]
pub(crate) struct Expectation {
    pub(crate) policy: Policy,
    models: Vec<(TimeFineness, Oracle)>,
    /// From here on no wait is told exactly.
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

    /// From here on no wait is told exactly.
    pub(crate) fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// Forgets every charge.
    pub(crate) fn renew(&mut self) {
        for (fineness, model) in &mut self.models {
            *model = fineness.model(self.policy, self.plant);
        }
    }

    /// Whether no request at this instant or later can tell the limit from one never used.
    pub(crate) fn is_idle(&self, now_ns: u64) -> bool {
        self.models.iter().any(|(_, model)| model.is_idle(now_ns))
    }

    /// Whether some request may tell the limit from one never used.
    pub(crate) fn may_be_live(&self, now_ns: u64) -> bool {
        self.models.iter().any(|(_, model)| !model.is_idle(now_ns))
    }

    /// The coarsest tick still possible.
    pub(crate) fn coarsest_tick(&self) -> u32 {
        self.models.iter().map(|(fineness, _)| fineness.tick).min().unwrap_or(0)
    }

    /// Takes the request, and compares every answer.
    pub(crate) fn agrees(&mut self, ask: TimedRequest, decision: &Decision) -> Result<(), String> {
        let (end_ns, plant) = (self.end_ns, self.plant);
        same("limit", decision.limit(), self.policy.quota().max_burst())?;
        self.keep(|_, model| {
            let over = model.is_over(ask.now_ns, ask.cost);
            let expected = take(model, ask);
            if let Decision::Allowed(permit) = decision {
                same("over", permit.is_over(), over)?;
            }
            compare(model, ask, end_ns, plant, (expected, decision))
        })
    }

    /// Takes a request that was admitted; it must be admitted here too.
    pub(crate) fn admits(&mut self, ask: TimedRequest) -> Result<(), String> {
        self.keep(|_, model| match take(model, ask) {
            Verdict::Allowed => Ok(()),
            other => Err(format!("admitted, expected {other:?}")),
        })
    }

    /// Drops every fineness that a decision rules out; one must be left.
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
    let told = match decision {
        Decision::Allowed(_) => Verdict::Allowed,
        Decision::Denied(denial) if denial.reason() == DenialReason::NeverFits => Verdict::Never,
        Decision::Denied(_) => Verdict::Denied,
    };
    same("verdict", told, expected)?;
    let now_ns = ask.now_ns;
    let remaining = decision.remaining();
    let admits = |cost| model.peek(now_ns, cost) == Verdict::Allowed;
    if model.most() > model.limit() {
        return compare_soft(model, ask, end_ns, (expected, decision));
    }
    // A cost of 0 is denied at a time so late that the word's debt exceeds the burst.
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

/// Checks what a denial tells.
fn compare_denial(
    model: &Oracle,
    now_ns: u64,
    (expected, decision): (Verdict, &Decision),
    is_first: &dyn Fn(Duration) -> Result<(), String>,
) -> Result<(), String> {
    let Decision::Denied(denial) = decision else { return Ok(()) };
    same("penalty", denial.reason() == DenialReason::Penalty, model.is_penalised(now_ns))?;
    same("never", denial.retry_after().is_none(), expected == Verdict::Never)?;
    match denial.retry_after() {
        Some(wait) => is_first(wait).map_err(|instead| format!("told retry {wait:?}, {instead}")),
        None => Ok(()),
    }
}

/// The same for a soft policy, which admits more than the limit that it names and that its answers count to.
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
