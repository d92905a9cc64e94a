//! [`Reservation`]: units of a limit that may be used at a later time.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::decision::Permit;

/// Units that have already been charged and may be used from an instant on.
///
/// Reservations of one limit form a queue: each reservation takes the next place. A caller that does not want to wait
/// any more can [cancel](crate::Entry::cancel), which gives the place back if no request has queued up behind it. A
/// reservation that is dropped stays charged.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, ManualClock, Quota};
/// let clock = ManualClock::new();
/// let limiter = Limiter::builder(Quota::per_second(4).burst(1)).clock(clock.clone()).build();
/// let first = limiter.entry().reserve(1, Duration::from_secs(1))?;
/// let second = limiter.entry().reserve(1, Duration::from_secs(1))?;
/// assert_eq!([first.wait(), second.wait()], [Duration::ZERO, Duration::from_millis(250)]);
/// # Ok::<(), tollgate::Denial>(())
/// ```
#[derive(Debug)]
#[must_use = "the units are charged; cancel it if they are not wanted"]
pub struct Reservation {
    permit: Permit,
    made: Timestamp,
    ready: Timestamp,
}

impl Reservation {
    pub(crate) fn new(permit: Permit) -> Self {
        Self { made: permit.asked_at(), ready: permit.ready_at(), permit }
    }

    /// The instant from which the units may be used, in the limiter's time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, Quota, Timestamp};
    /// let limiter = Limiter::new(Quota::per_second(1).burst(2));
    /// let at = Timestamp::from_secs(60);
    /// assert!(limiter.entry().at(at).check_n(2).is_allowed());
    /// let place = limiter.entry().at(at).reserve(1, Duration::from_secs(5))?;
    /// assert_eq!(place.ready_at(), Timestamp::from_secs(61));
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[must_use]
    pub fn ready_at(&self) -> Timestamp {
        self.ready
    }

    /// How long to wait from the instant at which the reservation was made. It is at most the longest wait that the
    /// caller allowed.
    #[must_use]
    pub fn wait(&self) -> Duration {
        Duration::from_nanos(self.ready.as_nanos() - self.made.as_nanos())
    }

    /// The permit for the units that the reservation has charged.
    #[must_use]
    pub fn permit(&self) -> &Permit {
        &self.permit
    }

    /// Ends the reservation and returns its permit. Use it after the turn has come, to refund units that are not used.
    /// The reservation cannot be cancelled any more.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::builder(Quota::per_hour(9)).clock(ManualClock::new()).build();
    /// let place = limiter.entry().reserve(8, Duration::ZERO)?;
    /// assert_eq!(limiter.entry().refund(place.into_permit().portion(5)), 5);
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[must_use = "what is not refunded stays charged"]
    pub fn into_permit(self) -> Permit {
        self.permit
    }
}
