//! The words of a shard as they stand now, in modification order: for the assertions of models.

use super::words::Key;
use crate::keyed::memory::shard::{TableWord, cells};
use crate::keyed::table::Table;

/// Asked right after an opening, and openings are all that could make a second live cell: so what
/// holds here holds at every moment.
pub(in crate::keyed) fn assert_one_live(key: &Key<'_>) {
    // The newest words in modification order, of all shards of the key.
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
