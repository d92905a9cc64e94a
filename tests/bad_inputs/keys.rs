//! Section D of the catalogue of bad inputs: keys, memory, hashing.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ahash::RandomState;
use tollgate::{DenialReason, KeyedLimiter, ManualClock, Quota, WhenFull};

use crate::bad_inputs::concurrency::on_threads;

/// A badly chosen hasher, which applies a function to the number that is hashed.
#[derive(Clone)]
struct Chosen(fn(u64) -> u64);

struct ChosenHasher(fn(u64) -> u64, u64);

impl BuildHasher for Chosen {
    type Hasher = ChosenHasher;

    fn build_hasher(&self) -> ChosenHasher {
        ChosenHasher(self.0, 0)
    }
}

impl Hasher for ChosenHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.1 = (self.1 << 8) | u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.1 = number;
    }

    fn finish(&self) -> u64 {
        (self.0)(self.1)
    }
}

fn spread(number: u64) -> u64 {
    (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[test]
fn row_54_a_million_keys_leave_the_memory_as_it_was() {
    let keyed = KeyedLimiter::builder(Quota::per_hour(5))
        .clock(ManualClock::new())
        .when_full(WhenFull::Deny)
        .build(1_000)
        .unwrap();
    let bytes = keyed.stats().bytes;
    let denied = (0..1_000_000_u64).filter(|key| !keyed.check(key).is_allowed()).count();
    assert_eq!(keyed.stats().bytes, bytes);
    assert_eq!(keyed.stats().live + denied, 1_000_000);
}

#[test]
fn row_61_keys_made_to_share_a_shard_take_nobodys_cell() {
    // All keys have the same first shard, but their second shards differ.
    let crafted = Chosen(|number| 7 << 60 | spread(number) >> 20);
    let clock = ManualClock::new();
    let keyed = KeyedLimiter::builder(Quota::per_hour(5))
        .clock(clock)
        .hasher(crafted)
        .when_full(WhenFull::Deny)
        .build(1_000)
        .unwrap();
    assert!(keyed.check_n(&0_u64, 5).is_allowed());
    let denied = (1..10_000_u64).filter(|key| !keyed.check(key).is_allowed()).count();
    assert!(!keyed.check(&0).is_allowed(), "the victim was reset");
    assert!(denied > 8_000, "{denied}");
    assert_eq!(keyed.stats().full, denied as u64);
}

#[test]
fn row_62_a_flood_of_new_keys_resets_no_key() {
    let keyed =
        KeyedLimiter::builder(Quota::per_hour(5)).clock(ManualClock::new()).build(1_000).unwrap();
    let bytes = keyed.stats().bytes;
    let victims: Vec<u64> = (0..100).collect();
    for victim in &victims {
        assert!(keyed.check_n(victim, 5).is_allowed());
    }
    on_threads(4, |thread| {
        (0..100_000)
            .map(|n| u64::from(keyed.check(&(1_000 + thread * 100_000 + n)).is_allowed()))
            .sum()
    });
    for victim in &victims {
        assert!(!keyed.check(victim).is_allowed(), "victim {victim} was reset");
    }
    let stats = keyed.stats();
    assert_eq!(stats.bytes, bytes);
    assert!(stats.live <= stats.cells);
    assert!(stats.spilled > 300_000, "{stats:?}");
    assert_eq!(stats.full, 0);
}

#[test]
fn row_63_a_full_table_denies_newcomers_until_the_hour_it_names() {
    let clock = ManualClock::new();
    let keyed = KeyedLimiter::builder(Quota::per_hour(1))
        .clock(clock.clone())
        .when_full(WhenFull::Deny)
        .build(1)
        .unwrap();
    let denial = (0..1_000_u64)
        .find_map(|key| keyed.check(&key).into_result().err())
        .expect("a table for one key has no thousand cells");
    assert_eq!(denial.reason(), DenialReason::TableFull);
    assert_ne!(denial.reason(), DenialReason::NeverFits);
    let wait = denial.retry_after().unwrap();
    // The first cell is idle after an hour. The floor follows the time in steps of one millisecond.
    assert!((3_600_000..=3_600_003).contains(&wait.as_millis()), "{wait:?}");
    clock.advance(wait);
    let admitted = (1_000..2_000_u64).filter(|key| keyed.check(key).is_allowed()).count();
    assert!(admitted > 0);
    assert!(keyed.stats().reclaimed > 0);
}

#[test]
fn row_64_keys_that_collide_in_the_hash_share_one_limit_and_admit_less() {
    // Keys 2n and 2n + 1 have the same hash.
    let blind = Chosen(|number| spread(number / 2));
    let clock = ManualClock::new();
    let keyed =
        KeyedLimiter::builder(Quota::per_hour(5)).clock(clock).hasher(blind).build(100).unwrap();
    assert!(keyed.check_n(&10_u64, 3).is_allowed());
    assert!(!keyed.check_n(&11, 3).is_allowed());
    assert!(keyed.check_n(&11, 2).is_allowed());
    assert!(keyed.check_n(&12, 5).is_allowed());
    assert_eq!(keyed.stats().live, 2);
}

#[test]
fn row_65_what_remains_of_a_limit_tells_nothing_of_the_seeds_that_place_keys() {
    // The tables have different seeds, and give the same answers.
    let clock = ManualClock::new;
    let tables = [1, 2].map(|seed| {
        KeyedLimiter::builder(Quota::per_hour(5))
            .clock(clock())
            .hasher(RandomState::with_seeds(seed, seed, seed, seed))
            .build(10_000)
            .unwrap()
    });
    for key in 0..5_000_u64 {
        let answers = tables.each_ref().map(|table| table.check_n(&key, 1 + key % 5).remaining());
        assert_eq!(answers[0], answers[1], "{key}");
    }
}

#[test]
fn row_67_seeds_are_drawn_for_each_table_whatever_the_hash_was_built_with() {
    // If the seeds were constants, like those of ahash in a build without entropy, the two snapshots would contain the
    // same seeds.
    let seeds = || {
        let table = KeyedLimiter::<u64>::new(Quota::per_hour(1), 1).unwrap();
        let mut file = Vec::new();
        table.snapshot(&mut file).unwrap();
        file[104..136].to_vec()
    };
    let all: HashSet<Vec<u8>> = (0..64).map(|_| seeds()).collect();
    assert_eq!(all.len(), 64);
    assert!(all.iter().flat_map(|seeds| seeds.chunks(8)).all(|seed| seed != [0; 8]));
}

#[test]
fn row_70_and_71_keys_are_the_bytes_that_they_are() {
    // A caller for whom EXAMPLE.com. and example.com are one key must normalise them, because the limiter does not.
    let keyed =
        KeyedLimiter::builder(Quota::per_hour(1)).clock(ManualClock::new()).build(100).unwrap();
    let hosts = ["example.com", "EXAMPLE.com", "example.com.", "ex\u{430}mple.com"];
    let accents = ["caf\u{e9}", "cafe\u{301}"];
    for key in hosts.into_iter().chain(accents) {
        assert!(keyed.check(key).is_allowed(), "{key}");
        assert!(!keyed.check(key).is_allowed(), "{key}");
    }
}

#[test]
fn row_72_patterned_numbers_fill_shards_as_random_ones_do() {
    // These numbers end in 30 zero bits. The table holds as many keys as its capacity, a quarter of a million, and
    // about 1 key in 10,000 finds no cell. `tests/placement.rs` checks a million keys.
    let table = KeyedLimiter::builder(Quota::per_hour(1))
        .clock(ManualClock::new())
        .when_full(WhenFull::Deny)
        .build(250_000)
        .unwrap();
    let admitted = (0..250_000_u64).filter(|n| table.check(&(n << 30)).is_allowed()).count();
    assert!(admitted >= 249_975, "{admitted}");
}

#[test]
fn row_66_no_two_tables_place_keys_alike() {
    // The placement of keys decides which of 2,000 keys find one of the few hundred cells.
    let found = |table: KeyedLimiter<u64>| -> Vec<u64> {
        let table = table.when_full(WhenFull::Deny).unwrap();
        (0..2_000).filter(|key| table.check(key).is_allowed()).collect()
    };
    let (quota, clock) = (Quota::per_hour(1), ManualClock::new);
    let own = || found(KeyedLimiter::builder(quota).clock(clock()).build(200).unwrap());
    let all: HashSet<Vec<u64>> = (0..64).map(|_| own()).collect();
    assert_eq!(all.len(), 64);
    // Two tables with the same seeds place keys in the same way.
    let seeded = || {
        let hasher = RandomState::with_seeds(1, 1, 1, 1);
        found(KeyedLimiter::builder(quota).clock(clock()).hasher(hasher).build(200).unwrap())
    };
    assert_eq!(seeded(), seeded());
}

#[test]
fn row_68_odd_keys_are_keys() {
    let keyed =
        KeyedLimiter::builder(Quota::per_hour(1)).clock(ManualClock::new()).build(100).unwrap();
    let long = "x".repeat(1 << 20);
    for key in ["", "\0", "\0\0", "a\0b", "a", long.as_str(), &long[1..]] {
        assert!(keyed.check(key).is_allowed(), "{} bytes", key.len());
        assert!(!keyed.check(key).is_allowed(), "{} bytes", key.len());
    }
    assert_eq!(keyed.stats().live, 7);
}

#[test]
fn row_69_the_parts_of_a_key_do_not_run_together() {
    let keyed =
        KeyedLimiter::builder(Quota::per_hour(1)).clock(ManualClock::new()).build(100).unwrap();
    assert!(keyed.check(&("a_b", "c")).is_allowed());
    assert!(keyed.check(&("a", "b_c")).is_allowed());
    assert!(keyed.check(&("a_", "b_c")).is_allowed());
    assert!(!keyed.check(&("a", "b_c")).is_allowed());
}

/// A hasher that counts how often it is used.
#[derive(Clone)]
struct Counted(Chosen, Arc<AtomicU64>);

impl BuildHasher for Counted {
    type Hasher = ChosenHasher;

    fn build_hasher(&self) -> ChosenHasher {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.build_hasher()
    }
}

#[test]
fn row_128_a_key_costs_one_hash_and_fourteen_cells_whether_it_is_there_or_not() {
    let hashes = Arc::new(AtomicU64::new(0));
    // The smallest table has one unit of two shards, with fourteen cells. In a larger table a key may have two units.
    for full in [WhenFull::Deny, WhenFull::Spill] {
        let counted = Counted(Chosen(spread), Arc::clone(&hashes));
        let clock = ManualClock::new();
        let keyed = KeyedLimiter::builder(Quota::per_hour(2))
            .clock(clock)
            .hasher(counted)
            .when_full(full)
            .build(1)
            .unwrap();
        let cells = keyed.stats().cells;
        assert!(cells <= 14, "{cells}");
        hashes.store(0, Ordering::Relaxed);
        let work = |is_allowed: bool, expected: bool, what: &str| {
            assert_eq!(is_allowed, expected, "{what}");
            assert_eq!(hashes.swap(0, Ordering::Relaxed), 1, "{what}");
        };
        work(keyed.entry(&7_u64).peek(1).is_allowed(), true, "asked about, not there");
        work(keyed.check(&7).is_allowed(), true, "new");
        work(keyed.check(&7).is_allowed(), true, "there");
        work(keyed.check(&7).is_allowed(), false, "there and denied");
        work(keyed.entry(&7).peek(1).is_allowed(), false, "asked about, there");
        for key in 100..1_000 {
            let _ = keyed.check(&key);
            assert_eq!(hashes.swap(0, Ordering::Relaxed), 1, "among others, {full:?}");
        }
        assert!(keyed.stats().live <= cells);
        let _ = keyed.check(&1_000);
        assert_eq!(hashes.swap(0, Ordering::Relaxed), 1, "new, and no cell left: {full:?}");
        work(keyed.check(&7).is_allowed(), false, "still there");
    }
    // The documentation names what the time of a decision can still reveal: which of a key's shards was used, or that
    // a key was installed.
    let security = include_str!("../../SECURITY.md");
    assert!(security.contains("A decision's time tells whether a key was there before"));
}

#[test]
fn keys_come_and_go_for_ever_in_fixed_memory() {
    let clock = ManualClock::new();
    let keyed =
        KeyedLimiter::builder(Quota::per_second(1)).clock(clock.clone()).build(1_000).unwrap();
    for second in 0..1_000_u64 {
        for key in 0..100 {
            assert!(keyed.check(&(second * 100 + key)).is_allowed(), "{second} {key}");
        }
        clock.advance(std::time::Duration::from_millis(1_010));
    }
    assert_eq!(keyed.stats().full + keyed.stats().spilled, 0);
    assert!(keyed.stats().reclaimed >= 98_000, "{:?}", keyed.stats());
}
