//! A window that opens with the first admitted request.

use num_bigint::BigUint;
use num_integer::Integer;

use crate::definition::Definition;

/// The window that was opened last, if there was one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FixedWindowFromFirst {
    limit: BigUint,
    window: BigUint,
    quantum: BigUint,
    last: Option<Window>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Window {
    /// The start, in whole quanta.
    start: BigUint,
    units: BigUint,
}

impl FixedWindowFromFirst {
    pub(crate) fn new(limit: u64, window_ns: u64, quantum_ns: u64) -> FixedWindowFromFirst {
        FixedWindowFromFirst {
            limit: limit.into(),
            window: window_ns.into(),
            quantum: quantum_ns.into(),
            last: None,
        }
    }

    /// The window that is still open at `now`: it has not ended, and contains units. A window that starts after `now`
    /// is also open, and has age 0.
    fn open(&self, now: &BigUint) -> Option<&Window> {
        let last = self.last.as_ref().filter(|window| window.units > BigUint::ZERO);
        last.filter(|window| *now < &window.start * &self.quantum + &self.window)
    }

    /// The start of a window that opens at `now`. It is not before the start of the last window, whose units may all
    /// have been given back since.
    fn opening(&self, now: &BigUint) -> BigUint {
        let first = now.div_ceil(&self.quantum);
        self.last.as_ref().map_or(first.clone(), |window| first.max(window.start.clone()))
    }
}

impl Definition for FixedWindowFromFirst {
    fn admits(&self, now: &BigUint, cost: &BigUint) -> bool {
        match self.open(now) {
            Some(window) => &window.units + cost <= self.limit,
            None => *cost <= self.limit,
        }
    }

    fn charge(&mut self, now: &BigUint, cost: &BigUint) {
        self.last = Some(match self.open(now) {
            Some(window) => Window { start: window.start.clone(), units: &window.units + cost },
            None => Window { start: self.opening(now), units: cost.clone() },
        });
    }

    fn charge_denied(&mut self, now: &BigUint, cost: &BigUint, _: Option<&BigUint>) {
        self.charge(now, cost);
        if let Some(window) = &mut self.last {
            // If the count was above the limit before, it stays at that count.
            let before = &window.units - cost;
            window.units = (&window.units).min(&self.limit).max(&before).clone();
        }
    }

    fn give_back(&mut self, _: &BigUint, _: &BigUint, units: &BigUint) -> BigUint {
        let Some(window) = &mut self.last else { return BigUint::ZERO };
        let back = units.min(&window.units).clone();
        window.units -= &back;
        back
    }

    fn place(&self, now: &BigUint) -> BigUint {
        self.open(now).map_or_else(|| self.opening(now), |window| window.start.clone())
    }

    fn reset(&mut self, now: &BigUint) {
        self.last = Some(Window { start: now / &self.quantum, units: BigUint::ZERO });
    }

    fn set_limit(&mut self, limit: &BigUint) {
        self.limit.clone_from(limit);
    }

    fn is_idle(&self, now: &BigUint) -> bool {
        self.open(now).is_none()
    }
}
