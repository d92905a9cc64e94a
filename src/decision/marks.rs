//! What a policy's words for its limit add to an answer: over, or under a penalty.

use super::{Denial, Permit};
use crate::verdict::Mark;

impl Permit {
    /// Whether the request was admitted only because the policy is soft: the limit that it names would
    /// have denied it. For a warning in a header, a lower priority, a line in a log.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Policy};
    /// let policy = Policy::from(tollgate::Quota::per_minute(20)).soft(500)?;
    /// let limiter = Limiter::with_clock(policy, ManualClock::new());
    /// let is_over = |cost| limiter.check(cost).into_result().ok().map(|permit| permit.is_over());
    /// assert_eq!([20, 1, 1].map(is_over), [Some(false), Some(true), None]);
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.view.mark == Mark::Over
    }
}

impl Denial {
    /// Whether a penalty is in force, and every request denied until it ends: the denial that brought
    /// it about says so too.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Policy};
    /// let policy: Policy = "2/m penalty 10m after 1".parse()?;
    /// let limiter = Limiter::with_clock(policy, ManualClock::new());
    /// assert!(limiter.check(2).is_allowed());
    /// let denial = limiter.check(1).into_result().unwrap_err();
    /// assert!(denial.is_penalty());
    /// assert_eq!(denial.retry_after(), Some(Duration::from_secs(600)));
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    #[must_use]
    pub fn is_penalty(&self) -> bool {
        self.view.mark == Mark::Penalty
    }
}
