//! [`Model`]: the state of any of the algorithms.

use num_bigint::BigUint;

use crate::Algorithm;
use crate::definition::Definition;
use crate::fixed_window::FixedWindow;
use crate::from_first::FixedWindowFromFirst;
use crate::gcra::Gcra;
use crate::segmented_window::SegmentedWindow;
use crate::sliding_log::SlidingLog;
use crate::sliding_window::SlidingWindow;

/// The state of one algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Model {
    Gcra(Gcra),
    FixedWindow(FixedWindow),
    FixedWindowFromFirst(FixedWindowFromFirst),
    SlidingWindow(SlidingWindow),
    SegmentedWindow(SegmentedWindow),
    SlidingLog(SlidingLog),
}

impl Model {
    /// The state before the first request.
    pub(crate) fn new(algorithm: Algorithm) -> Model {
        match algorithm {
            Algorithm::Gcra { count, period_ns, burst, tick } => {
                Model::Gcra(Gcra::new(count, period_ns, burst, tick))
            }
            Algorithm::FixedWindow { limit, window_ns } => {
                Model::FixedWindow(FixedWindow::new(limit, window_ns))
            }
            Algorithm::CalendarMonth { limit } => Model::FixedWindow(FixedWindow::of_months(limit)),
            Algorithm::FixedWindowFromFirst { limit, window_ns, quantum_ns } => {
                Model::FixedWindowFromFirst(FixedWindowFromFirst::new(limit, window_ns, quantum_ns))
            }
            Algorithm::SlidingWindow { limit, window_ns, rounding } => {
                Model::SlidingWindow(SlidingWindow::new(limit, window_ns, rounding))
            }
            Algorithm::SegmentedWindow { limit, window_ns, segments } => {
                Model::SegmentedWindow(SegmentedWindow::new(limit, window_ns, segments))
            }
            Algorithm::SlidingLog { limit, window_ns } => {
                Model::SlidingLog(SlidingLog::new(limit, window_ns))
            }
        }
    }

    fn definition(&self) -> &dyn Definition {
        match self {
            Model::Gcra(model) => model,
            Model::FixedWindow(model) => model,
            Model::FixedWindowFromFirst(model) => model,
            Model::SlidingWindow(model) => model,
            Model::SegmentedWindow(model) => model,
            Model::SlidingLog(model) => model,
        }
    }

    fn definition_mut(&mut self) -> &mut dyn Definition {
        match self {
            Model::Gcra(model) => model,
            Model::FixedWindow(model) => model,
            Model::FixedWindowFromFirst(model) => model,
            Model::SlidingWindow(model) => model,
            Model::SegmentedWindow(model) => model,
            Model::SlidingLog(model) => model,
        }
    }
}

impl Definition for Model {
    fn admits(&self, now: &BigUint, cost: &BigUint) -> bool {
        self.definition().admits(now, cost)
    }

    fn charge(&mut self, now: &BigUint, cost: &BigUint) {
        self.definition_mut().charge(now, cost);
    }

    fn charge_denied(&mut self, now: &BigUint, cost: &BigUint, wait: Option<&BigUint>) {
        self.definition_mut().charge_denied(now, cost, wait);
    }

    fn give_back(&mut self, now: &BigUint, then: &BigUint, units: &BigUint) -> BigUint {
        self.definition_mut().give_back(now, then, units)
    }

    fn undo(&mut self, now: &BigUint, then: &BigUint, units: &BigUint) -> BigUint {
        self.definition_mut().undo(now, then, units)
    }

    fn place(&self, now: &BigUint) -> BigUint {
        self.definition().place(now)
    }

    fn reset(&mut self, now: &BigUint) {
        self.definition_mut().reset(now);
    }

    fn set_limit(&mut self, limit: &BigUint) {
        self.definition_mut().set_limit(limit);
    }

    fn is_idle(&self, now: &BigUint) -> bool {
        self.definition().is_idle(now)
    }
}
