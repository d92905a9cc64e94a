//! Builds a table: its size follows from the capacity, and its code from the policy.

use crate::error::BuildError;
use crate::log::LogRule;
use crate::policy::Policy;

use crate::hash::unit;
use crate::keyed::log::{DESIGN_LOAD as LOGS_LOAD, LogStore};
use crate::keyed::memory::Memory;
use crate::keyed::memory::layout::{Division, Layout};
use crate::keyed::memory::shard::{CELLS, Shard};
use crate::keyed::memory::tally::Tallies;
use crate::keyed::quotas::book::Book;
use crate::keyed::table::{Cells, Table};

/// The share of cells with a live key when there are as many live keys as the capacity. In a simulation with 4 million
/// keys, in units of two lines of seven cells, every key finds a cell at a load of 65%. At 70% one key finds none, at
/// 72% five, and at 75% thirty.
pub(in crate::keyed) const DESIGN_LOAD: (usize, usize) = (70, 100);

impl Table {
    /// A vacant table for `capacity` keys. `floor` is the floor of all shards, in granules.
    pub(in crate::keyed) fn new(
        layout: Layout,
        capacity: usize,
        floor: u64,
    ) -> Result<Self, BuildError> {
        Ok(Self::of(vacant(capacity, floor)?, layout.division, Cells::of(layout)))
    }

    /// A vacant table of one policy that does not change.
    pub(in crate::keyed) fn of_policy(
        policy: &Policy,
        capacity: usize,
        floor: u64,
    ) -> Result<Self, BuildError> {
        match LogRule::of(policy) {
            Some(rule) => Self::of_logs(rule, capacity),
            None => Self::new(Layout::plan(policy)?, capacity, floor),
        }
    }

    /// A vacant table for the quotas of a book.
    pub(in crate::keyed) fn of_book(
        book: Book,
        capacity: usize,
        floor: u64,
    ) -> Result<Self, BuildError> {
        let division = book.shared().division();
        Ok(Self::of(vacant(capacity, floor)?, division, Cells::of_book(book)))
    }

    /// A table of logs of a policy, for `capacity` keys at a time.
    pub(in crate::keyed) fn of_logs(rule: LogRule, capacity: usize) -> Result<Self, BuildError> {
        let shards = Self::shards_for(capacity, LOGS_LOAD)?;
        // All memory is allocated here, so a decision allocates nothing.
        let logs = LogStore::new(rule, shards, capacity)?;
        let memory = Memory::new(shards, || Shard::new(0))?;
        Ok(Self::of(memory, Division::of_logs(), Cells::Logs(logs)))
    }

    /// A table of these shards.
    pub(in crate::keyed) fn of(memory: Memory, division: Division, cells: Cells) -> Self {
        Self { memory, division, tallies: Tallies::default(), cells }
    }

    /// The number of shards of a table in which `capacity` keys take the share `load` of the cells. A table whose bytes
    /// cannot be addressed is refused.
    pub(in crate::keyed) fn shards_for(
        capacity: usize,
        load: (usize, usize),
    ) -> Result<usize, BuildError> {
        if capacity == 0 {
            return Err(BuildError::zero_capacity());
        }
        let too_large = || BuildError::capacity_too_large(capacity);
        // One cell is added, since the quotient is rounded down.
        let cells = capacity.checked_mul(load.1).ok_or_else(too_large)? / load.0 + 1;
        // The number is rounded up to whole units, since each shard belongs to a unit.
        let count = cells.div_ceil(CELLS).div_ceil(unit()) * unit();
        // This includes the spare shard of `memory`.
        let bytes = count.checked_add(1).and_then(|count| count.checked_mul(size_of::<Shard>()));
        bytes.map(|_| count).ok_or_else(too_large)
    }
}

impl Cells {
    pub(in crate::keyed) fn of_book(book: Book) -> Self {
        Self::Several { book: Box::new(book), spill: None }
    }
}

/// Vacant shards for `capacity` keys, all with this floor.
fn vacant(capacity: usize, floor: u64) -> Result<Memory, BuildError> {
    Memory::new(Table::shards_for(capacity, DESIGN_LOAD)?, || Shard::new(floor))
}
