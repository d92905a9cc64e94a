//! A window divided into segments.

use std::collections::BTreeMap;

use num_bigint::BigUint;

use crate::definition::Definition;

/// Units by segment, for the segments that have any; the newest segment is the last entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SegmentedWindowState {
    limit: BigUint,
    segment: BigUint,
    segments: BigUint,
    units: BTreeMap<BigUint, BigUint>,
}

impl SegmentedWindowState {
    pub(crate) fn new(limit: u64, window_ns: u64, segments: u64) -> SegmentedWindowState {
        SegmentedWindowState {
            limit: limit.into(),
            segment: (window_ns / segments).into(),
            segments: segments.into(),
            units: BTreeMap::new(),
        }
    }

    /// The segment in which a charge at `now` counts: the segment of `now`, or the newest segment if that is later.
    fn segment_of(&self, now: &BigUint) -> BigUint {
        let own = now / &self.segment;
        match self.units.last_key_value() {
            Some((newest, _)) if *newest > own => newest.clone(),
            _ => own,
        }
    }

    /// Whether the segment `index` is among the last n segments up to `current`.
    fn counts(&self, index: &BigUint, current: &BigUint) -> bool {
        index + &self.segments > *current
    }

    fn in_window(&self, now: &BigUint) -> BigUint {
        let current = self.segment_of(now);
        let counted = self.units.iter().filter(|(index, _)| self.counts(index, &current));
        counted.map(|(_, units)| units).sum()
    }
}

impl Definition for SegmentedWindowState {
    fn admits(&self, now: &BigUint, cost: &BigUint) -> bool {
        self.in_window(now) + cost <= self.limit
    }

    fn charge(&mut self, now: &BigUint, cost: &BigUint) {
        let current = self.segment_of(now);
        // The current segment never moves back, so segments that have left the window can be deleted.
        let mut units = std::mem::take(&mut self.units);
        units.retain(|index, _| self.counts(index, &current));
        *units.entry(current).or_default() += cost;
        self.units = units;
    }

    fn charge_denied(&mut self, now: &BigUint, cost: &BigUint, _: Option<&BigUint>) {
        self.charge(now, cost);
        if let Some(mut newest) = self.units.last_entry() {
            let units = newest.get_mut();
            *units = (&*units).min(&self.limit).clone();
        }
    }

    fn give_back(&mut self, _: &BigUint, _: &BigUint, units: &BigUint) -> BigUint {
        let Some(mut newest) = self.units.last_entry() else { return BigUint::ZERO };
        let back = units.min(newest.get()).clone();
        *newest.get_mut() -= &back;
        back
    }

    fn place(&self, now: &BigUint) -> BigUint {
        self.segment_of(now)
    }

    fn reset(&mut self, now: &BigUint) {
        self.units = BTreeMap::from([(now / &self.segment, BigUint::ZERO)]);
    }

    fn set_limit(&mut self, limit: &BigUint) {
        self.limit.clone_from(limit);
    }

    fn is_idle(&self, now: &BigUint) -> bool {
        self.in_window(now) == BigUint::ZERO
    }
}
