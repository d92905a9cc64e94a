//! Changing the quota of a tier while others decide.

use std::hash::{BuildHasher, Hash};

use crate::change::{ChangeError, plain};
use crate::clock::Timestamp;
use crate::policy::Policy;
use crate::sync::{Ordering, fence};

use super::KeyedLimiter;
use super::book::NewQuota;
use super::layout::{Layout, Shared};
use super::price::all_words::settle_all;
use super::table::Table;

impl<K: Hash + ?Sized, S: BuildHasher> KeyedLimiter<K, S> {
    /// Changes the quota of a limiter that was built with [`Tiers`](crate::Tiers): of its first tier, if it
    /// has several. Later decisions use the new one.
    ///
    /// What a key has spent stays spent: priced at the old rate up to now, at the new one from now on, at
    /// most the new burst. A decision that is under way uses the one quota or the other, whole. See
    /// [`Tier::set_quota`](crate::Tier::set_quota) for the bound.
    ///
    /// # Errors
    /// The limiter was not built for changes; the quota does not fit in its words; another change is
    /// under way. Nothing has changed then.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota, Tiers};
    /// let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_hour(10)).build(1_000)?;
    /// assert!(limiter.check("alice", 8).is_allowed());
    /// limiter.set_quota(Quota::per_hour(20))?;
    /// assert_eq!(limiter.entry("alice").peek(1).remaining(), 12);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_quota(&self, policy: impl Into<Policy>) -> Result<(), ChangeError> {
        self.set_quota_at(policy, self.clock.now())
    }

    /// [`set_quota`](KeyedLimiter::set_quota) at a time of the caller's. A time before that of the last
    /// change counts as that.
    ///
    /// # Errors
    /// As [`set_quota`](KeyedLimiter::set_quota).
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota, Tiers, Timestamp};
    /// let limiter: KeyedLimiter<str> = Tiers::of(Quota::per_minute(60)).build(1_000)?;
    /// let at = Timestamp::from_secs;
    /// assert!(limiter.entry("alice").at(at(100)).check(60).is_allowed());
    /// limiter.set_quota_at(Quota::per_hour(60), at(130))?;
    /// // 30 units came back in half a minute, and one more in a minute since.
    /// assert_eq!(limiter.entry("alice").at(at(190)).peek(1).remaining(), 31);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_quota_at(
        &self,
        policy: impl Into<Policy>,
        now: Timestamp,
    ) -> Result<(), ChangeError> {
        self.table.set_quota(0, plain(policy.into(), &self.clock), now.as_nanos())
    }
}

impl Table {
    /// Changes the quota of a tier, and brings every word over to it.
    pub(super) fn set_quota(
        &self,
        tier: u8,
        policy: Result<Policy, ChangeError>,
        now_ns: u64,
    ) -> Result<(), ChangeError> {
        let book = self.book.as_deref().ok_or(ChangeError::Fixed)?;
        // A quota that changes is plain: one with rules at its limit is refused.
        let policy = &policy?;
        let shared = book.shared();
        // The spill's words are brought over, too: a quota that they have no room for is refused.
        let fits = |layout: &Layout| self.spill.is_none() || book.lens(layout, 0).is_some();
        // None if it does not fit in the table's words, in the spill's, or if its algorithm has no
        // numbers.
        let code = shared.layout(policy).filter(fits).as_ref().and_then(Shared::code);
        let state_bits = shared.index_shift();
        // Checked before the right to change is taken: a quota that does not fit is never `Busy`.
        let code = code.ok_or(ChangeError::DoesNotFit { state_bits })?;
        // One change at a time; this one does not wait for the other.
        let changing = book.begin().ok_or(ChangeError::Busy)?;
        // Not before the last change, so that a word is carried over each of them in their order.
        let at_ns = changing.instant(now_ns);
        if let Some(spill) = &self.spill {
            // Before the turn, so that what is owed now outlasts a change to a slower rate: see `spill/settle.rs`.
            spill.raise_marks(at_ns);
        }
        // From here on new keys are counted in the new quota, and words of the old one are carried over when read.
        let retired = changing.turn(tier.into(), NewQuota { policy, code: &code }, at_ns);
        // SeqCst: an install reads its tier's index after its claim and a fence like this one. So either
        // it sees the new index, or the claim, or what followed it, is seen from here.
        fence(Ordering::SeqCst);
        // Afterwards no word and no claim has the retired index.
        settle_all(self, book, retired, at_ns);
        if let Some(spill) = &self.spill {
            // The spill's cells of this tier, as the table's words: none carries the retired index
            // behind this.
            spill.settle_tier(book, tier);
        }
        drop(changing); // the retired index is free from here on, and no sooner
        Ok(())
    }
}
