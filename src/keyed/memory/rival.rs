//! [`Rival`]: a word that stands in the way of a claim.

use crate::hash::Tag;
use crate::keyed::memory::shard::TableWord;
use std::cmp::Ordering;

use crate::keyed::memory::layout::Division;

/// A word of the same key in another cell, seen by a thread that holds a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::keyed) enum Rival {
    /// The cell holds a live word of the key.
    Live,
    /// Another install has claimed a cell that precedes this thread's own cell in the order of all cells.
    LowerClaim,
    /// Another install has claimed a cell that follows this thread's own cell in that order.
    HigherClaim,
}

impl Rival {
    /// Classifies the word at position `at`, as the holder of the claim of `tag` at position `mine` sees it. Returns
    /// `None` if the word belongs to another key, or is that claim itself.
    pub(in crate::keyed) fn of<P: Ord + Copy>(
        division: &Division,
        tag: Tag,
        (word, at): (TableWord, P),
        mine: P,
    ) -> Option<Self> {
        // The key already has a live word.
        if division.is_live(word, tag) {
            return Some(Self::Live);
        }
        // All threads order cells in the same way, so the owners of two claims agree on which claim is the lower.
        match at.cmp(&mine) {
            _ if !division.is_claim_of(word, tag) => None,
            Ordering::Less => Some(Self::LowerClaim),
            Ordering::Greater => Some(Self::HigherClaim),
            // This is the claim itself, or another install of the same key has replaced it by its own claim. In that
            // case the opening will fail.
            Ordering::Equal => None,
        }
    }
}
