//! A peek gives the same answer that the next charge will get, if nothing happens in between. This holds even where the
//! charge first advances a floor, and thereby forgets the idle cell of its own key. The key then gets a new cell with
//! the debt that the spill reports for it. That debt includes debts of other keys with which it shares cells in the
//! spill.

use std::time::Duration;

use tollgate::{Changing, Decision, KeyedLimiter, ManualClock, Timestamp, WhenFull};

use crate::common::policy;
use crate::spill::crowd::{Table, seeds, table};

const KEY: u64 = 7;

/// A table with a policy whose unit drains in ten minutes, and whose whole burst drains in four epochs. Because of its
/// second tier, the table has the shortest epochs that these debts allow.
fn slow() -> Changing<Table> {
    let tiers =
        KeyedLimiter::builder(policy("gcra 1/10m burst 1000")).tier(policy("gcra 60/m burst 5"));
    let table: Changing<Table> = tiers.clock(ManualClock::new()).hasher(seeds()).build(1).unwrap();
    assert_eq!(table.stats().epoch.as_secs(), 149_999);
    table
}

/// Key 7 has a cell whose unit has drained long ago, but the floor has not advanced. Every other cell is busy for a
/// whole burst. While the cell of key 7 was busy as well, other keys found no cell and filled the spill, including the
/// spill's cells for key 7. Returns the last instant, three epochs later, at which an advance of the floor does not
/// forget key 7.
fn crowd(table: &Table) -> Timestamp {
    let early = Timestamp::from_secs(1_000);
    assert!(table.entry(&KEY).at(early).check().is_allowed());
    let mut strangers = (1_000..).filter(|key| {
        let look = table.entry(key).at(early).peek(1_000);
        look.is_allowed() && !look.is_spilled()
    });
    for _ in 1..table.stats().cells {
        assert!(table.entry(&strangers.next().unwrap()).at(early).check_n(1_000).is_allowed());
    }
    for key in 100_000..110_000 {
        let _ = table.entry(&key).at(Timestamp::from_secs(1_100)).take_up_to(1_000);
    }
    Timestamp::default() + 3 * table.stats().epoch
}

#[test]
fn a_look_at_a_key_that_its_charge_would_forget_counts_in_what_the_spill_holds() {
    for later in [1, 600, 100_000] {
        let table = slow();
        let now = crowd(&table) + Duration::from_secs(later);
        let spilled = table.stats().spilled;
        assert!(spilled > 1_000, "{spilled}");
        // The spill was charged whole bursts at 1,100 s. A burst takes 600,000 s to drain.
        let owed = (601_100 - now.as_nanos() / 1_000_000_000).div_ceil(600);
        let left = 1_000 - owed;
        assert_eq!(table.entry(&KEY).at(now).peek(1).remaining(), left, "after {later} s");
        assert!(!table.entry(&KEY).at(now).peek(left + 1).is_allowed());
        assert!(!table.entry(&KEY).at(now).check_n(left + 1).is_allowed());
        assert!(table.entry(&KEY).at(now).check_n(left).is_allowed());
        // The key has a cell again. The earlier denial was because of the debt in the spill.
        assert_eq!(table.stats().spilled, spilled + 1);
    }
}

#[test]
fn a_look_before_the_floor_forgets_a_key_finds_the_cell_as_its_charge_does() {
    let table = slow();
    let end = crowd(&table);
    assert_eq!(table.entry(&KEY).at(end).peek(1_000).remaining(), 1_000);
    assert!(table.entry(&KEY).at(end).check_n(1_000).is_allowed());
}

#[test]
fn without_a_spill_what_is_forgotten_owes_nothing() {
    let table = slow().when_full(WhenFull::Deny).unwrap();
    let now = crowd(&table) + Duration::from_secs(1);
    assert!(table.entry(&KEY).at(now).peek(1_000).is_allowed());
    assert!(table.entry(&KEY).at(now).check_n(1_000).is_allowed());
}

/// A small table gets requests at times that leap back and forth. A charge may then forget its own key, and give it a
/// cell in another of its shards, whose floor may be far ahead.
#[test]
fn a_look_at_a_time_out_of_order_says_what_its_charge_is_told() {
    let mut state = 88_172_645_463_325_251_u64;
    // The generator is Marsaglia's xorshift.
    let mut below = |end: u64| {
        for shift in [13, -7, 17] {
            state ^= if shift > 0 { state << shift } else { state >> -shift };
        }
        state % end
    };
    for text in [
        "fixed-window 5/10s",
        "fixed-window 5/10s from-first",
        "sliding-window 5/10s exact",
        "segmented-window 6/12s x3",
        "gcra 1/s burst 5",
    ] {
        for round in 0..1_500 {
            let table = table(text, usize::try_from(below(20)).unwrap() + 1);
            let table =
                if round % 2 == 0 { table.when_full(WhenFull::Deny).unwrap() } else { table };
            let (keys, span_ns) = (below(40) + 1, [1, 10, 100, 100_000][round % 4] * 1_000_000_000);
            let mut now_ns = 1_000_000_000_000_000_000;
            for step in 0..120 {
                now_ns = now_ns + below(span_ns) - below(span_ns);
                let (key, cost) = (below(keys), below(5) + 1);
                let now = Timestamp::from_nanos(now_ns);
                let [look, charge] =
                    [table.entry(&key).at(now).peek(cost), table.entry(&key).at(now).check_n(cost)];
                let told = format!("{text}, round {round}, step {step}: {look:?}, {charge:?}");
                assert_eq!(look.is_allowed(), charge.is_allowed(), "{told}");
                let wait = |decision: Decision| decision.into_result().map_err(|d| d.retry_after());
                assert_eq!(wait(look).err(), wait(charge).err(), "{told}");
            }
        }
    }
}
