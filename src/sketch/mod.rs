//! [`SketchLimiter`]: any number of keys in fixed memory.

mod cell;
mod error;
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
use crate::policy::Policy;

use place::Placer;
use rows::Rows;

pub(crate) use lens::Lens;
pub(crate) use place::{GOLDEN, Places, mix};
pub(crate) use rows::Cells;

pub use error::SketchError;
pub use size::SketchSize;

/// A limit per key for any number of keys, in memory fixed at construction: a count-min sketch whose cells
/// are the words of a limiter.
///
/// A key has one cell in each of a few rows, and shares it with other keys that fall there. A request is
/// admitted if the *least loaded* of its cells admits it, and is charged to all of them. So what others do
/// can only lower what a key gets, and only if they crowd *every* one of its cells. Nothing is allocated, no
/// thread waits for another, nothing is swept: cells drain by themselves.
///
/// # What it guarantees
/// * No key ever gets more than its quota, whatever other keys do and in whatever order times come: the
///   bounds are those of the policy, as for a [`Limiter`](crate::Limiter) of the key's own. Between threads
///   GCRA asks for one thing: that the requests of *one key* that are being decided at the same moment do
///   not ask for more than a burst in all, *or* have times no further apart than a burst takes to come back.
///   A window that a request comes too late for is, here, one that all of its cells have left, also if other
///   keys made them: it counts in the earliest window that any of them is in.
/// * Memory never grows, and nothing is evicted: no flood resets anyone's limit.
/// * A cell is full for at most two bursts' time (GCRA), or until its window is over, after the flood ends.
///
/// # What it gives up
/// * It may refuse a key that its own quota would admit, when others hold all of its cells.
///   [`SketchSize::for_load`] says how much memory makes that how rare. Beyond its load it refuses more and
///   more; it has no capacity at which it is full.
/// * [`remaining`](Decision::remaining), [`retry_after`](crate::Denial::retry_after) and
///   [`reset_after`](Decision::reset_after) are those of the least loaded cell, so others' traffic shows in
///   them.
/// * An admission costs a compare-and-swap per row. Of threads that want the last unit of one cell at the same
///   moment, for one key or for several, those that lose are denied and yet leave their cost in the key's other
///   cells until it drains. (Any other denial writes nothing.)
/// * Windows that open with the first request (`from-first`) are refused: cells of one key would open
///   theirs at different times, and its bound could not be kept.
///
/// # When it is the wrong choice
/// Most of the time. A [`KeyedLimiter`](crate::KeyedLimiter) decides exactly, for a tenth of the memory per
/// live key and one cache line per decision. Use it when you know about how many keys are live at once, also
/// if that is millions. Use a sketch when that number cannot be known and a newcomer must not be
/// turned away because a table is full: per source address in front of everything else, or under attack; or
/// for [`contains`](SketchLimiter::contains). Do not use it where a customer must get all that was
/// promised.
///
/// ```
/// use tollgate::{Quota, SketchLimiter, SketchSize};
/// let size = SketchSize::for_load(10_000, 1_000)?;
/// let limiter = SketchLimiter::new(Quota::per_second(100).burst(20), size)?;
/// assert!(limiter.check("203.0.113.7", 1).is_allowed());
/// # Ok::<(), tollgate::SketchError>(())
/// ```
pub struct SketchLimiter<K: ?Sized, S = RandomState> {
    rows: Rows,
    placer: Placer<S>,
    size: SketchSize,
    clock: Clock,
    keys: PhantomData<fn(&K)>,
}

impl<K: Hash + ?Sized> SketchLimiter<K> {
    /// A limiter of this size, with aHash seeded from the operating system and the machine's fastest clock.
    ///
    /// # Errors
    /// A policy with windows from the first request; memory that cannot be allocated.
    ///
    /// ```
    /// use tollgate::{Policy, SketchError, SketchLimiter, SketchSize};
    /// let size = SketchSize::new(4, 10_000)?;
    /// let policy: Policy = "sliding-window 100/m".parse()?;
    /// let limiter = SketchLimiter::new(policy, size)?;
    /// assert!(limiter.check(&42_u64, 1).is_allowed());
    /// let policy: Policy = "fixed-window 100/m from-first".parse()?;
    /// let refused = SketchLimiter::<str>::new(policy, size);
    /// assert!(matches!(refused, Err(SketchError::FromFirst { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(policy: impl Into<Policy>, size: SketchSize) -> Result<Self, SketchError> {
        let policy = policy.into();
        Self::with_clock(policy, size, Policy::clock_for([&policy]))
    }

    /// [`new`](SketchLimiter::new) with a clock of your choice.
    ///
    /// # Errors
    /// As [`new`](SketchLimiter::new).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{ManualClock, Quota, SketchLimiter, SketchSize};
    /// let (clock, size) = (ManualClock::new(), SketchSize::new(4, 1_000)?);
    /// let limiter = SketchLimiter::with_clock(Quota::per_minute(1), size, clock.clone())?;
    /// assert!(limiter.check("alice", 1).is_allowed());
    /// assert!(!limiter.check("alice", 1).is_allowed());
    /// clock.advance(Duration::from_secs(60));
    /// assert!(limiter.check("alice", 1).is_allowed());
    /// # Ok::<(), tollgate::SketchError>(())
    /// ```
    pub fn with_clock(
        policy: impl Into<Policy>,
        size: SketchSize,
        clock: impl Into<Clock>,
    ) -> Result<Self, SketchError> {
        let hashers = [RandomState::new(), RandomState::new()];
        SketchLimiter::with_hashers(policy, size, clock, hashers)
    }
}

impl<K: Hash + ?Sized, S: BuildHasher> SketchLimiter<K, S> {
    /// [`new`](SketchLimiter::new) with a clock and two hashes of your choice, seeded independently: both
    /// together place a key in its rows. For keys chosen by an attacker that can see many answers, give
    /// SipHash for both.
    ///
    /// # Errors
    /// As [`new`](SketchLimiter::new).
    ///
    /// ```
    /// use std::hash::RandomState; // SipHash, each with its own keys
    /// use tollgate::{Clock, Quota, SketchLimiter, SketchSize};
    /// let hashers = [RandomState::new(), RandomState::new()];
    /// let (size, clock) = (SketchSize::new(4, 1_000)?, Clock::monotonic());
    /// let limiter = SketchLimiter::with_hashers(Quota::per_second(9), size, clock, hashers)?;
    /// assert!(limiter.check("alice", 1).is_allowed());
    /// # Ok::<(), tollgate::SketchError>(())
    /// ```
    pub fn with_hashers(
        policy: impl Into<Policy>,
        size: SketchSize,
        clock: impl Into<Clock>,
        hashers: [S; 2],
    ) -> Result<Self, SketchError> {
        let (policy, clock) = (policy.into(), clock.into());
        if !policy.takes(&clock) {
            return Err(SketchError::NoDate);
        }
        let rows = Rows::new(policy, size)?;
        let placer = Placer::new(hashers, size.rows(), size.cells_per_row());
        Ok(Self { rows, placer, size, clock, keys: PhantomData })
    }

    /// What the limiter's clock reads: the time that [`check`](SketchLimiter::check) would decide at.
    ///
    /// ```
    /// use tollgate::{Quota, SketchLimiter, SketchSize};
    /// let limiter = SketchLimiter::new(Quota::per_second(5), SketchSize::new(4, 1_000)?)?;
    /// let arrival = limiter.now();
    /// assert!(limiter.check_at("alice", 1, arrival).is_allowed());
    /// # Ok::<(), tollgate::SketchError>(())
    /// ```
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Decides a request of `cost` units for `key` now, and charges it if it is admitted. A cost of 0 is a
    /// peek.
    ///
    /// ```
    /// use tollgate::{Quota, SketchLimiter, SketchSize};
    /// let limiter = SketchLimiter::new(Quota::per_hour(2), SketchSize::new(4, 1_000)?)?;
    /// assert!(limiter.check("alice", 2).is_allowed());
    /// assert!(!limiter.check("alice", 1).is_allowed());
    /// assert!(limiter.check("alice", 3).into_result().unwrap_err().is_never());
    /// # Ok::<(), tollgate::SketchError>(())
    /// ```
    #[inline]
    pub fn check(&self, key: &K, cost: u64) -> Decision {
        let (places, now) = self.find_and_fetch(key, None);
        self.rows.check(&places, now, cost)
    }

    /// [`check`](SketchLimiter::check) at a time of the caller's: the arrival of the request, or a
    /// replay's. All times given to one limiter must have one origin.
    ///
    /// A `now` far ahead is believed: the key's cells hold it until time has caught up. Other keys that share
    /// some of these cells are decided on their other ones.
    ///
    /// ```
    /// use tollgate::{ManualClock, Quota, SketchLimiter, SketchSize, Timestamp};
    /// let size = SketchSize::new(4, 1_000)?;
    /// let limiter = SketchLimiter::with_clock(Quota::per_minute(1), size, ManualClock::new())?;
    /// assert!(limiter.check_at("alice", 1, Timestamp::from_secs(0)).is_allowed());
    /// assert!(!limiter.check_at("alice", 1, Timestamp::from_secs(59)).is_allowed());
    /// assert!(limiter.check_at("alice", 1, Timestamp::from_secs(60)).is_allowed());
    /// # Ok::<(), tollgate::SketchError>(())
    /// ```
    #[inline]
    pub fn check_at(&self, key: &K, cost: u64, now: Timestamp) -> Decision {
        let (places, now) = self.find_and_fetch(key, Some(now));
        self.rows.check(&places, now, cost)
    }

    /// Would a request of `cost` units for `key` be admitted now? Charges nothing.
    ///
    /// ```
    /// use tollgate::{Quota, SketchLimiter, SketchSize};
    /// let limiter = SketchLimiter::new(Quota::per_hour(2), SketchSize::new(4, 1_000)?)?;
    /// assert!(limiter.peek("alice", 2).is_allowed());
    /// assert_eq!(limiter.peek("alice", 1).remaining(), 2);
    /// # Ok::<(), tollgate::SketchError>(())
    /// ```
    #[inline]
    pub fn peek(&self, key: &K, cost: u64) -> Decision {
        let (places, now) = self.find_and_fetch(key, None);
        self.rows.peek(&places, now, cost)
    }

    /// [`peek`](SketchLimiter::peek) at a time of the caller's.
    ///
    /// ```
    /// use tollgate::{Quota, SketchLimiter, SketchSize, Timestamp};
    /// let limiter = SketchLimiter::new(Quota::per_hour(2), SketchSize::new(4, 1_000)?)?;
    /// assert!(limiter.peek_at("alice", 2, Timestamp::from_secs(7)).is_allowed());
    /// # Ok::<(), tollgate::SketchError>(())
    /// ```
    #[inline]
    pub fn peek_at(&self, key: &K, cost: u64, now: Timestamp) -> Decision {
        let (places, now) = self.find_and_fetch(key, Some(now));
        self.rows.peek(&places, now, cost)
    }

    /// Has `key` been seen lately: is there anything charged in all of its cells?
    ///
    /// The question of a Bloom filter, whose entries end by themselves: after a request of the key was
    /// admitted the answer is `true` until all that it was charged has drained (GCRA), or until its window
    /// is over (two windows, for sliding ones). It may be `true` for a key that was never seen, as rarely as
    /// [`SketchSize::for_load`] lets keys be refused.
    ///
    /// ```
    /// use tollgate::{ManualClock, Policy, SketchLimiter, SketchSize};
    /// // Seen today? A million visitors a day.
    /// let policy: Policy = "fixed-window 1/d".parse()?;
    /// let size = SketchSize::for_load(1_000_000, 100)?;
    /// let seen = SketchLimiter::with_clock(policy, size, ManualClock::new())?;
    /// assert!(!seen.contains("alice"));
    /// assert!(seen.check("alice", 1).is_allowed());
    /// assert!(seen.contains("alice"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn contains(&self, key: &K) -> bool {
        let (places, now) = self.find_and_fetch(key, None);
        self.rows.contains(&places, now)
    }

    /// [`contains`](SketchLimiter::contains) at a time of the caller's.
    ///
    /// ```
    /// use tollgate::{ManualClock, Quota, SketchLimiter, SketchSize, Timestamp};
    /// let size = SketchSize::new(4, 1_000)?;
    /// let limiter = SketchLimiter::with_clock(Quota::per_minute(6), size, ManualClock::new())?;
    /// assert!(limiter.check_at("alice", 1, Timestamp::from_secs(100)).is_allowed());
    /// let seen = [109, 110].map(|second| limiter.contains_at("alice", Timestamp::from_secs(second)));
    /// assert_eq!(seen, [true, false]);
    /// # Ok::<(), tollgate::SketchError>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn contains_at(&self, key: &K, now: Timestamp) -> bool {
        let (places, now) = self.find_and_fetch(key, Some(now));
        self.rows.contains(&places, now)
    }

    /// Hash, ask for all lines at once, and only then read the clock: see [`crate::prefetch`].
    #[inline(always)]
    fn find_and_fetch(&self, key: &K, now: Option<Timestamp>) -> (Places, Timestamp) {
        let places = self.placer.places(key);
        self.rows.fetch(&places);
        (places, now.unwrap_or_else(|| self.clock.now()))
    }

    /// The memory of all cells, in bytes.
    ///
    /// ```
    /// use tollgate::{Quota, SketchLimiter, SketchSize};
    /// let limiter = SketchLimiter::<str>::new(Quota::per_hour(2), SketchSize::new(4, 1_000)?)?;
    /// assert_eq!(limiter.bytes(), 32_000);
    /// # Ok::<(), tollgate::SketchError>(())
    /// ```
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    /// The rows: a key has a cell in each.
    ///
    /// ```
    /// use tollgate::{Quota, SketchLimiter, SketchSize};
    /// let limiter = SketchLimiter::<str>::new(Quota::per_hour(2), SketchSize::new(4, 1_000)?)?;
    /// assert_eq!(limiter.rows(), 4);
    /// # Ok::<(), tollgate::SketchError>(())
    /// ```
    #[must_use]
    pub fn rows(&self) -> usize {
        self.size.rows()
    }

    /// The cells of each row.
    ///
    /// ```
    /// use tollgate::{Quota, SketchLimiter, SketchSize};
    /// let limiter = SketchLimiter::<str>::new(Quota::per_hour(2), SketchSize::new(4, 1_000)?)?;
    /// assert_eq!(limiter.cells_per_row(), 1_000);
    /// # Ok::<(), tollgate::SketchError>(())
    /// ```
    #[must_use]
    pub fn cells_per_row(&self) -> usize {
        self.size.cells_per_row()
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
