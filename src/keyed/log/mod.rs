//! [`KeyedLogLimiter`]: an exact sliding log per key, in memory fixed at construction.

mod decide;
mod entries;
mod forget;
mod header;
mod install;

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use ahash::RandomState;

use crate::clock::{Clock, Timestamp};
use crate::decision::Decision;
use crate::error::BuildError;
use crate::log::{LogRequest, LogRule};
use crate::quota::Quota;
use crate::store::Store;
use crate::verb::Verb;

use super::hash::{Hashers, Identity};

use decide::LogTable;
use entries::Entries;
use header::LogHeader;

/// An exact sliding log per key, in memory fixed at construction: at most `count` units in *any* window of
/// the quota's period, for each key. See [`LogLimiter`](crate::Limiter) for the algorithm and its bound.
///
/// # What it guarantees
/// * Each key's bound is that of [`LogLimiter`](crate::Limiter), also when the key is forgotten and comes
///   back, and whatever times the callers give.
/// * A key that limits something is never evicted. One whose units have all left the window is forgotten
///   in place, when its entry is needed.
/// * When both shards of a *new* key are full of live keys, it is denied
///   ([`is_table_full`](crate::Denial::is_table_full)). Filled to its capacity that meets fewer than 1 key in
///   100,000; where new keys replace old ones all the time, 1 in 1,000.
/// * Keys are not stored: 39 bits of a hash tell them apart within their two shards of 7. Keys that share
///   those share one log, which can only admit less.
/// * A new key that comes with a time before that from which a forgotten key's units were all free, in one
///   of its shards, is denied until then: it might be that key. With a clock that never happens, but by as
///   much as two cores' clocks differ.
/// * A `now` far ahead is believed: keys that are idle by it are forgotten if their entries are wanted, and
///   new keys of their shards are denied until time has caught up with what these had been admitted.
/// * No thread waits for another: a request of a key that is there is lock-free, and a new key's request
///   ends after at most 8 rounds. Nothing is allocated after construction.
/// * Assumption: no thread sleeps between two looks at an entry for so long that exactly 2^22 changes of
///   its owner, or a multiple, have passed.
///
/// # What it costs
/// 8 bytes for each unit of the limit and 25 more, for each of 100 entries where there are 65 keys: about
/// `capacity * 1.54 * (8 * limit + 25)` bytes. A decision reads all slots of its key two to four
/// times; a denial of several units, whose wait has to be searched for, up to 64 times. For many keys with
/// large limits, GCRA in a [`KeyedLimiter`](crate::KeyedLimiter) takes 16 bytes a key.
///
/// ```
/// use tollgate::{KeyedLogLimiter, Quota};
/// let limiter = KeyedLogLimiter::new(Quota::per_minute(5), 10_000)?;
/// assert!(limiter.check_n("alice", 5).is_allowed());
/// assert!(!limiter.check("alice").is_allowed());
/// assert!(limiter.check("bob").is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct KeyedLogLimiter<K: ?Sized, S = RandomState> {
    table: LogTable,
    hashers: Hashers<S>,
    clock: Clock,
    capacity: usize,
    keys: PhantomData<fn(&K)>,
}

impl<K: Hash + ?Sized> KeyedLogLimiter<K> {
    /// Logs for `capacity` keys at a time, with aHash seeded from the operating system and the machine's
    /// fastest clock.
    ///
    /// # Errors
    /// A quota whose burst is not its count, or of more than 2^20 units; a capacity that is 0 or cannot be
    /// allocated.
    ///
    /// ```
    /// use tollgate::{KeyedLogLimiter, Quota};
    /// let limiter = KeyedLogLimiter::new(Quota::per_minute(10), 1_000)?;
    /// assert!(limiter.check(&42_u64).is_allowed());
    /// assert!(KeyedLogLimiter::<u64>::new(Quota::per_minute(10).burst(5), 1_000).is_err());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn new(quota: Quota, capacity: usize) -> Result<Self, BuildError> {
        Self::with_clock(quota, capacity, Clock::monotonic())
    }

    /// [`new`](KeyedLogLimiter::new) with a clock of your choice.
    ///
    /// # Errors
    /// As [`new`](KeyedLogLimiter::new).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{KeyedLogLimiter, ManualClock, Quota};
    /// let clock = ManualClock::new();
    /// let limiter = KeyedLogLimiter::with_clock(Quota::per_minute(1), 1_000, clock.clone())?;
    /// assert!(limiter.check("alice").is_allowed());
    /// assert!(!limiter.check("alice").is_allowed());
    /// clock.advance(Duration::from_secs(60));
    /// assert!(limiter.check("alice").is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn with_clock(
        quota: Quota,
        capacity: usize,
        clock: impl Into<Clock>,
    ) -> Result<Self, BuildError> {
        // Seeded apart, so that the second hash tells keys apart that the first one places alike.
        let [place, tag] = [RandomState::new(), RandomState::new()];
        KeyedLogLimiter::with_hashers(quota, capacity, clock, [place, tag])
    }
}

impl<K: Hash + ?Sized, S: BuildHasher> KeyedLogLimiter<K, S> {
    /// [`new`](KeyedLogLimiter::new) with a clock and two hashes of your choice, seeded independently: the
    /// first places keys, the second tells them apart.
    ///
    /// # Errors
    /// As [`new`](KeyedLogLimiter::new).
    ///
    /// ```
    /// use std::hash::RandomState; // SipHash, each with its own keys
    /// use tollgate::{Clock, KeyedLogLimiter, Quota};
    /// let hashers = [RandomState::new(), RandomState::new()];
    /// let limiter =
    ///     KeyedLogLimiter::with_hashers(Quota::per_second(9), 1_000, Clock::monotonic(), hashers)?;
    /// assert!(limiter.check("alice").is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn with_hashers(
        quota: Quota,
        capacity: usize,
        clock: impl Into<Clock>,
        hashers: [S; 2],
    ) -> Result<Self, BuildError> {
        // Refuses what a log cannot be: a burst that is not the count, or too many units.
        let rule = LogRule::new(quota).map_err(|error| BuildError::Policy(error.to_string()))?;
        // All memory is taken here: a decision allocates nothing.
        let table = LogTable { entries: Entries::new(rule.slots, capacity)?, rule };
        let [place, tag] = hashers;
        let hashers = Hashers::new(place, tag);
        Ok(Self { table, hashers, clock: clock.into(), capacity, keys: PhantomData })
    }

    /// What the limiter's clock reads: the time that [`check`](KeyedLogLimiter::check) would decide at.
    ///
    /// ```
    /// use tollgate::{KeyedLogLimiter, Quota};
    /// let limiter = KeyedLogLimiter::new(Quota::per_second(5), 1_000)?;
    /// let arrival = limiter.now();
    /// assert!(limiter.entry("alice").at(arrival).check(1).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The bytes that all logs take. Fixed.
    ///
    /// ```
    /// use tollgate::{KeyedLogLimiter, Quota};
    /// let limiter = KeyedLogLimiter::<str>::new(Quota::per_minute(10), 1_000)?;
    /// assert!(limiter.bytes() <= 1_000 * 162);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.table.entries.bytes()
    }

    /// Decides a request of one unit for `key` now, and charges it if it is admitted: the short form of
    /// [`check_n`](KeyedLogLimiter::check_n).
    ///
    /// ```
    /// use tollgate::{KeyedLogLimiter, Quota};
    /// let limiter = KeyedLogLimiter::new(Quota::per_hour(2), 1_000)?;
    /// assert!(limiter.check("alice").is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn check(&self, key: &K) -> Decision {
        self.check_n(key, 1)
    }

    /// Decides a request of `cost` units for `key` now, and charges it if it is admitted. A cost of 0 is a
    /// peek, and a cost above the limit never fits.
    ///
    /// ```
    /// use tollgate::{KeyedLogLimiter, Quota};
    /// let limiter = KeyedLogLimiter::new(Quota::per_hour(2), 1_000)?;
    /// assert!(limiter.check_n("alice", 2).is_allowed());
    /// assert!(!limiter.check("alice").is_allowed());
    /// assert!(limiter.check_n("bob", 3).into_result().unwrap_err().is_never());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn check_n(&self, key: &K, cost: u64) -> Decision {
        self.place(key).decide(cost, None, true)
    }

    pub(crate) fn place(&self, key: &K) -> KeyLog<'_> {
        let (hashers, shards) = (&self.hashers, self.table.entries.shards());
        // By the second hash: 39 bits of the first would meet those of the place in large tables.
        let tag = hashers.tag(key, LogHeader::WORDS_PER_TAG);
        let identity = Identity { first: hashers.first(key, shards), tag };
        // A log has no units of two lines: its second shard may be any other, or the same.
        let second = hashers.mix().second(identity, shards, 1);
        KeyLog { table: &self.table, clock: &self.clock, identity, second }
    }

    /// The two shards of a key, which may be one: for the models.
    #[cfg(any(loom, shuttle))]
    #[doc(hidden)]
    #[must_use]
    pub fn shards_of(&self, key: &K) -> [usize; 2] {
        let KeyLog { identity, second, .. } = self.place(key);
        [identity.first, second]
    }
}

/// A key's log, if it has one.
#[derive(Clone, Copy)]
pub struct KeyLog<'a> {
    table: &'a LogTable,
    clock: &'a Clock,
    identity: Identity,
    /// The second of its two shards.
    second: usize,
}

impl Store for KeyLog<'_> {
    fn decide(&self, cost: u64, at: Option<Timestamp>, charge: bool) -> Decision {
        let (now, clock) = match at {
            // A caller's time has no clock to be read again, should the floor lie ahead of it.
            Some(now) => (now, None),
            None => (self.clock.now(), Some(self.clock)),
        };
        self.table.decide(
            self.identity,
            self.second,
            LogRequest::new(Verb::Check, cost, now.as_nanos(), charge),
            clock,
        )
    }
}

/// Not the whole table.
impl fmt::Debug for KeyLog<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyLog").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl<K: ?Sized, S> fmt::Debug for KeyedLogLimiter<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedLogLimiter")
            .field("capacity", &self.capacity)
            .field("bytes", &self.table.entries.bytes())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
