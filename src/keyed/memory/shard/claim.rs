//! What a thread does to a shard that installs, forgets or advances: each a read-modify-write of one word or of the header.

use crate::sync::{Fault, Ordering, planted, scale};

use super::{Header, Shard, TableWord};

impl Shard {
    /// Replaces the exact word that was read: clearing, claiming, opening.
    pub(in crate::keyed) fn replace(&self, cell: usize, word: TableWord, next: TableWord) -> bool {
        // AcqRel: Release as in `charge`. Acquire, so that the claim that this may be orders what the
        // caller reads next after what the word's writer saw. Relaxed on failure as in `charge`.
        self.cell(cell)
            .compare_exchange(word.to_bits(), next.to_bits(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// [`replace`](Self::replace) for a word that was judged to owe nothing: any other may owe something.
    pub(in crate::keyed) fn reclaim(
        &self,
        cell: usize,
        judged: TableWord,
        next: TableWord,
    ) -> bool {
        // If the key was charged since its word was judged, the CAS fails and the charge stays.
        self.replace(cell, reclaimable(self, cell, judged), next)
    }

    /// A number for a claim that no other claim in this shard carries until the counter has turned.
    pub(in crate::keyed) fn take_nonce(&self) -> u64 {
        // Some models count installs outside of the header.
        if let Some(count) = scale::count_apart() {
            return told_apart(count);
        }
        // Relaxed: all that is asked of it is that no two threads get the same number, which one
        // location's modification order gives.
        let header = Header(self.words[0].fetch_add(Header::ONE_INSTALL, Ordering::Relaxed));
        told_apart(header.nonce())
    }

    /// Reads the floor that a new word will be dated by. For a thread that holds a claim in this shard.
    pub(in crate::keyed) fn enter(&self) -> Header {
        // A write, although only the floor is wanted, so that no floor can be published past a word that
        // is about to be opened under its predecessor. If the write comes after the sweeper's load of
        // the header, the publication fails. If it comes before, the sweep sees either the claim, which it vacates, or the
        // live word that was opened from it, which it judges: Release pairs with the Acquire of `header`, and the writes
        // in between, all of them read-modify-writes, carry that on. Acquire as in `header`.
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

// The points of these steps that the proofs lean on, as in [`super`].

/// The word that must stand in a cell for it to be reclaimed: the one that was judged.
#[inline(always)]
fn reclaimable(shard: &Shard, cell: usize, judged: TableWord) -> TableWord {
    if planted(Fault::ReclaimWithoutExactWord) { shard.load(cell) } else { judged }
}

/// The number that tells a claim from others of its key.
#[inline(always)]
fn told_apart(count: u64) -> u64 {
    if planted(Fault::EqualNonces) { 7 } else { count }
}

/// Whether an opener's reading of its floor leaves a trace in the header. A model may do without.
#[inline(always)]
fn marks_floors() -> bool {
    !planted(Fault::FloorReadUnmarked) && scale::marks_floors()
}
