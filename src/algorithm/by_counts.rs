//! Implements the traits of an algorithm for each kind of window.

use super::{
    Algorithm, CalendarWindow, Decides, FixedWindow, FromFirst, Held, Kernel, Moment,
    SegmentedWindow, SlidingWindow,
};
use crate::clock::LATEST_NS;

/// Implements the traits for one kind of window. A late request is decided in the word's window, no matter how late the
/// request is.
macro_rules! decides_by_counts {
    ($window:ident, $latest_ns:expr) => {
        impl Algorithm for $window {
            #[inline(always)]
            fn of(kernel: &Kernel) -> Option<&Self> {
                if let Kernel::$window(window) = kernel { Some(window) } else { None }
            }

            #[inline(always)]
            fn kernel(&self) -> Kernel {
                Kernel::$window(*self)
            }
        }

        impl Decides for $window {
            const COUNTS: bool = true;

            #[inline(always)]
            fn moment(&self, at_ns: u64) -> Moment {
                <$window>::moment(self, at_ns)
            }

            #[inline(always)]
            fn latest_ns(&self) -> u64 {
                $latest_ns
            }

            #[inline(always)]
            fn step(&self, held: Held, moment: Moment, _late: u64, cost: u64) -> Option<Held> {
                // A cost above the limit must not overflow the sum of the cost and the count.
                if cost > self.limit() { None } else { <$window>::step(self, held, moment, cost) }
            }
        }
    };
}
decides_by_counts!(FixedWindow, LATEST_NS);
decides_by_counts!(CalendarWindow, u64::MAX);
decides_by_counts!(FromFirst, LATEST_NS);
decides_by_counts!(SlidingWindow, LATEST_NS);
decides_by_counts!(SegmentedWindow, LATEST_NS);
