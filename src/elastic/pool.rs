//! [`SparePool`]: units that a server can spare, lent to keys that are over their own quota.
//!
//! # How the rate changes without a step
//! The pool is GCRA at its full rate, one word. At headroom h a unit costs 1/h of a unit, rounded up to
//! the tick: so half the headroom lends half the burst and half the rate. The word counts in the same
//! ticks whatever the headroom, so a report changes nothing in it: what was lent before was priced then,
//! and drains as it would have. There is no re-basing that could race with a loan, and no second word to
//! agree with.
//!
//! The bound follows. The prices of all loans in a closed interval of length W are at most
//! `burst + rate * W`, as ever, and a unit's price is at least 1/h for the largest headroom h of those
//! loans: so they are at most `h * (burst + rate * W)` units. Going to and fro between headrooms gains
//! nothing.
//!
//! Had the burst been left whole while the rate sinks, a full pool would lend it anew at every report.
//!
//! # Orderings
//! `Relaxed`, as in [`crate::cell`]. The headroom is read once for each decision; one that was replaced
//! at the same moment is as good as the new one.

use crossbeam_utils::CachePadded;

use crate::algorithm::{Decides, Gcra, Held};
use crate::cell::Cell;
use crate::clock::{Clock, LATEST_NS, Timestamp};
use crate::error::HeadroomError;
use crate::quota::Quota;
use crate::sync::{AtomicU64, Fault, Ordering, planted};
use crate::word::{Fields, Word};

/// Headroom 1. A power of two, so that whole, half and quarter headroom are exact; 32 bits, so that a
/// price fits in 128.
const WHOLE: u64 = 1 << 32;

/// What a server can spare, lent to clients that are over their own quota: see
/// [`Entry::check_or_borrow`](crate::Entry::check_or_borrow).
///
/// The quota is what all clients together may borrow when the server is idle. At headroom h it is a
/// bucket h times as large that fills at h times the rate; a new pool has headroom 0 and lends nothing.
/// The headroom stays what was reported last: a server that may stop reporting should be watched.
///
/// # What it guarantees
/// In any closed interval of length W it lends at most `h * (burst + rate * W)` units, h being the
/// largest headroom that a decision of the interval was made at; a tick longer, as every GCRA here. A
/// report mints nothing, however often the headroom changes. A loan is charged to the pool alone: what one
/// client borrows takes nothing from the own quota of any.
///
/// A cost above `h * burst` is not lent at headroom h: give the pool a burst that is large beside single
/// costs.
///
/// ```
/// use tollgate::{Quota, SparePool};
/// let pool = SparePool::new(Quota::per_second(1_000).burst(100));
/// assert_eq!(pool.remaining(), 0);
/// pool.report_headroom(0.25)?;
/// assert_eq!(pool.remaining(), 25);
/// # Ok::<(), tollgate::HeadroomError>(())
/// ```
#[derive(Debug)]
pub struct SparePool {
    cell: CachePadded<Cell>,
    gcra: Gcra,
    /// In parts of [`WHOLE`].
    headroom: AtomicU64,
    clock: Clock,
}

impl SparePool {
    /// A pool with the machine's fastest clock ([`Clock::monotonic`]).
    ///
    /// ```
    /// use tollgate::{Quota, SparePool};
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
    /// use tollgate::{ManualClock, Quota, SparePool};
    /// let clock = ManualClock::new();
    /// let pool = SparePool::with_clock(Quota::per_second(100), clock.clone());
    /// assert_eq!(pool.now(), clock.now());
    /// ```
    #[must_use]
    pub fn with_clock(quota: Quota, clock: impl Into<Clock>) -> Self {
        let unit_bits = quota.unit_bits().unwrap_or(0); // a quota that exists has them
        let gcra = Gcra::new(quota.count(), quota.period_ns(), quota.max_burst(), unit_bits);
        Self {
            cell: CachePadded::new(Cell::new(Word::UNUSED)),
            gcra,
            headroom: AtomicU64::new(0),
            clock: clock.into(),
        }
    }

    /// What the pool's clock reads.
    ///
    /// ```
    /// use tollgate::{Quota, SparePool};
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
    /// use tollgate::{KeyedLimiter, Limiter, Quota, SparePool};
    /// let pool = SparePool::new(Quota::per_second(1_000));
    /// let limiter = Limiter::with_clock(Quota::per_second(100), pool.clock());
    /// let keyed = KeyedLimiter::<str>::with_clock(Quota::per_second(10), 1_000, pool.clock())?;
    /// assert!(limiter.entry().check_or_borrow(1, &pool).is_allowed());
    /// assert!(keyed.entry("alice").check_or_borrow(1, &pool).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Says what share of the pool can be spared from now on: 0 for none, 1 for all. From any thread, as
    /// often as you like; rounded down to a multiple of 2^-32.
    ///
    /// # Errors
    /// A share below 0 or above 1, or that is no number. The headroom stays as it was.
    ///
    /// ```
    /// use tollgate::{Quota, SparePool};
    /// let pool = SparePool::new(Quota::per_second(100));
    /// pool.report_headroom(0.5)?;
    /// let error = pool.report_headroom(f64::NAN).unwrap_err();
    /// assert_eq!(error.to_string(), "headroom NaN is refused; use 0 to 1");
    /// assert_eq!(pool.headroom(), 0.5);
    /// # Ok::<(), tollgate::HeadroomError>(())
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
        let parts = (headroom * WHOLE as f64) as u64;
        if planted(Fault::ReportPricesAnew) {
            self.cell.replace(self.cell.load(), Word::UNUSED);
        }
        // Relaxed: see the header.
        self.headroom.store(parts, Ordering::Relaxed);
        Ok(())
    }

    /// The headroom that was reported last.
    ///
    /// ```
    /// use tollgate::{Quota, SparePool};
    /// assert_eq!(SparePool::new(Quota::per_second(100)).headroom(), 0.0);
    /// ```
    #[must_use]
    pub fn headroom(&self) -> f64 {
        self.parts() as f64 / WHOLE as f64
    }

    /// The units that could be borrowed now, at the headroom in force.
    ///
    /// ```
    /// use tollgate::{Quota, SparePool};
    /// let pool = SparePool::new(Quota::per_second(100));
    /// pool.report_headroom(1.0)?;
    /// assert_eq!(pool.remaining(), 100);
    /// # Ok::<(), tollgate::HeadroomError>(())
    /// ```
    #[must_use]
    pub fn remaining(&self) -> u64 {
        let (_, held) = self.held(self.clock.now());
        let room = self.gcra.burst_ticks().saturating_sub(held.ahead);
        let spare = u128::from(room) * u128::from(self.parts()) / u128::from(WHOLE);
        u64::try_from(spare).unwrap_or(u64::MAX) / self.gcra.unit_ticks()
    }

    /// Lends `cost` units, all or none.
    pub(super) fn lend(&self, cost: u64, now: Timestamp) -> bool {
        let parts = self.parts();
        loop {
            let (word, held) = self.held(now);
            let Some(next) = self.lent(held, now, cost, parts) else { return false };
            // Lock-free: a CAS that fails has lost to another loan.
            if self.cell.replace(word, next) {
                return true;
            }
        }
    }

    pub(super) fn would_lend(&self, cost: u64, now: Timestamp) -> bool {
        self.lent(self.held(now).1, now, cost, self.parts()).is_some()
    }

    fn parts(&self) -> u64 {
        // Relaxed: see the header.
        self.headroom.load(Ordering::Relaxed)
    }

    /// The word, and what it holds seen from `now`.
    fn held(&self, now: Timestamp) -> (Word, Held) {
        let word = self.cell.load();
        (word, Fields::TIME_ALONE.unpack(word, self.gcra.moment(cut(now))))
    }

    /// The pure function: what the word is after a loan, or `None` if there is none.
    fn lent(&self, held: Held, now: Timestamp, cost: u64, parts: u64) -> Option<Word> {
        let price = self.price(cost, parts)?;
        let room = self.gcra.burst_ticks().checked_sub(price)?;
        let next = Held { ahead: held.ahead + price, ..Held::IDLE };
        let fits = held.ahead <= room;
        fits.then(|| Fields::TIME_ALONE.pack(next, self.gcra.moment(cut(now))))
    }

    /// What `cost` units cost at a headroom, in ticks at the full rate; `None` if more than there can be.
    fn price(&self, cost: u64, parts: u64) -> Option<u64> {
        // Below 2^63 if it fits at the whole headroom, so that the product below is below 2^95.
        let whole = cost.checked_mul(self.gcra.unit_ticks())?;
        if parts == 0 || whole > self.gcra.burst_ticks() {
            return None;
        }
        u64::try_from((u128::from(whole) * u128::from(WHOLE)).div_ceil(u128::from(parts))).ok()
    }
}

/// Past the latest time the clock stands still, as in every word.
fn cut(now: Timestamp) -> u64 {
    now.as_nanos().min(LATEST_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_costs_no_less_than_its_headroom_says_and_less_than_a_tick_more() {
        let pool = SparePool::with_clock(Quota::per_second(100), crate::ManualClock::new());
        let unit = pool.gcra.unit_ticks();
        for parts in [1 << 27, WHOLE / 3, WHOLE / 2, WHOLE / 2 + 1, WHOLE - 1, WHOLE] {
            for cost in [1, 2, 7] {
                let price = u128::from(pool.price(cost, parts).expect("a price"));
                let exact = u128::from(cost * unit) * u128::from(WHOLE);
                assert!(price * u128::from(parts) >= exact);
                assert!((price - 1) * u128::from(parts) < exact);
            }
        }
        assert_eq!(pool.price(3, WHOLE), Some(3 * unit));
        assert_eq!(pool.price(3, WHOLE / 4), Some(12 * unit));
        assert_eq!(pool.price(3, 0), None);
        assert_eq!(pool.price(101, WHOLE), None);
    }
}
