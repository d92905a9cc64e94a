//! Helpers that make a full table, and keys that find no cell in it.

use ahash::RandomState;
use tollgate::{Entry, KeyedLimiter, Timestamp};

pub(crate) use crate::common::seeded_table as table;

pub(crate) type Table = KeyedLimiter<u64, RandomState>;

/// A key, and the tier in which it is used.
pub(crate) fn entry(table: &Table, key: u64, tier: usize) -> Entry<'_> {
    table.entry(&key).tier(tier).unwrap()
}

/// A hasher that places keys in the same cells in every run.
pub(crate) fn seeds() -> RandomState {
    RandomState::with_seeds(1, 2, 3, 4)
}

/// Gives every cell of a table with one or two shards to a stranger that asks for one unit, without spilling any
/// stranger. Strangers are keys from 1,000 on.
pub(crate) fn fill(table: &Table, now: Timestamp) {
    let cells = table.stats().cells;
    let mut strangers = (1_000..).filter(|key| !table.entry(key).at(now).peek(1).is_spilled());
    for _ in 0..cells {
        assert!(table.entry(&strangers.next().unwrap()).at(now).check().is_allowed());
    }
    assert_eq!(table.stats().spilled, 0);
}

/// The time at which the unit of a stranger that was charged at `charged` has drained.
pub(crate) fn drained(text: &str, charged: Timestamp) -> Timestamp {
    charged + table(text, 1).entry(&1).at(charged).check().reset_after()
}
