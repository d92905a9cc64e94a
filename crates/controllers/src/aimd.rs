//! [`Aimd`]: additive increase, multiplicative decrease.

use std::ops::RangeInclusive;

use crate::error::ControllerError;
use crate::range::{Range, headroom};

/// Additive increase, multiplicative decrease, as in TCP: each request that succeeds raises the limit by one, and each
/// request that was dropped lowers it by a tenth.
///
/// The limit grows only while at least half of it is in use: successes prove nothing about a limit that the load does
/// not come near. A request counts as dropped if it failed for lack of capacity, timeouts included, but not if it
/// failed for another reason.
///
/// Source: Chiu and Jain, *Analysis of the Increase and Decrease Algorithms for Congestion Avoidance*,
/// 1989; with the parameters of Netflix's `concurrency-limits`, `AIMDLimit`.
///
/// ```
/// use tollgate_controllers::Aimd;
/// let mut controller = Aimd::new(20, 10..=200)?;
/// assert_eq!(controller.update(10, false), 21);
/// assert_eq!(controller.update(10, true), 18);
/// # Ok::<(), tollgate_controllers::ControllerError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Aimd {
    limit: u64,
    range: Range,
    backoff: f64,
}

impl Aimd {
    /// A controller that starts at `initial` and stays within `range`.
    ///
    /// # Errors
    /// Fails if the range starts at 0 or does not contain the initial limit.
    ///
    /// ```
    /// use tollgate_controllers::Aimd;
    /// assert_eq!(Aimd::new(20, 10..=200)?.limit(), 20);
    /// assert!(Aimd::new(5, 10..=200).is_err());
    /// # Ok::<(), tollgate_controllers::ControllerError>(())
    /// ```
    pub fn new(initial: u64, range: RangeInclusive<u64>) -> Result<Self, ControllerError> {
        Ok(Self { limit: initial, range: Range::holding(initial, range)?, backoff: 0.9 })
    }

    /// Sets the factor by which a dropped request lowers the limit. It is 0.9 by default.
    ///
    /// # Errors
    /// Fails if the factor is below 0.5, because the limit would sink too fast, or if it is 1 or more, because the
    /// limit would never sink.
    ///
    /// ```
    /// use tollgate_controllers::Aimd;
    /// let mut controller = Aimd::new(20, 10..=200)?.backoff(0.5)?;
    /// assert_eq!(controller.update(20, true), 10);
    /// # Ok::<(), tollgate_controllers::ControllerError>(())
    /// ```
    pub fn backoff(self, backoff: f64) -> Result<Self, ControllerError> {
        let accepted = "0.5 or more, and less than 1";
        ControllerError::unless((0.5..1.0).contains(&backoff), "backoff", backoff, accepted)?;
        Ok(Self { backoff, ..self })
    }

    /// Takes note of a request that has ended, and returns the new limit. `in_flight` is the number of requests that
    /// were being served, including this one.
    ///
    /// ```
    /// use tollgate_controllers::Aimd;
    /// let mut controller = Aimd::new(20, 10..=200)?;
    /// // Of 20 places 9 were in use.
    /// assert_eq!(controller.update(9, false), 20);
    /// # Ok::<(), tollgate_controllers::ControllerError>(())
    /// ```
    pub fn update(&mut self, in_flight: u64, dropped: bool) -> u64 {
        if dropped {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a part of the limit, rounded down"
            )]
            let less = (self.limit as f64 * self.backoff) as u64;
            // The limit falls by at least one, because a tenth of a small limit may round to 0.
            self.limit = less.min(self.limit - 1).max(self.range.least);
        } else if in_flight >= self.limit.div_ceil(2) {
            self.limit = self.limit.saturating_add(1).min(self.range.most);
        }
        self.limit
    }

    /// The number of requests that may be served at once.
    ///
    /// ```
    /// assert_eq!(tollgate_controllers::Aimd::new(20, 10..=200)?.limit(), 20);
    /// # Ok::<(), tollgate_controllers::ControllerError>(())
    /// ```
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The share of the limit that is free, 0 to 1.
    ///
    /// ```
    /// assert_eq!(tollgate_controllers::Aimd::new(20, 10..=200)?.headroom(15), 0.25);
    /// # Ok::<(), tollgate_controllers::ControllerError>(())
    /// ```
    #[must_use]
    pub fn headroom(&self, in_flight: u64) -> f64 {
        headroom(self.limit, in_flight)
    }
}
