//! On Linux with the feature `huge-pages`, a large table lies in a memory mapping of its own and asks the kernel for
//! huge pages there.
//!
//! A page then has 2 MiB instead of 4 KiB, so the page addresses of a large table fit in the core's cache of addresses
//! (the TLB). A decision that waits for a line from memory then does not also wait for the address of that line's page.
//! If the kernel has no huge pages to give, it gives small ones; if it refuses the mapping, the table uses the
//! allocator's memory.
//!
//! Three libraries do what would otherwise be `unsafe` here: `memmap2` makes the mapping, `zerocopy` reads its bytes as
//! shards, `self_cell` keeps the two in one value.

use std::fmt;
use std::ops::Deref;

use memmap2::{Advice, MmapMut};
use self_cell::{MutBorrow, self_cell};
use zerocopy::FromBytes;

use super::shard::Shard;

/// The size of a huge page on x86-64, and on AArch64 with pages of 4 KiB. Where huge pages are larger than this, the
/// mapping is not aligned to them, so it may contain one huge page less.
const HUGE_PAGE: usize = 2 << 20;

type Shards<'a> = &'a [Shard];

/// The memory in which the shards lie.
enum Owner {
    Allocated(Box<[Shard]>),
    /// A mapping, and how many of its bytes lie before the first huge page.
    Mapped(MmapMut, usize),
}

self_cell!(
    struct Both {
        owner: MutBorrow<Owner>,
        #[covariant]
        dependent: Shards,
    }
);

/// The shards, in huge pages or in the allocator's memory.
pub(in crate::keyed) struct ShardPages(Both);

impl fmt::Debug for ShardPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Deref for ShardPages {
    type Target = [Shard];

    #[inline(always)]
    fn deref(&self) -> &[Shard] {
        self.0.borrow_dependent()
    }
}

/// Keeps the allocator's memory as it is.
pub(in crate::keyed) fn keep(shards: Box<[Shard]>) -> ShardPages {
    let owner = MutBorrow::new(Owner::Allocated(shards));
    // The owner was made as `Allocated` just above, so the second arm is never taken.
    ShardPages(Both::new(owner, |owner| match owner.borrow_mut() {
        Owner::Allocated(shards) => shards,
        Owner::Mapped(..) => &[],
    }))
}

/// Makes `count` shards in a mapping that asks for huge pages. Returns `None` if the shards would not fill one huge
/// page, or if the kernel refuses the mapping.
pub(in crate::keyed) fn map(count: usize, shard: impl FnMut() -> Shard) -> Option<ShardPages> {
    let bytes = count.checked_mul(size_of::<Shard>())?;
    // The table is too small for one huge page.
    if bytes < HUGE_PAGE {
        return None;
    }
    // Round up to whole huge pages. Add one more, since a mapping is aligned to small pages only.
    let mapped = bytes.checked_next_multiple_of(HUGE_PAGE)?.checked_add(HUGE_PAGE)?;
    // The kernel may refuse the mapping, for instance under a limit on address space. The caller then uses the
    // allocator's memory.
    let map = MmapMut::map_anon(mapped).ok()?;
    // `before` is less than one huge page, and the mapping has one huge page to spare.
    let before = map.as_ptr().align_offset(HUGE_PAGE);
    // A kernel without huge pages refuses the advice; the pages are then small.
    let _ = map.advise_range(Advice::HugePage, before, mapped - HUGE_PAGE);
    // The mapping and the shards that borrow from it move as one value, and are dropped together.
    let owner = MutBorrow::new(Owner::Mapped(map, before));
    let both = Both::try_new(owner, |owner| {
        // The owner was made as `Mapped` just above.
        let Owner::Mapped(map, before) = owner.borrow_mut() else { return Err(()) };
        let shards =
            // This fails only for a wrong length or alignment. The length is a whole number of shards, and a shard may
            // begin where a huge page begins.
            <[Shard]>::mut_from_bytes(&mut map[*before..*before + bytes]).map_err(|_| ())?;
        // The shards are touched here for the first time, so the kernel supplies the pages now and not during a
        // decision.
        shards.fill_with(shard);
        Ok(&*shards)
    });
    both.ok().map(ShardPages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyed::memory::shard::{TableWord, cells};

    #[test]
    fn shards_lie_in_whole_huge_pages_and_are_as_they_were_made() {
        let count = HUGE_PAGE / size_of::<Shard>();
        assert!(map(count - 1, || Shard::new(5)).is_none(), "less than a huge page");
        for count in [count, count + 1, 3 * count + 7] {
            let pages = map(count, || Shard::new(5)).expect("a mapping");
            assert_eq!(pages.len(), count);
            assert_eq!(pages.as_ptr().addr() % HUGE_PAGE, 0);
            for shard in pages.iter() {
                assert_eq!(shard.header().floor(), 5);
                assert!(cells().all(|cell| shard.load(cell) == TableWord::VACANT));
            }
            // The last shard can be written.
            let (last, word) = (&pages[count - 1], TableWord::from_bits(7));
            assert!(last.replace(6, TableWord::VACANT, word) && last.load(6) == word);
        }
    }

    #[test]
    fn what_the_allocator_gave_is_kept_as_it_is() {
        let given: Box<[Shard]> = (0..3).map(Shard::new).collect();
        let address = given.as_ptr();
        let pages = keep(given);
        assert_eq!((pages.len(), pages.as_ptr()), (3, address));
        assert_eq!(pages[2].header().floor(), 2);
    }
}
