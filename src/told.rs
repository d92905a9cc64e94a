//! [`Told`]: a decision that was made elsewhere.

use std::time::Duration;

use crate::algorithm::{Answers, Held, Kernel};
use crate::decision::{Decision, View};
use crate::verdict::{Mark, Verdict};

/// The answers of a decision that was made elsewhere: by a limit that is kept in Redis, by a service, by a
/// double in a test. As a [`Decision`] it can go wherever one of this process could.
///
/// A permit made of it can be refunded only where it was made: no limiter of this crate gives anything
/// back for it.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Decision, DenialReason, Told};
/// let told = Told {
///     allowed: false,
///     cost: 1,
///     limit: 10,
///     soft_bp: 0,
///     remaining: 0,
///     retry_after: Duration::from_millis(1_500),
///     reset_after: Duration::from_secs(6),
///     penalty: false,
/// };
/// let denial = Decision::from(told).into_result().unwrap_err();
/// assert_eq!((denial.limit(), denial.retry_after_secs()), (10, Some(2)));
/// assert_ne!(denial.reason(), DenialReason::NeverFits);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Whether the request may go.
    pub allowed: bool,
    /// The units that were charged, or that were asked for and denied. If denied and above `limit`, the
    /// denial is one for ever.
    pub cost: u64,
    /// The most units that can be admitted at one instant: S, if the limit is soft.
    pub limit: u64,
    /// By how much it was softened to that, in hundredths of a percent; 0 if it is hard: see
    /// [`AtLimit`](crate::AtLimit).
    pub soft_bp: u16,
    /// Units left after the decision, counted up to `limit`.
    pub remaining: u64,
    /// If denied, how long to wait until the same cost would be admitted.
    pub retry_after: Duration,
    /// How long until the whole limit is there again.
    pub reset_after: Duration,
    /// Whether it was denied for a penalty, which is over then: see [`AtLimit`](crate::AtLimit).
    pub penalty: bool,
}

impl From<Told> for Decision {
    fn from(told: Told) -> Self {
        let nanos = |wait: Duration| u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        let answers = Answers {
            limit: told.limit,
            remaining: told.remaining,
            ready_ns: nanos(told.retry_after),
            idle_ns: nanos(told.reset_after),
            spilled: false,
        };
        let kernel = Kernel::Log(answers);
        // Decided at 0, so that its waits are its instants; a penalty is told from its end.
        let at_ns = if told.penalty { answers.ready_ns } else { 0 };
        let view = View::plain(kernel, Held::IDLE, at_ns, 0, told.cost);
        let soft = View { soft_bp: told.soft_bp, ..view };
        // More than L is used, as in `Ruled::tell`.
        let is_over = told.remaining < told.limit - soft.limit();
        let (verdict, mark) = match (told.allowed, is_over) {
            (true, true) => (Verdict::Allowed, Mark::Over),
            (true, false) => (Verdict::Allowed, Mark::None),
            (false, _) if told.penalty => (Verdict::Denied, Mark::Penalty),
            (false, _) => (Verdict::Denied, Mark::None),
        };
        Self::new(verdict, View { mark, ..soft })
    }
}
