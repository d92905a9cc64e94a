//! [`KeyedBuilder`]: the settings of a [`KeyedLimiter`].

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::io::Read;
use std::marker::PhantomData;

use ahash::RandomState;

use crate::change::{Changeable, Fixed, Own, QuotaKind, Tiered};
use crate::clock::Clock;
use crate::error::BuildError;
use crate::hash::KeyHasher;
use crate::policy::{Policy, deciding};
use crate::quota::Quota;
use crate::snapshot::RestoreError;

use super::full::WhenFull;
use super::tiers::Tiers;
use crate::keyed::KeyedLimiter;
use crate::keyed::file::restore::{expected_of_one, read};
use crate::keyed::floors::floor::floor_at;
use crate::keyed::memory::seeds::Hashing;
use crate::keyed::table::Table;

/// A [`KeyedLimiter`] that is about to be built: [`KeyedLimiter::builder`] begins it, and
/// [`build`](KeyedBuilder::build) or [`restore`](KeyedBuilder::restore) completes it.
///
/// Nothing is allocated and no number is checked before the end. Each method changes one setting of
/// [`KeyedLimiter::new`]: the [`clock`](KeyedBuilder::clock), the [`hasher`](KeyedBuilder::hasher), what happens
/// [`when_full`](KeyedBuilder::when_full), and whether there are several quotas or one that may change.
///
/// # Several quotas, or one that may change
/// A [`tier`](KeyedBuilder::tier) is one of several quotas in one table. All tiers share the table's memory. A key has
/// a separate count in each tier: the tier is part of its identity. Tiers are numbered from 0 in the order in which
/// they were added. [`Entry::tier`](crate::Entry::tier) chooses one by its number; without it a key is in tier 0. The
/// quota of each tier may be [changed](crate::Changing) later. For a single quota that may change call
/// [`changing`](KeyedBuilder::changing).
///
/// # What fits
/// A word has 63 usable bits. At least 24 of them tell keys apart, and 32 if the quotas leave room for that. Two to
/// five bits say in which quota the word is counted. The other bits hold what the key has spent. All quotas share one
/// [epoch](crate::Stats::epoch), which is at least an eighth of the longest time for which any of their keys stays
/// live. So quotas that are very different need wide words: a fast quota must count its short ticks over the epoch of
/// the slowest quota. A quota that does not fit is refused when the limiter is built, or when the quota is changed.
/// Name quotas that may be set later as [`headroom`](KeyedBuilder::headroom), and they will fit.
///
/// # What it costs
/// A decision reads 13 more numbers than in a table of one quota. They are in a few cache lines that all threads share
/// and that only a change of quota writes. A tier whose policy has rules for its limit is also decided by slower code.
/// So you choose this when you build the limiter, and a limiter with a single fixed quota does not pay for it.
///
/// # When it is full
/// A new key for which there is no cell is decided in the spill, as in any table ([`WhenFull::Spill`]). The spill takes
/// an eighth of the memory of the cells. Each tier has an equal part of it, so a flood in one tier takes nothing from
/// another. The words of the spill also name their quota, and their time does not wrap. So they have no room for a
/// quota of more than 16,383 units in a sliding window of a second (8,191 beside 15 other tiers). If a tier has such a
/// quota, the table has no spill. New keys are denied in a tier whose windows open with the first request
/// (`from-first`), or whose policy is soft, counts denials or penalises. You can choose with
/// [`when_full`](KeyedBuilder::when_full).
///
/// # No sliding logs
/// A log has a slot for each unit, so a cell that serves every tier would have to be as large as the largest tier
/// needs, even for keys of the smallest. Use a [`KeyedLimiter`] for each plan. When a key moves, charge it in the new
/// limiter the units that it has spent in the old one:
///
/// ```
/// use tollgate::{KeyedLimiter, ManualClock, Policy};
/// let clock = ManualClock::new();
/// let table = |text: &str| -> Result<KeyedLimiter<str>, Box<dyn std::error::Error>> {
///     Ok(KeyedLimiter::builder(text.parse::<Policy>()?).clock(clock.clone()).build(1_000)?)
/// };
/// let [free, paid] = [table("sliding-log 10/m")?, table("sliding-log 50/m")?];
/// assert!(free.check_n("alice", 8).is_allowed());
/// let moved = paid.entry("alice").take_up_to(10 - free.entry("alice").peek(0).remaining());
/// assert_eq!((moved.is_allowed(), moved.remaining()), (true, 42));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Examples
/// ```
/// use tollgate::{KeyedLimiter, Policy, Quota};
/// let free = Quota::per_minute(10);
/// let paid: Policy = "gcra 100/s burst 500".parse()?;
/// let limiter = KeyedLimiter::builder(free).tier(paid).build(100_000)?;
/// assert_eq!(limiter.check("alice").remaining(), 9);
/// assert_eq!(limiter.entry("bob").tier(1)?.check().remaining(), 499);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct KeyedBuilder<K: ?Sized, Q = Fixed, S = RandomState> {
    tiers: Tiers,
    full: Option<WhenFull>,
    clock: Option<Clock>,
    hashing: Hashing<S>,
    keys: PhantomData<fn(&K)>,
    quotas: PhantomData<Q>,
}

impl<K: Hash + ?Sized> KeyedLimiter<K> {
    /// A limiter for `capacity` keys at a time, with aHash seeded from the operating system and the machine's fastest
    /// clock. For a policy of the calendar the clock is [`Clock::unix`], which tells the date. To choose more, use a
    /// [`builder`](KeyedLimiter::builder).
    ///
    /// The limiter takes 14.7 bytes for each key of its capacity, 1.6 of them for the spill; a table for fewer than
    /// about 600 keys takes up to 1 KiB more ([`Stats::bytes`](crate::Stats::bytes) tells the sum). Under a sliding log
    /// it takes 39 bytes for each key, and 12.3 more for each unit of the limit.
    ///
    /// # Errors
    /// Fails if the capacity is 0 or cannot be allocated, or if the policy's state leaves fewer than 24 bits of a word
    /// to tell keys apart.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Policy};
    /// let policy: Policy = "sliding-window 100/m".parse()?;
    /// let limiter = KeyedLimiter::new(policy, 1_000_000)?;
    /// assert!(limiter.check(&42_u64).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(policy: impl Into<Policy>, capacity: usize) -> Result<Self, BuildError> {
        Self::builder(policy).build(capacity)
    }
}

impl<K: ?Sized> KeyedLimiter<K> {
    /// Begins a limiter that enforces this policy for each key. Use it in place of [`new`](KeyedLimiter::new) to choose
    /// a clock, a hasher, further quotas or what a full table does, or to restore a limiter from a file.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{KeyedLimiter, ManualClock, Quota};
    /// let clock = ManualClock::new();
    /// let limiter = KeyedLimiter::builder(Quota::per_minute(1)).clock(clock.clone()).build(1_000)?;
    /// assert!(limiter.check("alice").is_allowed());
    /// assert!(!limiter.check("alice").is_allowed());
    /// assert!(limiter.check("bob").is_allowed());
    /// clock.advance(Duration::from_secs(60));
    /// assert!(limiter.check("alice").is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn builder(policy: impl Into<Policy>) -> KeyedBuilder<K> {
        KeyedBuilder {
            tiers: Tiers {
                first: policy.into(),
                others: Vec::new(),
                headroom: Vec::new(),
                own: None,
            },
            full: None,
            clock: None,
            hashing: Hashing::seeded(),
            keys: PhantomData,
            quotas: PhantomData,
        }
    }
}

impl<K: ?Sized, Q, S> KeyedBuilder<K, Q, S> {
    /// The clock from which the limiter reads the time. By default it is the machine's fastest ([`Clock::monotonic`]),
    /// or [`Clock::unix`] if a policy needs the date.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, ManualClock, Quota, Timestamp};
    /// let limiter: tollgate::KeyedLimiter<str> =
    ///     KeyedLimiter::builder(Quota::per_second(5)).clock(ManualClock::new()).build(1_000)?;
    /// assert_eq!(limiter.now(), Timestamp::default());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = Some(clock.into());
        self
    }

    /// Sets the hasher of keys, in place of aHash with seeds from the operating system. Bits from both ends of a hash
    /// place keys and tell them apart. The hasher also makes the table's secret numbers. If an attacker can choose keys
    /// and see many answers, use SipHash, which is the standard library's `RandomState`.
    ///
    /// A [`snapshot`](KeyedLimiter::snapshot) carries only the seeds of the default hasher. To restore a limiter with
    /// your own hasher, give a hasher with the same seeds.
    ///
    /// ```
    /// use std::hash::RandomState; // SipHash, with keys of its own
    /// use tollgate::{KeyedLimiter, Quota};
    /// let limiter =
    ///     KeyedLimiter::builder(Quota::per_second(9)).hasher(RandomState::new()).build(1_000)?;
    /// assert!(limiter.check("alice").is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn hasher<H: BuildHasher>(self, hasher: H) -> KeyedBuilder<K, Q, H> {
        let Self { tiers, full, clock, hashing: _, keys, quotas } = self;
        KeyedBuilder { tiers, full, clock, hashing: Hashing::Given(hasher), keys, quotas }
    }

    /// Sets what the table does when it has no cell for a new key. By default a new key is decided in the spill if a
    /// sketch can keep the bound of the policy of its tier, else it is denied. A limiter that is
    /// [restored](KeyedBuilder::restore) does what its file says, whatever is set here.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, ManualClock, Quota, WhenFull};
    /// let builder = || KeyedLimiter::builder(Quota::per_hour(50)).clock(ManualClock::new());
    /// let admitted = |limiter: KeyedLimiter<u64>| {
    ///     (0..100).filter(|key| limiter.check(key).is_allowed()).count()
    /// };
    /// assert_eq!(admitted(builder().build(1)?), 100);
    /// assert!(admitted(builder().when_full(WhenFull::Deny).build(1)?) < 50);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn when_full(mut self, full: WhenFull) -> Self {
        self.full = Some(full);
        self
    }

    /// The clock that was given, or else the fastest clock by which the tiers and the headroom can be decided.
    fn clock_of(clock: Option<Clock>, tiers: &Tiers) -> Clock {
        clock.unwrap_or_else(|| Policy::clock_for(tiers.policies().chain(&tiers.headroom)))
    }

    fn of_kind<R>(self) -> KeyedBuilder<K, R, S> {
        let Self { tiers, full, clock, hashing, keys, quotas: _ } = self;
        KeyedBuilder { tiers, full, clock, hashing, keys, quotas: PhantomData }
    }
}

impl<K: ?Sized, Q: Tiered, S> KeyedBuilder<K, Q, S> {
    /// Adds the next tier: one more quota, up to 16 in all. Every quota may then be changed.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota};
    /// let quotas = [100, 1_000].map(Quota::per_minute);
    /// let first = KeyedLimiter::builder(Quota::per_minute(10)).changing();
    /// let builder = quotas.into_iter().fold(first, |builder, quota| builder.tier(quota));
    /// let limiter = builder.build(1_000)?;
    /// assert_eq!(limiter.entry("alice").tier(2)?.peek(1).limit(), 1_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tier(mut self, policy: impl Into<Policy>) -> KeyedBuilder<K, Changeable, S> {
        self.tiers.others.push(policy.into());
        self.changing()
    }

    /// Plans the words so that a tier may later be changed to this quota. It is best to name the fastest quota with the
    /// largest burst, and the slowest quota. This method may be called more than once.
    ///
    /// ```
    /// use tollgate::{ChangeError, KeyedLimiter, Quota};
    /// let [now, later] = [Quota::per_second(100), Quota::per_day(1_000).burst(5_000)];
    /// let builder = || KeyedLimiter::<str>::builder(now);
    /// let limiter = builder().changing().build(1_000)?;
    /// assert!(matches!(limiter.set_quota(later), Err(ChangeError::DoesNotFit { .. })));
    /// let limiter = builder().headroom(later).build(1_000)?;
    /// assert!(limiter.set_quota(later).is_ok());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn headroom(mut self, policy: impl Into<Policy>) -> KeyedBuilder<K, Changeable, S> {
        self.tiers.headroom.push(policy.into());
        self.changing()
    }

    /// A limiter whose quotas may be [changed](crate::Changing) while other threads decide.
    /// [`tier`](KeyedBuilder::tier) and [`headroom`](KeyedBuilder::headroom) imply this.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota};
    /// let limiter = KeyedLimiter::builder(Quota::per_second(5)).changing().build(1_000)?;
    /// limiter.set_quota(Quota::per_second(7))?;
    /// assert_eq!(limiter.entry(&42).peek(1).limit(), 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn changing(self) -> KeyedBuilder<K, Changeable, S> {
        self.of_kind()
    }
}

impl<K: ?Sized, S> KeyedBuilder<K, Fixed, S> {
    /// A limiter whose callers bring a quota along for each key ([`Entry::under`](crate::Entry::under)): up to `most`
    /// different quotas at a time, where `most` is at most 4,096. The words are planned so that each quota of `like`
    /// fits: it is best to name the fastest quota with the largest burst, and the slowest. The policy of the builder is
    /// for keys without a quota of their own. This policy must be GCRA without rules for its limit, as all quotas that
    /// callers bring are.
    ///
    /// Up to 13 bits of a word then name its quota, so fewer bits tell keys apart or count units. A quota in which no
    /// live key is counted any more keeps its place until [`forget_quotas`](KeyedLimiter::forget_quotas) frees it.
    ///
    /// A new key for which there is no cell is denied ([`WhenFull::Deny`]), since a spill cannot keep the bound of
    /// quotas that it does not know. Such a limiter cannot be saved by [`snapshot`](KeyedLimiter::snapshot), nor
    /// restored.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{KeyedLimiter, ManualClock, Quota};
    /// let clock = ManualClock::new();
    /// let [default, fastest] = [Quota::per_minute(60), Quota::per_second(1_000)];
    /// let limiter = KeyedLimiter::builder(default).own_quotas(1_000, &[fastest]).clock(clock.clone());
    /// let limiter = limiter.build(10_000)?;
    /// let ask = |quota| limiter.entry("alice").under(quota).map(|alice| alice.check_n(20).is_allowed());
    /// let [slow, fast] = [30, 300].map(|count| Quota::per_minute(count).burst(30));
    /// assert_eq!([ask(slow)?, ask(slow)?, ask(fast)?], [true, false, false]);
    /// clock.advance(Duration::from_secs(2));
    /// assert!(ask(fast)?, "ten have come back at the raised rate");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn own_quotas(mut self, most: usize, like: &[Quota]) -> KeyedBuilder<K, Own, S> {
        self.tiers.own = Some(most);
        self.tiers.headroom.extend(like.iter().copied().map(Policy::from));
        self.of_kind()
    }
}

impl<K: Hash + ?Sized, Q: QuotaKind, S: BuildHasher> KeyedBuilder<K, Q, S> {
    /// Builds the limiter, for `capacity` keys at a time in all tiers together. If its quotas may change, it is a
    /// [`Changing`](crate::Changing).
    ///
    /// # Errors
    /// Fails if the capacity is 0 or cannot be allocated; if a policy's state leaves fewer than 24 bits of a word to
    /// tell keys apart; if the clock does not tell the date and a policy of the calendar needs it; or if
    /// [`WhenFull::Spill`] is set for a policy whose bound a sketch cannot keep. With tiers, it also fails if there are
    /// more than 16, if the quotas do not fit in one table, or if one is a sliding log. With
    /// [`own_quotas`](KeyedBuilder::own_quotas), it also fails if `most` is 0 or above 4,096, or if the builder's
    /// policy is not GCRA without rules for its limit.
    ///
    /// ```
    /// use tollgate::{BuildError, KeyedLimiter, Quota};
    /// let fast = Quota::per_second(1_000_000).burst(1_000_000);
    /// let slow = Quota::per_day(1).burst(1_000);
    /// let refused = KeyedLimiter::<str>::builder(fast).tier(slow).build(1_000);
    /// assert!(matches!(refused, Err(BuildError::Policy(_))));
    /// ```
    pub fn build(self, capacity: usize) -> Result<Q::Of<KeyedLimiter<K, S>>, BuildError> {
        let Self { tiers, full, clock, hashing, keys, quotas: _ } = self;
        let book = if Q::SEVERAL { Some(tiers.book()?) } else { None };
        let clock = Self::clock_of(clock, &tiers);
        let clock = tiers.policies().try_fold(clock, deciding)?;
        // The floors start as late as the present time allows. Otherwise they would have to advance through all the
        // time since the clock's origin.
        let floor = floor_at(clock.now().as_nanos());
        let policy = tiers.first;
        let mut table = match book {
            Some(book) => Table::of_book(book, capacity, floor)?,
            None => Table::of_policy(&policy, capacity, floor)?,
        };
        // A spill that cannot be made is an error only if the caller asked for it. By default, a table that cannot
        // spill denies.
        if let Some(full) = full {
            table.set_when_full(full, policy)?;
        } else {
            table.add_spill(policy)?;
        }
        let (hash, seeds) = hashing.drawn_now();
        let hasher = KeyHasher::new(hash);
        Ok(Q::of(KeyedLimiter { table, hasher, clock, capacity, policy, seeds, keys }))
    }
}

impl<K: Hash + ?Sized, Q: Tiered, S: BuildHasher> KeyedBuilder<K, Q, S> {
    /// Restores a limiter from its [`snapshot`](KeyedLimiter::snapshot), with its capacity and its seeds. The limiter
    /// goes on where the snapshot left off. If its quotas may change, it is a [`Changing`](crate::Changing).
    ///
    /// Charges drain for the time that has passed by the wall clock, never more: if the wall clock went backward or has
    /// not been set, no time has passed. Give a clock of the kind that the limiter had. A clock with an origin of its
    /// own is set to go on from the old clock's reading, and a clock of Unix time never reads less than that
    /// ([`Clock::resumed_at`]). A [`ManualClock`](crate::ManualClock), or a clock of a
    /// [`CoarseClock`](crate::CoarseClock), must already read no less than the old clock, and so must times that are
    /// given to [`Entry::at`](crate::Entry::at).
    ///
    /// The keys must have the same type and the same hashes as before. The file cannot tell whether they do. If the old
    /// limiter was given a [`hasher`](KeyedBuilder::hasher), give it again.
    ///
    /// For a tier whose quota was changed, give the quota that was in force ([`KeyedLimiter::policies`]), and change it
    /// again afterwards if you want. [`headroom`](KeyedBuilder::headroom) may differ from that of the old limiter, if
    /// it fits in the words that the file has.
    ///
    /// # Errors
    /// Fails if the reader fails; if the file is damaged, or is not a snapshot of a table of this policy; or if the
    /// hasher cannot be made again, or differs from that of the snapshot. With tiers, it also fails if the tiers differ
    /// from those of the file, or are in another order, or if the headroom does not fit in the file's words. After an
    /// error there is no limiter, not even a part of one.
    ///
    /// ```
    /// use ahash::RandomState;
    /// use tollgate::{KeyedLimiter, Quota, RestoreError};
    /// let builder = || KeyedLimiter::<str>::builder(Quota::per_hour(2)).tier(Quota::per_hour(50));
    /// let limiter = builder().build(1_000)?;
    /// assert!(limiter.entry("alice").tier(1)?.check_n(50).is_allowed());
    /// let mut file = Vec::new();
    /// limiter.snapshot(&mut file)?;
    /// let limiter = builder().restore(&file[..])?;
    /// assert!(!limiter.entry("alice").tier(1)?.check().is_allowed());
    /// assert!(limiter.check_n("alice", 2).is_allowed());
    ///
    /// let other = builder().tier(Quota::per_hour(60)).restore(&file[..]);
    /// assert!(matches!(other, Err(RestoreError::Policy(_))));
    /// let other = builder().hasher(RandomState::with_seeds(1, 2, 3, 4)).restore(&file[..]);
    /// assert!(matches!(other, Err(RestoreError::Mismatch(_))));
    /// file[1_000] ^= 1;
    /// assert!(matches!(builder().restore(&file[..]), Err(RestoreError::Damaged(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore(self, reader: impl Read) -> Result<Q::Of<KeyedLimiter<K, S>>, RestoreError> {
        let Self { tiers, full: _, clock, hashing, keys: _, quotas: _ } = self;
        let clock = Self::clock_of(clock, &tiers);
        let limiter = read(reader, clock, hashing, |preamble, clock| {
            if Q::SEVERAL {
                tiers.shared_of(preamble, clock)
            } else {
                expected_of_one(tiers.first, preamble, clock)
            }
        });
        limiter.map(Q::of)
    }
}

impl<K: ?Sized, Q, S> fmt::Debug for KeyedBuilder<K, Q, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedBuilder")
            .field("tiers", &self.tiers)
            .field("full", &self.full)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
