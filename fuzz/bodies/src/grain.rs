//! How finely an un-keyed word counts under a policy that says what happens at its limit, by the rules
//! in the documentation: as finely as everything else leaves room for.

use tollgate::{Algorithm, CountDenied, Policy, Rounding};
use tollgate_oracle::BigUint;

use crate::policy::period_ns;
use crate::rules::{ceiling, penalty_ns};

/// 2100-01-01, the latest instant that an un-keyed word tells apart.
pub(crate) const LATEST_NS: u64 = 4_102_444_800_000_000_000;

/// The latest time that a word of its own tells apart from later ones: of windows of the calendar all.
pub(crate) fn latest_ns(policy: Policy) -> u64 {
    if matches!(policy.algorithm(), Algorithm::Calendar(_)) { u64::MAX } else { LATEST_NS }
}

/// Bits that hold 0 to N denials in a row.
fn denial_bits(policy: Policy) -> u64 {
    policy.at_limit().penalty.map_or(0, |penalty| BigUint::from(penalty.after).bits())
}

/// GCRA: the largest k for which the ticks until 2100, and what may lie ahead of them, each leave a bit
/// free beside the denials in a row.
pub(crate) fn tick(policy: Policy) -> u32 {
    let (quota, at_limit) = (policy.quota(), policy.at_limit());
    let ticks = |ns: BigUint, k: u32| ((ns * quota.count()) << k) / period_ns(policy);
    let fits = |k: &u32| {
        let burst = BigUint::from(ceiling(policy)) << *k;
        let less = &burst - (BigUint::from(1_u32) << *k);
        let denied = match at_limit.count_denied {
            CountDenied::No => BigUint::ZERO,
            CountDenied::Yes => less + &burst,
            CountDenied::UpTo(wait) => less + ticks(wait.as_nanos().into(), *k),
        };
        let end = at_limit
            .penalty
            .map_or(BigUint::ZERO, |_| ticks(penalty_ns(policy).into(), *k) + 2_u32);
        let most = ticks(LATEST_NS.into(), *k).max(burst).max(denied).max(end);
        most.bits() + 1 + denial_bits(policy) <= 64
    };
    (0..=62).rev().find(fits).expect("the policy was accepted")
}

/// From-first windows: the least power of ten nanoseconds that leaves room for the count and the denials.
pub(crate) fn quantum_ns(policy: Policy) -> u64 {
    let latest = LATEST_NS.saturating_add(penalty_ns(policy));
    let counts = BigUint::from(ceiling(policy)).bits() + denial_bits(policy);
    let fits = |quantum: &u64| counts + (BigUint::from(latest / quantum) + 1_u32).bits() <= 64;
    (0..19).map(|power| 10_u64.pow(power)).find(fits).expect("the policy was accepted")
}

/// Other windows: the least power of ten nanoseconds, up to a thousandth of the window, that leaves room
/// for the window's number and the denials.
pub(crate) fn end_quantum_ns(policy: Policy) -> u64 {
    let window_ns = period_ns(policy);
    let counts = policy.at_limit().count_denied != CountDenied::No;
    let (parts, counters) = match policy.algorithm() {
        Algorithm::SegmentedWindow { segments } => (u64::from(segments), u64::from(segments)),
        Algorithm::FixedWindow => (1, 1),
        _ => (1, 2),
    };
    let doubled = matches!(
        policy.algorithm(),
        Algorithm::SlidingWindow { rounding: Rounding::Exact | Rounding::Down }
    );
    let most = ceiling(policy).saturating_mul(if counts && doubled { 2 } else { 1 });
    let unit_ns = window_ns / parts;
    let latest = LATEST_NS.saturating_add(penalty_ns(policy)) / unit_ns;
    let rounded_up = u32::from(policy.at_limit().penalty.is_some());
    let time_bits = (BigUint::from(latest) + rounded_up).bits();
    let fits = |own: u64, quantum_ns: u64| {
        let into = BigUint::from((unit_ns - 1) / quantum_ns).bits();
        let beside = own.max(into) + denial_bits(policy);
        beside + time_bits <= 64 && beside < 64
    };
    // Side by side, or if they do not fit so, all in one number.
    let side_by_side = counters * BigUint::from(most).bits();
    let rings =
        (1..=counters).fold(BigUint::from(1_u32), |rings, n| rings * (BigUint::from(most) + n) / n);
    let ring = (parts > 1 && !counts).then(|| (rings - 1_u32).bits());
    let coarsest_ns = (window_ns / 1_000).clamp(1, unit_ns);
    let powers = || (0..19).map(|power| 10_u64.pow(power)).take_while(|&ns| ns <= coarsest_ns);
    let widths = [Some(side_by_side), ring];
    let found = widths.into_iter().flatten().find_map(|own| powers().find(|&ns| fits(own, ns)));
    found.unwrap_or(1)
}
