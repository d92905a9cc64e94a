//! [`Undo`]: a charge that is taken back because another limit has denied the request.
//!
//! * If a word is still the one that the charge left, the word from before the charge is put back. A refund and an
//!   equal charge of other requests may have restored those bits meanwhile. So under GCRA the part that has drained
//!   since the charge stays, as in a cancellation (`refund.rs`). A window has a count, which is the same in whatever
//!   order it came about.
//! * If other requests have been charged on top, the word from before means nothing any more. Under GCRA the units are
//!   then given back less the part that has drained since the charge, by a clock that is read after the word, and less
//!   [`SKEW_NS`]. This forgives no charge: compare with a run in which the undone charges never were. The charge makes
//!   the debt higher by its cost than in the other run. This difference shrinks only while the limit is idle in the
//!   other run, so by no more than the time that has passed since the charge. No more is given back than is left of the
//!   difference.
//! * The last argument needs a time that is no earlier than the time of any charge in the word. A time that the caller
//!   gives may be earlier, and a window does not know which requests it was charged for. In both cases the charge stays
//!   until it drains. If the clock is set back, an undo may give back units of other requests, up to its own cost. If a
//!   word has the bits that the charge left, the undo uses the caller's time, or the floor of the word's shard: see
//!   [`check_all`](crate::check_all).
//!
//! If the quotas of a `Limiter` or of tiers may change, nothing is put back bit for bit. An unchanged word is amended
//! as by a cancellation, a changed word as by a refund. A charge from before a change of quota stays. A sliding log
//! gives back each slot that still holds what was charged: the slot is free from the time of the charge on, even for
//! requests with an earlier time than now.
//!
//! So no limit ever admits above its bound, and a denied request leaves at most its own cost charged. There is one
//! exception: a `reset` between a charge and its undo. The reset forgets the charge, and the undo gives back as much of
//! what others were charged since.

use crate::cell::{Cell, MeteredWord};
use crate::clock::{Clock, Timestamp};
use crate::decision::Permit;
use crate::meter::Meter;
use crate::refund::Amendment;
use crate::sync::{Fault, planted};
use crate::word::Word;

/// The difference that the clocks of two threads may have. For the same reason a floor is this far behind the clock. A
/// charge that drains in less time than this is not worth giving back.
pub(crate) const SKEW_NS: u64 = 1 << 20;

/// A charge that is to be undone.
#[derive(Debug)]
pub(crate) struct Undo {
    pub(crate) permit: Permit,
    /// True if the time of the charge was read from the limit's own clock.
    pub(crate) own_clock: bool,
}

impl Undo {
    /// A time that is no earlier than that of any charge; `None` if the charge was made at a time of the caller's.
    pub(crate) fn fresh(&self, clock: &Clock) -> Option<Timestamp> {
        self.own_clock.then(|| clock.now())
    }

    /// Undoes a charge whose word may be counted in another quota by now. If no other request has been charged since,
    /// all that has not drained comes back. Otherwise the clock is read after the word, and less comes back, as in a
    /// refund.
    pub(crate) fn amends(
        &self,
        clock: &Clock,
        amend: impl Fn(&dyn Fn() -> Timestamp, Amendment<'_>) -> u64,
    ) {
        let Some(charge) = self.permit.charge() else { return };
        let now = || self.fresh(clock).unwrap_or_else(|| self.permit.asked_at());
        // The first try succeeds only if no request has been charged since. Then all that has not drained comes back.
        let undone = amend(&now, Amendment::Undo(charge));
        // A window's count does not say whose units it holds.
        if undone == 0 && self.own_clock && charge.figures.is_gcra() {
            let later = || Timestamp::from_nanos(clock.now().as_nanos().saturating_add(SKEW_NS));
            amend(&later, Amendment::Refund(charge));
        }
    }
}

/// Undoes a charge of one word. `words` are the word that the charge found and the word that it left.
pub(crate) fn undo_one(cell: &Cell, meter: &Meter, clock: &Clock, words: [Word; 2], undo: &Undo) {
    let [found, left] = words;
    let Some(charge) = undo.permit.charge() else { return };
    loop {
        let word = cell.load();
        // The clock is read only after the word: every thread that has charged this word read its clock before that.
        let now = undo.fresh(clock);
        let next = if planted(Fault::UndoOverAnother) {
            found
        } else if word == left {
            // No other request was charged since, or one has restored these bits. `rolled_back` is right in both cases.
            // If the time is the caller's, `check_all` names an exception.
            let now = now.unwrap_or_else(|| undo.permit.asked_at());
            MeteredWord::of(meter, left, now).rolled_back(found, charge)
        } else {
            // A time of the callers' own does not say what has drained.
            let Some(now) = now else { return };
            // A window's count does not say whose units it holds.
            if !charge.figures.is_gcra() {
                return;
            }
            let now = Timestamp::from_nanos(now.as_nanos().saturating_add(SKEW_NS));
            MeteredWord::of(meter, word, now).refunded(charge)
        };
        // Lock-free: this fails if another thread has changed the word, or spuriously.
        if next == word || cell.replace(word, next) {
            return;
        }
    }
}
