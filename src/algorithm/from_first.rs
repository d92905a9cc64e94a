//! Fixed window from the first request: a request that finds no open window opens a new one, which ends after the time
//! W.
//!
//! The word is (start, count); count 0 means that no window is open.
//!
//! ```text
//! admit iff  count + cost <= limit
//! ```
//!
//! At most 2 * limit - 1 units are admitted in any half-open interval of length W. The bound is 2 * limit if the
//! interval is closed, or if the request that opened a window is given back. If `now` is before the start of the
//! window, the age of the window is taken to be 0.
//!
//! The start is kept in whole *quanta*, rounded up. A quantum is the shortest power of ten nanoseconds for which the
//! word has room. So a window may end late by less than a quantum, and it never ends early.

use super::{Held, Moment};
use crate::divisor::Divisor;

/// A fixed window that starts with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FromFirst {
    pub(super) window_ns: u64,
    pub(super) limit: u64,
    pub(super) quantum: Divisor,
}

impl FromFirst {
    pub(crate) const fn new(limit: u64, window_ns: u64, quantum_ns: u64) -> Self {
        Self { window_ns, limit, quantum: Divisor::new(quantum_ns) }
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

    /// The window in force. An open window keeps its start. Otherwise the next window opens at the first whole quantum
    /// that is neither before now nor before the word's time. There are two reasons why it does not open before the
    /// word's time. A word whose units were all given back must not go back in time, and the time of a keyed word must
    /// not lie below its shard's floor.
    fn turn(&self, held: Held, moment: Moment) -> Held {
        // The age is the number of whole quanta since the start, plus the part of the present quantum that has passed.
        let age_ns =
            u128::from(held.behind) * u128::from(self.quantum.get()) + u128::from(moment.into_ns);
        let over = held.ahead == 0 && age_ns >= u128::from(self.window_ns);
        // No window is open, or its time is over.
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

    /// Raises the count by a cost, whether it fits or not, but not above `most`. A count above `most` stays as it is.
    pub(super) fn charge_up_to(&self, held: Held, moment: Moment, cost: u64, most: u64) -> Held {
        let window = self.turn(held, moment);
        let grown = most.min(window.counts.saturating_add(cost));
        Held { counts: grown.max(window.counts), ..window }
    }

    /// The number of units that count now. It is above the limit if the key has a debt.
    pub(super) fn used(&self, held: Held, moment: Moment) -> u64 {
        self.turn(held, moment).counts
    }

    pub(super) fn remaining(&self, held: Held, moment: Moment) -> u64 {
        self.limit.saturating_sub(self.used(held, moment))
    }

    pub(super) fn ready_ns(&self, held: Held, at_ns: u64, cost: u64) -> u64 {
        if self.turn(held, self.moment(at_ns)).counts <= self.limit - cost {
            return at_ns;
        }
        // The sums saturate, since a restored word may have any bits.
        let start =
            (at_ns / self.quantum.get()).saturating_add(held.ahead).saturating_sub(held.behind);
        start.saturating_mul(self.quantum.get()).saturating_add(self.window_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_that_need_not_fit_fills_the_window_up_to_where_it_is_to_stop() {
        let window = FromFirst::new(9, 60, 1);
        let held = Held { behind: 20, counts: 5, ..Held::IDLE };
        let moment = window.moment(100);
        assert_eq!(window.charge_up_to(held, moment, 2, 9), Held { counts: 7, ..held });
        assert_eq!(window.charge_up_to(held, moment, 5, 9), Held { counts: 9, ..held });
    }
}
