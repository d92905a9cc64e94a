//! [`Word`]: the 64 bits that are the whole state of one limit.

use std::fmt;

use crate::algorithm::{Held, Moment};

/// The packed state of one limit: everything that a decision reads and writes.
///
/// The meaning of the bits depends on the policy; a word is read only by the [`Meter`](crate::Meter) that wrote it. The
/// word of a limit that was never used is [`Word::UNUSED`], also at time 0.
///
/// ```
/// use tollgate::{Meter, Quota, Timestamp, Word};
/// let meter = Meter::new(Quota::per_second(1))?;
/// let (decision, word) = meter.check(Word::UNUSED, Timestamp::default(), 1);
/// assert!(decision.is_allowed());
/// assert_ne!(word, Word::UNUSED);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Word(u64);

impl Word {
    /// The word of a limit that was never used.
    pub const UNUSED: Self = Self(0);

    /// The bits of the word, to store it elsewhere.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// A word from bits that [`to_bits`](Word::to_bits) returned. Any other bits are also a valid state: nothing
    /// panics, and the limit is enforced from that state on. There is one exception: a segmented window may begin with
    /// an empty window once.
    ///
    /// ```
    /// use tollgate::Word;
    /// assert_eq!(Word::from_bits(Word::UNUSED.to_bits()), Word::UNUSED);
    /// ```
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Word({:#018x})", self.0)
    }
}

/// The layout of a word without a key: `[time | counts]`. The time is absolute and never wraps.
///
/// | algorithm | time | counts |
/// |---|---|---|
/// | gcra | TAT in ticks | none |
/// | fixed-window | window index | count |
/// | calendar-week, -month, -year | windows since the one that holds the beginning of 1970 | count |
/// | fixed-window from-first | start in quanta | count |
/// | sliding-window | window index | previous, current |
/// | segmented-window | segment index | n counts, the current count lowest; or their sum and a number for the older counts; or a number for all counts |
///
/// With a penalty, the lowest bits hold the number of denials in a row, and the other bits may have another meaning:
/// see `algorithm/at_limit.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    /// Below 64.
    pub(crate) count_bits: u8,
}

/// A layout by which words are unpacked and packed.
pub(crate) trait Reads: Copy {
    fn unpack(self, word: Word, moment: Moment) -> Held;

    /// The word with the state `held` that replaces the word `over`.
    fn pack(self, over: Word, held: Held, moment: Moment) -> Word;

    /// True if the word has this layout and may be read with it.
    #[inline(always)]
    fn reads(self, _: Word) -> bool {
        true
    }
}

impl Fields {
    /// The layout of GCRA, which has no counts.
    pub(crate) const TIME_ALONE: Self = Self { count_bits: 0 };

    #[inline]
    pub(crate) fn unpack(self, word: Word, moment: Moment) -> Held {
        let time = word.0 >> self.count_bits;
        Held {
            ahead: time.saturating_sub(moment.unit),
            behind: moment.unit.saturating_sub(time),
            counts: word.0 & ((1 << self.count_bits) - 1),
        }
    }

    #[inline]
    pub(crate) fn pack(self, held: Held, moment: Moment) -> Word {
        // This neither wraps nor loses bits, since the policy was tested to fit until the latest time.
        let time = moment.unit.wrapping_add(held.ahead).wrapping_sub(held.behind);
        Word((time << self.count_bits) | held.counts)
    }
}

impl Reads for Fields {
    #[inline(always)]
    fn unpack(self, word: Word, moment: Moment) -> Held {
        Self::unpack(self, word, moment)
    }

    #[inline(always)]
    fn pack(self, _: Word, held: Held, moment: Moment) -> Word {
        Self::pack(self, held, moment)
    }
}

/// The layout of a word whose top bits are the index of its quota and its surplus: `[index | surplus | time | counts]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marked {
    fields: Fields,
    /// The index, shifted to its position in a word.
    mark: u64,
    /// The mask of the bits of the index.
    mask: u64,
    /// The mask of the bits of the surplus, which are below those of the index.
    surplus_mask: u64,
    surplus_shift: u32,
}

impl Marked {
    /// A layout with `index_bits` bits for the index, which must fit in them, and `surplus_bits` bits for the surplus.
    /// Both are 0 if there is only one quota.
    pub(crate) fn new(fields: Fields, index: u64, index_bits: u32, surplus_bits: u32) -> Self {
        // A mask of the topmost bits. `checked_shr` is used, since a shift by all 64 bits is not defined.
        let top = |bits: u32| !u64::MAX.checked_shr(bits).unwrap_or(0);
        let mark = index.checked_shl(u64::BITS - index_bits).unwrap_or(0);
        let surplus_mask = top(index_bits + surplus_bits) & !top(index_bits);
        let surplus_shift = (u64::BITS - index_bits - surplus_bits).min(u64::BITS - 1);
        Self { fields, mark, mask: top(index_bits), surplus_mask, surplus_shift }
    }

    /// The code of a word's surplus.
    pub(crate) fn surplus(&self, word: Word) -> u64 {
        (word.0 & self.surplus_mask) >> self.surplus_shift
    }

    /// The word with this code as its surplus.
    pub(crate) fn with_surplus(&self, word: Word, code: u64) -> Word {
        Word(word.0 & !self.surplus_mask | code << self.surplus_shift)
    }
}

impl Reads for Marked {
    fn unpack(self, word: Word, moment: Moment) -> Held {
        self.fields.unpack(Word(word.0 & !(self.mask | self.surplus_mask)), moment)
    }

    fn pack(self, over: Word, held: Held, moment: Moment) -> Word {
        // The surplus is kept, since no decision changes it.
        Word(self.fields.pack(held, moment).0 | self.mark | over.0 & self.surplus_mask)
    }

    fn reads(self, word: Word) -> bool {
        word.0 & self.mask == self.mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_word_is_read_only_by_its_own_quota() {
        let (fields, moment) = (Fields { count_bits: 14 }, Moment { unit: 1_000_000, into_ns: 3 });
        let held = Held { ahead: 7, behind: 0, counts: 9 };
        let [two, three] = [2, 3].map(|index| Marked::new(fields, index, 2, 5));
        let word = two.pack(Word::UNUSED, held, moment);
        assert_eq!(word.to_bits() >> 62, 2);
        assert_eq!(two.unpack(word, moment), held);
        assert!(two.reads(word) && !three.reads(word));
        // Packing a state over a word keeps the surplus of the word.
        let kept = two.pack(two.with_surplus(word, 21), Held { ahead: 8, ..held }, moment);
        assert_eq!((two.surplus(word), two.surplus(kept)), (0, 21));
        assert_eq!(two.unpack(kept, moment), Held { ahead: 8, ..held });
        assert!(two.reads(kept));
        // If there is only one quota, words have no index, and all words belong to this quota.
        let alone = Marked::new(fields, 0, 0, 0);
        assert_eq!(alone.pack(kept, held, moment), fields.pack(held, moment));
        assert_eq!(alone.surplus(kept), 0);
        assert!(alone.reads(Word::from_bits(u64::MAX)));
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let fields = Fields { count_bits: 14 };
        let moment = Moment { unit: 1_000_000, into_ns: 3 };
        for (ahead, behind) in [(0, 0), (1, 0), (7, 0), (0, 1), (0, 999_999)] {
            for counts in [0, 1, (1 << 14) - 1] {
                let held = Held { ahead, behind, counts };
                assert_eq!(fields.unpack(fields.pack(held, moment), moment), held);
            }
        }
    }
}
