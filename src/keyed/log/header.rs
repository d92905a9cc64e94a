//! [`LogHeader`]: the word that names the key to which an entry belongs.

use crate::hash::Tag;
use crate::keyed::memory::layout::Division;

/// `[0: 1 | tag: 39 | generation: 22 | kind: 2]`
///
/// Every change adds one to the generation, so the same header comes back only after 2^22 changes. So if a thread finds
/// the same header twice, the entry has belonged to the same key all the time (`log/mod.rs` names the assumption).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::keyed) struct LogHeader(u64);

/// The state of an entry, which is part of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderKind {
    /// The entry belongs to no key.
    Vacant = 0,
    /// A thread is giving the entry to the key of this tag.
    Claim = 1,
    /// The entry is the log of the key with this tag.
    Live = 2,
    /// The entry is still the log of the key with this tag, but a thread is finding out whether it can be forgotten.
    Closing = 3,
}

impl Division {
    /// The division of a cell in a table of logs. The bits of the state hold the generation and the kind, and no time.
    pub(in crate::keyed) fn of_logs() -> Self {
        // The tag has all other bits except the topmost one.
        let tag_bits = u64::BITS - 1 - LogHeader::STATE_BITS;
        Self {
            state_bits: LogHeader::STATE_BITS,
            tag_bits: u8::try_from(tag_bits).unwrap_or(u8::MAX),
            words_per_tag: LogHeader::WORDS_PER_TAG,
            epoch: 0,
        }
    }
}

impl LogHeader {
    const KIND_BITS: u32 = 2;
    // The tag leaves 22 bits for the generation. Each change is a CAS on the same cache line, so 2^22 changes take at
    // least tens of milliseconds.
    const GENERATION_BITS: u32 = 22;

    /// The bits that are not the tag.
    const STATE_BITS: u32 = Self::KIND_BITS + Self::GENERATION_BITS;

    /// The number of headers with the same tag.
    const WORDS_PER_TAG: u64 = 1 << Self::STATE_BITS;

    pub(super) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    pub(super) fn kind(self) -> HeaderKind {
        // All four values of the two bits are kinds, so every header is valid.
        match self.0 & 3 {
            0 => HeaderKind::Vacant,
            1 => HeaderKind::Claim,
            2 => HeaderKind::Live,
            _ => HeaderKind::Closing,
        }
    }

    /// The first header of a tag's log, in a table that no other thread has seen yet. For tag 0 it is a vacant header.
    pub(super) fn live_of(tag: Tag) -> Self {
        Self(if tag == Tag::NONE { 0 } else { tag.to_bits() | HeaderKind::Live as u64 })
    }

    /// True if these bits are a tag, or 0.
    pub(super) fn is_tag(bits: u64) -> bool {
        bits & (1 << 63 | (Self::WORDS_PER_TAG - 1)) == 0
    }

    pub(super) fn tag(self) -> Tag {
        // The tag is everything above the generation. The topmost bit is 0.
        Tag::from_bits(self.0 & Self::WORDS_PER_TAG.wrapping_neg())
    }

    /// True if the entry is the log of this tag.
    pub(super) fn is_log_of(self, tag: Tag) -> bool {
        // A closing entry is still the log of its tag: until it is vacated, no other log may be opened for its key.
        self.tag() == tag && matches!(self.kind(), HeaderKind::Live | HeaderKind::Closing)
    }

    /// True if a thread is giving the entry to this tag.
    pub(super) fn is_claim_of(self, tag: Tag) -> bool {
        self.tag() == tag && self.kind() == HeaderKind::Claim
    }

    /// The next header, with this kind and the same tag.
    pub(super) fn turned(self, kind: HeaderKind) -> Self {
        self.followed_by(self.tag(), kind)
    }

    /// The next header, which is vacant.
    pub(super) fn vacated(self) -> Self {
        // The tag is removed, but the generation still rises, so an earlier header of the entry does not come back
        // soon.
        self.followed_by(Tag::NONE, HeaderKind::Vacant)
    }

    /// The next header, which is a claim for this tag.
    pub(super) fn claimed_for(self, tag: Tag) -> Self {
        self.followed_by(tag, HeaderKind::Claim)
    }

    fn followed_by(self, tag: Tag, kind: HeaderKind) -> Self {
        // After the shift, the tag still stands above the generation. The mask below removes the tag.
        let generation = (self.0 >> Self::KIND_BITS).wrapping_add(1);
        // The generation wraps after 2^22 changes. The head of `log/mod.rs` assumes that no thread sleeps for that many
        // changes.
        let generation = generation & ((1 << Self::GENERATION_BITS) - 1);
        // No bits overlap: a tag has zeros where the generation and the kind stand.
        Self(tag.to_bits() | (generation << Self::KIND_BITS) | kind as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_only_after_its_generation_has_turned() {
        let tag = Tag::from_bits(5 * LogHeader::WORDS_PER_TAG);
        let first = LogHeader::from_bits(0).claimed_for(tag);
        let mut header = first;
        for _ in 1..1 << LogHeader::GENERATION_BITS {
            header = header.turned(HeaderKind::Claim);
            assert_ne!(header, first);
            assert!(header.is_claim_of(tag));
        }
        assert_eq!(header.turned(HeaderKind::Claim), first);
    }

    #[test]
    fn a_log_that_is_looked_at_is_still_its_keys() {
        let [tag, other] = [1, 2].map(|tag| Tag::from_bits(tag * LogHeader::WORDS_PER_TAG));
        let live = LogHeader::from_bits(0).claimed_for(tag).turned(HeaderKind::Live);
        for header in [live, live.turned(HeaderKind::Closing)] {
            assert!(header.is_log_of(tag) && !header.is_log_of(other) && !header.is_claim_of(tag));
        }
        assert!(!live.vacated().is_log_of(tag));
        assert_eq!(live.vacated().kind(), HeaderKind::Vacant);
    }
}
