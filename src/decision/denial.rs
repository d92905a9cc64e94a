//! [`Denial`]: a denied request; and [`DenialReason`], which says why it was denied.

use std::fmt;
use std::time::Duration;

use super::{Permit, View};
use crate::clock::Timestamp;
use crate::verdict::Mark;

/// The reason why a request was denied.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{DenialReason, Limiter, ManualClock, Policy};
/// let policy: Policy = "2/m penalty 10m after 1".parse()?;
/// let limiter = Limiter::builder(policy).clock(ManualClock::new()).build();
/// assert!(limiter.check_n(2).is_allowed());
/// let denial = limiter.check().into_result().unwrap_err();
/// assert_eq!(denial.reason(), DenialReason::Penalty);
/// assert_eq!(denial.retry_after(), Some(Duration::from_secs(600)));
/// # Ok::<(), tollgate::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum DenialReason {
    /// The limit has too few units left for now. A cost of 0 is denied for this reason while a debt is owed.
    OverLimit,
    /// The cost is above the limit (under a soft policy, above the softened limit). Such a cost never fits. This reason
    /// takes precedence over all other reasons.
    NeverFits,
    /// A penalty is in force, and every request is denied until it ends. The denial that began the penalty has this
    /// reason, too.
    Penalty,
    /// The key was new and the table had no cell for it, or other threads disturbed its installation 8 times. If the
    /// table has a spill ([`WhenFull::Spill`](crate::WhenFull::Spill)), the spill decides instead, unless it is
    /// disturbed as well, or the request's time is far from the times of other requests to the table. An entry whose
    /// [own quota](crate::Entry::under) was forgotten and replaced is also denied for this reason.
    TableFull,
    /// The key was new, and the spill denied the request: see [`Decision::is_spilled`](crate::Decision::is_spilled).
    /// The traffic of other keys may be the reason. Even so, a request after [`retry_after`](Denial::retry_after) is
    /// admitted if no other request is charged meanwhile.
    Spilled,
}

/// A denied request. The text of this error says when to return.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{DenialReason, Limiter, ManualClock, Quota};
/// let limiter = Limiter::builder(Quota::per_minute(6).burst(1)).clock(ManualClock::new()).build();
/// assert!(limiter.check().is_allowed());
/// let denial = limiter.check().into_result().unwrap_err();
/// assert_eq!(denial.retry_after(), Some(Duration::from_secs(10)));
/// assert_eq!(denial.reset_after(), Duration::from_secs(10));
/// assert_eq!((denial.cost(), denial.limit(), denial.remaining()), (1, 1, 0));
/// assert_eq!(denial.reason(), DenialReason::OverLimit);
/// assert_eq!(denial.to_string(), "rate limited: retry after 10s");
/// ```
#[derive(Clone, Copy)]
pub struct Denial {
    pub(super) view: View,
}

impl Denial {
    /// Turns the denial into a permit, because another limit has admitted the request. The figures stay.
    #[inline]
    pub(crate) fn into_permit(self) -> Permit {
        Permit { view: View { mark: Mark::Lent, ..self.view } }
    }

    /// How long to wait until the same cost would be admitted if no other request is charged meanwhile. After exactly
    /// this wait the request is admitted. The wait is rounded up to the nanosecond. `None` if the cost would never be
    /// admitted.
    ///
    /// If the table was full ([`DenialReason::TableFull`]), this is the time until the first cell that the key could
    /// take may be free. During a penalty ([`DenialReason::Penalty`]), it is the time until the end of the penalty.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        if self.never_fits() {
            return None;
        }
        let View { figures, at_ns, cost, .. } = self.view;
        // If the denial has a mark (a penalty or a full table), `at_ns` is already the end of the wait.
        let by_limit = self.view.mark == Mark::None;
        let ready_ns = if by_limit { figures.ready_ns(at_ns, cost) } else { at_ns };
        Some(self.view.until(ready_ns))
    }

    /// [`retry_after`](Denial::retry_after) in whole seconds, for an HTTP `Retry-After` header. It is rounded up and at
    /// least 1, so that a client that obeys the header does not come too early.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::builder(Quota::per_second(4).burst(1)).clock(ManualClock::new()).build();
    /// assert!(limiter.check().is_allowed());
    /// let denial = limiter.check().into_result().unwrap_err();
    /// assert_eq!(denial.retry_after_secs(), Some(1));
    /// ```
    #[must_use]
    pub fn retry_after_secs(&self) -> Option<u64> {
        let wait = self.retry_after()?;
        // A header of 0 would tell a client to return at once.
        Some((wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1))
    }

    /// The instant from which the same cost would be admitted if no other request is charged meanwhile: the decision's
    /// time plus [`retry_after`](Denial::retry_after). `None` if the cost would never be admitted.
    ///
    /// Use it for a request that was decided at the time of its arrival but is answered later. The client then has to
    /// wait until this instant. If you have measured the round trip, subtract it, too: the client begins to wait when
    /// it has the answer, and its next request takes time to arrive.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, Quota, Timestamp};
    /// let limiter = Limiter::new(Quota::per_second(1));
    /// let arrived = limiter.entry().at(Timestamp::from_secs(60));
    /// assert!(arrived.check().is_allowed());
    /// let denial = arrived.check().into_result().unwrap_err();
    /// assert_eq!(denial.ready_at(), Some(Timestamp::from_secs(61)));
    /// let answered = Timestamp::from_millis(60_300);
    /// assert_eq!(denial.ready_at().unwrap() - answered, Duration::from_millis(700));
    /// ```
    #[must_use]
    pub fn ready_at(&self) -> Option<Timestamp> {
        Some(Timestamp::from_nanos(self.view.now_ns) + self.retry_after()?)
    }

    /// The reason why the request was denied.
    ///
    /// ```
    /// use tollgate::{DenialReason, Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(5));
    /// let reason = |cost| limiter.check_n(cost).denial().map(|denial| denial.reason());
    /// let [over, never] = [DenialReason::OverLimit, DenialReason::NeverFits];
    /// assert_eq!([3, 3, 6].map(reason), [None, Some(over), Some(never)]);
    /// ```
    #[must_use]
    pub fn reason(&self) -> DenialReason {
        match self.view.mark {
            // This case comes first, since no wait helps against it.
            _ if self.never_fits() => DenialReason::NeverFits,
            Mark::TableFull => DenialReason::TableFull,
            Mark::Penalty => DenialReason::Penalty,
            // Only permits have the other marks.
            _ if self.view.is_spilled() => DenialReason::Spilled,
            _ => DenialReason::OverLimit,
        }
    }

    /// True if the request was denied only because too few units are left for now. Then another limit may admit the
    /// request and lend its units. For a cost of 0 there is nothing to lend.
    pub(crate) fn may_be_lent(&self) -> bool {
        self.reason() == DenialReason::OverLimit && self.cost() > 0
    }

    fn never_fits(&self) -> bool {
        self.view.cost > self.view.figures.limit()
    }

    /// The cost of the request, in units.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.view.cost
    }

    /// As [`Decision::limit`](crate::Decision::limit).
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.view.limit()
    }

    /// The same as [`Decision::remaining`](crate::Decision::remaining): a smaller cost may still fit. It is 0 if the
    /// table was full, and during a penalty.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        // If the denial has a mark (a penalty or a full table), the view is that of an idle word at the end of the
        // wait, not that of the present word.
        if self.view.mark == Mark::None { self.view.remaining() } else { 0 }
    }

    /// As [`Decision::reset_after`](crate::Decision::reset_after).
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.view.reset_after()
    }
}

impl fmt::Debug for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view
            .describe(&mut f.debug_struct("Denial"), self.remaining())
            .field("retry_after", &self.retry_after())
            .field("reason", &self.reason())
            .finish()
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.reason() {
            DenialReason::NeverFits => {
                let (cost, limit) = (self.cost(), self.view.figures.limit());
                return write!(
                    f,
                    "rate limited: a cost of {cost} never fits in a limit of {limit}"
                );
            }
            DenialReason::OverLimit => "rate limited",
            DenialReason::Penalty => "rate limited, and now refused for a while",
            DenialReason::TableFull => "no room for a new key in a full table",
            DenialReason::Spilled => "no cell of its own, and the spill has no room for it",
        };
        // A denial has no wait only if its cost never fits.
        let wait = round_up_to_millis(self.retry_after().unwrap_or(Duration::MAX));
        write!(f, "{why}: retry after {wait:?}")
    }
}

impl std::error::Error for Denial {}

/// Rounds a wait up to milliseconds, since the text is for people.
fn round_up_to_millis(wait: Duration) -> Duration {
    let millis = wait.as_nanos().div_ceil(1_000_000);
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}
