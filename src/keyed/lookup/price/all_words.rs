//! The pass over all words of a table, which every change of a quota makes before it returns.

use super::{Settled, settle};
use crate::keyed::memory::layout::Kind;
use crate::keyed::memory::points;
use crate::keyed::memory::shard::{TableWord, cells};
use crate::keyed::quotas::book::Book;
use crate::keyed::table::words::Words;

impl Words<'_> {
    /// Re-bases or forgets every word with the `retired` index, and vacates every claim, so that no word or claim
    /// carries this index any more. `at_ns` is the instant at which the quota of that index was replaced. Reads the
    /// whole table, and waits for no thread.
    pub(in crate::keyed) fn settle_all(&self, book: &Book, retired: usize, at_ns: u64) {
        // Other threads go on meanwhile. The tier has already been turned to the new quota, so a shard that has been
        // settled gets no further word or claim with the retired index.
        for index in 0..self.shards() {
            // The shard is settled again if another thread has changed it meanwhile. Lock-free: a charge or an install
            // in the shard is progress of another thread.
            while self.settle_shard(book, index, retired, at_ns).is_none() {}
        }
    }

    /// Does the work of [`settle_all`](Self::settle_all) for one shard; `None` if another thread changed the shard
    /// meanwhile.
    fn settle_shard(&self, book: &Book, index: usize, retired: usize, at_ns: u64) -> Option<()> {
        let shard = self.shard(index);
        // One floor is used for the whole shard. If the floor moves, the caller settles the shard again.
        let header = shard.header();
        // A word is re-based at the instant of the change, so the floor must be near enough to read the word at that
        // instant.
        let is_ahead = self.division.is_behind(header, at_ns);
        for cell in cells() {
            let word = shard.load(cell);
            match points::kind_changed(word) {
                // The install that made this claim may have read the retired index. When its claim is vacated, it
                // starts again and reads the new index.
                Kind::Claim => {
                    shard.replace(cell, word, TableWord::VACANT).then_some(())?;
                }
                Kind::Live if book.has_index(word, retired) => {
                    // If the instant of the change is too far above this floor, the floor is advanced first. The
                    // advance sweeps the shard, so the caller settles the shard again.
                    if is_ahead {
                        self.advance(index, at_ns);
                        return None;
                    }
                    // The floor that dates a word must be read after the word. `header` was read before the word, so
                    // its floor must still be the shard's floor.
                    if shard.header().floor() != header.floor() {
                        return None;
                    }
                    // If the word is idle under the new quota, its key is forgotten, and the word is not re-based.
                    if settle(book, shard, cell, word)? == Settled::Stale {
                        shard.replace(cell, word, TableWord::VACANT).then_some(())?;
                    }
                }
                // The cell is vacant, or its word is counted in a quota that this change does not retire.
                _ => {}
            }
        }
        Some(())
    }
}
