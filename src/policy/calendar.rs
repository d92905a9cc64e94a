//! Policies for windows of the calendar. The period of their quota is the longest window, and the limiter's clock has
//! to give the date.

use std::time::Duration;

use super::names::name_of;
use super::{Algorithm, Policy};
use crate::algorithm::CalendarUnit;
use crate::clock::Clock;
use crate::error::{BuildError, NO_DATE, PolicyError};
use crate::quota::Quota;

/// The quota of `limit` units in the longest window.
pub(super) fn calendar_quota(unit: CalendarUnit, limit: u64) -> Result<Quota, PolicyError> {
    // The period is the longest window, so that a state that is kept for one period is kept long enough for every
    // window.
    Quota::try_per(limit, Duration::from_nanos(unit.longest_ns()))
}

impl Policy {
    /// A policy of at most `limit` units in each month or year of the calendar, or in each week, which begins on a day
    /// that you choose. Each window begins and ends at midnight in UTC. Bills and API plans state quotas in this way.
    /// The [`quota`](Policy::quota) of the policy has the period of the longest window: 31, 366 or 7 days.
    ///
    /// The limiter's clock has to give the date, so its readings must be Unix time. A limiter that is built without a
    /// clock uses [`Clock::unix`](crate::Clock::unix). [`KeyedLimiter`](crate::KeyedLimiter), sketches and changes of
    /// quota refuse a clock that counts from its own start ([`BuildError::Policy`](crate::BuildError),
    /// [`ChangeError::NoDate`](crate::ChangeError)); [`LimiterBuilder::clock`](crate::LimiterBuilder::clock) accepts
    /// any clock. With a clock that counts from its own start, the windows are those of a calendar in which this start
    /// is the beginning of 1970, a Thursday.
    ///
    /// # Errors
    /// Returns an error if the limit is 0, or is 2^51 (2.25e15) or more in a month, 2^54 or more in a year, or 2^49 or
    /// more in a week. The reason is that the word also contains the number of the window, for every instant up to the
    /// last instant of a clock, in July 2554.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{CalendarUnit, Limiter, ManualClock, Policy, Timestamp};
    /// let plan = Policy::calendar(CalendarUnit::Month, 10_000)?;
    /// assert_eq!(plan, "calendar-month 10000".parse()?);
    /// let clock = ManualClock::new();
    /// clock.set(Timestamp::from_secs(1_738_368_000)); // 1 February 2025
    /// let limiter = Limiter::builder(plan).clock(clock).build();
    /// assert!(limiter.check_n(10_000).is_allowed());
    /// assert_eq!(limiter.entry().peek(1).reset_after(), Duration::from_secs(28 * 86_400));
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn calendar(unit: CalendarUnit, limit: u64) -> Result<Self, PolicyError> {
        Self::new(Algorithm::Calendar(unit), calendar_quota(unit, limit)?)
    }

    /// True if this clock can be used for the policy.
    pub(crate) fn takes(&self, clock: &Clock) -> bool {
        // Policies without the calendar only measure lengths of time, which any clock can do.
        !needs_date(self) || clock.tells_date()
    }

    /// The fastest clock that can be used for all of these policies.
    pub(crate) fn clock_for<'a>(policies: impl IntoIterator<Item = &'a Self>) -> Clock {
        // All tiers of a table share one clock, so the clock must give the date if one policy needs it.
        let needs_date = policies.into_iter().any(needs_date);
        if needs_date { Clock::unix() } else { Clock::monotonic() }
    }
}

/// Checks that a quota in windows of the calendar has the period of the longest window.
pub(super) fn check_period(policy: &Policy) -> Result<(), PolicyError> {
    let Algorithm::Calendar(unit) = policy.algorithm else { return Ok(()) };
    if policy.quota.period_ns() == unit.longest_ns() {
        return Ok(());
    }
    let (name, [_, days]) = (name_of(unit), unit.days());
    Err(PolicyError::new(format!(
        "a quota of {name} has a period of {days} days; use Policy::calendar"
    )))
}

/// True if the policy needs a clock that gives the date.
fn needs_date(policy: &Policy) -> bool {
    matches!(policy.algorithm, Algorithm::Calendar(_))
}

/// Returns the clock if it can be used for the policy.
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
    fn windows_of_the_calendar_take_clocks_that_tell_the_date_and_no_others() {
        for unit in CalendarUnit::ALL {
            takes_the_date(Policy::calendar(unit, 5).expect("a policy"));
        }
    }

    fn takes_the_date(month: Policy) {
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
    fn a_quota_of_any_other_length_is_no_window_of_the_calendar() {
        for unit in CalendarUnit::ALL {
            let longest = calendar_quota(unit, 5).expect("a quota");
            for days in [6, 7, 28, 30, 31, 32, 365, 366] {
                let quota = Quota::per(5, Duration::from_secs(days * 86_400));
                let made = Policy::new(Algorithm::Calendar(unit), quota);
                assert_eq!(made.is_ok(), quota == longest, "{unit:?} of {days} days");
                let said = made.map_or_else(|error| error.to_string(), |_| String::new());
                assert!(said.is_empty() || said.ends_with("use Policy::calendar"), "{said}");
            }
            let burst = longest.try_burst(6).expect("a quota");
            assert_eq!(Policy::new(Algorithm::Calendar(unit), burst), Err(BURST_ON_WINDOW));
        }
    }
}
