//! How the words of the spill follow a change of a quota, in a table of several quotas.
//!
//! Each tier has its own part of the cells. All parts have the same size. So a flood of keys in one tier takes nothing
//! from another tier, and all cells of a key are counted in quotas of its tier. A cell's word has the index of its
//! quota, as the table's own words do, and the index leads to the numbers in the same [`Book`]. The cells also follow
//! the rules of the table's own words. A request charges only words that are counted in the quota that decides it, each
//! by a compare-and-swap from the exact word. A change brings every cell of its tier over to the new quota before it
//! returns. If a request reaches a cell before the change does, the request brings the cell over itself
//! ([`Spill::settled`]). So an admission under the old quota has charged all cells of its key before any of them was
//! brought over, and an admission under the new quota charges all of them after they were brought over. Across a change
//! each cell counts no less than the key's own word would, so the bound of `algorithm/rebase.rs` holds for the spill,
//! too.
//!
//! A mark must still be high enough after a change that makes debts drain more slowly. Under every quota of a table, a
//! debt drains within eight epochs (`layout/shared.rs`). So a mark reaches sixteen epochs beyond its charge
//! ([`REACH_EPOCHS`]), and is written before the charge. A change first raises every mark that lies after the change's
//! instant to sixteen epochs beyond that instant. So every charge that has not drained at a change has a mark that
//! outlasts the charge: this change or an earlier one has raised the mark, or the charge is so recent that its own
//! sixteen epochs cover the eight after the change.

use crate::sketch::Places;
use crate::sync::Ordering;

use crate::keyed::memory::points;
use crate::keyed::quotas::book::{Book, Lane, Page};

use super::store::{Spill, SpillWords};

impl Spill {
    /// Brings the cells of a key over to the quota in force, and returns that quota. The old quota counts as in force
    /// until the change has written the instant of the replacement. Until then the cells' words lead to the old
    /// numbers, as the table's words do. So no thread waits for a thread that changes a quota.
    pub(in crate::keyed) fn settled(&self, book: &Book, places: &Places) -> Lane {
        // A change of the same tier may do this at the same time: each cell is brought over by the thread that comes
        // first.
        let mut lane = None;
        // All cells are brought over, so that the request finds them in one quota: the quota of the last cell that was
        // read.
        for &place in places.cells() {
            lane = Some(self.settle_cell(book, place));
        }
        // A sketch has at least one row, so there is a lane. If the cells are in two different quotas by now, the
        // estimate notices.
        lane.unwrap_or_else(|| book.in_force(0))
    }

    /// Raises the marks. This is the first step of a change of a tier's quota at this instant.
    pub(in crate::keyed) fn raise_marks(&self, changed_ns: u64) {
        // A table of one quota never changes its quota.
        let SpillWords::Several { reach_ns } = self.words else { return };
        for mark in &self.marks {
            // Relaxed: a mark that this change does not see reaches far enough: see the head of this file. This change
            // sees every mark that was written before the previous change brought the cell over, since the right to
            // change has passed from that change to this one. A mark that does not lie after this change need not be
            // raised, since it stands for no charge that still matters.
            if mark.load(Ordering::Relaxed) > changed_ns {
                mark.fetch_max(changed_ns.saturating_add(reach_ns), Ordering::Relaxed);
            }
        }
    }

    /// Brings every cell of a tier over to the quota in force, so that none carries the index that a change has
    /// retired. It waits for no thread.
    pub(in crate::keyed) fn settle_tier(&self, book: &Book, tier: u16) {
        // Only cells of this tier are touched, so a request in another tier does not collide with this change.
        let first = usize::from(tier) * self.part();
        for place in points::brought_over(first..first + self.part()) {
            self.settle_cell(book, place);
        }
    }

    /// Brings a cell over to the quota in force, and returns that quota. After this thread has brought it over, the
    /// loop reads the cell once more. Any other repetition means that another thread has charged the cell, has brought
    /// it over, or is changing the quota.
    fn settle_cell(&self, book: &Book, place: usize) -> Lane {
        loop {
            // The word has the index of its quota, so the numbers are read after the word, as in `price`.
            let word = self.cells.word(place);
            let index = book.index_of_spilled(word);
            match book.page_of(index) {
                // The cell was brought over already, or was never counted in another quota.
                Some(Page::InForce(lane)) => return lane,
                // The word is carried over to the new quota. If the CAS fails, another thread has charged the cell or
                // brought it over, and the cell is read again.
                Some(Page::Retired { old, at_ns, new }) => {
                    // The word is read in the ticks of the replaced quota, and written in those of the new one.
                    let lenses =
                        (book.lens(&old, book.bits_of(index)), book.lens(&new.layout, new.own));
                    // Every change refuses a quota whose words do not fit.
                    let (Some(old), Some(lens)) = lenses else { return new };
                    // The numbers are being written, so the word has been replaced.
                    let (Some(before), Some(former)) =
                        (book.former(index), book.former_of(new.own))
                    else {
                        continue;
                    };
                    let old = (&old, before.as_ref());
                    let next = lens.rebased(word, old, former.as_ref(), at_ns);
                    self.cells.replace(place, word, next);
                }
                // The numbers are being written, so the word has been replaced.
                None => {}
            }
        }
    }
}
