//! Giving back: what was charged and is not used after all.
//!
//! What has drained since it was charged cannot be given back: it is no longer owed, and whoever was
//! admitted in its place would be forgiven instead. So GCRA gives back `cost - rate * (now - then)`, and
//! a window gives back only while it is the window (the segment) that was charged.
//!
//! A *cancellation* is stricter and gives back more: if the word is still exactly the one that the charge
//! left, nobody has built on it, and the charge can be undone as if it had never been.

use crate::algorithm::{Decides, Held, Kernel, Ruled};
use crate::clock::{LATEST_NS, Timestamp};
use crate::decision::View;
use crate::meter::Meter;
use crate::sync::{Fault, planted};
use crate::word::Word;

/// A word as it is found, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) held: Held,
    /// The instant that `held` is seen from.
    pub(crate) at_ns: u64,
    /// The latest time that is known to have come: the same, or beyond the word's reach.
    pub(crate) now_ns: u64,
}

impl Kernel {
    /// What a word holds after as much of a charge is given back as has not drained, and how many whole
    /// units that is. The charge of a limiter with another policy is not this word's.
    pub(crate) fn given_back(&self, found: Found, charge: &View) -> (Held, u64) {
        let Found { held, at_ns, now_ns } = found;
        match self {
            _ if *self != charge.kernel => (held, 0),
            Self::Gcra(gcra) | Self::RuledGcra(gcra) => {
                gcra.given_back(held, charge.cost, gcra.passed(charge.now_ns, now_ns))
            }
            _ if self.time(held, at_ns) == self.time(charge.held, charge.at_ns) => {
                self.uncounted(held, charge.cost)
            }
            _ => (held, 0),
        }
    }

    /// What a word holds after a charge is undone that nobody has built on.
    pub(crate) fn undone(&self, held: Held, charge: &View) -> (Held, u64) {
        match self {
            Self::Gcra(gcra) | Self::RuledGcra(gcra) => gcra.undone(held, charge.cost),
            _ => self.uncounted(held, charge.cost),
        }
    }

    pub(crate) fn is_gcra(&self) -> bool {
        matches!(self, Self::Gcra(_) | Self::RuledGcra(_))
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
            Self::FixedWindow(_) | Self::FromFirst(_) | Self::Gcra(_) | Self::RuledGcra(_) => {
                let units = units.min(held.counts);
                (Held { counts: held.counts - units, ..held }, units)
            }
            Self::Log(_) => (held, 0), // has slots in place of a word
        }
    }
}

/// A penalised word gives nothing back; the denials in a row stay what they were.
impl Ruled<'_> {
    pub(crate) fn given_back(&self, found: Found, charge: &View) -> (Held, u64) {
        let Some((own, denials)) = self.free(found.held, self.moment(found.at_ns)) else {
            return (found.held, 0);
        };
        let (next, units) = self.kernel.given_back(Found { held: own, ..found }, charge);
        if units == 0 && next == own { (found.held, 0) } else { (self.join(next, denials), units) }
    }

    pub(crate) fn undone(&self, held: Held, at_ns: u64, charge: &View) -> (Held, u64) {
        let Some((own, denials)) = self.free(held, self.moment(at_ns)) else { return (held, 0) };
        let (next, units) = self.kernel.undone(own, charge);
        (self.join(next, denials), units)
    }

    /// What a word holds that a charge has left: an admission ends the denials in a row.
    pub(crate) fn left(&self, charge: &View) -> Held {
        self.join(charge.held, 0)
    }
}

impl Meter {
    /// The word after as much of a charge is given back as has not drained by `now`, and how many whole
    /// units that is.
    pub(crate) fn given_back(&self, word: Word, charge: &View, now: Timestamp) -> (Word, u64) {
        let now_ns = now.as_nanos().min(LATEST_NS);
        let ruled = self.ruled();
        let moment = ruled.moment(now_ns);
        let found = Found { held: self.fields.unpack(word, moment), at_ns: now_ns, now_ns };
        let (held, units) = ruled.given_back(found, charge);
        if held == found.held { (word, 0) } else { (self.fields.pack(held, moment), units) }
    }

    /// The word after a charge is undone, if it is still the one that the charge left.
    pub(crate) fn undone(&self, word: Word, charge: &View, now: Timestamp) -> Option<(Word, u64)> {
        let ruled = self.ruled();
        let left = self.fields.pack(ruled.left(charge), ruled.moment(charge.at_ns));
        let same = word == left || planted(Fault::UndoWhatChanged);
        if !same || self.kernel != charge.kernel {
            return None;
        }
        let now_ns = now.as_nanos().min(LATEST_NS);
        let moment = ruled.moment(now_ns);
        let (held, units) = ruled.undone(self.fields.unpack(word, moment), now_ns, charge);
        Some((self.fields.pack(held, moment), units))
    }

    /// The word of a limit that is as never used from `now` on.
    pub(crate) fn idle(&self, now: Timestamp) -> Word {
        self.fields.pack(Held::IDLE, self.kernel.moment(now.as_nanos().min(LATEST_NS)))
    }
}
