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

/// The algorithm by which a quota is enforced.
///
/// *W* is the quota's period, *L* its count. "Most in W" is the largest number of units that can be admitted in any
/// half-open interval of length W, in the times (`now`) of the decisions. A `now` before the window in force is
/// replaced by the start of that window. GCRA uses every `now` unchanged.
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
    /// Generic cell rate algorithm. This is the same function as a token bucket with greedy refill, or a leaky bucket
    /// used as a meter. Units come back one by one. Most in W: burst + count - 1.
    Gcra,
    /// Windows on the clock's grid, `[k*W, (k+1)*W)`. Most in W: 2L, across one boundary.
    FixedWindow,
    /// The first request that finds no open window opens one. Most in W: 2L - 1, or 2L if the request that opened a
    /// window is given back.
    FixedWindowFromFirst,
    /// Two counters. The count of the previous window is weighted by the part of that window that still lies within W
    /// before now. Most in W: L to 2L, as [`Rounding`] says.
    SlidingWindow {
        /// How the weighed count is rounded to whole units.
        rounding: Rounding,
    },
    /// A ring of sub-windows that expire one by one. Most in W: 2L. Any closed interval of length
    /// `W * (segments - 1) / segments` holds at most L.
    SegmentedWindow {
        /// The number of segments, 2 to 64. A segment must be a whole number of nanoseconds.
        segments: u8,
    },
    /// Weeks, months or years of the calendar, from midnight to midnight in UTC: at most L in each. Most in an interval
    /// as long as the shortest window: 2L, across one boundary. Most in W, the longest window: 3L, since W may contain
    /// a whole shorter month or year. For weeks it is 2L. [`Policy::calendar`] makes such a policy.
    Calendar(CalendarUnit),
    /// Stores the time of each unit, in a slot of 8 bytes for each unit of L. Most in W: L. L is at most 2^20. Limiters
    /// that have only a word refuse this algorithm when they are built.
    SlidingLog,
}

/// A quota, the algorithm that enforces it, and the options for requests at the limit ([`AtLimit`]). By default such a
/// request is denied, and nothing else happens. A policy can be read from text: see
/// [`FromStr`](Policy#impl-FromStr-for-Policy).
///
/// Every `Policy` value either can be computed exactly in one word, or is a sliding log, which has slots instead of a
/// word. A policy that does not fit is refused when it is made.
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

/// The reason why some limiters refuse a sliding log. The error states it after the policy's text.
const NO_WORD: &str = "has a slot for each unit, and one word is kept here; use gcra or a window, or a Limiter or \
                       KeyedLimiter of this policy alone";

/// A quota alone is enforced by GCRA.
impl From<Quota> for Policy {
    fn from(quota: Quota) -> Self {
        Self { algorithm: Algorithm::Gcra, quota, at_limit: AtLimit::default() }
    }
}

impl Policy {
    /// A policy of this algorithm for this quota, without options for requests at its limit.
    ///
    /// # Errors
    /// Returns an error in these cases. A window or a sliding log has a burst that is not its count. The counts and the
    /// number of a window do not fit in a word. The number of segments is not 2 to 64, or does not divide the window.
    /// Windows of the calendar have another period than the longest such window. A sliding log has more than 2^20
    /// units.
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
    /// Returns an error if the burst of the quota is not its count, since a log admits its whole count at once, or if
    /// the count is above 2^20 units.
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

    /// Reads a policy like [`str::parse`]. Use it where `parse` would need the name of the type.
    ///
    /// # Errors
    /// Returns an error if the text is not a policy. The error quotes the text, and says what would be accepted.
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

    /// The number of bits that the policy needs in the word of its state.
    pub(crate) fn needs(&self) -> WordNeeds<'_> {
        WordNeeds::of(self)
    }

    /// L: the burst, or the window's limit.
    pub(crate) const fn named_limit(&self) -> u64 {
        self.quota.max_burst() // a window's burst is its count
    }

    /// S: the (softened) limit that the algorithm uses.
    pub(crate) fn ceiling(&self) -> u64 {
        // This overflows only while a new policy is being checked, and then the check refuses the policy.
        softened(self.named_limit(), self.at_limit.soft.hundredths()).unwrap_or(u64::MAX)
    }
}

/// The largest limit of a sliding log: 2^20 units, 8 MiB of slots.
///
/// The reason for this bound is not the memory, but the longest request. A request for all units marks a million slots
/// one by one, and keeps its marks in up to a thousand small stack frames.
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

/// Returns the policy if a store with a word and no slots can keep it. A sliding log is refused.
pub(crate) fn of_one_word(policy: Policy) -> Result<Policy, BuildError> {
    if policy.algorithm == Algorithm::SlidingLog {
        return Err(no_word(&policy));
    }
    Ok(policy)
}

/// The error of a store that has a word and no slots, for a policy that needs slots.
pub(crate) fn no_word(policy: &Policy) -> BuildError {
    BuildError::Policy(format!("{policy} {NO_WORD}"))
}

/// The policy of a log with another count. The quota with this count is valid, since the callers pass only counts that
/// were checked before.
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
