//! Instructions of one decision, counted by valgrind's callgrind. The count hardly depends on what else the machine
//! does.
//!
//! ```text
//! cargo bench --bench instructions               every row
//! cargo bench --bench instructions -- "new key"  rows whose names contain this
//! ```
//!
//! For each row the bench runs itself under valgrind, which counts from the first decision to the last. The figures
//! include the loop around the decisions, which makes the next key (if there are keys) and compares the verdict. One
//! row measures the loop alone. The hashers have fixed seeds, so that in each run the same keys are found elsewhere
//! than in the first cell that is searched.

#[path = "common/callgrind.rs"]
mod callgrind;

use std::error::Error;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

use ahash::RandomState;
use tollgate::{
    Changing, Clock, KeyedLimiter, Limiter, Policy, Quota, SketchLimiter, SketchSize,
    StripedLimiter, Timestamp, check_all,
};

use callgrind::{Row, count};

/// The keys are so few that their table fits in the cache. The number of instructions does not depend on the size, but
/// filling a large table under valgrind takes time.
const KEYS: u64 = 1_000;
const TURNS: u64 = 10 * KEYS;

const PLENTY: Quota = Quota::per_second(1_000_000_000).burst(100_000_000);
/// The quotas for the rows whose table has several quotas. A cell of such a table has room beside its tag for the
/// number of its quota.
const MILLION: Quota = Quota::per_second(1_000_000).burst(1_000_000);
const HALF: Quota = Quota::per_second(500_000).burst(1_000_000);

const ROWS: [Row; 23] = [
    ("the loop alone", || count(TURNS, |n| black_box(key(n)) < KEYS)),
    ("own clock", || {
        let table = filled();
        count(TURNS, |n| table.check(black_box(&key(n))).is_allowed())
    }),
    ("caller's now", || {
        let (table, now) = (table(PLENTY, KEYS), Timestamp::from_secs(1_000));
        (0..KEYS).for_each(|key| assert!(table.entry(&key).at(now).check().is_allowed()));
        count(TURNS, |n| table.entry(black_box(&key(n))).at(now).check().is_allowed())
    }),
    ("check_many of 16, with the making of the batch", || {
        let table = filled();
        count(TURNS / 16, |batch| {
            let keys: [u64; 16] = std::array::from_fn(|n| key(16 * batch + n as u64));
            let mut allowed = 0;
            table.check_many(black_box(&keys), 1, |_, decision| {
                allowed += u32::from(decision.is_allowed());
            });
            allowed == 16
        }) * 16
    }),
    ("take_up_to", || {
        let table = filled();
        count(TURNS, |n| table.entry(black_box(&key(n))).take_up_to(1).is_allowed())
    }),
    ("charge", || {
        let table = filled();
        count(TURNS, |n| table.entry(black_box(&key(n))).charge(1) == 0)
    }),
    ("a check and its refund", || {
        // The rate is so low that nothing has drained when the unit is refunded.
        let table = filled_under(Quota::per_hour(100));
        count(TURNS, |n| {
            let key = key(n);
            let entry = table.entry(black_box(&key));
            entry.check().into_result().is_ok_and(|permit| entry.refund(permit) == 1)
        })
    }),
    ("reserve", || {
        let table = filled();
        let most = Duration::from_secs(1);
        count(TURNS, |n| table.entry(black_box(&key(n))).reserve(1, most).is_ok())
    }),
    ("two tiers, the first", || {
        let table = tiers();
        count(TURNS, |n| table.check(black_box(&key(n))).is_allowed())
    }),
    ("two tiers, the second", || {
        let table = tiers();
        count(TURNS, |n| {
            table.entry(black_box(&key(n))).tier(1).is_ok_and(|entry| entry.check().is_allowed())
        })
    }),
    ("a quota that the caller brings along", || {
        let builder = KeyedLimiter::builder(MILLION).own_quotas(100, &[HALF]);
        let table = builder.clock(Clock::monotonic()).hasher(hasher()).build(2_000);
        let table: KeyedLimiter<u64> = table.expect("a table");
        let check =
            |key: &u64| table.entry(key).under(HALF).is_ok_and(|entry| entry.check().is_allowed());
        assert!((0..KEYS).all(|key| check(&key)));
        count(TURNS, |n| check(black_box(&key(n))))
    }),
    ("check_all of a limit and a key", || {
        let (one, table) = (Limiter::new(PLENTY), filled());
        count(TURNS, |n| {
            let key = key(n);
            check_all(&mut [one.entry().cost(1), table.entry(black_box(&key)).cost(1)]).is_allowed()
        })
    }),
    ("its parts", || {
        let (one, table) = (Limiter::new(PLENTY), filled());
        count(TURNS, |n| one.check().is_allowed() && table.check(black_box(&key(n))).is_allowed())
    }),
    ("one limit, admitted", || {
        let one = Limiter::new(PLENTY);
        count(TURNS, |_| one.check().is_allowed())
    }),
    ("one limit, denied", || {
        let one = exhausted(Limiter::new(Quota::per_hour(2)));
        count(TURNS, |_| one.check().is_denied())
    }),
    ("one limit, soft, denied", || {
        let one = exhausted(Limiter::new(policy("gcra 2/h soft 50%")));
        count(TURNS, |_| one.check().is_denied())
    }),
    ("one limit, denials counted, denied", || {
        let one = exhausted(Limiter::new(policy("gcra 2/h count-denied")));
        count(TURNS, |_| one.check().is_denied())
    }),
    ("stripes, admitted", || {
        let stripes = StripedLimiter::new(PLENTY).expect("stripes");
        count(TURNS, |_| stripes.check().is_allowed())
    }),
    ("stripes, denied", || {
        let stripes = StripedLimiter::new(Quota::per_hour(2)).expect("stripes");
        (0..3).for_each(|_| _ = stripes.check());
        count(TURNS, |_| stripes.check().is_denied())
    }),
    ("a quota that may change, admitted", || {
        let one = Limiter::builder(MILLION).changing().build().expect("a word");
        count(TURNS, |_| one.check().is_allowed())
    }),
    ("a quota that may change, denied", || {
        let one = Limiter::builder(Quota::per_hour(2)).changing().build().expect("a word");
        exhaust(&one);
        count(TURNS, |_| one.check().is_denied())
    }),
    ("a new key", || {
        let table = table(Quota::per_second(100).burst(20), 2 * TURNS);
        count(TURNS, |n| table.check(black_box(&n)).is_allowed())
    }),
    ("a check of a sketch", || {
        let size = SketchSize::for_load(1_000, 100_000).expect("a size");
        let sketch =
            SketchLimiter::builder(PLENTY).clock(Clock::monotonic()).hasher(hasher()).build(size);
        let sketch: SketchLimiter<u64> = sketch.expect("a sketch");
        count(TURNS, |n| sketch.check(black_box(&key(n))).is_allowed())
    }),
];

/// The key of the nth decision. Successive decisions have keys that are far apart.
fn key(n: u64) -> u64 {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % KEYS
}

fn hasher() -> RandomState {
    RandomState::with_seeds(1, 1, 1, 1)
}

fn table(quota: Quota, capacity: u64) -> KeyedLimiter<u64> {
    let capacity = usize::try_from(capacity).expect("a capacity");
    KeyedLimiter::builder(quota)
        .clock(Clock::monotonic())
        .hasher(hasher())
        .build(capacity)
        .expect("a table")
}

fn filled() -> KeyedLimiter<u64> {
    filled_under(PLENTY)
}

fn filled_under(quota: Quota) -> KeyedLimiter<u64> {
    let table = table(quota, KEYS);
    (0..KEYS).for_each(|key| assert!(table.check(&key).is_allowed()));
    table
}

fn tiers() -> Changing<KeyedLimiter<u64>> {
    let tiers = KeyedLimiter::builder(MILLION).tier(MILLION);
    let table = tiers.clock(Clock::monotonic()).hasher(hasher()).build(2_000).expect("a table");
    for key in 0..KEYS {
        assert!(table.check(&key).is_allowed());
        assert!(table.entry(&key).tier(1).is_ok_and(|entry| entry.check().is_allowed()));
    }
    table
}

fn policy(text: &str) -> Policy {
    text.parse().expect("a policy")
}

fn exhausted(one: Limiter) -> Limiter {
    exhaust(&one);
    one
}

fn exhaust(one: &Limiter) {
    // These are enough requests to exceed the debt from counted denials, too, which is at most a hundred times the
    // limit.
    (0..500).for_each(|_| _ = one.check());
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    callgrind::run(&ROWS, TURNS)
}
