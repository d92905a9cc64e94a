//! [`Policy`]: a quota and the algorithm that enforces it.

mod at_limit;
mod calendar;
mod check;
mod compile;
mod hint;
mod meant;
mod names;
mod needs;
mod numbers;
mod rate;
mod read;
mod text;
mod words;

use crate::algorithm::{CalendarUnit, Rounding, softened};
use crate::error::{BuildError, PolicyError};
use crate::quota::Quota;

pub(crate) use at_limit::is_soft_at_most;
pub use at_limit::{AtLimit, CountDenied, Penalty};
pub(crate) use calendar::deciding;
pub(crate) use compile::Fineness;
pub(crate) use needs::{POWERS_OF_TEN, WordNeeds};
pub(crate) use numbers::NUMBERS;

/// How a quota is enforced.
///
/// *W* is the quota's period, *L* its count. "Most in W" is the most units that any half-open interval of length W can
/// hold, in the `now` of the decisions. A `now` before the window in force is replaced by the start of that window;
/// GCRA takes it unchanged.
///
/// ```
/// use tollgate::{Algorithm, Policy, Quota, Rounding};
/// let exact = Algorithm::SlidingWindow { rounding: Rounding::Exact };
/// let policy = Policy::new(exact, Quota::per_minute(100))?;
/// assert_eq!(policy.to_string(), "sliding-window 100/m exact");
/// # Ok::<(), tollgate::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// Generic cell rate algorithm: a token bucket with greedy refill, or a leaky bucket as a meter;
    /// they are one function. Units come back one by one. Most in W: burst + count - 1.
    Gcra,
    /// Windows on the clock's grid, `[k*W, (k+1)*W)`. Most in W: 2L, across one boundary.
    FixedWindow,
    /// The window opens with the first request that finds none open. Most in W: 2L - 1; 2L if the request that opened
    /// a window is given back.
    FixedWindowFromFirst,
    /// Two counters. The count of the previous window is weighted by the share of that window that lies in the last W.
    /// Most in W: L to 2L, as [`Rounding`] says.
    SlidingWindow {
        /// How the weighed count is rounded to whole units.
        rounding: Rounding,
    },
    /// A ring of sub-windows that expire one by one. Most in W: 2L; at most L in any closed interval of W * (segments
    /// - 1) / segments.
    SegmentedWindow {
        /// 2 to 64; must divide the window into whole nanoseconds.
        segments: u8,
    },
    /// Weeks, months or years of the calendar, from midnight to midnight in UTC: at most L in each. Most in an
    /// interval as long as the shortest window: 2L, across one boundary. Most in W, the longest window: 3L, around a
    /// shorter month or year; for weeks 2L. [`Policy::calendar`] makes such a policy.
    Calendar(CalendarUnit),
    /// The time of each unit, in a slot of 8 bytes for each unit of L. Most in W: L. At most 2^20 units. Limiters
    /// that keep only a word refuse such a policy when they are built.
    SlidingLog,
}

/// A quota, the algorithm that enforces it, and what happens at the limit ([`AtLimit`]; by default a request is
/// denied and nothing else happens). A policy can be read from text: see [`FromStr`](Policy#impl-FromStr-for-Policy).
///
/// Every `Policy` value can be computed exactly in one word, or is a sliding log, which has slots in place of a word.
/// A policy that does not fit is refused when it is made.
///
/// ```
/// use tollgate::{Policy, Quota};
/// let policy: Policy = "gcra 100/s burst 20".parse()?;
/// assert_eq!(policy, Policy::from(Quota::per_second(100).burst(20)));
/// # Ok::<(), tollgate::PolicyError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Policy {
    algorithm: Algorithm,
    quota: Quota,
    at_limit: AtLimit,
}

const BURST_ON_WINDOW: PolicyError = PolicyError::fixed(
    "a window takes no burst: it admits its whole limit at once; leave the burst out, or use gcra",
);

/// The reason why some limiters refuse a sliding log. It follows the policy's text.
const NO_WORD: &str = "has a slot for each unit, and one word is kept here; use gcra or a window, or a Limiter or \
                       KeyedLimiter of this policy alone";

/// A quota alone is enforced by GCRA.
impl From<Quota> for Policy {
    fn from(quota: Quota) -> Self {
        Self { algorithm: Algorithm::Gcra, quota, at_limit: AtLimit::default() }
    }
}

impl Policy {
    /// A policy of this algorithm for this quota, which denies at its limit.
    ///
    /// # Errors
    /// Windows take no burst of their own; their counts and the window number must fit in a word; the number of
    /// segments must be 2 to 64 and divide the window; windows of the calendar need the period of the longest such
    /// window; a sliding log takes no burst either, and 2^20 units at most.
    ///
    /// ```
    /// use tollgate::{Algorithm, Policy, Quota};
    /// let quota = Quota::per_minute(100).burst(5);
    /// let error = Policy::new(Algorithm::FixedWindow, quota).unwrap_err();
    /// assert!(error.to_string().starts_with("a window takes no burst"));
    /// ```
    pub fn new(algorithm: Algorithm, quota: Quota) -> Result<Self, PolicyError> {
        let policy = Self { algorithm, quota, at_limit: AtLimit::default() };
        if algorithm == Algorithm::SlidingLog {
            return check_log(quota).map(|()| policy);
        }
        // A window admits its whole count at once.
        if algorithm != Algorithm::Gcra && quota.max_burst() != quota.count() {
            return Err(BURST_ON_WINDOW);
        }
        if let Algorithm::SegmentedWindow { segments } = algorithm {
            check_segments(quota.period_ns(), segments)?;
        }
        policy.check_fits()?;
        Ok(policy)
    }

    /// A sliding log: at most `count` units in any half-open window as long as the quota's period, wherever it begins.
    ///
    /// # Errors
    /// A quota whose burst is not its count: a log admits its whole count at once. More than 2^20 units.
    ///
    /// ```
    /// use tollgate::{Policy, Quota};
    /// let policy = Policy::sliding_log(Quota::per_minute(100))?;
    /// assert_eq!(policy.to_string(), "sliding-log 100/m");
    /// assert!(Policy::sliding_log(Quota::per_minute(100).burst(20)).is_err());
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn sliding_log(quota: Quota) -> Result<Self, PolicyError> {
        Self::new(Algorithm::SlidingLog, quota)
    }

    /// Reads a policy as [`str::parse`] does. Use it where the type would otherwise have to be named.
    ///
    /// # Errors
    /// The text is not a policy. The error quotes it, and says what would be accepted.
    ///
    /// ```
    /// use tollgate::{Limiter, Policy};
    /// let limiter = Limiter::new(Policy::parse("100/s burst 20")?);
    /// assert!(limiter.check_n(20).is_allowed());
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        text.parse()
    }

    /// The quota.
    #[must_use]
    pub const fn quota(&self) -> Quota {
        self.quota
    }

    /// The algorithm.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The room that the policy needs in the word that holds its state.
    pub(crate) fn needs(&self) -> WordNeeds<'_> {
        WordNeeds::of(self)
    }

    /// L: the burst, or the window's limit.
    pub(crate) const fn named_limit(&self) -> u64 {
        self.quota.max_burst() // a window's burst is its count
    }

    /// S: the limit that the algorithm works with.
    pub(crate) fn ceiling(&self) -> u64 {
        // This overflows only while a policy is being checked, and the check then refuses the policy.
        softened(self.named_limit(), self.at_limit.soft.hundredths()).unwrap_or(u64::MAX)
    }
}

/// The largest limit of a sliding log: 2^20 units, 8 MiB of slots.
///
/// The reason for the bound is not the memory. A request for all units marks a million slots one by one, and keeps them
/// in up to a thousand small stack frames.
const LOG_MAX: u64 = 1 << 20;

/// A log admits its whole count at once, so its burst must equal its count.
fn check_log(quota: Quota) -> Result<(), PolicyError> {
    match (quota.count(), quota.max_burst()) {
        (limit, burst) if burst != limit => Err(PolicyError::burst_on_log(limit, burst)),
        (limit, _) => check_log_size(limit),
    }
}

fn check_log_size(slots: u64) -> Result<(), PolicyError> {
    if slots > LOG_MAX { Err(PolicyError::log_too_large(slots, LOG_MAX)) } else { Ok(()) }
}

/// The same policy, for a store that keeps a word and no slots. A sliding log is refused.
pub(crate) fn of_one_word(policy: Policy) -> Result<Policy, BuildError> {
    if policy.algorithm == Algorithm::SlidingLog {
        return Err(no_word(&policy));
    }
    Ok(policy)
}

/// The error of a store that keeps a word, for a policy that needs slots.
pub(crate) fn no_word(policy: &Policy) -> BuildError {
    BuildError::Policy(format!("{policy} {NO_WORD}"))
}

/// The policy of a log with another count. Some policy of the same period is known to have this count.
pub(crate) fn of_count(policy: Policy, count: u64) -> Policy {
    let quota = Quota::try_per(count, policy.quota.period()).unwrap_or(policy.quota);
    Policy { quota, ..policy }
}

/// Checks that a ring has 2 to 64 segments, and that each segment lasts the same whole number of nanoseconds.
fn check_segments(window_ns: u64, segments: u8) -> Result<(), PolicyError> {
    if !(2..=64).contains(&segments) {
        return Err(PolicyError::segment_count(segments));
    }
    if !window_ns.is_multiple_of(u64::from(segments)) {
        return Err(PolicyError::uneven_segments(window_ns, segments));
    }
    Ok(())
}
