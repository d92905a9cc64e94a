//! [`SparePool`]: lends units that a server can spare to keys that are over their own quota.
//!
//! # How the rate changes without a step
//! The pool is a [`Limiter`] of GCRA at its full rate, which is one word. At headroom h the pool charges 1/h units for
//! each unit that it lends, rounded up to a *part*. The number of parts of a unit is a power of two, and as large as
//! possible: a word must have room for the pool's whole quota, counted in parts. So half the headroom lends half the
//! burst and half the rate. The word counts in the same parts at every headroom, so a report of a new headroom does not
//! change the word. Earlier loans keep their price, and drain as before. No step converts the word, so no such step can
//! race with a loan, and there is no second word that has to agree with the first.
//!
//! The bound follows from these prices. The prices of all loans in a closed interval of length W are at most
//! `burst + rate * W`, as under any GCRA limit, and a unit's price is at least 1/h for the largest headroom h of those
//! loans. So the loans are at most `h * (burst + rate * W)` units. Switching between headrooms creates no extra units.
//!
//! It is not enough to lower the rate and leave the burst whole: a full pool would then lend its burst anew at every
//! report.
//!
//! Giving a loan back refunds its price, less the part that has drained since. So the loans that are not given back
//! keep the bound, as the charges of any limiter do.
//!
//! # Orderings
//! `Relaxed`: the headroom is one number, and no other data depends on it. It is read once for each decision. A
//! decision at the moment of a report may use the old headroom or the new one.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::{Clock, Denial, Entry, Limiter, Permit, Quota, Timestamp};

use crate::decision::ElasticDecision;
use crate::error::HeadroomError;
use crate::parts::in_parts;

/// Headroom 1. It is a power of two, so that whole, half and quarter headroom are exact. It has 32 bits, so that a
/// price fits in 128 bits.
const WHOLE: u64 = 1 << 32;

/// Lends units that a server can spare to clients that are over their own quota: see [`check`](SparePool::check).
///
/// The quota is the number of units that all clients together may borrow when the server is idle. At headroom h the
/// pool is a bucket h times as large that fills at h times the rate. A new pool has headroom 0 and lends nothing. The
/// headroom stays at the last report, so watch a server that may stop reporting.
///
/// # What it guarantees
/// In any closed interval of length W the pool lends at most `h * (burst + rate * W)` units, where h is the largest
/// headroom in force at any decision of the interval. As with any GCRA limit, rounding may add one tick to W. A report
/// creates no units, however often the headroom changes. A loan is charged to the pool alone: it takes nothing from any
/// client's own quota.
///
/// A cost above `h * burst` is not lent at headroom h, so give the pool a burst that is large beside the cost of one
/// request.
///
/// ```
/// use tollgate::Quota;
/// use tollgate_elastic::SparePool;
/// let pool = SparePool::new(Quota::per_second(1_000).burst(100));
/// assert_eq!(pool.remaining(), 0);
/// pool.report_headroom(0.25)?;
/// assert_eq!(pool.remaining(), 25);
/// # Ok::<(), tollgate_elastic::HeadroomError>(())
/// ```
#[derive(Debug)]
pub struct SparePool {
    /// The limiter of the pool, which counts in parts of a unit.
    limiter: Limiter,
    /// The number of parts in a unit, and in the whole burst.
    unit: u64,
    burst: u64,
    /// The headroom, in parts of [`WHOLE`].
    headroom: AtomicU64,
    clock: Clock,
}

impl SparePool {
    /// A pool with the machine's fastest clock ([`Clock::monotonic`]).
    ///
    /// ```
    /// use tollgate::Quota;
    /// use tollgate_elastic::SparePool;
    /// assert_eq!(SparePool::new(Quota::per_second(100)).headroom(), 0.0);
    /// ```
    #[must_use]
    pub fn new(quota: Quota) -> Self {
        Self::with_clock(quota, Clock::monotonic())
    }

    /// A pool with a clock of your choice. The limiters that borrow from it should have the same: see
    /// [`clock`](SparePool::clock).
    ///
    /// ```
    /// use tollgate::{ManualClock, Quota};
    /// use tollgate_elastic::SparePool;
    /// let clock = ManualClock::new();
    /// let pool = SparePool::with_clock(Quota::per_second(100), clock.clone());
    /// assert_eq!(pool.now(), clock.now());
    /// ```
    #[must_use]
    pub fn with_clock(quota: Quota, clock: impl Into<Clock>) -> Self {
        let clock = clock.into();
        let (unit, parts) = in_parts(quota);
        Self {
            limiter: Limiter::builder(parts).clock(clock.clone()).build(),
            unit,
            burst: parts.max_burst(),
            headroom: AtomicU64::new(0),
            clock,
        }
    }

    /// The current time of the pool's clock.
    ///
    /// ```
    /// use tollgate::Quota;
    /// use tollgate_elastic::SparePool;
    /// let pool = SparePool::new(Quota::per_second(100));
    /// assert!(pool.now() <= pool.now());
    /// ```
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The pool's clock. Limiters that borrow from the pool are built with it, so that the times of both count
    /// from one origin.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Limiter, Quota};
    /// use tollgate_elastic::SparePool;
    /// let pool = SparePool::new(Quota::per_second(1_000));
    /// let limiter = Limiter::builder(Quota::per_second(100)).clock(pool.clock()).build();
    /// let keyed = KeyedLimiter::<str>::builder(Quota::per_second(10)).clock(pool.clock()).build(1_000)?;
    /// assert!(pool.check(limiter.entry(), 1).is_allowed());
    /// assert!(pool.check(keyed.entry("alice"), 1).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Decides one request of `cost` units, and charges it to the client's own limit or else to the pool. A cost of 0
    /// asks whether anything is left.
    ///
    /// The client's own limit comes first, and is charged the whole cost if it admits. If it denies, the pool is asked
    /// for the whole cost; nothing is split between the two. Any number of limiters and keys can share one pool.
    ///
    /// A time given by [`Entry::at`] is the pool's time, too. All times given to limits of one pool must count from the
    /// same origin as the pool's clock. If no time is given, the limiter and the pool each read their own clock; the
    /// pool reads its clock only if it is asked to lend.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota, Timestamp};
    /// use tollgate_elastic::SparePool;
    /// let pool = SparePool::with_clock(Quota::per_minute(1), ManualClock::new());
    /// pool.report_headroom(1.0)?;
    /// let limiter = Limiter::builder(Quota::per_minute(1)).clock(pool.clock()).build();
    /// let at = |second| {
    ///     let decision = pool.check(limiter.entry().at(Timestamp::from_secs(second)), 1);
    ///     (decision.is_allowed(), decision.is_borrowed())
    /// };
    /// assert_eq!([at(0), at(1), at(2)], [(true, false), (true, true), (false, false)]);
    /// # Ok::<(), tollgate_elastic::HeadroomError>(())
    /// ```
    #[inline]
    pub fn check(&self, own: Entry<'_>, cost: u64) -> ElasticDecision {
        let mut borrowed = false;
        let decision = own.check_or(cost, |denial, at| {
            borrowed = self.lend(denial, at).is_some();
            borrowed
        });
        ElasticDecision { decision, borrowed }
    }

    /// Lends the units that a limit has just denied. Call it in the function that you pass to [`Entry::check_or`], with
    /// the time that this function gets. Gates of `tollgate-tower` call it, too. [`check`](SparePool::check) decides
    /// and lends in one call.
    ///
    /// The loan is a permit of the pool's own limiter, which counts in parts of units. Its only use is to be given back
    /// with [`give_back`](SparePool::give_back).
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_elastic::SparePool;
    /// let pool = SparePool::new(Quota::per_hour(100));
    /// pool.report_headroom(1.0)?;
    /// let limiter = Limiter::builder(Quota::per_hour(1)).clock(pool.clock()).build();
    /// let is_lent =
    ///     |_: &_| limiter.entry().check_or(1, |denial, at| pool.lend(denial, at).is_some()).is_allowed();
    /// assert_eq!((0..200).filter(is_lent).count(), 1 + 100);
    /// # Ok::<(), tollgate_elastic::HeadroomError>(())
    /// ```
    #[inline]
    #[must_use = "what is not lent is denied"]
    pub fn lend(&self, denial: &Denial, at: Option<Timestamp>) -> Option<Permit> {
        let price = self.price(denial.cost(), self.share())?;
        self.entry(at).check_n(price).into_result().ok()
    }

    /// Takes a loan back because another limit has denied the request, and returns the number of parts of units that
    /// came back. Parts that have drained since do not come back. The time must be that of [`lend`](SparePool::lend) or
    /// a later one. A loan can be given back once.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// use tollgate_elastic::SparePool;
    /// let pool = SparePool::with_clock(Quota::per_hour(9), ManualClock::new());
    /// pool.report_headroom(0.5)?;
    /// let limiter = Limiter::builder(Quota::per_hour(1)).clock(pool.clock()).build();
    /// assert!(limiter.check().is_allowed());
    /// let denial = limiter.check().into_result().expect_err("nothing is left");
    /// let loan = pool.lend(&denial, None).expect("four can be spared");
    /// assert_eq!(pool.remaining(), 3);
    /// let parts = loan.cost();
    /// assert_eq!(pool.give_back(loan, None), parts);
    /// assert_eq!(pool.remaining(), 4);
    /// # Ok::<(), tollgate_elastic::HeadroomError>(())
    /// ```
    pub fn give_back(&self, loan: Permit, at: Option<Timestamp>) -> u64 {
        self.entry(at).refund(loan)
    }

    /// The answer that [`check`](SparePool::check) would give, without charging: would a request of `cost` units be
    /// admitted, and would its units be borrowed?
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// use tollgate_elastic::SparePool;
    /// let pool = SparePool::with_clock(Quota::per_second(100), ManualClock::new());
    /// pool.report_headroom(1.0)?;
    /// let limiter = Limiter::builder(Quota::per_hour(2)).clock(pool.clock()).build();
    /// assert!(!pool.peek(limiter.entry(), 2).is_borrowed());
    /// assert!(pool.check(limiter.entry(), 2).is_allowed());
    /// assert!(pool.peek(limiter.entry(), 2).is_borrowed());
    /// assert_eq!(pool.remaining(), 100);
    /// # Ok::<(), tollgate_elastic::HeadroomError>(())
    /// ```
    #[inline]
    pub fn peek(&self, own: Entry<'_>, cost: u64) -> ElasticDecision {
        let mut borrowed = false;
        let decision = own.peek_or(cost, |denial, at| {
            borrowed = self.would_lend(denial, at);
            borrowed
        });
        ElasticDecision { decision, borrowed }
    }

    /// Whether [`lend`](SparePool::lend) would lend these units. It lends nothing. Call it in [`Entry::peek_or`].
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_elastic::SparePool;
    /// let pool = SparePool::new(Quota::per_hour(100));
    /// pool.report_headroom(1.0)?;
    /// let limiter = Limiter::builder(Quota::per_hour(1)).clock(pool.clock()).build();
    /// assert!(limiter.check().is_allowed());
    /// assert!(limiter.entry().peek_or(1, |denial, at| pool.would_lend(denial, at)).is_allowed());
    /// assert_eq!(pool.remaining(), 100);
    /// # Ok::<(), tollgate_elastic::HeadroomError>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn would_lend(&self, denial: &Denial, at: Option<Timestamp>) -> bool {
        let price = self.price(denial.cost(), self.share());
        price.is_some_and(|price| self.entry(at).peek(price).is_allowed())
    }

    /// Reports the share of the pool that can be spared from now on: 0 for none, 1 for all. It is rounded down to a
    /// multiple of 2^-32. Call it from any thread, as often as you like.
    ///
    /// # Errors
    /// Fails if the share is below 0, above 1, or not a number. The headroom then stays as it was.
    ///
    /// ```
    /// use tollgate::Quota;
    /// use tollgate_elastic::SparePool;
    /// let pool = SparePool::new(Quota::per_second(100));
    /// pool.report_headroom(0.5)?;
    /// let error = pool.report_headroom(f64::NAN).unwrap_err();
    /// assert_eq!(error.to_string(), "headroom NaN is refused; use 0 to 1");
    /// assert_eq!(pool.headroom(), 0.5);
    /// # Ok::<(), tollgate_elastic::HeadroomError>(())
    /// ```
    pub fn report_headroom(&self, headroom: f64) -> Result<(), HeadroomError> {
        if !(0.0..=1.0).contains(&headroom) {
            return Err(HeadroomError { found: headroom });
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and 2^32, and rounded down"
        )]
        let share = (headroom * WHOLE as f64) as u64;
        // A mistake that a loom model plants, to prove that the model notices it.
        #[cfg(loom)]
        if tollgate::control::fault() == Some(tollgate::control::Fault::ReportPricesAnew) {
            self.limiter.entry().reset();
        }
        // Relaxed: no other data depends on the headroom.
        self.headroom.store(share, Ordering::Relaxed);
        Ok(())
    }

    /// The headroom that was reported last.
    ///
    /// ```
    /// use tollgate::Quota;
    /// use tollgate_elastic::SparePool;
    /// assert_eq!(SparePool::new(Quota::per_second(100)).headroom(), 0.0);
    /// ```
    #[must_use]
    pub fn headroom(&self) -> f64 {
        self.share() as f64 / WHOLE as f64
    }

    /// The units that could be borrowed now, at the headroom in force.
    ///
    /// ```
    /// use tollgate::Quota;
    /// use tollgate_elastic::SparePool;
    /// let pool = SparePool::new(Quota::per_second(100));
    /// pool.report_headroom(1.0)?;
    /// assert_eq!(pool.remaining(), 100);
    /// # Ok::<(), tollgate_elastic::HeadroomError>(())
    /// ```
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.remaining_at(self.now())
    }

    /// [`remaining`](SparePool::remaining) at a time that the caller gives.
    ///
    /// ```
    /// use tollgate::{Quota, Timestamp};
    /// use tollgate_elastic::SparePool;
    /// let pool = SparePool::new(Quota::per_second(100));
    /// assert_eq!(pool.remaining_at(Timestamp::from_secs(1)), 0);
    /// ```
    #[must_use]
    pub fn remaining_at(&self, now: Timestamp) -> u64 {
        let room = self.entry(Some(now)).peek(0).remaining();
        let spare = u128::from(room) * u128::from(self.share()) / u128::from(WHOLE);
        u64::try_from(spare).unwrap_or(u64::MAX) / self.unit
    }

    /// The pool's own limit, at the caller's time if one is given.
    fn entry(&self, at: Option<Timestamp>) -> Entry<'_> {
        let entry = self.limiter.entry();
        at.map_or(entry, |now| entry.at(now))
    }

    /// The headroom, in parts of [`WHOLE`].
    fn share(&self) -> u64 {
        // Relaxed: no other data depends on the headroom.
        self.headroom.load(Ordering::Relaxed)
    }

    /// The price of `cost` units at a headroom, in parts; `None` if it is more than a word can count.
    fn price(&self, cost: u64, share: u64) -> Option<u64> {
        // If the cost fits at headroom 1, its number of parts is below 2^63, so the product below is below 2^95.
        let whole = cost.checked_mul(self.unit)?;
        if share == 0 || whole > self.burst {
            return None;
        }
        u64::try_from((u128::from(whole) * u128::from(WHOLE)).div_ceil(u128::from(share))).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_costs_no_less_than_its_headroom_says_and_less_than_a_part_more() {
        let pool = SparePool::with_clock(Quota::per_second(100), tollgate::ManualClock::new());
        let unit = pool.unit;
        for share in [1 << 27, WHOLE / 3, WHOLE / 2, WHOLE / 2 + 1, WHOLE - 1, WHOLE] {
            for cost in [1, 2, 7] {
                let price = u128::from(pool.price(cost, share).expect("a price"));
                let exact = u128::from(cost * unit) * u128::from(WHOLE);
                assert!(price * u128::from(share) >= exact);
                assert!((price - 1) * u128::from(share) < exact);
            }
        }
        assert_eq!(pool.price(3, WHOLE), Some(3 * unit));
        assert_eq!(pool.price(3, WHOLE / 4), Some(12 * unit));
        assert_eq!(pool.price(3, 0), None);
        assert_eq!(pool.price(101, WHOLE), None);
    }
}
