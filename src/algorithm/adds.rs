//! The two functions that an algorithm needs for use in a sketch. One computes the load of a word, so that the least
//! loaded of several words can be found. The other computes the state of a word after the addition of units that were
//! admitted elsewhere.
//!
//! An add never lets a word admit a request that it would have denied before. There is also a bound up to which adds
//! raise a word. Each algorithm states this bound, and why units beyond it need not be counted.

use super::{Decides, Gcra, Held, Kernel, Moment};

/// The load of a word for a request. The word with the smaller load admits more.
///
/// Loads are compared by their windows first. A word whose window lies ahead of the request decides the request in that
/// window. So two words are compared by their used amounts only if they have the same window. Otherwise the word with
/// the nearest window decides: see [`crate::sketch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Load {
    /// The number of windows by which the word's window lies ahead of the request's; 0 for GCRA, which has no windows.
    pub(crate) windows_ahead: u64,
    /// The amount that is used: in ticks for GCRA, and in units for windows. For windows, limit + 1 stands for every
    /// amount above the limit.
    pub(crate) used: u64,
}

/// An algorithm whose words several keys may share.
pub(crate) trait Adds: Decides {
    /// The load of the word for a request at this moment.
    fn load(&self, held: Held, moment: Moment) -> Load;

    /// The state after `cost` units are added, whether they fit or not.
    fn add(&self, held: Held, moment: Moment, cost: u64) -> Held;
}

impl Adds for Gcra {
    #[inline(always)]
    fn load(&self, held: Held, _: Moment) -> Load {
        Load { windows_ahead: 0, used: held.ahead }
    }

    #[inline(always)]
    fn add(&self, held: Held, moment: Moment, cost: u64) -> Held {
        Self::add(self, held, moment, cost)
    }
}

impl Adds for Kernel {
    fn load(&self, held: Held, moment: Moment) -> Load {
        match self {
            Self::Gcra(gcra) => Adds::load(gcra, held, moment),
            window => {
                // The amount used is the limit less the remaining amount, which each algorithm computes from its
                // counts.
                let remaining = window.remaining(held, moment, 0);
                // The two counts of a sliding window may sum to more than the limit. Then not even a cost of 0 fits.
                let is_over = remaining == 0 && window.step(held, moment, 0, 0).is_none();
                let used = window.limit() - remaining + u64::from(is_over);
                Load { windows_ahead: held.ahead, used }
            }
        }
    }

    fn add(&self, held: Held, moment: Moment, cost: u64) -> Held {
        match self {
            Self::Gcra(gcra) => gcra.add(held, moment, cost),
            // If the ring is full, its oldest units are dropped, so that the newest units still count when the oldest
            // segments have left the window.
            Self::SegmentedWindow(window) => window.add(held, cost),
            // The current count stops at the limit. At the limit nothing is admitted, and no single key can have more
            // units than the limit in one window. So units beyond the limit need not be counted.
            other => other.charge_up_to(held, moment, cost, other.limit()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FixedWindow, FromFirst, Packing, Rounding, SegmentedWindow, SlidingWindow};
    use super::*;

    const WINDOW_NS: u64 = 60;
    const LIMIT: u64 = 5;
    /// The instant of the last add that [`words`] makes.
    const LAST_NS: u64 = 70;

    /// Every kind of window but those of the calendar, with a limit of 5 in 60 ns. The segmented window comes in each
    /// packing.
    fn windows() -> [Kernel; 8] {
        let sliding =
            |rounding| Kernel::SlidingWindow(SlidingWindow::new(LIMIT, WINDOW_NS, rounding, 3));
        let (summed, _) = Packing::all(LIMIT, 3).nth(1).expect("a packing");
        let segmented = |packing| {
            Kernel::SegmentedWindow(SegmentedWindow::new(LIMIT, WINDOW_NS / 3, 3, 3, packing))
        };
        [
            Kernel::FixedWindow(FixedWindow::new(LIMIT, WINDOW_NS)),
            Kernel::FromFirst(FromFirst::new(LIMIT, WINDOW_NS, 1)),
            sliding(Rounding::Exact),
            sliding(Rounding::Down),
            sliding(Rounding::Strict),
            segmented(Packing::SIDE_BY_SIDE),
            segmented(summed),
            segmented(Packing::RANKED),
        ]
    }

    /// The number of units that still count at `later_ns` in a word whose state is measured from `at_ns`.
    fn used(kernel: &Kernel, held: Held, at_ns: u64, later_ns: u64) -> u64 {
        let passed = kernel.passed(at_ns, later_ns);
        let moment = kernel.moment(later_ns);
        LIMIT - kernel.remaining(held.seen_later(passed), moment, 0)
    }

    /// Every word that can result from at most one add at each of the instants 0, 50 and 70 ns. These instants lie in
    /// two windows, or in four segments.
    fn words(kernel: &Kernel) -> Vec<Held> {
        let mut words = vec![Held::IDLE];
        for (from_ns, to_ns) in [(0, 0), (0, 50), (50, LAST_NS)] {
            let passed = kernel.passed(from_ns, to_ns);
            let later: Vec<_> = words.iter().map(|held| held.seen_later(passed)).collect();
            words = later
                .iter()
                .flat_map(|&held| {
                    (0..=LIMIT + 1).map(move |cost| match cost {
                        0 => held,
                        _ => kernel.add(held, kernel.moment(to_ns), cost),
                    })
                })
                .collect();
        }
        words
    }

    #[test]
    fn an_add_that_fits_is_the_charge_itself() {
        for kernel in windows() {
            for held in words(&kernel) {
                let moment = kernel.moment(LAST_NS);
                for cost in 1..=LIMIT {
                    if let Some(charged) = kernel.step(held, moment, 0, cost) {
                        assert_eq!(kernel.add(held, moment, cost), charged, "{kernel:?} {cost}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_add_lowers_nothing_then_or_later_and_counts_in_full_up_to_the_limit() {
        for kernel in windows() {
            for held in words(&kernel) {
                for cost in [1, 2, LIMIT, LIMIT + 1, u64::MAX] {
                    let added = kernel.add(held, kernel.moment(LAST_NS), cost);
                    for later_ns in (LAST_NS..250).step_by(5) {
                        let [before, after] =
                            [held, added].map(|held| used(&kernel, held, LAST_NS, later_ns));
                        assert!(after >= before, "{kernel:?} {held:?} {cost} at {later_ns}");
                    }
                    let before = used(&kernel, held, LAST_NS, LAST_NS);
                    let after = used(&kernel, added, LAST_NS, LAST_NS);
                    assert_eq!(after, before.saturating_add(cost).min(LIMIT), "{kernel:?} {cost}");
                }
            }
        }
    }

    #[test]
    fn a_full_ring_makes_room_for_the_newest_by_its_oldest() {
        for (packing, _) in Packing::all(LIMIT, 3) {
            let ring = SegmentedWindow::new(LIMIT, 20, 3, 3, packing);
            let kernel = Kernel::SegmentedWindow(ring);
            let (start, later) = (kernel.moment(0), kernel.moment(20));
            // The first segment holds five units of other keys. Two more units, which were admitted elsewhere, are
            // added in the second segment.
            let full = kernel.add(Held::IDLE, start, 5).seen_later(1);
            let held = kernel.add(full, later, 2);
            // The two units still count after the first segment has left the window.
            let used =
                |passed| LIMIT - kernel.remaining(held.seen_later(passed), kernel.moment(20), 0);
            assert_eq!([0, 1, 2, 3].map(used), [5, 5, 2, 0]);
        }
    }

    #[test]
    fn gcra_stops_at_two_bursts_and_at_the_end_of_its_word() {
        let gcra = Gcra::new(1, 1, 3, 0);
        let moment = gcra.moment(10);
        let added = |ahead, cost| gcra.add(Held { ahead, ..Held::IDLE }, moment, cost).ahead;
        assert_eq!([0, 1, 4, 5, 6, 7].map(|ahead| added(ahead, 2)), [2, 3, 6, 6, 6, 7]);
        assert_eq!(added(0, u64::MAX), 6);
        // A word whose time lies behind now owes nothing.
        let idle = Held { behind: 9, ..Held::IDLE };
        assert_eq!(gcra.add(idle, moment, 2), Held { ahead: 2, ..Held::IDLE });
        // Two bursts from now may be beyond the last instant that a word can hold.
        let vast = Gcra::new(1, 1, (1 << 63) - 1, 0);
        let end = Moment { unit: (1 << 63) - 1, into_ns: 0 };
        let last = vast.add(Held { ahead: (1 << 63) - 1, ..Held::IDLE }, end, (1 << 63) - 1);
        assert_eq!(end.unit + last.ahead, u64::MAX);
        assert_eq!(vast.step(last, end, 0, 1), None);
    }

    #[test]
    fn the_nearest_window_holds_least_and_then_the_emptiest() {
        let kernel = Kernel::FixedWindow(FixedWindow::new(LIMIT, WINDOW_NS));
        let load =
            |ahead, behind, counts| kernel.load(Held { ahead, behind, counts }, kernel.moment(60));
        assert!(load(0, 0, 4) < load(0, 0, 5));
        assert!(load(0, 0, 5) < load(1, 0, 1));
        assert_eq!(load(0, 1, 5), load(0, 0, 0));
    }

    #[test]
    fn a_window_that_holds_more_than_its_limit_holds_more_than_a_full_one() {
        let sliding = SlidingWindow::new(LIMIT, WINDOW_NS, Rounding::Exact, 3);
        let kernel = Kernel::SlidingWindow(sliding);
        let load =
            |counts| kernel.load(Held { counts, ..Held::IDLE }, kernel.moment(WINDOW_NS + 30)).used;
        // Each octal number has the previous count and the current count as its digits. At this instant half of the
        // previous window still counts.
        assert_eq!([0o05, 0o14, 0o15, 0o25, 0o55].map(load), [5, 5, 6, 6, 6]);
    }
}
