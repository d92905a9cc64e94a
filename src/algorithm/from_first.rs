//! Fixed window from the first request: the window opens when a request finds none open, and reopens
//! at age >= W.
//!
//! The word is (start, count); count 0 means that no window is open.
//!
//! ```text
//! admit iff  count + cost <= limit
//! ```
//!
//! Most in any half-open interval of length W: 2 * limit - 1 (closed, or if the request that opened a window is
//! given back: 2 * limit). A `now` before the
//! start counts as age 0.
//!
//! The start is kept in whole *quanta*, a power of ten nanoseconds and as fine as the word has room for,
//! and rounded up: a window may stay shut less than one quantum too long, and never opens early.

use super::{Held, Moment};
use crate::divisor::Divisor;

/// A fixed window that starts with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FromFirst {
    window_ns: u64,
    limit: u64,
    quantum: Divisor,
}

impl FromFirst {
    pub(crate) const fn new(limit: u64, window_ns: u64, quantum_ns: u64) -> Self {
        Self::of_parts(limit, window_ns, Divisor::new(quantum_ns))
    }

    /// With a divisor of the quantum that has been computed already.
    pub(super) const fn of_parts(limit: u64, window_ns: u64, quantum: Divisor) -> Self {
        Self { window_ns, limit, quantum }
    }

    pub(super) const fn window_ns(&self) -> u64 {
        self.window_ns
    }

    #[inline(always)]
    pub(super) fn moment(&self, at_ns: u64) -> Moment {
        let (unit, into_ns) = self.quantum.divide(at_ns);
        Moment { unit, into_ns }
    }

    #[inline]
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn quantum_ns(&self) -> u64 {
        self.quantum.get()
    }

    pub(super) const fn quantum(&self) -> Divisor {
        self.quantum
    }

    /// The window in force. An open one keeps its start; otherwise the next opens at the first whole
    /// quantum that is not before now, nor before the time of the word: a word whose units were given back
    /// still knows how far time has come, and a keyed one may not lie below its shard's floor.
    fn turn(&self, held: Held, moment: Moment) -> Held {
        let age_ns =
            u128::from(held.behind) * u128::from(self.quantum.get()) + u128::from(moment.into_ns);
        let over = held.ahead == 0 && age_ns >= u128::from(self.window_ns);
        if held.counts == 0 || over {
            return Held { ahead: held.ahead.max(u64::from(moment.into_ns > 0)), ..Held::IDLE };
        }
        held
    }

    #[inline]
    pub(super) fn step(&self, held: Held, moment: Moment, cost: u64) -> Option<Held> {
        let window = self.turn(held, moment);
        (window.counts <= self.limit - cost)
            .then(|| Held { counts: window.counts + cost, ..window })
    }

    /// What the word holds once `cost` units are added that were admitted elsewhere, at most the limit.
    /// The window stays the one in force: two words that saw the same requests may have opened theirs at
    /// different times, so this is no algorithm for a sketch.
    pub(super) fn add(&self, held: Held, moment: Moment, cost: u64) -> Held {
        let window = self.turn(held, moment);
        Held { counts: window.counts.saturating_add(cost).min(self.limit), ..window }
    }

    /// The count grows by a denied cost, up to `most`.
    pub(super) fn charge_denied(&self, held: Held, moment: Moment, cost: u64, most: u64) -> Held {
        let window = self.turn(held, moment);
        Held { counts: most.min(window.counts.saturating_add(cost)), ..window }
    }

    pub(super) fn remaining(&self, held: Held, moment: Moment) -> u64 {
        self.limit.saturating_sub(self.turn(held, moment).counts)
    }

    pub(super) fn ready_ns(&self, held: Held, at_ns: u64, cost: u64) -> u64 {
        if self.turn(held, self.moment(at_ns)).counts <= self.limit - cost {
            return at_ns;
        }
        // Saturating: the bits of a restored word may be any.
        let start =
            (at_ns / self.quantum.get()).saturating_add(held.ahead).saturating_sub(held.behind);
        start.saturating_mul(self.quantum.get()).saturating_add(self.window_ns)
    }

    /// Idle is: the whole limit would be admitted.
    pub(super) fn idle_ns(&self, held: Held, at_ns: u64) -> u64 {
        self.ready_ns(held, at_ns, self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_from_elsewhere_fill_the_window_up_to_the_limit() {
        let window = FromFirst::new(9, 60, 1);
        let held = Held { behind: 20, counts: 5, ..Held::IDLE };
        let moment = window.moment(100);
        assert_eq!(window.add(held, moment, 2), Held { counts: 7, ..held });
        assert_eq!(window.add(held, moment, 5), Held { counts: 9, ..held });
    }
}
