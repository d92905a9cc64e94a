//! Two whole files, so that the format cannot change unnoticed. `docs/snapshot-format.md` explains each byte. If these
//! files have to change, the format needs a new version number.
//!
//! The bytes are those of machines with 64-bit pointers, whether they fetch cache lines one by one or in pairs.

#![cfg(target_pointer_width = "64")]

use tollgate::{KeyedLimiter, Limiter, ManualClock, Timestamp, WhenFull};

use crate::common::policy;
use crate::snapshot::file::{HASHER, at_wall, wall};

const POLICY: &str = "gcra 1/m burst 3";

const TABLE: &str = "
    544f4c4c474154450700000001400300d80100000000000000e8764817000000
    0000f323845bd71808000000000000000200000000000000071400112e100000
    0010000000000000315300000000000095f90000000000000000000000000000
    cddbd349864dd476000000000000000000000000000000000000000000000000
    00000000000000006763726120312f6d20627572737420330000000000000000
    0000000000000000000000000000000000000000000000000000000000000000
    0000000000000000000000000000000000000000000000000000000000000000
    0000000000000000000000000000000000000000000000000000000000000000
    0000000000000000000000000000000000000000000000000000000000000000
    0000000000000000000000000000000000000000000000000000000000000000
    000000000000000008f1797fd930ee0a8674010000004000aa4a54f029fde566
    aa3aa8e053facb4d000000000000000000000000000000000000000000000000
    000000000000000000000000000000008674010000004000aa3a2af894fe7273
    aa2a7ee8befb585a000000000000000000000000000000000000000000000000
    000000000000000000000000000000006f3161fca3d849ed
";

const LIMIT: &str = "
    544f4c4c474154450700000002400300600100000000000000e8764817000000
    0000f323845bd718010000000000000000000000000000000100004000100000
    0000000010000000000000000000000000000000000000000000000000000000
    0000000000000000000000000000000000000000000000000000000000000000
    00000000000000006763726120312f6d20627572737420330000000000000000
    0000000000000000000000000000000000000000000000000000000000000000
    0000000000000000000000000000000000000000000000000000000000000000
    0000000000000000000000000000000000000000000000000000000000000000
    0000000000000000000000000000000000000000000000000000000000000000
    0000000000000000000000000000000000000000000000000000000000000000
    00000000000000001a0e40539e58f948aaaaaaaa3a000000fda2cebc0a784757
";

fn hex(bytes: &[u8]) -> String {
    let line = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    bytes.chunks(32).map(|bytes| format!("    {}\n", line(bytes))).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn clock() -> ManualClock {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_secs(100));
    clock
}

#[test]
fn a_table_is_written_as_it_always_was() {
    let table = KeyedLimiter::<u64>::builder(policy(POLICY))
        .clock(clock())
        .hasher(HASHER)
        .when_full(WhenFull::Deny)
        .build(8)
        .unwrap();
    for key in 1..=4 {
        assert!(table.check_n(&key, 1 + key % 3).is_allowed());
    }
    let mut file = Vec::new();
    table.snapshot(&mut file).unwrap();
    let file = at_wall(file, wall(0));
    assert_eq!(hex(&file), TABLE[1..], "the file is now:\n{}", hex(&file));
}

#[test]
fn a_table_that_was_written_once_can_be_read() {
    let file = bytes(TABLE);
    assert_eq!(file.len(), 472);
    let table = KeyedLimiter::<u64>::builder(policy(POLICY))
        .clock(clock())
        .hasher(HASHER)
        .restore(&file[..]);
    let table = table.unwrap();
    for key in 0..=5_u64 {
        let charged = if (1..=4).contains(&key) { 1 + key % 3 } else { 0 };
        assert_eq!(table.entry(&key).peek(1).remaining(), 3 - charged, "key {key}");
    }
}

#[test]
fn a_limit_is_written_as_it_always_was() {
    let limit = Limiter::builder(policy(POLICY)).clock(clock()).build();
    assert!(limit.check_n(2).is_allowed());
    let mut file = Vec::new();
    limit.snapshot(&mut file).unwrap();
    let file = at_wall(file, wall(0));
    assert_eq!(hex(&file), LIMIT[1..], "the file is now:\n{}", hex(&file));
}

#[test]
fn a_limit_that_was_written_once_can_be_read() {
    let file = bytes(LIMIT);
    let limit = Limiter::builder(policy(POLICY)).clock(clock()).restore(&file[..]).unwrap();
    assert_eq!(limit.entry().peek(1).remaining(), 1);
}
