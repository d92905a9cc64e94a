//! Where in a shard a key's word may stand: a hint, by which the word is loaded and then compared.
//!
//! It is never believed. The word at the cell that it names is loaded as every word is, between two readings of the
//! header; where it names none, or a wrong one, the slow way looks at every word by itself. So the hint needs no
//! ordering, and what it has read may be torn or old: it costs a decision the slow way, never a wrong answer.
#![cfg_attr(target_arch = "x86_64", allow(unsafe_code))]

use super::layout::Layout;
use super::shard::Shard;

/// A cell that may hold a live word of `tag`.
///
/// All words of the line at once: those that differ from the tag in no bit above the state are it.
#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
#[inline(always)]
pub(super) fn hint(shard: &Shard, tag: u64, layout: &Layout) -> Option<usize> {
    let equal: u32;
    // SAFETY: reads the 64 bytes of `shard`, which are aligned to 64, by loads that every x86-64 has, and writes
    // nothing. Other threads may write them meanwhile, as atomics: to the machine these are loads like an atomic's, and
    // the compiler knows nothing of what they give but that they are bits.
    unsafe {
        core::arch::asm!(
            "movq {tags}, {tag}",
            "punpcklqdq {tags}, {tags}",
            "movd {shift}, {bits:e}",
            // Per word, 0 if it is of the tag; in 4 words of 16 bits each.
            "movdqa {low}, {tags}",
            "pxor {low}, [{line}]",
            "psrlq {low}, {shift}",
            "movdqa {high}, {tags}",
            "pxor {high}, [{line} + 16]",
            "psrlq {high}, {shift}",
            "packssdw {low}, {high}",
            "movdqa {high}, {tags}",
            "pxor {high}, [{line} + 32]",
            "psrlq {high}, {shift}",
            "pxor {tags}, [{line} + 48]",
            "psrlq {tags}, {shift}",
            "packssdw {high}, {tags}",
            // In two bytes each, neither of which loses a bit that is set: both saturate.
            "packsswb {low}, {high}",
            "pxor {high}, {high}",
            "pcmpeqw {low}, {high}",
            "pmovmskb {equal:e}, {low}",
            line = in(reg) std::ptr::from_ref(shard),
            tag = in(reg) tag,
            bits = in(reg) layout.state_bits(),
            tags = out(xmm_reg) _,
            shift = out(xmm_reg) _,
            low = out(xmm_reg) _,
            high = out(xmm_reg) _,
            equal = lateout(reg) equal,
            options(readonly, nostack, preserves_flags),
        );
    }
    // Two bits a word, the header's the lowest.
    let cells = equal & !3;
    (cells != 0).then(|| (cells.trailing_zeros() / 2) as usize - 1)
}

/// The same, word by word.
#[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle, miri)))))]
#[inline(always)]
pub(super) fn hint(shard: &Shard, tag: u64, layout: &Layout) -> Option<usize> {
    portable(shard, tag, layout)
}

#[cfg(any(test, not(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))))]
#[inline(always)]
fn portable(shard: &Shard, tag: u64, layout: &Layout) -> Option<usize> {
    let is_it = |cell: &usize| layout.is_live(shard.load(*cell), tag);
    super::shard::cells().find(is_it)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::shard::{CELLS, Header};
    use super::*;

    /// For words that differ from the tag in one bit each, for the tag's own, for vacant cells and for claims.
    #[test]
    fn a_hint_names_the_first_live_word_of_its_tag_and_no_other() {
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
                    assert_eq!(told, portable(&shard, tag, &layout));
                }
            }
        }
    }
}
