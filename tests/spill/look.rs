//! A look says what the charge after it will be told, if nothing happens in between: also where the charge
//! moves a floor first, and thereby forgets the idle cell of its own key. Whoever was charged there gets a new
//! one, and with it what the spill says that he owes: of others, too, who share his places there.

use std::time::Duration;

use tollgate::{Full, Timestamp};

use crate::crowd::{Table, table};

const KEY: u64 = 7;

/// Key 7 has a cell that has been idle for a second when the epoch of its floor ends; every other cell is busy
/// for three seconds more. While its cell was busy, too, others came who found none and filled the spill,
/// also where key 7 would be counted in it. Gives the end of the epoch.
fn crowd(table: &Table) -> Timestamp {
    // The floors stand at 0, where the clock began.
    let end = Timestamp::default() + table.stats_at(Timestamp::default()).epoch;
    let early = Timestamp::from_nanos(end.as_nanos() - 2_000_000_000);
    assert!(table.check_at(&KEY, 1, early).is_allowed());
    let mut strangers = (1_000..).filter(|key| {
        let look = table.peek_at(key, 5, early);
        look.is_allowed() && !look.is_spilled()
    });
    for _ in 1..table.stats_at(early).cells {
        assert!(table.check_at(&strangers.next().unwrap(), 5, early).is_allowed());
    }
    let flood = Timestamp::from_nanos(end.as_nanos() - 1_100_000_000);
    for key in 100_000..110_000 {
        let _ = table.take_up_to_at(&key, 5, flood);
    }
    end
}

#[test]
fn a_look_at_a_key_that_its_charge_would_forget_counts_in_what_the_spill_holds() {
    for (later_ms, left) in [(10, 1), (500, 1), (900, 2)] {
        let table = table("gcra 60/m burst 5", 1);
        let now = crowd(&table) + Duration::from_millis(later_ms);
        let spilled = table.stats_at(now).spilled;
        assert!(spilled > 1_000, "{spilled}");
        assert_eq!(table.peek_at(&KEY, 1, now).remaining(), left, "after {later_ms} ms");
        assert!(!table.peek_at(&KEY, left + 1, now).is_allowed());
        assert!(!table.check_at(&KEY, left + 1, now).is_allowed());
        assert!(table.check_at(&KEY, left, now).is_allowed());
        // It has got a cell again.
        assert_eq!(table.stats_at(now).spilled, spilled);
    }
}

#[test]
fn a_look_before_the_floor_has_to_move_finds_the_cell_as_its_charge_does() {
    let table = table("gcra 60/m burst 5", 1);
    let end = crowd(&table);
    assert_eq!(table.peek_at(&KEY, 5, end).remaining(), 5);
    assert!(table.check_at(&KEY, 5, end).is_allowed());
}

#[test]
fn without_a_spill_what_is_forgotten_owes_nothing() {
    let table = table("gcra 60/m burst 5", 1).when_full(Full::Deny).unwrap();
    let now = crowd(&table) + Duration::from_millis(10);
    assert!(table.peek_at(&KEY, 5, now).is_allowed());
    assert!(table.check_at(&KEY, 5, now).is_allowed());
}
