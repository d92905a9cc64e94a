//! A log of every admission with its time.

use std::collections::BTreeMap;
use std::ops::Bound;

use num_bigint::BigUint;

use crate::definition::Definition;

/// Units by time of admission. Nothing is ever deleted: a request may come at an earlier time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SlidingLog {
    limit: BigUint,
    window: BigUint,
    units: BTreeMap<BigUint, BigUint>,
}

impl SlidingLog {
    pub(crate) fn new(limit: u64, window_ns: u64) -> SlidingLog {
        SlidingLog { limit: limit.into(), window: window_ns.into(), units: BTreeMap::new() }
    }

    /// The entries that count at `now`, newest first: those with `time > now - window`.
    fn inside(&self, now: &BigUint) -> impl Iterator<Item = &BigUint> {
        let after =
            if *now < self.window { Bound::Unbounded } else { Bound::Excluded(now - &self.window) };
        self.units.range((after, Bound::Unbounded)).rev().map(|(_, units)| units)
    }
}

impl Definition for SlidingLog {
    fn admits(&self, now: &BigUint, cost: &BigUint) -> bool {
        let mut sum = cost.clone();
        for units in self.inside(now) {
            sum += units;
            // Further units can only increase a sum that is too large already.
            if sum > self.limit {
                break;
            }
        }
        sum <= self.limit
    }

    fn charge(&mut self, now: &BigUint, cost: &BigUint) {
        *self.units.entry(now.clone()).or_default() += cost;
    }

    fn charge_denied(&mut self, now: &BigUint, cost: &BigUint, _: Option<&BigUint>) {
        // If all units that count are from the last thousandth of the window, the log stays as it is.
        let past = now * 1_000u32;
        let fresh = self.units.iter().filter(|(time, _)| *time * 1_000u32 + &self.window > past);
        if fresh.map(|(_, units)| units).sum::<BigUint>() >= self.limit {
            return;
        }
        self.charge(now, cost);
        let mut beyond = self.units.values().sum::<BigUint>();
        while beyond > self.limit {
            let Some(mut oldest) = self.units.first_entry() else { return };
            beyond -= oldest.get();
            if beyond < self.limit {
                *oldest.get_mut() = &self.limit - &beyond;
                return;
            }
            oldest.remove();
        }
    }

    /// A log stores the time of each unit and has no single window, so nothing is given back.
    fn give_back(&mut self, _: &BigUint, _: &BigUint, _: &BigUint) -> BigUint {
        BigUint::ZERO
    }

    fn place(&self, now: &BigUint) -> BigUint {
        now.clone()
    }

    fn reset(&mut self, _: &BigUint) {
        self.units = BTreeMap::new();
    }

    fn set_limit(&mut self, limit: &BigUint) {
        self.limit.clone_from(limit);
    }

    fn is_idle(&self, now: &BigUint) -> bool {
        self.inside(now).next().is_none()
    }
}
