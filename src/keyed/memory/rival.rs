//! [`Rival`]: a word that stands in the way of a claim.

use crate::hash::Tag;
use crate::keyed::memory::shard::TableWord;
use std::cmp::Ordering;

use crate::keyed::memory::layout::Division;

/// A word of the same key in another cell, seen by a thread that holds a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::keyed) enum Rival {
    /// The key has been opened there.
    Live,
    /// Another install has claimed a cell before one's own, in the order of all cells.
    LowerClaim,
    /// Another install has claimed a cell behind one's own.
    HigherClaim,
}

impl Rival {
    /// What a word at one position is to the claim of `tag` at another; `None` if it is another key's, or that claim.
    pub(in crate::keyed) fn of<P: Ord + Copy>(
        division: &Division,
        tag: Tag,
        (word, at): (TableWord, P),
        mine: P,
    ) -> Option<Self> {
        // The key's live word.
        if division.is_live(word, tag) {
            return Some(Self::Live);
        }
        // All threads order cells alike, so that of two claims each of their owners names the same one the lower.
        match at.cmp(&mine) {
            _ if !division.is_claim_of(word, tag) => None,
            Ordering::Less => Some(Self::LowerClaim),
            Ordering::Greater => Some(Self::HigherClaim),
            // Its own: or one of the same key that another install has put in its place, which fails the opening.
            Ordering::Equal => None,
        }
    }
}
