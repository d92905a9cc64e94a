//! Where in a shard a key's word may stand, and which cells may be vacant: hints.
//!
//! They are never believed. The word at the cell that a hint names is loaded as every word is, between two readings of
//! the header; where it names none, or a wrong one, the slow way looks at every word by itself. A cell that seems vacant
//! is claimed by a CAS, which fails if it is not. So hints need no ordering, and what they have read may be torn or old:
//! it costs a decision the slow way, never a wrong answer.
#![cfg_attr(target_arch = "x86_64", allow(unsafe_code))]

use super::layout::Layout;
use super::shard::Shard;

/// Some cells of a shard: two bits for each, after two for the header.
#[derive(Clone, Copy, Default)]
pub(super) struct CellMask(u32);

impl CellMask {
    #[inline(always)]
    pub(super) fn first(self) -> Option<usize> {
        // The two lowest bits are the header's, and are always 0: so a bit that is set is that of a
        // cell, the first at bit 2.
        (self.0 != 0).then(|| (self.0.trailing_zeros() / 2) as usize - 1)
    }

    #[inline(always)]
    pub(super) fn count(self) -> usize {
        // Two bits for each.
        self.0.count_ones() as usize / 2
    }

    #[cfg(any(test, not(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))))]
    fn with(self, cell: usize) -> Self {
        // As the vector instructions leave it: two bits, past the header's.
        Self(self.0 | 3 << (2 * cell + 2))
    }
}

/// A cell that may hold a live word of `tag`.
#[inline(always)]
pub(super) fn hint(shard: &Shard, tag: u64, layout: &Layout) -> Option<usize> {
    // A claim of the tag is not equal: its topmost bit is set, and a live word's is not. Two live
    // words of one tag there never are.
    equal(shard, tag, layout.state_bits()).first()
}

/// The cells that may be vacant.
#[inline(always)]
pub(super) fn vacant(shard: &Shard) -> CellMask {
    // No bit may differ: vacant is 0.
    equal(shard, 0, 0)
}

/// The cells whose words differ from a value in no bit but the lowest: all words of the line at once.
#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
#[inline(always)]
fn equal(shard: &Shard, value: u64, lowest: u32) -> CellMask {
    let equal: u32;
    // SAFETY: reads the 64 bytes of `shard`, which are aligned to 64, by loads that every x86-64 has, and writes
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
            line = in(reg) std::ptr::from_ref(shard),
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
fn equal(shard: &Shard, value: u64, lowest: u32) -> CellMask {
    portable(shard, value, lowest)
}

#[cfg(any(test, not(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))))]
#[inline(always)]
fn portable(shard: &Shard, value: u64, lowest: u32) -> CellMask {
    // Loads that acquire, though a hint needs no order: a model then explores the same loads as a
    // decision.
    let is_it = |cell: &usize| (shard.load(*cell) ^ value) >> lowest == 0;
    super::shard::cells().filter(is_it).fold(CellMask::default(), CellMask::with)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::shard::{CELLS, Header};
    use super::*;

    /// For words that differ from the tag in one bit each, for the tag's own, for vacant cells and for claims.
    #[test]
    fn hints_name_the_first_live_word_of_a_tag_and_the_cells_that_are_vacant() {
        for policy in ["gcra 10/m burst 10", "gcra 1000000/s burst 1000", "fixed-window 100/m"] {
            let layout = Layout::plan(&policy.parse().expect("a policy")).expect("a layout");
            let tag =
                0x5a5a_5a5a_5a5a_5a5a >> 1 & (u64::MAX << layout.state_bits()) & (u64::MAX >> 1);
            let words = (0..64).map(|bit| tag ^ 1 << bit).chain([0, tag, 1 << 63, u64::MAX]);
            for (word, cell) in words.flat_map(|word| (0..CELLS).map(move |cell| (word, cell))) {
                for others in [0, !tag, tag ^ 1 << 62, 1 << 63 | tag] {
                    let mut all = [others; CELLS];
                    all[cell] = word;
                    let shard = Shard::holding(Header::first(tag), all);
                    let is_it = word >> layout.state_bits() == tag >> layout.state_bits();
                    let told = hint(&shard, tag, &layout);
                    assert_eq!(told, is_it.then_some(cell), "{word:x} among {others:x}");
                    assert_eq!(told, portable(&shard, tag, layout.state_bits()).first());
                    let told = vacant(&shard);
                    let expected = all.iter().filter(|&&word| word == 0).count();
                    assert_eq!(told.count(), expected, "{word:x} among {others:x}");
                    assert_eq!(told.first(), all.iter().position(|&word| word == 0));
                    assert_eq!(told.0, portable(&shard, 0, 0).0);
                }
            }
        }
    }
}
