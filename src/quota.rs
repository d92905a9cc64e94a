//! [`Quota`]: a rate and a burst. All checks of their numbers are in this file.

use std::fmt;
use std::time::Duration;

use crate::clock::LATEST_NS;
use crate::error::PolicyError;
use crate::period::period;

/// A rate and a burst, validated: `count` units per `period`, and at most `burst` units at one instant.
///
/// The *burst* is the largest number of units that is admitted at once after a long rest, including the first unit.
/// Without [`burst`](Quota::burst) it equals the count.
///
/// Every `Quota` value can be computed exactly: numbers that would overflow or would have to be rounded are refused
/// when it is built. The constructors panic on bad numbers, which in a `const` is a compile error. For numbers that are
/// not known at compile time, use [`try_per`](Quota::try_per) and [`try_burst`](Quota::try_burst), which return a
/// [`PolicyError`].
///
/// Bounds: count and burst at least 1; period from 1 ns to 584 years (`u64::MAX` ns); at most about 2.2e9 units per
/// second; burst below 2^63.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Quota;
///
/// const API: Quota = Quota::per_second(100).burst(20);
/// assert_eq!(API.count(), 100);
/// assert_eq!(API.period(), Duration::from_secs(1));
/// assert_eq!(API.max_burst(), 20);
/// assert_eq!(Quota::per_minute(10).max_burst(), 10);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quota {
    count: u64,
    period_ns: u64,
    burst: u64,
}

impl Quota {
    /// A quota of `count` units per `period`.
    ///
    /// # Panics
    /// Panics if [`try_per`](Quota::try_per) would refuse the numbers. In a `const` this is a compile error.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Quota;
    /// let quota = Quota::per(3, Duration::from_millis(250));
    /// assert_eq!(quota.count(), 3);
    /// ```
    #[must_use]
    #[track_caller]
    pub const fn per(count: u64, period: Duration) -> Self {
        match Self::checked(count, period) {
            Ok(quota) => quota,
            Err(reason) => panic!("{}", reason),
        }
    }

    /// A quota of `count` units per `period`, for numbers that are not known at compile time.
    ///
    /// # Errors
    /// Returns an error if the count or the period is zero, if the period is beyond 584 years, or if the rate is above
    /// about 2.2e9 per second.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Quota;
    /// let error = Quota::try_per(1, Duration::ZERO).unwrap_err();
    /// assert_eq!(error.to_string(), "period 0 would be an infinite rate; it must be at least 1ns");
    /// ```
    pub const fn try_per(count: u64, period: Duration) -> Result<Self, PolicyError> {
        match Self::checked(count, period) {
            Ok(quota) => Ok(quota),
            Err(reason) => Err(PolicyError::fixed(reason)),
        }
    }

    /// The quota, or the reason why it is refused. The reason is a `&str`, because a `&str` can be dropped in a `const`
    /// and an error cannot.
    const fn checked(count: u64, period: Duration) -> Result<Self, &'static str> {
        if count == 0 {
            return Err("count 0 would admit nothing; it must be at least 1");
        }
        let period_ns = period.as_nanos();
        if period_ns == 0 {
            return Err("period 0 would be an infinite rate; it must be at least 1ns");
        }
        if period_ns > u64::MAX as u128 {
            return Err("the period is too long; it must be at most 584 years");
        }
        #[expect(clippy::cast_possible_truncation, reason = "compared with u64::MAX just above")]
        // The burst is 1 here, so only the rate can be too large.
        let quota = Self { count, period_ns: period_ns as u64, burst: 1 };
        if quota.unit_bits().is_none() {
            // The rate is so high that a word cannot count its ticks until the latest time.
            return Err(
                "the rate is too high to be counted exactly; it must be at most 2.2e9 units per second",
            );
        }
        quota.with_burst(count)
    }

    /// A quota of `count` units per second.
    ///
    /// # Panics
    /// As [`per`](Quota::per).
    #[must_use]
    #[track_caller]
    pub const fn per_second(count: u64) -> Self {
        Self::per(count, Duration::from_secs(1))
    }

    /// A quota of `count` units per minute.
    ///
    /// # Panics
    /// As [`per`](Quota::per).
    #[must_use]
    #[track_caller]
    pub const fn per_minute(count: u64) -> Self {
        Self::per(count, Duration::from_secs(60))
    }

    /// A quota of `count` units per hour.
    ///
    /// # Panics
    /// As [`per`](Quota::per).
    #[must_use]
    #[track_caller]
    pub const fn per_hour(count: u64) -> Self {
        Self::per(count, Duration::from_secs(3_600))
    }

    /// A quota of `count` units per day of 24 hours.
    ///
    /// # Panics
    /// As [`per`](Quota::per).
    #[must_use]
    #[track_caller]
    pub const fn per_day(count: u64) -> Self {
        Self::per(count, Duration::from_secs(86_400))
    }

    /// The same rate with another burst: the largest number of units that is admitted at one instant after a long rest.
    ///
    /// # Panics
    /// Panics if [`try_burst`](Quota::try_burst) would refuse the number.
    #[must_use]
    #[track_caller]
    pub const fn burst(self, burst: u64) -> Self {
        match self.with_burst(burst) {
            Ok(quota) => quota,
            Err(reason) => panic!("{}", reason),
        }
    }

    /// The same rate with another burst, for a number that is not known at compile time.
    ///
    /// # Errors
    /// Returns an error if the burst is zero, which would never admit anything, or is 2^63 or more, which cannot be
    /// counted.
    ///
    /// ```
    /// let error = tollgate::Quota::per_second(1).try_burst(0).unwrap_err();
    /// assert_eq!(error.to_string(), "burst 0 would admit nothing; it must be at least 1");
    /// ```
    pub const fn try_burst(self, burst: u64) -> Result<Self, PolicyError> {
        match self.with_burst(burst) {
            Ok(quota) => Ok(quota),
            Err(reason) => Err(PolicyError::fixed(reason)),
        }
    }

    const fn with_burst(self, burst: u64) -> Result<Self, &'static str> {
        if burst == 0 {
            return Err("burst 0 would admit nothing; it must be at least 1");
        }
        let quota = Self { burst, ..self };
        match quota.unit_bits() {
            Some(_) => Ok(quota),
            // The rate alone did fit when the quota was made, so the burst is too large.
            None => Err("the burst is too large to be counted exactly; it must be below 2^63"),
        }
    }

    /// The number of units that come back in each period.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The time in which [`count`](Quota::count) units come back.
    #[must_use]
    pub const fn period(&self) -> Duration {
        Duration::from_nanos(self.period_ns)
    }

    /// The largest number of units that is admitted at one instant after a long rest, including the first unit.
    #[must_use]
    pub const fn max_burst(&self) -> u64 {
        self.burst
    }

    pub(crate) const fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// The finest ticks with which a word without a key can count this quota: the largest k for which 2^k ticks in a
    /// unit fit in the word. `None` if not even one tick in a unit fits.
    ///
    /// The latest time in a word is the sum of two numbers: the ticks until [`LATEST_NS`], and the burst in ticks. Both
    /// numbers must stay below 2^63, so that their sum does not wrap.
    pub(crate) const fn unit_bits(&self) -> Option<u8> {
        // Tests the ticks until the latest time, with one tick in a unit.
        if self.count as u128 * LATEST_NS as u128 / self.period_ns as u128 >= 1 << 63 {
            return None;
        }
        // Tests the burst in the same ticks.
        if self.burst >= 1 << 63 {
            return None;
        }
        // The number of ticks in a unit is doubled as long as both numbers stay below 2^63. It is at most 2^62, which
        // is possible for a burst of 1.
        let mut bits = 0;
        while bits < 62
            && ((self.count as u128) << (bits + 1)).saturating_mul(LATEST_NS as u128)
                / (self.period_ns as u128)
                < 1 << 63
            && (self.burst as u128) << (bits + 1) < 1 << 63
        {
            bits += 1;
        }
        Some(bits)
    }
}

/// Prints the quota in the form of a policy's text: `100/s burst 20`.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.count, period(self.period_ns, ""))?;
        if self.burst != self.count { write!(f, " burst {}", self.burst) } else { Ok(()) }
    }
}

impl fmt::Debug for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quota({self})")
    }
}
