//! [`Entry`]: one limit, with every verb that its store supports; and the names of the stores.
//!
//! The type of an entry names the store of its limit. So a call of a verb that the store does not support does not
//! compile. The following names are needed for the type of a field or an argument:
//!
//! | Type | Of |
//! |---|---|
//! | `Entry<'a>`, which is `Entry<'a, Limit<'a>>` | a [`Limiter`], a key of a [`KeyedLimiter`] |
//! | `Entry<'a, &'a StripedLimiter>` | a [`StripedLimiter`] |
//! | `Entry<'a, KeyCells<'a>>` | a key of a [`SketchLimiter`] |
//! | `Entry<'a, AnyLimit<'a>>` | any of these: [`Entry::any`], [`AnyLimiter::any_entry`] |
//!
//! A function can take entries of all stores as `Entry<'_, S>` with `S: Store`. [`Store`] is sealed, so no other types
//! implement it.
//!
//! ```
//! use tollgate::entry::{KeyCells, Store};
//! use tollgate::{Entry, Limiter, Quota, SketchLimiter, SketchSize};
//! struct Request<'a> {
//!     client: Entry<'a, KeyCells<'a>>,
//!     service: Entry<'a>,
//! }
//! fn is_free<S: Store>(limit: &Entry<'_, S>) -> bool {
//!     limit.peek(1).is_allowed()
//! }
//! let service = Limiter::new(Quota::per_second(1_000));
//! let clients = SketchLimiter::new(Quota::per_minute(1), SketchSize::new(4, 1_000)?)?;
//! let request = Request { client: clients.entry("alice"), service: service.entry() };
//! assert!(is_free(&request.client) && is_free(&request.service));
//! # Ok::<(), tollgate::BuildError>(())
//! ```
// The verbs are implemented here, once for all stores. The verbs that wait are in `acquire.rs`, leases in `lease.rs`,
// and `check_or` in `fallback.rs`. `store.rs` has the operations that every store implements, and `limit.rs` has those
// of a word or a log.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use crate::all::Claim;
use crate::change::{ChangeError, Changing};
use crate::clock::Timestamp;
use crate::decision::{Decision, Permit};
use crate::keyed::KeyedLimiter;
use crate::limiter::Limiter;
use crate::quota::Quota;
use crate::refund::Amendment;
use crate::reservation::Reservation;
use crate::sketch::SketchLimiter;
use crate::striped::StripedLimiter;
use crate::verb::Verb;

pub use crate::all::AnyLimit;
pub use crate::limit::Limit;
pub use crate::sketch::KeyCells;
pub use crate::store::Store;

/// One limit: the limit of a limiter without keys, or of one key of a limiter.
///
/// Every limiter has a method `entry` that makes entries. An entry borrows the limiter. The entry of a key stores the
/// key's position in the table instead of the key, and has prefetched the memory at that position. Each verb reads the
/// limiter's clock, unless the caller has given the entry a time ([`at`](Entry::at)).
///
/// `Entry<'_>` is the entry of one word or one log ([`Limiter`], [`KeyedLimiter`]). It has every verb. A charge is one
/// compare-and-swap, or in a sliding log one for each unit. Entries of stripes and sketches can be peeked and charged,
/// alone or together with other entries, and can ask another source when they deny ([`check_or`](Entry::check_or)). A
/// verb that they do not support does not compile.
///
/// ```
/// use tollgate::{KeyedLimiter, Limiter, Quota, Timestamp};
/// let all = Limiter::new(Quota::per_second(1_000));
/// let clients = KeyedLimiter::<str>::new(Quota::per_minute(10), 1_000)?;
/// assert!(all.entry().check_n(5).is_allowed());
/// let alice = clients.entry("alice").at(Timestamp::from_secs(60));
/// assert!(alice.check_n(10).is_allowed());
/// assert_eq!(alice.peek(1).remaining(), 0);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
///
/// ```compile_fail,E0599
/// use tollgate::{Quota, StripedLimiter};
/// StripedLimiter::new(Quota::per_minute(10)).expect("stripes").entry().reset();
/// ```
#[derive(Clone, Copy)]
pub struct Entry<'a, S = Limit<'a>> {
    pub(crate) limit: S,
    pub(crate) at: Option<Timestamp>,
    /// The lifetime is a part of the type `S`, so no other field needs it. The compiler requires that a field uses it.
    pub(crate) borrow: PhantomData<&'a ()>,
}

/// Prints the limit, and the time if the caller gave one.
impl<S: fmt::Debug> fmt::Debug for Entry<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_tuple("Entry");
        shown.field(&self.limit);
        if let Some(at) = &self.at {
            shown.field(at);
        }
        shown.finish()
    }
}

impl<'a, S: Store> Entry<'a, S> {
    #[inline(always)]
    pub(crate) fn of(limit: S) -> Self {
        Self { limit, at: None, borrow: PhantomData }
    }

    /// Decides at the caller's time instead of the time of the limiter's clock. All times that callers give to a
    /// limiter must have the same origin as the times of its clock. A time far in the future is accepted, but other
    /// requests may then be denied until that time.
    ///
    /// A request never lowers a stored time. If its time is before the window in force, it counts in that window. Under
    /// GCRA, charges that were made at later times have not drained for it. A refund or a cancellation at a time before
    /// another charge may give back too much: the units that had drained before that charge.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota, Timestamp};
    /// let limiter = Limiter::new(Quota::per_minute(1));
    /// let admitted = |second| limiter.entry().at(Timestamp::from_secs(second)).check().is_allowed();
    /// assert_eq!([0, 59, 60].map(admitted), [true, false, true]);
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn at(self, now: Timestamp) -> Self {
        Self { at: Some(now), ..self }
    }

    /// Decides one request of one unit, and charges it if it is admitted: the short form of
    /// [`check_n`](Entry::check_n).
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::builder(Quota::per_second(1)).clock(ManualClock::new()).build();
    /// assert!(limiter.entry().check().is_allowed());
    /// assert!(!limiter.entry().check().is_allowed());
    /// ```
    #[inline(always)]
    pub fn check(&self) -> Decision {
        self.check_n(1)
    }

    /// Decides one request of `cost` units, and charges it if it is admitted. A request of 0 units charges nothing. It
    /// is denied only while a debt is owed or a penalty is in force, or for the reason
    /// [`TableFull`](crate::DenialReason::TableFull). To decide without charging, use [`peek`](Entry::peek).
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::builder(Quota::per_second(2)).clock(ManualClock::new()).build();
    /// assert!(limiter.entry().check_n(2).is_allowed());
    /// assert!(!limiter.entry().check_n(1).is_allowed());
    /// ```
    #[inline(always)]
    pub fn check_n(&self, cost: u64) -> Decision {
        self.limit.decide(cost, self.at, cost > 0)
    }

    /// The answer that [`check_n`](Entry::check_n) would give now, without a charge. This is true even if a check would
    /// first forget an idle cell of the key, and would then consider the key's charges in the spill of a full table
    /// ([`WhenFull::Spill`](crate::WhenFull::Spill)) and the time floors of the key's other shards.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::builder(Quota::per_second(2)).clock(ManualClock::new()).build();
    /// assert!(limiter.entry().peek(2).is_allowed());
    /// assert_eq!(limiter.entry().peek(1).remaining(), 2);
    /// ```
    #[inline(always)]
    pub fn peek(&self, cost: u64) -> Decision {
        self.limit.decide(cost, self.at, false)
    }

    /// This limit's part in a request under several limits: see [`check_all`](crate::check_all).
    ///
    /// ```
    /// use tollgate::{Limiter, Quota, check_all};
    /// let [requests, bytes] = [10, 10_000].map(|count| Limiter::new(Quota::per_second(count)));
    /// assert!(check_all(&mut [requests.entry().cost(1), bytes.entry().cost(500)]).is_allowed());
    /// ```
    #[inline]
    #[must_use]
    pub fn cost(self, units: u64) -> Claim<'a>
    where
        S: Into<AnyLimit<'a>>,
    {
        Claim::of(self.limit, self.at, units)
    }

    /// The same limit, with a type that does not name its store, so that entries of several kinds can be held in one
    /// place.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota, StripedLimiter};
    /// let service = StripedLimiter::new(Quota::per_second(1_000))?;
    /// let clients = KeyedLimiter::<str>::new(Quota::per_minute(1), 1_000)?;
    /// let limits = [service.entry().any(), clients.entry("alice").any()];
    /// assert!(limits.iter().all(|limit| limit.check().is_allowed()));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn any(self) -> Entry<'a, AnyLimit<'a>>
    where
        S: Into<AnyLimit<'a>>,
    {
        Entry { limit: self.limit.into(), at: self.at, borrow: PhantomData }
    }

    /// Admits as much of `cost` as fits. The [`cost`](Permit::cost) of the permit is the number of units that were
    /// admitted. If not even one unit fits, the answer is the denial of a request for one unit. A striped limiter takes
    /// the units from one stripe after the other. A sketch takes at most as many units as the least loaded of the key's
    /// cells has left, and charges them to each of these cells.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::builder(Quota::per_minute(10)).clock(ManualClock::new()).build();
    /// assert_eq!(limiter.entry().take_up_to(7).into_result()?.cost(), 7);
    /// assert_eq!(limiter.entry().take_up_to(7).into_result()?.cost(), 3);
    /// let denial = limiter.entry().take_up_to(7).into_result().unwrap_err();
    /// assert_eq!(denial.retry_after().map(|wait| wait.as_secs()), Some(6));
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    pub fn take_up_to(&self, cost: u64) -> Decision {
        self.limit.ask(Verb::UpTo, cost, self.at, cost > 0)
    }

    /// Charges `cost` even if it does not fit, and returns how many of its units could not be charged. Use it for a
    /// cost that is known only afterwards: check with an estimate, and charge the rest.
    ///
    /// Under GCRA the limit goes into debt, and admits nothing until the debt has drained below the burst. The largest
    /// possible debt depends on the store of the limit. Units beyond it are not charged:
    ///
    /// | Store | It is charged up to |
    /// |---|---|
    /// | [`Limiter`] | a debt that takes more than 130 years to drain |
    /// | a `Limiter` whose quota may change | the same, up to 70 million units per second; above that, twice the burst or as far as the policy says |
    /// | [`KeyedLimiter`] | at least twice the burst, and as far as the policy says ([`Policy::debt`](crate::Policy::debt)) |
    /// | a new key that finds no cell | twice the burst, in the spill; nothing, under [`WhenFull::Deny`](crate::WhenFull::Deny) |
    /// | [`StripedLimiter`] | all stripes are filled first, and then owe nearly equal parts of the rest |
    /// | [`SketchLimiter`] | as far as the least loaded of the key's cells has room, at most twice the burst. If another thread charges that cell at the same moment, it may keep fewer units than are reported as charged |
    /// | windows, wherever they are stored | the limit, or as far as the policy says; in the spill, the limit |
    /// | a sliding log | its free slots, and then the slots that become free within a window |
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, ManualClock, Quota};
    /// let limiter = KeyedLimiter::builder(Quota::per_second(10)).clock(ManualClock::new()).build(1_000)?;
    /// let alice = limiter.entry("alice");
    /// assert!(alice.check().is_allowed());
    /// // The request turned out to be worth 15 units.
    /// assert_eq!(alice.charge(14), 0);
    /// let denial = alice.check().into_result().unwrap_err();
    /// assert_eq!(denial.retry_after().map(|wait| wait.as_millis()), Some(600));
    /// assert_eq!(alice.charge(8), 3);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use = "what was not charged is not limited"]
    pub fn charge(&self, cost: u64) -> u64 {
        match self.limit.ask(Verb::Charge, cost, self.at, cost > 0) {
            Decision::Allowed(permit) => cost - permit.cost(),
            Decision::Denied(_) => cost,
        }
    }
}

impl Entry<'_, KeyCells<'_>> {
    /// True if the key was seen lately: all of its cells in the sketch contain a charge.
    ///
    /// It works like a Bloom filter whose entries expire by themselves. The answer is true from an admission of the key
    /// until the whole charge has drained (GCRA), or until its window is over. In a sliding window it may stay true
    /// until the next window is over. The answer may be true for a key that was never seen, at most with the
    /// probability with which [`SketchSize::for_load`](crate::SketchSize::for_load) lets a key be refused.
    ///
    /// ```
    /// use tollgate::{ManualClock, Policy, SketchLimiter, SketchSize};
    /// let (policy, size) = ("fixed-window 1/d".parse::<Policy>()?, SketchSize::for_load(1_000_000, 100)?);
    /// let seen = SketchLimiter::builder(policy).clock(ManualClock::new()).build(size)?;
    /// assert!(!seen.entry("alice").is_live());
    /// assert!(seen.check("alice").is_allowed());
    /// assert!(seen.entry("alice").is_live());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.limit.is_live(self.at)
    }
}

impl<'a> Entry<'a> {
    /// The key under another of the limiter's quotas. The quota with which the builder was made is tier 0. Further
    /// [tiers](crate::KeyedBuilder::tier) are numbered from 1 in the order in which they were given. Each tier counts
    /// the key separately. Without this call the key is in tier 0. The caller chooses the tier of each key. When a key
    /// gets another tier, [`move_to`](Entry::move_to) moves the units that the key has spent to the new tier. A limiter
    /// with [own quotas](Entry::under) has only tier 0.
    ///
    /// # Errors
    /// Returns an error if there is no such tier. A limiter that was built without further
    /// [tiers](crate::KeyedBuilder::tier) has only tier 0.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota};
    /// let limiter = KeyedLimiter::<str>::builder(Quota::per_hour(1)).tier(Quota::per_hour(50)).build(1_000)?;
    /// let tier_of = |client: &str| usize::from(client.starts_with("paid:"));
    /// for (client, cost) in [("paid:alice", 50), ("bob", 1)] {
    ///     assert!(limiter.entry(client).tier(tier_of(client))?.check_n(cost).is_allowed());
    /// }
    /// assert!(limiter.entry("bob").tier(2).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn tier(self, tier: usize) -> Result<Self, ChangeError> {
        Ok(Self { limit: self.limit.in_tier(tier)?, ..self })
    }

    /// The key under a quota of its own, such as a customer's quota from your database. The limiter must be built for
    /// own quotas ([`own_quotas`](crate::KeyedBuilder::own_quotas)). Without this call the key has the quota with which
    /// the limiter was built.
    ///
    /// A key has one count, even if its requests come under several quotas. When its quota changes, the units that the
    /// key has spent stay spent, and a raised rate or burst applies from the next request. Spent units come back at the
    /// rate of the quota under which the key was last admitted, or of a faster quota under which it was denied since.
    /// In any time T a key is admitted at most B + R * T units, where B is the largest burst and R the highest rate of
    /// the quotas of its requests. So alternating between two quotas gains nothing.
    ///
    /// The call looks the quota up in a table, which takes some 130 instructions.
    ///
    /// * A permit gives units back ([`refund`](Entry::refund)) only while its key still belongs to the quota of the
    ///   charge. Since the charge, the key must not have moved to a faster quota, and must not have moved to another
    ///   quota while its debt was above the burst of either quota. Such moves are recorded once per group of keys, so
    ///   no other key of the same group may have moved in this way, either. A group is about a thousandth of all keys.
    /// * A [reservation](Entry::reserve) keeps its turn. If a request of the key then comes under a faster quota, the
    ///   reserved units come back before that turn. The reservation may then be used at its turn in addition to these
    ///   units.
    /// * A debt is rounded up to a tick of the new quota, which is at most 1/256 of a unit if its words have room. So
    ///   if the new quota is not faster than the old one, the wait in a denial may be too short by one tick.
    /// * A word under the new quota can hold a debt of at least twice its burst. A larger debt drains at the old rate
    ///   until the word can hold it.
    /// * A request whose key still belongs to another quota is decided at the time of the limiter's clock, or at the
    ///   time that you give ([`at`](Entry::at)) if that is later. The bound above holds in the times of the limiter's
    ///   clock. A request whose time is d before that clock may be admitted up to R * d units more. A time ahead of the
    ///   clock is not changed, as in every limiter.
    ///
    /// # Errors
    /// Returns an error if the limiter was built without own quotas, if the quota does not fit in the limiter's words,
    /// or if there is no place for another quota ([`forget_quotas`](crate::KeyedLimiter::forget_quotas)). If you keep
    /// an entry until its quota has been forgotten and another quota has taken its place, the entry denies as a full
    /// table does.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, ManualClock, Quota};
    /// let [free, paid] = [Quota::per_minute(10), Quota::per_second(50)];
    /// let limiter = KeyedLimiter::builder(free).own_quotas(100, &[paid]);
    /// let limiter = limiter.clock(ManualClock::new()).build(1_000)?;
    /// assert!(limiter.entry("alice").check_n(10).is_allowed());
    /// assert!(!limiter.entry("alice").check().is_allowed());
    /// // Alice pays. The ten that she has spent stay spent.
    /// assert_eq!(limiter.entry("alice").under(paid)?.check().remaining(), 39);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn under(self, quota: Quota) -> Result<Self, ChangeError> {
        Ok(Self { limit: self.limit.under(quota)?, ..self })
    }

    /// Moves the units that a key has spent from this tier to another, as when a customer's plan changes, and returns
    /// their number. After that, the key's limit in the old tier is like a limit that was never used.
    ///
    /// The units are rounded up. Units that do not fit in the new word are dropped: it has room for twice the new
    /// burst, for the debt of the new policy, or for the limit of the new window. From a segmented window, at most its
    /// limit is moved. Charges that the key gets in the old tier before the end of this call are moved, too. A key
    /// without a cell may have a debt in the spill ([`WhenFull::Spill`](crate::WhenFull::Spill)). This debt is charged
    /// in the new tier, but also stays in the old tier until it has drained there. Between [own quotas](Entry::under)
    /// nothing has to be moved, since a key has one count for all of them.
    ///
    /// # Errors
    /// Returns an error if there is no such tier, if the table finds neither a cell for the key in the new tier nor a
    /// spill, or if the key has a penalty in the new tier. Then the spent units stay in the old tier.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota};
    /// let limiter = KeyedLimiter::<str>::builder(Quota::per_hour(10)).tier(Quota::per_hour(100)).build(1_000)?;
    /// let free = limiter.entry("alice");
    /// assert!(free.check_n(8).is_allowed());
    /// assert_eq!(free.move_to(1)?, 8);
    /// assert_eq!([free, free.tier(1)?].map(|entry| entry.peek(1).remaining()), [10, 92]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn move_to(&self, tier: usize) -> Result<u64, ChangeError> {
        self.limit.move_to(tier, self.at)
    }

    /// Gives back the charge of a permit of this limit, and returns the number of units given back. The number is
    /// rounded up, because a part of the last unit may have drained. [`Permit::portion`] makes a permit for some of its
    /// units.
    ///
    /// Units that have drained meanwhile cannot be given back: under GCRA these are `rate * (now - then)` units. A
    /// window gives back only until a later window (or segment) has been charged. Some permits give back nothing: the
    /// permit of a peek; the permit of a limit with another policy; a permit from before a change of the quota, even if
    /// the quota has been changed back; and the permit of a charge in the spill. A permit of a key that the table has
    /// forgotten also gives back nothing, since such a key owes nothing.
    ///
    /// A sliding log gives back each unit that is still in the window and whose slot no later request has taken. If
    /// another thread reads that slot at the same moment, the unit may come back up to a window late, never too early.
    ///
    /// A permit stands for one charge of one key. If you refund it to another key of the same limiter, or to another
    /// limiter with the same policy, you give back another key's charge. The limiter cannot detect this.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let clock = ManualClock::new();
    /// let limiter = Limiter::builder(Quota::per_second(1).burst(10)).clock(clock.clone()).build();
    /// let permit = limiter.check_n(8).into_result()?;
    /// clock.advance(Duration::from_secs(3));
    /// assert_eq!(limiter.entry().refund(permit), 5);
    /// assert_eq!(limiter.entry().peek(1).remaining(), 10);
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[expect(clippy::needless_pass_by_value, reason = "what is given back is gone")]
    pub fn refund(&self, permit: Permit) -> u64 {
        let refund = permit.charge().map(Amendment::Refund);
        refund.map_or(0, |refund| self.limit.amend(self.at, refund))
    }

    /// Corrects a charge when the real cost is known. If fewer units were used than charged, the difference is given
    /// back with [`refund`](Entry::refund). If more were used, the excess is charged with [`charge`](Entry::charge),
    /// into debt if necessary. Returns how many units could not be charged: 0 if no more was used than was charged.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, ManualClock, Quota};
    /// let limiter = KeyedLimiter::builder(Quota::per_hour(1_000)).clock(ManualClock::new()).build(100)?;
    /// let alice = limiter.entry("alice");
    /// let ask = |estimate, used| {
    ///     alice.check_n(estimate).into_result().map(|permit| alice.settle(permit, used))
    /// };
    /// assert_eq!(ask(500, 120)?, 0);
    /// assert_eq!(alice.peek(1).remaining(), 880);
    /// assert_eq!(ask(500, 900)?, 0);
    /// assert!(alice.peek(0).is_denied(), "20 are owed");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "what was not charged is not limited"]
    pub fn settle(&self, permit: Permit, used: u64) -> u64 {
        match used.checked_sub(permit.cost()) {
            Some(0) => 0,
            Some(beyond) => self.charge(beyond),
            None => {
                let unused = permit.cost() - used;
                self.refund(permit.portion(unused));
                0
            }
        }
    }

    /// Takes back up to `units` charged units of any requests, and returns their number, rounded up. Use it if a cost
    /// turns out to be lower and the permit of its charge is gone. If you still have the permit, use
    /// [`refund`](Entry::refund).
    ///
    /// It never takes back more than is charged. Under GCRA this is everything that is owed now, including a debt; in a
    /// window it is the count of the current window (or segment); in a sliding log it is every unit in the window.
    /// During a penalty, and for a key without a cell, it takes back nothing. So at most the units that are taken back
    /// are admitted above the bound. If they were charged for a [reservation](Entry::reserve), the reservation still
    /// proceeds at its turn, so the bound may be exceeded at that later time.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::builder(Quota::per_hour(10)).clock(ManualClock::new()).build();
    /// assert_eq!((limiter.entry().charge(14), limiter.entry().uncharge(5)), (0, 5));
    /// assert_eq!((limiter.entry().peek(1).remaining(), limiter.entry().uncharge(u64::MAX)), (1, 9));
    /// ```
    #[expect(clippy::must_use_candidate, reason = "what came back need not matter")]
    pub fn uncharge(&self, units: u64) -> u64 {
        self.limit.amend(self.at, Amendment::Uncharge(units))
    }

    /// Gives a reservation's place back and returns true, if no other request has been charged or given back since.
    /// Before the reservation's turn ([`Reservation::ready_at`]) the whole charge is given back, as if the reservation
    /// had not been made. After its turn only the units that have not drained since are given back. If another request
    /// has been charged since, the charge stays and the result is false, since later places are promised. In a sliding
    /// log each slot that no later request has taken is given back separately, and is then free from the reservation's
    /// turn on.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::builder(Quota::per_second(10).burst(1)).clock(ManualClock::new()).build();
    /// let entry = limiter.entry();
    /// let [first, second] = [(); 2].map(|()| entry.reserve(1, Duration::from_secs(1)));
    /// assert!(!entry.cancel(first?)); // the second stands behind it
    /// assert!(entry.cancel(second?));
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[expect(clippy::needless_pass_by_value, reason = "what is cancelled is gone")]
    pub fn cancel(&self, reservation: Reservation) -> bool {
        let undo = reservation.permit().charge().map(Amendment::Undo);
        undo.is_some_and(|undo| self.limit.amend(self.at, undo) > 0)
    }

    /// Forgets all charges: from now on the limit is like a limit that was never used. Do not give back permits and
    /// reservations from before the reset, since this would give back a later charge. A `check_all` that is denied
    /// during the reset may also give back a later charge.
    ///
    /// For a key, the charges in its cell are forgotten. Charges in the spill, which were made while the key had no
    /// cell, are not forgotten: they only drain. Keys with equal tags and the same units share one word (see
    /// [`Stats::collision_probability`](crate::Stats)), so a reset of one of these keys resets the others, too. A
    /// request with a time before the reset may still be denied until the time of the reset.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(1));
    /// assert!(limiter.check().is_allowed());
    /// limiter.entry().reset();
    /// assert!(limiter.check().is_allowed());
    /// ```
    pub fn reset(&self) {
        self.limit.amend(self.at, Amendment::Reset);
    }
}

impl Limiter {
    /// The entry of this limit, with every verb: see [`Entry`].
    ///
    /// ```
    /// use tollgate::{Limiter, Quota, Timestamp};
    /// let limiter = Limiter::new(Quota::per_minute(10));
    /// assert!(limiter.entry().at(Timestamp::from_secs(60)).check_n(10).is_allowed());
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn entry(&self) -> Entry<'_> {
        Entry::of(Limit::One(self))
    }
}

impl StripedLimiter {
    /// The entry of this limit: see [`Entry`].
    ///
    /// ```
    /// use tollgate::{Quota, StripedLimiter, Timestamp};
    /// let limiter = StripedLimiter::new(Quota::per_minute(2))?;
    /// assert!(limiter.entry().at(Timestamp::from_secs(60)).check().is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn entry(&self) -> Entry<'_, &Self> {
        Entry::of(self)
    }
}

impl<K: Hash + ?Sized, S: BuildHasher> SketchLimiter<K, S> {
    /// The entry of a key: see [`Entry`]. Hashes the key and prefetches its memory.
    ///
    /// ```
    /// use tollgate::{Quota, SketchLimiter, SketchSize, Timestamp};
    /// let limiter = SketchLimiter::new(Quota::per_minute(1), SketchSize::new(4, 1_000)?)?;
    /// assert!(limiter.entry("alice").at(Timestamp::from_secs(60)).check().is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn entry(&self, key: &K) -> Entry<'_, KeyCells<'_>> {
        Entry::of(self.place(key))
    }
}

impl<K: Hash + ?Sized, S: BuildHasher> KeyedLimiter<K, S> {
    /// The entry of a key, with every verb: see [`Entry`]. Hashes the key and prefetches its memory.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota, Timestamp};
    /// let limiter = KeyedLimiter::new(Quota::per_minute(10), 1_000)?;
    /// assert!(limiter.entry("alice").at(Timestamp::from_secs(60)).check_n(10).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn entry(&self, key: &K) -> Entry<'_> {
        Entry::of(Limit::Key(self.place(key)))
    }
}

/// A limiter of any kind for keys of the type `K`. Code that works with several kinds of limiter can use `&dyn
/// AnyLimiter<str>`.
///
/// ```
/// use tollgate::entry::AnyLimiter;
/// use tollgate::{KeyedLimiter, Limiter, Quota};
/// let limiters: [Box<dyn AnyLimiter<str>>; 2] = [
///     Box::new(Limiter::new(Quota::per_second(1_000))),
///     Box::new(KeyedLimiter::<str>::new(Quota::per_minute(1), 1_000)?),
/// ];
/// let serve = |client| limiters.iter().all(|limiter| limiter.any_entry(client).check().is_allowed());
/// assert_eq!(["alice", "bob", "alice"].map(serve), [true, true, false]);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub trait AnyLimiter<K: ?Sized> {
    /// The entry of a key. A limiter without keys has the same limit for all keys.
    fn any_entry(&self, key: &K) -> Entry<'_, AnyLimit<'_>>;
}

impl<K: ?Sized> AnyLimiter<K> for Limiter {
    fn any_entry(&self, _: &K) -> Entry<'_, AnyLimit<'_>> {
        self.entry().any()
    }
}

impl<K: ?Sized> AnyLimiter<K> for StripedLimiter {
    fn any_entry(&self, _: &K) -> Entry<'_, AnyLimit<'_>> {
        self.entry().any()
    }
}

impl<K: Hash + ?Sized, S: BuildHasher> AnyLimiter<K> for KeyedLimiter<K, S> {
    fn any_entry(&self, key: &K) -> Entry<'_, AnyLimit<'_>> {
        self.entry(key).any()
    }
}

impl<K: Hash + ?Sized, S: BuildHasher> AnyLimiter<K> for SketchLimiter<K, S> {
    fn any_entry(&self, key: &K) -> Entry<'_, AnyLimit<'_>> {
        self.entry(key).any()
    }
}

impl<K: ?Sized, L: AnyLimiter<K>> AnyLimiter<K> for Changing<L> {
    fn any_entry(&self, key: &K) -> Entry<'_, AnyLimit<'_>> {
        (**self).any_entry(key)
    }
}
