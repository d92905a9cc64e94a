//! The memory of a table: its shards in one array, which is allocated once.
//!
//! The array has one spare shard, before or after all others. Its place is chosen so that each unit, a pair of shards,
//! fills two cache lines that the hardware fetches together. Large tables may lie in huge pages: see `huge_pages`.

pub(in crate::keyed) mod ask;
#[cfg(all(feature = "huge-pages", target_os = "linux", not(any(loom, shuttle))))]
mod huge_pages;
pub(in crate::keyed) mod layout;
pub(in crate::keyed) mod points;
pub(in crate::keyed) mod rival;
pub(in crate::keyed) mod seeds;
pub(in crate::keyed) mod shard;
pub(in crate::keyed) mod tally;

use crate::error::BuildError;
use crate::hash::unit;

use crate::keyed::memory::shard::Shard;

#[cfg(all(feature = "huge-pages", target_os = "linux", not(any(loom, shuttle))))]
use crate::keyed::memory::huge_pages::{ShardPages, keep, map};

#[cfg(not(all(feature = "huge-pages", target_os = "linux", not(any(loom, shuttle)))))]
type ShardPages = Box<[Shard]>;

/// Without the feature all memory comes from the allocator.
#[cfg(not(all(feature = "huge-pages", target_os = "linux", not(any(loom, shuttle)))))]
fn map(_count: usize, _shard: impl FnMut() -> Shard) -> Option<ShardPages> {
    None
}

#[cfg(not(all(feature = "huge-pages", target_os = "linux", not(any(loom, shuttle)))))]
fn keep(shards: Box<[Shard]>) -> ShardPages {
    shards
}

/// All shards of a table.
#[derive(Debug)]
pub(super) struct Memory {
    shards: ShardPages,
    /// The index at which the first unit begins.
    start: usize,
}

impl Memory {
    /// Makes `count` equal shards.
    pub(super) fn new(count: usize, shard: impl Fn() -> Shard) -> Result<Self, BuildError> {
        // A mapping of huge pages begins at a multiple of their size, so the first unit needs no shift.
        if let Some(shards) = map(count + 1, &shard) {
            return Ok(Self { shards, start: 0 });
        }
        let mut shards = Vec::new();
        reserve(&mut shards, count + 1)?;
        // The capacity is exact, so this allocates nothing more.
        shards.resize_with(count + 1, shard);
        Ok(Self::allocated(shards))
    }

    /// Makes `count` shards, which `next` reads one by one. The memory grows as shards are read: if a file claims many
    /// shards but contains few, the memory is at most twice what these few need.
    pub(super) fn told<E: From<BuildError>>(
        count: usize,
        mut next: impl FnMut() -> Result<Shard, E>,
    ) -> Result<Self, E> {
        let mut shards = Vec::new();
        while shards.len() < count {
            // The capacity is doubled, but never beyond the whole table.
            if shards.len() == shards.capacity() {
                // `clamp` cannot panic: while the loop runs, at least one shard is missing.
                let more = shards.len().clamp(1, count - shards.len());
                reserve(&mut shards, more)?;
            }
            shards.push(next()?);
        }
        // A mapping cannot grow, so the shards are copied into it at the end, and exist twice for a moment. All shards
        // have been read by now, so no mapping is made for a file that ends too early.
        let mut told = shards.iter().map(Shard::copy);
        // After the last copy comes the spare shard, which is vacant.
        let mapped = map(count + 1, || told.next().unwrap_or_else(|| Shard::new(0)));
        // The table uses the copy in the mapping; the other copy is freed here.
        if let Some(shards) = mapped {
            return Ok(Self { shards, start: 0 });
        }
        // Reserve room for the spare shard, as in `new`.
        reserve(&mut shards, 1)?;
        shards.push(Shard::new(0));
        Ok(Self::allocated(shards))
    }

    /// Makes the memory from these shards, the last of which is the spare shard.
    fn allocated(shards: Vec<Shard>) -> Self {
        let mut shards = shards.into_boxed_slice();
        // Under loom and shuttle an atomic is not eight bytes long, so cache lines mean nothing there.
        let is_model = cfg!(any(loom, shuttle));
        // The allocator aligns to one line. If the first unit would not begin at a pair of lines, the spare shard goes
        // before it.
        let start = if is_model { 0 } else { shards.as_ptr().addr() / size_of::<Shard>() % unit() };
        // The rotation moves the spare shard from the end to the beginning. All others keep their order, and so their
        // numbers.
        shards.rotate_right(start);
        Self { shards: keep(shards), start }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        // The spare shard is not counted.
        self.shards.len() - 1
    }

    pub(super) fn bytes(&self) -> usize {
        // The spare shard is included: it is memory that the table holds.
        size_of_val::<[Shard]>(&self.shards)
    }

    /// The shard with this number. The number comes from `hash`, and is below [`len`](Self::len).
    #[inline]
    pub(super) fn shard(&self, index: usize) -> &Shard {
        // The index is in bounds: the first unit begins at shard 0 or 1, and there is one shard more than there are
        // numbers.
        &self.shards[self.start + index]
    }

    /// The number of this shard, which must lie in this memory.
    #[inline]
    pub(super) fn number(&self, shard: &Shard) -> usize {
        let bytes = std::ptr::from_ref(shard).addr() - self.shards.as_ptr().addr();
        bytes / size_of::<Shard>() - self.start
    }
}

/// Reserves room for exactly `more` shards.
fn reserve(shards: &mut Vec<Shard>, more: usize) -> Result<(), BuildError> {
    // This cannot overflow: `shards_for` has checked that all of them can be addressed.
    let bytes = (shards.len() + more) * size_of::<Shard>();
    shards.try_reserve_exact(more).map_err(|_| BuildError::OutOfMemory { bytes })
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// As many shards as fill a huge page, and one unit more.
    const COUNT: usize = (2 << 20) / size_of::<Shard>() + 2;

    fn units_begin_where_two_lines_do(memory: &Memory) -> bool {
        std::ptr::from_ref(memory.shard(0)).addr().is_multiple_of(unit() * size_of::<Shard>())
    }

    #[test]
    fn shards_stand_in_the_order_in_which_they_are_told() {
        for count in [unit(), COUNT] {
            let mut floors = 0..;
            let next = || Ok::<_, BuildError>(Shard::new(floors.next().expect("a floor")));
            let memory = Memory::told(count, next).expect("memory");
            assert_eq!((memory.len(), memory.bytes()), (count, (count + 1) * 64));
            assert!(units_begin_where_two_lines_do(&memory));
            for index in 0..count {
                assert_eq!(memory.number(memory.shard(index)), index);
                assert_eq!(memory.shard(index).header().floor(), index as u64);
            }
        }
    }

    #[test]
    fn units_begin_where_two_lines_do_whatever_the_allocator_gives() {
        // The allocator puts a small allocation wherever it has room.
        for count in (1..40).map(|units| units * unit()).chain([COUNT]) {
            let memory = Memory::new(count, || Shard::new(3)).expect("memory");
            assert!(units_begin_where_two_lines_do(&memory) && memory.len() == count);
        }
    }
}
