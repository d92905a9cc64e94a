//! [`LogPolicy`]: the quota of a sliding log, and its text.
//!
//! A [`Policy`](crate::Policy) is what one word can hold, so all that take one may keep it in a word: the
//! keyed table, the sketch, a snapshot. A log takes a slot for each unit and fits none of these. So it has a text
//! of its own kind, and a place that expects the one refuses the other when the text is read, not later.

use std::fmt;
use std::str::FromStr;

use crate::error::{BuildError, PolicyError};
use crate::policy::{as_text, read_quota};
use crate::quota::Quota;

use super::rule::LogRule;

/// The quota of a sliding log, as text: `sliding-log 100/m`.
///
/// What exists is a log that can be built, but for its memory ([`LogLimiter`](crate::LogLimiter),
/// [`KeyedLogLimiter`](crate::KeyedLogLimiter)). It is no [`Policy`](crate::Policy), which is always of one word:
/// tables, sketches and snapshots take those alone.
///
/// ```
/// use tollgate::{LogLimiter, LogPolicy, Quota};
/// let policy: LogPolicy = "sliding-log 100/m".parse()?;
/// assert_eq!(policy.quota(), Quota::per_minute(100));
/// let limiter = LogLimiter::new(policy.into())?;
/// assert_eq!(limiter.entry().peek(1).limit(), 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogPolicy {
    quota: Quota,
}

impl LogPolicy {
    /// The log of a quota: its count in each window as long as its period.
    ///
    /// # Errors
    /// A quota whose burst is not its count, or of more than 2^20 units.
    ///
    /// ```
    /// use tollgate::{LogPolicy, Quota};
    /// assert_eq!(LogPolicy::new(Quota::per_minute(100))?.to_string(), "sliding-log 100/m");
    /// assert!(LogPolicy::new(Quota::per_minute(100).burst(20)).is_err());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn new(quota: Quota) -> Result<Self, BuildError> {
        LogRule::new(quota).map(|_| Self { quota })
    }

    /// Its quota.
    #[must_use]
    pub fn quota(self) -> Quota {
        self.quota
    }
}

impl From<LogPolicy> for Quota {
    fn from(policy: LogPolicy) -> Self {
        policy.quota
    }
}

/// Prints the policy so that [`FromStr`] reads it back.
impl fmt::Display for LogPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sliding-log {}", self.quota)
    }
}

/// Reads `sliding-log <count>/<period>`; also `log` for short. Nothing follows: a log admits its whole count at
/// once, so it takes no burst, and it denies at its limit, and that is all.
///
/// ```
/// use tollgate::LogPolicy;
/// assert_eq!("log 100/60s".parse::<LogPolicy>()?.to_string(), "sliding-log 100/m");
/// let error = "sliding-log 100/m burst 5".parse::<LogPolicy>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "in policy \"sliding-log 100/m burst 5\": a log takes no \"burst\"; \
///      write sliding-log <count>/<period> and nothing else",
/// );
/// # Ok::<(), tollgate::PolicyError>(())
/// ```
impl FromStr for LogPolicy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let wrong = |reason: String| PolicyError::new(reason).in_text(text);
        // As in other policies, `Sliding_Log` can mean nothing else.
        let lower = text.to_lowercase().replace('_', "-");
        let mut words = lower.split_whitespace();
        match words.next() {
            // The name is there in full, since a policy without one is GCRA.
            Some("sliding-log" | "log") => {}
            None => {
                return Err(wrong(
                    "it is empty; write a log's quota, such as sliding-log 100/m".to_string(),
                ));
            }
            Some(word) => {
                return Err(wrong(format!(
                    "it begins with {word:?}; the policy of a log begins with sliding-log"
                )));
            }
        }
        let Some(rate) = words.next() else {
            return Err(wrong("after sliding-log a quota such as 100/m is missing".to_string()));
        };
        // Errors of the quota itself are told with the text, too.
        let quota = read_quota(rate).map_err(|error| error.in_text(text))?;
        if let Some(word) = words.next() {
            return Err(wrong(format!(
                "a log takes no {word:?}; write sliding-log <count>/<period> and nothing else"
            )));
        }
        Self::new(quota).map_err(|error| wrong(error.to_string()))
    }
}

as_text!(LogPolicy);
