//! How early a unit may be admitted: by a tick of the key's cell, or by a tick of the spill.

use tollgate::{Decision, Timestamp};

use crate::spill::crowd::{Table, table};

/// Seven units drain in nine nanoseconds, so no nanosecond is a whole number of ticks.
const POLICY: &str = "7/9ns burst 1000";
const BURST: u64 = 1_000;
const KEY: u64 = 7;

/// The times and amounts of a key's admissions if the key asks in each nanosecond for everything that is left.
fn taken(table: &Table, base_ns: u64) -> Vec<(u64, u64)> {
    let take =
        |ns: u64| table.entry(&KEY).at(Timestamp::from_nanos(base_ns + ns)).take_up_to(BURST);
    let units = |decision: Decision| decision.into_result().ok().map(|permit| permit.cost());
    (0..300).filter_map(|ns| Some((ns, units(take(ns))?))).collect()
}

/// The largest amount by which the units of an interval exceed the burst plus the units that drain in the interval, in
/// ninths of a 256th of a unit.
fn early(taken: &[(u64, u64)]) -> i64 {
    let above = |from: usize, to: usize| {
        let units: u64 = taken[from..=to].iter().map(|(_, units)| units).sum();
        let span_ns = taken[to].0 - taken[from].0;
        (i64::try_from(9 * units).unwrap() - i64::try_from(9 * BURST + 7 * span_ns).unwrap()) * 256
    };
    let pairs = (0..taken.len()).flat_map(|from| (from..taken.len()).map(move |to| (from, to)));
    pairs.map(|(from, to)| above(from, to)).max().unwrap()
}

#[test]
fn a_unit_comes_no_more_than_a_tick_early_and_in_the_spill_than_a_nanosecond() {
    let mut earliest = [0, 0];
    for base_ns in [0, 1_888, 1_000_000_000, 25_914_364, 123_456_789_123_456, 1 << 60] {
        let kept = table(POLICY, 10);
        let taken_there = taken(&kept, base_ns);
        assert!(!kept.entry(&KEY).at(Timestamp::from_nanos(base_ns)).peek(1).is_spilled());
        let full = table(POLICY, 1);
        for key in 100..200 {
            let _ = full.entry(&key).at(Timestamp::from_nanos(base_ns)).check_n(BURST);
        }
        assert!(full.entry(&KEY).at(Timestamp::from_nanos(base_ns)).peek(1).is_spilled());
        let found = [taken_there, taken(&full, base_ns)].map(|taken| early(&taken));
        earliest = [0, 1].map(|which| earliest[which].max(found[which]));
    }
    let [kept, spilled] = earliest;
    // A tick is a 256th of a unit, too little to show in whole units and nanoseconds.
    assert!(kept <= 9, "in a cell: {kept}");
    // Seven ninths of a unit drain in a nanosecond, and a tick of the spill is half a unit.
    assert!((9..=7 * 256).contains(&spilled), "in the spill: {spilled}");
}

/// There are 64 ticks in a microsecond: with an epoch of four seconds a tick lasts 15.6 ns.
#[test]
fn a_unit_of_a_fast_limit_comes_less_than_16_ns_early() {
    let mut earliest = 0;
    for base_ns in (0..125).chain([1 << 60]) {
        for due in [1_000, 7_000, 999_000] {
            let table = table("gcra 1000000/s burst 1000", 10);
            let is_allowed = |cost, ns| {
                table.entry(&KEY).at(Timestamp::from_nanos(base_ns + ns)).check_n(cost).is_allowed()
            };
            assert!(is_allowed(BURST, 0));
            let came =
                (due - 20..=due).find(|&ns| is_allowed(due / 1_000, ns)).expect("when it is due");
            earliest = earliest.max(due - came);
        }
    }
    assert_eq!(earliest, 15);
}
