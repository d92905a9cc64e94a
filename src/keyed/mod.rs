//! [`KeyedLimiter`]: one limit per key, for any number of threads, in memory fixed at construction.
//!
//! # What the table rests on
//! A change of the protocol must keep these invariants. The third column names the file that argues for the invariant.
//! The fourth column names faults from `src/sync/faults.rs`. For each of these faults, a loom model plants the fault
//! and must find that the invariant breaks.
//!
//! | | Invariant | Argued in | Faults that break it |
//! |--:|---|---|---|
//! | 1 | A word is replaced only by a compare-and-swap that expects the exact word that was read. | `memory/shard.rs` | `PlainStoreForCas`, `ReclaimWithoutExactWord`, `OpenWithoutExactWord` |
//! | 2 | Two claims of one key in one cell have different bits for as long as a thread could confuse them. | `memory/shard/claim.rs` | `EqualNonces` |
//! | 3 | At every moment at most one live cell carries a key. Needs 1 and 2. | `insert/install.rs` | `NoVerify`, `NoFence`, `VerifyIgnoresLive`, `VerifyIgnoresLower`, `VerifyIgnoresHigher` |
//! | 4 | A key that has no word in any of its shards was idle at the floors of these shards. | `floors/floor.rs` | `PublishWithoutSweep`, `SweepSparesClaims`, `JumpOverLiveWords`, `ForgetByOwnClock` |
//! | 5 | A word is read against a floor that is no older than the floor under which it was written. No floor is published past a word that is being opened. | `memory/shard.rs`, `memory/shard/claim.rs` | `RelaxedWords`, `HeaderOnlyBeforeWords`, `FloorReadUnmarked` |
//! | 6 | The times that a word may hold span at most 5 epochs, plus the furthest that a charge, or the end of a penalty, may reach ahead. So the low bits of a time name only one instant. Needs 4 and 5. | `memory/layout.rs` | `DecodeAgainstNow`, `SweepWithStaleHeader` |
//! | 7 | A new key starts at or after the latest floor of all its shards. Needs 4. | `floors/base.rs` | `FloorLeftOutOfBase`, `OneFloorLeftOut`, `FloorsBeforeClaim` |
//! | 8 | A key that gets a cell still owes there what it was charged in the spill. Needs 3. | `insert/spill.rs` | `SpillUnscanned`, `SpillIgnoresClaims`, `EstimateBeforeClaim`, `SpillUnmarked` |
//! | 9 | The numbers of a quota, such as its rate, do not change while a word carries the quota's index. | `quotas/book.rs` | `QuotaWrittenInPlace`, `QuotaReadTorn` |
//! | 10 | After a change of quota, no word and no claim carries the index that the change retired. Needs 1 and 9. | `verbs/change.rs`, `lookup/price/all_words.rs` | `OldTicksLeft`, `ChangeSparesClaims`, `RebaseReadsOldTicks` |
//! | 11 | A quota that a caller brings has a *place* for its numbers. These numbers do not change while a word carries the index of the place or a thread has pinned the place. A request is decided by its own quota or denied. Needs 1. | `quotas/book/own.rs` | `PinLeavesMark`, `FreedUnseen`, `PlaceTakenInUse`, `PlaceGivenEarly`, `TakenPlaceFound`, `VersionUnchecked`, `AskedQuotaIgnored` |
//! | 12 | A word that is carried over to another quota keeps its units. By the limiter's clock, it is carried over no earlier than its last charge. When a key is carried over to a faster quota, its earlier permits become worthless. Needs 11. | `lookup/slow/own.rs` | `CarriedAsTime`, `CarriedBeforeCharge`, `PermitOutlivesQuota` |
//!
//! The steps of an install have a fixed order: claim, fence, scan, read the floors, read the quota, read the debt in
//! the spill, open. The scan comes after the fence because of invariant 3. The floors (7), the quota (10) and the spill
//! (8) are read after the claim. If a sweep, a change of quota or a charge in the spill comes after these readings, it
//! finds the claim and vacates it.
//!
//! # Words
//! | Word | Meaning |
//! |---|---|
//! | shard | one cache line: a header and seven cells |
//! | unit | two shards side by side. A key may live in two units |
//! | home | the shard in which a key is looked for first |
//! | tag | the bits by which a key's word is recognised |
//! | own bits | the bits of a word that do not change when its key spends: the tag, the index of a quota, a surplus |
//! | floor | the instant in a shard's header against which the times in its words are read: it *dates* them |
//! | epoch | the longest distance at which an instant is *near* to a floor. Idle words are kept for one epoch |
//! | advance | to move a floor up as far as a request's time allows. To *follow* is to stop once that time is near |
//! | sweep | the pass over a shard before its floor moves: it forgets words idle for an epoch, and vacates claims |
//! | vacate | to make a cell vacant: its word, which may be a claim, is replaced by 0 |
//! | install | to give a new key a cell |
//! | claim | a word that reserves a cell for a key which is being installed |
//! | nonce | the number in a claim that distinguishes it from other claims of its key |
//! | scan | the look at all cells of a key's shards, which an install takes after its claim |
//! | open | to replace a claim by the key's *live* word |
//! | base | the instant at which a new key starts |
//! | spill | the sketch in which requests of keys without a cell are decided |
//! | lane | a quota, and the index that its words carry |
//! | surplus | units that a key spent under an earlier quota and that the quota in force cannot count |
//! | re-base | to convert a word from the ticks of an old quota to those of the new one |

mod file;
mod floors;
mod insert;
mod log;
mod lookup;
mod memory;
mod overflow;
mod quotas;
mod table;
mod verbs;

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use ahash::RandomState;

use crate::algorithm::{Held, Kernel};
use crate::change::ChangeError;
use crate::clock::{Clock, Timestamp};
use crate::decision::{Decision, View};
use crate::hash::{Identity, KeyHasher, Mix, Tag, prefetch, prefetch_sibling, unit};
use crate::policy::Policy;
use crate::quota::Quota;
use crate::refund::Amendment;
use crate::verb::Verb;
use crate::verdict::Verdict;

use log::LogTable;
use lookup::hit::priced_decision;
use memory::ask::{Ask, Fresh};
use memory::seeds::Seeds;
use memory::shard::Shard;
use quotas::book::own::{Gone, QuotaId};
use table::words::Key;
use table::{Cells, OneQuota, Table};

pub(crate) use lookup::hit::PlannedCharge;
pub(crate) use quotas::changing_cell::ChangingCell;
pub(crate) use verbs::all::KeyTrace;
pub use verbs::builder::KeyedBuilder;
pub use verbs::full::WhenFull;
pub use verbs::stats::Stats;

/// One limit per key, in memory fixed at construction.
///
/// Every key's identity and state is one atomic word in a cache-padded shard. A decision takes one hash, one cache
/// line, and, if the request is admitted, one compare-and-swap. A denial does not write the key's word, with two
/// exceptions: it carries the key over to a faster quota ([`Entry::under`](crate::Entry::under)), or the policy counts
/// denials ([`AtLimit`](crate::AtLimit)). No thread ever waits for another, no decision allocates, and nothing runs in
/// the background.
///
/// # What it guarantees
/// * A key with spent units is never evicted: a flood of other keys resets nobody's limit.
/// * A key that has become idle (its quota is full again) is forgotten in place when its cell is needed, or when it has
///   been idle for an epoch ([`Stats::epoch`]).
/// * When every shard of a *new* key is full of live keys, the key is decided in the *spill* and counted
///   ([`Stats::spilled`]). The spill is a sketch with an eighth of the memory of the cells. A key gets no more than its
///   quota there, and less if it shares cells of the sketch with other keys ([`WhenFull::Spill`]). A table can also be
///   built to deny such a key ([`when_full`](KeyedLimiter::when_full)). In a table that is filled to its capacity,
///   fewer than 1 key in 100,000 is decided in the spill. Where new keys replace old keys all the time, it is 1 key in
///   100,000.
/// * Keys are not stored. Two keys with equal hash bits and the same shards share one limit, which can only admit less:
///   see [`Stats::collision_probability`].
/// * The times of different threads may disagree, jump and run backward: a late `now` gives back nothing that was
///   spent. A charge at a `now` far ahead is believed. Until that time, new keys of the shards that the charge touched
///   are denied.
/// * There is one assumption. No thread sleeps between its read of a word and its compare-and-swap for so long that the
///   word's time wraps (at least 5 epochs, see [`Stats::epoch`]) *and* then finds the same bits.
///
/// With a policy of sliding logs ([`Policy::sliding_log`]) each key has slots in place of a word, one for each unit of
/// the limit. The table takes about `capacity * 1.54 * (8 * limit + 25)` bytes, where the limit of a soft policy is its
/// softened limit. A key is forgotten when its units have left the window. There is no spill: a new key for which there
/// is no room is denied. The assumption is then that no thread sleeps while the header of a log changes exactly 2^22
/// times, or a multiple of that.
///
/// ```
/// use tollgate::{KeyedLimiter, Quota};
/// let limiter = KeyedLimiter::new(Quota::per_second(100).burst(20), 100_000)?;
/// assert!(limiter.check("203.0.113.7").is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct KeyedLimiter<K: ?Sized, S = RandomState> {
    table: Table,
    hasher: KeyHasher<S>,
    clock: Clock,
    capacity: usize,
    policy: Policy,
    /// The seeds of the hasher, if the caller gave no hasher.
    seeds: Option<Seeds>,
    keys: PhantomData<fn(&K)>,
}

impl<K: Hash + ?Sized, S: BuildHasher> KeyedLimiter<K, S> {
    /// The present time of the limiter's clock, at which [`check`](KeyedLimiter::check) would decide.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota};
    /// let limiter = KeyedLimiter::new(Quota::per_second(5), 1_000)?;
    /// let arrival = limiter.now();
    /// assert!(limiter.entry("alice").at(arrival).check().is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Decides a request of one unit for `key` now, and charges the unit if the request is admitted. This is the short
    /// form of [`check_n`](KeyedLimiter::check_n).
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

    /// Decides a request of `cost` units for `key` now, and charges the cost if the request is admitted. A request of 0
    /// units takes nothing; use [`peek`](crate::Entry::peek) to ask without a charge.
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

    /// Finds the place of a key in tier 0. The cache line of the key's home is prefetched before anything else.
    #[inline(always)]
    pub(crate) fn place(&self, key: &K) -> Place<'_> {
        let Table { memory, division, .. } = &self.table;
        // `find` prefetches this line, and computes the tag while the line is fetched.
        let line = |index| memory.shard(index);
        self.place_of(self.hasher.find(key, memory.len(), division.words_per_tag, line))
    }

    #[inline(always)]
    fn place_of(&self, Identity { first, tag }: Identity) -> Place<'_> {
        self.place_at(self.table.memory.shard(first), tag)
    }

    #[inline(always)]
    fn place_at<'a>(&'a self, home: &'a Shard, tag: Tag) -> Place<'a> {
        let mix = self.hasher.mix();
        Place { table: &self.table, clock: &self.clock, home, tag, mix, quota: QuotaId::tier(0) }
    }

    /// Counts what the table holds now and what has happened to it. This reads the whole table: use it for a gauge that
    /// is read every few seconds, not on the path of a request.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{KeyedLimiter, ManualClock, Quota};
    /// let clock = ManualClock::new();
    /// let limiter = KeyedLimiter::builder(Quota::per_minute(1)).clock(clock.clone()).build(1_000_000)?;
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

/// For a table of logs: the logs, a key's identity, and the number of the key's second shard.
type LogKey<'a> = (LogTable<'a>, Identity, usize);

/// A key's place in a table: the shards where it may live. The cache line of its home has been prefetched.
///
/// The place keeps neither the key nor its type, so places of all limiters have the same type.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    table: &'a Table,
    clock: &'a Clock,
    /// The shard in which the key is looked for first. This is a reference and not a number. From a number, the
    /// compiler would compute the address twice: for the prefetch, and again after the clock has been read.
    home: &'a Shard,
    tag: Tag,
    mix: &'a Mix,
    quota: QuotaId,
}

/// Prints neither the whole table nor the key's hash bits, which are secret.
impl fmt::Debug for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("quota", &self.quota.number)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// Tells the compiler that the branch with this call is less likely. Without this call, the compiler merges the
/// comparison for plain GCRA into a jump table, which takes five more instructions in each decision of plain GCRA.
#[cold]
fn less_likely() {}

impl Place<'_> {
    #[inline(always)]
    pub(crate) fn clock(&self) -> &Clock {
        self.clock
    }

    /// The key's place in another tier. Its home in that tier is prefetched.
    #[inline]
    pub(crate) fn in_tier(self, tier: usize) -> Result<Self, ChangeError> {
        let (table, to) = (self.table, self.table.tier(tier)?);
        // In a table whose callers bring their own quotas, a key has one count under all of them. Its only tier is the
        // limiter's own quota.
        if table.takes_own() {
            return Ok(Self { quota: QuotaId::tier(to), ..self });
        }
        let (ways, words_per_tag) = ([self.quota.number, to], table.division.words_per_tag);
        let identity = self.mix.in_tier(self.identity(), ways, table.shards(), words_per_tag);
        let home = table.shard(identity.first);
        prefetch(home);
        Ok(Self { home, tag: identity.tag, quota: QuotaId::tier(to), ..self })
    }

    /// The key's place under a quota that the caller brings.
    pub(crate) fn under(self, quota: Quota) -> Result<Self, ChangeError> {
        let book = self.table.book().ok_or(ChangeError::NoOwnQuotas)?;
        Ok(Self { quota: book.place_of(quota)?, ..self })
    }

    #[inline]
    fn identity(&self) -> Identity {
        Identity { first: self.table.memory.number(self.home), tag: self.tag }
    }

    #[inline(always)]
    fn second(&self) -> usize {
        // In a table of logs a unit is one shard, and a key's second shard may be any shard, even its first.
        let unit = if matches!(self.table.cells, Cells::Logs(_)) { 1 } else { unit() };
        self.mix.second(self.identity(), self.table.shards(), unit)
    }

    /// The table's clock, for a decision that reads it now. The cache line of the home's sibling is prefetched first.
    #[inline(always)]
    pub(crate) fn clock_to_read(&self) -> &Clock {
        prefetch_sibling(self.home);
        self.clock
    }

    /// Decides at `at`, or else at the time of the table's clock.
    #[inline(always)]
    pub(crate) fn ask(
        &self,
        verb: Verb,
        cost: u64,
        at: Option<Timestamp>,
        charge: bool,
    ) -> Decision {
        // If the caller gives the time, no clock is read again when a floor is ahead of that time.
        let (now, clock) = match at {
            Some(now) => (now, None),
            None => {
                let clock = self.clock_to_read();
                (clock.now(), Some(clock))
            }
        };
        let ask = Ask { now_ns: now.as_nanos(), cost, charge, verb, quota: self.quota };
        self.decide(ask, clock)
    }

    /// Decides one request: in the key's home if the key has a cell there, else in another shard of the key, else by an
    /// install. `clock` is the clock from which the request's time was read, or `None` if the caller gave the time.
    #[inline(always)]
    fn decide(&self, ask: Ask, clock: Option<&Clock>) -> Decision {
        let (table, home, tag) = (self.table, self.home, self.tag);
        // Each branch builds its own `Ask`. If all branches shared one `Ask`, the compiler would keep it in memory,
        // which would slow down a hit.
        let Ask { now_ns, cost, charge, verb, quota } = ask;
        let ask = || Ask { now_ns, cost, charge, verb, quota };
        // Each branch also builds its own `Decision`. If the branches were merged, even the outcome of the inlined
        // `hit_plain` would go through the stack. For the same reason the slow way returns a decision in parts. A whole
        // decision would be returned in memory. A hit's decision would then be in memory, too, which takes 22 more
        // instructions for each key of a batch.
        if let (Cells::Plain(gcra, OneQuota { layout, .. }), Verb::Check) = (&table.cells, verb) {
            let missed = match table.hit_plain(gcra, layout, home, tag, ask()) {
                Ok(outcome) => return outcome.told(Kernel::Gcra(*gcra), now_ns, 0),
                Err(missed) => missed,
            };
            let mut fresh = Fresh::new(ask(), clock);
            let (identity, second) = (self.identity(), self.second());
            let (verdict, view) = table.decide_elsewhere(identity, second, missed, &mut fresh);
            return Decision::new(verdict, view);
        }
        // Nearly all tables have plain GCRA, so only that is inlined.
        less_likely();
        match (&table.cells, verb) {
            // Every other policy has code of its own, which is called here.
            (Cells::LaidOut(way, OneQuota { layout, .. }), Verb::Check) => {
                if let Ok(outcome) = way(table, layout, home, tag, ask()) {
                    return outcome.told(layout.kernel, now_ns, layout.rules.soft_bp);
                }
            }
            // A table with several quotas decides by the quota that the key's word names.
            (Cells::Several { book, .. }, Verb::Check) => {
                if let Ok(decision) = priced_decision(table, book, home, tag, ask()) {
                    return decision;
                }
            }
            (Cells::Plain(gcra, OneQuota { layout, .. }), _) => {
                if let Ok(outcome) = table.hit_verb(gcra, layout, home, tag, ask()) {
                    return outcome.told(Kernel::Gcra(*gcra), now_ns, 0);
                }
            }
            // All other verbs, and all requests of a table of logs, go the slow way.
            _ => {}
        }
        // The fast ways did not decide: for example, the key has no word in its home, or the word must be converted to
        // another quota first.
        let mut before = Held::IDLE; // not used, since this decision is never undone
        let (verdict, view) = self.decide_slowly(ask(), clock, &mut before);
        Decision::new(verdict, view)
    }

    /// The key, if this is a table of words. For a table of logs, the error has the logs and the key.
    fn key(&self) -> Result<Key<'_>, LogKey<'_>> {
        let (identity, second) = (self.identity(), self.second());
        match self.table.words() {
            Ok(words) => Ok(words.key(identity, second)),
            Err(logs) => Err((logs, identity, second)),
        }
    }

    /// Decides the slow way. Stores in `before` the state of the key's word before the charge, for an undo. In a table
    /// of logs nothing is stored, since an undo there uses the permit.
    // `self` is passed by value. A reference would force each decision to put its place in memory, even a decision that
    // never calls this method.
    #[inline(never)]
    fn decide_slowly(self, ask: Ask, clock: Option<&Clock>, before: &mut Held) -> (Verdict, View) {
        let decision = match self.key() {
            Ok(key) => {
                let behind_word = Some(self.clock);
                let mut fresh = Fresh { behind_word, ..Fresh::new(ask, clock) };
                let decision = match key.words.pinned(ask.quota) {
                    // The quota was forgotten and its place belongs to another quota, so no quota can decide the
                    // request.
                    Err(Gone) => key.without_quota(&mut fresh),
                    // The pin is held while the index of the quota may be written into a word.
                    Ok(_pin) => key.decide_slowly(&mut fresh),
                };
                *before = fresh.before;
                decision
            }
            Err((logs, identity, second)) => logs.answer(identity, second, ask, clock),
        };
        decision.into_parts()
    }

    pub(crate) fn amend(&self, now: impl Fn() -> Timestamp, amendment: Amendment<'_>) -> u64 {
        match self.key() {
            Ok(key) => key.amend(&now, amendment),
            Err((logs, identity, second)) => {
                logs.amend(identity, second, now().as_nanos(), amendment)
            }
        }
    }
}
