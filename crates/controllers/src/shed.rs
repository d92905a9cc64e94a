//! [`ClientThrottle`] and [`AdmissionControl`]: the share of requests to shed, from the outcome of earlier ones.

use std::time::Duration;

use crate::error::ControllerError;

/// The probability with which a client should not even send a request, from the number that its backend accepted.
///
/// ```text
/// p = max(0, (requests - K * accepts) / (requests + 1))
/// ```
///
/// `requests` and `accepts` cover the same recent span of time, for example the last two minutes. Count every request
/// before it is sent, and also each request that is then not sent: otherwise a client that sends nothing would never
/// notice that its backend is back. K is the number of requests that the backend may see for each one that it accepts.
/// A K of 2 wastes some of the backend's work to notice a recovery early; a K of 1.1 wastes little.
///
/// Source: Beyer et al. (ed.), *Site Reliability Engineering*, 2016, chapter 21, "Client-Side Throttling".
///
/// ```
/// use tollgate_controllers::ClientThrottle;
/// let throttle = ClientThrottle::new(2.0)?;
/// assert_eq!(throttle.probability(100, 50), 0.0);
/// assert_eq!(throttle.probability(100, 25), 50.0 / 101.0);
/// # Ok::<(), tollgate_controllers::ControllerError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientThrottle {
    multiplier: f64,
}

impl ClientThrottle {
    /// A throttle with this K, which is usually 2.
    ///
    /// # Errors
    /// Fails if K is below 1, because requests would be shed although all are accepted, or if K is infinite or not a
    /// number.
    ///
    /// ```
    /// use tollgate_controllers::ClientThrottle;
    /// assert!(ClientThrottle::new(1.1).is_ok());
    /// assert!(ClientThrottle::new(f64::NAN).is_err());
    /// ```
    pub fn new(multiplier: f64) -> Result<Self, ControllerError> {
        let is_right = multiplier.is_finite() && multiplier >= 1.0;
        ControllerError::unless(is_right, "multiplier", multiplier, "1 or more")?;
        Ok(Self { multiplier })
    }

    /// The probability with which the next request is to be shed, 0 to 1. If `accepts` exceeds `requests`, all count as
    /// accepted.
    ///
    /// ```
    /// use tollgate_controllers::ClientThrottle;
    /// assert_eq!(ClientThrottle::new(2.0)?.probability(0, 0), 0.0);
    /// # Ok::<(), tollgate_controllers::ControllerError>(())
    /// ```
    #[must_use]
    pub fn probability(&self, requests: u64, accepts: u64) -> f64 {
        let (requests, accepts) = (requests as f64, accepts as f64);
        ((requests - self.multiplier * accepts) / (requests + 1.0)).max(0.0)
    }
}

/// The probability with which a proxy should shed a request, from the number that succeeded.
///
/// ```text
/// p = max(0, (requests - successes / threshold) / (requests + 1)) ^ (1 / aggression)
/// ```
///
/// Nothing is shed while at least `threshold` of all requests succeed, nor while there are too few requests to judge.
/// The probability is bounded, so that some requests get through and show a recovery.
///
/// Source: Envoy's admission control filter, with its defaults: threshold 0.95, aggression 1, a probability of at most
/// 0.8, and no minimum rate of requests.
///
/// ```
/// use std::time::Duration;
/// use tollgate_controllers::AdmissionControl;
/// let control = AdmissionControl::new(0.95)?;
/// let window = Duration::from_secs(30);
/// assert_eq!(control.probability(100, 95, window), 0.0);
/// assert_eq!(control.probability(100, 0, window), 0.8);
/// # Ok::<(), tollgate_controllers::ControllerError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdmissionControl {
    threshold: f64,
    aggression: f64,
    most: f64,
    least_rate: f64,
}

impl AdmissionControl {
    /// A control that sheds while fewer than this share of all requests succeed.
    ///
    /// # Errors
    /// Fails if the share is 0 or below, above 1, or not a number.
    ///
    /// ```
    /// use tollgate_controllers::AdmissionControl;
    /// assert!(AdmissionControl::new(0.95).is_ok());
    /// assert!(AdmissionControl::new(0.0).is_err());
    /// ```
    pub fn new(threshold: f64) -> Result<Self, ControllerError> {
        let is_right = threshold > 0.0 && threshold <= 1.0;
        ControllerError::unless(is_right, "threshold", threshold, "more than 0, and at most 1")?;
        Ok(Self { threshold, aggression: 1.0, most: 0.8, least_rate: 0.0 })
    }

    /// Sets the aggression, which is 1 by default. A higher aggression sheds more while only few requests fail.
    ///
    /// # Errors
    /// Fails if the aggression is below 1, infinite, or not a number.
    ///
    /// ```
    /// use tollgate_controllers::AdmissionControl;
    /// assert!(AdmissionControl::new(0.95)?.aggression(2.0).is_ok());
    /// assert!(AdmissionControl::new(0.95)?.aggression(0.5).is_err());
    /// # Ok::<(), tollgate_controllers::ControllerError>(())
    /// ```
    pub fn aggression(self, aggression: f64) -> Result<Self, ControllerError> {
        let is_right = aggression.is_finite() && aggression >= 1.0;
        ControllerError::unless(is_right, "aggression", aggression, "1 or more")?;
        Ok(Self { aggression, ..self })
    }

    /// Sets the maximum probability, which is 0.8 by default.
    ///
    /// # Errors
    /// Fails if the probability is below 0, above 1, or not a number.
    ///
    /// ```
    /// use tollgate_controllers::AdmissionControl;
    /// assert!(AdmissionControl::new(0.95)?.at_most(1.0).is_ok());
    /// assert!(AdmissionControl::new(0.95)?.at_most(1.1).is_err());
    /// # Ok::<(), tollgate_controllers::ControllerError>(())
    /// ```
    pub fn at_most(self, most: f64) -> Result<Self, ControllerError> {
        let is_right = (0.0..=1.0).contains(&most);
        ControllerError::unless(is_right, "largest probability", most, "0 to 1")?;
        Ok(Self { most, ..self })
    }

    /// Sets a minimum rate: while there are fewer requests per second than this, nothing is shed.
    ///
    /// # Errors
    /// Fails if the rate is below 0, infinite, or not a number.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_controllers::AdmissionControl;
    /// let control = AdmissionControl::new(0.95)?.from_rate(5.0)?;
    /// assert_eq!(control.probability(100, 0, Duration::from_secs(30)), 0.0);
    /// # Ok::<(), tollgate_controllers::ControllerError>(())
    /// ```
    pub fn from_rate(self, per_second: f64) -> Result<Self, ControllerError> {
        let is_right = per_second.is_finite() && per_second >= 0.0;
        ControllerError::unless(is_right, "least rate", per_second, "0 or more")?;
        Ok(Self { least_rate: per_second, ..self })
    }

    /// The probability with which the next request is to be shed, 0 to 1. Both counts cover the last `window`. If
    /// `successes` exceeds `requests`, all count as succeeded.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_controllers::AdmissionControl;
    /// let control = AdmissionControl::new(0.95)?;
    /// assert_eq!(control.probability(0, 0, Duration::from_secs(30)), 0.0);
    /// # Ok::<(), tollgate_controllers::ControllerError>(())
    /// ```
    #[must_use]
    pub fn probability(&self, requests: u64, successes: u64, window: Duration) -> f64 {
        let (requests, successes) = (requests as f64, successes as f64);
        if requests < self.least_rate * window.as_secs_f64() {
            return 0.0;
        }
        let failing = (requests - successes / self.threshold) / (requests + 1.0);
        failing.max(0.0).powf(self.aggression.recip()).min(self.most)
    }
}
