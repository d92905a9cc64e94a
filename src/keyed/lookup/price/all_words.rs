//! The pass of a change of a quota over the words of a table. The change returns only after the pass.

use super::{Settled, settle};
use crate::keyed::memory::layout::Kind;
use crate::keyed::memory::points;
use crate::keyed::memory::shard::{TableWord, cells};
use crate::keyed::quotas::book::Book;
use crate::keyed::table::words::Words;

impl Words<'_> {
    /// Re-bases every word with a retired index, and vacates every claim, so that none is left. `at_ns` is the instant
    /// at which the quota of that index was replaced. Reads the whole table, and waits for no thread.
    pub(in crate::keyed) fn settle_all(&self, book: &Book, retired: usize, at_ns: u64) {
        // The pass goes shard by shard while other threads go on. The tier has been turned to the new quota before, so
        // a shard that has been settled gets no further word or claim with the retired index.
        for index in 0..self.shards() {
            // A shard is begun again until no other thread changes it while it is read. Lock-free: a charge or an
            // install in the shard is progress of another thread.
            while self.settle_shard(book, index, retired, at_ns).is_none() {}
        }
    }

    /// [`settle_all`](Self::settle_all) in one shard; `None` if another thread changed the shard meanwhile. Lock-free:
    /// that thread has made progress.
    fn settle_shard(&self, book: &Book, index: usize, retired: usize, at_ns: u64) -> Option<()> {
        let shard = self.shard(index);
        // One floor is used for the whole shard. If the floor moves, the shard is begun again.
        let header = shard.header();
        // A word is re-based at the instant of the change, so the floor must be near enough to read the word at that
        // instant.
        let is_ahead = self.division.is_behind(header, at_ns);
        for cell in cells() {
            let word = shard.load(cell);
            match points::kind_changed(word) {
                // The install of this claim may have read the retired index. When its claim is vacated, it starts again
                // and reads the new index.
                Kind::Claim => {
                    shard.replace(cell, word, TableWord::VACANT).then_some(())?;
                }
                Kind::Live if book.has_index(word, retired) => {
                    // The instant of the change is too far above this floor. The advance sweeps the shard, so the shard
                    // is read anew.
                    if is_ahead {
                        self.advance(index, at_ns);
                        return None;
                    }
                    // The floor was read before the word, but a word is dated by a floor that is read after it. So both
                    // must be equal.
                    if shard.header().floor() != header.floor() {
                        return None;
                    }
                    // The word is idle under the new quota, so its key is forgotten, and the word is not re-based.
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
