//! Requests that a sketch decides at a later instant than their own now: those of a keyed table, whose time
//! floor may have passed them.
//!
//! The cells are read and charged at the later instant, so that nothing is forgotten that was charged until
//! then; but the test is with the request's own now, as it is where a table gives a late key a cell. The
//! proof in [`super::rows`] stays as it is: a charge from a later instant is no smaller, an add stops no
//! earlier than two bursts after the request's own now, and the test is stricter.

use crate::algorithm::{Adds, Decides, Held, Kernel, Load, Moment};
use crate::clock::Timestamp;
use crate::meter::Step;

use super::cell::Ask;
use super::place::Places;
use super::rows::Rows;

/// An algorithm as a request meets it that is so late: see [`Kernel::lateness`].
struct Late<'a> {
    kernel: &'a Kernel,
    late: u64,
}

impl Decides for Late<'_> {
    const COUNTS: bool = true;

    fn moment(&self, at_ns: u64) -> Moment {
        self.kernel.moment(at_ns)
    }

    fn step(&self, held: Held, moment: Moment, _: u64, cost: u64) -> Option<Held> {
        self.kernel.step(held, moment, self.late, cost)
    }
}

impl Adds for Late<'_> {
    fn load(&self, held: Held, moment: Moment) -> Load {
        self.kernel.load(held, moment)
    }

    fn add(&self, held: Held, moment: Moment, cost: u64) -> Held {
        self.kernel.add(held, moment, cost)
    }
}

impl Rows {
    /// Decides at `at`, and charges every row if the request is admitted that is `late` by then.
    pub(crate) fn check_late(&self, places: &Places, at: Timestamp, late: u64, cost: u64) -> Step {
        let meter = self.meter();
        let algorithm = Late { kernel: &meter.kernel, late };
        self.decide(&Ask::new(&algorithm, meter.fields, at, cost), places)
    }
}

#[cfg(test)]
mod tests {
    use super::super::size::SketchSize;
    use super::*;
    use crate::decision::Verdict;

    #[test]
    fn a_late_request_is_charged_at_the_later_instant_and_tested_at_its_own() {
        let size = SketchSize::new(2, 10).expect("a size");
        let rows = Rows::new("gcra 1/s burst 10".parse().expect("a policy"), size).expect("rows");
        let places = Places::of([3, 5], 2, 10);
        let kernel = &rows.meter().kernel;
        let [now, at] = [100, 104].map(Timestamp::from_secs);
        let late = kernel.lateness(now.as_nanos(), at.as_nanos());
        // Four seconds late: six of ten are left.
        let check = |cost| rows.check_late(&places, at, late, cost).verdict;
        assert_eq!(check(7), Verdict::Denied);
        assert_eq!(check(6), Verdict::Allowed);
        assert_eq!(check(1), Verdict::Denied);
        // Charged from the later instant on.
        assert_eq!(rows.peek(&places, at, 1).remaining(), 4);
        assert_eq!(rows.check_late(&places, at, 0, 4).verdict, Verdict::Allowed);
    }
}
