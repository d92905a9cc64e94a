//! [`Gradient`]: compares latency with its long-term average.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::error::ControllerError;
use crate::range::{Range, headroom};

/// The number of samples at the start that all have the same weight in the long-term average. Later samples have the
/// weight that the length of the long window gives them.
const WARM_UP: u32 = 10;

/// The factor that reduces the long-term average at each sample that is below half of the average. Without this factor
/// the recovery from a long overload would take as long as the overload.
const RECOVERY: f64 = 0.95;

/// The least gradient that a sample can give, so that an outlier does not count as an overload.
const LEAST_GRADIENT: f64 = 0.5;

/// Compares each latency with the long-term average of latencies. If requests take longer than before, they are waiting
/// for each other, so the limit shrinks.
///
/// ```text
/// gradient = clamp(tolerance * long / latency, 0.5, 1)
/// target   = limit * gradient,  and + queue if the gradient is 1
/// limit    = limit * (1 - smoothing) + target * smoothing
/// ```
///
/// The limit does not change while less than half of it is in use. Source: Netflix's `concurrency-limits`,
/// `Gradient2Limit`, with its parameters: tolerance 1.5, smoothing 0.2, queue 4, a long window of 600 samples. One
/// thing differs. In the source the queue is added at every gradient, so that a limit of 8 *grows* although latency has
/// doubled (its issue 134). Here the queue is added only if the gradient is 1. With a long-term average of 10 ms and a
/// latency of 30 ms, a limit of 100 becomes 90 here, and 90.8 in the source.
///
/// ```
/// use std::time::Duration;
/// use tollgate_controllers::Gradient;
/// let mut controller = Gradient::new(100, 20..=200)?;
/// for _ in 0..10 {
///     controller.update(Duration::from_millis(10), 20);
/// }
/// assert_eq!(controller.limit(), 100);
/// // The latency has tripled.
/// assert!(controller.update(Duration::from_millis(30), 100) < 100);
/// # Ok::<(), tollgate_controllers::ControllerError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Gradient {
    estimate: f64,
    range: Range,
    tolerance: f64,
    smoothing: f64,
    queue: f64,
    long_window: u32,
    /// The long-term average in seconds. It means nothing before the first sample.
    long: f64,
    samples: u32,
}

impl Gradient {
    /// A controller that starts at `initial` and stays within `range`.
    ///
    /// # Errors
    /// Fails if the range starts at 0 or does not contain the initial limit.
    ///
    /// ```
    /// use tollgate_controllers::Gradient;
    /// assert_eq!(Gradient::new(20, 20..=200)?.limit(), 20);
    /// assert!(Gradient::new(20, 0..=200).is_err());
    /// # Ok::<(), tollgate_controllers::ControllerError>(())
    /// ```
    pub fn new(initial: u64, range: RangeInclusive<u64>) -> Result<Self, ControllerError> {
        Ok(Self {
            estimate: initial as f64,
            range: Range::holding(initial, range)?,
            tolerance: 1.5,
            smoothing: 0.2,
            queue: 4.0,
            long_window: 600,
            long: 0.0,
            samples: 0,
        })
    }

    /// Sets the tolerance, which is 1.5 by default: latencies up to this many times the average are no sign of a queue.
    ///
    /// # Errors
    /// Fails if the tolerance is below 1, infinite, or not a number.
    ///
    /// ```
    /// use tollgate_controllers::Gradient;
    /// assert!(Gradient::new(20, 20..=200)?.tolerance(2.0).is_ok());
    /// assert!(Gradient::new(20, 20..=200)?.tolerance(f64::INFINITY).is_err());
    /// # Ok::<(), tollgate_controllers::ControllerError>(())
    /// ```
    pub fn tolerance(self, tolerance: f64) -> Result<Self, ControllerError> {
        let is_right = tolerance.is_finite() && tolerance >= 1.0;
        ControllerError::unless(is_right, "tolerance", tolerance, "1 or more")?;
        Ok(Self { tolerance, ..self })
    }

    /// Sets the smoothing, which is 0.2 by default. Each sample moves the limit by this share of the way to the target.
    ///
    /// # Errors
    /// Fails if the share is 0 or below, above 1, or not a number.
    ///
    /// ```
    /// use tollgate_controllers::Gradient;
    /// assert!(Gradient::new(20, 20..=200)?.smoothing(1.0).is_ok());
    /// assert!(Gradient::new(20, 20..=200)?.smoothing(0.0).is_err());
    /// # Ok::<(), tollgate_controllers::ControllerError>(())
    /// ```
    pub fn smoothing(self, smoothing: f64) -> Result<Self, ControllerError> {
        let is_right = smoothing > 0.0 && smoothing <= 1.0;
        ControllerError::unless(is_right, "smoothing", smoothing, "more than 0, and at most 1")?;
        Ok(Self { smoothing, ..self })
    }

    /// Sets the queue, which is 4 by default. While the gradient is 1, the target is this much above the limit.
    ///
    /// # Errors
    /// Fails if the queue is 0 or below, because the limit would never grow, or if it is infinite or not a number.
    ///
    /// ```
    /// use tollgate_controllers::Gradient;
    /// assert!(Gradient::new(20, 20..=200)?.queue(10.0).is_ok());
    /// assert!(Gradient::new(20, 20..=200)?.queue(f64::NAN).is_err());
    /// # Ok::<(), tollgate_controllers::ControllerError>(())
    /// ```
    pub fn queue(self, queue: f64) -> Result<Self, ControllerError> {
        let is_right = queue.is_finite() && queue > 0.0;
        ControllerError::unless(is_right, "queue", queue, "more than 0, and finite")?;
        Ok(Self { queue, ..self })
    }

    /// Sets the length of the long window, which is 600 samples by default.
    ///
    /// # Errors
    /// Fails if the window has 0 samples.
    ///
    /// ```
    /// use tollgate_controllers::Gradient;
    /// assert!(Gradient::new(20, 20..=200)?.long_window(100).is_ok());
    /// assert!(Gradient::new(20, 20..=200)?.long_window(0).is_err());
    /// # Ok::<(), tollgate_controllers::ControllerError>(())
    /// ```
    pub fn long_window(self, samples: u32) -> Result<Self, ControllerError> {
        ControllerError::unless(
            samples > 0,
            "long window",
            f64::from(samples),
            "1 or more samples",
        )?;
        Ok(Self { long_window: samples, ..self })
    }

    /// Takes note of a latency (of one request, or the average of some), and returns the new limit. `in_flight` is the
    /// number of requests that were being served. A latency of zero is ignored.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_controllers::Gradient;
    /// let mut controller = Gradient::new(20, 20..=200)?;
    /// controller.update(Duration::from_millis(5), 20);
    /// controller.update(Duration::from_millis(5), 20);
    /// assert_eq!(controller.limit(), 21);
    /// # Ok::<(), tollgate_controllers::ControllerError>(())
    /// ```
    pub fn update(&mut self, latency: Duration, in_flight: u64) -> u64 {
        let short = latency.as_secs_f64();
        if short > 0.0 {
            let long = self.average(short);
            if long > 2.0 * short {
                self.long *= RECOVERY;
            }
            if in_flight as f64 >= self.estimate / 2.0 {
                self.estimate = self.next(long, short);
            }
        }
        self.limit()
    }

    /// Adds a sample to the long-term average, and returns the average.
    fn average(&mut self, short: f64) -> f64 {
        let weight = if self.samples < WARM_UP {
            self.samples += 1;
            1.0 / f64::from(self.samples)
        } else {
            2.0 / (f64::from(self.long_window) + 1.0)
        };
        self.long += (short - self.long) * weight;
        self.long
    }

    /// The next estimate. This is a pure function.
    fn next(&self, long: f64, short: f64) -> f64 {
        let gradient = (self.tolerance * long / short).clamp(LEAST_GRADIENT, 1.0);
        let queue = if gradient < 1.0 { 0.0 } else { self.queue };
        let target = self.estimate * gradient + queue;
        self.range.clamp(self.estimate * (1.0 - self.smoothing) + target * self.smoothing)
    }

    /// The number of requests that may be served at once.
    ///
    /// ```
    /// assert_eq!(tollgate_controllers::Gradient::new(20, 20..=200)?.limit(), 20);
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
    /// assert_eq!(tollgate_controllers::Gradient::new(20, 20..=200)?.headroom(30), 0.0);
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

    fn at(estimate: u64) -> Gradient {
        Gradient::new(estimate, 20..=200).expect("in range")
    }

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-9
    }

    #[test]
    fn v58_the_published_steps_without_their_fault() {
        // Each row has the limit, the long-term average and the latest latency in ms, the next limit as published, and
        // ours. Below a gradient of 1 ours adds no queue.
        for (from, long, short, published, ours) in [
            (20, 10.0, 10.0, 20.8, 20.8),
            (100, 10.0, 30.0, 90.8, 90.0),
            (100, 10.0, 20.0, 95.8, 95.0),
        ] {
            let controller = at(from);
            let found = controller.next(long, short);
            assert!(near(found, ours), "{from}: {found}");
            let queue = if near(ours, published) { 0.0 } else { controller.queue };
            assert!(near(found + controller.smoothing * queue, published));
        }
    }

    #[test]
    fn a_small_limit_does_not_climb_while_latency_has_doubled() {
        let mut small = Gradient::new(8, 1..=200).expect("in range");
        for _ in 0..100 {
            let next = small.next(10.0, 20.0);
            assert!(next < small.estimate || near(next, 1.0), "{next}");
            small.estimate = next;
        }
        assert_eq!(small.limit(), 1);
    }

    #[test]
    fn the_long_term_average_warms_up_evenly_and_then_forgets_by_its_window() {
        let mut controller = at(100).long_window(19).expect("a window");
        for (n, sample) in (1..=10).zip([2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0, 20.0]) {
            assert!(near(controller.average(sample), f64::from(n) + 1.0));
        }
        // The average moves by 2 / (19 + 1) of the way to the new sample.
        assert!(near(controller.average(21.0), 12.0));
    }

    #[test]
    fn an_average_far_above_the_samples_comes_down_faster() {
        let mut controller = at(100);
        let ms = Duration::from_millis;
        (0..10).for_each(|_| _ = controller.update(ms(100), 10));
        assert!(near(controller.long, 0.1));
        controller.update(ms(10), 10);
        assert!(near(controller.long, (0.1 - 0.09 * 2.0 / 601.0) * RECOVERY));
        (0..60).for_each(|_| _ = controller.update(ms(10), 10));
        assert!(controller.long < 0.021, "{}", controller.long);
    }
}
