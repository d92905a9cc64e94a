//! The spill of a table of several quotas: how its words follow a change of one.
//!
//! In a table of several quotas each tier has a part of the cells to itself, as large as the others': so a flood in
//! one tier takes nothing from another, and the cells of a key are all counted in quotas of its tier. A cell's word
//! says by an index which of them that is, as the table's own words do, and numbers are found by it in the same
//! [`Book`]. What holds there holds here: a request charges only words of the quota that it is decided by, each by a
//! compare-and-swap from the exact word; a change brings every cell of its tier over before it returns, and a request
//! that meets a cell before the change does so itself ([`Spill::settled`]). So of a key's admissions those under the
//! old quota have charged all of its cells before any of these was brought over, those under the new one all of them
//! after it, and across a change each cell holds no less than a word of the key's own would: the bound of
//! `algorithm/rebase.rs` is that of the spill, too.
//!
//! A mark must outlast a change that makes what is owed drain more slowly. No quota of a table takes longer than
//! eight epochs to give back all it can be owed (`layout/shared.rs`). So a mark reaches sixteen beyond its charge
//! ([`REACH_EPOCHS`]), and is written before it; and a change first raises every mark that lies beyond it to as much
//! beyond the change. What a change finds charged, its own or one of those before it has found marked, or it was
//! charged so recently that the sixteen epochs cover the eight after the change.

use crate::sketch::Places;
use crate::sync::Ordering;

use crate::keyed::memory::points;
use crate::keyed::quotas::book::{Book, Lane, Page};

use super::store::{Spill, SpillWords};

impl Spill {
    /// Brings the cells of a key over to the quota in force, and says which that is. Until a change has said at which
    /// instant the quota of before was replaced, that is the one of before: the cells' words lead to their numbers, as
    /// the table's words do. So no thread waits for one that changes a quota.
    pub(in crate::keyed) fn settled(&self, book: &Book, places: &Places) -> Lane {
        // Not stopped by a change of the same tier meanwhile: each cell is brought over by
        // whichever thread comes first.
        let mut lane = None;
        // All of them, so that the request finds its cells in one quota: that of the last one read.
        for &place in places.cells() {
            lane = Some(self.settle_cell(book, place));
        }
        // There is a row. Should the cells be of two quotas by now, the estimate finds out.
        lane.unwrap_or_else(|| book.in_force(0))
    }

    /// What a change of a tier's quota at this instant does first.
    pub(in crate::keyed) fn raise_marks(&self, changed_ns: u64) {
        // A single quota never changes.
        let SpillWords::Several { reach_ns } = self.words else { return };
        for mark in &self.marks {
            // Relaxed: what this change need not see here its reach covers, see the header. What was marked
            // before the last change brought its cell over is seen, by the right to change.
            // A mark at or before the change stands for nothing that still counts: it need not
            // outlast it.
            if mark.load(Ordering::Relaxed) > changed_ns {
                mark.fetch_max(changed_ns.saturating_add(reach_ns), Ordering::Relaxed);
            }
        }
    }

    /// Brings every cell of a tier over to the quota in force: so that none carries the index that a change has
    /// retired. Waits for no thread.
    pub(in crate::keyed) fn settle_tier(&self, book: &Book, tier: u8) {
        // All of its tier's, and no other's: so a request in another tier meets no work of this
        // change.
        let first = usize::from(tier) * self.part();
        for place in points::brought_over(first..first + self.part()) {
            self.settle_cell(book, place);
        }
    }

    /// Lock-free: a turn that does not end it means that another thread has charged the cell or brought it over.
    fn settle_cell(&self, book: &Book, place: usize) -> Lane {
        loop {
            // The index is in the word, so the numbers are read after it: as in `price`.
            let word = self.cells.word(place);
            let index = book.index_of_spilled(word);
            match book.page_of(index) {
                // Brought over already, or never counted in another quota.
                Some(Page::InForce(lane)) => return lane,
                // Carried over the change. If the CAS fails the cell has been charged or brought over: look again.
                Some(Page::Retired { old, at_ns, new }) => {
                    // The ticks of the replaced quota to read the word, those of the new one to
                    // write it.
                    let lenses =
                        (book.lens(&old, book.bits_of(index)), book.lens(&new.layout, new.own));
                    // A quota whose words do not fit is refused by every change.
                    let (Some(old), Some(lens)) = lenses else { return new };
                    // Its numbers are being written: so the word is gone.
                    let (Some(before), Some(former)) =
                        (book.former(index), book.former_of(new.own))
                    else {
                        continue;
                    };
                    let old = (&old, before.as_ref());
                    let next = lens.rebased(word, old, former.as_ref(), at_ns);
                    self.cells.replace(place, word, next);
                }
                // Its numbers are being written: so the word is gone.
                None => {}
            }
        }
    }
}
