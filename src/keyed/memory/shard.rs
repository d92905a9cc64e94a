//! [`Shard`]: one cache line of seven cells and the header that dates them, and how a word in it is found and read.
//!
//! # Orderings
//! A word means something only together with a floor that is not older than the one it was written
//! under. Hence:
//!
//! * words are written with `Release` and loaded with `Acquire`, and the header is loaded `Acquire`
//!   *after* the word: a thread that reads a word has, by that edge, a floor at least as new as its writer's;
//! * the header is also loaded before the words; equal floors on both sides mean that no word was read
//!   under a floor that was replaced meanwhile (which would only cause false denials);
//! * a floor is published with `Release`, after the sweep under its predecessor;
//! * a floor that a new word is to be dated by is read by a write (`enter`), so that the word and the next
//!   floor cannot miss each other.

mod claim;

use crate::hash::Tag;
use crate::sync::{AtomicU64, Fault, Ordering, planted, scale};

/// With fewer tag bits, strangers would share a limit too often.
// By `Stats::collision_probability` one new key in 860,000 shares its word with another at 24 bits,
// one in 220 million at 32.
pub(in crate::keyed) const TAG_BITS_MIN: u32 = 24;

/// Whether a hint compares all words of a shard at once.
pub(in crate::keyed) const HINTS_ARE_QUICK: bool =
    cfg!(all(target_arch = "x86_64", not(any(loom, shuttle, miri))));

/// The floor counts time in granules of 2^20 ns, about a millisecond.
// Coarse enough for a header to hold all instants in 44 bits, with room for the install counter;
// fine enough for a floor to come within some two milliseconds of the clock.
pub(in crate::keyed) const GRANULE_BITS: u32 = 20;

/// Cells in a shard: with the header they fill a line of 64 bytes.
#[cfg(not(loom))]
// 8 words of 8 bytes, one of them the header.
pub(in crate::keyed) const CELLS: usize = 7;
/// loom explores every order, so its shards are small.
#[cfg(loom)]
pub(in crate::keyed) const CELLS: usize = 3;

/// The cells of a shard, by number.
#[inline(always)]
pub(in crate::keyed) fn cells() -> std::ops::Range<usize> {
    0..scale::cells(CELLS)
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Shard>() == 64);

/// The word of a cell: vacant, a claim, or a key's. Also the word of one limit whose quota may change, which is divided
/// alike but has no tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(in crate::keyed) struct TableWord(u64);

impl TableWord {
    pub(in crate::keyed) const VACANT: Self = Self(0);

    #[inline(always)]
    pub(in crate::keyed) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline(always)]
    pub(in crate::keyed) const fn to_bits(self) -> u64 {
        self.0
    }
}

/// The bits of a word that stay as they are whatever its key spends, where they stand in the word: the key's tag; in a
/// table of several quotas, the index of the one that the word is counted in, and the word's surplus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::keyed) struct OwnBits(u64);

impl OwnBits {
    #[inline(always)]
    pub(in crate::keyed) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline(always)]
    pub(in crate::keyed) const fn to_bits(self) -> u64 {
        self.0
    }

    /// These and others, which stand elsewhere in the word.
    #[inline(always)]
    pub(in crate::keyed) const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    #[inline(always)]
    pub(in crate::keyed) const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }
}

/// In a table of one quota a word's own bits are its key's tag.
impl From<Tag> for OwnBits {
    #[inline(always)]
    fn from(tag: Tag) -> Self {
        Self(tag.to_bits())
    }
}

/// Aligned, and its words in this order: the vector instructions of a hint read all of it at once.
#[derive(Debug)]
#[cfg_attr(not(any(loom, shuttle)), repr(C, align(64)))]
#[cfg_attr(
    all(feature = "huge-pages", target_os = "linux", not(any(loom, shuttle))),
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout)
)]
pub(in crate::keyed) struct Shard {
    /// The header, then the cells.
    words: [AtomicU64; CELLS + 1],
}

impl Shard {
    pub(in crate::keyed) fn new(floor: u64) -> Self {
        // 0 is the vacant word: a new shard holds no key.
        Self::holding(Header::first(floor), [TableWord::VACANT; CELLS])
    }

    /// Counts the words, live ones and claims, of a tag. `states` is twice the number of words that have one tag. There is no
    /// branch in it, since a branch on a cell cannot be foreseen. It is out of line, where each cell takes five instructions:
    /// in line the compiler makes vectors of the sums of several shards, and each cell takes nine.
    #[inline(never)]
    pub(in crate::keyed) fn count(&self, tag: Tag, states: u64) -> u32 {
        cells()
            .map(|cell| u32::from((self.load(cell).to_bits() ^ tag.to_bits()) << 1 < states))
            .sum()
    }

    /// A shard that holds these words.
    pub(in crate::keyed) fn holding(header: Header, words: [TableWord; CELLS]) -> Self {
        let word = |n: usize| if n == 0 { header.0 } else { words[n - 1].to_bits() };
        Self { words: std::array::from_fn(|n| AtomicU64::new(word(n))) }
    }

    /// What it holds now. For a shard that no other thread has a reference to.
    pub(in crate::keyed) fn copy(&self) -> Self {
        // One load after the other, but of one moment: no other thread writes meanwhile.
        Self::holding(self.header(), std::array::from_fn(|cell| self.load(cell)))
    }

    /// Of a table of logs: a floor in nanoseconds, and in each cell whose log its entry is. What they mean, and how they
    /// are ordered, is said in `src/keyed/log`.
    pub(in crate::keyed) fn floor_and_headers(&self) -> (&AtomicU64, &[AtomicU64; CELLS]) {
        let [header, cells @ ..] = &self.words;
        (header, cells)
    }

    #[inline]
    pub(in crate::keyed) fn header(&self) -> Header {
        // Acquire: pairs with the Release of `publish`, and keeps the words' loads after this one.
        Header(self.words[0].load(Ordering::Acquire))
    }

    /// The word of a cell.
    #[inline(always)]
    fn cell(&self, cell: usize) -> &AtomicU64 {
        // A cell's number is below the number of cells, which is one less than a power of two: so the remainder changes
        // nothing, and spares a comparison where the number comes from a hint.
        &self.words[(cell + 1) % (CELLS + 1)]
    }

    #[inline]
    pub(in crate::keyed) fn load(&self, cell: usize) -> TableWord {
        // Acquire: pairs with the Release of every write to a word; the header's load comes after it.
        TableWord(self.cell(cell).load(acquire_of_words()))
    }

    /// Replaces the exact word that was read. Also the weak form's spurious failure is a `false`.
    #[inline]
    pub(in crate::keyed) fn charge(&self, cell: usize, word: TableWord, next: TableWord) -> bool {
        // Release: a thread that reads `next` also sees the floor that it was written under. Relaxed on failure:
        // nothing is made of the word that was found; the caller looks again.
        self.cell(cell)
            .compare_exchange_weak(word.0, next.0, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }

    /// The newest word of a cell, as no thread of a model sees it: for assertions.
    #[cfg(any(loom, shuttle))]
    pub(in crate::keyed) fn newest(&self, cell: usize) -> TableWord {
        TableWord(self.cell(cell).newest())
    }
}

/// Why a shard has no word of a key that can be decided on.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) enum Missed {
    /// The shard seems not to hold the key. A hint: an install looks at every word.
    Absent,
    /// It may, but the request cannot be decided here.
    Afar,
}

impl Shard {
    /// The word that a hint of `tag` names, and its cell, if `is_found` says yes to the word and the header that dates it.
    /// Lock-free: each turn means that another thread has installed or advanced something.
    #[inline(always)]
    pub(in crate::keyed) fn read(
        &self,
        tag: Tag,
        state_bits: u32,
        is_found: impl Fn(TableWord, Header) -> bool,
    ) -> Result<(usize, TableWord), Missed> {
        loop {
            // The hint reads the line without order, two words at a time. What follows believes it in
            // nothing but where to look.
            let cell = self.hint(tag, state_bits).ok_or(Missed::Absent)?;
            // The first reading of the header: what is loaded next is loaded after it, since it
            // acquires.
            let before = self.header();
            // Acquire, by `load`: the reading of the header that follows is no older than the floor
            // that this word was written under.
            let word = self.load(cell);
            let header = self.header_behind_word(before);
            // Equal with the install counter: neither a floor nor an install came in between.
            // Not equal: a floor was published or an install begun between the two readings. That
            // is progress of the other thread, so the loop is lock-free; and the hint may be wrong
            // by now, so it is asked again.
            if header == before {
                return if is_found(word, header) { Ok((cell, word)) } else { Err(Missed::Afar) };
            }
        }
    }

    /// The header, loaded after a word that is to be dated by it. `before` was loaded before the word.
    #[inline(always)]
    pub(in crate::keyed) fn header_behind_word(&self, before: Header) -> Header {
        // The word may have been written under a floor that was published after `before` was loaded.
        if planted(Fault::HeaderOnlyBeforeWords) { before } else { self.header() }
    }
}

/// Whether a word is live and of this tag, which is given as it stands in a word.
#[inline(always)]
pub(in crate::keyed) fn is_live(word: TableWord, tag: Tag, words_per_tag: u64) -> bool {
    // The live words of a tag follow each other, the tag itself the first, so one comparison tells: a word below the tag
    // wraps to a huge number, and a claim, whose topmost bit is set, lies far above all live words.
    word.0.wrapping_sub(tag.to_bits()) < words_per_tag
}

/// Hints: where in a shard a key's word may stand, and which cells may be vacant.
///
/// They are never believed. The word at the cell that a hint names is loaded as every word is, between two readings of
/// the header; where it names none, or a wrong one, the slow way looks at every word by itself. A cell that seems vacant
/// is claimed by a CAS, which fails if it is not. So hints need no ordering, and what they have read may be torn or old:
/// it costs a decision the slow way, never a wrong answer.
#[cfg_attr(target_arch = "x86_64", allow(unsafe_code))]
impl Shard {
    /// A cell that may hold a live word of `tag`, under which there are so many bits of state.
    #[inline(always)]
    pub(in crate::keyed) fn hint(&self, tag: Tag, state_bits: u32) -> Option<usize> {
        // A claim of the tag is not equal: its topmost bit is set, and a live word's is not. Two live
        // words of one tag there never are.
        self.alike(tag, state_bits).first()
    }

    /// The cells whose words may be live ones of a tag: those with the same topmost bits, as many as the narrowest tag has. A
    /// word of another tag has the same once in 2^24. Then it hides the key's own word, and the key is decided the slow way.
    #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
    #[inline(always)]
    fn alike(&self, tag: Tag, _: u32) -> CellMask {
        const LOWEST: u32 = u64::BITS - 1 - TAG_BITS_MIN;
        let alike: u32;
        // SAFETY: as in `equal`.
        unsafe {
            core::arch::asm!(
                // The tag's bits in all four parts of a vector.
                "movd {tags}, {tag:e}",
                "pshufd {tags}, {tags}, 0",
                // The upper halves of four words, and of the four others.
                "movaps {low}, [{line}]",
                "shufps {low}, [{line} + 16], 0xdd",
                "movaps {high}, [{line} + 32]",
                "shufps {high}, [{line} + 48], 0xdd",
                "psrld {low}, {lowest}",
                "psrld {high}, {lowest}",
                "pcmpeqd {low}, {tags}",
                "pcmpeqd {high}, {tags}",
                // 32 bits that are all set or none become 16; of these two each become one bit.
                "packssdw {low}, {high}",
                "pmovmskb {alike:e}, {low}",
                line = in(reg) std::ptr::from_ref(self),
                tag = in(reg) tag.to_bits() >> LOWEST,
                lowest = const LOWEST - 32,
                tags = out(xmm_reg) _,
                low = out(xmm_reg) _,
                high = out(xmm_reg) _,
                alike = lateout(reg) alike,
                options(readonly, nostack, preserves_flags),
            );
        }
        // The header is no cell, but may have these bits by chance.
        CellMask(alike & !3)
    }

    /// The same, by all bits of the tag.
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle, miri)))))]
    #[inline(always)]
    fn alike(&self, tag: Tag, state_bits: u32) -> CellMask {
        self.portable(tag.to_bits(), state_bits)
    }

    /// The cells that may be vacant.
    #[inline(always)]
    pub(in crate::keyed) fn vacant(&self) -> CellMask {
        // No bit may differ: vacant is 0.
        self.equal(0, 0)
    }

    /// The cells whose words differ from a value in no bit but the lowest: all words of the line at once.
    #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
    #[inline(always)]
    fn equal(&self, value: u64, lowest: u32) -> CellMask {
        let equal: u32;
        // SAFETY: reads the 64 bytes of the shard, which are aligned to 64, by loads that every x86-64 has, and writes
        // nothing. Other threads may write them meanwhile, as atomics: to the machine these are loads like an atomic's, and
        // the compiler knows nothing of what they give but that they are bits.
        unsafe {
            core::arch::asm!(
                // The value in both halves of a vector: two words are compared by one instruction.
                "movq {values}, {value}",
                "punpcklqdq {values}, {values}",
                // By how much a word is shifted, so that its lowest bits do not count.
                "movd {shift}, {bits:e}",
                // Per word, 0 if it is equal; then in two halves of 16 bits.
                "movdqa {low}, {values}",
                "pxor {low}, [{line}]",
                "psrlq {low}, {shift}",
                "movdqa {high}, {values}",
                "pxor {high}, [{line} + 16]",
                "psrlq {high}, {shift}",
                "packssdw {low}, {high}",
                "movdqa {high}, {values}",
                "pxor {high}, [{line} + 32]",
                "psrlq {high}, {shift}",
                "pxor {values}, [{line} + 48]",
                "psrlq {values}, {shift}",
                "packssdw {high}, {values}",
                // In two bytes each, neither of which loses a bit that is set: both saturate.
                "packsswb {low}, {high}",
                "pxor {high}, {high}",
                "pcmpeqw {low}, {high}",
                "pmovmskb {equal:e}, {low}",
                line = in(reg) std::ptr::from_ref(self),
                value = in(reg) value,
                bits = in(reg) lowest,
                values = out(xmm_reg) _,
                shift = out(xmm_reg) _,
                low = out(xmm_reg) _,
                high = out(xmm_reg) _,
                equal = lateout(reg) equal,
                options(readonly, nostack, preserves_flags),
            );
        }
        // The header may be equal to the value by chance: it is no cell.
        CellMask(equal & !3)
    }

    /// The same, word by word.
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle, miri)))))]
    #[inline(always)]
    fn equal(&self, value: u64, lowest: u32) -> CellMask {
        self.portable(value, lowest)
    }

    #[cfg(any(test, not(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))))]
    #[inline(always)]
    fn portable(&self, value: u64, lowest: u32) -> CellMask {
        // Loads that acquire, though a hint needs no order: a model then explores the same loads as a
        // decision.
        let is_it = |cell: &usize| (self.load(*cell).0 ^ value) >> lowest == 0;
        cells().filter(is_it).fold(CellMask::default(), CellMask::with)
    }
}

/// Some cells of a shard: two bits for each, after two for the header.
#[derive(Clone, Copy, Default)]
pub(in crate::keyed) struct CellMask(u32);

impl CellMask {
    #[inline(always)]
    pub(in crate::keyed) fn first(self) -> Option<usize> {
        // The two lowest bits are the header's, and are always 0: so a bit that is set is that of a
        // cell, the first at bit 2.
        (self.0 != 0).then(|| (self.0.trailing_zeros() / 2) as usize - 1)
    }

    #[inline(always)]
    pub(in crate::keyed) fn count(self) -> usize {
        // Two bits for each.
        self.0.count_ones() as usize / 2
    }

    #[cfg(any(test, not(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))))]
    fn with(self, cell: usize) -> Self {
        // As the vector instructions leave it: two bits, past the header's.
        Self(self.0 | 3 << (2 * cell + 2))
    }
}

/// `[install counter: 12 | 0: 8 | floor: 44]`
///
/// | field | changed by |
/// |---|---|
/// | install counter | each claim adds one, and each opening; the overflow falls off |
/// | 0 | no thread: reserved. Marks of the spill lie beside the shards |
/// | floor | a thread that has swept the shard under the old one; it never falls |
///
/// The floor counts granules of 2^20 ns since the clock's origin. 44 bits of it are all of a `u64` of
/// nanoseconds, so it never wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::keyed) struct Header(u64);

impl Header {
    const FLOOR_BITS: u32 = u64::BITS - GRANULE_BITS;
    const FLOOR_MASK: u64 = (1 << Self::FLOOR_BITS) - 1;
    // What the floor leaves, but for 8 bits in reserve. While a floor stands, a claim's nonce repeats
    // after 4096 claims and openings in its shard; the floor's low bits tell later ones apart.
    const COUNTER_BITS: u32 = 12;
    // In the topmost bits, so that an addition that overflows falls off and never touches the
    // floor.
    const ONE_INSTALL: u64 = 1 << (u64::BITS - Self::COUNTER_BITS);

    pub(in crate::keyed) const fn first(floor: u64) -> Self {
        // A floor has no other bits, as long as it follows from a `u64` of nanoseconds.
        Self(floor & Self::FLOOR_MASK)
    }

    pub(in crate::keyed) fn to_bits(self) -> u64 {
        self.0
    }

    pub(in crate::keyed) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Whether no bit is set in it that no thread sets.
    pub(in crate::keyed) fn is_known(self) -> bool {
        // The 8 bits between the floor and the counter.
        self.0 & !Self::FLOOR_MASK & (Self::ONE_INSTALL - 1) == 0
    }

    /// The floor, in granules.
    #[inline]
    pub(in crate::keyed) fn floor(self) -> u64 {
        self.0 & Self::FLOOR_MASK
    }

    /// The floor, in nanoseconds.
    #[inline]
    pub(in crate::keyed) fn floor_ns(self) -> u64 {
        self.floor() << GRANULE_BITS
    }

    /// Whether an instant lies in [F - E, F + E] of the floor, where words can be read as they are: E is the epoch, in
    /// granules.
    #[inline(always)]
    pub(in crate::keyed) fn is_near(self, instant_ns: u64, epoch: u64) -> bool {
        Near::to(instant_ns, epoch).includes(self)
    }

    fn with_floor(self, floor: u64) -> Self {
        // The install counter stays as it is, so nonces go on under the new floor.
        Self((self.0 & !Self::FLOOR_MASK) | (floor & Self::FLOOR_MASK))
    }

    /// The install counter, filled up with the low bits of the floor.
    fn nonce(self) -> u64 {
        // The counter in the lowest bits: where a claim has little room it is what remains.
        (self.0 >> (u64::BITS - Self::COUNTER_BITS)) | (self.floor() << Self::COUNTER_BITS)
    }
}

/// The floors that are near to an instant. They are worked out before the header is there, so that little is left to do
/// once it is.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Near {
    /// The lowest, in granules; it wraps below 0.
    from: u64,
    /// How many granules the highest lies above the lowest.
    span: u64,
}

impl Near {
    #[inline(always)]
    pub(in crate::keyed) fn to(instant_ns: u64, epoch: u64) -> Self {
        Self { from: (instant_ns >> GRANULE_BITS).wrapping_sub(epoch), span: 2 * epoch }
    }

    /// Whether the instant lies in [F - E, F + E] of a floor: see [`Header::is_near`].
    #[inline(always)]
    pub(in crate::keyed) fn includes(self, header: Header) -> bool {
        // Neither floor nor instant has more than 44 bits. Wraps to a huge number if the floor lies below: one
        // comparison.
        header.floor().wrapping_sub(self.from) <= self.span
    }
}

// The points of this type that the proofs lean on: each does what its name says unless a model plants its fault, as those
// in `points` do.

/// The order of a word's load.
#[inline(always)]
fn acquire_of_words() -> Ordering {
    // Acquire: see `load`. Relaxed, the header that is loaded next could be older than the word.
    if planted(Fault::RelaxedWords) { Ordering::Relaxed } else { Ordering::Acquire }
}

/// Whether words can be read as they are at an instant, by the header that dates them.
#[inline(always)]
pub(in crate::keyed) fn dates(header: Header, near: Near) -> bool {
    // Against now alone, a late thread would take a live word for one that expired long ago.
    near.includes(header) || planted(Fault::DecodeAgainstNow)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
