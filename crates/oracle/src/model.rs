//! [`AlgorithmState`]: the state of any of the algorithms.

use num_bigint::BigUint;

use crate::Algorithm;
use crate::definition::Definition;
use crate::fixed_window::FixedWindowState;
use crate::from_first::FixedWindowFromFirst;
use crate::gcra::GcraState;
use crate::segmented_window::SegmentedWindowState;
use crate::sliding_log::SlidingLog;
use crate::sliding_window::SlidingWindowState;

/// The state of one algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AlgorithmState {
    Gcra(GcraState),
    FixedWindow(FixedWindowState),
    FixedWindowFromFirst(FixedWindowFromFirst),
    SlidingWindow(SlidingWindowState),
    SegmentedWindow(SegmentedWindowState),
    SlidingLog(SlidingLog),
}

impl AlgorithmState {
    /// The state before the first request.
    pub(crate) fn new(algorithm: Algorithm) -> AlgorithmState {
        match algorithm {
            Algorithm::Gcra { count, period_ns, burst, tick } => {
                AlgorithmState::Gcra(GcraState::new(count, period_ns, burst, tick))
            }
            Algorithm::FixedWindow { limit, window_ns } => {
                AlgorithmState::FixedWindow(FixedWindowState::new(limit, window_ns))
            }
            Algorithm::Calendar { limit, unit } => {
                AlgorithmState::FixedWindow(FixedWindowState::of_calendar(limit, unit))
            }
            Algorithm::FixedWindowFromFirst { limit, window_ns, quantum_ns } => {
                AlgorithmState::FixedWindowFromFirst(FixedWindowFromFirst::new(
                    limit, window_ns, quantum_ns,
                ))
            }
            Algorithm::SlidingWindow { limit, window_ns, rounding } => {
                AlgorithmState::SlidingWindow(SlidingWindowState::new(limit, window_ns, rounding))
            }
            Algorithm::SegmentedWindow { limit, window_ns, segments } => {
                AlgorithmState::SegmentedWindow(SegmentedWindowState::new(
                    limit, window_ns, segments,
                ))
            }
            Algorithm::SlidingLog { limit, window_ns } => {
                AlgorithmState::SlidingLog(SlidingLog::new(limit, window_ns))
            }
        }
    }

    fn definition(&self) -> &dyn Definition {
        match self {
            AlgorithmState::Gcra(model) => model,
            AlgorithmState::FixedWindow(model) => model,
            AlgorithmState::FixedWindowFromFirst(model) => model,
            AlgorithmState::SlidingWindow(model) => model,
            AlgorithmState::SegmentedWindow(model) => model,
            AlgorithmState::SlidingLog(model) => model,
        }
    }

    fn definition_mut(&mut self) -> &mut dyn Definition {
        match self {
            AlgorithmState::Gcra(model) => model,
            AlgorithmState::FixedWindow(model) => model,
            AlgorithmState::FixedWindowFromFirst(model) => model,
            AlgorithmState::SlidingWindow(model) => model,
            AlgorithmState::SegmentedWindow(model) => model,
            AlgorithmState::SlidingLog(model) => model,
        }
    }
}

impl Definition for AlgorithmState {
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
