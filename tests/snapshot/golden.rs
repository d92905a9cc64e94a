//! Two whole files, so that the format cannot change unnoticed: `docs/snapshot-format.md` says what each
//! byte is. A change here is a new version of the format.
//!
//! The bytes are those of machines with pointers of 64 bits, whether they fetch lines one by one or in pairs.

#![cfg(target_pointer_width = "64")]

use tollgate::{KeyedLimiter, Limiter, ManualClock, Timestamp, WhenFull};

use crate::common::policy;
use crate::file::{HASHERS, Times, at_wall, wall};

const POLICY: &str = "gcra 1/m burst 3";

const TABLE: &str = "
    544f4c4c474154450600000001400300000200000000000000e8764817000000
    0000f323845bd71808000000000000000200000000000000071400112e100000
    0010000000000000315300000000000095f90000000000000000000000000000
    cddbd349864dd476dca21222f15b4e9d00000000000000000000000000000000
    0000000000000000000000000000000000000000000000000000000000000000
    000000000000000000000000000000006763726120312f6d2062757273742033
    0000000000000000000000000000000000000000000000000000000000000000
    0000000000000000000000000000000000000000000000000000000000000000
    0000000000000000000000000000000000000000000000000000000000000000
    0000000000000000000000000000000000000000000000000000000000000000
    0000000000000000000000000000000000000000000000000000000000000000
    000000000000000000000000000000002e04ca8e093a7dc08674010000004000
    aa4a54f029fde566aa3aa8e053facb4d00000000000000000000000000000000
    0000000000000000000000000000000000000000000000008674010000004000
    aa3a2af894fe7273aa2a7ee8befb585a00000000000000000000000000000000
    000000000000000000000000000000000000000000000000f7cfaf66f4d2f281
";

const LIMIT: &str = "
    544f4c4c474154450600000002400300880100000000000000e8764817000000
    0000f323845bd718010000000000000000000000000000000100004000100000
    0000000010000000000000000000000000000000000000000000000000000000
    0000000000000000000000000000000000000000000000000000000000000000
    0000000000000000000000000000000000000000000000000000000000000000
    000000000000000000000000000000006763726120312f6d2062757273742033
    0000000000000000000000000000000000000000000000000000000000000000
    0000000000000000000000000000000000000000000000000000000000000000
    0000000000000000000000000000000000000000000000000000000000000000
    0000000000000000000000000000000000000000000000000000000000000000
    0000000000000000000000000000000000000000000000000000000000000000
    0000000000000000000000000000000072332f25e5ea09a6aaaaaaaa3a000000
    225b7366c4f65c54
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
    let table =
        KeyedLimiter::<u64, Times>::with_hashers(policy(POLICY), 8, clock(), HASHERS).unwrap();
    let table = table.when_full(WhenFull::Deny).unwrap();
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
    assert_eq!(file.len(), 512);
    let table = KeyedLimiter::<u64, Times>::restore_with_hashers(
        policy(POLICY),
        clock(),
        HASHERS,
        &file[..],
    );
    let table = table.unwrap();
    for key in 0..=5_u64 {
        let charged = if (1..=4).contains(&key) { 1 + key % 3 } else { 0 };
        assert_eq!(table.entry(&key).peek(1).remaining(), 3 - charged, "key {key}");
    }
}

#[test]
fn a_limit_is_written_as_it_always_was() {
    let limit = Limiter::with_clock(policy(POLICY), clock());
    assert!(limit.check_n(2).is_allowed());
    let mut file = Vec::new();
    limit.snapshot(&mut file).unwrap();
    let file = at_wall(file, wall(0));
    assert_eq!(hex(&file), LIMIT[1..], "the file is now:\n{}", hex(&file));
}

#[test]
fn a_limit_that_was_written_once_can_be_read() {
    let file = bytes(LIMIT);
    let limit = Limiter::restore(policy(POLICY), clock(), &file[..]).unwrap();
    assert_eq!(limit.entry().peek(1).remaining(), 1);
}
