//! The reference model of a policy, told how finely a word counts time by the documented rules.

use std::time::Duration;

use tollgate::{
    Algorithm, AtLimit, CountDenied, Decision, DenialReason, Policy, PolicyError, Quota,
};
use tollgate_oracle::{Algorithm as Model, BigUint, CalendarSpan, Oracle, Rounding, Verdict};
use tollgate_oracle::{AtLimit as Rules, CountDenied as Counted, Penalty};

/// 2100-01-01, the latest instant that a word tells apart.
pub const LATEST_NS: u64 = 4_102_444_800_000_000_000;

/// The finest tick of an un-keyed word: the largest k for which the ticks until 2100, and the burst,
/// stay below 2^63.
pub fn finest_tick(quota: Quota) -> u32 {
    let period = BigUint::from(quota.period().as_nanos());
    let fits = |k: u32| {
        BigUint::from(quota.count()) * LATEST_NS * (BigUint::from(1_u32) << k) / &period
            < BigUint::from(1_u64 << 63)
            && BigUint::from(quota.max_burst()) << k < BigUint::from(1_u64 << 63)
    };
    (0..=62).rev().find(|&k| fits(k)).expect("the quota was accepted")
}

/// The finest start of a from-first window: the least power of ten ns that leaves room for the count.
pub fn finest_quantum_ns(limit: u64) -> u64 {
    let bits = |largest: u64| u64::BITS - largest.leading_zeros();
    let fits = |power: &u32| bits(limit) + bits(LATEST_NS / 10_u64.pow(*power) + 1) <= 64;
    10_u64.pow((0..18).find(fits).expect("the policy was accepted"))
}

/// How finely a word tells instants apart.
#[derive(Clone, Copy, Debug)]
pub struct Grain {
    /// GCRA: one unit is 2^this ticks.
    pub tick: u32,
    /// From-first windows: what a start is rounded up to, and the end of a penalty.
    pub quantum_ns: u64,
    /// Other windows: what the end of a penalty is rounded up to.
    pub end_quantum_ns: u64,
}

impl Grain {
    /// The finest that an un-keyed word of this policy has room for, by the documented rules.
    pub fn finest(policy: Policy) -> Self {
        let quota = policy.quota();
        if policy.at_limit() == AtLimit::default() {
            let quantum_ns = finest_quantum_ns(quota.count());
            let tick = if policy.algorithm() == Algorithm::Gcra { finest_tick(quota) } else { 0 };
            return Self { tick, quantum_ns, end_quantum_ns: 1 };
        }
        Self {
            tick: ruled_tick(policy),
            quantum_ns: ruled_quantum_ns(policy),
            end_quantum_ns: end_quantum_ns(policy),
        }
    }
}

fn bits(largest: &BigUint) -> u64 {
    largest.bits()
}

/// The limit of the algorithm's test.
pub fn ceiling(policy: Policy) -> u64 {
    let soft = u128::from(policy.quota().max_burst())
        * (10_000 + u128::from(policy.at_limit().soft.hundredths()))
        / 10_000;
    u64::try_from(soft).unwrap()
}

fn penalty_ns(policy: Policy) -> u64 {
    policy.at_limit().penalty.map_or(0, |penalty| u64::try_from(penalty.length.as_nanos()).unwrap())
}

/// Bits that hold 0 to N denials in a row.
fn denial_bits(policy: Policy) -> u64 {
    policy.at_limit().penalty.map_or(0, |penalty| bits(&penalty.after.into()))
}

/// The largest k for which the ticks until 2100 and whatever may lie ahead of them have a sum that fits
/// beside the denials in a row: both have a bit less than the time.
fn ruled_tick(policy: Policy) -> u32 {
    if policy.algorithm() != Algorithm::Gcra {
        return 0;
    }
    let (quota, rules) = (policy.quota(), policy.at_limit());
    let ticks = |ns: BigUint, k: u32| {
        ns * quota.count() * (BigUint::from(1_u32) << k) / quota.period().as_nanos()
    };
    let fits = |k: &u32| {
        let burst = BigUint::from(ceiling(policy)) << *k;
        let unit = BigUint::from(1_u32) << *k;
        let denied = match rules.count_denied {
            CountDenied::No => BigUint::ZERO,
            CountDenied::Yes => &burst + &burst - unit,
            CountDenied::UpTo(wait) => &burst - unit + ticks(wait.as_nanos().into(), *k),
        };
        let end = match rules.penalty {
            Some(_) => ticks(penalty_ns(policy).into(), *k) + 2_u32,
            None => BigUint::ZERO,
        };
        let most = ticks(LATEST_NS.into(), *k).max(burst).max(denied).max(end);
        bits(&most) + 1 + denial_bits(policy) <= 64
    };
    (0..=62).rev().find(fits).expect("the policy was accepted")
}

/// The least power of ten ns that leaves room for the count and the denials.
fn ruled_quantum_ns(policy: Policy) -> u64 {
    let latest = LATEST_NS.saturating_add(penalty_ns(policy));
    let fits = |quantum_ns: &u64| {
        bits(&ceiling(policy).into())
            + denial_bits(policy)
            + bits(&(BigUint::from(latest / quantum_ns) + 1_u32))
            <= 64
    };
    (0..19).map(|power| 10_u64.pow(power)).find(fits).unwrap_or(1)
}

/// The least power of ten ns, up to a thousandth of the window, that leaves room for the window's number
/// and the denials.
fn end_quantum_ns(policy: Policy) -> u64 {
    let window_ns = u64::try_from(policy.quota().period().as_nanos()).unwrap();
    let counts = policy.at_limit().count_denied != CountDenied::No;
    let (parts, counters) = match policy.algorithm() {
        Algorithm::SegmentedWindow { segments } => (u64::from(segments), u64::from(segments)),
        Algorithm::FixedWindow => (1, 1),
        _ => (1, 2),
    };
    let doubles = counts
        && matches!(
            policy.algorithm(),
            Algorithm::SlidingWindow {
                rounding: tollgate::Rounding::Exact | tollgate::Rounding::Down
            }
        );
    let most = ceiling(policy) * if doubles { 2 } else { 1 };
    let unit_ns = window_ns / parts;
    let latest = LATEST_NS.saturating_add(penalty_ns(policy)) / unit_ns;
    let time_bits = bits(&(BigUint::from(latest) + u32::from(policy.at_limit().penalty.is_some())));
    // Side by side, or if they do not fit so, all in one number.
    let side_by_side = counters * bits(&most.into());
    let rings = (1..=counters).fold(BigUint::from(1_u32), |rings, n| rings * (most + n) / n);
    let is_ring = parts > 1 && !counts;
    let widths = [Some(side_by_side), is_ring.then(|| bits(&(rings - 1_u32)))];
    let fits = |own: u64, quantum_ns: u64| {
        let beside = own.max(bits(&((unit_ns - 1) / quantum_ns).into())) + denial_bits(policy);
        beside + time_bits <= 64 && beside < 64
    };
    let coarsest_ns = (window_ns / 1_000).max(1).min(unit_ns);
    let powers = || (0..19).map(|power| 10_u64.pow(power)).take_while(|&ns| ns <= coarsest_ns);
    let found = widths.into_iter().flatten().find_map(|own| powers().find(|&ns| fits(own, ns)));
    found.unwrap_or(1)
}

/// The policy with these words, if it takes them.
pub fn with_rules(policy: Policy, rules: AtLimit) -> Result<Policy, PolicyError> {
    let mut policy = policy;
    if !rules.soft.is_zero() {
        policy = policy.soft(rules.soft)?;
    }
    match rules.count_denied {
        CountDenied::No => {}
        CountDenied::Yes => policy = policy.count_denied(None)?,
        CountDenied::UpTo(wait) => policy = policy.count_denied(Some(wait))?,
    }
    match rules.penalty {
        Some(penalty) if penalty.extended => policy.extended_penalty(penalty.length, penalty.after),
        Some(penalty) => policy.penalty(penalty.length, penalty.after),
        None => Ok(policy),
    }
}

fn rules(policy: Policy, grain: Grain) -> Rules {
    let at_limit = policy.at_limit();
    let window_ns = u64::try_from(policy.quota().period().as_nanos()).unwrap();
    let (unit_ns, quantum_ns) = match policy.algorithm() {
        Algorithm::Gcra => (1, 1),
        Algorithm::FixedWindowFromFirst => (grain.quantum_ns, grain.quantum_ns),
        Algorithm::SegmentedWindow { segments } => {
            (window_ns / u64::from(segments), grain.end_quantum_ns)
        }
        _ => (window_ns, grain.end_quantum_ns),
    };
    let wait_ns = |wait: Duration| u64::try_from(wait.as_nanos()).unwrap();
    Rules {
        soft_bp: at_limit.soft.hundredths().into(),
        count_denied: match at_limit.count_denied {
            CountDenied::No => None,
            CountDenied::Yes => Some(Counted { wait_ns: None }),
            CountDenied::UpTo(wait) => Some(Counted { wait_ns: Some(wait_ns(wait)) }),
        },
        penalty: at_limit.penalty.map(|penalty| Penalty {
            length_ns: penalty_ns(policy),
            after: penalty.after.into(),
            extended: penalty.extended,
            unit_ns,
            quantum_ns,
        }),
    }
}

/// Compares what a decision says with the model, which has taken the request too; `over` is what the model said
/// before that.
pub fn tells_the_same(
    decision: &Decision,
    model: &Oracle,
    (now_ns, cost): (u64, u64),
    over: bool,
) -> Result<(), String> {
    let same = |what: &str, told: u64, expected: u64| {
        let agree = told == expected;
        if agree { Ok(()) } else { Err(format!("{what} {told}, expected {expected}")) }
    };
    same("remaining", decision.remaining(), model.remaining(now_ns))?;
    let before_the_end = |ns: &BigUint| ns + now_ns < BigUint::from(LATEST_NS); // past it there is no first instant
    let reset = model.reset_after(now_ns);
    if before_the_end(&reset) {
        let told = u64::try_from(decision.reset_after().as_nanos()).unwrap_or(u64::MAX);
        same("reset", told, u64::try_from(reset).unwrap())?;
    }
    match decision {
        Decision::Allowed(permit) => same("over", permit.is_over().into(), over.into()),
        Decision::Denied(denial) => {
            let penalised = model.is_penalised(now_ns);
            same("penalty", (denial.reason() == DenialReason::Penalty).into(), penalised.into())?;
            let told = denial.retry_after().map(|wait| u64::try_from(wait.as_nanos()).unwrap());
            match model.retry_after(now_ns, cost) {
                Some(wait) if before_the_end(&wait) => {
                    same("retry", told.unwrap_or(0), u64::try_from(wait).unwrap())
                }
                Some(_) => Ok(()),
                None => same("never", told.is_none().into(), 1),
            }
        }
    }
}

pub fn model(policy: Policy, grain: Grain) -> Oracle {
    let quota = policy.quota();
    let Grain { tick, quantum_ns, .. } = grain;
    let (limit, window_ns) = (quota.count(), u64::try_from(quota.period().as_nanos()).unwrap());
    let sliding = |rounding| Model::SlidingWindow { limit, window_ns, rounding };
    let algorithm = match policy.algorithm() {
        Algorithm::Gcra => {
            let burst = quota.max_burst();
            Model::Gcra { count: limit, period_ns: window_ns, burst, tick: Some(tick) }
        }
        Algorithm::FixedWindow => Model::FixedWindow { limit, window_ns },
        Algorithm::Calendar(unit) => Model::Calendar { limit, unit: unit_of(unit) },
        Algorithm::FixedWindowFromFirst => {
            Model::FixedWindowFromFirst { limit, window_ns, quantum_ns }
        }
        Algorithm::SlidingWindow { rounding: tollgate::Rounding::Exact } => {
            sliding(Rounding::Exact)
        }
        Algorithm::SlidingWindow { rounding: tollgate::Rounding::Down } => sliding(Rounding::Down),
        Algorithm::SlidingWindow { rounding: tollgate::Rounding::Strict } => {
            sliding(Rounding::Strict)
        }
        Algorithm::SegmentedWindow { segments } => {
            Model::SegmentedWindow { limit, window_ns, segments: u64::from(segments) }
        }
        other => panic!("no model of {other:?}"),
    };
    Oracle::with_rules(algorithm, rules(policy, grain))
}

fn unit_of(unit: tollgate::CalendarUnit) -> CalendarSpan {
    match unit {
        tollgate::CalendarUnit::Month => CalendarSpan::Month,
        tollgate::CalendarUnit::Year => CalendarSpan::Year,
        tollgate::CalendarUnit::Week(begins) => CalendarSpan::Week { begins: begins as u8 },
        other => panic!("no model of {other:?}"),
    }
}

pub fn verdict(decision: &Decision) -> Verdict {
    match decision {
        Decision::Allowed(_) => Verdict::Allowed,
        Decision::Denied(denial) if denial.reason() == DenialReason::NeverFits => Verdict::Never,
        Decision::Denied(_) => Verdict::Denied,
    }
}

/// A wait of the model, cut to what a clock can hold.
pub fn duration(ns: &BigUint) -> Duration {
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}
