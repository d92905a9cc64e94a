//! The other verbs for a key that has no cell.

use std::time::Duration;

use tollgate::{DenialReason, Timestamp, check_all};

use crate::spill::crowd::{Table, fill, table};

/// Half a minute, which is a whole number of ticks here.
const NOW: Timestamp = Timestamp::from_secs(999_990);

fn full(text: &str) -> Table {
    let table = table(text, 1);
    fill(&table, NOW);
    table
}

const POLICIES: [&str; 4] = [
    "gcra 10/m burst 10",
    "fixed-window 10/m",
    "sliding-window 10/m exact",
    "segmented-window 10/m x4",
];

#[test]
fn as_much_is_taken_as_fits() {
    for text in POLICIES {
        let table = full(text);
        let taken = || table.entry(&7).at(NOW).take_up_to(7).into_result();
        let permit = taken().unwrap();
        assert!(permit.is_spilled());
        assert_eq!((permit.cost(), permit.remaining()), (7, 3), "{text}");
        assert_eq!(taken().unwrap().cost(), 3, "{text}");
        let denial = taken().unwrap_err();
        assert_eq!((denial.cost(), denial.reason() == DenialReason::Spilled), (1, true), "{text}");
    }
}

#[test]
fn a_denial_says_how_long_to_wait_and_that_is_enough() {
    for text in POLICIES {
        let table = full(text);
        assert!(table.entry(&7).at(NOW).check_n(10).is_allowed());
        let denial = table.entry(&7).at(NOW).check_n(4).into_result().unwrap_err();
        assert_eq!(denial.reason(), DenialReason::Spilled);
        assert_eq!((denial.remaining(), denial.limit()), (0, 10), "{text}");
        let then = NOW + denial.retry_after().unwrap();
        let before = Timestamp::from_nanos(then.as_nanos() - 1);
        assert!(!table.entry(&7).at(before).peek(4).is_allowed(), "{text}");
        assert!(table.entry(&7).at(then).check_n(4).is_allowed(), "{text}");
    }
    let denial =
        full("gcra 10/m burst 10").entry(&7).at(NOW).check_n(11).into_result().unwrap_err();
    assert_eq!(denial.retry_after(), None);
    let table = full("gcra 10/m burst 10");
    assert!(table.entry(&7).at(NOW).check_n(10).is_allowed());
    let denial = table.entry(&7).at(NOW).check_n(4).into_result().unwrap_err();
    assert_eq!(denial.retry_after(), Some(Duration::from_secs(24)));
    assert_eq!(denial.reset_after(), Duration::from_secs(60));
}

#[test]
fn a_place_is_reserved_only_if_it_can_be_used_at_once() {
    let table = full("gcra 10/m burst 10");
    let minute = Duration::from_secs(60);
    let place = table.entry(&7).at(NOW).reserve(10, minute).unwrap();
    assert!(place.wait().is_zero());
    let denial = table.entry(&7).at(NOW).reserve(1, minute).unwrap_err();
    assert_eq!(denial.retry_after(), Some(Duration::from_secs(6)));
    // A charge in the spill cannot be given back.
    assert!(!table.entry(&7).at(NOW).cancel(place));
    assert!(!table.entry(&7).at(NOW).check().is_allowed());
}

#[test]
fn what_was_charged_in_the_spill_is_not_given_back() {
    for text in POLICIES {
        let table = full(text);
        let permit = table.entry(&7).at(NOW).check_n(5).into_result().unwrap();
        assert_eq!(table.entry(&7).at(NOW).refund(permit), 0, "{text}");
        table.entry(&7).at(NOW).reset();
        assert_eq!(table.entry(&7).at(NOW).peek(1).remaining(), 5, "{text}");
    }
    // The charge is not given back from the cell that the key has got since, either.
    let table = full("gcra 10/m burst 10");
    let permit = table.entry(&7).at(NOW).check_n(10).into_result().unwrap();
    let later = NOW + Duration::from_secs(7);
    assert!(!table.entry(&7).at(later).check().is_spilled());
    assert_eq!(table.entry(&7).at(later).refund(permit), 0);
    assert_eq!(table.entry(&7).at(later).peek(1).remaining(), 0);
}

#[test]
fn a_charge_goes_into_debt_as_far_as_twice_the_burst() {
    let table = full("gcra 10/m burst 10");
    assert!(table.entry(&7).at(NOW).check_n(4).is_allowed());
    assert_eq!(table.entry(&7).at(NOW).charge(12), 0);
    let denial = table.entry(&7).at(NOW).check().into_result().unwrap_err();
    assert_eq!(denial.retry_after(), Some(Duration::from_secs(42)));
    assert_eq!(table.entry(&7).at(NOW).charge(12), 8);
    assert_eq!(table.entry(&7).at(NOW).charge(1), 1);
    // The debt moves to the cell, and drains there.
    let later = NOW + Duration::from_secs(7);
    let denial = table.entry(&7).at(later).check().into_result().unwrap_err();
    assert_eq!(denial.reason(), DenialReason::Spilled, "what it owes stands in the spill");
    assert_eq!(denial.retry_after(), Some(Duration::from_secs(59)));
    assert!(table.entry(&7).at(NOW + Duration::from_secs(66)).check().is_allowed());
    // In a window only the units that fit are charged.
    let table = full("fixed-window 10/m");
    assert_eq!(table.entry(&7).at(NOW).charge(12), 2);
    assert_eq!(table.entry(&7).at(NOW).charge(1), 1);
}

#[test]
fn a_charge_of_a_key_with_a_debt_from_the_spill_takes_what_its_new_cell_has_room_for() {
    let table = full("gcra 10/m burst 10");
    assert_eq!(table.entry(&7).at(NOW).charge(20), 0);
    // After one second the strangers still hold the cells. After seven seconds they are idle, and one unit of the debt
    // has drained.
    assert_eq!(table.entry(&7).at(NOW + Duration::from_secs(1)).charge(1), 1);
    assert_eq!(table.entry(&7).at(NOW + Duration::from_secs(7)).charge(3), 2);
    assert!(!table.entry(&7).at(NOW + Duration::from_secs(7)).peek(1).is_spilled());
}

#[test]
fn of_several_limits_what_was_charged_in_the_spill_stays_charged() {
    let (spilling, other) = (full("gcra 10/m burst 10"), table("gcra 10/m burst 10", 10));
    // The request names the second limit twice, and is denied by the second of these.
    let mut claims = [
        spilling.entry(&7).at(NOW).cost(4),
        other.entry(&7).at(NOW).cost(6),
        other.entry(&7).at(NOW).cost(6),
    ];
    assert_eq!(check_all(&mut claims).denied_by(), Some(2));
    assert_eq!(other.entry(&7).at(NOW).peek(1).remaining(), 10);
    let left = spilling.entry(&7).at(NOW).peek(1).remaining();
    assert_eq!(left, 6);
    assert!(
        check_all(&mut [spilling.entry(&7).at(NOW).cost(6), other.entry(&7).at(NOW).cost(6)])
            .is_allowed()
    );
}

#[test]
fn a_charge_that_is_undone_leaves_what_the_new_cell_took_over() {
    let table = full("gcra 10/m burst 10");
    assert!(table.entry(&7).at(NOW).check_n(6).is_spilled());
    // Now a cell is free. Each part of the request fits alone, but the second does not fit after the first.
    let later = NOW + Duration::from_secs(7);
    let mut claims = [table.entry(&7).at(later).cost(3), table.entry(&7).at(later).cost(3)];
    assert_eq!(check_all(&mut claims).denied_by(), Some(1));
    let left = table.entry(&7).at(later).peek(1);
    assert!(!left.is_spilled());
    assert_eq!((left.remaining(), left.reset_after()), (5, Duration::from_secs(29)));
}

#[test]
fn a_debt_that_no_word_has_room_for_stays_in_the_spill() {
    let table = full("gcra 10/m burst 10");
    for stranger in 1_000..1_100 {
        let _ = table.entry(&stranger).at(NOW).charge(20);
    }
    // The strangers' cells are busy for two minutes. Shortly before that time ends, key 9 goes into debt by twice its
    // burst.
    let far = NOW + Duration::from_secs(110);
    // Key 9 shares no cell of the spill with any of the strangers.
    let first = table.entry(&9).at(far).check_n(10);
    assert!(first.is_spilled() && first.is_allowed());
    assert_eq!(table.entry(&9).at(far).charge(10), 0);
    for stranger in 1_000..1_100 {
        table.entry(&stranger).at(NOW).reset();
    }
    // Now cells are free, and a late request comes. From its time on the debt takes nearly four bursts' time to drain.
    let late = NOW + Duration::from_secs(1);
    let denial = table.entry(&9).at(late).check().into_result().unwrap_err();
    assert_eq!(denial.reason(), DenialReason::Spilled, "{denial:?}");
    let mut newcomers = (2_000..2_100).map(|key| table.entry(&key).at(late).check());
    assert!(newcomers.any(|told| told.is_allowed() && !told.is_spilled()), "there are cells");
    // The wait lasts until eleven of the twenty units have drained, because one more unit then fits beside the other
    // nine. The time to drain begins at the shard's floor.
    assert_eq!(denial.retry_after().map(|wait| wait.as_secs()), Some(110 + 60 + 4));
}
