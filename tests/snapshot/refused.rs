//! Files that are not right: each is refused whole, by the error that names what is wrong.

use std::io::{self, Read};

use ahash::RandomState;
use allocation_counter::measure;
use tollgate::{
    BuildError, Clock, Full, KeyedLimiter, Limiter, ManualClock, RestoreError, SnapshotError,
    Timestamp,
};

use crate::common::policy;
use crate::file::{HASHERS, Times, WORDS_AT, at_wall, get, put, seal, wall};

const POLICY: &str = "gcra 1/m burst 3";

type Table = KeyedLimiter<u64, Times>;

/// A small table: one shard, or two, with a few keys. The same file on every run.
fn file() -> Vec<u8> {
    let table = Table::with_hashers(policy(POLICY), 1, ManualClock::new(), HASHERS).unwrap();
    // Files with a spill are longer, and refused in the same way: see `tests/spill/kept.rs`.
    let table = table.when_full(Full::Deny).unwrap();
    for key in 0..5 {
        assert!(table.entry(&key).at(Timestamp::from_secs(key)).check(1 + key % 3).is_allowed());
    }
    let mut file = Vec::new();
    assert_eq!(table.snapshot(&mut file).unwrap().keys, 5);
    at_wall(file, wall(0))
}

fn restore(file: &[u8]) -> Result<Table, RestoreError> {
    Table::restore_with_hashers(policy(POLICY), ManualClock::new(), HASHERS, file)
}

fn limiter_file() -> Vec<u8> {
    let limiter = Limiter::with_clock(policy(POLICY), ManualClock::new());
    assert!(limiter.check(2).is_allowed());
    let mut file = Vec::new();
    limiter.snapshot(&mut file).unwrap();
    at_wall(file, wall(0))
}

fn restore_limiter(file: &[u8]) -> Result<Limiter, RestoreError> {
    Limiter::restore(policy(POLICY), ManualClock::new(), file)
}

/// The error that is expected of a file in which this byte is wrong.
fn is_told(error: &RestoreError, at: usize) -> bool {
    match at {
        0..8 => matches!(error, RestoreError::NotASnapshot { .. }),
        8..12 => matches!(error, RestoreError::Version { .. }),
        12..WORDS_AT => matches!(error, RestoreError::Damaged { part: "preamble", .. }),
        _ => matches!(error, RestoreError::Damaged { part: "file", .. }),
    }
}

#[test]
fn every_byte_that_is_changed_in_any_way_is_noticed() {
    let (table, limiter) = (file(), limiter_file());
    assert!(restore(&table).is_ok() && restore_limiter(&limiter).is_ok());
    for (mut file, restore) in [
        (table, &(|file: &[u8]| restore(file).err()) as &dyn Fn(&[u8]) -> Option<RestoreError>),
        (limiter, &|file: &[u8]| restore_limiter(file).err()),
    ] {
        for at in 0..file.len() {
            for change in 1..=u8::MAX {
                file[at] ^= change;
                let error =
                    restore(&file).unwrap_or_else(|| panic!("byte {at} ^ {change} accepted"));
                assert!(is_told(&error, at), "byte {at} ^ {change}: {error}");
                file[at] ^= change;
            }
        }
    }
}

#[test]
fn every_file_that_is_cut_or_goes_on_is_noticed() {
    let (table, limiter) = (file(), limiter_file());
    for length in 0..table.len() {
        match restore(&table[..length]) {
            Err(RestoreError::Truncated { found, needed }) => {
                assert_eq!(found, length as u64);
                assert!(needed > found && needed <= table.len() as u64);
            }
            other => panic!("{length} bytes: {other:?}"),
        }
    }
    for length in 0..limiter.len() {
        let refused = restore_limiter(&limiter[..length]);
        assert!(matches!(refused, Err(RestoreError::Truncated { .. })), "{length} bytes");
    }
    let expected = table.len() as u64;
    for more in [&[0][..], &[0; 64], &table] {
        match restore(&[&table[..], more].concat()) {
            Err(RestoreError::TooLong { expected: found }) => assert_eq!(found, expected),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn something_else_than_a_snapshot_is_told_so_however_short() {
    for bytes in [&b"x"[..], b"TOLLGATF", b"{\"version\": 1}", &[0; 1_000]] {
        assert!(matches!(restore(bytes), Err(RestoreError::NotASnapshot { .. })), "{bytes:?}");
    }
    for version in [1, 2, 4] {
        let file = [&b"TOLLGATE"[..], &[version, 0, 0, 0]].concat();
        let refused = restore(&file);
        assert!(matches!(refused, Err(RestoreError::Version { found }) if found == version.into()));
    }
}

/// The error of a file whose preamble says something else, with a checksum that is right.
fn told(at: usize, number: u64) -> RestoreError {
    let mut file = file();
    put(&mut file, at, number);
    seal(&mut file);
    restore(&file).map(|_| ()).unwrap_err()
}

#[test]
fn another_machine_is_refused_by_the_width_of_its_pointers() {
    let mut file = file();
    file[13] = 32;
    seal(&mut file);
    match restore(&file) {
        Err(RestoreError::PointerWidth { found: 32, expected }) => {
            assert_eq!(u32::from(expected), usize::BITS);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_policy_is_refused_by_its_name() {
    for other in ["gcra 1/m burst 4", "gcra 2/m burst 3", "fixed-window 1/m"] {
        let restored =
            Table::restore_with_hashers(policy(other), ManualClock::new(), HASHERS, &file()[..]);
        let expected = format!(
            "the snapshot was taken under \"gcra 1/m burst 3\"; only one under {other:?} is read"
        );
        assert_eq!(restored.map(|_| ()).unwrap_err().to_string(), expected);
        let restored = Limiter::restore(policy(other), ManualClock::new(), &limiter_file()[..]);
        assert_eq!(restored.map(|_| ()).unwrap_err().to_string(), expected);
    }
}

#[test]
fn another_limiter_is_refused_by_its_kind() {
    let expected = ["KeyedLimiter", "Limiter"];
    match restore_limiter(&file()) {
        Err(RestoreError::Kind { found, expected: needed }) => {
            assert_eq!([found, needed], expected);
        }
        other => panic!("{other:?}"),
    }
    match restore(&limiter_file()) {
        Err(RestoreError::Kind { found, expected: needed }) => {
            assert_eq!([needed, found], expected);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_layout_is_refused() {
    for (at, what) in
        [(56, "cells"), (64, "fineness"), (72, "epoch"), (80, "back"), (88, "ends of penalties")]
    {
        let number = get(&file(), at) + 1;
        match told(at, number) {
            RestoreError::Layout { found, expected } => {
                assert!(found != expected && found.contains(what) && expected.contains(what));
            }
            other => panic!("{what}: {other:?}"),
        }
    }
}

#[test]
fn sizes_that_do_not_fit_together_are_refused() {
    let length = file().len() as u64;
    let shards = get(&file(), 48);
    match told(16, length + 64) {
        RestoreError::Field { name: "length", found, expected } => {
            assert_eq!((found, expected), (length + 64, length));
        }
        other => panic!("{other:?}"),
    }
    match told(48, shards + 1) {
        RestoreError::Field { name: "number of shards", found, expected } => {
            assert_eq!((found, expected), (shards + 1, shards));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(told(40, 100), RestoreError::Field { name: "number of shards", .. }));
    assert!(matches!(told(40, 0), RestoreError::Build(BuildError::ZeroCapacity)));
    let too_large = told(40, u64::MAX);
    assert!(matches!(too_large, RestoreError::Build(BuildError::CapacityTooLarge { .. })));
}

#[test]
fn words_that_no_table_writes_are_refused_although_the_checksum_is_right() {
    let whole = file();
    // Of each 64 bytes the first eight are the header: a live cell, and a vacant one of the same shard.
    let cells = |shard: usize| (1..8).map(move |nth| WORDS_AT + 64 * shard + 8 * nth);
    let of_shard = |shard: usize| {
        let live = cells(shard).find(|&at| get(&whole, at) != 0)?;
        Some((cells(shard).find(|&at| get(&whole, at) == 0)?, live))
    };
    let (vacant, live) = (0..(whole.len() - WORDS_AT) / 64).find_map(of_shard).unwrap();
    let claim = get(&whole, live) | 1 << 63;
    let twin = get(&whole, live) ^ 1;
    for (at, word, accepted) in [
        (vacant, claim, "vacant, since no thread would finish this install"),
        (vacant, 1, "vacant, or have a tag"),
        (WORDS_AT, 1 << 44, "a header whose unused bits are 0"),
        (WORDS_AT, 1 << 51, "a header whose unused bits are 0"),
    ] {
        let mut file = whole.clone();
        put(&mut file, at, word);
        seal(&mut file);
        match restore(&file) {
            Err(RestoreError::Word { offset, found, accepted: needed }) => {
                assert_eq!((offset, found, needed), (at as u64, word, accepted));
            }
            other => panic!("{other:?}"),
        }
    }
    let mut file = whole.clone();
    put(&mut file, vacant, twin);
    seal(&mut file);
    match restore(&file) {
        Err(RestoreError::Word { offset, accepted, .. }) => {
            assert_eq!(offset, live.min(vacant) as u64);
            assert_eq!(accepted, "vacant, since another word further on has the same key");
        }
        other => panic!("{other:?}"),
    }
    // The control: a vacant cell may hold the word of another key, and a header a floor and a count.
    let mut file = whole.clone();
    put(&mut file, vacant, get(&whole, live) ^ 1 << 61);
    put(&mut file, WORDS_AT, 7 << 52 | 1);
    seal(&mut file);
    assert!(restore(&file).is_ok());
}

#[test]
fn other_hashers_are_refused() {
    let [place, tag] = HASHERS;
    for hashers in [[tag, place], [place, place], [place, Times(7)]] {
        let restored =
            Table::restore_with_hashers(policy(POLICY), ManualClock::new(), hashers, &file()[..]);
        assert!(matches!(restored, Err(RestoreError::Hashers)));
    }
    // A limiter with its owner's hashers: their seeds are not in its file.
    let states = || [1, 2].map(|n| RandomState::with_seeds(n, 0, 0, 0));
    let clock = ManualClock::new();
    let own =
        KeyedLimiter::<u64>::with_hashers(policy(POLICY), 9, clock.clone(), states()).unwrap();
    let mut file = Vec::new();
    own.snapshot(&mut file).unwrap();
    let restored = KeyedLimiter::<u64>::restore(policy(POLICY), clock.clone(), &file[..]);
    assert!(matches!(restored, Err(RestoreError::SeedsMissing)));
    let restored =
        KeyedLimiter::<u64>::restore_with_hashers(policy(POLICY), clock, states(), &file[..]);
    assert!(restored.is_ok());
}

#[test]
fn seeds_that_are_not_those_of_the_words_are_refused() {
    let table = KeyedLimiter::<u64>::new(policy(POLICY), 9).unwrap();
    let mut file = Vec::new();
    table.snapshot(&mut file).unwrap();
    for seed in 0..8 {
        let at = 112 + 8 * seed;
        let mut file = file.clone();
        let number = get(&file, at) ^ 1 << 17;
        put(&mut file, at, number);
        seal(&mut file);
        let restored = KeyedLimiter::<u64>::restore(policy(POLICY), Clock::monotonic(), &file[..]);
        assert!(matches!(restored, Err(RestoreError::Hashers)), "seed {seed}");
    }
}

#[test]
fn a_file_that_promises_much_and_has_little_costs_little() {
    let mut file = file();
    let capacity = 1_u64 << 40;
    put(&mut file, 40, capacity);
    seal(&mut file);
    let Err(RestoreError::Field { expected: shards, .. }) = restore(&file) else {
        panic!("the shards do not fit the capacity");
    };
    put(&mut file, 48, shards);
    put(&mut file, 16, 384 + 64 * shards);
    seal(&mut file);
    let mut restored = None;
    let allocations = measure(|| restored = Some(restore(&file).map(|_| ())));
    match restored {
        Some(Err(RestoreError::Truncated { found, .. })) => assert_eq!(found, file.len() as u64),
        other => panic!("{other:?}"),
    }
    assert!(allocations.bytes_max < 16_384, "{} bytes", allocations.bytes_max);
}

/// Gives a byte at a time, and at the end fails.
struct Broken<'f>(&'f [u8]);

impl Read for Broken<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0 {
            [] => Err(io::Error::from(io::ErrorKind::ConnectionReset)),
            [first, rest @ ..] => {
                (buffer[0], self.0) = (*first, rest);
                Ok(1)
            }
        }
    }
}

#[test]
fn an_error_of_the_reader_or_writer_is_passed_on() {
    let file = file();
    for length in [0, 7, 100, WORDS_AT, file.len() - 1, file.len()] {
        let reader = Broken(&file[..length]);
        let clock = ManualClock::new();
        let restored = Table::restore_with_hashers(policy(POLICY), clock, HASHERS, reader);
        let Err(RestoreError::Read(error)) = restored else { panic!("{length}: {restored:?}") };
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
    let table = restore(&file).unwrap();
    for length in [0, 7, 100, WORDS_AT, file.len() - 1] {
        let mut room = vec![0; length];
        assert!(matches!(table.snapshot(&mut room[..]), Err(SnapshotError::Write(_))), "{length}");
    }
    let mut room = vec![0; file.len()];
    table.snapshot(&mut room[..]).unwrap();
    assert_eq!(at_wall(room, wall(0)), file);
}
