//! Wrong files: each is refused as a whole, and the error names the mistake.

use std::io::{self, Read};

use ahash::RandomState;
use allocation_counter::measure;
use tollgate::{
    BuildError, Clock, KeyedLimiter, Limiter, ManualClock, RestoreError, SnapshotError, Timestamp,
    WhenFull,
};

use crate::common::policy;
use crate::snapshot::file::{HASHER, Times, WORDS_AT, at_wall, get, put, seal, wall};

const POLICY: &str = "gcra 1/m burst 3";

type Table = KeyedLimiter<u64, Times>;

/// The file of a small table with a few keys, in one shard or two. The file is the same in every run.
fn file() -> Vec<u8> {
    let table = KeyedLimiter::<u64>::builder(policy(POLICY))
        .clock(ManualClock::new())
        .hasher(HASHER)
        .build(1)
        .unwrap();
    // Files with a spill are longer, and are refused in the same way: see `tests/spill/kept.rs`.
    let table = table.when_full(WhenFull::Deny).unwrap();
    for key in 0..5 {
        assert!(table.entry(&key).at(Timestamp::from_secs(key)).check_n(1 + key % 3).is_allowed());
    }
    let mut file = Vec::new();
    assert_eq!(table.snapshot(&mut file).unwrap().keys, 5);
    at_wall(file, wall(0))
}

fn restore(file: &[u8]) -> Result<Table, RestoreError> {
    KeyedLimiter::<u64>::builder(policy(POLICY))
        .clock(ManualClock::new())
        .hasher(HASHER)
        .restore(file)
}

fn limiter_file() -> Vec<u8> {
    let limiter = Limiter::builder(policy(POLICY)).clock(ManualClock::new()).build();
    assert!(limiter.check_n(2).is_allowed());
    let mut file = Vec::new();
    limiter.snapshot(&mut file).unwrap();
    at_wall(file, wall(0))
}

fn restore_limiter(file: &[u8]) -> Result<Limiter, RestoreError> {
    Limiter::builder(policy(POLICY)).clock(ManualClock::new()).restore(file)
}

/// True if this is the error to expect for a file whose byte at `at` is wrong.
fn is_told(error: &RestoreError, at: usize) -> bool {
    match (at, error) {
        (0..8, RestoreError::Damaged(text)) => text.starts_with("the file begins with"),
        (8..12, RestoreError::Mismatch(text)) => text.starts_with("the snapshot has version"),
        (12..WORDS_AT, RestoreError::Damaged(text)) => text.starts_with("the preamble is damaged"),
        (WORDS_AT.., RestoreError::Damaged(text)) => text.starts_with("the file is damaged"),
        _ => false,
    }
}

fn damaged<T>(restored: Result<T, RestoreError>) -> String {
    match restored {
        Err(RestoreError::Damaged(text)) => text,
        other => panic!("{:?}", other.map(|_| "restored")),
    }
}

fn mismatch<T>(restored: Result<T, RestoreError>) -> String {
    match restored {
        Err(RestoreError::Mismatch(text)) => text,
        other => panic!("{:?}", other.map(|_| "restored")),
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
        let told = damaged(restore(&table[..length]));
        let needed =
            told.strip_prefix(&format!("the snapshot ends after {length} bytes; it has at least "));
        let needed: usize = needed.and_then(|needed| needed.parse().ok()).expect(&told);
        assert!(needed > length && needed <= table.len(), "{told}");
    }
    for length in 0..limiter.len() {
        let told = damaged(restore_limiter(&limiter[..length]));
        assert!(told.starts_with("the snapshot ends after"), "{told}");
    }
    let expected = format!("the file goes on after the snapshot's end at {} bytes", table.len());
    for more in [&[0][..], &[0; 64], &table] {
        assert_eq!(damaged(restore(&[&table[..], more].concat())), expected);
    }
}

#[test]
fn something_else_than_a_snapshot_is_told_so_however_short() {
    for bytes in [&b"x"[..], b"TOLLGATF", b"{\"version\": 1}", &[0; 1_000]] {
        let (told, begins) = (damaged(restore(bytes)), bytes[..bytes.len().min(8)].escape_ascii());
        assert_eq!(
            told,
            format!("the file begins with \"{begins}\"; a snapshot begins with \"TOLLGATE\"")
        );
    }
    for version in [1, 2, 3, 4, 5, 6, 8] {
        let file = [&b"TOLLGATE"[..], &[version, 0, 0, 0]].concat();
        let expected =
            format!("the snapshot has version {version} of the format; version 7 is read");
        assert_eq!(mismatch(restore(&file)), expected);
    }
}

/// The error for a file with a different number in its preamble and a correct checksum.
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
    let expected = format!(
        "the snapshot comes from a machine with pointers of 32 bits; \
         only one from a machine with {} is read here",
        usize::BITS
    );
    assert_eq!(mismatch(restore(&file)), expected);
}

#[test]
fn another_policy_is_refused_by_its_name() {
    for other in ["gcra 1/m burst 4", "gcra 2/m burst 3", "fixed-window 1/m"] {
        let restored = KeyedLimiter::<u64>::builder(policy(other))
            .clock(ManualClock::new())
            .hasher(HASHER)
            .restore(&file()[..]);
        let expected = format!(
            "the snapshot was taken under \"gcra 1/m burst 3\"; only one under {other:?} is read"
        );
        assert_eq!(restored.map(|_| ()).unwrap_err().to_string(), expected);
        let restored =
            Limiter::builder(policy(other)).clock(ManualClock::new()).restore(&limiter_file()[..]);
        assert_eq!(restored.map(|_| ()).unwrap_err().to_string(), expected);
    }
}

#[test]
fn another_limiter_is_refused_by_its_kind() {
    assert_eq!(
        mismatch(restore_limiter(&file())),
        "this is the snapshot of a KeyedLimiter; one of a Limiter is needed"
    );
    assert_eq!(
        mismatch(restore(&limiter_file())),
        "this is the snapshot of a Limiter; one of a KeyedLimiter is needed"
    );
}

#[test]
fn another_layout_is_refused() {
    for (at, what) in
        [(56, "cells"), (64, "fineness"), (72, "epoch"), (80, "back"), (88, "ends of penalties")]
    {
        let number = get(&file(), at) + 1;
        let told = mismatch::<()>(Err(told(at, number)));
        let (found, expected) = told.split_once("; those of this version are ").expect(&told);
        let found = found.strip_prefix("the snapshot's words are laid out as ").expect(&told);
        assert!(found != expected && found.contains(what) && expected.contains(what), "{told}");
    }
}

#[test]
fn sizes_that_do_not_fit_together_are_refused() {
    let length = file().len() as u64;
    let shards = get(&file(), 48);
    for (at, found, expected) in [(16, length + 64, length), (48, shards + 1, shards)] {
        let name = if at == 16 { "length" } else { "number of shards" };
        let told = damaged::<()>(Err(told(at, found)));
        assert_eq!(told, format!("the snapshot's {name} is {found}; it must be {expected}"));
    }
    assert!(told(40, 100).to_string().starts_with("the snapshot's number of shards is"));
    assert!(matches!(told(40, 0), RestoreError::Build(BuildError::OutOfRange(_))));
    let too_large = told(40, u64::MAX);
    assert!(matches!(too_large, RestoreError::Build(BuildError::OutOfRange(_))));
}

#[test]
fn words_that_no_table_writes_are_refused_although_the_checksum_is_right() {
    let whole = file();
    // The header of a shard is the first eight of its 64 bytes. Finds a live cell, and a vacant cell of the same shard.
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
        assert_eq!(
            damaged(restore(&file)),
            format!("the word {word:#018x} at byte {at} is no snapshot's; it must be {accepted}")
        );
    }
    let mut file = whole.clone();
    put(&mut file, vacant, twin);
    seal(&mut file);
    let (told, first) = (damaged(restore(&file)), live.min(vacant));
    assert!(told.contains(&format!(" at byte {first} is no snapshot's; ")), "{told}");
    assert!(told.ends_with("vacant, since another word further on has the same key"), "{told}");
    // This is a control: a vacant cell may hold the word of another key, and a header may hold a floor and a count.
    let mut file = whole.clone();
    put(&mut file, vacant, get(&whole, live) ^ 1 << 61);
    put(&mut file, WORDS_AT, 7 << 52 | 1);
    seal(&mut file);
    assert!(restore(&file).is_ok());
}

#[test]
fn another_hasher_is_refused() {
    for other in [Times(0xbf58_476d_1ce4_e5b9), Times(7)] {
        let restored = KeyedLimiter::<u64>::builder(policy(POLICY))
            .clock(ManualClock::new())
            .hasher(other)
            .restore(&file()[..]);
        assert!(mismatch(restored).starts_with("the hasher makes something else of the probe"));
    }
    // A limiter with a hasher that its owner provides, so the hasher's seeds are not in the file.
    let state = || RandomState::with_seeds(1, 0, 0, 0);
    let clock = ManualClock::new();
    let own = KeyedLimiter::<u64>::builder(policy(POLICY))
        .clock(clock.clone())
        .hasher(state())
        .build(9)
        .unwrap();
    let mut file = Vec::new();
    own.snapshot(&mut file).unwrap();
    let restored =
        KeyedLimiter::<u64>::builder(policy(POLICY)).clock(clock.clone()).restore(&file[..]);
    assert!(mismatch(restored).starts_with("the snapshot carries no seeds"));
    let restored = KeyedLimiter::<u64>::builder(policy(POLICY))
        .clock(clock)
        .hasher(state())
        .restore(&file[..]);
    assert!(restored.is_ok());
}

#[test]
fn seeds_that_are_not_those_of_the_words_are_refused() {
    let table = KeyedLimiter::<u64>::new(policy(POLICY), 9).unwrap();
    let mut file = Vec::new();
    table.snapshot(&mut file).unwrap();
    for seed in 0..4 {
        let at = 104 + 8 * seed;
        let mut file = file.clone();
        let number = get(&file, at) ^ 1 << 17;
        put(&mut file, at, number);
        seal(&mut file);
        let restored = KeyedLimiter::<u64>::builder(policy(POLICY))
            .clock(Clock::monotonic())
            .restore(&file[..]);
        let told = mismatch(restored);
        assert!(told.starts_with("the hasher makes something else"), "seed {seed}: {told}");
    }
}

#[test]
fn a_file_that_promises_much_and_has_little_costs_little() {
    let mut file = file();
    let capacity = 1_u64 << 40;
    put(&mut file, 40, capacity);
    seal(&mut file);
    let told = damaged(restore(&file));
    let (_, shards) = told.split_once(" it must be ").expect(&told);
    let shards: u64 = shards.parse().expect(&told);
    put(&mut file, 48, shards);
    put(&mut file, 16, 344 + 64 * shards);
    seal(&mut file);
    let mut restored = None;
    let allocations = measure(|| restored = Some(restore(&file).map(|_| ())));
    let told = damaged(restored.expect("it was measured"));
    assert!(told.starts_with(&format!("the snapshot ends after {} bytes", file.len())), "{told}");
    assert!(allocations.bytes_max < 16_384, "{} bytes", allocations.bytes_max);
}

/// Returns one byte at a time, and fails at the end.
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
        let restored = KeyedLimiter::<u64>::builder(policy(POLICY))
            .clock(clock)
            .hasher(HASHER)
            .restore(reader);
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
