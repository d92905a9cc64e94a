//! The bounds of a policy: the most that it admits at once, and in a period.

use tollgate::{Algorithm, CalendarUnit, Policy, Rounding};

/// The most units that a client may spend at once after a rest.
pub(crate) fn most_at_once(policy: Policy) -> u64 {
    with_soft(policy, policy.quota().max_burst())
}

/// The most units in any interval as long as the policy's period, its end not included. These are the bounds of the
/// table in `docs/which-algorithm.md`.
pub(crate) fn most_in_a_period(policy: Policy) -> u64 {
    let quota = policy.quota();
    let limit = with_soft(policy, quota.count());
    match policy.algorithm() {
        Algorithm::Gcra => most_at_once(policy).saturating_add(quota.count() - 1),
        Algorithm::FixedWindowFromFirst
        | Algorithm::SlidingWindow { rounding: Rounding::Exact } => limit.saturating_mul(2) - 1,
        Algorithm::SlidingWindow { rounding: Rounding::Strict } | Algorithm::SlidingLog => limit,
        // The period is that of the longest month or year. So the interval may contain a whole shorter window, and
        // touch the windows before and after it.
        Algorithm::Calendar(CalendarUnit::Month | CalendarUnit::Year) => limit.saturating_mul(3),
        // Two windows cover the interval (windows of whole segments, if there are segments), and each admits at most
        // the limit.
        _ => limit.saturating_mul(2),
    }
}

/// Adds the share that a soft limit admits besides, rounded down.
fn with_soft(policy: Policy, units: u64) -> u64 {
    let hundredths = u128::from(policy.at_limit().soft.hundredths());
    let all = u128::from(units) * (10_000 + hundredths) / 10_000;
    u64::try_from(all).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_in_a_period_is_what_the_algorithms_promise() {
        for (policy, most) in [
            ("gcra 100/s burst 20", 119),
            ("spaced 5/s", 5),
            ("fixed-window 100/m", 200),
            ("fixed-window 100/m from-first", 199),
            ("sliding-window 100/m exact", 199),
            ("sliding-window 100/m", 200),
            ("sliding-window 100/m strict", 100),
            ("segmented-window 100/m x6", 200),
        ] {
            assert_eq!(most_in_a_period(policy.parse().expect("a policy")), most, "{policy}");
        }
    }
}
