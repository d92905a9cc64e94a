//! [`Tier`]: one quota of a keyed limiter that has several.

use std::fmt;
use std::hash::{BuildHasher, Hash};

use ahash::RandomState;

use crate::change::{ChangeError, plain};
use crate::clock::Timestamp;
use crate::decision::Decision;
use crate::policy::Policy;
use crate::verb::Verb;

use super::KeyedLimiter;
use super::all::Place;

/// One quota of a [`KeyedLimiter`] with several: see [`Tiers`](crate::Tiers).
///
/// ```
/// use tollgate::{KeyedLimiter, Quota, Tiers};
/// let tiers = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(50));
/// let limiter: KeyedLimiter<str> = tiers.build(1_000)?;
/// let paid = limiter.tier(1)?;
/// assert!(paid.check("alice", 50).is_allowed());
/// // Of the other quota she has used nothing.
/// assert!(limiter.check("alice", 1).is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Tier<'a, K: ?Sized, S = RandomState> {
    limiter: &'a KeyedLimiter<K, S>,
    tier: u8,
}

impl<K: Hash + ?Sized, S: BuildHasher> KeyedLimiter<K, S> {
    /// The tier of this number, from 0.
    ///
    /// # Errors
    /// There is none. A limiter that was built without [`Tiers`](crate::Tiers) has one, tier 0.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota, Tiers};
    /// let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_second(5)).build(1_000)?;
    /// assert!(limiter.tier(0)?.check("alice", 5).is_allowed());
    /// assert_eq!(limiter.tier(3).unwrap_err().to_string(), "there is no tier 3; use 0 to 0");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tier(&self, tier: usize) -> Result<Tier<'_, K, S>, ChangeError> {
        let tiers = self.tiers();
        let found = u8::try_from(tier).ok().filter(|_| tier < tiers);
        let tier = found.ok_or(ChangeError::NoSuchTier { tier, tiers })?;
        Ok(Tier { limiter: self, tier })
    }

    /// A tier that there is.
    pub(super) fn nth_tier(&self, tier: usize) -> Tier<'_, K, S> {
        // There are 16 at most.
        Tier { limiter: self, tier: u8::try_from(tier).unwrap_or(u8::MAX) }
    }

    /// How many tiers there are.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota, Tiers};
    /// let quota = Quota::per_second(5);
    /// assert_eq!(Tiers::of(quota).and(quota).build::<str>(1_000)?.tiers(), 2);
    /// assert_eq!(KeyedLimiter::<str>::new(quota, 1_000)?.tiers(), 1);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn tiers(&self) -> usize {
        self.table.book.as_ref().map_or(1, |book| book.tiers())
    }
}

impl<'a, K: Hash + ?Sized, S: BuildHasher> Tier<'a, K, S> {
    #[inline(always)]
    pub(crate) fn place(&self, key: &K) -> Place<'a> {
        self.limiter.place_in(key, self.tier)
    }

    /// [`KeyedLimiter::check`] under this quota.
    ///
    /// ```
    /// use tollgate::{Quota, Tiers};
    /// let limiter = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(9)).build::<str>(100)?;
    /// assert!(limiter.tier(1).expect("two tiers").check("alice", 9).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn check(&self, key: &K, cost: u64) -> Decision {
        self.place(key).ask(Verb::Check, cost, None, cost > 0)
    }

    /// Would a request of `cost` units for `key` be admitted now under this quota? Charges nothing.
    ///
    /// ```
    /// use tollgate::{Quota, Tiers};
    /// let limiter = Tiers::of(Quota::per_hour(1)).and(Quota::per_hour(9)).build::<str>(100)?;
    /// assert_eq!(limiter.tier(1).expect("two tiers").peek("alice", 1).remaining(), 9);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn peek(&self, key: &K, cost: u64) -> Decision {
        self.place(key).ask(Verb::Check, cost, None, false)
    }

    pub(super) fn number(&self) -> u8 {
        self.tier
    }

    /// The quota's limit now: the burst, or the most that its window admits.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota, Tiers};
    /// # let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_hour(2)).build(1_000)?;
    /// assert_eq!(limiter.tier(0)?.limit(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limiter.table.quota_of(self.tier, &mut None).0.kernel.limit()
    }

    /// The policy now: that which the limiter was built with, or the one that it was changed to last.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Policy, Quota, Tiers};
    /// # let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_hour(2)).build(1_000)?;
    /// let tier = limiter.tier(0)?;
    /// tier.set_quota(Quota::per_hour(3))?;
    /// assert_eq!(tier.policy(), Policy::from(Quota::per_hour(3)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn policy(&self) -> Policy {
        let changed =
            self.limiter.table.book.as_ref().and_then(|book| book.policy(self.tier.into()));
        changed.unwrap_or(self.limiter.policy)
    }

    /// Changes the quota of this tier. Decisions that begin after this has returned use the new one; one that
    /// is under way uses the one or the other, whole.
    ///
    /// What a key has spent stays spent. Under GCRA its debt drains at the old rate up to the change and at
    /// the new rate after it; what is above the new burst is cut off. So in any time that holds the change
    /// a key is admitted at most *the larger of the two bursts*, and what the old rate gives before the
    /// change and the new one after it, and the old rate's for as long as decisions of before the change
    /// were still under way. A raised burst gives the difference; a lowered one locks no key out for longer
    /// than it takes to come back, and forgives what is owed above that. A window of the same length keeps its
    /// counts, up to the new limit; where lengths or algorithms differ, what was used of the old limit counts as
    /// used of the new one.
    ///
    /// Goes through the whole table, as [`stats`](KeyedLimiter::stats) does, and waits for no thread: seven
    /// words a shard are read, and each key of this tier is written once, as is each word of its part of the spill.
    ///
    /// # Errors
    /// The limiter was not built with [`Tiers`](crate::Tiers); the quota does not fit in its words (see
    /// [`Tiers::headroom`](crate::Tiers::headroom)), or in those of its spill; another change is under way. Nothing has
    /// changed then.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{KeyedLimiter, ManualClock, Quota, Tiers};
    /// let clock = ManualClock::new();
    /// let tiers = Tiers::of(Quota::per_minute(60));
    /// let limiter: KeyedLimiter<str> = tiers.build_with_clock(1_000, clock.clone())?;
    /// let tier = limiter.tier(0)?;
    /// assert!(tier.check("alice", 40).is_allowed());
    /// clock.advance(Duration::from_secs(10));
    /// tier.set_quota(Quota::per_minute(6).burst(50))?;
    /// assert_eq!(tier.peek("alice", 1).remaining(), 20);
    /// clock.advance(Duration::from_secs(10));
    /// assert_eq!(tier.peek("alice", 1).remaining(), 21);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_quota(&self, policy: impl Into<Policy>) -> Result<(), ChangeError> {
        self.set_quota_at(policy, self.limiter.now())
    }

    /// [`set_quota`](Tier::set_quota) at a time of the caller's. A time before that of the last change
    /// counts as that; one far ahead is believed, as that of a charge is.
    ///
    /// # Errors
    /// As [`set_quota`](Tier::set_quota).
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota, Tiers, Timestamp};
    /// # let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_minute(6)).build(1_000)?;
    /// let (tier, at) = (limiter.tier(0)?, Timestamp::from_secs);
    /// assert!(tier.entry("alice").at(at(7)).check(6).is_allowed());
    /// tier.set_quota_at(Quota::per_minute(60), at(17))?;
    /// assert_eq!(tier.entry("alice").at(at(17)).peek(1).remaining(), 55);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_quota_at(
        &self,
        policy: impl Into<Policy>,
        now: Timestamp,
    ) -> Result<(), ChangeError> {
        let policy = plain(policy.into(), &self.limiter.clock);
        self.limiter.table.set_quota(self.tier, policy, now.as_nanos())
    }
}

impl<K: ?Sized, S> Clone for Tier<'_, K, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized, S> Copy for Tier<'_, K, S> {}

impl<K: ?Sized, S> fmt::Debug for Tier<'_, K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tier").field("tier", &self.tier).finish_non_exhaustive()
    }
}
