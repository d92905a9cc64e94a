//! [`Shard`]: one cache line with seven cells and a header that dates their words; and how a word in a shard is found
//! and read.
//!
//! # Orderings
//! The time in a word is read against a floor, which must be no older than the floor under which the word was written.
//! This leads to four rules:
//!
//! * words are written with `Release` and loaded with `Acquire`, and the header is loaded with `Acquire` *after* the
//!   word: so a thread that reads a word gets a floor at least as new as the writer's;
//! * the header is also loaded before the words. If both loads show the same floor, no floor was published in between.
//!   If one was, a word may be older than the second floor can date, and would be read wrongly as busy;
//! * a floor is published with `Release`, after the sweep under its predecessor;
//! * the floor that dates a new word is read by a read-modify-write (`enter`). So either the thread that opens the word
//!   sees the next floor, or the sweep before that floor sees the word.

mod claim;

use crate::hash::Tag;
use crate::sync::{AtomicU64, Fault, Ordering, planted, scale};

/// With fewer tag bits, different keys would share a limit too often.
// By `Stats::collision_probability`, one new key in 860,000 shares its word with another at 24 bits, and one in 220
// million at 32.
pub(in crate::keyed) const TAG_BITS_MIN: u32 = 24;

/// True if a hint compares all words of a shard at once, by vector instructions.
pub(in crate::keyed) const HINTS_ARE_QUICK: bool =
    cfg!(all(target_arch = "x86_64", not(any(loom, shuttle, miri))));

/// The floor counts time in granules of 2^20 ns, about a millisecond.
// The unit is coarse enough for a header to hold all instants in 44 bits, with room for the install counter. It is fine
// enough for a floor to come within about two milliseconds of the clock.
pub(in crate::keyed) const GRANULE_BITS: u32 = 20;

/// Cells in a shard: with the header they fill a line of 64 bytes.
#[cfg(not(loom))]
// A line has 8 words of 8 bytes, and one of them is the header.
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

/// The word in a cell: vacant, a claim, or a key's live word. The word of a single limit whose quota may change also
/// has this type, with the same fields except the tag.
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

/// The bits of a word that do not change when its key spends, in their positions in the word: the key's tag and, in a
/// table of several quotas, the index of the word's quota and the word's surplus.
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

    /// Joins these bits with others, which are elsewhere in the word.
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

/// The shard is aligned and its words have this order, because the vector instructions of a hint read all of it at
/// once.
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

    /// Counts the live words and claims of a tag. `states` is twice the number of different words that one tag can
    /// have. There is no branch, since a branch on a cell cannot be predicted. The function is not inlined: its loop
    /// takes five instructions per cell. Inlined, the compiler would sum several shards in vectors, which takes nine.
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

    /// A copy of the shard as it is now. The caller ensures that no other thread has a reference to the shard.
    pub(in crate::keyed) fn copy(&self) -> Self {
        // The loads happen one after the other but show one moment, since no other thread writes meanwhile.
        Self::holding(self.header(), std::array::from_fn(|cell| self.load(cell)))
    }

    /// In a table of logs: the floor, in nanoseconds, and for each cell the header of its log entry, which names the
    /// owner. `src/keyed/log` explains their meaning and their orderings.
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
        // A cell's number is below the number of cells, which is one less than a power of two. So the remainder changes
        // nothing, and saves a comparison where the number comes from a hint.
        &self.words[(cell + 1) % (CELLS + 1)]
    }

    #[inline]
    pub(in crate::keyed) fn load(&self, cell: usize) -> TableWord {
        // Acquire: pairs with the Release of every write to a word; the header's load comes after it.
        TableWord(self.cell(cell).load(acquire_of_words()))
    }

    /// Replaces the exact word that was read. A spurious failure of the weak form also returns `false`.
    #[inline]
    pub(in crate::keyed) fn charge(&self, cell: usize, word: TableWord, next: TableWord) -> bool {
        // Release: a thread that reads `next` also sees the floor under which it was written. Relaxed on failure: the
        // word that was found is not used; the caller looks again.
        self.cell(cell)
            .compare_exchange_weak(word.0, next.0, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }

    /// The newest word of a cell, which a thread of a model might not see yet: for assertions.
    #[cfg(any(loom, shuttle))]
    pub(in crate::keyed) fn newest(&self, cell: usize) -> TableWord {
        TableWord(self.cell(cell).newest())
    }
}

/// Why a request cannot be decided in a shard by a hint.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) enum Missed {
    /// No hint found the key in the shard. An install looks at every word before it believes this.
    Absent,
    /// The shard may hold the key, but the request must go the slow way: its time is not near to the floor, for
    /// example, or its cost never fits.
    Afar,
}

impl Shard {
    /// Returns the word that a hint of `tag` names, and its cell, if `is_found` accepts the word and the header that
    /// dates it. Lock-free: the loop takes another turn only if another thread has taken a step of an install or
    /// published a floor.
    #[inline(always)]
    pub(in crate::keyed) fn read(
        &self,
        tag: Tag,
        state_bits: u32,
        is_found: impl Fn(TableWord, Header) -> bool,
    ) -> Result<(usize, TableWord), Missed> {
        loop {
            // The hint reads the line without order, two words at a time. It decides only where to look, and nothing
            // after it relies on it.
            let cell = self.hint(tag, state_bits).ok_or(Missed::Absent)?;
            // The first reading of the header, with Acquire: the loads that follow stay after it.
            let before = self.header();
            // Acquire, in `load`: the header that is read next is no older than the floor under which this word was
            // written.
            let word = self.load(cell);
            let header = self.header_behind_word(before);
            // If the headers are equal, including the install counter, no floor was published and no install took a
            // step between the two readings. Otherwise another thread did one of these, which is progress: the loop is
            // lock-free. The hint may be wrong by now, so it is taken again.
            if header == before {
                return if is_found(word, header) { Ok((cell, word)) } else { Err(Missed::Afar) };
            }
        }
    }

    /// Loads the header that dates a word which has just been loaded. `before` was loaded before the word.
    #[inline(always)]
    pub(in crate::keyed) fn header_behind_word(&self, before: Header) -> Header {
        // The word may have been written under a floor that was published after `before` was loaded.
        if planted(Fault::HeaderOnlyBeforeWords) { before } else { self.header() }
    }
}

/// True if a word is live and has this tag; the tag's bits are in the position that they have in a word.
#[inline(always)]
pub(in crate::keyed) fn is_live(word: TableWord, tag: Tag, words_per_tag: u64) -> bool {
    // The live words of a tag are consecutive numbers, the first of which is the tag itself, so one comparison decides.
    // If the word is below the tag, the difference wraps to a huge number. A claim, whose topmost bit is set, lies far
    // above all live words.
    word.0.wrapping_sub(tag.to_bits()) < words_per_tag
}

/// Hints: the cell of a shard that may hold a key's word, and the cells that may be vacant.
///
/// A hint is never trusted. The word at the cell that a hint names is loaded like every word, between two readings of
/// the header. If the hint names no cell or a wrong one, the slow way looks at every word by itself. A cell that seems
/// vacant is claimed by a CAS, which fails if the cell is not vacant. So hints need no ordering, and the bits that they
/// read may be torn or old: that sends a decision the slow way, but never gives a wrong answer.
#[cfg_attr(target_arch = "x86_64", allow(unsafe_code))]
impl Shard {
    /// A cell that may hold a live word of `tag`; the state below the tag has `state_bits` bits.
    #[inline(always)]
    pub(in crate::keyed) fn hint(&self, tag: Tag, state_bits: u32) -> Option<usize> {
        // A claim of the tag does not match, because only a claim's topmost bit is set. A tag never has two live words
        // at once.
        self.alike(tag, state_bits).first()
    }

    /// The cells whose words may be live words of a tag. Only the tag's topmost bits are compared, as many as the
    /// narrowest tag has. Another tag has the same topmost bits once in 2^24. Its word may then hide the key's own
    /// word, and the key is decided the slow way.
    #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
    #[inline(always)]
    fn alike(&self, tag: Tag, _: u32) -> CellMask {
        const LOWEST: u32 = u64::BITS - 1 - TAG_BITS_MIN;
        let alike: u32;
        // SAFETY: as in `equal`.
        unsafe {
            core::arch::asm!(
                // Copy the tag's bits to all four parts of a vector.
                "movd {tags}, {tag:e}",
                "pshufd {tags}, {tags}, 0",
                // Take the upper halves of four words, and then of the other four.
                "movaps {low}, [{line}]",
                "shufps {low}, [{line} + 16], 0xdd",
                "movaps {high}, [{line} + 32]",
                "shufps {high}, [{line} + 48], 0xdd",
                "psrld {low}, {lowest}",
                "psrld {high}, {lowest}",
                "pcmpeqd {low}, {tags}",
                "pcmpeqd {high}, {tags}",
                // Narrow 32 bits, which are all set or all clear, to 16; then turn each byte into one bit.
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

    /// Compares all bits of the tag instead.
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle, miri)))))]
    #[inline(always)]
    fn alike(&self, tag: Tag, state_bits: u32) -> CellMask {
        self.portable(tag.to_bits(), state_bits)
    }

    /// The cells that may be vacant.
    #[inline(always)]
    pub(in crate::keyed) fn vacant(&self) -> CellMask {
        // No bit may differ, since a vacant word is 0.
        self.equal(0, 0)
    }

    /// The cells whose words differ from a value at most in the `lowest` lowest bits; all words of the line are
    /// compared at once.
    #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
    #[inline(always)]
    fn equal(&self, value: u64, lowest: u32) -> CellMask {
        let equal: u32;
        // SAFETY: this reads the 64 bytes of the shard, which are aligned to 64, by loads that every x86-64 has, and
        // writes nothing. Other threads may write those bytes meanwhile, by atomic operations. To the machine these
        // loads are like an atomic's, and the compiler assumes nothing about the loaded bits.
        unsafe {
            core::arch::asm!(
                // Copy the value to both halves of a vector, so that one instruction compares two words.
                "movq {values}, {value}",
                "punpcklqdq {values}, {values}",
                // The number of bits by which a word is shifted, so that its lowest bits are not compared.
                "movd {shift}, {bits:e}",
                // A word whose compared bits equal the value becomes 0. Then narrow each word to two halves of 16 bits.
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
                // Narrow each word to two bytes; both steps saturate, so a set bit is never lost.
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
        // The header is no cell, but may equal the value by chance.
        CellMask(equal & !3)
    }

    /// The same comparison, word by word.
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle, miri)))))]
    #[inline(always)]
    fn equal(&self, value: u64, lowest: u32) -> CellMask {
        self.portable(value, lowest)
    }

    #[cfg(any(test, not(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))))]
    #[inline(always)]
    fn portable(&self, value: u64, lowest: u32) -> CellMask {
        // A hint needs no order. The loads are Acquire only so that a model explores the same loads as a decision.
        let is_it = |cell: &usize| (self.load(*cell).0 ^ value) >> lowest == 0;
        cells().filter(is_it).fold(CellMask::default(), CellMask::with)
    }
}

/// A set of cells of a shard: two bits for each cell, above two bits for the header.
#[derive(Clone, Copy, Default)]
pub(in crate::keyed) struct CellMask(u32);

impl CellMask {
    #[inline(always)]
    pub(in crate::keyed) fn first(self) -> Option<usize> {
        // The two lowest bits are the header's and are always 0, so a set bit belongs to a cell. The first cell has
        // bits 2 and 3.
        (self.0 != 0).then(|| (self.0.trailing_zeros() / 2) as usize - 1)
    }

    #[inline(always)]
    pub(in crate::keyed) fn count(self) -> usize {
        self.0.count_ones() as usize / 2
    }

    #[cfg(any(test, not(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))))]
    fn with(self, cell: usize) -> Self {
        // Set the bits as the vector instructions do: two bits per cell, above the header's.
        Self(self.0 | 3 << (2 * cell + 2))
    }
}

/// `[install counter: 12 | 0: 8 | floor: 44]`
///
/// | field | changed by |
/// |---|---|
/// | install counter | each claim, and each verified claim before it is opened, adds one; the overflow is lost |
/// | 0 | no thread (reserved) |
/// | floor | a thread that has swept the shard under the old floor; the floor never falls |
///
/// The floor counts granules of 2^20 ns since the clock's origin. 44 bits are enough for every `u64` of nanoseconds, so
/// the floor never wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::keyed) struct Header(u64);

impl Header {
    const FLOOR_BITS: u32 = u64::BITS - GRANULE_BITS;
    const FLOOR_MASK: u64 = (1 << Self::FLOOR_BITS) - 1;
    // The counter takes the bits above the floor, except for 8 reserved bits. Under one floor a claim's nonce repeats
    // after 4096 claims and openings in its shard. A nonce also has low bits of the floor, at least two
    // (`STATE_BITS_MIN`), so the claims of successive floors mostly differ.
    const COUNTER_BITS: u32 = 12;
    // The counter is in the topmost bits, so an overflow of the addition is lost and never touches the floor.
    const ONE_INSTALL: u64 = 1 << (u64::BITS - Self::COUNTER_BITS);

    pub(in crate::keyed) const fn first(floor: u64) -> Self {
        // A floor has no other bits as long as it is computed from a `u64` of nanoseconds.
        Self(floor & Self::FLOOR_MASK)
    }

    pub(in crate::keyed) fn to_bits(self) -> u64 {
        self.0
    }

    pub(in crate::keyed) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// True if no reserved bit is set.
    pub(in crate::keyed) fn is_known(self) -> bool {
        // The reserved bits are the 8 bits between the floor and the counter.
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

    /// True if an instant lies in [F - E, F + E] of the floor F, where words can be read directly; E is the epoch, in
    /// granules.
    #[inline(always)]
    pub(in crate::keyed) fn is_near(self, instant_ns: u64, epoch: u64) -> bool {
        Near::to(instant_ns, epoch).includes(self)
    }

    fn with_floor(self, floor: u64) -> Self {
        // The install counter is kept, so nonces continue under the new floor.
        Self((self.0 & !Self::FLOOR_MASK) | (floor & Self::FLOOR_MASK))
    }

    /// The install counter, extended by the low bits of the floor.
    fn nonce(self) -> u64 {
        // The counter is in the lowest bits, since a claim with little room keeps only those.
        (self.0 >> (u64::BITS - Self::COUNTER_BITS)) | (self.floor() << Self::COUNTER_BITS)
    }
}

/// The floors that are near to an instant. They are computed before the header has been loaded, so that little remains
/// to be done afterwards.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Near {
    /// The lowest floor, in granules; it wraps below 0.
    from: u64,
    /// How many granules the highest floor lies above the lowest.
    span: u64,
}

impl Near {
    #[inline(always)]
    pub(in crate::keyed) fn to(instant_ns: u64, epoch: u64) -> Self {
        Self { from: (instant_ns >> GRANULE_BITS).wrapping_sub(epoch), span: 2 * epoch }
    }

    /// True if the instant lies in [F - E, F + E] of a floor: see [`Header::is_near`].
    #[inline(always)]
    pub(in crate::keyed) fn includes(self, header: Header) -> bool {
        // Neither floor nor instant has more than 44 bits. The difference wraps to a huge number if the floor lies
        // below `from`, so one comparison is enough.
        header.floor().wrapping_sub(self.from) <= self.span
    }
}

// The functions below are the points of this type at which the models break the protocol. As in `points`, each does
// what its name says unless a model plants its fault.

/// The ordering of a word's load.
#[inline(always)]
fn acquire_of_words() -> Ordering {
    // Acquire: see `load`. With Relaxed, the header that is loaded next could be older than the header that the word's
    // writer saw.
    if planted(Fault::RelaxedWords) { Ordering::Relaxed } else { Ordering::Acquire }
}

/// True if words can be read at an instant by the header that dates them.
#[inline(always)]
pub(in crate::keyed) fn dates(header: Header, near: Near) -> bool {
    // If words were read against the reader's `now` alone, a late thread would take a live word for a word that became
    // idle long ago.
    near.includes(header) || planted(Fault::DecodeAgainstNow)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
