//! The newest words of a shard, in modification order, for the assertions of models.

use super::words::Key;
use crate::keyed::memory::shard::{TableWord, cells};
use crate::keyed::table::Table;

/// Models call this right after a claim is opened. Nothing else could give a key a second live cell, so the assertion
/// covers every moment.
pub(in crate::keyed) fn assert_one_live(key: &Key<'_>) {
    // Collect the newest words, in modification order, of all shards of the key.
    let live = key
        .shards()
        .flat_map(|index| newest(&key.words, index))
        .filter(|&word| key.words.division.is_live(word, key.tag()))
        .count();
    assert!(live <= 1, "{live} live cells carry one key");
}

pub(in crate::keyed) fn newest(table: &Table, index: usize) -> impl Iterator<Item = TableWord> {
    cells().map(move |cell| table.shard(index).newest(cell))
}
