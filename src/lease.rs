//! [`Lease`]: units taken from a [`Limiter`] ahead of need, and spent without atomics.

use crate::clock::Timestamp;
use crate::decision::{Decision, Denial, Permit};
use crate::limit::Limit;
use crate::limiter::Limiter;
use crate::verb::Verb;

/// Units that one thread has taken from a [`Limiter`] and spends by itself.
///
/// Taking them is one decision on the shared word, so is returning; spending is a subtraction. A thread
/// that leases 32 units touches the shared line a thirty-second as often. Threads of one limiter share
/// it fairly only as far as units that lie in leases allow: choose batches that are small beside the
/// burst.
///
/// # What it guarantees
/// In any interval of length W at most `burst + rate * W` units are admitted, and those that lay in
/// leases when it began.
///
/// Unspent units are given back when the lease is dropped, less what has drained meanwhile: a lease of
/// n units expires n emission intervals after it was taken, in the sense that nothing comes back then.
/// Under a window policy they come back while the window is the one that was charged, else not at all. What counts as a
/// denial, where a policy counts them, is said at [`AtLimit`](crate::AtLimit).
///
/// ```
/// use tollgate::{Limiter, Quota};
/// let limiter = Limiter::new(Quota::per_hour(100));
/// let mut lease = limiter.lease(32)?;
/// // In the loop of one thread: takes the next 32 when these are spent.
/// for _ in 0..50 {
///     lease.check(1)?;
/// }
/// assert_eq!(lease.left(), 14);
/// assert!(limiter.lease(37).is_err());
/// drop(lease);
/// assert!(limiter.lease(37).is_ok());
/// # Ok::<(), tollgate::Denial>(())
/// ```
#[derive(Debug)]
pub struct Lease<'a> {
    limiter: &'a Limiter,
    /// How many are taken at a time.
    units: u64,
    left: u64,
    /// What the last batch has charged.
    permit: Permit,
    /// Whether what was taken last went beyond the limit that a soft policy names.
    over: bool,
    /// Whether times are those of the limiter's own clock, which a drop can read.
    own_clock: bool,
}

impl Limiter {
    /// Takes `units` ahead of need, all or none.
    ///
    /// # Errors
    /// The denial, as [`check`](Limiter::check) would give it for so many units.
    pub fn lease(&self, units: u64) -> Result<Lease<'_>, Denial> {
        self.take(units, self.now(), true)
    }

    /// [`lease`](Limiter::lease) at a time of the caller's. Such a lease gives back what is left only by
    /// [`return_at`](Lease::return_at): a drop does not know the caller's time.
    ///
    /// # Errors
    /// As [`lease`](Limiter::lease).
    ///
    /// ```
    /// use tollgate::{Limiter, Quota, Timestamp};
    /// let limiter = Limiter::new(Quota::per_minute(6));
    /// let lease = limiter.lease_at(6, Timestamp::from_secs(0))?;
    /// // One unit has drained in 10 s: 5 come back.
    /// lease.return_at(Timestamp::from_secs(10));
    /// assert_eq!(limiter.entry().at(Timestamp::from_secs(10)).peek(1).remaining(), 6);
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    pub fn lease_at(&self, units: u64, now: Timestamp) -> Result<Lease<'_>, Denial> {
        self.take(units, now, false)
    }

    fn take(&self, units: u64, now: Timestamp, own_clock: bool) -> Result<Lease<'_>, Denial> {
        let permit = self.ask(Verb::Check, units, now, units > 0).into_result()?;
        // One answer for the whole batch: which of its units went beyond is not told apart.
        let over = permit.is_over();
        Ok(Lease { limiter: self, units, left: units, permit, over, own_clock })
    }
}

impl Lease<'_> {
    /// Spends `cost` units if so many are left, and says whether they were.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_second(100));
    /// let mut lease = limiter.lease(2)?;
    /// assert_eq!([lease.spend(1), lease.spend(2), lease.spend(1)], [true, false, true]);
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[inline]
    #[must_use = "units that were not there limit something"]
    pub fn spend(&mut self, cost: u64) -> bool {
        match self.left.checked_sub(cost) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    /// Spends `cost` units. If too few are left they are returned first, and as many as before, or
    /// `cost` if that is more, are taken anew: at the time of the limiter's clock.
    ///
    /// A lease taken at a time of the caller's is not for this: the two clocks may differ. It only spends
    /// what is left, and then asks the limiter for each request.
    ///
    /// # Errors
    /// The denial of the limiter, if it does not have so many. Then a smaller cost may still fit.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(3));
    /// let mut lease = limiter.lease(2)?;
    /// assert!(lease.check(1).is_ok() && lease.check(1).is_ok());
    /// // Not two more, but the one that is left: the batch shrinks before anything is denied.
    /// assert!(lease.check(1).is_ok());
    /// assert!(lease.check(1).is_err());
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[inline]
    pub fn check(&mut self, cost: u64) -> Result<(), Denial> {
        if self.spend(cost) { Ok(()) } else { self.renew(cost) }
    }

    #[cold]
    #[inline(never)]
    fn renew(&mut self, cost: u64) -> Result<(), Denial> {
        // What is left goes back first, so that the next batch can be taken whole.
        self.give_back();
        let now = self.limiter.now();
        // A lease of the caller's times takes no batch anew: see `check`.
        if self.own_clock && self.refill(cost, now) {
            return Ok(());
        }
        // No batch: the request alone may still fit.
        self.over = self.limiter.ask(Verb::Check, cost, now, cost > 0).into_result()?.is_over();
        Ok(())
    }

    /// Takes the next batch and spends `cost` of it, and says whether there was one.
    #[inline(always)]
    fn refill(&mut self, cost: u64, now: Timestamp) -> bool {
        // A cost above the batch is a batch of its own.
        let batch = self.units.max(cost);
        // A batch that does not fit was not asked for: it is no denial.
        let taken = Limit::One(self.limiter).try_check(batch, Some(now));
        let Decision::Allowed(permit) = taken else { return false };
        self.keep(permit, batch - cost);
        true
    }

    #[inline(always)]
    fn keep(&mut self, permit: Permit, left: u64) {
        (self.left, self.permit, self.over) = (left, permit, permit.is_over());
    }

    /// Units that are left to spend.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Whether what was taken last was admitted only because the policy is soft: see
    /// [`Permit::is_over`]. It is so for the whole batch, whichever of its units is spent.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Policy, Quota};
    /// let policy = Policy::from(Quota::per_hour(4)).soft(5_000)?;
    /// let limiter = Limiter::with_clock(policy, ManualClock::new());
    /// let mut lease = limiter.lease(4).expect("a fresh limit");
    /// assert!(!lease.is_over() && lease.spend(4));
    /// assert!(lease.check(1).is_ok() && lease.is_over());
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Ends the lease at a time of the caller's, and gives back what is left, less what has drained.
    pub fn return_at(mut self, now: Timestamp) {
        let unspent = self.unspent();
        self.limiter.entry().at(now).refund(unspent);
    }

    /// A refund, bounded by the time since the units were taken: it looks for no bits of its own. Most often
    /// nothing is left, and it would read the clock for that.
    fn give_back(&mut self) {
        if self.own_clock && self.left > 0 {
            let unspent = self.unspent();
            self.limiter.entry().refund(unspent);
        }
    }

    /// What is given back is gone from the lease: nothing is given back twice.
    fn unspent(&mut self) -> Permit {
        self.permit.portion(std::mem::take(&mut self.left))
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}
