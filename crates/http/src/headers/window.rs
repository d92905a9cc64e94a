//! Quotas and states of keys, in the whole seconds that headers state.

use std::num::NonZeroU64;
use std::time::Duration;

use tollgate::{Algorithm, Policy};

/// Whole seconds, rounded up.
///
/// ```
/// use std::time::Duration;
/// use tollgate_http::headers::write::secs_up;
/// assert_eq!(secs_up(Duration::from_millis(1_001)), 2);
/// ```
#[must_use]
#[inline]
pub fn secs_up(span: Duration) -> u64 {
    span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0))
}

/// A quota in whole seconds: the units of `RateLimit-Policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QuotaWindow {
    pub(super) quota: u64,
    pub(super) seconds: u64,
}

impl QuotaWindow {
    /// A policy with windows is stated with the length of its window, rounded up to seconds. Windows of the calendar
    /// differ in length; their longest one is stated.
    ///
    /// GCRA has no window. Its window is stated as the time in which the whole burst comes back, rounded up to seconds,
    /// and its quota as the units that come back in that time: `60/m` as 60 in 60 s, `1/s burst 1000` as 1,000 in 1,000
    /// s, `100/s burst 20` as 100 in 1 s. A client that spreads its requests evenly over that time is never denied.
    pub(super) fn of(policy: &Policy) -> Self {
        let quota = policy.quota();
        let (count, period_ns) = (u128::from(quota.count()), quota.period().as_nanos());
        if policy.algorithm() != Algorithm::Gcra {
            return Self { quota: quota.count(), seconds: secs_up(quota.period()).max(1) };
        }
        // Below 2^63 * 2^64 by the bounds of a quota, so neither product overflows.
        let refill = u128::from(quota.max_burst()) * period_ns;
        let second = count * 1_000_000_000;
        let seconds = refill.div_ceil(second).max(1);
        let units = seconds * second / period_ns;
        let narrow = |wide: u128| u64::try_from(wide).unwrap_or(u64::MAX);
        Self { quota: narrow(units), seconds: narrow(seconds) }
    }
}

/// The state of a key after a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyStanding {
    /// The units of the whole quota.
    pub limit: u64,
    /// The units that are left.
    pub remaining: u64,
    /// The seconds until the whole quota is available again, or, for a denied request, until a retry may be admitted.
    pub reset_secs: u64,
    /// Seconds until a retry of a denied request may be admitted, if it ever may.
    pub retry_after_secs: Option<NonZeroU64>,
    /// Whether the request was admitted above the limit, by a soft policy.
    pub is_over: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_told_in_whole_seconds() {
        let told = |text: &str| {
            let policy: Policy = text.parse().expect("a policy");
            let QuotaWindow { quota, seconds } = QuotaWindow::of(&policy);
            (quota, seconds)
        };
        assert_eq!(told("60/m"), (60, 60));
        assert_eq!(told("1/s burst 1000"), (1_000, 1_000));
        assert_eq!(told("10/s"), (10, 1));
        assert_eq!(told("100/s burst 20"), (100, 1));
        assert_eq!(told("10/m burst 5"), (5, 30));
        assert_eq!(told("1/90ms burst 2"), (11, 1));
        assert_eq!(told("fixed-window 600/m"), (600, 60));
        assert_eq!(told("fixed-window 5/250ms"), (5, 1));
        assert_eq!(told("sliding-window 1000/d exact"), (1_000, 86_400));
        assert_eq!(told("calendar-month 1000"), (1_000, 31 * 86_400));
        assert_eq!(told("calendar-year 1000"), (1_000, 366 * 86_400));
    }
}
