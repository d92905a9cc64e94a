//! Computes the bytes of a limit's table before it is built, so that rules that would take too much memory are refused
//! first.
//!
//! The number of a table's cells is its capacity divided by 0.7. Seven cells are a shard, which is a cache line. A
//! table also has a spill, if the core has one for its policy: an eighth of the table, at least 1 KiB, and a mark for
//! each 64 shards. The number of cache lines that are aligned as one unit depends on the machine, and the core decides
//! whether a table has a spill. Both are read from the figures of the smallest table.

use tollgate::{Algorithm, BuildError, ManualClock, Policy, Stats};

use crate::set::carry::{CarriedTable, TableShape};

/// The percentage of a table's cells that hold live keys when the table is at its capacity. In a table of sliding logs
/// it is lower.
const DESIGN_LOAD: u64 = 70;
const LOGS_LOAD: u64 = 65;

/// Bytes of a shard.
const SHARD: u64 = 64;

/// The size of a table divided by the size of its spill.
const SPILL_PART: u64 = 8;

/// Bytes of the smallest spill, without its mark.
const SPILL_MIN: u64 = 1 << 10;

/// The number of shards that share a mark; a mark has 8 bytes.
const SHARDS_PER_MARK: u64 = 64;

/// Computes the bytes of a limit's table for any capacity.
#[derive(Debug)]
pub(crate) struct TableSize {
    smallest: Stats,
    load: u64,
}

impl TableSize {
    pub(crate) fn of(policy: Policy, shape: TableShape) -> Result<Self, BuildError> {
        let one = TableShape { capacity: 1, ..shape };
        let smallest = CarriedTable::build(policy, one, &ManualClock::new().into())?.table.stats();
        let is_log = policy.algorithm() == Algorithm::SlidingLog;
        Ok(Self { smallest, load: if is_log { LOGS_LOAD } else { DESIGN_LOAD } })
    }

    /// The bytes of a new table for this many clients, its spill included: the value that
    /// [`Stats::bytes`](tollgate::Stats) will have.
    pub(crate) fn bytes(&self, capacity: usize) -> u64 {
        bytes_like(&self.smallest, capacity, self.load)
    }
}

/// The bytes of a new table.
pub(crate) fn table_bytes(policy: Policy, shape: TableShape) -> Result<u64, BuildError> {
    TableSize::of(policy, shape).map(|size| size.bytes(shape.capacity))
}

/// The bytes of a table for this many clients that is like the smallest table in all other properties.
fn bytes_like(smallest: &Stats, capacity: usize, load: u64) -> u64 {
    let unit_cells = smallest.cells as u64;
    let unit_bytes = (smallest.bytes - smallest.spill_bytes) as u64 - SHARD;
    let cells = (capacity as u64).saturating_mul(100) / load + 1;
    let table = cells.div_ceil(unit_cells).saturating_mul(unit_bytes);
    let spill = match smallest.spill_bytes {
        0 => 0,
        _ => {
            let marks = (table / SHARD).div_ceil(SHARDS_PER_MARK) * 8;
            (table / SPILL_PART).max(SPILL_MIN).saturating_add(marks)
        }
    };
    // A table allocates one more shard, so that its units can begin at the alignment that the machine needs.
    table.saturating_add(SHARD).saturating_add(spill)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::identifier::AddressBits;
    use crate::language::on_full::OnFull;

    /// Policies whose table can be changed, and policies whose table cannot.
    const POLICIES: [&str; 9] = [
        "fixed-window 5/h",
        "gcra 60/m burst 20",
        "sliding-window 100/m exact",
        "gcra 60/m soft 5%",
        "fixed-window 60/m count-denied",
        "fixed-window 2000000000/s",
        "fixed-window 5/h from-first",
        "calendar-month 5",
        "sliding-log 5/h",
    ];

    fn capacities() -> impl Iterator<Item = usize> {
        (1..200).chain([1_000, 9_999, 65_536, 100_000, 1_000_000])
    }

    #[test]
    fn what_is_reckoned_is_what_the_table_says_that_it_takes() {
        let mut with_spill = 0;
        let policies = POLICIES.map(|text| text.parse::<Policy>().expect("a policy"));
        let all = policies.iter().flat_map(|one| [(*one, OnFull::Spill), (*one, OnFull::Deny)]);
        for (policy, on_full) in all {
            for capacity in capacities() {
                let of = TableShape { capacity, on_full, bits: AddressBits::default() };
                let kept = CarriedTable::build(policy, of, &ManualClock::new().into());
                let stats = kept.expect("a table").table.stats();
                let expected = table_bytes(policy, of).expect("a table");
                assert_eq!(expected, stats.bytes as u64, "{policy} for {capacity}");
                with_spill += usize::from(stats.spill_bytes > 0);
            }
        }
        assert!(with_spill > 200, "{with_spill} with a spill");
    }

    #[test]
    fn what_no_memory_holds_is_no_small_number() {
        let policy: Policy = "gcra 60/m".parse().expect("a policy");
        let bits = AddressBits::default();
        let of = TableShape { capacity: usize::MAX, on_full: OnFull::Spill, bits };
        assert!(table_bytes(policy, of).expect("a number") > 1 << 60);
    }
}
