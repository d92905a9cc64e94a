//! Fixed window, aligned: at most `limit` units in each window `[k*W, (k+1)*W)` of the clock.
//!
//! The word is (window index, count). A new index starts at count 0.
//!
//! ```text
//! admit iff  count + cost <= limit
//! ```
//!
//! An interval of length W crosses at most one boundary, so at most 2 * limit units are admitted in it. A `now` before
//! the stored window is replaced by the start of that window.

use super::{Held, Moment};
use crate::divisor::Divisor;

/// The start of the window (or segment) that comes `ahead` windows after the window that contains `at_ns`.
pub(super) fn window_start_ns(at_ns: u64, window_ns: u64, ahead: u64) -> u64 {
    (at_ns / window_ns).saturating_add(ahead).saturating_mul(window_ns)
}

/// A fixed window on the clock's grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FixedWindow {
    pub(super) window: Divisor,
    pub(super) limit: u64,
}

impl FixedWindow {
    pub(crate) const fn new(limit: u64, window_ns: u64) -> Self {
        Self { window: Divisor::new(window_ns), limit }
    }

    #[inline(always)]
    pub(super) fn moment(&self, at_ns: u64) -> Moment {
        Moment { unit: self.window.divide(at_ns).0, into_ns: 0 }
    }

    #[inline]
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// The window in force: the stored window, or an empty window if the stored window is over.
    fn turn(held: Held) -> Held {
        if held.behind > 0 { Held::IDLE } else { held }
    }

    #[inline]
    pub(super) fn step(&self, held: Held, _: Moment, cost: u64) -> Option<Held> {
        let window = Self::turn(held);
        (window.counts <= self.limit - cost)
            .then(|| Held { counts: window.counts + cost, ..window })
    }

    /// Raises the count by a cost, whether it fits or not, but not above `most`. A count above `most` stays as it is.
    pub(super) fn charge_up_to(&self, held: Held, _: Moment, cost: u64, most: u64) -> Held {
        let window = Self::turn(held);
        let grown = most.min(window.counts.saturating_add(cost));
        Held { counts: grown.max(window.counts), ..window }
    }

    /// The number of units that count now. It is above the limit if the key has a debt.
    pub(super) fn used(held: Held) -> u64 {
        Self::turn(held).counts
    }

    pub(super) fn remaining(&self, held: Held) -> u64 {
        self.limit.saturating_sub(Self::used(held))
    }

    pub(super) fn ready_ns(&self, held: Held, at_ns: u64, cost: u64) -> u64 {
        let window = Self::turn(held);
        if window.counts <= self.limit - cost {
            return at_ns;
        }
        // The cost fits when the window after the one in force begins.
        window_start_ns(at_ns, self.window.get(), window.ahead.saturating_add(1))
    }
}
