//! When a key that was charged in the spill gets a cell, the cell takes over exactly the key's debt.

use std::time::Duration;

use tollgate::Timestamp;

use crate::common::on;
use crate::spill::crowd::{Table, drained, fill, table};

/// Every kind of policy. There are three segmented windows: one has its counts side by side in both words, one has them
/// ranked in both words, and one has them ranked only in the table's word.
const POLICIES: [&str; 10] = [
    "gcra 10/m burst 5",
    "gcra 100/s burst 20",
    "gcra 7/m burst 11",
    "fixed-window 5/m",
    "sliding-window 10/m exact",
    "sliding-window 10/m",
    "sliding-window 10/m strict",
    "segmented-window 10/m x4",
    "segmented-window 100/m x6",
    "segmented-window 31/m x6",
];

/// 10 s after the start of a minute.
const START: Timestamp = Timestamp::from_secs(1_000_000 * 60 + 10);

/// This is shorter than the time by which a floor is behind the clock.
const SOON: Duration = Duration::from_micros(100);

/// This is longer than the time by which a floor is behind the clock.
const LATER: Duration = Duration::from_millis(9);

/// A table that has a cell for the key from the beginning.
fn roomy(text: &str) -> Table {
    table(text, 100)
}

#[test]
fn a_key_takes_what_it_owes_to_its_cell_to_the_unit() {
    for text in POLICIES {
        for fifths in 1..=5 {
            let table = table(text, 1);
            let own = roomy(text);
            fill(&table, START);
            // The strangers are idle, but no floor has advanced past their time yet.
            let idle = drained(text, START);
            let cost = (own.entry(&7).at(idle).peek(0).limit() * fifths / 5).max(1);
            let spilled = table.entry(&7).at(idle + SOON).check_n(cost);
            assert!(spilled.is_spilled() && spilled.is_allowed(), "{text}: {spilled:?}");
            assert!(own.entry(&7).at(idle + SOON).check_n(cost).is_allowed());
            // Now cells are free. A denial counts as the spill's until the key has got a cell.
            let (mut has_cell, mut told) = (false, 1);
            for (nth, now) in
                [LATER, LATER, 2 * LATER, 3 * LATER].map(|on| idle + on).iter().enumerate()
            {
                let asked = [table.entry(&7).at(*now).peek(1), own.entry(&7).at(*now).peek(1)];
                assert_eq!(asked[0].remaining(), asked[1].remaining(), "{text} {cost} {nth}");
                assert_eq!(asked[0].reset_after(), asked[1].reset_after(), "{text} {cost} {nth}");
                let [here, there] =
                    [table.entry(&7).at(*now).check(), own.entry(&7).at(*now).check()];
                assert_eq!(here.is_allowed(), there.is_allowed(), "{text} {cost} {nth}");
                has_cell |= here.is_allowed();
                assert_eq!(here.is_spilled(), !has_cell, "{text} {cost} {nth}");
                told += u64::from(here.is_spilled());
                assert_eq!(here.remaining(), there.remaining(), "{text} {cost} {nth}");
            }
            assert_eq!(table.stats().spilled, told, "{text}");
        }
    }
}

#[test]
fn ticks_that_do_not_fit_are_rounded_up() {
    // Here a keyed word has finer ticks than the spill's word has room for.
    let text = "gcra 1000000/s burst 50000";
    let table = table(text, 1);
    let own = roomy(text);
    fill(&table, START);
    let idle = drained(text, START);
    assert!(table.entry(&7).at(idle + SOON).check_n(50_000).is_spilled());
    assert!(own.entry(&7).at(idle + SOON).check_n(50_000).is_allowed());
    let left = [table.entry(&7).at(idle + LATER).peek(1), own.entry(&7).at(idle + LATER).peek(1)];
    assert!(!left[0].is_spilled());
    let [here, there] = left.map(|decision| decision.remaining());
    assert_eq!(there, 8_900); // back after 8.9 ms
    assert!(here == there || here == there - 1, "{here}");
}

#[test]
fn a_key_with_a_cell_is_never_decided_by_the_spill() {
    let table = table("gcra 1/h burst 100", 1);
    fill(&table, START);
    assert!(table.entry(&7).at(START).check().is_spilled());
    for stranger in 1_000..1_100 {
        let decision = table.entry(&stranger).at(START).check();
        // A stranger with a cell has used one unit there.
        assert!(decision.is_spilled() || decision.remaining() == 98, "{decision:?}");
    }
    let stats = table.stats();
    assert_eq!(stats.spilled, 1 + 100 - stats.live as u64);
}

#[test]
fn what_has_drained_is_not_taken_along() {
    let table = table("gcra 10/m burst 5", 1);
    fill(&table, START);
    assert!(table.entry(&7).at(START).check_n(5).is_spilled());
    // Five units have come back after half a minute, and meanwhile other keys are decided in the spill.
    let later = START + Duration::from_secs(31);
    let decision = table.entry(&7).at(later).check_n(5);
    assert!(decision.is_allowed() && !decision.is_spilled());
}

#[test]
fn a_late_request_starts_at_the_floor_also_in_the_spill() {
    let table = table("gcra 1/s burst 20", 1);
    let second = |s: u64| Timestamp::from_secs(1_000_000 + s);
    // A key with a cell spends its whole burst, and is forgotten when the burst has drained.
    assert!(table.entry(&7).at(second(0)).check_n(20).is_allowed());
    fill_for_long(&table, second(100));
    // Strangers hold every cell, and the floors are at 100 s. At 90 s the table cannot tell whether the key spent its
    // burst at 0 s or at 85 s.
    let late = table.entry(&7).at(second(90)).check_n(20);
    assert!(late.is_spilled() && !late.is_allowed());
    assert_eq!(late.remaining(), 10);
    assert!(table.entry(&7).at(second(90)).check_n(10).is_allowed());
    assert!(!table.entry(&7).at(second(90)).check().is_allowed());
    // At the floor ten of twenty units are left, and after that one more unit each second.
    assert_eq!(table.entry(&7).at(second(100)).peek(1).remaining(), 10);
    assert_eq!(table.entry(&7).at(second(105)).peek(1).remaining(), 15);
}

/// Gives cells to strangers that hold them for 20 s.
fn fill_for_long(table: &Table, now: Timestamp) {
    for stranger in 1_000..1_400 {
        if !table.entry(&stranger).at(now).peek(20).is_spilled() {
            assert!(table.entry(&stranger).at(now).check_n(20).is_allowed());
        }
    }
    on(now);
    assert_eq!(table.stats().live, table.stats().cells);
}
