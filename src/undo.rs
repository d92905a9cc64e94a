//! [`Undo`]: a charge that is taken back because another limit has denied the request.
//!
//! * If a word is still the one that the charge left, the word from before the charge is put back, as if
//!   nothing had been. A refund and an equal charge of other requests may have restored those bits meanwhile. So under
//!   GCRA the part that has drained since the charge stays, as in a cancellation (`refund.rs`). A window has a
//!   count, which is the same in whatever order it came about.
//! * If other requests have been charged on top, the word from before means nothing any more. Under GCRA the
//!   units are then given back less the part that has drained since the charge, by a clock that is read after
//!   the word, and less [`SKEW_NS`]. This forgives no charge: compare with a run in which the undone
//!   charges never were. The charge makes the debt higher by its cost. That difference shrinks only
//!   while the other run's limit is idle, so by no more than the time that has passed since; and no more
//!   is given back than is left of the difference.
//! * That argument needs a time no earlier than that of any charge in the word. A time that the caller gives may be
//!   earlier, and a window does not know which requests it was charged for. In both cases the charge stays until it drains.
//!   By a clock that is set back an undo may give back units of other requests, up to its own. If a word has the bits that
//!   the charge left, the caller's time is taken, or its shard's floor: see [`check_all`](crate::check_all).
//!
//! Where quotas change (of a `Limiter`, or of tiers) nothing is put back bit for bit: an unchanged word is amended as
//! by a cancellation, another as by a refund. Across a change of quota the charge stays. A sliding log gives back each
//! slot that still holds what was charged: it is free from the time of the charge on, also for callers that come late.
//!
//! So no limit ever admits above its bound, and a request that is denied costs at most itself. There is one exception: a `reset`
//! between a charge and its undo. The reset forgets the charge, and the undo gives back as much of what others were charged
//! since.

use crate::cell::{Cell, MeteredWord};
use crate::clock::{Clock, Timestamp};
use crate::decision::Permit;
use crate::meter::Meter;
use crate::refund::Amendment;
use crate::sync::{Fault, planted};
use crate::word::Word;

/// By how much the clocks of two threads may differ: what a floor trails the clock by, for the same
/// reason. A charge that drains faster than this is not worth giving back.
pub(crate) const SKEW_NS: u64 = 1 << 20;

/// A charge that is to be undone.
#[derive(Debug)]
pub(crate) struct Undo {
    pub(crate) permit: Permit,
    /// Whether the time of the charge was read from the limit's own clock.
    pub(crate) own_clock: bool,
}

impl Undo {
    /// A time that is no earlier than that of any charge, if there is one to be had.
    pub(crate) fn fresh(&self, clock: &Clock) -> Option<Timestamp> {
        self.own_clock.then(|| clock.now())
    }

    /// Undoes a charge whose word may be counted in another quota by now: whole, if no other request has built on it,
    /// else as far as it has not drained by a clock that is read after the word.
    pub(crate) fn amends(
        &self,
        clock: &Clock,
        amend: impl Fn(&dyn Fn() -> Timestamp, Amendment<'_>) -> u64,
    ) {
        let Some(charge) = self.permit.charge() else { return };
        let now = || self.fresh(clock).unwrap_or_else(|| self.permit.asked_at());
        // First as if no request had built on it: then all that has not drained comes back.
        let undone = amend(&now, Amendment::Undo(charge));
        // A window's count does not say whose units it holds.
        if undone == 0 && self.own_clock && charge.figures.is_gcra() {
            let later = || Timestamp::from_nanos(clock.now().as_nanos().saturating_add(SKEW_NS));
            amend(&later, Amendment::Refund(charge));
        }
    }
}

/// Undoes a charge of one word. `words` are the one that it found, and the one that it left.
pub(crate) fn undo_one(cell: &Cell, meter: &Meter, clock: &Clock, words: [Word; 2], undo: &Undo) {
    let [found, left] = words;
    let Some(charge) = undo.permit.charge() else { return };
    loop {
        let word = cell.load();
        // Only now: every thread that has charged this word read its clock before.
        let now = undo.fresh(clock);
        let next = if planted(Fault::UndoOverAnother) {
            found
        } else if word == left {
            // No request has built on the charge, or one has restored its bits: `rolled_back` is right for both, but for
            // what drained in between if the time is the caller's (see `check_all`).
            let now = now.unwrap_or_else(|| undo.permit.asked_at());
            MeteredWord::of(meter, left, now).rolled_back(found, charge)
        } else {
            // A time of the callers' own does not say what has drained.
            let Some(now) = now else { return };
            // A count does not say whose units it holds.
            if !charge.figures.is_gcra() {
                return;
            }
            let now = Timestamp::from_nanos(now.as_nanos().saturating_add(SKEW_NS));
            MeteredWord::of(meter, word, now).refunded(charge)
        };
        // Lock-free: it fails if another thread has changed the word, or for no reason.
        if next == word || cell.replace(word, next) {
            return;
        }
    }
}
