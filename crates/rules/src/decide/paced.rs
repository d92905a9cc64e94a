//! [`DecisionMaker::pace`]: decides by a limit that comes with a request, without a rule.

use std::time::Duration;

use super::DecisionMaker;
use super::moment::DecisionTime;
use crate::full::{FullReport, NoCell};
use crate::pace::Pace;
use crate::request::RequestError;

/// The answer to a request by a [`Pace`] of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacedAnswer {
    /// Whether the request may go; then it is charged.
    pub is_allowed: bool,
    /// The units that are left after it.
    pub remaining: u64,
    /// The time until all charges have come back.
    pub reset_after: Duration,
    /// For a denial, the time after which it would be admitted; `None` if its cost is above the burst.
    pub retry_after: Option<Duration>,
    /// Set if the key has no cell, because the table of such limits is full.
    pub no_cell: Option<NoCell>,
    /// A report that the table is full, if one is due: at most one a minute.
    pub report: Option<FullReport>,
}

impl DecisionMaker {
    /// Decides a request of `cost` units by a limit that comes with it, by GCRA, and charges it if it is admitted. A
    /// cost of 0 is a question.
    ///
    /// The key alone decides: no rule is asked, and rules need not be loaded. The table of each grain (see [`Pace`])
    /// has cells for [`override_capacity`](crate::Settings::override_capacity) keys at a time; idle keys make room, and
    /// further keys are decided in the spill: never above their limit, but possibly below it. In
    /// [`global_shadow_mode`](crate::Settings::global_shadow_mode) nothing is denied.
    ///
    /// # Errors
    /// Limits that come with requests are switched off; the key is longer than
    /// [`max_key_bytes`](crate::Settings::max_key_bytes).
    ///
    /// ```
    /// use std::{sync::Arc, time::Duration};
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{DecisionMaker, Pace, RuleCache, Settings};
    /// let cache = RuleCache::with_clock(Settings::default(), ManualClock::new());
    /// let maker = DecisionMaker::new(Arc::new(cache))?;
    /// let pace = Pace::new(2, 30, Duration::from_secs(60))?;
    /// let answers = [(); 3].map(|()| maker.pace(b"alice", pace, 1).map(|answer| answer.is_allowed));
    /// assert_eq!(answers, [Ok(true), Ok(true), Ok(false)]);
    /// assert_eq!(maker.pace(b"alice", pace, 1)?.retry_after, Some(Duration::from_secs(2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pace(&self, key: &[u8], pace: Pace, cost: u64) -> Result<PacedAnswer, RequestError> {
        let settings = self.cache.settings();
        if settings.override_capacity == 0 {
            return Err(RequestError::OverridesOff);
        }
        let (found, most) = (key.len(), settings.max_key_bytes);
        if found > most {
            return Err(RequestError::TooManyBytes { found, most });
        }
        let (verdict, _) = self.overrides.charge(pace, key, cost, DecisionTime::Now);
        let is_shadowed = verdict.is_over && settings.global_shadow_mode;
        if is_shadowed {
            self.cache.count_global_shadow();
        }
        let report = verdict
            .no_cell
            .and_then(|how| self.cache.count_own_limit_full(how, cost, self.cache.clock().now()));
        Ok(PacedAnswer {
            is_allowed: !verdict.is_over || is_shadowed,
            remaining: verdict.remaining,
            reset_after: verdict.reset_after,
            retry_after: verdict.retry_after.filter(|_| !is_shadowed),
            no_cell: verdict.no_cell,
            report,
        })
    }
}
