//! Changes the quota of a tier while other threads decide.

use std::hash::{BuildHasher, Hash};

use crate::change::{ChangeError, Changing, in_a_word};
use crate::keyed::memory::shard::OwnBits;
use crate::policy::Policy;
use crate::sync::{Ordering, fence};

use super::full::WhenFull;
use crate::error::BuildError;
use crate::keyed::KeyedLimiter;
use crate::keyed::memory::layout::{Layout, Shared};
use crate::keyed::quotas::book::{NewQuota, Quotas};
use crate::keyed::table::words::Words;
use crate::keyed::table::{Cells, Table};

impl<K: Hash + ?Sized, S: BuildHasher> KeyedLimiter<K, S> {
    /// The policy that is enforced now for each key: the policy that the limiter was built with, or was last changed
    /// to. If there are several tiers, it is the policy of the first.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Policy, Quota};
    /// let limiter = KeyedLimiter::<str>::new(Quota::per_second(5), 1_000)?;
    /// assert_eq!(limiter.policy(), Policy::from(Quota::per_second(5)));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.table.changed(0).unwrap_or(self.policy)
    }

    /// The [policy](Self::policy) of each tier, in their order. This allocates, so it is for a restart or for a page
    /// that shows the policies.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Policy, Quota};
    /// let [free, paid, more] = [2, 50, 60].map(Quota::per_hour);
    /// let limiter = KeyedLimiter::<str>::builder(free).tier(paid).build(1_000)?;
    /// limiter.set_tier_quota(1, more)?;
    /// assert_eq!(limiter.policies(), [free, more].map(Policy::from));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn policies(&self) -> Vec<Policy> {
        let tiers = 0..self.table.tiers();
        tiers.map(|tier| self.table.changed(tier).unwrap_or(self.policy)).collect()
    }
}

impl<K: Hash + ?Sized, S: BuildHasher> Changing<KeyedLimiter<K, S>> {
    /// Changes the quota, or that of the first tier if there are several. Decisions that begin after this call has
    /// returned use the new quota. A decision that is under way uses either the old or the new quota, never a mixture.
    /// The change takes place at the time of the limiter's clock. If the clock reads earlier than at the last change,
    /// the time of the last change is used.
    ///
    /// What a key has spent stays spent, in units. Under GCRA its debt drains at the old rate up to the change and at
    /// the new rate after it. So in any interval that contains the change, a key gets at most the sum of three amounts:
    /// *the larger of the two bursts*, the units of the old rate before the change, and the units of the new rate after
    /// it. The old rate may also give units for as long as decisions from before the change are still under way. If the
    /// burst is raised, the difference is admitted at once. If it is lowered, no key is locked out for longer than the
    /// new burst takes to come back. Units that the new quota cannot count stay in the key's word as its surplus. These
    /// units are owed again if a later change raises the limit while they would still count. So changing a quota back
    /// and forth gives no more than the largest limit that was in force. A surplus for which a word has too few bits is
    /// rounded up. A window of the same length keeps its counts, up to the new limit. If lengths or algorithms differ,
    /// what was used of the old limit counts as used of the new one. A key's count of denials in a row
    /// ([`AtLimit`](crate::AtLimit)) is kept, but is cut so that the new quota's penalty takes at least one more
    /// denial. A penalty goes on to its end, but no longer than a penalty of the new quota would last from now. If the
    /// new quota has no penalty, the whole limit counts as used instead.
    ///
    /// The change goes through the whole table, as [`stats`](KeyedLimiter::stats) does, and waits for no thread. It
    /// reads the seven cells of each shard. It writes the word of each key of this tier once, and each word of the
    /// tier's part of the spill.
    ///
    /// # Errors
    /// Fails if the quota does not fit in the table's words (see
    /// [`KeyedBuilder::headroom`](crate::KeyedBuilder::headroom)) or in those of its spill, if it needs a date that the
    /// clock cannot tell, or if another thread is changing a quota of this limiter or copying its words for a snapshot.
    /// After an error nothing has changed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{KeyedLimiter, ManualClock, Quota};
    /// let clock = ManualClock::new();
    /// let tiers = KeyedLimiter::<str>::builder(Quota::per_minute(60)).changing();
    /// let limiter = tiers.clock(clock.clone()).build(1_000)?;
    /// assert!(limiter.check_n("alice", 40).is_allowed());
    /// clock.advance(Duration::from_secs(10));
    /// limiter.set_quota(Quota::per_minute(6).burst(50))?;
    /// assert_eq!(limiter.entry("alice").peek(1).remaining(), 20);
    /// clock.advance(Duration::from_secs(10));
    /// assert_eq!(limiter.entry("alice").peek(1).remaining(), 21);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_quota(&self, policy: impl Into<Policy>) -> Result<(), ChangeError> {
        self.set_tier_quota(0, policy)
    }

    /// Changes the quota of this tier, as [`set_quota`](Changing::set_quota) changes that of the first, tier 0.
    ///
    /// # Errors
    /// Fails if there is no such tier, or if `set_quota` would fail.
    ///
    /// ```
    /// use tollgate::{ChangeError, KeyedLimiter, Quota};
    /// let [free, paid, more] = [2, 50, 60].map(Quota::per_hour);
    /// let limiter = KeyedLimiter::<str>::builder(free).tier(paid).build(1_000)?;
    /// limiter.set_tier_quota(1, more)?;
    /// assert_eq!(limiter.entry("alice").tier(1)?.check().remaining(), 59);
    /// let error = limiter.set_tier_quota(2, more).unwrap_err();
    /// assert_eq!(error, ChangeError::NoSuchTier { tier: 2, tiers: 2 });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_tier_quota(
        &self,
        tier: usize,
        policy: impl Into<Policy>,
    ) -> Result<(), ChangeError> {
        let tier = self.table.tier(tier)?;
        let policy = in_a_word(policy.into(), &self.clock);
        self.table.set_quota(tier, policy, self.clock.now().as_nanos())
    }

    /// As [`KeyedLimiter::when_full`].
    ///
    /// # Errors
    /// As [`KeyedLimiter::when_full`].
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota, WhenFull};
    /// let limiter = KeyedLimiter::<str>::builder(Quota::per_hour(5)).changing().build(1_000)?;
    /// assert_eq!(limiter.when_full(WhenFull::Deny)?.stats().spill_bytes, 0);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn when_full(self, full: WhenFull) -> Result<Self, BuildError> {
        Ok(Self(self.0.when_full(full)?))
    }
}

impl Table {
    /// The policy in force for a tier, if the table's quotas may change.
    fn changed(&self, tier: usize) -> Option<Policy> {
        self.book()?.policy(tier)
    }

    /// Changes the quota of a tier, and brings every word over to it.
    pub(in crate::keyed) fn set_quota(
        &self,
        tier: u16,
        policy: Result<Policy, ChangeError>,
        now_ns: u64,
    ) -> Result<(), ChangeError> {
        // Only a limiter that was built as changing calls this, and its table has a book.
        let Cells::Several { book, spill } = &self.cells else {
            return Err(ChangeError::DoesNotFit { state_bits: 0 });
        };
        let spill = spill.as_ref();
        let words = Words::new(self, Quotas::Several(book));
        let policy = &policy?;
        let shared = book.shared();
        // The spill's words are brought over, too: a quota that they have no room for is refused.
        let fits =
            |layout: &Layout| spill.is_none() || book.lens(layout, OwnBits::default()).is_some();
        // `None` if the quota does not fit in the table's words or in the spill's.
        let layout = shared.layout(policy).filter(fits);
        let state_bits = shared.index_shift();
        // This is checked before the right to change is taken, so a quota that does not fit is never answered with
        // `Busy`.
        let layout = layout.ok_or(ChangeError::DoesNotFit { state_bits })?;
        let code = Shared::code(&layout);
        // Only one change at a time is possible. This change does not wait for another.
        let changing = book.begin().ok_or(ChangeError::Busy)?;
        // The instant is no earlier than the last change, so that a word passes through all changes in their order.
        let at_ns = changing.instant(now_ns);
        if let Some(spill) = spill {
            // This comes before the tier is turned to the new quota, so that debts in the spill are still found after a
            // change to a slower rate: see `overflow/settle.rs`.
            spill.raise_marks(at_ns);
        }
        // From here on new keys are counted in the new quota, and words of the old one are carried over when read.
        let retired = changing.turn(
            tier.into(),
            NewQuota { policy, code: &code, rules: &layout.rules },
            at_ns,
        );
        // SeqCst: an install reads its tier's index after its claim and a fence like this one. So either the install
        // sees the new index, or this thread sees its claim or the word that followed the claim.
        fence(Ordering::SeqCst);
        // After this, no word and no claim has the retired index.
        words.settle_all(book, retired, at_ns);
        if let Some(spill) = spill {
            // The spill's cells of this tier are brought over like the table's words. After this, none of them carries
            // the retired index.
            spill.settle_tier(book, tier);
        }
        drop(changing); // the retired index is free from here on, and no sooner
        Ok(())
    }
}
