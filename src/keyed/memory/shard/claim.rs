//! The steps of a thread that installs or forgets a key, or advances a floor. Each step is one read-modify-write of one
//! word or of the header.

use crate::sync::{Fault, Ordering, planted, scale};

use super::{Header, Shard, TableWord};

impl Shard {
    /// Replaces the exact word that was read, to clear, claim or open a cell.
    pub(in crate::keyed) fn replace(&self, cell: usize, word: TableWord, next: TableWord) -> bool {
        // AcqRel: Release as in `charge`. Acquire: what the writer of the old word had done before is visible to the
        // caller's next reads, such as the scan after a claim. Relaxed on failure as in `charge`.
        self.cell(cell)
            .compare_exchange(word.to_bits(), next.to_bits(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Like [`replace`](Self::replace), for a word that was judged to owe nothing.
    pub(in crate::keyed) fn reclaim(
        &self,
        cell: usize,
        judged: TableWord,
        next: TableWord,
    ) -> bool {
        // If the key was charged after its word was judged, the CAS fails and the charge stays.
        self.replace(cell, reclaimable(self, cell, judged), next)
    }

    /// Takes a number for a claim. No other claim in this shard carries the number until the counter has wrapped.
    pub(in crate::keyed) fn take_nonce(&self) -> u64 {
        // Some models count installs outside the header.
        if let Some(count) = scale::count_apart() {
            return told_apart(count);
        }
        // Relaxed: the only need is that no two threads get the same number, and the modification order of one location
        // ensures that.
        let header = Header(self.words[0].fetch_add(Header::ONE_INSTALL, Ordering::Relaxed));
        told_apart(header.nonce())
    }

    /// Reads the floor that will date a new word. The caller holds a claim in this shard.
    pub(in crate::keyed) fn enter(&self) -> Header {
        // Only the floor is needed, but this is a write. So no floor can be published past a word that is about to be
        // opened under the previous floor. Suppose that a sweeper loads the header, sweeps and publishes. If this write
        // comes after its load, the publication fails. If this write comes before, the sweep sees either the claim,
        // which it vacates, or the live word that was opened from it, which it judges. The sweep sees the claim or the
        // word because Release pairs with the Acquire of `header`, and the writes in between are all
        // read-modify-writes, which continue the release sequence. Acquire as in `header`.
        if !marks_floors() {
            return self.header();
        }
        Header(self.words[0].fetch_add(Header::ONE_INSTALL, Ordering::AcqRel))
    }

    /// Publishes a floor in place of the exact header that was read.
    pub(in crate::keyed) fn publish(&self, header: Header, floor: u64) -> bool {
        // Release: a thread that sees this floor also sees the sweep before it. Acquire is not needed: the
        // header's value is the one that was loaded. Relaxed on failure: the caller starts again.
        self.words[0]
            .compare_exchange(
                header.0,
                header.with_floor(floor).0,
                Ordering::Release,
                Ordering::Relaxed,
            )
            .is_ok()
    }
}

// The functions below are the points of these steps at which the models break the protocol, as in [`super`].

/// The word that a reclaim replaces, which must be the word that was judged.
#[inline(always)]
fn reclaimable(shard: &Shard, cell: usize, judged: TableWord) -> TableWord {
    if planted(Fault::ReclaimWithoutExactWord) { shard.load(cell) } else { judged }
}

/// The number that distinguishes a claim from others of its key.
#[inline(always)]
fn told_apart(count: u64) -> u64 {
    if planted(Fault::EqualNonces) { 7 } else { count }
}

/// True if `enter` writes to the header when it reads the floor. A model may plant a plain read instead.
#[inline(always)]
fn marks_floors() -> bool {
    !planted(Fault::FloorReadUnmarked) && scale::marks_floors()
}
