//! [`DecisionSummary`]: the figures of a decision, as plain data.

use std::time::Duration;

use super::{Decision, Denial, DenialReason, Permit, View};
use crate::algorithm::{Answers, Figures, softened};
use crate::percent::Percent;
use crate::verdict::{Mark, Verdict};

/// The figures of a decision. Use it for headers, logs and comparisons, and for decisions that are made elsewhere, such
/// as in Redis, in a service, or by a test double.
///
/// [`Decision::summary`] and [`Permit::summary`] make a summary. [`Decision::from`] makes a decision with these
/// figures. A refund of its permit gives nothing back. With the feature `serde`, summaries and decisions are maps of
/// these fields. Durations are seconds and nanoseconds; the share and the reason are text.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Decision, DecisionSummary, DenialReason};
/// let elsewhere = DecisionSummary {
///     denied: Some(DenialReason::OverLimit),
///     cost: 1,
///     limit: 10,
///     retry_after: Some(Duration::from_millis(1_500)),
///     reset_after: Duration::from_secs(6),
///     ..DecisionSummary::default()
/// };
/// let decision = Decision::from(elsewhere);
/// assert_eq!(decision.summary(), elsewhere);
/// let denial = decision.into_result().unwrap_err();
/// assert_eq!((denial.limit(), denial.retry_after_secs()), (10, Some(2)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DecisionSummary {
    /// The reason why the request was denied; `None` if it was admitted.
    pub denied: Option<DenialReason>,
    /// The number of units that were charged, or that were requested and denied. A denied cost above the softened limit
    /// never fits, even if another reason is given.
    pub cost: u64,
    /// As [`Decision::limit`].
    pub limit: u64,
    /// The share by which the policy softens the limit; 0 % if the limit is not soft. See [`AtLimit`](crate::AtLimit).
    pub soft: Percent,
    /// As [`Decision::remaining`].
    pub remaining: u64,
    /// As [`Permit::is_over`]; false for a denial.
    pub is_over: bool,
    /// As [`Decision::is_spilled`].
    pub is_spilled: bool,
    /// The same as [`Decision::retry_after`]: `None` if the request was allowed or its cost never fits.
    pub retry_after: Option<Duration>,
    /// As [`Decision::reset_after`].
    pub reset_after: Duration,
}

impl View {
    /// The figures that permits and denials have in common.
    fn summary(&self) -> DecisionSummary {
        DecisionSummary {
            cost: self.cost,
            limit: self.limit(),
            soft: Percent::from_hundredths(self.soft_bp),
            is_spilled: self.is_spilled(),
            reset_after: self.reset_after(),
            ..DecisionSummary::default()
        }
    }
}

impl Permit {
    /// The figures of this permit. They can be copied, and still describe the admission after the permit is given away.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::builder(Quota::per_hour(10)).clock(ManualClock::new()).build();
    /// let permit = limiter.check_n(8).into_result()?;
    /// let summary = permit.summary();
    /// limiter.entry().refund(permit);
    /// assert_eq!((summary.limit, summary.remaining), (10, 2));
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[must_use]
    pub fn summary(&self) -> DecisionSummary {
        let (remaining, is_over) = (self.remaining(), self.is_over());
        DecisionSummary { remaining, is_over, ..self.view.summary() }
    }
}

impl Denial {
    /// The figures of this denial.
    #[must_use]
    pub fn summary(&self) -> DecisionSummary {
        DecisionSummary {
            denied: Some(self.reason()),
            remaining: self.remaining(),
            retry_after: self.retry_after(),
            ..self.view.summary()
        }
    }
}

impl Decision {
    /// The figures of this decision: all its answers but the instant of [`Denial::ready_at`].
    #[must_use]
    pub fn summary(&self) -> DecisionSummary {
        match self {
            Self::Allowed(permit) => permit.summary(),
            Self::Denied(denial) => denial.summary(),
        }
    }
}

impl From<DecisionSummary> for Decision {
    fn from(summary: DecisionSummary) -> Self {
        let nanos = |wait: Duration| u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        let soft_bp = summary.soft.hundredths();
        let limit = softened(summary.limit, soft_bp).unwrap_or(u64::MAX);
        // `Answers` counts the units that are left up to the softened limit. If the request went beyond the named
        // limit, no units of the named limit are left.
        let beyond = if summary.is_over { 0 } else { limit.saturating_sub(summary.limit) };
        let answers = Answers {
            limit,
            remaining: summary.remaining.saturating_add(beyond),
            ready_ns: summary.retry_after.map_or(0, nanos),
            idle_ns: nanos(summary.reset_after),
            spilled: summary.is_spilled || summary.denied == Some(DenialReason::Spilled),
            slots: None,
        };
        let (verdict, mark) = match summary.denied {
            None if summary.is_over => (Verdict::Allowed, Mark::Over),
            None => (Verdict::Allowed, Mark::None),
            Some(DenialReason::Penalty) => (Verdict::Denied, Mark::Penalty),
            Some(DenialReason::TableFull) => (Verdict::Denied, Mark::TableFull),
            // These reasons need no mark: they follow from the cost, and from the store that decided.
            Some(DenialReason::OverLimit | DenialReason::NeverFits | DenialReason::Spilled) => {
                (Verdict::Denied, Mark::None)
            }
        };
        // The decision is made at time 0, so that each wait is also an instant. For a penalty or a full table, the
        // state is measured from the end of the wait.
        let is_from_its_end = matches!(mark, Mark::Penalty | Mark::TableFull);
        let at_ns = if is_from_its_end { answers.ready_ns } else { 0 };
        let (figures, cost) = (Figures::Known(answers), summary.cost);
        Self::new(verdict, View { figures, at_ns, now_ns: 0, cost, soft_bp, mark })
    }
}

// Two decisions are equal if their summaries are equal, no matter how and when they were made.

impl PartialEq for Permit {
    fn eq(&self, other: &Self) -> bool {
        self.summary() == other.summary()
    }
}

impl Eq for Permit {}

impl PartialEq for Denial {
    fn eq(&self, other: &Self) -> bool {
        self.summary() == other.summary()
    }
}

impl Eq for Denial {}

#[cfg(feature = "serde")]
impl serde::Serialize for Decision {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.summary().serialize(serializer)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Decision {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DecisionSummary::deserialize(deserializer).map(Self::from)
    }
}
