//! [`Undo`]: takes a charge back, because another limit has denied the request.
//!
//! * If the word still has the bits that the charge left, the word from before the charge is restored. A refund and an
//!   equal charge by other requests may have restored these bits meanwhile. So under GCRA the part that has drained
//!   since the charge is not given back, as in a cancellation (`refund.rs`). For a window the restored count is right
//!   in any case, since the order of charges and refunds does not change it.
//! * If other requests have been charged since, the word from before the charge is of no use. Under GCRA the units are
//!   then given back, less the part that has drained since the charge by a clock that is read after the word, and less
//!   [`SKEW_NS`]. This gives back no units of other charges. To see this, compare the run with a run without the undone
//!   charge. The charge raises the debt above the debt in the other run by its cost. This difference shrinks only while
//!   the limit is idle in the other run, so it shrinks by at most the time that has passed since the charge. The undo
//!   gives back at most the difference that is left.
//! * This argument needs a time that is no earlier than the time of any charge in the word. A time that the caller
//!   gives may be earlier, so a charge at such a time stays until it drains. A charge in a window also stays, since the
//!   count does not show which units are in it. If the clock is set back, an undo may give back units of other
//!   requests, up to its own cost. There is one exception: if the word still has the bits that the charge left, a
//!   charge at a time that the caller gave is undone. The undo uses that time, or the floor of the word's shard: see
//!   [`check_all`](crate::check_all).
//!
//! If the quotas of a `Limiter` or of tiers may change, no word is restored bit for bit. A word that has not changed
//! since the charge is amended as in a cancellation, and any other word as in a refund. A charge from before a change
//! of quota is not undone. A sliding log gives back each slot that still has the time from the charge: the slot is then
//! free from the time of the charge on.
//!
//! So no limit ever admits above its bound, and a denied request leaves at most its own cost charged. There is one
//! exception: a `reset` between a charge and its undo. The reset forgets the charge, and the undo then gives back as
//! many units of later charges.

use crate::cell::{Cell, MeteredWord};
use crate::clock::{Clock, Timestamp};
use crate::decision::Permit;
use crate::meter::Meter;
use crate::refund::Amendment;
use crate::sync::{Fault, planted};
use crate::word::Word;

/// The largest expected difference between the clock readings of two threads. For the same reason a floor lies this far
/// behind the clock. A charge that drains in less time than this is not given back.
pub(crate) const SKEW_NS: u64 = 1 << 20;

/// A charge that is to be undone.
#[derive(Debug)]
pub(crate) struct Undo {
    pub(crate) permit: Permit,
    /// True if the time of the charge was read from the limit's own clock.
    pub(crate) own_clock: bool,
}

impl Undo {
    /// A time that is no earlier than the time of any charge; `None` if the caller gave the time of the charge.
    pub(crate) fn fresh(&self, clock: &Clock) -> Option<Timestamp> {
        self.own_clock.then(|| clock.now())
    }

    /// Undoes a charge of a word that may belong to another quota now. If no other request has been charged since, all
    /// units that have not drained come back. Otherwise fewer units come back, as in a refund, and the clock is read
    /// after the word.
    pub(crate) fn amends(
        &self,
        clock: &Clock,
        amend: impl Fn(&dyn Fn() -> Timestamp, Amendment<'_>) -> u64,
    ) {
        let Some(charge) = self.permit.charge() else { return };
        let now = || self.fresh(clock).unwrap_or_else(|| self.permit.asked_at());
        // The first try succeeds only if no request has been charged since. Then all units that have not drained come
        // back.
        let undone = amend(&now, Amendment::Undo(charge));
        // The count of a window does not show whose units it holds.
        if undone == 0 && self.own_clock && charge.figures.is_gcra() {
            let later = || Timestamp::from_nanos(clock.now().as_nanos().saturating_add(SKEW_NS));
            amend(&later, Amendment::Refund(charge));
        }
    }
}

/// Undoes a charge of one word. `words` are the words before and after the charge.
pub(crate) fn undo_one(cell: &Cell, meter: &Meter, clock: &Clock, words: [Word; 2], undo: &Undo) {
    let [found, left] = words;
    let Some(charge) = undo.permit.charge() else { return };
    loop {
        let word = cell.load();
        // The clock is read only after the word, so that the reading is no earlier than that of any thread that has
        // charged this word.
        let now = undo.fresh(clock);
        let next = if planted(Fault::UndoOverAnother) {
            found
        } else if word == left {
            // Either no other request was charged since, or other requests have restored these bits. `rolled_back` is
            // right in both cases. For a time that the caller gave there is an exception: see `check_all`.
            let now = now.unwrap_or_else(|| undo.permit.asked_at());
            MeteredWord::of(meter, left, now).rolled_back(found, charge)
        } else {
            // If the caller gave the time, it is not known how much has drained.
            let Some(now) = now else { return };
            // The count of a window does not show whose units it holds.
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
