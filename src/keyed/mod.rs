//! [`KeyedLimiter`]: one limit per key, for any number of threads, in memory fixed at construction.

mod all;
mod amend;
mod ask;
mod base;
mod book;
mod build;
mod change;
mod changing_cell;
mod decide;
mod floor;
mod full;
mod hash;
mod hint;
mod hit;
#[cfg(all(feature = "huge-pages", target_os = "linux", not(any(loom, shuttle))))]
mod huge_pages;
mod install;
mod layout;
mod log;
mod many;
mod memory;
mod move_key;
mod points;
mod price;
mod restore;
mod seeds;
mod shard;
mod slow;
mod snapshot;
mod spill;
mod stats;
mod survey;
mod table;
mod tally;
mod tiers;
mod tiers_saved;
mod unit;
#[cfg(any(loom, shuttle))]
mod witness;

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use ahash::RandomState;

use crate::clock::{Clock, Timestamp};
use crate::decision::Decision;
use crate::error::BuildError;
use crate::log::LogRule;
use crate::policy::Policy;
use crate::prefetch::prefetch;
use crate::scale::scale;
use crate::verb::Verb;

use hash::{Hashers, Identity, tag_of};
use layout::Layout;
use seeds::Seeds;
use table::Table;

pub(crate) use all::{KeyTrace, Place};
pub(crate) use changing_cell::ChangingCell;
pub use full::Full;
pub(crate) use hit::Plan;
pub use stats::Stats;
pub use tiers::Tiers;

/// One limit per key, in memory fixed at construction.
///
/// Every key's identity and state is one atomic word in a cache-padded shard. A decision is one hash,
/// one cache line, and, if admitted, one compare-and-swap; a denial writes nothing, unless the policy
/// counts denials ([`AtLimit`](crate::AtLimit)). No thread ever
/// waits for another, nothing is allocated, nothing sweeps in the background.
///
/// # What it guarantees
/// * A key that limits something is never evicted: no flood of other keys resets anyone's limit.
/// * A key that has become idle (its quota full again) is forgotten in place, when its cell is needed, or when it has
///   been idle for an epoch ([`Stats::epoch`]).
/// * When both units of a *new* key are full of live keys, it is decided in the *spill* and counted
///   ([`Stats::spilled`]): a sketch with an eighth of the table's memory, where it gets no more than its
///   quota, and less when others crowd it ([`Full::Spill`]). Or it is denied, if the table is built so
///   ([`when_full`](KeyedLimiter::when_full)). Filled to its capacity that meets fewer than 1 key in
///   100,000, and where new keys replace old ones all the time 1 in 100,000.
/// * Keys are not stored. Two keys whose tags are equal and which have the same units share one
///   limit, which can only admit less; see [`Stats::collision_probability`].
/// * Times may disagree between threads, jump and run backward: a late `now` gets back nothing that was
///   spent. A charge at a `now` far ahead is believed: new keys of the units it touched are denied until
///   time catches up.
/// * One assumption: no thread sleeps between reading a word and its compare-and-swap for so long that
///   the word's time wraps (at least 5 epochs, see [`Stats::epoch`]) *and* then finds the same bits.
///
/// A policy of sliding logs ([`Policy::sliding_log`]) keeps slots in place of a word: about
/// `capacity * 1.54 * (8 * limit + 25)` bytes. Its keys are forgotten when their units have left the window, and have no
/// spill: a new key for which there is no room is denied. No thread may sleep there for exactly 2^22 changes of an
/// entry's owner.
///
/// ```
/// use tollgate::{KeyedLimiter, Quota};
/// let limiter = KeyedLimiter::new(Quota::per_second(100).burst(20), 100_000)?;
/// assert!(limiter.check("203.0.113.7").is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct KeyedLimiter<K: ?Sized, S = RandomState> {
    table: Table,
    hashers: Hashers<S>,
    clock: Clock,
    capacity: usize,
    policy: Policy,
    /// Those of the hashers, if they were drawn here.
    seeds: Option<Seeds>,
    keys: PhantomData<fn(&K)>,
}

impl<K: Hash + ?Sized> KeyedLimiter<K> {
    /// A limiter for `capacity` keys at a time, with aHash seeded from the operating system and the
    /// machine's fastest clock. It takes 16 bytes for each key of its capacity, 14 of them for the table
    /// itself.
    ///
    /// # Errors
    /// A capacity that is 0 or cannot be allocated; a policy whose state leaves fewer than 24 bits of a
    /// word to tell keys apart.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Policy};
    /// let policy: Policy = "sliding-window 100/m".parse()?;
    /// let limiter = KeyedLimiter::new(policy, 1_000_000)?;
    /// assert!(limiter.check(&42_u64).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(policy: impl Into<Policy>, capacity: usize) -> Result<Self, BuildError> {
        let policy = policy.into();
        Self::with_clock(policy, capacity, Policy::clock_for([&policy]))
    }

    /// [`new`](KeyedLimiter::new) with a clock of your choice.
    ///
    /// # Errors
    /// As [`new`](KeyedLimiter::new).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{KeyedLimiter, ManualClock, Quota};
    /// let clock = ManualClock::new();
    /// let limiter = KeyedLimiter::with_clock(Quota::per_minute(1), 1_000, clock.clone())?;
    /// assert!(limiter.check("alice").is_allowed());
    /// assert!(!limiter.check("alice").is_allowed());
    /// assert!(limiter.check("bob").is_allowed());
    /// clock.advance(Duration::from_secs(60));
    /// assert!(limiter.check("alice").is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn with_clock(
        policy: impl Into<Policy>,
        capacity: usize,
        clock: impl Into<Clock>,
    ) -> Result<Self, BuildError> {
        let seeds = Seeds::draw();
        let limiter = KeyedLimiter::with_hashers(policy, capacity, clock, seeds.hashers())?;
        Ok(Self { seeds: Some(seeds), ..limiter })
    }
}

impl<K: Hash + ?Sized, S: BuildHasher> KeyedLimiter<K, S> {
    /// [`new`](KeyedLimiter::new) with a clock and two hashes of your choice, seeded independently: the
    /// first places keys and tells them apart, by bits from both of its ends; of the second only secret numbers
    /// are taken. For keys chosen by an attacker that can see many answers, give SipHash for both.
    ///
    /// # Errors
    /// As [`new`](KeyedLimiter::new).
    ///
    /// ```
    /// use std::hash::RandomState; // SipHash, each with its own keys
    /// use tollgate::{Clock, KeyedLimiter, Quota};
    /// let hashers = [RandomState::new(), RandomState::new()];
    /// let limiter =
    ///     KeyedLimiter::with_hashers(Quota::per_second(9), 1_000, Clock::monotonic(), hashers)?;
    /// assert!(limiter.check("alice").is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn with_hashers(
        policy: impl Into<Policy>,
        capacity: usize,
        clock: impl Into<Clock>,
        hashers: [S; 2],
    ) -> Result<Self, BuildError> {
        let (policy, clock) = (policy.into(), clock.into());
        if !policy.takes(&clock) {
            return Err(BuildError::no_date());
        }
        let mut table = match LogRule::of(&policy) {
            Some(rule) => Table::of_logs(rule, capacity)?,
            None => {
                let floor = floor::floor_at(clock.now().as_nanos());
                Table::new(Layout::plan(&policy)?, capacity, floor)?
            }
        };
        table.spill = table.new_spill(policy)?;
        let [place, tag] = hashers;
        let (hashers, keys) = (Hashers::new(place, tag), PhantomData);
        Ok(Self { table, hashers, clock, capacity, policy, seeds: None, keys })
    }

    /// What the limiter's clock reads: the time that [`check`](KeyedLimiter::check) would decide at.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota};
    /// let limiter = KeyedLimiter::new(Quota::per_second(5), 1_000)?;
    /// let arrival = limiter.now();
    /// assert!(limiter.entry("alice").at(arrival).check(1).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Decides a request of one unit for `key` now, and charges it if it is admitted: the short form of
    /// [`check_n`](KeyedLimiter::check_n).
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota};
    /// let limiter = KeyedLimiter::new(Quota::per_hour(2), 1_000)?;
    /// assert!(limiter.check("alice").is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn check(&self, key: &K) -> Decision {
        self.check_n(key, 1)
    }

    /// Decides a request of `cost` units for `key` now, and charges it if it is admitted. A cost of 0
    /// is a peek.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota};
    /// let limiter = KeyedLimiter::new(Quota::per_hour(2), 1_000)?;
    /// assert!(limiter.check_n("alice", 2).is_allowed());
    /// assert!(!limiter.check("alice").is_allowed());
    /// assert!(limiter.check("bob").is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn check_n(&self, key: &K, cost: u64) -> Decision {
        self.place(key).ask(Verb::Check, cost, None, cost > 0)
    }

    /// Where a key may live; its home is on its way.
    #[inline(always)]
    fn find_and_fetch(&self, key: &K) -> Identity {
        let (shards, words_per_tag) = (self.table.shards(), self.table.layout.words_per_tag);
        let hash = self.hashers.hash(key);
        let first = scale(hash, shards);
        prefetch(self.table.shard(first));
        let tag = tag_of(hash, words_per_tag);
        Identity { first, tag }
    }

    /// What the table holds now and what has happened to it. Reads the whole table: for a gauge that
    /// is asked every few seconds, not for the path of a request.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{KeyedLimiter, ManualClock, Quota};
    /// let clock = ManualClock::new();
    /// let limiter = KeyedLimiter::with_clock(Quota::per_minute(1), 1_000_000, clock.clone())?;
    /// assert!(limiter.check("alice").is_allowed());
    /// assert!(limiter.stats().bytes <= 15_000_000);
    /// assert_eq!(limiter.stats().live, 1);
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(limiter.stats().live, 0);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.table.stats(self.capacity, self.clock.now().as_nanos())
    }
}

impl<K: ?Sized, S> fmt::Debug for KeyedLimiter<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedLimiter")
            .field("capacity", &self.capacity)
            .field("bytes", &self.table.bytes())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
