//! Sliding logs, single and keyed: their worked examples and their bound. `crates/model` compares them with the
//! reference model.
//!
//! V9 to V11 are test vectors of another implementation, `limits`, from its documentation and its tests. `limits` still
//! counts an entry whose age equals the window; Tollgate does not. Tollgate's window is `(now - W, now]`, half-open
//! like all windows here, and a request after a wait of exactly `retry_after` is admitted.

mod at_limit;

use std::fmt::Debug;
use std::thread;
use std::time::Duration;

use crate::common::{Request, instant};
use allocation_counter::measure;
use tollgate::{
    BuildError, Decision, DenialReason, KeyedLimiter, Limiter, ManualClock, Policy, Quota,
    Timestamp,
};
use tollgate_oracle::worked_examples;

fn log(quota: Quota) -> Limiter {
    Limiter::builder(Policy::sliding_log(quota).unwrap()).clock(ManualClock::new()).build()
}

fn keyed(quota: Quota, capacity: usize) -> KeyedLimiter<u64> {
    let policy = Policy::sliding_log(quota).unwrap();
    KeyedLimiter::builder(policy).clock(ManualClock::new()).build(capacity).unwrap()
}

/// The parts of a decision: whether it is allowed, the units left, the time to reset and, for a denial, the wait.
type Told = (bool, u64, Duration, Option<Option<Duration>>);

fn told(decision: &Decision) -> Told {
    let wait = match decision {
        Decision::Allowed(_) => None,
        Decision::Denied(denial) => {
            assert_ne!(denial.reason(), DenialReason::TableFull);
            Some(denial.retry_after())
        }
    };
    (decision.is_allowed(), decision.remaining(), decision.reset_after(), wait)
}

/// The decisions on requests in the order of their times, as A (allowed) and D (denied). A single log and a keyed log
/// must give the same answers.
fn decisions(quota: Quota, requests: &[Request]) -> String {
    let (log, keyed) = (log(quota), keyed(quota, 10));
    let decide = |&(now_ns, cost): &Request| {
        let now = Timestamp::from_nanos(now_ns);
        let decision = log.entry().at(now).check_n(cost);
        assert_eq!(told(&decision), told(&keyed.entry(&1).at(now).check_n(cost)), "at {now:?}");
        if decision.is_allowed() { 'A' } else { 'D' }
    };
    requests.iter().map(decide).collect()
}

fn costing(time: &str, cost: u64) -> Request {
    (instant(time).as_nanos(), cost)
}

#[test]
fn the_worked_examples_of_logs_are_decided_as_they_say() {
    let mut decided = 0;
    for example in worked_examples() {
        let [text] = example.policies[..] else { continue };
        if let Some(quota) = text.strip_prefix("sliding-log ") {
            let quota = quota.parse().unwrap();
            assert_eq!(decisions(quota, &example.asked()), example.expected(), "{example:?}");
            decided += 1;
        }
    }
    assert_eq!(decided, 8);
}

#[test]
fn v9_ten_a_minute_by_the_documentation_of_limits() {
    let requests = [
        costing("0:10", 1),
        costing("0:20", 2),
        costing("0:30", 4),
        costing("0:50", 3),
        costing("1:11", 1),
        costing("1:12", 1),
    ];
    assert_eq!(decisions(Quota::per_minute(10), &requests), "AAAAAD");
    // At 1:12 the two units of 0:20 are the next to leave the window, in 8 seconds.
    let log = log(Quota::per_minute(10));
    let answers =
        requests.map(|(now_ns, cost)| log.entry().at(Timestamp::from_nanos(now_ns)).check_n(cost));
    let denial = answers[5].denial().unwrap();
    assert_eq!(denial.retry_after(), Some(Duration::from_secs(8)));
}

#[test]
fn v10_ten_in_two_seconds_by_the_tests_of_limits() {
    let log = log(Quota::per(10, Duration::from_secs(2)));
    let check = |cost, time| log.entry().at(instant(time)).check_n(cost);
    assert_eq!(check(11, "0").into_result().unwrap_err().reason(), DenialReason::NeverFits);
    assert!(check(5, "0.1").is_allowed());
    for _ in 0..4 {
        assert!(check(1, "1.9").is_allowed());
    }
    assert!(!log.entry().at(instant("1.9")).peek(2).is_allowed());
    assert!(!check(2, "1.9").is_allowed());
    assert!(check(1, "1.9").is_allowed());
    // This is exactly two seconds after the five units, which have left the window. In `limits` they would leave it a
    // moment later.
    for _ in 0..5 {
        assert!(check(1, "2.1").is_allowed());
    }
    assert_eq!(log.entry().at(instant("2.1")).peek(0).remaining(), 0);
    assert!(!check(2, "2.1").is_allowed());
}

#[test]
fn v11_a_million_units_are_taken_at_once() {
    let log = log(Quota::per(1_000_000, Duration::from_secs(2)));
    let now = Timestamp::from_secs(1);
    assert!(log.entry().at(now).check().is_allowed());
    assert_eq!(log.entry().at(now).check_n(999_999).remaining(), 0);
    let denial = log.entry().at(now).check().into_result().unwrap_err();
    assert_eq!(denial.retry_after(), Some(Duration::from_secs(2)));
    assert!(log.entry().at(now + Duration::from_secs(2)).check_n(1_000_000).is_allowed());
}

#[test]
fn the_largest_cost_fits_a_small_stack() {
    let admitted = thread::Builder::new().stack_size(512 * 1024).spawn(|| {
        let log = log(Quota::per_second(1 << 20));
        log.entry().at(Timestamp::from_secs(1)).check_n(1 << 20).is_allowed()
    });
    assert!(admitted.unwrap().join().unwrap());
}

#[test]
fn a_half_open_window_holds_the_limit_and_a_closed_one_twice_that() {
    let log = &log(Quota::per_second(7));
    let admitted = |now_ms| {
        (0..20).filter(move |_| log.entry().at(Timestamp::from_millis(now_ms)).check().is_allowed())
    };
    assert_eq!(admitted(0).count(), 7);
    assert_eq!(admitted(999).count(), 0);
    // [0, 1 s] contains 14 units, because its ends are exactly one window apart.
    assert_eq!(admitted(1_000).count(), 7);
}

#[test]
fn a_wait_for_several_units_ends_when_the_last_of_them_is_free() {
    for limit in [5_u64, 300] {
        let (log, keyed) = (log(Quota::per_minute(limit)), keyed(Quota::per_minute(limit), 5));
        for n in 0..limit {
            let now = Timestamp::from_millis(100 * n);
            assert!(
                log.entry().at(now).check().is_allowed()
                    && keyed.entry(&1).at(now).check().is_allowed()
            );
        }
        let now = Timestamp::from_secs(40);
        for cost in 1..=limit {
            // `cost` units fit when the unit that was taken as number `cost` comes back, which is a minute after it was
            // taken.
            let wait = Duration::from_millis(60_000 - 40_000 + 100 * (cost - 1));
            for decision in
                [log.entry().at(now).check_n(cost), keyed.entry(&1).at(now).check_n(cost)]
            {
                let denial = decision.into_result().unwrap_err();
                assert_eq!(denial.retry_after(), Some(wait), "{cost} of {limit}");
                assert_eq!(denial.remaining(), 0);
                let reset = Duration::from_millis(60_000 - 40_000 + 100 * (limit - 1));
                assert_eq!(denial.reset_after(), reset);
            }
        }
    }
}

#[test]
fn what_no_clock_reaches_is_never_free_and_nothing_overflows() {
    let centuries = Quota::per(2, Duration::from_nanos(u64::MAX));
    for (quota, again) in [(centuries, false), (Quota::per_second(2), false)] {
        let (log, keyed) = (log(quota), keyed(quota, 5));
        for now_ns in [u64::MAX, 4_102_444_800_000_000_000, u64::MAX - 1] {
            let now = Timestamp::from_nanos(now_ns);
            let first = now_ns == u64::MAX;
            assert_eq!(log.entry().at(now).check_n(2).is_allowed(), first || again);
            assert_eq!(keyed.entry(&1).at(now).check_n(2).is_allowed(), first || again);
        }
        let _ = log.entry().at(Timestamp::from_nanos(u64::MAX)).check_n(u64::MAX).reset_after();
    }
}

#[test]
fn a_capacity_that_no_table_of_logs_can_have_is_refused() {
    let table = |quota, capacity| {
        let policy = Policy::sliding_log(quota).unwrap();
        KeyedLimiter::<u64>::builder(policy).clock(ManualClock::new()).build(capacity).map(|_| ())
    };
    let none = table(Quota::per_second(1), 0).unwrap_err().to_string();
    assert_eq!(none, "capacity 0 holds no key; it must be at least 1");
    for capacity in [usize::MAX, usize::MAX / 200] {
        let error = table(Quota::per_second(1_000), capacity).unwrap_err().to_string();
        let expected = format!("capacity {capacity} needs more memory than can be addressed");
        assert_eq!(error, expected);
    }
    let error = table(Quota::per_second(1_000), 1 << 44);
    assert!(matches!(error, Err(BuildError::OutOfMemory { .. })), "{error:?}");
}

#[test]
fn logs_are_shareable_and_say_what_they_are() {
    fn shareable<T: Send + Sync + Debug + 'static>() {}
    shareable::<KeyedLimiter<std::rc::Rc<str>>>();
    let told = format!("{:?}", keyed(Quota::per_second(1), 5));
    assert!(told.starts_with("KeyedLimiter { capacity: 5, bytes: "), "{told}");
    let denial = log(Quota::per_second(5)).check_n(6).into_result().unwrap_err();
    assert_eq!(denial.to_string(), "rate limited: a cost of 6 never fits in a limit of 5");
}

#[test]
fn a_hundred_thousand_decisions_allocate_nothing() {
    let quota = Quota::per_second(100);
    let (log, keyed) = (log(quota), keyed(quota, 100));
    let allocations = measure(|| {
        for n in 0..100_000_u64 {
            let now = Timestamp::from_nanos(n * 1_000_000);
            let _ = log.entry().at(now).check_n(n % 103);
            let _ = keyed.entry(&(n * 7 % 400)).at(now).check_n(n % 103);
        }
    });
    assert_eq!(allocations.count_total, 0);
}

#[test]
fn a_log_per_key_lives_in_memory_fixed_at_construction() {
    let quota = Quota::per_minute(10);
    drop(keyed(quota, 1)); // ahash asks the system for its secret once
    let mut table = None;
    let allocations = measure(|| table = Some(keyed(quota, 10_000)));
    let bytes = table.unwrap().stats().bytes;
    let clock = measure(|| drop(ManualClock::new())).bytes_total;
    // Besides the memory that `stats` reports, the table allocates only the object that owns the huge pages, if huge
    // pages were requested.
    let besides = allocations.bytes_total - bytes as u64 - clock;
    assert!(besides < 100, "{besides}");
    assert!(bytes <= 10_000 * 162, "{bytes}");
}

#[test]
fn a_full_table_denies_new_keys_and_evicts_none() {
    let quota = Quota::per_minute(2);
    let table = keyed(quota, 4);
    let start = Timestamp::from_secs(100);
    let admitted: Vec<u64> =
        (0..100).filter(|key| table.entry(key).at(start).check_n(2).is_allowed()).collect();
    // A table for 4 keys has only two shards, which hold 14 entries.
    assert_eq!(admitted.len(), 14);
    let later = start + Duration::from_secs(59);
    for key in 0..100 {
        let denial = table.entry(&key).at(later).check().into_result().unwrap_err();
        assert_eq!(denial.reason() == DenialReason::TableFull, !admitted.contains(&key), "{key}");
        assert_eq!(denial.retry_after(), Some(Duration::from_secs(1)), "{key}");
        assert_eq!(denial.remaining(), 0);
    }
    // All keys are idle, so each new key takes the entry of an idle key.
    let then = start + Duration::from_secs(60);
    assert_eq!((200..300).filter(|key| table.entry(key).at(then).check().is_allowed()).count(), 14);
}

#[test]
fn a_key_that_was_forgotten_begins_where_its_units_were_free() {
    let table = keyed(Quota::per_second(2), 4);
    let spent: Vec<u64> = (0..100)
        .filter(|key| table.entry(key).at(Timestamp::from_secs(10)).check_n(2).is_allowed())
        .collect();
    // Other keys take all the entries two seconds later.
    let others =
        (200..300).filter(|key| table.entry(key).at(Timestamp::from_secs(12)).check().is_allowed());
    assert_eq!(others.count(), 14);
    // When these other keys are idle, the first keys come back with old times. They were charged 2 units at 10 s.
    for key in spent {
        let late = Timestamp::from_millis(10_500);
        let denial = table.entry(&key).at(late).check().into_result().unwrap_err();
        assert_eq!(denial.remaining(), 0, "{key}");
        assert!(table.entry(&key).at(Timestamp::from_secs(13)).check_n(2).is_allowed(), "{key}");
        assert!(!table.entry(&key).at(Timestamp::from_secs(12)).check().is_allowed(), "{key}");
    }
}

#[test]
fn threads_share_one_log() {
    for limit in [100_u64, 5_000] {
        let (log, keyed) = (log(Quota::per_hour(limit)), keyed(Quota::per_hour(limit), 5));
        let (log, keyed) = (&log, &keyed);
        let ask = move |thread: u64| {
            let (mut single, mut by_key) = (0, 0);
            for n in 0..limit {
                let cost = (n + thread) % 3 + 1;
                let now = Timestamp::from_secs(5);
                single += if log.entry().at(now).check_n(cost).is_allowed() { cost } else { 0 };
                by_key += if keyed.entry(&7).at(now).check_n(cost).is_allowed() { cost } else { 0 };
            }
            (single, by_key)
        };
        let units: Vec<(u64, u64)> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || ask(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        // The threads asked for many times the limit. The last units of the limit are taken by requests for one unit,
        // which are admitted as long as any unit is left.
        assert_eq!(units.iter().map(|units| units.0).sum::<u64>(), limit);
        assert_eq!(units.iter().map(|units| units.1).sum::<u64>(), limit);
    }
}
