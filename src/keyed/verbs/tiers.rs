//! [`Tiers`]: a keyed limiter of several quotas, or of one that may change, about to be built.

use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use crate::clock::Clock;
use crate::error::BuildError;
use crate::policy::{Policy, deciding, of_one_word};

use super::full::WhenFull;
use crate::hash::Hashers;
use crate::keyed::KeyedLimiter;
use crate::keyed::floors::floor::floor_at;
use crate::keyed::memory::layout::{Layout, Shared};
use crate::keyed::memory::seeds::Seeds;
use crate::keyed::quotas::book::{Book, TIERS_MAX, index_bits_for};
use crate::keyed::table::Table;

/// Why a log is no tier, behind its text.
const NO_SHARE: &str = "has a slot for each unit, and tiers share cells of one size; use gcra or a window, or a KeyedLimiter \
                        for each plan, and take_up_to there what a key that moves has spent";

/// The quotas of a [`KeyedLimiter`] that has several, the *tiers*, or one that may be changed.
///
/// All tiers share one table and its memory. A key is counted apart in each: the tier is part of its
/// identity. [`Entry::tier`](crate::Entry::tier) chooses by number, from 0, in the order given here; without it a key
/// is in tier 0.
///
/// # What fits
/// A word has 63 bits: at least 24, and 32 if all quotas fit beside that, tell keys apart; one to five
/// say which quota the word is counted in; the rest holds what the key has spent. All quotas share the
/// table's epoch, at least an eighth of the longest time for which any of their keys stays live. So quotas
/// that are very different need wide words: the product of one's rate and burst-free time, and the other's
/// longest window, is what has to fit. What does not is refused when the limiter is built, or when the quota
/// is changed. Name quotas that may come later as [`headroom`](Tiers::headroom), and they will fit.
///
/// # What it costs
/// A decision reads ten numbers more than in a table of one quota, from a line or two that all threads
/// share and none writes; in a tier whose policy says what happens at its limit it takes the longer way besides. Hence
/// this is a choice made when the limiter is built: one of a single quota for
/// good pays nothing.
///
/// # When it is full
/// A new key for which there is no cell is decided in the spill, as in any table
/// ([`WhenFull::Spill`](crate::WhenFull::Spill)). Of its memory, an eighth of the table's, each tier has an equal part, so a
/// flood in one takes nothing from another. Its words say which quota they are counted in, too, and their time
/// does not wrap: quotas of more than 32,767 in a sliding window of a second (8,191 beside 15 other tiers) have no room there, and where a tier has
/// such a quota no tier is spilled. In a tier whose windows open with the first request (`from-first`), or whose policy
/// is soft, counts denials or penalises, newcomers are denied. [`when_full`](Tiers::when_full) chooses.
///
/// # No sliding logs
/// A log has a slot for each unit: a cell that serves every tier would be as large as the largest's, for each key of the
/// smallest. Take a [`KeyedLimiter`] for each plan; a key that moves is charged there what it has spent here:
///
/// ```
/// use tollgate::{KeyedLimiter, ManualClock, Policy};
/// let clock = ManualClock::new();
/// let table = |text: &str| -> Result<KeyedLimiter<str>, Box<dyn std::error::Error>> {
///     Ok(KeyedLimiter::with_clock(text.parse::<Policy>()?, 1_000, clock.clone())?)
/// };
/// let [free, paid] = [table("sliding-log 10/m")?, table("sliding-log 50/m")?];
/// assert!(free.check_n("alice", 8).is_allowed());
/// let moved = paid.entry("alice").take_up_to(10 - free.entry("alice").peek(0).remaining());
/// assert_eq!((moved.is_allowed(), moved.remaining()), (true, 42));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A [`snapshot`](KeyedLimiter::snapshot) of it holds its quotas, too; [`restore`](Tiers::restore) reads it.
///
/// ```
/// use tollgate::{KeyedLimiter, Policy, Quota, Tiers};
/// let free = Quota::per_minute(10);
/// let paid: Policy = "gcra 100/s burst 500".parse()?;
/// let limiter: KeyedLimiter<str> = Tiers::of(free).and(paid).build(100_000)?;
/// assert_eq!(limiter.check("alice").remaining(), 9);
/// assert_eq!(limiter.entry("bob").tier(1)?.check().remaining(), 499);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tiers {
    policies: Vec<Policy>,
    headroom: Vec<Policy>,
    full: Option<WhenFull>,
}

impl Tiers {
    /// One tier.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota, Tiers};
    /// let limiter: KeyedLimiter<u64> = Tiers::of(Quota::per_second(5)).build(1_000)?;
    /// limiter.set_quota(0, Quota::per_second(7))?;
    /// assert_eq!(limiter.entry(&42).peek(1).limit(), 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn of(policy: impl Into<Policy>) -> Self {
        Self { policies: vec![policy.into()], headroom: Vec::new(), full: None }
    }

    /// One more tier, up to 16.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota, Tiers};
    /// let quotas = [10, 100, 1_000].map(Quota::per_minute);
    /// let tiers = quotas[1..].iter().fold(Tiers::of(quotas[0]), |tiers, quota| tiers.and(*quota));
    /// let limiter: KeyedLimiter<str> = tiers.build(1_000)?;
    /// assert_eq!(limiter.entry("alice").tier(2)?.peek(1).limit(), 1_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn and(mut self, policy: impl Into<Policy>) -> Self {
        self.policies.push(policy.into());
        self
    }

    /// Plans the words so that this quota would fit, too: one that a tier may be changed to later. Best
    /// the fastest with the largest burst, and the slowest. May be called more than once.
    ///
    /// ```
    /// use tollgate::{ChangeError, KeyedLimiter, Quota, Tiers};
    /// let [now, later] = [Quota::per_second(100), Quota::per_day(1_000).burst(5_000)];
    /// let limiter: KeyedLimiter<str> = Tiers::of(now).build(1_000)?;
    /// assert!(matches!(limiter.set_quota(0, later), Err(ChangeError::DoesNotFit { .. })));
    /// let limiter: KeyedLimiter<str> = Tiers::of(now).headroom(later).build(1_000)?;
    /// assert!(limiter.set_quota(0, later).is_ok());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn headroom(mut self, policy: impl Into<Policy>) -> Self {
        self.headroom.push(policy.into());
        self
    }

    /// What the table does when it has no cell for a new key: as [`KeyedLimiter::when_full`], for a limiter that is
    /// yet to be built. Without it newcomers are spilled in all tiers in which a sketch can keep the bound. A limiter
    /// that is [restored](Tiers::restore) does what its file says.
    ///
    /// ```
    /// use tollgate::{WhenFull, KeyedLimiter, ManualClock, Quota, Tiers};
    /// let tiers = || Tiers::of(Quota::per_hour(50)).and(Quota::per_hour(500));
    /// let admitted = |tiers: Tiers| -> Result<usize, tollgate::BuildError> {
    ///     let limiter: KeyedLimiter<u64> = tiers.build_with_clock(1, ManualClock::new())?;
    ///     Ok((0..100).filter(|key| limiter.check(key).is_allowed()).count())
    /// };
    /// assert_eq!(admitted(tiers())?, 100);
    /// assert!(admitted(tiers().when_full(WhenFull::Deny))? < 50);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn when_full(mut self, full: WhenFull) -> Self {
        self.full = Some(full);
        self
    }

    /// A limiter for `capacity` keys at a time, all tiers together, with aHash seeded from the operating
    /// system and the machine's fastest clock.
    ///
    /// # Errors
    /// As [`KeyedLimiter::new`]; more than 16 tiers; quotas that do not fit in one table.
    ///
    /// ```
    /// use tollgate::{BuildError, KeyedLimiter, Quota, Tiers};
    /// let fast = Quota::per_second(1_000_000).burst(1_000_000);
    /// let slow = Quota::per_day(1).burst(1_000);
    /// let error = Tiers::of(fast).and(slow).build::<str>(1_000).unwrap_err();
    /// assert!(matches!(error, BuildError::Policy(_)));
    /// ```
    pub fn build<K: Hash + ?Sized>(self, capacity: usize) -> Result<KeyedLimiter<K>, BuildError> {
        let clock = self.clock();
        self.build_with_clock(capacity, clock)
    }

    /// [`build`](Tiers::build) with a clock of your choice.
    ///
    /// # Errors
    /// As [`build`](Tiers::build).
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, ManualClock, Quota, Tiers};
    /// let tiers = Tiers::of(Quota::per_second(5));
    /// let limiter: KeyedLimiter<str> = tiers.build_with_clock(1_000, ManualClock::new())?;
    /// assert!(limiter.check_n("alice", 5).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn build_with_clock<K: Hash + ?Sized>(
        self,
        capacity: usize,
        clock: impl Into<Clock>,
    ) -> Result<KeyedLimiter<K>, BuildError> {
        // Kept beside the hashers, which do not tell theirs: a snapshot needs them.
        let seeds = Seeds::draw();
        let limiter = self.build_with_hashers(capacity, clock, seeds.hashers())?;
        Ok(KeyedLimiter { seeds: Some(seeds), ..limiter })
    }

    /// [`build`](Tiers::build) with a clock and two hashes of your choice, seeded independently: see
    /// [`KeyedLimiter::with_hashers`].
    ///
    /// # Errors
    /// As [`build`](Tiers::build).
    ///
    /// ```
    /// use std::hash::RandomState; // SipHash, each with its own keys
    /// use tollgate::{Clock, KeyedLimiter, Quota, Tiers};
    /// let (tiers, hashers) =
    ///     (Tiers::of(Quota::per_second(5)), [RandomState::new(), RandomState::new()]);
    /// let limiter: KeyedLimiter<str, _> =
    ///     tiers.build_with_hashers(1_000, Clock::monotonic(), hashers)?;
    /// assert!(limiter.check_n("alice", 5).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn build_with_hashers<K: Hash + ?Sized, S: BuildHasher>(
        self,
        capacity: usize,
        clock: impl Into<Clock>,
        hashers: [S; 2],
    ) -> Result<KeyedLimiter<K, S>, BuildError> {
        let book = self.book()?;
        let clock = self.policies.iter().try_fold(clock.into(), deciding)?;
        // As far as now allows: a table that is built late in a clock's life need not advance
        // through all of it.
        let floor = floor_at(clock.now().as_nanos());
        // There is a first tier: `of` begins with one. The hashers are the caller's, and their
        // seeds unknown here.
        let (policy, seeds) = (self.policies[0], None);
        let mut table = Table::of_book(book, capacity, floor)?;
        // The default, as for one policy; `when_full` below refuses where a spill was asked for and
        // cannot be.
        if self.full != Some(WhenFull::Deny) {
            table.add_spill(policy)?;
        }
        let [place, tag] = hashers;
        let (hashers, keys) = (Hashers::new(place, tag), PhantomData);
        let limiter = KeyedLimiter { table, hashers, clock, capacity, policy, seeds, keys };
        // Only what was asked for can be refused: without a wish a table that cannot spill denies.
        match self.full {
            Some(full) => limiter.when_full(full),
            None => Ok(limiter),
        }
    }

    /// The fastest clock by which the tiers, and those of the headroom, can be decided.
    pub(in crate::keyed) fn clock(&self) -> Clock {
        Policy::clock_for(self.policies.iter().chain(&self.headroom))
    }

    pub(in crate::keyed) fn count(&self) -> usize {
        self.policies.len()
    }

    /// The quotas and the headroom, if a table can have them at all.
    pub(in crate::keyed) fn checked(&self) -> Result<Vec<Policy>, BuildError> {
        let tiers = self.policies.len();
        // More than an index tells apart, with as many again for changes.
        if tiers > TIERS_MAX {
            return Err(BuildError::tier_count(tiers, TIERS_MAX));
        }
        // Headroom is a quota that may come: it has to be one that can.
        let all = [&self.policies[..], &self.headroom[..]].concat();
        // Nor one that is kept in slots: see the type.
        let of_a_word = |policy| {
            of_one_word(policy).map_err(|_| BuildError::Policy(format!("{policy} {NO_SHARE}")))
        };
        all.into_iter().map(of_a_word).collect()
    }

    /// How each quota divides words of this kind; `None` if one does not fit.
    pub(in crate::keyed) fn in_words_of(&self, shared: Shared) -> Option<Vec<(Policy, Layout)>> {
        // One that does not fit makes it `None` for all: a book has a quota for each tier.
        let quota = |policy: &Policy| Some((*policy, shared.layout(policy)?));
        // Headroom has no part in a book: it has only had to fit.
        self.policies.iter().map(quota).collect()
    }

    /// The quotas' numbers, in words that hold all of them and the headroom.
    fn book(&self) -> Result<Book, BuildError> {
        let (tiers, all) = (self.policies.len(), self.checked()?);
        // With the headroom, so that what may come later finds room in the words.
        let shared = Shared::plan(&all, index_bits_for(tiers))?;
        // Never `None`: the plan has laid out every tier.
        let quotas = self.in_words_of(shared).ok_or_else(|| BuildError::tag_too_narrow(63, 0))?;
        Ok(Book::new(shared, &quotas))
    }
}
