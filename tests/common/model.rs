//! The reference model of a policy, told how finely a word counts time by the documented rules.

use std::time::Duration;

use tollgate::{Algorithm, Decision, Policy, Quota};
use tollgate_oracle::{Algorithm as Model, BigUint, Oracle, Rounding, Verdict};

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

pub fn model(policy: Policy, tick: u32, quantum_ns: u64) -> Oracle {
    let quota = policy.quota();
    let (limit, window_ns) = (quota.count(), u64::try_from(quota.period().as_nanos()).unwrap());
    let sliding = |rounding| Model::SlidingWindow { limit, window_ns, rounding };
    Oracle::new(match policy.algorithm() {
        Algorithm::Gcra => {
            let burst = quota.max_burst();
            Model::Gcra { count: limit, period_ns: window_ns, burst, tick: Some(tick) }
        }
        Algorithm::FixedWindow => Model::FixedWindow { limit, window_ns },
        Algorithm::FixedWindowFromFirst => {
            Model::FixedWindowFromFirst { limit, window_ns, quantum_ns }
        }
        Algorithm::SlidingWindow => sliding(Rounding::Exact),
        Algorithm::SlidingWindowRoundDown => sliding(Rounding::Down),
        Algorithm::SlidingWindowStrict => sliding(Rounding::Strict),
        Algorithm::SegmentedWindow { segments } => {
            Model::SegmentedWindow { limit, window_ns, segments: u64::from(segments) }
        }
        other => panic!("no model of {other:?}"),
    })
}

pub fn verdict(decision: &Decision) -> Verdict {
    match decision {
        Decision::Allowed(_) => Verdict::Allowed,
        Decision::Denied(denial) if denial.is_never() => Verdict::Never,
        Decision::Denied(_) => Verdict::Denied,
    }
}

/// A wait of the model's, cut at what a clock can tell.
pub fn duration(ns: &BigUint) -> Duration {
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}
