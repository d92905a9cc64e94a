//! Policies that say what happens at their limit, for the tests of random policies.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Algorithm, CalendarUnit, CountDenied, Percent, Policy, Weekday};

use super::model::ceiling;

/// Any window of the calendar.
pub fn calendar_unit() -> impl Strategy<Value = CalendarUnit> {
    prop::sample::select(vec![
        CalendarUnit::Month,
        CalendarUnit::Year,
        CalendarUnit::Week(Weekday::Monday),
        CalendarUnit::Week(Weekday::Wednesday),
        CalendarUnit::Week(Weekday::Thursday),
        CalendarUnit::Week(Weekday::Sunday),
    ])
}

/// Lengths in thousandths of the longest that anything counts: at the least length, a little more, more.
fn lengths(most: u64) -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1_u64..10, 0..most]
}

/// These policies: a third of them as they are, the others with some of the words that they take.
pub fn ruled(policies: impl Strategy<Value = Policy>) -> impl Strategy<Value = Policy> {
    ruled_up_to(policies, 20_000, 100_000)
}

/// The same with waits and penalties up to so many thousandths longer than the least, and penalties
/// after fewer denials than this.
pub fn ruled_up_to(
    policies: impl Strategy<Value = Policy>,
    thousandths: u64,
    denials: u32,
) -> impl Strategy<Value = Policy> {
    let soft = prop_oneof![2 => Just(0), 1 => 1_u16..=10_000, 1 => Just(5_000)];
    let counts = prop_oneof![
        2 => Just(None),
        1 => Just(Some(None)),
        1 => lengths(thousandths).prop_map(|wait| Some(Some(wait))),
    ];
    let penalty = prop_oneof![
        1 => Just(None),
        2 => (lengths(thousandths), prop_oneof![1_u32..4, 1..denials], any::<bool>())
            .prop_map(Some),
    ];
    let words = prop_oneof![1 => Just((0, None, None)), 2 => (soft, counts, penalty)];
    (policies, words).prop_filter_map("refused", |(policy, (soft_bp, counts, penalty))| {
        let mut policy = policy;
        if soft_bp > 0 {
            policy = policy.soft(Percent::from_hundredths(soft_bp)).ok()?;
        }
        if let Some(most) = counts {
            let is_gcra = policy.algorithm() == Algorithm::Gcra;
            let most = most.filter(|_| is_gcra);
            policy = policy.count_denied(most.map(|n| part(horizon_ns(policy), n))).ok()?;
        }
        let Some((more, after, extended)) = penalty else { return Some(policy) };
        let length = part(horizon_ns(policy), 1_000 + more);
        let penalised = if extended {
            policy.extended_penalty(length, after)
        } else {
            policy.penalty(length, after)
        };
        penalised.ok()
    })
}

/// The least length of a penalty.
pub fn horizon_ns(policy: Policy) -> u128 {
    let (quota, period_ns) = (policy.quota(), policy.quota().period().as_nanos());
    let drained_ns = (u128::from(ceiling(policy)) * period_ns).div_ceil(u128::from(quota.count()));
    match (policy.algorithm(), policy.at_limit().count_denied) {
        (Algorithm::Gcra, CountDenied::No) => drained_ns,
        (Algorithm::Gcra, CountDenied::Yes) => 2 * drained_ns,
        (Algorithm::Gcra, CountDenied::UpTo(wait)) => drained_ns + wait.as_nanos(),
        (Algorithm::SlidingWindow { .. }, _) => 2 * period_ns,
        _ => period_ns,
    }
}

fn part(whole_ns: u128, thousandths: u64) -> Duration {
    let ns = whole_ns.saturating_mul(thousandths.into()) / 1_000;
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}
