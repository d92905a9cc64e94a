//! Loans: over their own quota, clients may borrow what the server can spare.
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

mod pool;

pub use pool::SparePool;

use crate::clock::Timestamp;
use crate::decision::{Decision, Denial, Permit};
use crate::entry::Entry;
use crate::store::Store;

impl<S: Store> Entry<'_, S> {
    /// Decides one request of `cost` units, and charges it to the own quota or else to the pool. A cost of 0
    /// is a question.
    ///
    /// The own quota comes first, and is charged the whole cost if it admits. If it denies, the pool is asked
    /// for the whole cost; nothing is split between the two. Any number of limiters and keys share one pool.
    ///
    /// Not lent are: a cost above the own quota, whatever can be spared; anything during a penalty; and
    /// anything to a key for which a full table has no cell, also if the spill decides, so that a flood of new
    /// keys cannot drain the pool.
    ///
    /// # What it guarantees
    /// * Whatever is borrowed, the own quota admits what it would without a pool. At headroom 0 the answers
    ///   are those of [`check`](Entry::check); the limiter and the pool each read their clock.
    /// * In any interval it admits at most what the own policy does and what the pool lends: see
    ///   [`SparePool`].
    ///
    /// # Which clock
    /// A time given by [`at`](Entry::at) is the pool's time, too: all times given to limits of one pool, its
    /// own clock's included, must count from one origin. So do those of limiters that are built with the
    /// pool's [`clock`](SparePool::clock). Without a time of the caller's, the limiter and the pool read a
    /// clock each, the pool only if it is asked.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota, SparePool};
    /// let pool = SparePool::new(Quota::per_hour(3));
    /// let clients = KeyedLimiter::<str>::with_clock(Quota::per_hour(5), 1_000, pool.clock())?;
    /// let admitted = |client| {
    ///     (0..20).filter(|_| clients.entry(client).check_or_borrow(1, &pool).is_allowed()).count()
    /// };
    /// assert_eq!(admitted("alice"), 5);
    /// // The server is two thirds idle.
    /// pool.report_headroom(0.67)?;
    /// assert_eq!(admitted("alice"), 2);
    /// // What others borrow takes nothing from a client's own quota.
    /// assert_eq!(admitted("bob"), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Of a single limit, at times of the caller's:
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota, SparePool, Timestamp};
    /// let pool = SparePool::with_clock(Quota::per_minute(1), ManualClock::new());
    /// pool.report_headroom(1.0)?;
    /// let limiter = Limiter::with_clock(Quota::per_minute(1), pool.clock());
    /// let at = |second| {
    ///     let decision = limiter.entry().at(Timestamp::from_secs(second)).check_or_borrow(1, &pool);
    ///     (decision.is_allowed(), decision.is_borrowed())
    /// };
    /// assert_eq!([at(0), at(1), at(2)], [(true, false), (true, true), (false, false)]);
    /// # Ok::<(), tollgate::HeadroomError>(())
    /// ```
    #[inline]
    pub fn check_or_borrow(&self, cost: u64, pool: &SparePool) -> ElasticDecision {
        let lend = |cost| pool.lend(cost, self.pool_time(pool));
        let refuse = |cost| self.limit.refuse(cost, self.at);
        ElasticDecision::of(self.limit.try_check(cost, self.at), lend, refuse)
    }

    /// The answer that [`check_or_borrow`](Entry::check_or_borrow) would give, without charging: would a
    /// request of `cost` units be admitted, and from where?
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota, SparePool};
    /// let pool = SparePool::with_clock(Quota::per_second(100), ManualClock::new());
    /// pool.report_headroom(1.0)?;
    /// let limiter = Limiter::with_clock(Quota::per_hour(2), pool.clock());
    /// assert!(!limiter.entry().peek_or_borrow(2, &pool).is_borrowed());
    /// assert!(limiter.entry().check_or_borrow(2, &pool).is_allowed());
    /// assert!(limiter.entry().peek_or_borrow(2, &pool).is_borrowed());
    /// assert_eq!(pool.remaining(), 100);
    /// # Ok::<(), tollgate::HeadroomError>(())
    /// ```
    #[inline]
    pub fn peek_or_borrow(&self, cost: u64, pool: &SparePool) -> ElasticDecision {
        let would_lend = |cost| pool.would_lend(cost, self.pool_time(pool));
        ElasticDecision::of(self.peek(cost), would_lend, |_| None)
    }

    /// The pool's clock is read only if the pool is asked.
    #[inline]
    fn pool_time(&self, pool: &SparePool) -> Timestamp {
        self.at.unwrap_or_else(|| pool.now())
    }
}

/// The answer of [`Entry::check_or_borrow`]: a [`Decision`] of the client's own quota, and whether the units
/// were borrowed.
///
/// ```
/// use tollgate::{Limiter, Quota, SparePool};
/// let pool = SparePool::new(Quota::per_hour(100));
/// pool.report_headroom(1.0)?;
/// let limiter = Limiter::with_clock(Quota::per_hour(1), pool.clock());
/// let [own, borrowed] = [(); 2].map(|()| limiter.entry().check_or_borrow(1, &pool));
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
    /// use tollgate::{Limiter, Quota, SparePool};
    /// let pool = SparePool::new(Quota::per_hour(100));
    /// let limiter = Limiter::with_clock(Quota::per_hour(1), pool.clock());
    /// assert!(limiter.entry().check_or_borrow(1, &pool).is_allowed());
    /// ```
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.decision.is_allowed()
    }

    /// Whether the units came from the pool. False if denied.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota, SparePool};
    /// let pool = SparePool::new(Quota::per_hour(100));
    /// let limiter = Limiter::with_clock(Quota::per_hour(1), pool.clock());
    /// assert!(!limiter.entry().check_or_borrow(1, &pool).is_borrowed());
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
    /// use tollgate::{Limiter, Quota, SparePool};
    /// let pool = SparePool::new(Quota::per_hour(100));
    /// pool.report_headroom(1.0)?;
    /// let limiter = Limiter::with_clock(Quota::per_hour(3), pool.clock());
    /// assert_eq!(limiter.entry().check_or_borrow(2, &pool).decision().remaining(), 1);
    /// // Not one from here and one from there.
    /// assert_eq!(limiter.entry().check_or_borrow(2, &pool).decision().remaining(), 1);
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
    /// use tollgate::{Limiter, Quota, SparePool};
    /// let pool = SparePool::new(Quota::per_hour(100));
    /// let limiter = Limiter::with_clock(Quota::per_hour(1), pool.clock());
    /// assert!(limiter.entry().check_or_borrow(1, &pool).into_result().is_ok());
    /// assert!(limiter.entry().check_or_borrow(1, &pool).into_result().is_err());
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
