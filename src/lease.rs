//! [`Lease`]: units taken from a limit ahead of need, and spent without atomics.

use crate::decision::{Decision, Denial, Permit};
use crate::entry::Entry;
use crate::store::Store;

/// Units that one thread has taken from a limit in advance, and spends without atomics: see [`Entry::lease`].
///
/// Taking the units is one decision on the shared word, and returning them is another. Spending a unit is only a
/// subtraction. A thread that leases 32 units at a time touches the shared cache line only once for 32 units. Other
/// threads cannot use the units in a lease. So choose batches that are small compared with the burst.
///
/// # What it guarantees
/// In any interval of length W at most `burst + rate * W` units are admitted, plus the units that were in leases when
/// the interval began.
///
/// When the lease is dropped, unspent units are given back by a [`refund`](Entry::refund), less those that have drained
/// meanwhile. So n emission intervals after a lease of n units was taken, nothing is given back any more. (An emission
/// interval is the time in which one unit comes back.) Under a window, units come back only until a later window has
/// been charged. For policies that count denials, [`AtLimit`](crate::AtLimit) says which requests of a lease count as
/// denials.
///
/// ```
/// use tollgate::{Limiter, Quota};
/// let limiter = Limiter::new(Quota::per_hour(100));
/// let mut lease = limiter.entry().lease(32)?;
/// // In the loop of one thread: takes the next 32 when these are spent.
/// for _ in 0..50 {
///     lease.check()?;
/// }
/// assert_eq!(lease.left(), 14);
/// assert!(limiter.entry().lease(37).is_err());
/// drop(lease);
/// assert!(limiter.entry().lease(37).is_ok());
/// # Ok::<(), tollgate::Denial>(())
/// ```
#[derive(Debug)]
pub struct Lease<'a> {
    /// It has a time if the caller gave the time at which the lease was taken.
    entry: Entry<'a>,
    /// The number of units in a batch.
    units: u64,
    left: u64,
    /// The permit of the last batch.
    permit: Permit,
    /// True if the units that were taken last went beyond the limit that a soft policy names.
    over: bool,
}

impl<'a> Entry<'a> {
    /// Takes `units` in advance, all or none, for one thread to spend.
    ///
    /// If the caller gives the time of a lease ([`at`](Entry::at)), the lease gives nothing back when it is dropped. To
    /// give its units back, refund the permit of [`into_unspent`](Lease::into_unspent).
    ///
    /// # Errors
    /// Returns the denial that [`check_n`](Entry::check_n) would give for this number of units.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_second(1_000_000));
    /// let mut lease = limiter.entry().lease(32)?;
    /// assert!(lease.spend(1));
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    pub fn lease(self, units: u64) -> Result<Lease<'a>, Denial> {
        let permit = self.check_n(units).into_result()?;
        // There is one answer for the whole batch, which does not say which of its units went beyond the limit.
        Ok(Lease { entry: self, units, left: units, over: permit.is_over(), permit })
    }
}

impl Lease<'_> {
    /// Spends `cost` units and returns true, if the lease has that many left.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_second(100));
    /// let mut lease = limiter.entry().lease(2)?;
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

    /// Spends one unit: the short form of [`check_n`](Lease::check_n).
    ///
    /// # Errors
    /// As [`check_n`](Lease::check_n).
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(3));
    /// let mut lease = limiter.entry().lease(2)?;
    /// assert!(lease.check().is_ok());
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[inline]
    pub fn check(&mut self) -> Result<(), Denial> {
        self.check_n(1)
    }

    /// Spends `cost` units. If the lease has too few units left, it gives them back and takes a new batch at the time
    /// of the limiter's clock. The batch is as large as before, or `cost` if that is more. If this batch does not fit,
    /// the lease takes only `cost` units.
    ///
    /// If the caller gave the time of the lease, the lease takes no new batch, since the caller's clock may differ from
    /// the limiter's. It only spends the units that are left, and passes each request for more on to the limit.
    ///
    /// # Errors
    /// Returns the denial of the limit if the limit does not have `cost` units. A smaller cost may still fit.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(3));
    /// let mut lease = limiter.entry().lease(2)?;
    /// assert!(lease.check().is_ok() && lease.check().is_ok());
    /// // Not two more, but the one that is left: the batch shrinks before anything is denied.
    /// assert!(lease.check().is_ok());
    /// assert!(lease.check().is_err());
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[inline]
    pub fn check_n(&mut self, cost: u64) -> Result<(), Denial> {
        if self.spend(cost) { Ok(()) } else { self.renew(cost) }
    }

    #[cold]
    #[inline(never)]
    fn renew(&mut self, cost: u64) -> Result<(), Denial> {
        // The units that are left go back first, so that the next batch can be taken whole.
        self.give_back();
        let (own_clock, entry) = (self.entry.at.is_none(), Entry { at: None, ..self.entry });
        // If the caller gave the time of the lease, the lease takes no new batch: see `check_n`.
        if own_clock && self.refill(cost) {
            return Ok(());
        }
        // The batch does not fit, but the request alone may still fit.
        self.over = entry.check_n(cost).into_result()?.is_over();
        Ok(())
    }

    /// Takes the next batch and spends `cost` of it. Returns true if the limit admitted the batch.
    #[inline(always)]
    fn refill(&mut self, cost: u64) -> bool {
        // A cost above the size of a batch makes a larger batch.
        let batch = self.units.max(cost);
        // The caller requested only `cost` units, so a batch that does not fit is not counted as a denial.
        let Decision::Allowed(permit) = self.entry.limit.try_check(batch, None) else {
            return false;
        };
        self.keep(permit, batch - cost);
        true
    }

    #[inline(always)]
    fn keep(&mut self, permit: Permit, left: u64) {
        (self.left, self.over, self.permit) = (left, permit.is_over(), permit);
    }

    /// The number of units that are left in the lease.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_second(100));
    /// assert_eq!(limiter.entry().lease(32)?.left(), 32);
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// True if the units that were taken last were admitted only because the policy is soft: see [`Permit::is_over`].
    /// The answer is about the whole batch, not about single units.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Percent, Policy, Quota};
    /// let policy = Policy::from(Quota::per_hour(4)).soft(Percent::new(50))?;
    /// let limiter = Limiter::builder(policy).clock(ManualClock::new()).build();
    /// let mut lease = limiter.entry().lease(4).expect("a fresh limit");
    /// assert!(!lease.is_over() && lease.spend(4));
    /// assert!(lease.check().is_ok() && lease.is_over());
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Ends the lease without giving anything back. Returns a permit for the units that are left, so that the caller
    /// can refund them at a time of its own.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota, Timestamp};
    /// let limiter = Limiter::new(Quota::per_minute(6));
    /// let at = |second| limiter.entry().at(Timestamp::from_secs(second));
    /// let lease = at(0).lease(6)?;
    /// // One unit has drained in 10 s: 5 come back.
    /// assert_eq!(at(10).refund(lease.into_unspent()), 5);
    /// assert_eq!(at(10).peek(1).remaining(), 6);
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[must_use = "what is not refunded drains"]
    pub fn into_unspent(mut self) -> Permit {
        self.unspent()
    }

    /// Refunds the units that are left, except for those that have drained since. Most often no units are left, and
    /// then the clock is not read.
    fn give_back(&mut self) {
        if self.entry.at.is_none() && self.left > 0 {
            let unspent = self.unspent();
            self.entry.refund(unspent);
        }
    }

    /// The units leave the lease before they are given back, so that none is given back twice.
    fn unspent(&mut self) -> Permit {
        self.permit.split_off(std::mem::take(&mut self.left))
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}
