//! Elastic limits: over their own quota, clients may borrow what the server can spare.
//!
//! Each client has a quota of its own, which it is never refused. What it asks beyond that is taken from
//! a [`SparePool`] that all clients share, and whose size the server sets by reporting its *headroom*: 0
//! when it is busy, 1 when it is idle. The crate `tollgate-controllers` computes a headroom.
//!
//! ```text
//! admit iff  the own quota admits the whole cost, or else the pool does; nothing is split
//! ```
//!
//! The own quota and the pool are two words, but a decision charges one of them: a denial by the own
//! quota has written nothing when the pool is asked.
//!
//! # Policies that say what happens at the limit
//! * *Soft*: the own quota is the softened one. What it admits is marked as ever; what is borrowed is not
//!   over, since the pool has paid for it.
//! * *Count-denied* and *penalty*: what the pool lends was not denied. So the own quota is tried first,
//!   without counting; only when the pool has nothing either the denial is counted, by a second
//!   compare-and-swap of the own word. What is borrowed neither counts nor ends a row of denials.
//! * Under a penalty nothing is lent: it refuses everything.

mod keyed;
mod limiter;
mod pool;

pub use keyed::ElasticKeyedLimiter;
pub use limiter::ElasticLimiter;
pub use pool::SparePool;

use crate::clock::Timestamp;
use crate::decision::{Decision, Denial, Permit};
use crate::limit::Limit;
use crate::verb::Verb;

/// The answer of an elastic limit: a [`Decision`] of the client's own quota, and whether the units were
/// borrowed.
///
/// ```
/// use std::sync::Arc;
/// use tollgate::{ElasticLimiter, Quota, SparePool};
/// let pool = Arc::new(SparePool::new(Quota::per_hour(100)));
/// pool.report_headroom(1.0)?;
/// let limiter = ElasticLimiter::new(Quota::per_hour(1), pool);
/// let [own, borrowed] = [limiter.check(1), limiter.check(1)];
/// assert!(own.is_allowed() && !own.is_borrowed());
/// assert!(borrowed.is_allowed() && borrowed.is_borrowed());
/// # Ok::<(), tollgate::HeadroomError>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a decision that nobody looks at limits nothing"]
pub struct ElasticDecision {
    decision: Decision,
    borrowed: bool,
}

impl ElasticDecision {
    /// Asks the pool if the own quota has denied. If both have, `refuse` counts it, where the policy
    /// counts denials.
    #[inline]
    fn of(
        own: Decision,
        lend: impl FnOnce(u64) -> bool,
        refuse: impl FnOnce(u64) -> Option<Decision>,
    ) -> Self {
        match own {
            Decision::Denied(denial) if is_lendable(&denial) && lend(denial.cost()) => {
                Self { decision: Decision::Allowed(denial.into_permit()), borrowed: true }
            }
            Decision::Denied(denial) => {
                Self { decision: refuse(denial.cost()).unwrap_or(own), borrowed: false }
            }
            Decision::Allowed(_) => Self { decision: own, borrowed: false },
        }
    }

    /// Whether the request may go.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ElasticLimiter, Quota, SparePool};
    /// let pool = Arc::new(SparePool::new(Quota::per_hour(100)));
    /// assert!(ElasticLimiter::new(Quota::per_hour(1), pool).check(1).is_allowed());
    /// ```
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.decision.is_allowed()
    }

    /// Whether the units came from the pool. False if denied.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ElasticLimiter, Quota, SparePool};
    /// let pool = Arc::new(SparePool::new(Quota::per_hour(100)));
    /// assert!(!ElasticLimiter::new(Quota::per_hour(1), pool).check(1).is_borrowed());
    /// ```
    #[must_use]
    pub fn is_borrowed(&self) -> bool {
        self.borrowed
    }

    /// The decision, whose figures are those of the client's own quota. If the units were borrowed,
    /// that was charged nothing. A denial's wait is until the own quota admits; the pool may do so
    /// earlier.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ElasticLimiter, Quota, SparePool};
    /// let pool = Arc::new(SparePool::new(Quota::per_hour(100)));
    /// pool.report_headroom(1.0)?;
    /// let limiter = ElasticLimiter::new(Quota::per_hour(3), pool);
    /// assert_eq!(limiter.check(2).decision().remaining(), 1);
    /// // Not one from here and one from there.
    /// assert_eq!(limiter.check(2).decision().remaining(), 1);
    /// # Ok::<(), tollgate::HeadroomError>(())
    /// ```
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// The decision as a `Result`, for `?`.
    ///
    /// # Errors
    /// The [`Denial`] of the own quota, if denied.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ElasticLimiter, Quota, SparePool};
    /// let pool = Arc::new(SparePool::new(Quota::per_hour(100)));
    /// let limiter = ElasticLimiter::new(Quota::per_hour(1), pool);
    /// assert!(limiter.check(1).into_result().is_ok());
    /// assert!(limiter.check(1).into_result().is_err());
    /// ```
    pub fn into_result(self) -> Result<Permit, Denial> {
        self.decision.into_result()
    }
}

/// Only what a quota denies for now is lent. A cost above the quota never fits, whatever can be spared:
/// that is what its denial says. A key for which a table has no cell was not denied by its quota, or not by
/// that alone, and a penalty refuses everything.
fn is_lendable(denial: &Denial) -> bool {
    let by_quota = !denial.is_table_full() && !denial.is_spilled() && !denial.is_penalty();
    by_quota && !denial.is_never() && denial.cost() > 0
}

/// Decides by a limit of its own, or else by the pool. The pool's clock is read only if it is asked.
#[inline(always)]
fn decide(
    pool: &SparePool,
    own: &Limit<'_>,
    cost: u64,
    at: Option<Timestamp>,
    charge: bool,
) -> ElasticDecision {
    let now = || at.unwrap_or_else(|| pool.now());
    if charge {
        let lend = |cost| pool.lend(cost, now());
        ElasticDecision::of(own.try_check(cost, at), lend, |cost| own.refuse(cost, at))
    } else {
        let would_lend = |cost| pool.would_lend(cost, now());
        ElasticDecision::of(own.ask(Verb::Check, cost, at, false), would_lend, |_| None)
    }
}
