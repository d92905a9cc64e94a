//! Gives back units that were charged but not used.
//!
//! Units that have drained since they were charged cannot be given back: they are no longer owed. Giving them back
//! would forgive other units that were admitted since. A window gives units back only until a later window (or segment)
//! has been charged. Until then its count is the number of units charged less the number given back, in whatever order
//! this happened. GCRA has no count, so the rule is about times, in ticks:
//!
//! ```text
//! refund        cost - (max(now, TAT - burst) - time of the charge)
//! cancellation  cost - (now - turn), if the word has the very bits that the charge left
//!               turn = max(time of the charge, TAT left - max(burst, cost))
//! ```
//!
//! A *turn* is the instant from which a charge may be used. The turn of a check is the time of the check. The turn of a
//! reservation may lie in the future, and the reservation does not drain before its turn.
//!
//! Equal bits do not prove that there was no other request after the charge: a refund and an equal charge, both by
//! other requests, restore the bits. So a cancellation must not assume that the debt in the word is its own charge, and
//! has a bound like a refund.
//!
//! # Why the admissions less the refunds keep the bound
//! For an instant x, let the *sum at x* be the sum of all charges whose turn is at x or later. From each charge the
//! part that was given back is subtracted. The turn of the last charge is no earlier than `TAT - burst`, or `TAT -
//! cost` if its cost is above the burst. So the bound holds if for every x the sum at x is at most `TAT - x`. A charge
//! adds its cost to both sides, or finds an idle word, for which the sum is empty. A refund lowers `TAT - x` for every
//! x, but it lowers the sum only for an x up to the turn r of its charge. For every later x there is slack: since the
//! charge itself is in the sum at r, `TAT - x` exceeds the sum at x by at least `cost - (x - r)`. So the TAT may be
//! lowered by the slack at the *last* x whose sum is not empty. This x is L, the latest turn of all charges in the
//! word.
//!
//! * No check has a turn after `now`. As long as no refund has lowered the TAT, no reservation has a turn after `TAT -
//!   burst`. So `L <= max(now, TAT - burst)`, which gives the first rule above.
//! * A refund may lower the TAT while the turn of a reservation is still to come. But such a refund gives back less,
//!   since it subtracts the time `TAT - burst - now` until that turn. After this refund, the TAT is later than that
//!   turn by at least the whole debt of the charges in the word. Later charges and refunds keep this true. So any of
//!   these charges may be given back as if no turn were still to come.
//! * A cancellation before its turn finds the word as its charge has left it. If the TAT has never been earlier since
//!   the charge, all other charges in the word have earlier turns, and L is no later than the turn of this reservation.
//!   If the TAT was earlier, a refund had lowered it and given back less, as in the point above. After the turn of this
//!   reservation, no charge in a word with this TAT has a turn that is still to come, so `L <= now`.
//!
//! [`uncharge`](crate::Entry::uncharge) takes back any units that are owed, even the units of a reservation whose turn
//! is still to come. Nothing compensates for this: at that turn, as many units as were taken back may be admitted above
//! the bound.
//!
//! All this holds as long as `now` is no earlier than the time of any charge in the word. A time that the caller gives
//! ([`at`](crate::Entry::at)) may be earlier, and a [reset](crate::Entry::reset) forgets units for which there are
//! still permits. The documentation of these two methods says so.
//!
//! # Numbers
//! The reported number of units is rounded up, since part of the last unit may have drained. So the admissions less the
//! *reported* refunds keep the bound, too. Except for a reset, which reports 0, the number is above 0 if and only if
//! the word was changed.

use crate::algorithm::{Decides, Gcra, Held, Kernel, Ruled};
use crate::decision::View;

/// The ways to amend a word.
#[derive(Clone, Copy)]
pub(crate) enum Amendment<'a> {
    /// Give back as much of a charge as has not drained.
    Refund(&'a View),
    /// Undo the part of a charge that has not drained, if the word still has the bits that the charge left.
    Undo(&'a View),
    /// Take back this number of units, of any charges.
    Uncharge(u64),
    /// Forget everything that was charged.
    Reset,
}

impl Amendment<'_> {
    /// The charge that is given back, for a refund or an undo.
    pub(crate) fn charge(&self) -> Option<&View> {
        match self {
            Self::Refund(charge) | Self::Undo(charge) => Some(charge),
            Self::Uncharge(_) | Self::Reset => None,
        }
    }
}

/// The state of a word as it was found, and its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) held: Held,
    /// The instant from which `held` is measured.
    pub(crate) at_ns: u64,
    /// The latest time that is known to have come. It may be later than `at_ns`, since a word cannot be read from every
    /// instant.
    pub(crate) now_ns: u64,
}

impl Kernel {
    /// Gives back the part of a charge that has not drained. Returns the state of the word afterwards, and the number
    /// of units given back, rounded up. A charge under another quota or algorithm gives nothing back here.
    pub(crate) fn given_back(&self, found: Found, charge: &View) -> (Held, u64) {
        let Found { held, at_ns, now_ns } = found;
        // The charge was not made in this word: it was made under another quota or in a log.
        let Some(left) = charge.figures.held_under(self) else { return (held, 0) };
        match self {
            Self::Gcra(gcra) => {
                // The state may be measured from an instant before `now_ns`.
                let owed = held.ahead.saturating_sub(gcra.passed(at_ns, now_ns));
                gcra.given_back(held, owed, charge.cost, gcra.passed(charge.now_ns, now_ns))
            }
            // The word is still in the window (or segment) that was charged.
            _ if self.time(held, at_ns) == self.time(left, charge.at_ns) => {
                self.uncounted(held, charge.cost)
            }
            // The word is in another window (or segment) now, and gives back only units of that window.
            _ => (held, 0),
        }
    }

    /// [`given_back`](Self::given_back) for a word with the bits that the charge left. A reservation drains only from
    /// its turn on.
    pub(crate) fn undone(&self, found: Found, charge: &View) -> (Held, u64) {
        match (self, charge.figures.held_under(self)) {
            (Self::Gcra(gcra), Some(left)) => {
                // The charge drains from its turn on.
                let turn = gcra.turn(left, charge.at_ns, charge.now_ns, charge.cost);
                let owed = found.held.ahead.saturating_sub(gcra.passed(found.at_ns, found.now_ns));
                let passed = gcra.passed_since(turn, found.now_ns);
                gcra.undone(found.held, owed, charge.cost, passed)
            }
            // A window has no turns: its units may be used at once.
            _ => self.given_back(found, charge),
        }
    }

    /// Takes back up to `units` units of any charges. Returns the state of the word afterwards, and the number of units
    /// taken back, rounded up.
    fn uncharged(&self, found: Found, units: u64) -> (Held, u64) {
        let Found { held, at_ns, now_ns } = found;
        if let Self::Gcra(gcra) = self {
            let owed = held.ahead.saturating_sub(gcra.passed(at_ns, now_ns));
            return gcra.less_owed(held, owed, units, 0);
        }
        // `held` may be measured from an instant before `now_ns` (see [`Found`]). Only the window in force at `now_ns`
        // gives units back, and the word's own window may be over by then.
        let seen = held.seen_later(self.passed(at_ns, now_ns));
        // The window in force is the window in which a charge of one unit would be counted. (A charge of 0 units begins
        // no `from-first` window.) Only the time of the result is used. A ring's current count is then 1, which fits in
        // every packing.
        let current = self.charge_up_to(seen, self.moment(now_ns), 1, 1);
        let is_over = self.time(current, now_ns) != self.time(seen, now_ns);
        if is_over { (held, 0) } else { self.uncounted(held, units) }
    }

    /// True if all of a charge was still owed, so that `next` is `held` without the whole charge.
    fn is_whole(&self, held: Held, next: Held, units: u64, charge: &View) -> bool {
        match self {
            Self::Gcra(gcra) => {
                // Ticks are compared, since a part of the last unit may have drained.
                gcra.cost_ticks(charge.cost) == held.ahead.checked_sub(next.ahead)
            }
            _ => units == charge.cost,
        }
    }

    pub(crate) fn gcra(&self) -> Option<&Gcra> {
        if let Self::Gcra(gcra) = self { Some(gcra) } else { None }
    }

    pub(crate) fn is_gcra(&self) -> bool {
        matches!(self, Self::Gcra(_))
    }

    /// The absolute time of the word, modulo 2^64.
    fn time(&self, held: Held, at_ns: u64) -> u64 {
        self.moment(at_ns).unit.wrapping_add(held.ahead).wrapping_sub(held.behind)
    }

    /// Subtracts up to `units` units from the count of a window. Returns the state afterwards, and the number of units
    /// subtracted.
    fn uncounted(&self, held: Held, units: u64) -> (Held, u64) {
        match self {
            Self::SlidingWindow(window) => window.given_back(held, units),
            Self::SegmentedWindow(window) => window.given_back(held, units),
            // The words of these windows have one count. GCRA has no count and does not come here.
            Self::FixedWindow(_) | Self::CalendarWindow(_) | Self::FromFirst(_) | Self::Gcra(_) => {
                let units = units.min(held.counts);
                (Held { counts: held.counts - units, ..held }, units)
            }
        }
    }
}

/// During a penalty a word gives nothing back. A refund does not change the number of denials in a row.
impl Ruled<'_> {
    /// The state of a word after an amendment, and the number of units given back. `is_left` says if the word has the
    /// bits that a charge left. Equal bits may also come from another charge, after a refund or after the time has
    /// wrapped around. So the number of units given back must not rely on them.
    pub(crate) fn amend(
        &self,
        found: Found,
        amendment: Amendment<'_>,
        is_left: impl FnOnce(&View) -> bool,
    ) -> (Held, u64) {
        match amendment {
            Amendment::Refund(charge) => self.given_back(found, charge),
            Amendment::Undo(charge) if is_left(charge) => self.undone(found, charge),
            Amendment::Undo(_) => (found.held, 0),
            Amendment::Uncharge(units) => {
                self.amended(found, |found| self.kernel.uncharged(found, units))
            }
            // The word becomes idle. The word of a key stays in its cell until a sweep or another key takes the cell.
            Amendment::Reset => (Held::IDLE, 0),
        }
    }

    /// As [`Kernel::given_back`].
    pub(crate) fn given_back(&self, found: Found, charge: &View) -> (Held, u64) {
        self.amended(found, |found| self.kernel.given_back(found, charge))
    }

    /// As [`Kernel::undone`].
    pub(crate) fn undone(&self, found: Found, charge: &View) -> (Held, u64) {
        self.amended(found, |found| self.kernel.undone(found, charge))
    }

    fn amended(&self, found: Found, amend: impl FnOnce(Found) -> (Held, u64)) -> (Held, u64) {
        let Found { held, at_ns, .. } = found;
        // Without a penalty the whole word belongs to the algorithm, so no moment has to be computed.
        if self.rules.penalty.is_none() {
            let (next, units) = amend(found);
            return if units == 0 { (held, 0) } else { (next, units) };
        }
        let Some((own, denials)) = self.free(held, self.moment(at_ns)) else { return (held, 0) };
        let (next, units) = amend(Found { held: own, ..found });
        // If nothing is given back, nothing is changed. A word whose penalty is over also stays as it was found,
        // although `free` returns an idle state for it.
        if units == 0 { (held, 0) } else { (self.join(next, denials), units) }
    }

    /// Rolls a charge back in a word with the bits that the charge left. If all of the charge is still owed, the result
    /// is the state `before`, measured from the same instant. Otherwise the result owes at least as much as it would
    /// without the charge. In both cases its number of denials in a row is the number from before the charge.
    pub(crate) fn rolled_back(&self, found: Found, before: Held, charge: &View) -> Held {
        let Found { held, at_ns, .. } = found;
        let moment = self.moment(at_ns);
        let Some((own, _)) = self.free(held, moment) else { return held };
        let (next, units) = self.kernel.undone(Found { held: own, ..found }, charge);
        if self.kernel.is_whole(own, next, units, charge) {
            // All of the charge is still owed, so the word becomes what it was before the charge, including the number
            // of denials in a row.
            return before;
        }
        // The admission had set the number of denials in a row to 0, and the roll-back restores it.
        let denials = self.free(before, moment).map_or(0, |(_, denials)| denials);
        self.join(next, denials)
    }

    /// The state after a charge. Its number of denials in a row is 0, since the charge was an admission.
    pub(crate) fn left(&self, charge: &View) -> Held {
        self.join(charge.figures.held(), 0)
    }
}
