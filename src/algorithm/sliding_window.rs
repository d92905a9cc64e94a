//! Sliding window of two counters: the count of the previous window is weighted by the part of that window that still
//! lies within W before now.
//!
//! The word is (window index, previous count, current count). With `e` the time since the current
//! window began:
//!
//! ```text
//! down    admit iff  floor(previous * (W - e) / W) + current + cost <= limit       `sliding-window`
//! exact   admit iff  previous * (W - e) + (current + cost) * W <= limit * W        `sliding-window exact`
//! strict  admit iff  previous + current + cost <= limit                            `sliding-window strict`
//! ```
//!
//! In any interval of length W, `down` admits at most 2 * limit units, `exact` at most 2 * limit - 1 units, and
//! `strict` at most limit units. Under saturation, `down` admits limit units per window, `exact` limit - 1 units per
//! window (or one unit per two windows, if the limit is 1), and `strict` limit units per two windows. A `now` before
//! the stored window is replaced by the start of that window.

use super::fixed_window::window_start_ns;
use super::{Held, Moment};
use crate::divisor::Divisor;

/// How a [sliding window](crate::Algorithm::SlidingWindow) rounds the previous window's share to whole units.
///
/// *W* is the quota's period and *L* its count, as in [`Algorithm`](crate::Algorithm). In a policy's text, the rounding
/// is a word after the quota. Without such a word it is `Down`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// `exact`: the share is not rounded. Rounding it up would give the same answers, since costs are whole numbers. At
    /// most 2L - 1 units are admitted in W, and L - 1 per W under saturation, or one per 2W if L is 1.
    Exact,
    /// The share is rounded down, as textbooks and many systems do. At most 2L units are admitted in W, and L per W
    /// under saturation.
    #[default]
    Down,
    /// `strict`: the previous window counts in full. At most L units are admitted in W, and L per 2W under saturation,
    /// which is half the named rate.
    Strict,
}

/// Two windows' counters on the clock's grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlidingWindow {
    pub(super) window: Divisor,
    pub(super) limit: u64,
    pub(super) rounding: Rounding,
    pub(super) count_bits: u8,
}

/// The two counters that apply at a moment, and the time since the current window began.
struct Turned {
    ahead: u64,
    previous: u64,
    current: u64,
    elapsed_ns: u64,
}

impl SlidingWindow {
    /// `count_bits` is wide enough for every count: up to the limit, or up to the higher bound for counted denials or
    /// for a debt.
    pub(crate) const fn new(
        limit: u64,
        window_ns: u64,
        rounding: Rounding,
        count_bits: u8,
    ) -> Self {
        Self { window: Divisor::new(window_ns), limit, rounding, count_bits }
    }

    /// Unpacks the previous and the current count.
    pub(super) fn split(&self, counts: u64) -> (u64, u64) {
        (counts >> self.count_bits, counts & ((1 << self.count_bits) - 1))
    }

    /// The inverse of [`Self::split`].
    pub(super) fn joined(&self, previous: u64, current: u64) -> u64 {
        (previous << self.count_bits) | current
    }

    #[inline(always)]
    pub(super) fn moment(&self, at_ns: u64) -> Moment {
        let (unit, into_ns) = self.window.divide(at_ns);
        Moment { unit, into_ns }
    }

    #[inline]
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    fn turn(&self, held: Held, moment: Moment) -> Turned {
        let (previous, current) = match (held.behind, self.split(held.counts)) {
            (0, counts) => counts,
            // The next window has begun, so the word's current count is the previous one now.
            (1, (_, current)) => (current, 0),
            // More than one window has begun since, so neither count matters any more.
            _ => (0, 0),
        };
        // A request before the word's window is decided at the start of that window.
        let elapsed_ns = if held.ahead > 0 { 0 } else { moment.into_ns };
        Turned { ahead: held.ahead, previous, current, elapsed_ns }
    }

    /// The largest `previous * (W - e)` at which the cost still fits, where `spare` is limit - current - cost. For
    /// `strict`, e is taken to be 0; see [`Self::covered_ns`].
    fn allowance(&self, spare: u64) -> u128 {
        let window = u128::from(self.window.get());
        match self.rounding {
            // The test is previous * (W - e) + (current + cost) * W <= limit * W. Here the second term is subtracted on
            // both sides.
            Rounding::Exact | Rounding::Strict => u128::from(spare) * window,
            // floor(x / W) <= spare means x < (spare + 1) * W.
            Rounding::Down => (u128::from(spare) + 1) * window - 1,
        }
    }

    /// The length of the part of the previous window that still counts when `elapsed_ns` of the current window have
    /// passed.
    fn covered_ns(&self, elapsed_ns: u64) -> u64 {
        match self.rounding {
            Rounding::Strict => self.window.get(),
            Rounding::Exact | Rounding::Down => self.window.get() - elapsed_ns,
        }
    }

    fn admits(&self, turned: &Turned, cost: u64) -> bool {
        // `None` means that the current count alone leaves no room.
        let Some(spare) = (self.limit - cost).checked_sub(turned.current) else { return false };
        let covered = u128::from(self.covered_ns(turned.elapsed_ns));
        u128::from(turned.previous) * covered <= self.allowance(spare)
    }

    #[inline]
    pub(super) fn step(&self, held: Held, moment: Moment, cost: u64) -> Option<Held> {
        let turned = self.turn(held, moment);
        self.admits(&turned, cost).then(|| Held {
            ahead: turned.ahead,
            behind: 0,
            counts: self.joined(turned.previous, turned.current + cost),
        })
    }

    /// Raises the current count by a cost, whether it fits or not, but not above `most`. A count above `most` stays
    /// as it is.
    pub(super) fn charge_up_to(&self, held: Held, moment: Moment, cost: u64, most: u64) -> Held {
        let turned = self.turn(held, moment);
        let current = most.min(turned.current.saturating_add(cost)).max(turned.current);
        Held { ahead: turned.ahead, behind: 0, counts: self.joined(turned.previous, current) }
    }

    pub(super) fn remaining(&self, held: Held, moment: Moment) -> u64 {
        self.limit.saturating_sub(self.used(held, moment))
    }

    /// The number of units that count now. Counted denials and a debt may raise it above the limit.
    pub(super) fn used(&self, held: Held, moment: Moment) -> u64 {
        let turned = self.turn(held, moment);
        let window = u128::from(self.window.get());
        let share = u128::from(turned.previous) * u128::from(self.covered_ns(turned.elapsed_ns));
        // A part of a unit counts as a whole unit, unless shares are rounded down.
        let weighed = match self.rounding {
            Rounding::Exact | Rounding::Strict => share.div_ceil(window),
            Rounding::Down => share / window,
        };
        // The weighted count is at most `previous`, so it fits.
        u64::try_from(weighed).unwrap_or(u64::MAX).saturating_add(turned.current)
    }

    /// Adds units that were spent at `spent_ns` to the previous window. Returns the word, and the units for which that
    /// window has no room. Returns `None` if `spent_ns` does not lie in that window.
    pub(super) fn with_previous(
        &self,
        held: Held,
        moment: Moment,
        spent_ns: u64,
        units: u64,
    ) -> Option<(Held, u64)> {
        let turned = self.turn(held, moment);
        let window = moment.unit.saturating_add(turned.ahead);
        if self.moment(spent_ns).unit.checked_add(1) != Some(window) {
            return None;
        }
        let fits = units.min(self.limit.saturating_sub(turned.previous));
        let counts = self.joined(turned.previous + fits, turned.current);
        Some((Held { ahead: turned.ahead, behind: 0, counts }, units - fits))
    }

    /// Gives back up to `units` units of the word's current window. Returns the word, and how many units were given
    /// back.
    pub(crate) fn given_back(&self, held: Held, units: u64) -> (Held, u64) {
        let units = units.min(self.split(held.counts).1);
        (Held { counts: held.counts - units, ..held }, units)
    }

    /// Returns the number of nanoseconds from the start of a window until its weighted previous count is at most
    /// `spare`. It is at most the length of the window. Returns `None` if the count stays above `spare` until the
    /// window ends.
    fn wait_in_window(&self, previous: u64, spare: u64) -> Option<u64> {
        // The previous count fits in full.
        if previous == 0 || previous <= spare {
            return Some(0);
        }
        // Under `strict` the previous window counts in full until the window ends.
        if self.rounding == Rounding::Strict {
            return None;
        }
        // Finds the least e for which previous * (W - e) <= allowance. The quotient is at most W.
        let covered = self.allowance(spare) / u128::from(previous);
        let covered = u64::try_from(covered).unwrap_or(u64::MAX).min(self.window.get());
        Some(self.window.get() - covered)
    }

    pub(super) fn ready_ns(&self, held: Held, at_ns: u64, cost: u64) -> u64 {
        let turned = self.turn(held, self.moment(at_ns));
        let start = |windows: u64| {
            window_start_ns(at_ns, self.window.get(), turned.ahead.saturating_add(windows))
        };
        let spare = self.limit - cost;
        // If the current count leaves room for the cost, the cost may fit in the current window, when enough of the
        // previous count has left.
        let here = spare
            .checked_sub(turned.current)
            .and_then(|spare| self.wait_in_window(turned.previous, spare));
        if let Some(wait_ns) = here {
            return start(0).saturating_add(wait_ns);
        }
        // Otherwise the cost fits in the next window, where the current count has become the previous count, or at the
        // end of that window.
        match self.wait_in_window(turned.current, spare) {
            Some(wait_ns) => start(1).saturating_add(wait_ns),
            None => start(2),
        }
    }

    /// The first instant at which neither count matters any more, so that the whole limit would be admitted.
    pub(super) fn idle_ns(&self, held: Held, at_ns: u64) -> u64 {
        let turned = self.turn(held, self.moment(at_ns));
        // This also holds if the word's window lies ahead, since a window without counts denies no request.
        if turned.current == 0 && turned.previous == 0 {
            return at_ns;
        }
        self.ready_ns(held, at_ns, self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_of_the_current_window_alone() {
        let window = SlidingWindow::new(9, 60, Rounding::Exact, 4);
        let held = Held { counts: 0x76, ..Held::IDLE };
        assert_eq!(window.given_back(held, 2), (Held { counts: 0x74, ..held }, 2));
        assert_eq!(window.given_back(held, 8), (Held { counts: 0x70, ..held }, 6));
    }
}
