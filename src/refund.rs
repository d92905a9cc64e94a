//! Giving back: what was charged and is not used after all.
//!
//! What has drained since it was charged cannot be given back: it is no longer owed, and what was admitted
//! in its place would be forgiven instead. A window gives back only while it is the window (the segment)
//! that was charged: its count is what was charged less what was given back, in any order. GCRA has no
//! count, so there it is a matter of times, in ticks:
//!
//! ```text
//! refund        cost - (max(now, TAT - burst) - time of the charge)
//! cancellation  cost - (now - turn), if the word has the very bits that the charge left
//!               turn = max(time of the charge, TAT left - max(burst, cost))
//! ```
//!
//! A *turn* is the instant from which a charge may be used. That of a check is its own time; that of a
//! reservation may lie in the future, and until then nothing of it drains.
//!
//! Equal bits do not say that no request has built on the charge: a refund and an equal charge restore them. So
//! a cancellation may not take what the word holds for its own, and is bounded as a refund is.
//!
//! # Why what is admitted less what is given back keeps the bound
//! The bound holds if, for every instant x, what counts at x or later (each charge at its turn, less what
//! of it was given back) sums to at most `TAT - x`: the last charge to count has its turn no earlier than
//! `TAT - burst`. A charge adds its cost to both sides, or starts anew with an empty sum. What is given
//! back lowers the TAT for every x, but the sum only for those up to the turn r of its charge. For the
//! others there is the slack that at r the charge itself was in the sum: at x the TAT is above the sum by
//! `cost - (x - r)`. So it may be lowered by what that is at the *last* x with something in its sum: the
//! latest turn of all charges in the word, L.
//!
//! * No check has a turn after `now`, and while the word is as high as a reservation has made it, no
//!   reservation has one after `TAT - burst`. So `L <= max(now, TAT - burst)`: the refund.
//! * A refund that lowers the word below a reservation whose turn is still to come has paid for that: it
//!   gives back `TAT - burst - now` less than is owed now. From then on the TAT lies above that turn by
//!   everything that is owed by charges in the word, and charges and refunds leave it there: any of them
//!   may be given back as if no turn were to come.
//! * A cancellation before its turn finds the word that it left. If the word was never lower meanwhile, all
//!   that is left below it has its turn earlier, and L is no later than its own. If it was lower, that
//!   was paid for. After its turn no charge in a word as high as this has a turn still to come, so `L <=
//!   now`.
//!
//! Units that are taken back without a permit, [`uncharge`](crate::Entry::uncharge), may be any that are owed, those of
//! a turn to come among them. Nothing pays for that: at that turn up to as much is admitted above the bound as was
//! taken back before.
//!
//! All this as long as `now` is no earlier than the time of any charge in the word. A time of the
//! caller's own may be, and a [reset](crate::Entry::reset) forgives what permits still stand for:
//! both is said where they are offered.
//!
//! # Numbers
//! The number reported is rounded up: part of the last unit may have drained. So admitted less reported keeps the
//! bound, too; and it is above 0 exactly if the word was changed.

use crate::algorithm::{Decides, Gcra, Held, Kernel, Ruled};
use crate::decision::View;

/// How a word is amended.
#[derive(Clone, Copy)]
pub(crate) enum Amendment<'a> {
    /// Give back as much of a charge as has not drained.
    Refund(&'a View),
    /// Undo a charge as far as it has not drained, if the word is still the one that it left.
    Undo(&'a View),
    /// Take back so many units, whichever charges they are of.
    Uncharge(u64),
    /// Forget everything that was charged.
    Reset,
}

impl Amendment<'_> {
    /// The charge that is given back, if it is one.
    pub(crate) fn charge(&self) -> Option<&View> {
        match self {
            Self::Refund(charge) | Self::Undo(charge) => Some(charge),
            Self::Uncharge(_) | Self::Reset => None,
        }
    }
}

/// A word as it is found, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) held: Held,
    /// The instant that `held` is seen from.
    pub(crate) at_ns: u64,
    /// The latest time that is known to have come: the same, or later, beyond the word's reach.
    pub(crate) now_ns: u64,
}

impl Kernel {
    /// What a word holds after as much of a charge is given back as has not drained, and how many units
    /// that is, rounded up. A charge under another quota or algorithm gives nothing back here.
    pub(crate) fn given_back(&self, found: Found, charge: &View) -> (Held, u64) {
        let Found { held, at_ns, now_ns } = found;
        // Units of another quota, or of a log: they say nothing of this word.
        let Some(left) = charge.figures.held_under(self) else { return (held, 0) };
        match self {
            Self::Gcra(gcra) => {
                // The word may be read at an earlier instant than has come.
                let owed = held.ahead.saturating_sub(gcra.passed(at_ns, now_ns));
                gcra.given_back(held, owed, charge.cost, gcra.passed(charge.now_ns, now_ns))
            }
            // The window, or the segment, is still the one that was charged.
            _ if self.time(held, at_ns) == self.time(left, charge.at_ns) => {
                self.uncounted(held, charge.cost)
            }
            // It is over, and what was charged with it.
            _ => (held, 0),
        }
    }

    /// The same for a word with the bits that the charge left: what is reserved drains from its turn on.
    pub(crate) fn undone(&self, found: Found, charge: &View) -> (Held, u64) {
        match (self, charge.figures.held_under(self)) {
            (Self::Gcra(gcra), Some(left)) => {
                // Nothing of a reservation drains before its turn.
                let turn = gcra.turn(left, charge.at_ns, charge.now_ns, charge.cost);
                let owed = found.held.ahead.saturating_sub(gcra.passed(found.at_ns, found.now_ns));
                let passed = gcra.passed_since(turn, found.now_ns);
                gcra.undone(found.held, owed, charge.cost, passed)
            }
            // A window knows no turns: what it admits may be used at once.
            _ => self.given_back(found, charge),
        }
    }

    /// What a word holds with so many units less, whichever charges they are of, and how many units that is, rounded
    /// up.
    fn uncharged(&self, found: Found, units: u64) -> (Held, u64) {
        let Found { held, at_ns, now_ns } = found;
        if let Self::Gcra(gcra) = self {
            let owed = held.ahead.saturating_sub(gcra.passed(at_ns, now_ns));
            return gcra.less_owed(held, owed, units, 0);
        }
        // As seen from now, which may be beyond the word's reach: there a window may be over that is not at `at_ns`.
        let seen = held.seen_later(self.passed(at_ns, now_ns));
        // The window in force is that to which a charge of one unit turns: one of nothing begins none `from-first`. Only
        // its time is read; its counts, up to 1, fit in any ring.
        let current = self.charge_up_to(seen, self.moment(now_ns), 1, 1);
        let is_over = self.time(current, now_ns) != self.time(seen, now_ns);
        if is_over { (held, 0) } else { self.uncounted(held, units) }
    }

    /// Whether all of a charge was still owed: whether `next` is `held` without the whole of it.
    fn is_whole(&self, held: Held, next: Held, units: u64, charge: &View) -> bool {
        match self {
            Self::Gcra(gcra) => {
                // In ticks: of a unit that is given back a part may have drained.
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

    /// The word's time itself, modulo 2^64.
    fn time(&self, held: Held, at_ns: u64) -> u64 {
        self.moment(at_ns).unit.wrapping_add(held.ahead).wrapping_sub(held.behind)
    }

    /// A window's word with so many units less, as far as it has them.
    fn uncounted(&self, held: Held, units: u64) -> (Held, u64) {
        match self {
            Self::SlidingWindow(window) => window.given_back(held, units),
            Self::SegmentedWindow(window) => window.given_back(held, units),
            // One count. GCRA, which has none, does not come here.
            Self::FixedWindow(_) | Self::CalendarWindow(_) | Self::FromFirst(_) | Self::Gcra(_) => {
                let units = units.min(held.counts);
                (Held { counts: held.counts - units, ..held }, units)
            }
        }
    }
}

/// A penalised word gives nothing back; the denials in a row stay what they were.
impl Ruled<'_> {
    /// What a word holds after an amendment, and how many units that gives back. `is_left` says whether it has the bits
    /// that a charge left. Equal bits may also be another's, of a charge after a refund, or a whole wrap later: so nothing
    /// of what is given back rests on them.
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
            // The word stays, idle from now on; a key's until a sweep or a newcomer takes its cell.
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
        // Without a penalty the whole word is the algorithm's, and no moment need be worked out.
        if self.rules.penalty.is_none() {
            let (next, units) = amend(found);
            return if units == 0 { (held, 0) } else { (next, units) };
        }
        let Some((own, denials)) = self.free(held, self.moment(at_ns)) else { return (held, 0) };
        let (next, units) = amend(Found { held: own, ..found });
        // Nothing given back is nothing changed. A word whose penalty is over stays as it was found, too.
        if units == 0 { (held, 0) } else { (self.join(next, denials), units) }
    }

    /// What a word with the bits that a charge left holds after the charge is rolled back: what it held
    /// `before`, seen from the same instant, if all of the charge is still owed; else no less than is. In
    /// any case with the denials in a row of before.
    pub(crate) fn rolled_back(&self, found: Found, before: Held, charge: &View) -> Held {
        let Found { held, at_ns, .. } = found;
        let moment = self.moment(at_ns);
        let Some((own, _)) = self.free(held, moment) else { return held };
        let (next, units) = self.kernel.undone(Found { held: own, ..found }, charge);
        if self.kernel.is_whole(own, next, units, charge) {
            // All of it is still owed: as if it had never been, denials in a row included.
            return before;
        }
        // The admission has ended a row of denials: it goes on.
        let denials = self.free(before, moment).map_or(0, |(_, denials)| denials);
        self.join(next, denials)
    }

    /// What a word holds that a charge has left: an admission ends the denials in a row.
    pub(crate) fn left(&self, charge: &View) -> Held {
        self.join(charge.figures.held(), 0)
    }
}
