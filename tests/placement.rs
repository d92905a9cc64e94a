//! How many keys find a cell in a table at its design load, and the memory per key.
//!
//! The hashers have fixed seeds, so every run places the same keys in the same cells.

use ahash::RandomState;
use tollgate::{KeyedLimiter, ManualClock, Quota, Timestamp, WhenFull};

const KEYS: u64 = 1_000_000;

fn table() -> KeyedLimiter<u64, RandomState> {
    let capacity = usize::try_from(KEYS).unwrap();
    let table = KeyedLimiter::builder(Quota::per_hour(10))
        .clock(ManualClock::new())
        .hasher(seeds())
        .build(capacity);
    // Keys that find no cell are denied, so that the statistics count them.
    table.unwrap().when_full(WhenFull::Deny).unwrap()
}

fn seeds() -> RandomState {
    RandomState::with_seeds(1, 2, 3, 4)
}

/// A small pseudo-random generator (SplitMix64).
fn random(n: u64) -> u64 {
    let z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Checks a million keys once each, and returns how many found no cell. It also checks that the other keys were charged
/// correctly.
fn homeless(keys: impl Fn(u64) -> u64) -> u64 {
    let table = table();
    let now = Timestamp::from_secs(1);
    let denied: Vec<u64> =
        (0..KEYS).map(&keys).filter(|key| !table.entry(key).at(now).check().is_allowed()).collect();
    let stats = table.stats();
    assert_eq!(stats.full, denied.len() as u64);
    // Keys with the same tag and the same shards share a word. At most three such keys are expected.
    let shared = KEYS - stats.full - stats.live as u64;
    assert!(shared <= 3, "{shared} keys share a word");
    // Every key that has a cell still has exactly nine units in that cell.
    for key in (0..KEYS).map(&keys).filter(|key| !denied.contains(key)).step_by(97) {
        assert!(table.entry(&key).at(now).check_n(9).is_allowed());
        assert!(!table.entry(&key).at(now).check().is_allowed());
    }
    denied.len() as u64
}

/// The most keys that may find no cell: 1 in 100,000.
const HOMELESS_MAX: u64 = KEYS / 100_000;

#[test]
fn a_million_random_keys_find_their_cells() {
    assert!(homeless(random) <= HOMELESS_MAX);
}

#[test]
fn a_million_sequential_keys_find_their_cells() {
    assert!(homeless(|n| n) <= HOMELESS_MAX);
}

#[test]
fn a_million_keys_with_30_trailing_zero_bits_find_their_cells() {
    assert!(homeless(|n| n << 30) <= HOMELESS_MAX);
}

#[test]
fn a_million_strings_find_their_cells() {
    let capacity = usize::try_from(KEYS).unwrap();
    let clock = ManualClock::new();
    let table = KeyedLimiter::builder(Quota::per_hour(10))
        .clock(clock)
        .hasher(seeds())
        .when_full(WhenFull::Deny)
        .build(capacity)
        .unwrap();
    let denied =
        (0..KEYS).filter(|n| !table.check(format!("user:{n}").as_str()).is_allowed()).count();
    assert!(denied as u64 <= HOMELESS_MAX);
}

#[test]
fn a_key_costs_at_most_13_and_a_half_bytes() {
    let stats = table().stats();
    assert!(stats.bytes as f64 / KEYS as f64 <= 13.5, "{} bytes", stats.bytes);
    assert!(stats.bytes as f64 / KEYS as f64 >= 13.0, "{} bytes", stats.bytes);
}

#[test]
fn ordinary_quotas_tell_keys_apart_by_32_bits_or_more() {
    let policies = [
        ("100/s burst 20", 36),
        ("10/m burst 5", 40),
        ("1000/s", 32),
        ("1/s", 40),
        ("1000000/s burst 1000", 32),
        ("10000/d burst 100", 36),
        ("fixed-window 100/m", 40),
        ("sliding-window 1000/h exact", 36),
        ("segmented-window 100/m x3", 36),
    ];
    for (text, least) in policies {
        let policy: tollgate::Policy = text.parse().unwrap();
        let stats = KeyedLimiter::<str>::new(policy, 1_000).unwrap().stats();
        assert!(stats.tag_bits >= least, "{text}: {} bits", stats.tag_bits);
        assert!(stats.collision_probability < 1e-8, "{text}: {}", stats.collision_probability);
        assert!(stats.epoch.as_millis() >= 60, "{text}: {:?}", stats.epoch);
    }
}
