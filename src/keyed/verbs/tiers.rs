//! [`Tiers`]: the quotas of a table that has several, or one that may change, before it is built.

use crate::error::BuildError;
use crate::policy::{Policy, of_one_word};

use crate::keyed::memory::layout::{Layout, Shared};
use crate::keyed::quotas::book::own::{OWN_MAX, places_for};
use crate::keyed::quotas::book::{Book, TIERS_MAX, index_bits_for};

/// The reason why a log cannot be a tier. In the error it follows the policy's text.
const NO_SHARE: &str = "has a slot for each unit, and tiers share cells of one size; use gcra or a window, or a KeyedLimiter \
                        for each plan, and take_up_to there what a key that moves has spent";

/// The quotas of the tiers in the order of their numbers, and further quotas that must fit beside them.
#[derive(Clone, Debug)]
pub(in crate::keyed) struct Tiers {
    /// The quota of tier 0, which always exists.
    pub(in crate::keyed) first: Policy,
    pub(in crate::keyed) others: Vec<Policy>,
    pub(in crate::keyed) headroom: Vec<Policy>,
    /// The number of other quotas that callers may bring along; `None` if they may bring none.
    pub(in crate::keyed) own: Option<usize>,
}

impl Tiers {
    pub(in crate::keyed) fn policies(&self) -> impl Iterator<Item = &Policy> {
        std::iter::once(&self.first).chain(&self.others)
    }

    pub(in crate::keyed) fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// The quotas and the headroom, if a table can have them at all.
    pub(in crate::keyed) fn checked(&self) -> Result<Vec<Policy>, BuildError> {
        let tiers = self.count();
        // An index cannot name this many quotas and, for changes, an equal number of replaced ones.
        if tiers > TIERS_MAX {
            return Err(BuildError::tier_count(tiers, TIERS_MAX));
        }
        // The headroom consists of quotas that may be set later, so each of them must be possible in this table.
        let all = self.policies().chain(&self.headroom).copied();
        // A sliding log, which is kept in slots, cannot be a tier: see `KeyedBuilder`.
        let of_a_word = |policy| {
            of_one_word(policy).map_err(|_| BuildError::Policy(format!("{policy} {NO_SHARE}")))
        };
        all.map(of_a_word).collect()
    }

    /// The layout of each quota in words of this division; `None` if a quota does not fit.
    pub(in crate::keyed) fn in_words_of(&self, shared: Shared) -> Option<Vec<(Policy, Layout)>> {
        // If one quota does not fit, the result is `None`, since a book has a quota for each tier.
        let quota = |policy: &Policy| Some((*policy, shared.layout(policy)?));
        // The headroom is not in the book: it only has to fit.
        self.policies().map(quota).collect()
    }

    /// A book of these quotas, in words that have room for all of them and the headroom.
    pub(in crate::keyed) fn book(&self) -> Result<Book, BuildError> {
        let (tiers, all) = (self.count(), self.checked()?);
        if let Some(own) = self.own {
            return self.book_of_own(own, &all);
        }
        // The plan includes the headroom, so that later quotas have room in the words.
        let shared = Shared::plan(&all, index_bits_for(tiers))?;
        // Never `None`: the plan succeeds only if every tier has a layout.
        let quotas = self.in_words_of(shared).ok_or_else(|| BuildError::tag_too_narrow(63, 0))?;
        Ok(Book::new(shared, &quotas))
    }

    /// A book for quotas that callers bring along. The words are planned so that each of `all` fits.
    fn book_of_own(&self, own: usize, all: &[Policy]) -> Result<Book, BuildError> {
        if own == 0 || own > OWN_MAX {
            return Err(BuildError::own_quota_count(own, OWN_MAX));
        }
        // Debts can be carried over in units only between quotas of plain GCRA.
        if self.first != Policy::from(self.first.quota()) {
            return Err(BuildError::own_quota_kind(self.first));
        }
        let places = places_for(own);
        let shared = Shared::plan(all, places.ilog2())?;
        // Never `None`: the plan succeeded, so each policy of `all` has a layout, and `self.first` is one of them.
        let layout =
            shared.layout_of_own(&self.first).ok_or_else(|| BuildError::tag_too_narrow(63, 0))?;
        Ok(Book::of_own(shared, (&self.first, &layout), places))
    }
}
