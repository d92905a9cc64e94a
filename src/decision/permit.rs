//! [`Permit`]: an admitted request.

use std::fmt;
use std::time::Duration;

use crate::clock::Timestamp;

use super::View;
use crate::verdict::Mark;

/// An admitted request.
///
/// A permit orders no other memory: what one thread wrote before its decision is not thereby visible to
/// a thread that decides later.
///
/// ```
/// use tollgate::{Limiter, Quota};
/// let permit = Limiter::new(Quota::per_hour(10)).check(3).into_result()?;
/// assert_eq!((permit.cost(), permit.limit(), permit.remaining()), (3, 10, 7));
/// # Ok::<(), tollgate::Denial>(())
/// ```
#[derive(Clone, Copy)]
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
    /// The units that were charged. A peek charges none.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let permit = Limiter::new(Quota::per_hour(10)).check(3).into_result()?;
    /// assert_eq!(permit.cost(), 3);
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.view.cost
    }

    /// This permit for at most so many of its units: to refund what was charged and not used.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::with_clock(Quota::per_hour(10), ManualClock::new());
    /// let permit = limiter.check(8).into_result()?;
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

    /// The now of the request.
    pub(crate) fn asked_at(&self) -> Timestamp {
        Timestamp::from_nanos(self.view.now_ns)
    }

    /// The first instant at which the debt that it left is no more than the burst. What a window admits
    /// it admits at once, also when it has begun later than the request's time.
    pub(crate) fn ready_at(&self) -> Timestamp {
        let View { kernel, held, at_ns, now_ns, .. } = self.view;
        Timestamp::from_nanos(if kernel.is_gcra() {
            kernel.ready_ns(held, at_ns, 0)
        } else {
            now_ns
        })
    }

    /// What this permit has charged, if it has charged anything.
    pub(crate) fn charge(&self) -> Option<&View> {
        (self.view.cost > 0 && self.view.mark != Mark::Lent).then_some(&self.view)
    }

    /// As [`Decision::is_spilled`](crate::Decision::is_spilled). Such a permit gives nothing back: what was charged in
    /// the spill drains.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, ManualClock, Quota};
    /// let limiter = KeyedLimiter::with_clock(Quota::per_hour(5), 1, ManualClock::new())?;
    /// for key in 0..100_u64 {
    ///     let permit = limiter.check(&key, 1).into_result().expect("the spill holds a hundred");
    ///     assert_eq!(limiter.entry(&key).refund(permit), u64::from(!permit.is_spilled()));
    /// }
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_spilled(&self) -> bool {
        self.view.is_spilled()
    }

    /// As [`Decision::limit`](crate::Decision::limit).
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let permit = Limiter::new(Quota::per_hour(10)).check(3).into_result()?;
    /// assert_eq!(permit.limit(), 10);
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.view.limit()
    }

    /// As [`Decision::remaining`](crate::Decision::remaining).
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let permit = Limiter::new(Quota::per_hour(10)).check(3).into_result()?;
    /// assert_eq!(permit.remaining(), 7);
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.view.remaining()
    }

    /// As [`Decision::reset_after`](crate::Decision::reset_after).
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::with_clock(Quota::per_minute(6), ManualClock::new());
    /// let permit = limiter.check(2).into_result()?;
    /// assert_eq!(permit.reset_after().as_secs(), 20);
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.view.reset_after()
    }
}
