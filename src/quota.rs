//! [`Quota`]: a rate and a burst. Only this file refuses bad numbers for them.

use std::fmt;
use std::time::Duration;

use crate::clock::LATEST_NS;
use crate::error::PolicyError;
use crate::period::period;

/// A rate and a burst, validated: `count` units per `period`, and at most `burst` units at one instant.
///
/// *Burst* is the most that is admitted at once from rest, the first unit included. Without
/// [`burst`](Quota::burst) it equals the count.
///
/// A quota that exists can be computed exactly: everything that could overflow or would have to be rounded is refused
/// when it is built. The constructors panic on bad numbers, which in a `const` is a compile error;
/// [`try_per`](Quota::try_per) and [`try_burst`](Quota::try_burst) return a [`PolicyError`] and are meant for numbers
/// that are not known at compile time.
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
    /// `count` units per `period`.
    ///
    /// # Panics
    /// If [`try_per`](Quota::try_per) would refuse the numbers. In a `const` this is a compile error.
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

    /// `count` units per `period`, for numbers that come from outside.
    ///
    /// # Errors
    /// A count or period of zero, a period beyond 584 years, or a rate above about 2.2e9 per second.
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

    /// The quota, or the reason of its refusal. The reason is a text because a text can be dropped in a `const`, and
    /// an error cannot.
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
        // With the least burst, only the rate can fail to fit.
        let quota = Self { count, period_ns: period_ns as u64, burst: 1 };
        if quota.unit_bits().is_none() {
            // The rate is too fast for a word to count its ticks until the latest time.
            return Err(
                "the rate is too high to be counted exactly; it must be at most 2.2e9 units per second",
            );
        }
        quota.with_burst(count)
    }

    /// `count` units per second.
    ///
    /// # Panics
    /// As [`per`](Quota::per).
    #[must_use]
    #[track_caller]
    pub const fn per_second(count: u64) -> Self {
        Self::per(count, Duration::from_secs(1))
    }

    /// `count` units per minute.
    ///
    /// # Panics
    /// As [`per`](Quota::per).
    #[must_use]
    #[track_caller]
    pub const fn per_minute(count: u64) -> Self {
        Self::per(count, Duration::from_secs(60))
    }

    /// `count` units per hour.
    ///
    /// # Panics
    /// As [`per`](Quota::per).
    #[must_use]
    #[track_caller]
    pub const fn per_hour(count: u64) -> Self {
        Self::per(count, Duration::from_secs(3_600))
    }

    /// `count` units per day of 24 hours.
    ///
    /// # Panics
    /// As [`per`](Quota::per).
    #[must_use]
    #[track_caller]
    pub const fn per_day(count: u64) -> Self {
        Self::per(count, Duration::from_secs(86_400))
    }

    /// The same rate with another burst: the most units admitted at one instant from rest.
    ///
    /// # Panics
    /// If [`try_burst`](Quota::try_burst) would refuse the number.
    #[must_use]
    #[track_caller]
    pub const fn burst(self, burst: u64) -> Self {
        match self.with_burst(burst) {
            Ok(quota) => quota,
            Err(reason) => panic!("{}", reason),
        }
    }

    /// The same rate with another burst, for a number that comes from outside.
    ///
    /// # Errors
    /// A burst of zero would admit nothing, ever; one of 2^63 or more cannot be counted.
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
            // The rate alone fitted when the quota was made, so the burst does not fit.
            None => Err("the burst is too large to be counted exactly; it must be below 2^63"),
        }
    }

    /// Units that come back in each period.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The time in which [`count`](Quota::count) units come back.
    #[must_use]
    pub const fn period(&self) -> Duration {
        Duration::from_nanos(self.period_ns)
    }

    /// The most units admitted at one instant from rest, the first one included.
    #[must_use]
    pub const fn max_burst(&self) -> u64 {
        self.burst
    }

    pub(crate) const fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// The finest ticks an un-keyed word can count this quota in: the largest k for which one unit may
    /// be 2^k ticks. `None` if not even whole units fit.
    ///
    /// A word must have room for the latest time, which is the sum of two numbers: the ticks that pass until
    /// [`LATEST_NS`], and the burst. Both must stay below 2^63, so that their sum does not wrap.
    pub(crate) const fn unit_bits(&self) -> Option<u8> {
        // The ticks until the latest time, if one unit is one tick.
        if self.count as u128 * LATEST_NS as u128 / self.period_ns as u128 >= 1 << 63 {
            return None;
        }
        // The sum of these ticks and the burst must not wrap.
        if self.burst >= 1 << 63 {
            return None;
        }
        // The ticks of a unit are doubled as long as both stay below 2^63. For a burst of 1 they reach at most 2^62.
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

/// Prints the quota as [`Policy`](crate::Policy) text reads it: `100/s burst 20`.
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
