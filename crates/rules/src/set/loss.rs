//! [`Loss`]: the reason why a limit that a load has changed, or that is gone, did not keep its counts.

use std::fmt;
use std::time::Duration;

use tollgate::{Algorithm, ChangeError, Policy};

/// The reason why a limit that has changed, or that is gone, did not keep its counts. Except after [`Loss::Log`], it
/// starts with nothing spent.
///
/// ```
/// let loss = tollgate_rules::Loss::Capacity { before: 100, now: 200 };
/// assert_eq!(loss.to_string(), "its table was for 100 clients and is for 200 now");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// The limit's table has another size. Tables do not store keys, so no key can be moved to another table.
    Capacity {
        /// The capacity before, in clients.
        before: usize,
        /// The capacity now, in clients.
        now: usize,
    },
    /// The limit's table now has a spill, or no longer has one, because `on_full` has changed from or to `deny`.
    OnFull,
    /// The limit's clients are now identified by other bits of their addresses (`prefix_v4`, `prefix_v6`), so the
    /// previous counts belong to other clients.
    Prefix,
    /// The previous limit is fixed: it was too large for a table that can be changed.
    Fixed,
    /// The core cannot change the previous limit to the new one.
    Refused(ChangeError),
    /// The limit is kept in a store outside this process, where its window identifies it. Either its window has
    /// changed, or another limit of its rule now has the longest window.
    Elsewhere {
        /// Its window now.
        window: Duration,
    },
    /// The limit is kept in a store outside this process, and it has become a sliding log or has stopped being one.
    /// Sliding logs are kept apart from all other limits. The limit continues with the counts that it had when it last
    /// was in this form, if they still exist. What was spent in between is not in them.
    Log,
    /// The pool of a domain was replaced, because its quota has changed.
    Pool,
    /// The rule of the limit is gone, and its counts were dropped before the time to keep them was over, because the
    /// tables of rules in force needed the memory. If the rule comes back, it starts with nothing spent.
    Forgotten,
}

impl Loss {
    /// The loss of a limit that is kept elsewhere, if one of the two policies is a sliding log.
    pub(crate) fn of_log(before: Policy, now: Policy) -> Option<Self> {
        let is_log = |policy: Policy| policy.algorithm() == Algorithm::SlidingLog;
        (is_log(before) != is_log(now)).then_some(Self::Log)
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capacity { before, now } => {
                write!(f, "its table was for {before} clients and is for {now} now")
            }
            Self::OnFull => f.write_str(
                "whether clients without a cell are denied is decided when a table is built",
            ),
            Self::Prefix => {
                f.write_str("its clients are told apart by other bits of their addresses")
            }
            Self::Fixed => f.write_str(
                "a limit that is too large to be counted beside another cannot be changed while it is in use",
            ),
            Self::Refused(ChangeError::DoesNotFit { state_bits }) => write!(
                f,
                "it cannot be counted in the {state_bits} bits that the one of before was built with"
            ),
            Self::Refused(error) => error.fmt(f),
            Self::Elsewhere { window } => write!(
                f,
                "of the limits of a rule that is kept elsewhere the longest goes on, and the others by their \
                 windows; there was none of {window:?} beside a longer one"
            ),
            Self::Pool => f.write_str(
                "what it has lent is not known in units of another quota; it lends nothing until the next report",
            ),
            Self::Forgotten => f.write_str("the tables of the rules in force leave no room for it"),
            Self::Log => f.write_str("a sliding log is kept apart from other limits, and what was spent under one is not counted by the other"),
        }
    }
}
