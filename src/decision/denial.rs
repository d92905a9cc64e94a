//! [`Denial`]: a denied request.

use std::fmt;
use std::time::Duration;

use super::{Permit, View};
use crate::clock::Timestamp;
use crate::verdict::Mark;

/// A denied request. As an error it says when to return.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, ManualClock, Quota};
/// let limiter = Limiter::with_clock(Quota::per_minute(6).burst(1), ManualClock::new());
/// assert!(limiter.check().is_allowed());
/// let denial = limiter.check().into_result().unwrap_err();
/// assert_eq!(denial.retry_after(), Some(Duration::from_secs(10)));
/// assert_eq!(denial.reset_after(), Duration::from_secs(10));
/// assert_eq!((denial.cost(), denial.limit(), denial.remaining()), (1, 1, 0));
/// assert!(!denial.is_table_full() && !denial.is_spilled());
/// assert_eq!(denial.to_string(), "rate limited: retry after 10s");
/// ```
#[derive(Clone, Copy)]
pub struct Denial {
    pub(super) view: View,
}

impl Denial {
    /// A permit that was given by something else than what this denies; its figures stay.
    #[inline]
    pub(crate) fn into_permit(self) -> Permit {
        Permit { view: View { mark: Mark::Lent, ..self.view } }
    }

    /// How long to wait until the same cost would be admitted if nothing else happens: waiting exactly
    /// that long succeeds. Rounded up to the nanosecond. `None` if it never would.
    ///
    /// If the table was full ([`is_table_full`](Denial::is_table_full)), the time until the first cell
    /// that the key could take becomes free. Under a penalty ([`is_penalty`](Denial::is_penalty)), the
    /// time until its end.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        if self.is_never() {
            return None;
        }
        let View { figures, at_ns, cost, .. } = self.view;
        // With a mark, the view is of an idle word at the very instant that is waited for.
        let by_limit = self.view.mark == Mark::None;
        let ready_ns = if by_limit { figures.ready_ns(at_ns, cost) } else { at_ns };
        Some(self.view.until(ready_ns))
    }

    /// [`retry_after`](Denial::retry_after) in whole seconds, rounded up and at least 1: what an HTTP
    /// `Retry-After` header says. A client that obeys it is not sent away again for coming early.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::with_clock(Quota::per_second(4).burst(1), ManualClock::new());
    /// assert!(limiter.check().is_allowed());
    /// let denial = limiter.check().into_result().unwrap_err();
    /// assert_eq!(denial.retry_after_secs(), Some(1));
    /// ```
    #[must_use]
    pub fn retry_after_secs(&self) -> Option<u64> {
        let wait = self.retry_after()?;
        // 0 would tell a client to return at once.
        Some((wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1))
    }

    /// From when on the same cost would be admitted if nothing else happens: the decision's own time and
    /// [`retry_after`](Denial::retry_after). `None` if it never would.
    ///
    /// For a request that was decided at the time of its arrival, and is answered
    /// later: the wait that is left. Subtract also a round trip that you have measured, and the client is back no later
    /// than need be: it waits from when it has the answer, and its request takes its time, too.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, Quota, Timestamp};
    /// let limiter = Limiter::new(Quota::per_second(1));
    /// let arrived = limiter.entry().at(Timestamp::from_secs(60));
    /// assert!(arrived.check(1).is_allowed());
    /// let denial = arrived.check(1).into_result().unwrap_err();
    /// assert_eq!(denial.ready_at(), Some(Timestamp::from_secs(61)));
    /// let answered = Timestamp::from_millis(60_300);
    /// assert_eq!(denial.ready_at().unwrap() - answered, Duration::from_millis(700));
    /// ```
    #[must_use]
    pub fn ready_at(&self) -> Option<Timestamp> {
        Some(Timestamp::from_nanos(self.view.now_ns) + self.retry_after()?)
    }

    /// Whether this cost is above the limit (under a soft policy, above what it is softened to), so that
    /// it never fits. Nothing was charged.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let denial = Limiter::new(Quota::per_hour(10)).check_n(11).into_result().unwrap_err();
    /// assert!(denial.is_never());
    /// assert_eq!(denial.retry_after(), None);
    /// ```
    #[must_use]
    pub fn is_never(&self) -> bool {
        self.view.cost > self.view.figures.limit()
    }

    /// Whether the key was denied not by its quota but because it was new and the table had no cell
    /// for it, or other installs of the same key got in its way 8 times. Where the table has a spill
    /// ([`Full::Spill`](crate::Full::Spill)) that decides instead, unless the request's time is far from what
    /// others have told the table.
    #[must_use]
    pub fn is_table_full(&self) -> bool {
        self.view.mark == Mark::TableFull
    }

    /// Whether a penalty is in force, and every request denied until it ends: the denial that brought
    /// it about says so too.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Policy};
    /// let policy: Policy = "2/m penalty 10m after 1".parse()?;
    /// let limiter = Limiter::with_clock(policy, ManualClock::new());
    /// assert!(limiter.check_n(2).is_allowed());
    /// let denial = limiter.check().into_result().unwrap_err();
    /// assert!(denial.is_penalty());
    /// assert_eq!(denial.retry_after(), Some(Duration::from_secs(600)));
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    #[must_use]
    pub fn is_penalty(&self) -> bool {
        self.view.mark == Mark::Penalty
    }

    /// Whether the quota alone has denied, and only for now: then something else may admit the request, as in
    /// [`Entry::check_or`](crate::Entry::check_or). Not so are a cost that never fits or of 0, a penalty, and a key for
    /// which a full table has no cell, also if the spill has decided.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(5));
    /// let is_for_now = |cost| limiter.check_n(cost).into_result().err().map(|denial| denial.is_for_now());
    /// assert_eq!([3, 3, 6].map(is_for_now), [None, Some(true), Some(false)]);
    /// ```
    #[must_use]
    pub fn is_for_now(&self) -> bool {
        let by_quota = !self.is_table_full() && !self.is_spilled() && !self.is_penalty();
        by_quota && !self.is_never() && self.cost() > 0
    }

    /// As [`Decision::is_spilled`](crate::Decision::is_spilled). Others' traffic may be the reason; waiting for
    /// [`retry_after`](Denial::retry_after) succeeds all the same, if nothing else happens.
    #[must_use]
    pub fn is_spilled(&self) -> bool {
        self.view.is_spilled()
    }

    /// The units that were asked for.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.view.cost
    }

    /// As [`Decision::limit`](crate::Decision::limit).
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.view.limit()
    }

    /// As [`Decision::remaining`](crate::Decision::remaining): a smaller cost may still fit. 0 if the table was full,
    /// and under a penalty.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        // The view of a full table or a penalty is of an idle word that is still to come.
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
            .field("is_table_full", &self.is_table_full())
            .field("is_penalty", &self.is_penalty())
            .finish()
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.retry_after().map(round_up_to_millis) {
            Some(wait) if self.is_table_full() => {
                write!(f, "no room for a new key in a full table: retry after {wait:?}")
            }
            Some(wait) if self.is_penalty() => {
                write!(f, "rate limited, and now refused for a while: retry after {wait:?}")
            }
            Some(wait) if self.is_spilled() => {
                write!(
                    f,
                    "no cell of its own, and the spill has no room for it: retry after {wait:?}"
                )
            }
            Some(wait) => write!(f, "rate limited: retry after {wait:?}"),
            None => write!(
                f,
                "rate limited: a cost of {} never fits in a limit of {}",
                self.cost(),
                self.view.figures.limit(),
            ),
        }
    }
}

impl std::error::Error for Denial {}

/// For people to read, so without the nanoseconds of a wait.
fn round_up_to_millis(wait: Duration) -> Duration {
    let millis = wait.as_nanos().div_ceil(1_000_000);
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}
