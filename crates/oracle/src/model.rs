//! What every algorithm must be able to say about itself, and nothing more.

use num_bigint::BigUint;

use crate::Algorithm;
use crate::fixed_window::FixedWindow;
use crate::from_first::FixedWindowFromFirst;
use crate::gcra::Gcra;
use crate::segmented_window::SegmentedWindow;
use crate::sliding_log::SlidingLog;
use crate::sliding_window::SlidingWindow;

/// The three questions that describe an algorithm.
///
/// `admits` never falls back: with the state left alone, a cost admitted at one time is admitted
/// at all later times, and so is every smaller cost.
pub(crate) trait Definition {
    /// Whether `cost` units fit at `now`.
    fn admits(&self, now: &BigUint, cost: &BigUint) -> bool;

    /// Takes `cost` units, at least one, that were admitted at `now`.
    fn charge(&mut self, now: &BigUint, cost: &BigUint);

    /// Whether nothing asked at `now` or later can tell this state from a new one.
    fn is_idle(&self, now: &BigUint) -> bool;
}

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

    fn is_idle(&self, now: &BigUint) -> bool {
        self.definition().is_idle(now)
    }
}
