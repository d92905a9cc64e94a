//! [`SketchLimiter`]: any number of keys in fixed memory.

mod cell;
mod lens;
mod place;
mod rows;
mod size;
#[cfg(any(loom, shuttle))]
mod witness;

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use ahash::RandomState;

use crate::clock::{Clock, Timestamp};
use crate::decision::Decision;
use crate::error::BuildError;
use crate::policy::{Policy, deciding};
use crate::store::Store;
use crate::verb::Verb;

use place::Placer;
use rows::Rows;

pub(crate) use lens::Lens;
pub(crate) use place::{GOLDEN, Places, mix};
pub(crate) use rows::Cells;

pub use size::SketchSize;

/// A limit per key for any number of keys, in memory that is fixed at construction. It is a count-min sketch whose
/// cells are words of a limiter.
///
/// A key has one cell in each of a few rows, and shares each cell with other keys. A request is admitted if the *least
/// loaded* of its cells admits it, and is charged to all of them. So other keys can only take units away from a key,
/// and only by charging *every* one of its cells. Nothing is allocated, no thread waits for another, and there are no
/// sweeps: cells drain by themselves.
///
/// # What it guarantees
/// * No key ever gets more than its quota, no matter what other keys do and in which order times come. The bounds are
///   the same as those of a separate [`Limiter`](crate::Limiter) for the key. With several threads, GCRA needs one
///   condition for this: the requests of *one key* that are being decided at the same moment cost together no more than
///   a burst, *or* their times are no further apart than the time in which a burst comes back. A request comes too late
///   for a window if all of its key's cells are in later windows, even if requests of other keys moved the cells there.
///   Such a request counts in the earliest window of these cells.
/// * Memory never grows, and nothing is evicted: no flood resets anyone's limit.
/// * After a flood ends, a cell stays full for at most the time of two bursts (GCRA), or until its window is over.
///
/// # What it gives up
/// * A key may be refused although its own quota would admit it, if other keys have filled all of its cells.
///   [`SketchSize::for_load`] computes the memory for a chosen share of such refusals. If the load is higher than the
///   load for which the size was computed, the share grows. A sketch has no capacity at which it is full.
/// * [`remaining`](Decision::remaining), [`retry_after`](crate::Denial::retry_after) and
///   [`reset_after`](Decision::reset_after) are those of the least loaded cell, so they include other keys' traffic.
/// * An admission costs a compare-and-swap per row. If several threads want the last unit of one cell at the same
///   moment, for one key or for several, one of them gets it. The others are denied, but leave their cost in their
///   key's other cells until it drains. (Any other denial writes nothing.)
/// * Windows that open with the first request (`from-first`) are refused: the cells of one key would open their windows
///   at different times, and the bound could not be kept.
///
/// # When it is the wrong choice
/// In most cases a sketch is the wrong choice. A [`KeyedLimiter`](crate::KeyedLimiter) decides exactly, with a tenth of
/// the memory per live key and one cache line per decision. Use a `KeyedLimiter` when you know roughly how many keys
/// are live at once, even if they are millions. Use a sketch if that number cannot be known, and if a new key must not
/// be refused because a table is full. Examples are limits per source address in front of everything else, and limits
/// under attack. A sketch also answers if a key [was seen lately](crate::Entry::is_live). Do not use a sketch where a
/// customer must get the full quota that was promised.
///
/// ```
/// use tollgate::{Quota, SketchLimiter, SketchSize};
/// let size = SketchSize::for_load(10_000, 1_000)?;
/// let limiter = SketchLimiter::new(Quota::per_second(100).burst(20), size)?;
/// assert!(limiter.check("203.0.113.7").is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct SketchLimiter<K: ?Sized, S = RandomState> {
    policy: Policy,
    rows: Rows,
    placer: Placer<S>,
    size: SketchSize,
    clock: Clock,
    keys: PhantomData<fn(&K)>,
}

impl<K: Hash + ?Sized> SketchLimiter<K> {
    /// A limiter of this size, with aHash seeded from the operating system and the machine's fastest clock. To choose
    /// the hasher or the clock, use a [`builder`](SketchLimiter::builder).
    ///
    /// # Errors
    /// Returns an error if the policy is a sliding log, if it has windows from the first request or an option for its
    /// limit other than `soft`, or if the memory cannot be allocated.
    ///
    /// ```
    /// use tollgate::{BuildError, Policy, SketchLimiter, SketchSize};
    /// let size = SketchSize::new(4, 10_000)?;
    /// let policy: Policy = "sliding-window 100/m".parse()?;
    /// let limiter = SketchLimiter::new(policy, size)?;
    /// assert!(limiter.check(&42_u64).is_allowed());
    /// let policy: Policy = "fixed-window 100/m from-first".parse()?;
    /// let refused = SketchLimiter::<str>::new(policy, size);
    /// assert!(matches!(refused, Err(BuildError::Policy(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(policy: impl Into<Policy>, size: SketchSize) -> Result<Self, BuildError> {
        Self::builder(policy).build(size)
    }
}

impl<K: ?Sized> SketchLimiter<K> {
    /// Makes a builder for a limiter with this policy for each key. Use it to choose the clock or the hasher.
    ///
    /// ```
    /// use tollgate::{ManualClock, Quota, SketchLimiter, SketchSize};
    /// let size = SketchSize::new(4, 1_000)?;
    /// let limiter =
    ///     SketchLimiter::builder(Quota::per_hour(1)).clock(ManualClock::new()).build(size)?;
    /// assert!(limiter.check("alice").is_allowed());
    /// assert!(!limiter.check("alice").is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn builder(policy: impl Into<Policy>) -> SketchBuilder<K> {
        SketchBuilder {
            policy: policy.into(),
            clock: None,
            hasher: RandomState::new(),
            keys: PhantomData,
        }
    }
}

/// Builds a [`SketchLimiter`]. [`SketchLimiter::builder`] makes this builder, and [`build`](SketchBuilder::build) makes
/// the limiter.
///
/// ```
/// use tollgate::{Quota, SketchLimiter, SketchSize};
/// let limiter = SketchLimiter::builder(Quota::per_second(9)).build(SketchSize::new(4, 1_000)?)?;
/// assert!(limiter.check("alice").is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct SketchBuilder<K: ?Sized, S = RandomState> {
    policy: Policy,
    clock: Option<Clock>,
    hasher: S,
    keys: PhantomData<fn(&K)>,
}

impl<K: ?Sized, S> SketchBuilder<K, S> {
    /// The clock from which the limiter reads the time. By default this is the machine's fastest clock
    /// ([`Clock::monotonic`]), or [`Clock::unix`] if the policy needs the date.
    ///
    /// ```
    /// use tollgate::{ManualClock, Quota, SketchLimiter, SketchSize, Timestamp};
    /// let builder = SketchLimiter::<str>::builder(Quota::per_second(5)).clock(ManualClock::new());
    /// assert_eq!(builder.build(SketchSize::new(4, 1_000)?)?.now(), Timestamp::default());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = Some(clock.into());
        self
    }

    /// The hasher of keys, instead of aHash with seeds from the operating system. It determines the cell of a key in
    /// each row. If an attacker can choose keys and see many answers, use SipHash, which is the standard library's
    /// `RandomState`.
    ///
    /// ```
    /// use std::hash::RandomState; // SipHash, with keys of its own
    /// use tollgate::{Quota, SketchLimiter, SketchSize};
    /// let builder = SketchLimiter::builder(Quota::per_second(9)).hasher(RandomState::new());
    /// assert!(builder.build(SketchSize::new(4, 1_000)?)?.check("alice").is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn hasher<H: BuildHasher>(self, hasher: H) -> SketchBuilder<K, H> {
        SketchBuilder { policy: self.policy, clock: self.clock, hasher, keys: PhantomData }
    }
}

impl<K: Hash + ?Sized, S: BuildHasher> SketchBuilder<K, S> {
    /// The limiter, with this size.
    ///
    /// # Errors
    /// Returns an error if the policy is a sliding log, if it has windows from the first request or an option for its
    /// limit other than `soft`, if it has windows of the calendar and the clock does not give the date, or if the
    /// memory cannot be allocated.
    ///
    /// ```
    /// use tollgate::{BuildError, Policy, SketchLimiter, SketchSize};
    /// let policy: Policy = "fixed-window 100/m from-first".parse()?;
    /// let refused = SketchLimiter::<str>::builder(policy).build(SketchSize::new(4, 10_000)?);
    /// assert!(matches!(refused, Err(BuildError::Policy(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build(self, size: SketchSize) -> Result<SketchLimiter<K, S>, BuildError> {
        let Self { policy, clock, hasher, keys } = self;
        let clock = deciding(clock.unwrap_or_else(|| Policy::clock_for([&policy])), &policy)?;
        let rows = Rows::new(policy, size)?;
        let placer = Placer::new(hasher, size.rows(), size.cells_per_row());
        Ok(SketchLimiter { policy, rows, placer, size, clock, keys })
    }
}

impl<K: ?Sized, S> fmt::Debug for SketchBuilder<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SketchBuilder")
            .field("policy", &self.policy)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

impl<K: Hash + ?Sized, S: BuildHasher> SketchLimiter<K, S> {
    /// The policy that the limiter enforces for each key.
    ///
    /// ```
    /// use tollgate::{Quota, SketchLimiter, SketchSize};
    /// let limiter = SketchLimiter::<str>::new(Quota::per_hour(2), SketchSize::new(4, 1_000)?)?;
    /// assert_eq!(limiter.policy(), Quota::per_hour(2).into());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// The present reading of the limiter's clock, which is the time that [`check`](SketchLimiter::check) would use.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Decides a request of one unit for `key` now, and charges it if it is admitted: the short form of
    /// [`check_n`](SketchLimiter::check_n).
    ///
    /// ```
    /// use tollgate::{Quota, SketchLimiter, SketchSize};
    /// let limiter = SketchLimiter::new(Quota::per_hour(2), SketchSize::new(4, 1_000)?)?;
    /// assert!(limiter.check("alice").is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn check(&self, key: &K) -> Decision {
        self.check_n(key, 1)
    }

    /// Decides a request of `cost` units for `key` now, and charges it if it is admitted. A request of 0 units charges
    /// nothing. To decide without charging, use [`peek`](crate::Entry::peek).
    ///
    /// ```
    /// use tollgate::{DenialReason, Quota, SketchLimiter, SketchSize};
    /// let limiter = SketchLimiter::new(Quota::per_hour(2), SketchSize::new(4, 1_000)?)?;
    /// assert!(limiter.check_n("alice", 2).is_allowed());
    /// assert!(!limiter.check("alice").is_allowed());
    /// assert_eq!(limiter.check_n("alice", 3).into_result().unwrap_err().reason(), DenialReason::NeverFits);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn check_n(&self, key: &K, cost: u64) -> Decision {
        self.place(key).decide(cost, None, true)
    }

    /// Hashes the key and prefetches the cache lines of all of its cells. The clock is read only after that: see
    /// [`crate::hash::prefetch`].
    #[inline(always)]
    pub(crate) fn place(&self, key: &K) -> KeyCells<'_> {
        let places = self.placer.places(key);
        self.rows.fetch(&places);
        KeyCells { rows: &self.rows, clock: &self.clock, places }
    }

    /// The number of rows and of cells in each row, which are fixed at construction.
    ///
    /// ```
    /// use tollgate::{Quota, SketchLimiter, SketchSize};
    /// let size = SketchSize::new(4, 1_000)?;
    /// assert_eq!(SketchLimiter::<str>::new(Quota::per_hour(2), size)?.size(), size);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn size(&self) -> SketchSize {
        self.size
    }
}

/// The cells of one key of a sketch, whose memory has been prefetched.
#[derive(Clone, Copy)]
pub struct KeyCells<'a> {
    rows: &'a Rows,
    clock: &'a Clock,
    places: Places,
}

impl KeyCells<'_> {
    pub(crate) fn clock(&self) -> &Clock {
        self.clock
    }

    /// True if all of the key's cells hold a charge.
    pub(crate) fn is_live(&self, at: Option<Timestamp>) -> bool {
        self.rows.is_live(&self.places, at.unwrap_or_else(|| self.clock.now()))
    }
}

impl Store for KeyCells<'_> {
    #[inline(always)]
    fn ask(&self, verb: Verb, cost: u64, at: Option<Timestamp>, charge: bool) -> Decision {
        let now = at.unwrap_or_else(|| self.clock.now());
        match verb {
            _ if !charge => self.rows.peek(&self.places, now, cost),
            Verb::Check => self.rows.check(&self.places, now, cost),
            _ => self.rows.gather(verb, &self.places, now, cost),
        }
    }
}

/// This does not print the whole sketch.
impl fmt::Debug for KeyCells<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl<K: ?Sized, S> fmt::Debug for SketchLimiter<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SketchLimiter")
            .field("rows", &self.size.rows())
            .field("cells_per_row", &self.size.cells_per_row())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
