//! Sliding logs in snapshot files: every slot is restored, files that no table has written are refused, and a restart
//! admits no additional units.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use tollgate::{Clock, KeyedLimiter, Limiter, ManualClock, RestoreError, Timestamp};

use crate::common::policy;
use crate::snapshot::file::{HASHER, Times, WORDS_AT, at_wall, get, put, seal, wall};

const POLICY: &str = "sliding-log 3/m";

type Table = KeyedLimiter<u64, Times>;
/// Restores a file, and returns the error if the file is refused.
type Restore = dyn Fn(&[u8]) -> Option<RestoreError>;

fn clock() -> ManualClock {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_secs(100));
    clock
}

fn table() -> Table {
    let table =
        KeyedLimiter::builder(policy(POLICY)).clock(clock()).hasher(HASHER).build(8).unwrap();
    for key in 1..=5 {
        assert!(
            table.entry(&key).at(Timestamp::from_secs(90 + key)).check_n(1 + key % 3).is_allowed()
        );
    }
    table
}

fn file_of(table: &Table) -> Vec<u8> {
    let mut file = Vec::new();
    let saved = table.snapshot(&mut file).unwrap();
    assert_eq!(saved.bytes, file.len() as u64);
    at_wall(file, wall(0))
}

fn restore(file: &[u8]) -> Result<Table, RestoreError> {
    KeyedLimiter::builder(policy(POLICY)).clock(clock()).hasher(HASHER).restore(file)
}

fn log_file(text: &str, at_s: u64, cost: u64) -> Vec<u8> {
    let log = Limiter::builder(policy(text)).clock(clock()).build();
    assert!(log.entry().at(Timestamp::from_secs(at_s)).check_n(cost).is_allowed());
    let mut file = Vec::new();
    log.snapshot(&mut file).unwrap();
    at_wall(file, wall(0))
}

fn damaged<T>(restored: Result<T, RestoreError>) -> String {
    match restored {
        Err(RestoreError::Damaged(text)) => text,
        other => panic!("{:?}", other.map(|_| "restored")),
    }
}

#[test]
fn a_restart_forgets_no_unit_of_a_log_and_admits_none_twice() {
    // The first log has one row of slots, and the second has several.
    for (text, limit) in [("sliding-log 10/m", 10), ("sliding-log 300/m", 300)] {
        let file = log_file(text, 95, limit - 3);
        assert_eq!(file.len() as u64, 344 + 8 * (1 + limit));
        let log = Limiter::builder(policy(text)).clock(clock()).restore(&file[..]).unwrap();
        assert_eq!(log.entry().peek(1).remaining(), 3);
        assert!(log.check_n(3).is_allowed());
        assert_eq!(log.check().retry_after(), Some(Duration::from_secs(55)));
        let later = log.entry().at(Timestamp::from_secs(155));
        assert_eq!(later.peek(1).remaining(), limit - 3);
    }
    let file = file_of(&table());
    // Two shards, each with a floor and seven entries. An entry consists of a tag, a base and three slots.
    assert_eq!(file.len(), 344 + 8 * 2 * (1 + 7 * 5));
    let restored = restore(&file).unwrap();
    assert_eq!(restored.stats().live, 5);
    for key in 0..=6_u64 {
        let charged = if (1..=5).contains(&key) { 1 + key % 3 } else { 0 };
        assert_eq!(restored.entry(&key).peek(1).remaining(), 3 - charged, "key {key}");
    }
    assert_eq!(file_of(&restored), file, "written again, it is the same");
}

#[test]
fn a_key_that_was_forgotten_before_a_restart_comes_back_no_earlier() {
    let table = KeyedLimiter::builder(policy("sliding-log 1/s"))
        .clock(clock())
        .hasher(HASHER)
        .build(8)
        .unwrap();
    assert!(table.entry(&1).at(Timestamp::from_secs(10)).check().is_allowed());
    // Other keys take all entries once this key is idle.
    for key in 100..200 {
        let _ = table.entry(&key).at(Timestamp::from_secs(11)).check();
    }
    let mut file = Vec::new();
    table.snapshot(&mut file).unwrap();
    let (policy, clock) = (policy("sliding-log 1/s"), clock());
    let restored =
        KeyedLimiter::builder(policy).clock(clock).hasher(HASHER).restore(&file[..]).unwrap();
    let late = restored.entry(&1).at(Timestamp::from_millis(10_500)).check();
    assert!(!late.is_allowed(), "its unit of 10 s is in that window");
    assert!(restored.entry(&1).at(Timestamp::from_secs(12)).check().is_allowed());
}

#[test]
fn every_byte_of_a_log_that_is_changed_is_noticed() {
    let (table, log) = (file_of(&table()), log_file(POLICY, 95, 2));
    let restore_log =
        |file: &[u8]| Limiter::builder(policy(POLICY)).clock(clock()).restore(file).err();
    let restore_table = |file: &[u8]| restore(file).err();
    assert!(restore_log(&log).is_none() && restore_table(&table).is_none());
    let restores: [&Restore; 2] = [&restore_table, &restore_log];
    for (mut file, restore) in [table, log].into_iter().zip(restores) {
        for at in 0..file.len() {
            assert!(restore(&file[..at]).is_some(), "cut at {at}");
            file[at] ^= 16;
            assert!(restore(&file).is_some(), "byte {at}");
            file[at] ^= 16;
        }
        assert!(restore(&[&file[..], &[0]].concat()).is_some());
    }
}

#[test]
fn a_word_that_no_log_has_is_refused_by_its_place() {
    let sealed = |file: &[u8], at: usize, number: u64| {
        let mut file = file.to_vec();
        put(&mut file, at, number);
        seal(&mut file);
        file
    };
    let log = log_file(POLICY, 95, 2);
    let restored =
        |file: &[u8]| damaged(Limiter::builder(policy(POLICY)).clock(clock()).restore(file));
    assert_eq!(
        restored(&sealed(&log, WORDS_AT, 3)),
        "the word 0x0000000000000003 at byte 336 is no snapshot's; it must be the number of a slot"
    );
    let marked = |at: usize| {
        format!(
            "the word 0x8000000000000000 at byte {at} is no snapshot's; it must be an instant, below 2^63"
        )
    };
    assert_eq!(restored(&sealed(&log, WORDS_AT + 16, 1 << 63)), marked(WORDS_AT + 16));
    let file = file_of(&table());
    let entry = |nth: usize| WORDS_AT + 8 + 40 * nth;
    let taken = (0..7).find(|&nth| get(&file, entry(nth)) != 0).unwrap();
    let vacant = (0..7).find(|&nth| get(&file, entry(nth)) == 0).unwrap();
    let told = |at: usize, number: u64| damaged(restore(&sealed(&file, at, number)));
    assert_eq!(told(WORDS_AT, 1 << 63), marked(WORDS_AT));
    assert_eq!(told(entry(taken) + 8, 1 << 63), marked(entry(taken) + 8));
    assert_eq!(told(entry(taken) + 32, 1 << 63), marked(entry(taken) + 32));
    assert!(told(entry(taken), 1).ends_with("it must be 0, or a tag alone, without a generation"));
    assert!(told(entry(vacant) + 16, 7).ends_with("it must be 0, since the entry is no key's"));
    // Now the same key is in another entry of its shard.
    let tag = get(&file, entry(taken));
    let twin = told(entry(vacant), tag);
    assert!(
        twin.ends_with("it must be 0, since another entry further on has the same key"),
        "{twin}"
    );
    // A slot may hold any bits, because only the time that they stand for is checked.
    let latest = restore(&sealed(&file, entry(taken) + 16, (1 << 63) - 1)).unwrap();
    assert_eq!(latest.stats().live, 5);
}

#[test]
fn a_file_of_another_policy_or_kind_is_refused() {
    let file = log_file(POLICY, 95, 2);
    for other in ["sliding-log 3/h", "sliding-log 3/m count-denied", "gcra 3/m"] {
        let refused = Limiter::builder(policy(other)).clock(clock()).restore(&file[..]);
        assert!(matches!(refused, Err(RestoreError::Policy(_))), "{other}");
    }
    assert!(matches!(restore(&file), Err(RestoreError::Mismatch(_))));
    let refused = Limiter::builder(policy(POLICY)).clock(Clock::unix()).restore(&file[..]);
    assert!(matches!(refused, Err(RestoreError::Mismatch(_))));
    // A file whose length field promises a million slots, although it has three.
    let mut large = file;
    put(&mut large, 16, 344 + 8 * (1 + (1 << 20)));
    seal(&mut large);
    assert_eq!(
        damaged(Limiter::builder(policy(POLICY)).clock(clock()).restore(&large[..])),
        "the snapshot's length is 8388992; it must be 376"
            .replace("8388992", &(344 + 8 * (1 + (1 << 20))).to_string())
    );
}

/// Threads charge keys, which come and go, while snapshots are taken. Each snapshot can be restored. For each key a
/// snapshot holds at least the units whose admission was known before the snapshot began, and at most the limit.
#[test]
fn a_snapshot_in_full_traffic_has_every_unit_that_was_told_before() {
    let text = "sliding-log 4/m";
    let table =
        KeyedLimiter::<u64>::builder(policy(text)).clock(ManualClock::new()).build(40).unwrap();
    for round in 0..40_u64 {
        let begin_s = 1_000 * (round + 1);
        let before: HashMap<u64, u64> = (0..30)
            .map(|key| {
                let (now, cost) = (Timestamp::from_secs(begin_s), key % 4 + 1);
                let admitted = table.entry(&(round * 7 + key)).at(now).check_n(cost).is_allowed();
                (round * 7 + key, if admitted { cost } else { 0 })
            })
            .collect();
        let churn = |thread: u64| {
            for n in 0..300 {
                let key = round * 7 + (n * 31 + thread) % 60;
                let now = Timestamp::from_millis(1_000 * begin_s + n % 50);
                if let Ok(permit) = table.entry(&key).at(now).check_n(n % 3 + 1).into_result()
                    && n % 5 == 0
                {
                    table.entry(&key).at(now).refund(permit);
                }
            }
        };
        let file = thread::scope(|scope| {
            let churn = &churn;
            let threads: Vec<_> = (0..2).map(|n| scope.spawn(move || churn(n))).collect();
            let mut file = Vec::new();
            table.snapshot(&mut file).unwrap();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            file
        });
        let clock = ManualClock::new();
        clock.set(Timestamp::from_secs(begin_s));
        let restored =
            KeyedLimiter::<u64>::builder(policy(text)).clock(clock).restore(&file[..]).unwrap();
        for (key, units) in before {
            let left = restored.entry(&key).at(Timestamp::from_millis(1_000 * begin_s + 50));
            assert!(
                left.peek(1).remaining() <= 4 - units,
                "round {round}, key {key}: {units} before"
            );
        }
    }
}
