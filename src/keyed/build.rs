//! How a table is built: as large as its capacity asks for, with the code for its policy.

use crate::error::BuildError;
use crate::log::LogRule;

use super::hit::way_of;
use super::layout::{Layout, Shared};
use super::log::{DESIGN_LOAD as LOGS_LOAD, LogHeader, LogStore};
use super::memory::Memory;
use super::shard::{CELLS, Shard};
use super::table::Table;
use super::tally::Tallies;
use super::unit::unit;

/// The share of cells that hold live keys when the table holds its capacity. Simulated with 4 million keys in units of
/// two lines of seven cells: at 65 % none is homeless, at 70 % one, at 72 % five, at 75 % thirty.
pub(super) const DESIGN_LOAD: (usize, usize) = (70, 100);

impl Table {
    /// A vacant table for `capacity` keys, whose floors stand at `floor`.
    pub(super) fn new(layout: Layout, capacity: usize, floor: u64) -> Result<Self, BuildError> {
        let memory = Memory::new(Self::shards_for(capacity, DESIGN_LOAD)?, || Shard::new(floor))?;
        Ok(Self::of(memory, layout))
    }

    /// Logs for so many keys at a time.
    pub(super) fn of_logs(rule: LogRule, capacity: usize) -> Result<Self, BuildError> {
        let shards = Self::shards_for(capacity, LOGS_LOAD)?;
        // All memory is taken here: a decision allocates nothing.
        let logs = Some(LogStore::new(rule, shards, capacity)?);
        let memory = Memory::new(shards, || Shard::new(0))?;
        let layout = Shared::of_logs(u64::BITS - 1 - LogHeader::STATE_BITS).bare();
        Ok(Self { logs, ..Self::of(memory, layout) })
    }

    /// A table for `capacity` keys whose shards are read from `next`, one by one.
    pub(super) fn told<E: From<BuildError>>(
        layout: Layout,
        capacity: usize,
        next: impl FnMut() -> Result<Shard, E>,
    ) -> Result<Self, E> {
        Ok(Self::of(Memory::told(Self::shards_for(capacity, DESIGN_LOAD)?, next)?, layout))
    }

    fn of(memory: Memory, layout: Layout) -> Self {
        // Which code decides is chosen once, here, and not at each decision.
        let (way, tallies) = (way_of(&layout), Tallies::default());
        Self { memory, layout, way, tallies, spill: None, book: None, logs: None }
    }

    /// The shards of a table for `capacity` keys that take such a share of it, whose bytes can be addressed.
    pub(super) fn shards_for(capacity: usize, load: (usize, usize)) -> Result<usize, BuildError> {
        if capacity == 0 {
            return Err(BuildError::zero_capacity());
        }
        let too_large = || BuildError::capacity_too_large(capacity);
        // One more than the quotient, which was rounded down.
        let cells = capacity.checked_mul(load.1).ok_or_else(too_large)? / load.0 + 1;
        // Whole units, since a key's shards are numbered within theirs.
        let count = cells.div_ceil(CELLS).div_ceil(unit()) * unit();
        // With the spare shard of `memory`.
        let bytes = count.checked_add(1).and_then(|count| count.checked_mul(size_of::<Shard>()));
        bytes.map(|_| count).ok_or_else(too_large)
    }
}
