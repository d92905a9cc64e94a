//! How a limiter is built: its table as large as its capacity asks for, with the code for its policy.

use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use crate::clock::Clock;
use crate::error::BuildError;
use crate::log::LogRule;
use crate::policy::{Policy, deciding};

use crate::hash::{Hashers, unit};
use crate::keyed::KeyedLimiter;
use crate::keyed::floors::floor::floor_at;
use crate::keyed::log::{DESIGN_LOAD as LOGS_LOAD, LogStore};
use crate::keyed::memory::Memory;
use crate::keyed::memory::layout::{Division, Layout};
use crate::keyed::memory::seeds::Seeds;
use crate::keyed::memory::shard::{CELLS, Shard};
use crate::keyed::memory::tally::Tallies;
use crate::keyed::quotas::book::Book;
use crate::keyed::table::{Cells, Table};

/// The share of cells that hold live keys when the table holds its capacity. Simulated with 4 million keys in units of
/// two lines of seven cells: at 65 % none is homeless, at 70 % one, at 72 % five, at 75 % thirty.
pub(in crate::keyed) const DESIGN_LOAD: (usize, usize) = (70, 100);

impl Table {
    /// A vacant table for `capacity` keys, whose floors stand at `floor`.
    pub(in crate::keyed) fn new(
        layout: Layout,
        capacity: usize,
        floor: u64,
    ) -> Result<Self, BuildError> {
        Ok(Self::of(vacant(capacity, floor)?, layout.division, Cells::of(layout)))
    }

    /// The same for the quotas of a book.
    pub(in crate::keyed) fn of_book(
        book: Book,
        capacity: usize,
        floor: u64,
    ) -> Result<Self, BuildError> {
        let division = book.shared().division();
        Ok(Self::of(vacant(capacity, floor)?, division, Cells::of_book(book)))
    }

    /// Logs of a policy for so many keys at a time.
    pub(in crate::keyed) fn of_logs(rule: LogRule, capacity: usize) -> Result<Self, BuildError> {
        let shards = Self::shards_for(capacity, LOGS_LOAD)?;
        // All memory is taken here: a decision allocates nothing.
        let logs = LogStore::new(rule, shards, capacity)?;
        let memory = Memory::new(shards, || Shard::new(0))?;
        Ok(Self::of(memory, Division::of_logs(), Cells::Logs(logs)))
    }

    /// A table of these shards.
    pub(in crate::keyed) fn of(memory: Memory, division: Division, cells: Cells) -> Self {
        Self { memory, division, tallies: Tallies::default(), cells }
    }

    /// The shards of a table for `capacity` keys that take such a share of it, whose bytes can be addressed.
    pub(in crate::keyed) fn shards_for(
        capacity: usize,
        load: (usize, usize),
    ) -> Result<usize, BuildError> {
        if capacity == 0 {
            return Err(BuildError::zero_capacity());
        }
        let too_large = || BuildError::capacity_too_large(capacity);
        // One more than the quotient, which was rounded down.
        let cells = capacity.checked_mul(load.1).ok_or_else(too_large)? / load.0 + 1;
        // Whole units, since a key's shards are numbered within theirs.
        let count = cells.div_ceil(CELLS).div_ceil(unit()) * unit();
        // With the spare shard of `memory`.
        let bytes = count.checked_add(1).and_then(|count| count.checked_mul(size_of::<Shard>()));
        bytes.map(|_| count).ok_or_else(too_large)
    }
}

impl Cells {
    pub(in crate::keyed) fn of_book(book: Book) -> Self {
        Self::Several { book: Box::new(book), spill: None }
    }
}

/// Vacant shards for `capacity` keys, whose floors stand at `floor`.
fn vacant(capacity: usize, floor: u64) -> Result<Memory, BuildError> {
    Memory::new(Table::shards_for(capacity, DESIGN_LOAD)?, || Shard::new(floor))
}

impl<K: Hash + ?Sized> KeyedLimiter<K> {
    /// A limiter for `capacity` keys at a time, with aHash seeded from the operating system and the
    /// machine's fastest clock; a policy of the calendar takes [`Clock::unix`], which tells the date.
    ///
    /// It takes 14 to 16 bytes for each key of its capacity, the spill included ([`Stats::bytes`](crate::Stats::bytes)
    /// tells the sum); under a sliding log 39 bytes, and 12.3 more for each unit of its limit.
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
    /// As [`new`](KeyedLimiter::new); a clock that does not tell the date, for windows of the calendar.
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
        let policy = policy.into();
        let clock = deciding(clock.into(), &policy)?;
        let mut table = match LogRule::of(&policy) {
            Some(rule) => Table::of_logs(rule, capacity)?,
            None => {
                let floor = floor_at(clock.now().as_nanos());
                Table::new(Layout::plan(&policy)?, capacity, floor)?
            }
        };
        table.add_spill(policy)?;
        let [place, tag] = hashers;
        let (hashers, keys) = (Hashers::new(place, tag), PhantomData);
        Ok(Self { table, hashers, clock, capacity, policy, seeds: None, keys })
    }
}
