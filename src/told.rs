//! [`Told`]: a decision that was made elsewhere.

use std::time::Duration;

use crate::algorithm::{Answers, Held, Kernel};
use crate::decision::{Decision, View};
use crate::verdict::Verdict;

/// The answers of a decision that was made elsewhere: by a limit that is kept in Redis, by a service, by a
/// double in a test. As a [`Decision`] it can go wherever one of this process could.
///
/// A permit made of it can be refunded only where it was made: no limiter of this crate gives anything
/// back for it.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Decision, Told};
/// let told = Told {
///     allowed: false,
///     cost: 1,
///     limit: 10,
///     remaining: 0,
///     retry_after: Duration::from_millis(1_500),
///     reset_after: Duration::from_secs(6),
/// };
/// let denial = Decision::from(told).into_result().unwrap_err();
/// assert_eq!((denial.limit(), denial.retry_after_secs()), (10, Some(2)));
/// assert!(!denial.is_never());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Whether the request may go.
    pub allowed: bool,
    /// The units that were charged, or that were asked for and denied. If denied and above `limit`, the
    /// denial is one for ever.
    pub cost: u64,
    /// The most units that can be admitted at one instant.
    pub limit: u64,
    /// Units left after the decision.
    pub remaining: u64,
    /// If denied, how long to wait until the same cost would be admitted.
    pub retry_after: Duration,
    /// How long until the whole limit is there again.
    pub reset_after: Duration,
}

impl From<Told> for Decision {
    fn from(told: Told) -> Self {
        let nanos = |wait: Duration| u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        let answers = Answers {
            limit: told.limit,
            remaining: told.remaining,
            ready_ns: nanos(told.retry_after),
            idle_ns: nanos(told.reset_after),
            spilled: false,
        };
        let kernel = Kernel::Log(answers);
        let view = View::plain(kernel, Held::IDLE, 0, 0, told.cost);
        let verdict = if told.allowed { Verdict::Allowed } else { Verdict::Denied };
        Self::new(verdict, view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limiter, LogLimiter, Quota};

    const TOLD: Told = Told {
        allowed: true,
        cost: 3,
        limit: 10,
        remaining: 7,
        retry_after: Duration::ZERO,
        reset_after: Duration::from_secs(3),
    };

    #[test]
    fn a_decision_answers_what_it_was_told() {
        let permit = Decision::from(TOLD).into_result().unwrap();
        assert_eq!((permit.cost(), permit.limit(), permit.remaining()), (3, 10, 7));
        assert_eq!(permit.reset_after(), Duration::from_secs(3));
        let retry_after = Duration::from_nanos(1_000_000_001);
        let denied = Told { allowed: false, cost: 8, retry_after, ..TOLD };
        let denial = Decision::from(denied).into_result().unwrap_err();
        assert_eq!((denial.cost(), denial.retry_after()), (8, Some(retry_after)));
        assert_eq!(denial.retry_after_secs(), Some(2));
        assert!(!denial.is_table_full());
        let never = Decision::from(Told { cost: 11, ..denied }).into_result().unwrap_err();
        assert!(never.is_never() && never.retry_after().is_none());
    }

    #[test]
    fn no_limiter_gives_back_what_was_charged_elsewhere() {
        let permit = Decision::from(TOLD).into_result().unwrap();
        let limiter = Limiter::new(Quota::per_hour(10));
        assert!(limiter.check(5).is_allowed());
        assert_eq!(limiter.entry().refund(permit), 0);
        let log = LogLimiter::new(Quota::per_hour(10)).unwrap();
        assert!(log.check(5).is_allowed());
        assert_eq!(log.entry().peek(1).remaining(), 5);
    }
}
