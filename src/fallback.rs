//! Requests that one limit denies and another source may still admit, such as spare capacity or a larger account.

use crate::clock::Timestamp;
use crate::decision::{Decision, Denial};
use crate::entry::Entry;
use crate::store::Store;

impl<S: Store> Entry<'_, S> {
    /// Like [`check`](Entry::check), but if the request is denied *for now*, `or` is called and may admit the request
    /// by returning true. `or` is given the denial, and the time of [`at`](Entry::at) if the caller gave one.
    ///
    /// A request that `or` admits charges nothing to this limit, and its denial is not counted, even if the policy
    /// counts denials. The figures of its permit are those of this limit. A refund of this permit gives nothing back.
    ///
    /// `or` is not called if the cost is 0 or never fits, during a penalty, or if the key has no cell because the table
    /// is full (even if the spill decides). If `or` returns false, the answer is the same as for a check.
    ///
    /// The crate `tollgate-elastic` lends spare capacity in this way.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Limiter, Quota};
    /// let clients = KeyedLimiter::<str>::new(Quota::per_hour(5), 1_000)?;
    /// let reserve = Limiter::new(Quota::per_hour(2));
    /// let is_admitted = |_: &_| {
    ///     let or = |denial: &tollgate::Denial, _| reserve.check_n(denial.cost()).is_allowed();
    ///     clients.entry("alice").check_or(1, or).is_allowed()
    /// };
    /// assert_eq!((0..20).filter(is_admitted).count(), 5 + 2);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn check_or(
        &self,
        cost: u64,
        or: impl FnOnce(&Denial, Option<Timestamp>) -> bool,
    ) -> Decision {
        let own = self.limit.try_check(cost, self.at);
        self.or(own, or, |cost| self.limit.refuse(cost, self.at))
    }

    /// The answer that [`check_or`](Entry::check_or) would give, without charging. `or` must charge nothing, either.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(1));
    /// assert!(limiter.check().is_allowed());
    /// assert!(limiter.entry().peek_or(1, |_, _| true).is_allowed());
    /// assert!(!limiter.entry().peek_or(1, |_, _| false).is_allowed());
    /// ```
    #[inline]
    pub fn peek_or(
        &self,
        cost: u64,
        or: impl FnOnce(&Denial, Option<Timestamp>) -> bool,
    ) -> Decision {
        self.or(self.peek(cost), or, |_| None)
    }

    /// Calls `or` if the limit has denied. If `or` also denies and the policy counts denials, `refuse` counts the
    /// denial.
    #[inline]
    fn or(
        &self,
        own: Decision,
        or: impl FnOnce(&Denial, Option<Timestamp>) -> bool,
        refuse: impl FnOnce(u64) -> Option<Decision>,
    ) -> Decision {
        match own {
            Decision::Denied(denial) if denial.may_be_lent() && or(&denial, self.at) => {
                Decision::Allowed(denial.into_permit())
            }
            Decision::Denied(denial) => refuse(denial.cost()).unwrap_or(own),
            Decision::Allowed(_) => own,
        }
    }
}
