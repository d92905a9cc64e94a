//! [`ElasticDecision`]: the answer to a request of a client that may borrow from a pool.

use tollgate::{Decision, Denial, Permit};

/// The answer of [`SparePool::check`](crate::SparePool::check): a [`Decision`] with the figures of the client's own
/// limit, and whether the units were borrowed.
///
/// ```
/// use tollgate::{Limiter, Quota};
/// use tollgate_elastic::SparePool;
/// let pool = SparePool::new(Quota::per_hour(100));
/// pool.report_headroom(1.0)?;
/// let limiter = Limiter::builder(Quota::per_hour(1)).clock(pool.clock()).build();
/// let [own, borrowed] = [(); 2].map(|()| pool.check(limiter.entry(), 1));
/// assert!(own.is_allowed() && !own.is_borrowed());
/// assert!(borrowed.is_allowed() && borrowed.is_borrowed());
/// # Ok::<(), tollgate_elastic::HeadroomError>(())
/// ```
#[derive(Debug)]
#[must_use = "a decision that nobody looks at limits nothing"]
pub struct ElasticDecision {
    pub(crate) decision: Decision,
    pub(crate) borrowed: bool,
}

impl ElasticDecision {
    /// Whether the request is admitted.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_elastic::SparePool;
    /// let pool = SparePool::new(Quota::per_hour(100));
    /// let limiter = Limiter::builder(Quota::per_hour(1)).clock(pool.clock()).build();
    /// assert!(pool.check(limiter.entry(), 1).is_allowed());
    /// ```
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.decision.is_allowed()
    }

    /// Whether the units came from the pool. False if denied.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_elastic::SparePool;
    /// let pool = SparePool::new(Quota::per_hour(100));
    /// let limiter = Limiter::builder(Quota::per_hour(1)).clock(pool.clock()).build();
    /// assert!(!pool.check(limiter.entry(), 1).is_borrowed());
    /// ```
    #[must_use]
    pub fn is_borrowed(&self) -> bool {
        self.borrowed
    }

    /// The decision, with the figures of the client's own quota. If the units were borrowed, that quota was charged
    /// nothing. The wait of a denial lasts until the client's own quota admits; the pool may admit earlier.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_elastic::SparePool;
    /// let pool = SparePool::new(Quota::per_hour(100));
    /// pool.report_headroom(1.0)?;
    /// let limiter = Limiter::builder(Quota::per_hour(3)).clock(pool.clock()).build();
    /// assert_eq!(pool.check(limiter.entry(), 2).decision().remaining(), 1);
    /// // Not one from here and one from there.
    /// assert_eq!(pool.check(limiter.entry(), 2).decision().remaining(), 1);
    /// # Ok::<(), tollgate_elastic::HeadroomError>(())
    /// ```
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The decision by value, for code that stores decisions.
    pub fn into_decision(self) -> Decision {
        self.decision
    }

    /// The decision as a `Result`, for `?`.
    ///
    /// # Errors
    /// Returns the [`Denial`] of the client's own quota if the request is denied.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_elastic::SparePool;
    /// let pool = SparePool::new(Quota::per_hour(100));
    /// let limiter = Limiter::builder(Quota::per_hour(1)).clock(pool.clock()).build();
    /// assert!(pool.check(limiter.entry(), 1).into_result().is_ok());
    /// assert!(pool.check(limiter.entry(), 1).into_result().is_err());
    /// ```
    pub fn into_result(self) -> Result<Permit, Denial> {
        self.decision.into_result()
    }
}
