//! What a change of a quota does to the words of a table: it goes through all of them before it returns.

use super::{Settled, settle};
use crate::keyed::memory::layout::Kind;
use crate::keyed::memory::points;
use crate::keyed::memory::shard::{TableWord, cells};
use crate::keyed::quotas::book::Book;
use crate::keyed::table::words::Words;

impl Words<'_> {
    /// Re-bases every word with a retired index, and vacates every claim, so that none is left. `at_ns` is
    /// when its quota was replaced. Reads the whole table; waits for no thread.
    pub(in crate::keyed) fn settle_all(&self, book: &Book, retired: usize, at_ns: u64) {
        // Shard by shard, while others go on: the turn to the new quota has been made, so no shard that
        // has been settled gets a word or a claim with the retired index again.
        for index in 0..self.shards() {
            // Begun again until a whole turn over the shard met no other thread.
            // Ends when other threads leave the shard alone for as long as it takes to read it: a
            // charge or an install there counts as progress of theirs.
            while self.settle_shard(book, index, retired, at_ns).is_none() {}
        }
    }

    /// The same in one shard; `None` if others changed it meanwhile. Lock-free: then one of them went on.
    fn settle_shard(&self, book: &Book, index: usize, retired: usize, at_ns: u64) -> Option<()> {
        let shard = self.shard(index);
        // One floor for the whole shard: should it move, the shard is begun again.
        let header = shard.header();
        // A word is re-based at the change, and must be readable there by its floor.
        let is_ahead = self.division.is_behind(header, at_ns);
        for cell in cells() {
            let word = shard.load(cell);
            match points::kind_changed(word) {
                // Its install may have read the retired index. Vacated, it starts again and reads the new one.
                Kind::Claim => {
                    shard.replace(cell, word, TableWord::VACANT).then_some(())?;
                }
                Kind::Live if book.has_index(word, retired) => {
                    // The change is out of this floor's reach. The shard is read anew, for the advance has swept it.
                    if is_ahead {
                        self.advance(index, at_ns);
                        return None;
                    }
                    // The floor was read before the word, and every word is dated by a floor that is read after it.
                    if shard.header().floor() != header.floor() {
                        return None;
                    }
                    // Idle under the new quota: its key is forgotten instead of re-based.
                    if settle(book, shard, cell, word)? == Settled::Stale {
                        shard.replace(cell, word, TableWord::VACANT).then_some(())?;
                    }
                }
                // Vacant, or counted in a quota that this change does not retire.
                _ => {}
            }
        }
        Some(())
    }
}
