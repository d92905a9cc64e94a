//! [`Allowance`]: turns the limits of a rule into the token bucket that is divided among Envoys.

use tollgate::{Algorithm, Policy, Rounding};
use tollgate_rules::Rule;

/// A second, in nanoseconds.
pub(super) const SECOND: u64 = 1_000_000_000;

/// The minimum number of tokens per fill. Shares are whole tokens, so with this minimum rounding costs at most a
/// thousandth.
const FINENESS: u128 = 1_000;

/// A token bucket that gains `per_fill` tokens in each `fill_s` seconds, and holds at most `burst`. Over any time t it
/// lets through at most `t * per_fill / fill_s + burst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub(crate) per_fill: u32,
    /// The fill interval in whole seconds, because Envoy would round it down to whole seconds.
    pub(crate) fill_s: u32,
    pub(crate) burst: u32,
}

impl Allowance {
    /// The allowance of a policy. Over any period of the policy, it lets through no more than the policy itself does in
    /// the worst case.
    ///
    /// * GCRA is a token bucket.
    /// * Fixed, sliding (rounded down) and segmented windows with a limit of L let through up to 2 L in a period that
    ///   spans a boundary. So does a token bucket of L per period with a burst of L.
    /// * For all others the token bucket has a burst of a tenth of L, and the rest of L as its rate per period, so that
    ///   fewer than L + 1 pass in any period. Each of these policies lets through L in a period, and some of them let
    ///   through more.
    ///
    /// A token bucket has no counterpart to soft limits, penalties and counted denials, so these have no effect on
    /// Envoys.
    pub(crate) fn of(policy: &Policy) -> Self {
        let quota = policy.quota();
        let (count, period) = (u128::from(quota.count()), quota.period().as_nanos().max(1));
        // `halves` is the rate in half tokens per period.
        let (burst, halves) = match policy.algorithm() {
            Algorithm::Gcra => (u128::from(quota.max_burst()), 2 * count),
            Algorithm::FixedWindow
            | Algorithm::SlidingWindow { rounding: Rounding::Down }
            | Algorithm::SegmentedWindow { .. } => (count, 2 * count),
            _ => {
                let burst = (count / 10).max(1);
                (burst, 2 * (count - burst) + 1)
            }
        };
        let second = u128::from(SECOND);
        let fill_s = (2 * FINENESS * period).div_ceil(halves * second);
        let fill_s = fill_s.clamp(1, u128::from(u32::MAX));
        // Rounded down, so that the rate never exceeds the rule's.
        let per_fill = halves * fill_s * second / (2 * period);
        let whole = |number: u128| u32::try_from(number).unwrap_or(u32::MAX);
        Self { per_fill: whole(per_fill), fill_s: whole(fill_s), burst: whole(burst) }
    }

    /// The allowance of a rule. If the rule has several limits, the result is at most the allowance of each limit.
    /// `None` if the rule has no limit.
    pub(crate) fn of_rule(rule: &Rule) -> Option<Self> {
        let limits = rule.limits().iter().filter_map(|limit| limit.policy());
        limits.map(|policy| Self::of(&policy)).reduce(|one, other| {
            let product = |per: Self, of: Self| u64::from(per.per_fill) * u64::from(of.fill_s);
            let slower = if product(one, other) <= product(other, one) { one } else { other };
            Self { burst: one.burst.min(other.burst), ..slower }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(policy: &str) -> (u32, u32, u32) {
        let allowance = Allowance::of(&policy.parse().expect("a policy"));
        (allowance.per_fill, allowance.fill_s, allowance.burst)
    }

    #[test]
    fn a_policy_is_the_token_bucket_that_passes_no_more_in_any_period() {
        for (policy, expected) in [
            ("gcra 100/s burst 20", (1_000, 10, 20)),
            ("gcra 5000/s", (5_000, 1, 5_000)),
            ("fixed-window 100/s", (1_000, 10, 100)),
            ("fixed-window 1/h", (1_000, 3_600_000, 1)),
            ("segmented-window 60/m x6", (1_000, 1_000, 60)),
            // The rate is 90.5 tokens per second, and the burst is 10, so at most 100 pass in any second.
            ("sliding-log 100/s", (1_086, 12, 10)),
            ("sliding-window 1/m strict", (1_000, 120_000, 1)),
        ] {
            assert_eq!(of(policy), expected, "{policy}");
        }
    }

    #[test]
    fn extreme_policies_are_rounded_down_and_never_up() {
        let (per_fill, fill_s, _) = of("fixed-window 2000000000/s");
        assert_eq!((per_fill, fill_s), (2_000_000_000, 1));
        let (per_fill, fill_s, burst) = of("gcra 1/200000d burst 9000000000000000000");
        assert!(per_fill == 0 && fill_s == u32::MAX && burst == u32::MAX, "{per_fill}/{fill_s}");
    }
}
