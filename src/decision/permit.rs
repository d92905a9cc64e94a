//! [`Permit`]: an admitted request.

use std::fmt;
use std::time::Duration;

use crate::algorithm::{Figures, Kernel};
use crate::clock::Timestamp;

use super::View;
use crate::verdict::Mark;

/// An admitted request.
///
/// A permit stands for one charge, and can be given back once, so it is not `Clone`. If headers or logs are written
/// after the permit was given away, take its [`summary`](Permit::summary) first.
///
/// A permit orders no other memory: the writes of a thread before its decision need not be visible to a thread that
/// decides later.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, ManualClock, Quota};
/// let limiter = Limiter::builder(Quota::per_minute(6)).clock(ManualClock::new()).build();
/// let permit = limiter.check_n(2).into_result()?;
/// assert_eq!((permit.cost(), permit.limit(), permit.remaining()), (2, 6, 4));
/// assert_eq!(permit.reset_after(), Duration::from_secs(20));
/// assert!(!permit.is_spilled());
/// # Ok::<(), tollgate::Denial>(())
/// ```
pub struct Permit {
    pub(super) view: View,
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view
            .describe(&mut f.debug_struct("Permit"), self.remaining())
            .field("is_over", &self.is_over())
            .finish()
    }
}

impl Permit {
    /// The number of units that were charged: 0 for a peek. If another source admitted the request
    /// ([`check_or`](crate::Entry::check_or)), it is the cost of the request.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.view.cost
    }

    /// True if the request was admitted only because the policy is soft: the limit that the policy names would have
    /// denied it. Use it for a warning in a header, a lower priority, or a line in a log.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Percent, Policy, Quota};
    /// let policy = Policy::from(Quota::per_minute(20)).soft(Percent::new(5))?;
    /// let limiter = Limiter::builder(policy).clock(ManualClock::new()).build();
    /// let is_over = |cost| limiter.check_n(cost).into_result().ok().map(|permit| permit.is_over());
    /// assert_eq!([20, 1, 1].map(is_over), [Some(false), Some(true), None]);
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.view.mark == Mark::Over
    }

    /// Reduces this permit to at most `units` of its units, to refund units that were charged and not used. The other
    /// units stay charged.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::builder(Quota::per_hour(10)).clock(ManualClock::new()).build();
    /// let permit = limiter.check_n(8).into_result()?;
    /// // Three were enough.
    /// assert_eq!(limiter.entry().refund(permit.portion(5)), 5);
    /// assert_eq!(limiter.entry().peek(1).remaining(), 7);
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[must_use]
    pub fn portion(mut self, units: u64) -> Self {
        self.view.cost = self.view.cost.min(units);
        self
    }

    /// Splits off a permit for at most `units` units, to refund a part now and perhaps another part later. This permit
    /// keeps the other units.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::builder(Quota::per_hour(10)).clock(ManualClock::new()).build();
    /// let mut permit = limiter.check_n(8).into_result()?;
    /// assert_eq!(limiter.entry().refund(permit.split_off(5)), 5);
    /// assert_eq!(permit.cost(), 3);
    /// assert_eq!(limiter.entry().refund(permit.split_off(5)), 3);
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[must_use = "what is split off and not refunded stays charged"]
    pub fn split_off(&mut self, units: u64) -> Self {
        let part = self.twin().portion(units);
        self.view.cost -= part.view.cost;
        part
    }

    /// As [`Decision::twin`](super::Decision::twin). This method is public for the fuzzers, which give a charge back
    /// twice and count the excess units that come back.
    #[doc(hidden)]
    #[must_use]
    pub fn twin(&self) -> Self {
        Self { view: self.view }
    }

    /// The time of the request.
    pub(crate) fn asked_at(&self) -> Timestamp {
        Timestamp::from_nanos(self.view.now_ns)
    }

    /// The first instant at which the debt after the request has drained to the burst. It is not before the time of the
    /// request. In a sliding log it is the turn of the request. Under a window it is the time of the request, even if
    /// the window in force began later.
    pub(crate) fn ready_at(&self) -> Timestamp {
        let View { figures, at_ns, now_ns, .. } = &self.view;
        let ready_ns = match figures {
            // The permit is ready at once, and no division is needed to compute the instant.
            Figures::Word { kernel: Kernel::Gcra(gcra), held }
                if held.ahead <= gcra.burst_ticks() && at_ns <= now_ns =>
            {
                *now_ns
            }
            // A permit is ready when a cost of 0 would be admitted.
            Figures::Word { kernel: Kernel::Gcra(_), .. } => figures.ready_ns(*at_ns, 0),
            _ => self.view.of_charged_log().map_or(*now_ns, |answers| answers.ready_ns),
        };
        Timestamp::from_nanos(ready_ns.max(*now_ns))
    }

    /// The view of this permit's charge, if anything was charged here.
    pub(crate) fn charge(&self) -> Option<&View> {
        (self.view.cost > 0 && self.view.mark != Mark::Lent).then_some(&self.view)
    }

    /// As [`Decision::is_spilled`](crate::Decision::is_spilled). Such a permit gives nothing back: charges in the
    /// spill only drain.
    #[must_use]
    pub fn is_spilled(&self) -> bool {
        self.view.is_spilled()
    }

    /// As [`Decision::limit`](crate::Decision::limit).
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.view.limit()
    }

    /// As [`Decision::remaining`](crate::Decision::remaining).
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.view.remaining()
    }

    /// As [`Decision::reset_after`](crate::Decision::reset_after).
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.view.reset_after()
    }
}
