//! Methods for the models of `loom-tests`, which read the newest words of a table in modification order.
//!
//! These methods add no step to a model: they read the newest words directly, which no thread of the model can do.

use std::hash::{BuildHasher, Hash};

use crate::change::{ChangeError, in_a_word};
use crate::clock::Timestamp;
use crate::policy::Policy;
use crate::word::Word;

use crate::keyed::KeyedLimiter;
use crate::keyed::memory::layout::Kind;
use crate::keyed::overflow::store::Spill;
use crate::keyed::table::newest::newest;

impl<K: Hash + ?Sized, S: BuildHasher> KeyedLimiter<K, S> {
    /// The homes of a key in its two units. The two may be the same shard.
    #[doc(hidden)]
    #[must_use]
    pub fn shards_of(&self, key: &K) -> [usize; 2] {
        let place = self.place(key);
        [place.identity().first, place.second()]
    }

    /// Calls `set_quota` at a time that the model chooses. Reading a clock would add a step to the model.
    ///
    /// # Errors
    /// As `set_quota`.
    #[doc(hidden)]
    pub fn set_quota_at(
        &self,
        tier: usize,
        policy: impl Into<Policy>,
        now: Timestamp,
    ) -> Result<(), ChangeError> {
        let policy = in_a_word(policy.into(), &self.clock);
        self.table.set_quota(self.table.tier(tier)?, policy, now.as_nanos())
    }

    /// Calls `forget_quotas` at a time that the model chooses.
    #[doc(hidden)]
    pub fn forget_quotas_at(&self, now: Timestamp) -> usize {
        self.table.words().map_or(0, |words| words.forget_unused(now.as_nanos()))
    }

    /// The number of live words whose quota is not safe in the book, because its place is free or may be freed. A model
    /// calls this after all its threads have ended, and then the number must be 0.
    #[doc(hidden)]
    #[must_use]
    pub fn words_without_place(&self) -> usize {
        let Some(book) = self.table.book() else { return 0 };
        (0..self.table.shards())
            .flat_map(|index| newest(&self.table, index))
            .filter(|&word| Kind::of(word) == Kind::Live)
            .filter(|&word| !book.is_kept(book.index_of_word(word)))
            .count()
    }

    /// The number of claims in the table.
    #[doc(hidden)]
    #[must_use]
    pub fn claims(&self) -> usize {
        (0..self.table.shards())
            .flat_map(|index| newest(&self.table, index))
            .filter(|&word| Kind::of(word) == Kind::Claim)
            .count()
    }

    /// The number of words that are counted in a quota which has been replaced.
    #[doc(hidden)]
    #[must_use]
    pub fn retired_words(&self) -> usize {
        let Some(book) = self.table.book() else { return 0 };
        // Claims carry no index, so only live words are counted.
        let of_cells = (0..self.table.shards())
            .flat_map(|index| newest(&self.table, index))
            .filter(|&word| Kind::of(word) == Kind::Live && !book.is_in_force(word))
            .count();
        let is_retired = |word: &Word| !book.is_index_in_force(book.index_of_spilled(*word));
        let spill = self.table.spill().into_iter();
        of_cells + spill.flat_map(Spill::newest).filter(is_retired).count()
    }
}
