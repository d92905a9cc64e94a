//! The wait that a denial reports to a caller that has waited already.

use std::time::Duration;

use super::Denial;
use crate::clock::Timestamp;

impl Denial {
    /// [`retry_after`](Denial::retry_after) from another time on than that of the decision: the wait that
    /// is left at `now`; zero if it is over. `None` if the cost never fits.
    ///
    /// For a request that was decided at the time of its arrival, and is answered later. Add a round trip that you have measured, and the client is back no later than need
    /// be: it waits from when it has the answer, and its request takes its time, too.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, Quota, Timestamp};
    /// let limiter = Limiter::new(Quota::per_second(1));
    /// let arrived = Timestamp::from_secs(60);
    /// assert!(limiter.entry().at(arrived).check(1).is_allowed());
    /// let denial = limiter.entry().at(arrived).check(1).into_result().unwrap_err();
    /// assert_eq!(denial.retry_after(), Some(Duration::from_millis(1_000)));
    /// let answered = arrived + Duration::from_millis(300);
    /// let round_trip = Duration::from_millis(80);
    /// assert_eq!(denial.retry_after_at(answered + round_trip), Some(Duration::from_millis(620)));
    /// ```
    #[must_use]
    pub fn retry_after_at(&self, now: Timestamp) -> Option<Duration> {
        let ready = Timestamp::from_nanos(self.view.now_ns) + self.retry_after()?;
        Some(ready - now)
    }
}
