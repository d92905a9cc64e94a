//! The words of a shard as they stand now, in modification order: for the assertions of models.

use crate::hash::{Identity, shards_of};

use super::shard::cells;
use super::table::Table;

/// Asked right after an opening, and openings are all that could make a second live cell: so what
/// holds here holds at every moment.
pub(super) fn assert_one_live(table: &Table, identity: Identity, second: usize) {
    // The newest words in modification order, of all shards of the key.
    let live = shards_of(identity.first, second)
        .flat_map(|index| newest(table, index))
        .filter(|&word| table.layout.is_live(word, identity.tag))
        .count();
    assert!(live <= 1, "{live} live cells carry one key");
}

pub(super) fn newest(table: &Table, index: usize) -> impl Iterator<Item = u64> {
    cells().map(move |cell| table.shard(index).newest(cell))
}
