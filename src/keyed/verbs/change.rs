//! Changing the quota of a tier while others decide.

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
    /// What it enforces now, for each key: the policy that it was built with, or was changed to last. Of several
    /// tiers, that of the first.
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

    /// The same for each of its tiers, in their order. Allocates: for a restart, or a page that shows them.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Policy, Quota};
    /// let [free, paid, more] = [2, 50, 60].map(Quota::per_hour);
    /// let limiter = KeyedLimiter::<str>::builder(free).tier(paid).build(1_000)?;
    /// limiter.set_quota(1, more)?;
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
    /// Changes the quota of a tier, from 0. Decisions that
    /// begin after this has returned use the new one; one that is under way uses the one or the other, whole. The
    /// limiter's clock says when it changes; a time before that of the last change counts as that.
    ///
    /// What a key has spent stays spent, in units. Under GCRA its debt drains at the old rate up to the change and at
    /// the new rate after it. So in any time that holds the change
    /// a key is admitted at most *the larger of the two bursts*, and what the old rate gives before the
    /// change and the new one after it, and the old rate's for as long as decisions of before the change
    /// were still under way. A raised burst gives the difference; a lowered one locks no key out for longer
    /// than it takes to come back. What it cannot count stays in the key's word, as its surplus, and is owed again if a
    /// later change raises the limit while it would still count: to and fro gives no more than the largest limit that
    /// was in force. A surplus that a word has too few bits for is rounded up. A window of the same length keeps its
    /// counts, up to the new limit; where lengths or algorithms differ, what was used of the old limit counts as
    /// used of the new one. A row of denials goes along ([`AtLimit`](crate::AtLimit)), one short of the new quota's penalty
    /// at most; a penalty goes on to its end, but no longer than the new quota's would last from now. A quota without a
    /// penalty counts it as its whole limit.
    ///
    /// Goes through the whole table, as [`stats`](KeyedLimiter::stats) does, and waits for no thread: seven
    /// words a shard are read, and each key of this tier is written once, as is each word of its part of the spill.
    ///
    /// # Errors
    /// No such tier; the quota does not fit in its words (see
    /// [`KeyedBuilder::headroom`](crate::KeyedBuilder::headroom)), or in those of its spill, or asks for a date that the clock cannot
    /// tell; another change is under way. Nothing has changed then.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{KeyedLimiter, ManualClock, Quota};
    /// let clock = ManualClock::new();
    /// let tiers = KeyedLimiter::<str>::builder(Quota::per_minute(60)).changing();
    /// let limiter = tiers.clock(clock.clone()).build(1_000)?;
    /// assert!(limiter.check_n("alice", 40).is_allowed());
    /// clock.advance(Duration::from_secs(10));
    /// limiter.set_quota(0, Quota::per_minute(6).burst(50))?;
    /// assert_eq!(limiter.entry("alice").peek(1).remaining(), 20);
    /// clock.advance(Duration::from_secs(10));
    /// assert_eq!(limiter.entry("alice").peek(1).remaining(), 21);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_quota(&self, tier: usize, policy: impl Into<Policy>) -> Result<(), ChangeError> {
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
    /// The policy in force for a tier, where the policy may change.
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
        // Only a limiter that was built as changing is asked: its table has a book.
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
        // None if it does not fit in the table's words or in the spill's.
        let layout = shared.layout(policy).filter(fits);
        let state_bits = shared.index_shift();
        // Checked before the right to change is taken: a quota that does not fit is never `Busy`.
        let layout = layout.ok_or(ChangeError::DoesNotFit { state_bits })?;
        let code = Shared::code(&layout);
        // One change at a time; this one does not wait for the other.
        let changing = book.begin().ok_or(ChangeError::Busy)?;
        // Not before the last change, so that a word is carried over each of them in their order.
        let at_ns = changing.instant(now_ns);
        if let Some(spill) = spill {
            // Before the turn, so that what is owed now outlasts a change to a slower rate: see `overflow/settle.rs`.
            spill.raise_marks(at_ns);
        }
        // From here on new keys are counted in the new quota, and words of the old one are carried over when read.
        let retired = changing.turn(
            tier.into(),
            NewQuota { policy, code: &code, rules: &layout.rules },
            at_ns,
        );
        // SeqCst: an install reads its tier's index after its claim and a fence like this one. So either
        // it sees the new index, or the claim, or what followed it, is seen from here.
        fence(Ordering::SeqCst);
        // Afterwards no word and no claim has the retired index.
        words.settle_all(book, retired, at_ns);
        if let Some(spill) = spill {
            // The spill's cells of this tier, as the table's words: none carries the retired index
            // behind this.
            spill.settle_tier(book, tier);
        }
        drop(changing); // the retired index is free from here on, and no sooner
        Ok(())
    }
}
