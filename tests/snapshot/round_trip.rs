//! A restored limiter compared with one that was never restarted.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Algorithm, KeyedLimiter, Limiter, ManualClock, Policy, Timestamp};

use crate::common::policy;
use crate::snapshot::file::{at_wall, wall};

const KEYS: u64 = 12;

/// A step of a random run.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Advances the time by this many thousandths of a period.
    On(u64),
    /// A request whose time lies `late` thousandths of a period in the past.
    Check { key: u64, cost: u64, late: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let on = prop_oneof![0_u64..500, 0_u64..5_000, 0_u64..3_000_000].prop_map(Step::On);
    let late = prop_oneof![4 => Just(0_u64), 1 => 0_u64..5_000];
    let check =
        (0..KEYS, 0_u64..5, late).prop_map(|(key, cost, late)| Step::Check { key, cost, late });
    prop::collection::vec(prop_oneof![1 => on, 3 => check], 0..80)
}

fn policies() -> impl Strategy<Value = Policy> {
    let texts = [
        "gcra {}/s burst 3",
        "gcra {}/m",
        "gcra {}/7ms burst 20",
        "gcra {}/30d",
        "fixed-window {}/s",
        "fixed-window {}/m from-first",
        "calendar-month {}",
        "calendar-year {}",
        "calendar-week {} from-sunday",
        "calendar-month {} soft 100% count-denied",
        "sliding-window {}/s exact",
        "sliding-window {}/h",
        "sliding-window {}/m strict",
        "segmented-window {}/m x4",
        "segmented-window {}/h x6",
        "gcra {}/m soft 100% count-denied penalty 1d after 2 extended",
        "fixed-window {}/m penalty 10m after 3",
        "fixed-window {}/m from-first penalty 3m after 1 extended",
        "sliding-window {}/h exact count-denied",
        "sliding-log {}/m",
        "sliding-log {}/h soft 100% count-denied",
    ];
    (prop::sample::select(texts.to_vec()), 1_u64..60)
        .prop_map(|(text, count)| policy(&text.replace("{}", &count.to_string())))
}

fn period_ns(policy: Policy) -> u64 {
    u64::try_from(policy.quota().period().as_nanos()).unwrap()
}

/// Advances the time, or returns the request and its `now`.
fn happen(step: Step, now_ns: &mut u64, period_ns: u64) -> Option<(u64, u64, Timestamp)> {
    match step {
        Step::On(thousandths) => {
            *now_ns = now_ns.saturating_add((period_ns / 1_000).saturating_mul(thousandths));
            None
        }
        Step::Check { key, cost, late } => {
            let now = Timestamp::from_nanos(now_ns.saturating_sub(period_ns / 1_000 * late));
            Some((key, cost, now))
        }
    }
}

proptest! {
    #[test]
    fn a_restored_table_decides_as_the_original(
        policy in policies(),
        capacity in 1_usize..16,
        before in steps(),
        after in steps(),
    ) {
        let clock = ManualClock::new();
        let original = KeyedLimiter::<u64>::builder(policy).clock(clock.clone()).build(capacity).unwrap();
        let (mut now_ns, period_ns) = (1_000_000_000_000, period_ns(policy));
        for step in before {
            if let Some((key, cost, now)) = happen(step, &mut now_ns, period_ns) {
                let _ = original.entry(&key).at(now).check_n(cost);
            }
        }
        let mut file = Vec::new();
        let saved = original.snapshot(&mut file).unwrap();
        prop_assert_eq!(saved.bytes, file.len() as u64);
        let restored = KeyedLimiter::<u64>::builder(policy).clock(clock.clone()).restore(&file[..]).unwrap();
        let mut again = Vec::new();
        prop_assert_eq!(restored.snapshot(&mut again).unwrap(), saved);
        prop_assert!(at_wall(again, wall(0)) == at_wall(file, wall(0)), "the snapshot of the restored is the same");
        for step in after {
            if let Some((key, cost, now)) = happen(step, &mut now_ns, period_ns) {
                let [one, other] = [&original, &restored].map(|table| table.entry(&key).at(now).check_n(cost));
                prop_assert_eq!(format!("{one:?}"), format!("{other:?}"), "{} key {}", policy, key);
                clock.set(now);
                let [one, other] = [&original, &restored].map(KeyedLimiter::stats);
                prop_assert_eq!((one.live, one.capacity, one.bytes), (other.live, other.capacity, other.bytes));
            }
        }
    }

    #[test]
    fn a_restored_limit_decides_as_the_original(
        policy in policies(),
        before in steps(),
        after in steps(),
    ) {
        let clock = ManualClock::new();
        let original = Limiter::builder(policy).clock(clock.clone()).build();
        let (mut now_ns, period_ns) = (1_000_000_000_000, period_ns(policy));
        for step in before {
            if let Some((_, cost, now)) = happen(step, &mut now_ns, period_ns) {
                let _ = original.entry().at(now).check_n(cost);
            }
        }
        let mut file = Vec::new();
        let saved = original.snapshot(&mut file).unwrap();
        // The file of a limit has one word. The file of a log has its cursor and its slots.
        let is_log = policy.algorithm() == Algorithm::SlidingLog;
        let words = if is_log { 1 + slots(policy) } else { 1 };
        prop_assert_eq!((saved.bytes, file.len() as u64), (344 + 8 * words, 344 + 8 * words));
        let restored = Limiter::builder(policy).clock(clock).restore(&file[..]).unwrap();
        let mut again = Vec::new();
        prop_assert_eq!(restored.snapshot(&mut again).unwrap(), saved);
        prop_assert!(at_wall(again, wall(0)) == at_wall(file, wall(0)), "the snapshot of the restored is the same");
        for step in after {
            if let Some((_, cost, now)) = happen(step, &mut now_ns, period_ns) {
                let [one, other] = [&original, &restored].map(|limit| limit.entry().at(now).check_n(cost));
                prop_assert_eq!(format!("{one:?}"), format!("{other:?}"), "{}", policy);
            }
        }
    }
}

#[test]
fn a_table_of_many_shards_comes_back_whole() {
    let clock = ManualClock::new();
    let policy = policy("gcra 1/h burst 5");
    // If the table were filled to its capacity, one table in ten would have no cell for one of these many keys.
    let original = KeyedLimiter::<u64>::builder(policy).clock(clock.clone()).build(15_000).unwrap();
    let admitted = (0..10_000_u64).filter(|key| original.check_n(key, key % 5 + 1).is_allowed());
    assert_eq!(admitted.count(), 10_000);
    let mut file = Vec::new();
    let saved = original.snapshot(&mut file).unwrap();
    assert_eq!(saved.keys, 10_000);
    // The file holds the whole table except for one cache line, which is only there to align the others.
    assert_eq!(file.len(), 344 + original.stats().bytes - 64);
    let restored =
        KeyedLimiter::<u64>::builder(policy).clock(clock.clone()).restore(&file[..]).unwrap();
    for key in 0..10_000_u64 {
        assert_eq!(restored.entry(&key).peek(1).remaining(), 4 - key % 5);
    }
    // A snapshot does not change the original.
    clock.advance(Duration::from_secs(3_600));
    for key in 0..10_000_u64 {
        assert_eq!(original.entry(&key).peek(1).remaining(), 5 - key % 5);
    }
}

#[test]
fn a_key_that_was_forgotten_stays_at_its_floor() {
    // All cells are in use, so each new key takes the cell of a key that has become idle.
    let clock = ManualClock::new();
    let policy = policy("gcra 1/s burst 1");
    let table = KeyedLimiter::<u64>::builder(policy).clock(clock.clone()).build(1).unwrap();
    for key in 0..100_u64 {
        assert!(table.entry(&key).at(Timestamp::from_secs(1_000 + 10 * key)).check().is_allowed());
    }
    let mut file = Vec::new();
    table.snapshot(&mut file).unwrap();
    let restored = KeyedLimiter::<u64>::builder(policy).clock(clock).restore(&file[..]).unwrap();
    // A key that comes back late starts no earlier than the floor at which it was forgotten.
    for key in 0..100_u64 {
        for late in [0, 500, 1_000 + 10 * key] {
            let [one, other] = [&table, &restored]
                .map(|table| table.entry(&key).at(Timestamp::from_secs(late)).peek(1));
            assert_eq!(format!("{one:?}"), format!("{other:?}"));
        }
    }
    assert!(!restored.entry(&0).at(Timestamp::from_secs(1_000)).peek(1).is_allowed());
}

/// The number of slots of a log, which is its limit including `soft`.
fn slots(policy: Policy) -> u64 {
    let (limit, soft_bp) = (policy.quota().count(), u64::from(policy.at_limit().soft.hundredths()));
    limit + limit * soft_bp / 10_000
}
