//! [`LogLimiter`]: an exact sliding log, one limit that many threads share.

#[cfg(test)]
mod cost;
mod policy;
mod ring;
mod rule;
mod slots;
mod survey;
mod take;

use crate::clock::{Clock, Timestamp};
use crate::decision::Decision;
use crate::error::BuildError;
use crate::quota::Quota;
use crate::store::Store;

pub use policy::LogPolicy;
pub(crate) use ring::filled;
pub(crate) use rule::{LogRequest, LogRule};
pub(crate) use slots::{ROW_MOST, Slots, raise};

use ring::Ring;

/// An exact sliding log: at most `count` units in *any* window of the quota's period, wherever it begins.
///
/// It keeps a time for each unit of the limit. A request is admitted if the units admitted in
/// `(now - period, now]` and its own are at most the limit: a unit whose age equals the period is outside.
/// No algorithm on one word can do that; [`Limiter`](crate::Limiter) with GCRA is smaller, faster and
/// smoother, and a sliding window approximates this one.
///
/// # What it guarantees
/// * No half-open window `[t, t + period)` ever holds more than the limit, by the times that the callers
///   gave, in whatever order these came. A late or repeated `now` gets back nothing. A closed window may
///   hold twice the limit: its two ends are a period apart.
/// * A request of several units gets all of them or none.
/// * No thread waits for another, and nothing is allocated after construction.
/// * A denial takes nothing. (In a log of more than 64 units it may write down how far it need not have
///   looked.) A request for several units that loses a race for the last of them may make another request
///   be denied that came just then; it can make none be admitted.
///
/// # What it costs
/// 8 bytes for each unit of the limit. Above 64 units the slots lie in rows, with 16 bytes for each row: rows
/// of 64 for limits up to 4,096, then of about the square root of the limit, up to 1,024.
///
/// A unit is taken with one compare-and-swap, most often of the first slot that is looked at; each of several
/// with one and a store. What the decision then says of units left and waits is read from a row or two, and
/// two bounds of each other row: while times rise, as they do with a clock, a request of one unit reads at
/// most 170 words for a limit of 100 and 750 for 10,000. At worst, when callers' times leap to and fro, all
/// slots are read, and of a denied cost of several units the wait is searched for, in up to 64 rounds. A cost of all 2^20 units takes a third of a megabyte of stack.
///
/// A `now` far ahead is believed: the units that it takes are gone until time has caught up.
///
/// ```
/// use tollgate::{LogLimiter, Quota};
/// let limiter = LogLimiter::new(Quota::per_minute(100))?;
/// assert!(limiter.check().is_allowed());
/// assert_eq!(limiter.entry().peek(1).remaining(), 99);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Debug)]
pub struct LogLimiter {
    ring: Ring,
    rule: LogRule,
    clock: Clock,
}

impl LogLimiter {
    /// A log with the machine's fastest clock ([`Clock::monotonic`]): `count` units in each window as long
    /// as the quota's period.
    ///
    /// # Errors
    /// A quota whose burst is not its count: a log admits its whole count at once. More than 2^20 units,
    /// or more than there is memory for.
    ///
    /// ```
    /// use tollgate::{LogLimiter, Quota};
    /// assert!(LogLimiter::new(Quota::per_second(100)).is_ok());
    /// assert!(LogLimiter::new(Quota::per_second(100).burst(20)).is_err());
    /// ```
    pub fn new(quota: Quota) -> Result<Self, BuildError> {
        Self::with_clock(quota, Clock::monotonic())
    }

    /// A log with a clock of your choice.
    ///
    /// # Errors
    /// As [`new`](LogLimiter::new).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{LogLimiter, ManualClock, Quota};
    /// let clock = ManualClock::new();
    /// let limiter = LogLimiter::with_clock(Quota::per_minute(2), clock.clone())?;
    /// assert!(limiter.check().is_allowed());
    /// clock.advance(Duration::from_secs(50));
    /// assert!(limiter.check().is_allowed());
    /// let denial = limiter.check().into_result().unwrap_err();
    /// assert_eq!(denial.retry_after(), Some(Duration::from_secs(10)));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn with_clock(quota: Quota, clock: impl Into<Clock>) -> Result<Self, BuildError> {
        let rule = LogRule::new(quota)?;
        Ok(Self { ring: Ring::new(rule.slots)?, rule, clock: clock.into() })
    }

    /// What the limiter's clock reads: the time that [`check`](LogLimiter::check) would decide at.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Decides a request of one unit now, and charges it if it is admitted: the short form of
    /// [`check_n`](LogLimiter::check_n).
    ///
    /// ```
    /// use tollgate::{LogLimiter, Quota};
    /// let limiter = LogLimiter::new(Quota::per_hour(10))?;
    /// assert!(limiter.check().is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn check(&self) -> Decision {
        self.check_n(1)
    }

    /// Decides a request of `cost` units now, and charges it if it is admitted. A cost of 0 is a peek, and a
    /// cost above the limit never fits.
    ///
    /// ```
    /// use tollgate::{LogLimiter, Quota};
    /// let limiter = LogLimiter::new(Quota::per_hour(10))?;
    /// assert!(limiter.check_n(8).is_allowed());
    /// assert!(!limiter.check_n(5).is_allowed());
    /// assert!(limiter.check_n(2).is_allowed());
    /// assert!(limiter.check_n(11).into_result().unwrap_err().is_never());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn check_n(&self, cost: u64) -> Decision {
        self.decide(cost, None, true)
    }
}

impl Store for &LogLimiter {
    fn decide(&self, cost: u64, at: Option<Timestamp>, charge: bool) -> Decision {
        let now = at.unwrap_or_else(|| self.clock.now());
        let ask = LogRequest::new(now.as_nanos(), cost, charge);
        loop {
            // Always the first time: a ring has one owner.
            if let Some(decision) = self.rule.decide(&self.ring, ask) {
                return decision;
            }
        }
    }
}
