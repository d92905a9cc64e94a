//! Windows aligned to time 0, or to the calendar.

use num_bigint::BigUint;

use crate::CalendarSpan;
use crate::calendar::window_of;
use crate::definition::Definition;

/// The length of windows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum WindowLength {
    Ns(BigUint),
    Calendar(CalendarSpan),
}

/// The newest window that was charged, and its units. A new state has window 0 with no units.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FixedWindowState {
    limit: BigUint,
    length: WindowLength,
    index: BigUint,
    units: BigUint,
}

impl FixedWindowState {
    pub(crate) fn new(limit: u64, window_ns: u64) -> FixedWindowState {
        FixedWindowState {
            limit: limit.into(),
            length: WindowLength::Ns(window_ns.into()),
            index: BigUint::ZERO,
            units: BigUint::ZERO,
        }
    }

    pub(crate) fn of_calendar(limit: u64, unit: CalendarSpan) -> FixedWindowState {
        FixedWindowState { length: WindowLength::Calendar(unit), ..FixedWindowState::new(limit, 1) }
    }

    /// The number of the window that holds an instant.
    fn index(&self, now: &BigUint) -> BigUint {
        match &self.length {
            WindowLength::Ns(window) => now / window,
            WindowLength::Calendar(unit) => window_of(*unit, now),
        }
    }

    /// The window in which `now` counts, and its units.
    fn at(&self, now: &BigUint) -> (BigUint, BigUint) {
        let index = self.index(now);
        if index > self.index {
            (index, BigUint::ZERO)
        } else {
            (self.index.clone(), self.units.clone())
        }
    }
}

impl Definition for FixedWindowState {
    fn admits(&self, now: &BigUint, cost: &BigUint) -> bool {
        let (_, units) = self.at(now);
        units + cost <= self.limit
    }

    fn charge(&mut self, now: &BigUint, cost: &BigUint) {
        let (index, units) = self.at(now);
        self.index = index;
        self.units = units + cost;
    }

    fn charge_denied(&mut self, now: &BigUint, cost: &BigUint, _: Option<&BigUint>) {
        self.charge(now, cost);
        // If the count was above the limit before, it stays at that count.
        let before = &self.units - cost;
        self.units = (&self.units).min(&self.limit).max(&before).clone();
    }

    fn give_back(&mut self, _: &BigUint, _: &BigUint, units: &BigUint) -> BigUint {
        let back = units.min(&self.units).clone();
        self.units -= &back;
        back
    }

    fn place(&self, now: &BigUint) -> BigUint {
        self.at(now).0
    }

    fn reset(&mut self, now: &BigUint) {
        self.index = self.index(now);
        self.units = BigUint::ZERO;
    }

    fn set_limit(&mut self, limit: &BigUint) {
        self.limit.clone_from(limit);
    }

    fn is_idle(&self, now: &BigUint) -> bool {
        let (_, units) = self.at(now);
        units == BigUint::ZERO
    }
}
