//! [`Limiter`]: one limit that many threads share.

use crossbeam_utils::CachePadded;

use crate::cell::Cell;
use crate::clock::{Clock, Timestamp};
use crate::decision::Decision;
use crate::meter::Meter;
use crate::policy::Policy;
use crate::verb::Verb;
use crate::word::Word;

/// One limit shared by all threads that hold a reference to it.
///
/// The state is a single atomic word on its own cache line. A decision is one load and, if admitted,
/// one compare-and-swap; a denial writes nothing, unless the policy counts denials
/// ([`AtLimit`](crate::AtLimit)). No thread ever waits for another.
///
/// Time given to one limiter may jump or run backward: stored time never falls, so a late or repeated
/// `now` gets back nothing that was spent. (Windows place it at the start of the window in force.)
///
/// ```
/// use tollgate::{Limiter, Quota};
/// let limiter = Limiter::new(Quota::per_second(100).burst(20));
/// assert!(limiter.check(1).is_allowed());
/// assert_eq!(limiter.entry().peek(1).remaining(), 19);
/// ```
#[derive(Debug)]
pub struct Limiter {
    pub(crate) cell: CachePadded<Cell>,
    pub(crate) meter: Meter,
    pub(crate) clock: Clock,
    pub(crate) policy: Policy,
}

impl Limiter {
    /// A limiter with the machine's fastest clock ([`Clock::monotonic`]; [`Clock::unix`] for calendar months).
    ///
    /// ```
    /// use tollgate::{Limiter, Policy};
    /// let limiter = Limiter::new("fixed-window 100/m".parse::<Policy>()?);
    /// assert!(limiter.check(1).is_allowed());
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    #[must_use]
    pub fn new(policy: impl Into<Policy>) -> Self {
        let policy = policy.into();
        Self::with_clock(policy, Policy::clock_for([&policy]))
    }

    /// A limiter with a clock of your choice.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let clock = ManualClock::new();
    /// let limiter = Limiter::with_clock(Quota::per_second(5), clock.clone());
    /// assert!(limiter.check(5).is_allowed());
    /// assert!(!limiter.check(1).is_allowed());
    /// ```
    #[must_use]
    pub fn with_clock(policy: impl Into<Policy>, clock: impl Into<Clock>) -> Self {
        Self::holding(Word::UNUSED, policy.into(), clock.into())
    }

    /// A limiter that goes on from a word.
    pub(crate) fn holding(word: Word, policy: Policy, clock: Clock) -> Self {
        let cell = CachePadded::new(Cell::new(word));
        Self { cell, meter: Meter::new(policy), clock, policy }
    }

    /// What it enforces.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// What the limiter's clock reads: the time that [`check`](Limiter::check) would decide at.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Decides a request of `cost` units now, and charges it if it is admitted. A cost of 0 is a peek.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(2));
    /// assert!(limiter.check(2).is_allowed());
    /// assert!(!limiter.check(1).is_allowed());
    /// ```
    #[inline]
    pub fn check(&self, cost: u64) -> Decision {
        self.cell.check(&self.meter, self.clock.now(), cost)
    }

    #[inline(always)]
    pub(crate) fn ask(&self, verb: Verb, cost: u64, now: Timestamp, charge: bool) -> Decision {
        match verb {
            Verb::Check if charge => self.cell.check(&self.meter, now, cost),
            Verb::Check => self.cell.peek(&self.meter, now, cost),
            _ => self.cell.wish(&self.meter, now, verb, cost),
        }
    }
}
