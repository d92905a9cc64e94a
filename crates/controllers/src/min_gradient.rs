//! [`MinGradient`]: compares latency with the least latency that was measured.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::error::ControllerError;
use crate::range::{Range, headroom};

/// Compares each latency with the latency of an idle server, which is measured now and then at a fixed, low
/// concurrency.
///
/// ```text
/// gradient = clamp(least * (1 + buffer) / latency, 0.5, 2)
/// limit    = limit * gradient + sqrt(limit)
/// ```
///
/// Unlike [`Gradient`](super::Gradient) it has a fixed baseline, which does not rise with a lasting overload. But the
/// caller must set that baseline, and set it again when the service changes. One step may more than double the limit.
/// The square root leaves room for bursts, and grows with the limit.
///
/// Source: Envoy's adaptive concurrency filter, as its documentation states it, with its default buffer of
/// 25 %. (Its code takes the square root of `limit * gradient`, which is a little less while latency is high.)
///
/// ```
/// use std::time::Duration;
/// use tollgate_controllers::MinGradient;
/// let mut controller = MinGradient::new(100, 3..=1_000)?;
/// controller.set_least(Duration::from_millis(10));
/// assert_eq!(controller.update(Duration::from_millis(20)), 72);
/// # Ok::<(), tollgate_controllers::ControllerError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MinGradient {
    estimate: f64,
    range: Range,
    buffer: f64,
    /// The latency of an idle server in seconds; 0 until it is set.
    least: f64,
}

impl MinGradient {
    /// A controller that starts at `initial` and stays within `range`.
    ///
    /// # Errors
    /// Fails if the range starts at 0 or does not contain the initial limit.
    ///
    /// ```
    /// use tollgate_controllers::MinGradient;
    /// assert!(MinGradient::new(3, 3..=1_000).is_ok());
    /// assert!(MinGradient::new(2, 3..=1_000).is_err());
    /// # Ok::<(), tollgate_controllers::ControllerError>(())
    /// ```
    pub fn new(initial: u64, range: RangeInclusive<u64>) -> Result<Self, ControllerError> {
        let estimate = initial as f64;
        let range = Range::holding(initial, range)?;
        Ok(Self { estimate, range, buffer: 0.25, least: 0.0 })
    }

    /// Sets the buffer, which is 0.25 by default: latencies that exceed the least latency by up to this share are no
    /// sign of a queue.
    ///
    /// # Errors
    /// Fails if the buffer is below 0, infinite, or not a number.
    ///
    /// ```
    /// use tollgate_controllers::MinGradient;
    /// assert!(MinGradient::new(3, 3..=1_000)?.buffer(0.0).is_ok());
    /// assert!(MinGradient::new(3, 3..=1_000)?.buffer(-0.1).is_err());
    /// # Ok::<(), tollgate_controllers::ControllerError>(())
    /// ```
    pub fn buffer(self, buffer: f64) -> Result<Self, ControllerError> {
        let is_right = buffer.is_finite() && buffer >= 0.0;
        ControllerError::unless(is_right, "buffer", buffer, "0 or more")?;
        Ok(Self { buffer, ..self })
    }

    /// Sets the time that a request takes on an idle server. Zero is ignored. Until this is set, updates change
    /// nothing.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_controllers::MinGradient;
    /// let mut controller = MinGradient::new(100, 3..=1_000)?;
    /// assert_eq!(controller.update(Duration::from_millis(20)), 100);
    /// controller.set_least(Duration::from_millis(20));
    /// assert_eq!(controller.update(Duration::from_millis(20)), 135);
    /// # Ok::<(), tollgate_controllers::ControllerError>(())
    /// ```
    pub fn set_least(&mut self, latency: Duration) {
        if !latency.is_zero() {
            self.least = latency.as_secs_f64();
        }
    }

    /// Takes note of a latency (a quantile over some time), and returns the new limit. Zero is ignored.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_controllers::MinGradient;
    /// let mut controller = MinGradient::new(100, 3..=1_000)?;
    /// controller.set_least(Duration::from_millis(10));
    /// assert_eq!(controller.update(Duration::from_secs(5)), 60);
    /// # Ok::<(), tollgate_controllers::ControllerError>(())
    /// ```
    pub fn update(&mut self, latency: Duration) -> u64 {
        let latency = latency.as_secs_f64();
        if latency > 0.0 && self.least > 0.0 {
            self.estimate = self.next(self.least, latency);
        }
        self.limit()
    }

    /// The next estimate. This is a pure function.
    fn next(&self, least: f64, latency: f64) -> f64 {
        let gradient = (least * (1.0 + self.buffer) / latency).clamp(0.5, 2.0);
        self.range.clamp(self.estimate * gradient + self.estimate.sqrt())
    }

    /// The number of requests that may be served at once.
    ///
    /// ```
    /// assert_eq!(tollgate_controllers::MinGradient::new(3, 3..=1_000)?.limit(), 3);
    /// # Ok::<(), tollgate_controllers::ControllerError>(())
    /// ```
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within the range, and rounded down"
    )]
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.estimate as u64
    }

    /// The share of the limit that is free, 0 to 1.
    ///
    /// ```
    /// assert_eq!(tollgate_controllers::MinGradient::new(10, 3..=1_000)?.headroom(5), 0.5);
    /// # Ok::<(), tollgate_controllers::ControllerError>(())
    /// ```
    #[must_use]
    pub fn headroom(&self, in_flight: u64) -> f64 {
        headroom(self.limit(), in_flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v57_the_published_step() {
        let controller = MinGradient::new(100, 3..=1_000).expect("in range");
        let near = |found: f64, expected: f64| (found - expected).abs() < 1e-9;
        assert!(near(controller.next(10.0, 20.0), 72.5));
        // The gradient is clamped to the range from a half to two.
        assert!(near(controller.next(10.0, 1e9), 60.0));
        assert!(near(controller.next(10.0, 1e-9), 210.0));
    }
}
