//! The *surplus* of a word: units that its key has spent under an earlier quota and that the quota in force cannot
//! count.
//!
//! Suppose that a limit of 100 is lowered to 1 when some keys have already spent 100 units. From then on the word of
//! such a key counts 1 of these units, so that the key waits for one unit of the new quota and no longer. The other 99
//! units are its surplus. No decision reads the surplus. If the limit is raised again at a time at which the old quota
//! would still count these units, the key owes them again. So a limit that is changed back and forth never admits more
//! than the largest limit that was in force.
//!
//! # How long it counts, and how much of it
//! [`Former`] records the quota under which a surplus was spent, and the instant T at which another quota replaced that
//! quota. At an instant `t`, this part of a surplus of `e` units still counts:
//!
//! ```text
//! GCRA, and GCRA since T    e - max(0, R * (t - T) - r * (t - T - idle))   R the rate before T, r the one since
//! anything else             as much as a word of the former quota still counts of e units charged at T
//! ```
//!
//! where `idle` is the time for which the key has owed nothing. The first line is exact as long as the key's debt has
//! not drained completely since T. After that it may count too many units, and never too few. This is the proof. Let C
//! be the number of units charged since T, and let r be at most R. The word's debt is at least `b' + C - r * (t - T)`,
//! where b' is its debt at T. A word that had stayed under the former quota would owe at most the larger of two debts:
//! `b' + e + C - R * (t - T)`, and the debt of the key's word. So the two debts differ by at most `e - (R - r) * (t -
//! T)`. If the key's debt had drained completely at `t - idle`, C is at most `r * (t - T - idle) - b'`.
//!
//! # How it is kept
//! A word keeps its surplus in the bits that its tag, index, time and counts leave free. There is at least one such
//! bit. The surplus is a number of steps, rounded up. With b bits a step is the largest possible surplus divided by
//! `2^b - 1`, rounded up. So a limit that is changed and changed back may admit up to one step less than without the
//! change, and never more.

use super::{Decides, Gcra, Held, Kernel};
use crate::sync::{Fault, planted};

/// The quota under which the surplus of words was spent, and the change that replaced this quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Former {
    pub(crate) kernel: Kernel,
    /// The instant of the change, at which the next quota came into force.
    pub(crate) at_ns: u64,
    /// The instant from which units that were spent before the change do not count any more.
    pub(crate) until_ns: u64,
    /// The largest surplus that a word can have.
    pub(crate) most: u64,
}

impl Former {
    /// Describes the surplus that words have after their quota is replaced at `at_ns`. `kernel` is the arithmetic of
    /// the replaced quota, and `most` is the largest number of units that one of its words can count. If the replaced
    /// quota had itself replaced another quota, `former` describes the surplus from that earlier change.
    pub(crate) fn of(kernel: Kernel, most: u64, former: Option<Self>, at_ns: u64) -> Self {
        let until_ns = kernel.idle_ns(kernel.full(at_ns), at_ns);
        let own = Self { kernel, at_ns, until_ns, most };
        match former.filter(|former| former.until_ns > at_ns) {
            // The surplus of the earlier change still counts. Only one of the two quotas can be stored, so the quota
            // with the larger limit is stored.
            Some(former) => Self {
                kernel: if former.kernel.limit() > kernel.limit() { former.kernel } else { kernel },
                until_ns: until_ns.max(former.until_ns),
                most: most.max(former.most),
                ..own
            },
            None => own,
        }
    }

    /// True if units that were spent before the change do not count any more.
    pub(crate) fn is_over(&self, at_ns: u64) -> bool {
        // The second condition is true only in a test that plants this fault.
        at_ns >= self.until_ns || planted(Fault::SurplusForgotten)
    }

    /// Returns how many of the `units` of a surplus still count at `at_ns`. The word is `held` at that instant, and
    /// `since` is the quota that replaced the former quota. A unit has `parts` parts; the answer is in parts, rounded
    /// up.
    pub(crate) fn left(
        &self,
        units: u64,
        at_ns: u64,
        since: &Kernel,
        held: Held,
        parts: u64,
    ) -> u128 {
        if self.is_over(at_ns) {
            return 0;
        }
        let whole = |units: u64| u128::from(units) * u128::from(parts);
        let (Kernel::Gcra(former), Kernel::Gcra(since)) = (&self.kernel, since) else {
            return whole(self.counted(units, at_ns));
        };
        // Converts ticks of a quota into parts, rounded down. These products stay far below 2^128: no more time has
        // passed since the change than a debt takes to drain, and a word has room for the ticks of that time.
        let of = |ticks: u64, gcra: &Gcra| whole(ticks) / u128::from(gcra.unit_ticks());
        let drained = of(former.passed(self.at_ns, at_ns), former);
        // The number of parts that have drained from the word's own debt must not be too small. The ticks and `of` are
        // both rounded down, so a tick is added before the conversion and a part after it.
        let own = of(since.passed(self.at_ns, at_ns).saturating_add(1), since) + 1;
        let idle = if held.ahead == 0 { of(held.behind, since) } else { 0 };
        whole(units).saturating_sub((drained + idle).saturating_sub(own))
    }

    /// Returns how many of the `units` would still count in a word of the former quota, if they had been charged at the
    /// instant of the change.
    fn counted(&self, units: u64, at_ns: u64) -> u64 {
        // The count of a window has room for no more than the limit.
        let charged = units.min(self.kernel.limit());
        let moment = self.kernel.moment(self.at_ns);
        let word = self.kernel.charge_up_to(Held::IDLE, moment, charged, self.kernel.limit_count());
        let seen = word.seen_later(self.kernel.passed(self.at_ns, at_ns));
        match self.kernel.used(seen, self.kernel.moment(at_ns)).min(charged) {
            0 => 0,
            counted => units - (charged - counted),
        }
    }
}

impl Kernel {
    /// The state of a word whose whole limit was charged at this instant, measured from this instant.
    fn full(&self, at_ns: u64) -> Held {
        let moment = self.moment(at_ns);
        self.charge_up_to(Held::IDLE, moment, self.limit(), self.limit_count())
    }

    /// The limit in the unit that [`charge_up_to`](Self::charge_up_to) takes for `most`: ticks for GCRA, units for
    /// windows.
    fn limit_count(&self) -> u64 {
        match self {
            Self::Gcra(gcra) => gcra.burst_ticks(),
            other => other.limit(),
        }
    }
}

/// Stores a number of units in a few bits, as a number of steps. With fewer bits, a step is larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SurplusScale {
    most: u64,
    step: u64,
}

/// The largest number of bits for a surplus. More bits would make the steps finer than necessary.
pub(crate) const SURPLUS_BITS_MAX: u32 = 16;

impl SurplusScale {
    /// Returns `None` if there is no bit for a surplus.
    pub(crate) fn new(bits: u32, most: u64) -> Option<Self> {
        // The largest number of steps that the bits can hold.
        let steps = (1 << bits.min(SURPLUS_BITS_MAX)) - 1;
        (steps > 0).then(|| Self { most, step: most.div_ceil(steps).max(1) })
    }

    /// Returns the number of steps for this number of units, rounded up. A number above `most` is treated as `most`.
    pub(crate) fn code(self, units: u64) -> u64 {
        units.min(self.most).div_ceil(self.step)
    }

    /// Converts a number of steps back to a number of units.
    pub(crate) fn units(self, code: u64) -> u64 {
        code.saturating_mul(self.step).min(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FixedWindow, Rounding, SlidingWindow};
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_surplus_is_told_to_the_unit_while_there_is_room_and_by_less_than_a_step_too_large() {
        for (bits, most) in [(1, 100), (2, 100), (5, 31), (5, 1_000), (8, 200), (16, u64::MAX)] {
            let scale = SurplusScale::new(bits, most).expect("a bit");
            let step = most.div_ceil((1 << bits) - 1);
            let numbers = (0..300).chain([most / 3, most - 1, most]).filter(|units| *units <= most);
            for units in numbers {
                let told = scale.units(scale.code(units));
                assert!(scale.code(units) < 1 << bits);
                assert!(told >= units && told - units < step, "{units} in {bits} bits: {told}");
                assert_eq!(told == 0, units == 0);
            }
        }
        assert_eq!(SurplusScale::new(0, 5), None);
    }

    #[test]
    fn under_gcra_a_surplus_drains_at_the_difference_of_the_rates() {
        let gcra = |count: u64, burst: u64| Kernel::Gcra(Gcra::new(count, 100 * SECOND, burst, 8));
        let (former, since) = (gcra(100, 100), gcra(10, 10));
        let record = Former::of(former, 200, None, 1_000 * SECOND);
        assert_eq!(record.until_ns, 1_100 * SECOND);
        let busy = Held { ahead: 1, ..Held::IDLE };
        let left = |later: u64, held| record.left(90, (1_000 + later) * SECOND, &since, held, 256);
        // Nine units drain in ten seconds. Each rate is rounded, so one tick more is left.
        assert_eq!(
            [0, 10, 50].map(|later| left(later, busy)),
            [90 << 8, (81 << 8) + 2, (45 << 8) + 2]
        );
        assert_eq!(left(100, busy), 0);
        // The key was idle for 20 s, in which two units would have drained.
        assert_eq!(left(50, Held { behind: 2 << 8, ..Held::IDLE }), (43 << 8) + 2);
        // Units that were spent under a slower quota drain at their own rate, even under a faster quota.
        let quick = gcra(1_000, 1);
        let idle = Held { behind: 100 << 8, ..Held::IDLE };
        assert_eq!(record.left(90, 1_010 * SECOND, &quick, idle, 256), (80 << 8) + 2);
    }

    #[test]
    fn under_windows_a_surplus_counts_as_a_charge_of_the_change_does() {
        let fixed = Kernel::FixedWindow(FixedWindow::new(100, 60 * SECOND));
        let sliding =
            Kernel::SlidingWindow(SlidingWindow::new(100, 60 * SECOND, Rounding::Down, 7));
        let left = |kernel, later: u64| {
            let record = Former::of(kernel, 100, None, 70 * SECOND);
            record.left(90, (70 + later) * SECOND, &kernel, Held::IDLE, 1)
        };
        assert_eq!([0, 49, 50].map(|later| left(fixed, later)), [90, 90, 0]);
        assert_eq!([0, 50, 80, 110].map(|later| left(sliding, later)), [90, 90, 45, 0]);
    }
}
