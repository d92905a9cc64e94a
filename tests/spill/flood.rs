//! Floods of keys that come once: no key gets more than its quota, and memory does not grow. The tests also measure how
//! many newcomers are refused although their own quota would admit them.
//!
//! # Measured
//! The table shows the shares of newcomers that are wrongly refused after a flood. Each key of the flood asks once for
//! one unit, all at one instant. The columns are for floods of 2 to 9 times as many keys as the table's capacity
//! (tables of 100,000 keys, fixed seeds):
//!
//! | burst | 2 x | 3 x | 6 x | 9 x |
//! |--:|--:|--:|--:|--:|
//! | 1 | 98.5 % | 100 % | 100 % | 100 % |
//! | 5 | 43.7 % | 99.9 % | 100 % | 100 % |
//! | 10 | 0.4 % | 88.8 % | 100 % | 100 % |
//! | 20 | 0 | 2.2 % | 100 % | 100 % |
//! | 50 | 0 | 0 | 5.6 % | 99.8 % |
//! | 100 | 0 | 0 | 0 | 0 |
//!
//! `docs/production.md` has four of these rows, rounded.
//!
//! The table itself holds 1.43 times as many keys as its capacity. Keys beyond that are decided in the sketch of the
//! spill. Each cell of the sketch takes a burst of units, from any keys, before it refuses the next unit. So newcomers
//! are refused as soon as the spill has been charged about a burst for each cell of a row. That is the case after
//! `0.10 * burst` times as many further keys as the capacity. Newcomers are admitted again when those units have
//! drained.
//!
//! A sketch of one row with twice as many cells would take a flood nearly twice as large. But then each key that has
//! used up its quota in the spill would cause refusals of other keys. The share of these keys would be as large as the
//! key's share of the cells. With two rows that share is squared.
//!
//! `benches/peers/src/newcomers` compares Tollgate with rate-net, which bounds its memory too, at the same number of
//! bytes; `benches/docs/floods.md` has the figures.

use std::time::Duration;

use tollgate::{Timestamp, WhenFull};

use crate::spill::crowd::{Table, table};

const NOW: Timestamp = Timestamp::from_secs(1_000_000);

/// The first key of the flood.
const FLOOD: u64 = 1 << 32;

/// The first newcomer after the flood.
const NEWCOMERS: u64 = 1 << 40;

fn flood(table: &Table, keys: u64) {
    for key in FLOOD..FLOOD + keys {
        let _ = table.entry(&key).at(NOW).check();
    }
}

/// The number of refused newcomers out of 20,000.
fn refused(table: &Table) -> u64 {
    let newcomers = NEWCOMERS..NEWCOMERS + 20_000;
    newcomers.filter(|key| !table.entry(key).at(NOW).peek(1).is_allowed()).count() as u64
}

#[test]
fn a_flood_of_100_times_the_capacity_resets_no_key_and_takes_no_memory() {
    for text in [
        "gcra 5/h burst 5",
        "fixed-window 5/h",
        "sliding-window 5/h exact",
        "segmented-window 5/h x4",
    ] {
        let table = table(text, 1_000);
        let bytes = table.stats().bytes;
        // These victims have spent their quota in their cells. Later there are others, which found no cell.
        let mut victims: Vec<u64> = (0..100).collect();
        for victim in &victims {
            assert!(table.entry(victim).at(NOW).check_n(5).is_allowed(), "{text}");
        }
        for key in FLOOD..FLOOD + 20_000 {
            if !table.entry(&key).at(NOW).peek(1).is_spilled() {
                assert!(table.entry(&key).at(NOW).check().is_allowed());
            }
        }
        assert_eq!(table.stats().spilled, 0);
        // These victims first ask when all cells are taken.
        let without_cell: Vec<u64> =
            (100..).filter(|key| table.entry(key).at(NOW).peek(1).is_spilled()).take(100).collect();
        for victim in without_cell {
            let admitted =
                (0..6).filter(|_| table.entry(&victim).at(NOW).check().is_allowed()).count();
            assert!(admitted <= 5, "{text}: victim {victim} was admitted {admitted}");
            assert!(admitted == 5 || victims.len() > 100, "{text}: alone in the spill");
            victims.push(victim);
        }
        for round in 0..10 {
            flood(&table, 3_000 + round * 10_000);
            for victim in &victims {
                assert!(
                    !table.entry(victim).at(NOW).check().is_allowed(),
                    "{text}: victim {victim}"
                );
            }
        }
        let stats = table.stats();
        assert_eq!((stats.bytes, stats.full, stats.contended), (bytes, 0, 0), "{text}");
        assert_eq!(stats.live, stats.cells);
        // The flood has used up the spill, so all newcomers are refused.
        assert_eq!(refused(&table), 20_000, "{text}");
        // After the time of two bursts, or after two windows, the flood has drained.
        let later = NOW + Duration::from_secs(7_201);
        let admitted = (NEWCOMERS..NEWCOMERS + 1_000)
            .filter(|key| table.entry(key).at(later).check().is_allowed());
        assert_eq!(admitted.count(), 1_000, "{text}");
    }
}

#[test]
fn the_spill_takes_an_eighth_of_the_tables_memory() {
    for capacity in [1, 100, 10_000, 1_000_000] {
        let spilling = table("1/s", capacity).stats();
        let denying = table("1/s", capacity).when_full(WhenFull::Deny).unwrap().stats();
        assert_eq!(spilling.bytes, denying.bytes + spilling.spill_bytes);
        assert_eq!((denying.spill_bytes, denying.cells), (0, spilling.cells));
        let [spill, shards] = [spilling.spill_bytes, denying.bytes / 64];
        // The spill has eight bytes for each shard of 64 bytes, at least 1 KiB, and a mark for every 64 shards.
        assert_eq!(spill, (8 * (shards / 2 * 2)).max(1_024) + 8 * shards.div_ceil(64));
        if capacity == 1_000_000 {
            let bytes = spilling.bytes as f64 / 1e6;
            assert!((14.6..14.8).contains(&bytes), "{bytes} bytes a key");
        }
    }
}

/// The share of newcomers, in hundredths of a percent, that are refused under this burst after a flood. The flood has
/// `tenths` tenths of the capacity.
fn wrongly_refused(burst: u64, tenths: u64) -> u64 {
    const CAPACITY: u64 = 100_000;
    let table = table(&format!("gcra 1/d burst {burst}"), usize::try_from(CAPACITY).unwrap());
    flood(&table, CAPACITY * tenths / 10);
    refused(&table) * 10_000 / 20_000
}

#[test]
fn newcomers_are_refused_as_rarely_as_is_said() {
    for (burst, told) in [
        (1, [9_853, 10_000, 10_000, 10_000]),
        (5, [4_373, 9_986, 10_000, 10_000]),
        (10, [36, 8_882, 10_000, 10_000]),
        (20, [0, 217, 10_000, 10_000]),
        (50, [0, 0, 557, 9_984]),
        (100, [0, 0, 0, 0]),
    ] {
        for (tenths, told) in [20, 30, 60, 90].into_iter().zip(told) {
            let found = wrongly_refused(burst, tenths);
            // aHash computes different hashes on a processor without AES instructions.
            assert!(found.abs_diff(told) <= 200, "burst {burst}, {tenths} tenths: {found}");
        }
    }
}

#[test]
fn at_equal_bytes_a_flood_of_nine_times_anothers_capacity_finds_cells() {
    // In this much memory, a store that takes 138 bytes a key has room for 10,000 keys.
    let capacity = 138 * 10_000 / 16;
    let refused_at = |keys| {
        let table = table("gcra 1/d burst 1", capacity);
        flood(&table, keys);
        (refused(&table), table.stats().spilled)
    };
    let (refused, spilled) = refused_at(60_000);
    assert_eq!((refused, spilled), (0, 0));
    let (refused, spilled) = refused_at(90_000);
    assert!(refused <= 20 && spilled <= 20, "{refused} of 20,000; {spilled} of 90,000");
}
