//! Two aligned windows. The previous one counts by its share.

use num_bigint::BigUint;

use crate::Rounding;
use crate::definition::Definition;

/// The newest window charged so far, its units and those of the window before it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SlidingWindowState {
    limit: BigUint,
    window: BigUint,
    rounding: Rounding,
    index: BigUint,
    previous: BigUint,
    current: BigUint,
}

/// The counts at one time.
struct WindowCounts {
    index: BigUint,
    previous: BigUint,
    current: BigUint,
    /// Time until the current window ends: `window - e`, at least 1.
    left: BigUint,
}

impl SlidingWindowState {
    pub(crate) fn new(limit: u64, window_ns: u64, rounding: Rounding) -> SlidingWindowState {
        SlidingWindowState {
            limit: limit.into(),
            window: window_ns.into(),
            rounding,
            index: BigUint::ZERO,
            previous: BigUint::ZERO,
            current: BigUint::ZERO,
        }
    }

    fn at(&self, now: &BigUint) -> WindowCounts {
        // A `now` before the stored window is taken as the first instant of that window.
        let now = now.max(&(&self.index * &self.window)).clone();
        let index = &now / &self.window;
        let left = &self.window - (now % &self.window);
        let (previous, current) = if index == self.index {
            (self.previous.clone(), self.current.clone())
        } else if index == &self.index + 1u32 {
            (self.current.clone(), BigUint::ZERO)
        } else {
            (BigUint::ZERO, BigUint::ZERO)
        };
        WindowCounts { index, previous, current, left }
    }
}

impl Definition for SlidingWindowState {
    fn admits(&self, now: &BigUint, cost: &BigUint) -> bool {
        let WindowCounts { previous, current, left, .. } = self.at(now);
        let window = &self.window;
        match self.rounding {
            Rounding::Exact => previous * left + (current + cost) * window <= &self.limit * window,
            Rounding::Down => previous * left / window + current + cost <= self.limit,
            Rounding::Strict => previous + current + cost <= self.limit,
        }
    }

    fn charge(&mut self, now: &BigUint, cost: &BigUint) {
        let WindowCounts { index, previous, current, .. } = self.at(now);
        self.index = index;
        self.previous = previous;
        self.current = current + cost;
    }

    fn charge_denied(&mut self, now: &BigUint, cost: &BigUint, _: Option<&BigUint>) {
        self.charge(now, cost);
        let stop = match self.rounding {
            Rounding::Exact | Rounding::Down => &self.limit * 2u32,
            Rounding::Strict => self.limit.clone(),
        };
        // If the count was above the limit before, it stays at that count.
        let before = &self.current - cost;
        self.current = (&self.current).min(&stop).max(&before).clone();
    }

    fn give_back(&mut self, _: &BigUint, _: &BigUint, units: &BigUint) -> BigUint {
        let back = units.min(&self.current).clone();
        self.current -= &back;
        back
    }

    fn place(&self, now: &BigUint) -> BigUint {
        self.at(now).index
    }

    fn reset(&mut self, now: &BigUint) {
        self.index = now / &self.window;
        (self.previous, self.current) = (BigUint::ZERO, BigUint::ZERO);
    }

    fn set_limit(&mut self, limit: &BigUint) {
        self.limit.clone_from(limit);
    }

    /// Whether the current window is empty and the previous one no longer counts. If its share is rounded down, it may
    /// reach 0 before the window has passed, and then stays 0.
    fn is_idle(&self, now: &BigUint) -> bool {
        let WindowCounts { previous, current, left, .. } = self.at(now);
        let counts = match self.rounding {
            Rounding::Exact | Rounding::Strict => previous,
            Rounding::Down => previous * left / &self.window,
        };
        counts == BigUint::ZERO && current == BigUint::ZERO
    }
}
