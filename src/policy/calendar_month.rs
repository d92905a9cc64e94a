//! What calendar months ask of a policy besides their count: a quota of the longest month, and a clock that tells the
//! date.

use std::time::Duration;

use super::{Algorithm, Policy};
use crate::algorithm::LONGEST_NS;
use crate::clock::Clock;
use crate::error::{BuildError, NO_DATE, PolicyError};
use crate::quota::Quota;

/// So many units in the longest month.
pub(super) fn month_quota(limit: u64) -> Result<Quota, PolicyError> {
    // The longest, so that what is remembered for a period is remembered for any month.
    Quota::try_per(limit, Duration::from_nanos(LONGEST_NS))
}

impl Policy {
    /// At most `limit` units in each calendar month in UTC, from the midnight on which it begins to the one on which
    /// the next begins: quotas as bills and API plans state them. Its [`quota`](Policy::quota) is that of the longest
    /// month, 31 days.
    ///
    /// Its clock has to tell the date: readings are Unix time. Constructors without a clock take
    /// [`Clock::unix`](crate::Clock::unix) for it. [`KeyedLimiter`](crate::KeyedLimiter), sketches and changes of
    /// quota refuse a clock that counts from its own start ([`BuildError::Policy`](crate::BuildError),
    /// [`ChangeError::NoDate`](crate::ChangeError));
    /// [`Limiter::with_clock`](crate::Limiter::with_clock) believes any, and on such a clock its months are those
    /// after the start, as if that were January 1970.
    ///
    /// # Errors
    /// A limit of 0, or of 2^51 (2.25e15) or more: beside the count a word tells the month, up to the last instant of a
    /// clock, in July 2554.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Policy, Timestamp};
    /// let plan = Policy::calendar_month(10_000)?;
    /// assert_eq!(plan, "calendar-month 10000".parse()?);
    /// let clock = ManualClock::new();
    /// clock.set(Timestamp::from_secs(1_738_368_000)); // 1 February 2025
    /// let limiter = Limiter::with_clock(plan, clock);
    /// assert!(limiter.check_n(10_000).is_allowed());
    /// assert_eq!(limiter.entry().peek(1).reset_after(), Duration::from_secs(28 * 86_400));
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn calendar_month(limit: u64) -> Result<Self, PolicyError> {
        Self::new(Algorithm::CalendarMonth, month_quota(limit)?)
    }

    /// Whether it can be decided by this clock.
    pub(crate) fn takes(&self, clock: &Clock) -> bool {
        // Any clock measures how long something takes, which is all that the others ask of it.
        !needs_date(self) || clock.tells_date()
    }

    /// The fastest clock by which all of these can be decided.
    pub(crate) fn clock_for<'a>(policies: impl IntoIterator<Item = &'a Self>) -> Clock {
        // One clock serves all tiers of a table, so one policy that asks for the date decides for all.
        let needs_date = policies.into_iter().any(needs_date);
        if needs_date { Clock::unix() } else { Clock::monotonic() }
    }
}

/// Whether only a clock that tells the date will do.
fn needs_date(policy: &Policy) -> bool {
    policy.algorithm == Algorithm::CalendarMonth
}

/// The clock, if it can decide the policy.
pub(crate) fn deciding(clock: Clock, policy: &Policy) -> Result<Clock, BuildError> {
    let refused = || BuildError::Policy(NO_DATE.to_string());
    policy.takes(&clock).then_some(clock).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::super::BURST_ON_WINDOW;
    use super::*;
    use crate::clock::{ManualClock, Timestamp};

    #[test]
    fn months_take_clocks_that_tell_the_date_and_no_others() {
        let month = Policy::calendar_month(5).expect("a policy");
        let minute = Policy::from(Quota::per_minute(5));
        let now = Timestamp::from_secs(1_790_000_000);
        for clock in [
            Clock::unix(),
            ManualClock::new().into(),
            Clock::monotonic().resumed_at(now),
            Clock::system().resumed_at(now),
        ] {
            assert!(month.takes(&clock) && minute.takes(&clock), "{clock:?}");
        }
        for clock in [Clock::monotonic(), Clock::system()] {
            assert!(!month.takes(&clock) && minute.takes(&clock), "{clock:?}");
        }
        assert!(Policy::clock_for([&minute, &month]).tells_date());
        assert!(!Policy::clock_for([&minute]).tells_date());
    }

    #[test]
    fn a_quota_of_any_other_length_is_no_month() {
        for days in [28, 30, 32] {
            let period = Duration::from_secs(days * 86_400);
            let refused = Policy::new(Algorithm::CalendarMonth, Quota::per(5, period));
            let error = refused.expect_err("another period").to_string();
            assert!(error.ends_with("use Policy::calendar_month"), "{error}");
        }
        let burst = month_quota(5).and_then(|quota| quota.try_burst(6)).expect("a quota");
        let refused = Policy::new(Algorithm::CalendarMonth, burst);
        assert_eq!(refused, Err(BURST_ON_WINDOW));
    }
}
