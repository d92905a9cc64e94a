//! Sliding logs, one and by key: their examples, the answers of the reference model, and their bound.
//!
//! V9 to V11 are the vectors of other implementations (`limits`, by its documentation and its tests). Where
//! they keep an entry whose age equals the window, we do not: the window is `(now - W, now]`, as half-open
//! as all windows here, and a wait of exactly `retry_after` succeeds.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use std::collections::HashMap;
use std::fmt::Debug;
use std::thread;
use std::time::Duration;

use allocation_counter::measure;
use common::model::{LATEST_NS, duration, verdict};
use common::{Request, at, every, instant, together};
use proptest::prelude::*;
use tollgate::{BuildError, Decision, KeyedLogLimiter, LogLimiter, ManualClock, Quota, Timestamp};
use tollgate_oracle::{Algorithm as Model, Oracle, Verdict};

fn log(quota: Quota) -> LogLimiter {
    LogLimiter::with_clock(quota, ManualClock::new()).unwrap()
}

fn keyed(quota: Quota, capacity: usize) -> KeyedLogLimiter<u64> {
    KeyedLogLimiter::with_clock(quota, capacity, ManualClock::new()).unwrap()
}

fn oracle(quota: Quota) -> Oracle {
    let window_ns = u64::try_from(quota.period().as_nanos()).unwrap();
    Oracle::new(Model::SlidingLog { limit: quota.count(), window_ns })
}

/// What a decision says: the verdict, units left, the time to reset; of a denial the wait.
type Told = (Verdict, u64, Duration, Option<Option<Duration>>);

fn told(decision: &Decision) -> Told {
    let wait = match decision {
        Decision::Allowed(_) => None,
        Decision::Denied(denial) => {
            assert!(!denial.is_table_full());
            Some(denial.retry_after())
        }
    };
    (verdict(decision), decision.remaining(), decision.reset_after(), wait)
}

/// The decisions of requests in the order of their times, as A and D; one log and a keyed one answer alike.
fn decisions(quota: Quota, requests: &[Request]) -> String {
    let (log, keyed) = (log(quota), keyed(quota, 10));
    let decide = |&(now_ns, cost): &Request| {
        let now = Timestamp::from_nanos(now_ns);
        let decision = log.check_at(cost, now);
        assert_eq!(told(&decision), told(&keyed.check_at(&1, cost, now)), "at {now:?}");
        if decision.is_allowed() { 'A' } else { 'D' }
    };
    requests.iter().map(decide).collect()
}

fn costing(time: &str, cost: u64) -> Request {
    (instant(time).as_nanos(), cost)
}

#[test]
fn example_06_the_log_forgets_each_unit_at_its_own_time() {
    let times = at("0:05 0:15 1:01 1:10 1:40 1:50 2:20");
    assert_eq!(decisions(Quota::per_minute(3), &times), "AAAAADA");
}

#[test]
fn example_07_a_unit_comes_back_a_window_after_it_was_taken() {
    assert_eq!(decisions(Quota::per_minute(2), &at("1:00 1:20 1:45 2:25")), "AADA");
}

#[test]
fn example_08_a_unit_whose_age_equals_the_window_is_outside() {
    let ten = [costing("0:10", 1), costing("0:20", 2), costing("0:30", 4), costing("0:50", 3)];
    let then = |times: &str| decisions(Quota::per_minute(10), &[ten.to_vec(), at(times)].concat());
    assert_eq!(then("1:10 1:11"), "AAAAAD");
    assert_eq!(then("1:11 1:12"), "AAAAAD");
    assert_eq!(then("1:09.999 1:10"), "AAAADA");
}

#[test]
fn example_25_a_denied_cost_spends_nothing() {
    let now = "0:00";
    let costs = [8, 5, 2, 11].map(|cost| costing(now, cost));
    assert_eq!(decisions(Quota::per_minute(10), &costs), "ADAD");
    let log = log(Quota::per_minute(10));
    assert!(log.check_at(11, instant(now)).into_result().unwrap_err().is_never());
}

#[test]
fn example_32_under_a_steady_stream_the_log_admits_its_limit_in_each_window() {
    let times = every(0, 100, 30);
    assert_eq!(decisions(Quota::per_second(5), &times), "AAAAADDDDDAAAAADDDDDAAAAADDDDD");
}

#[test]
fn example_34_a_minute_ago_is_outside_and_less_is_inside() {
    let log = log(Quota::per_minute(1));
    let now = Timestamp::from_secs(36_027); // 10:00:27
    assert!(log.check_at(1, Timestamp::from_secs(35_967)).is_allowed()); // 9:59:27
    assert!(log.peek_at(1, now).is_allowed());
    assert!(log.check_at(1, now).is_allowed());
    assert!(!log.peek_at(1, now + Duration::from_secs(59)).is_allowed());
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
    // At 1:12 the two of 0:20 are the next to go: in 8 seconds.
    let log = log(Quota::per_minute(10));
    let denied =
        requests.map(|(now_ns, cost)| log.check_at(cost, Timestamp::from_nanos(now_ns)))[5];
    let denial = denied.into_result().unwrap_err();
    assert_eq!(denial.retry_after(), Some(Duration::from_secs(8)));
}

#[test]
fn v10_ten_in_two_seconds_by_the_tests_of_limits() {
    let log = log(Quota::per(10, Duration::from_secs(2)));
    let check = |cost, time| log.check_at(cost, instant(time));
    assert!(check(11, "0").into_result().unwrap_err().is_never());
    assert!(check(5, "0.1").is_allowed());
    for _ in 0..4 {
        assert!(check(1, "1.9").is_allowed());
    }
    assert!(!log.peek_at(2, instant("1.9")).is_allowed());
    assert!(!check(2, "1.9").is_allowed());
    assert!(check(1, "1.9").is_allowed());
    // Exactly two seconds after the five: they are outside by now. `limits` has them a moment longer.
    for _ in 0..5 {
        assert!(check(1, "2.1").is_allowed());
    }
    assert_eq!(log.peek_at(0, instant("2.1")).remaining(), 0);
    assert!(!check(2, "2.1").is_allowed());
}

#[test]
fn v11_a_million_units_are_taken_at_once() {
    let log = log(Quota::per(1_000_000, Duration::from_secs(2)));
    let now = Timestamp::from_secs(1);
    assert!(log.check_at(1, now).is_allowed());
    assert_eq!(log.check_at(999_999, now).remaining(), 0);
    let denial = log.check_at(1, now).into_result().unwrap_err();
    assert_eq!(denial.retry_after(), Some(Duration::from_secs(2)));
    assert!(log.check_at(1_000_000, now + Duration::from_secs(2)).is_allowed());
}

#[test]
fn the_largest_cost_fits_a_small_stack() {
    let admitted = thread::Builder::new().stack_size(512 * 1024).spawn(|| {
        let log = log(Quota::per_second(1 << 20));
        log.check_at(1 << 20, Timestamp::from_secs(1)).is_allowed()
    });
    assert!(admitted.unwrap().join().unwrap());
}

#[test]
fn a_half_open_window_holds_the_limit_and_a_closed_one_twice_that() {
    let log = &log(Quota::per_second(7));
    let admitted = |now_ms| {
        (0..20).filter(move |_| log.check_at(1, Timestamp::from_millis(now_ms)).is_allowed())
    };
    assert_eq!(admitted(0).count(), 7);
    assert_eq!(admitted(999).count(), 0);
    // [0, 1 s] holds 14: its ends are a window apart.
    assert_eq!(admitted(1_000).count(), 7);
}

#[test]
fn a_wait_for_several_units_ends_when_the_last_of_them_is_free() {
    for limit in [5_u64, 300] {
        let (log, keyed) = (log(Quota::per_minute(limit)), keyed(Quota::per_minute(limit), 5));
        for n in 0..limit {
            let now = Timestamp::from_millis(100 * n);
            assert!(log.check_at(1, now).is_allowed() && keyed.check_at(&1, 1, now).is_allowed());
        }
        let now = Timestamp::from_secs(40);
        for cost in 1..=limit {
            // The unit taken as the cost-th comes back a minute after it was.
            let wait = Duration::from_millis(60_000 - 40_000 + 100 * (cost - 1));
            for decision in [log.check_at(cost, now), keyed.check_at(&1, cost, now)] {
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
fn a_stale_or_backward_now_gets_nothing_back() {
    let log = log(Quota::per_second(2));
    let check = |now_ms| log.check_at(1, Timestamp::from_millis(now_ms)).is_allowed();
    assert_eq!([10_000, 10_500, 10_999].map(check), [true, true, false]);
    // Back by a little, by windows, to the origin: both units were taken after all of these.
    assert_eq!([10_400, 9_000, 500, 0].map(check), [false; 4]);
    assert_eq!([11_000, 10_999, 11_499, 11_500].map(check), [true, false, false, true]);
}

#[test]
fn a_leap_ahead_spends_units_until_time_has_caught_up() {
    let log = log(Quota::per_second(3));
    assert!(log.check_at(2, Timestamp::from_secs(1_000)).is_allowed());
    let now = Timestamp::from_secs(5);
    assert!(log.check_at(1, now).is_allowed());
    let denial = log.check_at(2, now).into_result().unwrap_err();
    assert_eq!(denial.retry_after(), Some(Duration::from_secs(996)));
    assert!(log.check_at(1, Timestamp::from_secs(6)).is_allowed());
}

#[test]
fn what_no_clock_reaches_is_never_free_and_nothing_overflows() {
    let centuries = Quota::per(2, Duration::from_nanos(u64::MAX));
    for (quota, again) in [(centuries, false), (Quota::per_second(2), false)] {
        let (log, keyed) = (log(quota), keyed(quota, 5));
        for now_ns in [u64::MAX, LATEST_NS, u64::MAX - 1] {
            let now = Timestamp::from_nanos(now_ns);
            let first = now_ns == u64::MAX;
            assert_eq!(log.check_at(2, now).is_allowed(), first || again);
            assert_eq!(keyed.check_at(&1, 2, now).is_allowed(), first || again);
        }
        let _ = log.check_at(u64::MAX, Timestamp::from_nanos(u64::MAX)).reset_after();
    }
}

#[test]
fn a_quota_that_is_no_log_is_refused_with_what_would_be_accepted() {
    let build = |quota| LogLimiter::with_clock(quota, ManualClock::new()).map(|_| ());
    let burst = build(Quota::per_second(100).burst(20)).unwrap_err();
    assert_eq!(burst, BuildError::BurstOnLog { count: 100, burst: 20 });
    assert_eq!(
        burst.to_string(),
        "a sliding log admits its whole count of 100 at once and takes no burst of 20; leave the burst \
         out, or use gcra"
    );
    assert_eq!(build(Quota::per_second(1 << 20)), Ok(()));
    let large = build(Quota::per_second((1 << 20) + 1)).unwrap_err();
    assert_eq!(large, BuildError::LogTooLarge { limit: 1_048_577, most: 1_048_576 });
    assert_eq!(
        large.to_string(),
        "a sliding log keeps a time for each of its 1048577 units, and at most 1048576 are accepted; use \
         gcra or a window"
    );
    let table = |quota, capacity| {
        KeyedLogLimiter::<u64>::with_clock(quota, capacity, ManualClock::new()).map(|_| ())
    };
    assert_eq!(table(Quota::per_second(1), 0), Err(BuildError::ZeroCapacity));
    let burst = table(Quota::per_second(2).burst(3), 5);
    assert_eq!(burst, Err(BuildError::BurstOnLog { count: 2, burst: 3 }));
    for capacity in [usize::MAX, usize::MAX / 200] {
        let error = table(Quota::per_second(1_000), capacity);
        assert_eq!(error, Err(BuildError::CapacityTooLarge { capacity }));
    }
    let error = table(Quota::per_second(1_000), 1 << 44);
    assert!(matches!(error, Err(BuildError::OutOfMemory { .. })), "{error:?}");
}

#[test]
fn logs_are_shareable_and_say_what_they_are() {
    fn shareable<T: Send + Sync + Debug + 'static>() {}
    shareable::<LogLimiter>();
    shareable::<KeyedLogLimiter<std::rc::Rc<str>>>();
    let told = format!("{:?}", keyed(Quota::per_second(1), 5));
    assert!(told.starts_with("KeyedLogLimiter { capacity: 5, bytes: "), "{told}");
    let denial = log(Quota::per_second(5)).check(6).into_result().unwrap_err();
    assert_eq!(denial.to_string(), "rate limited: a cost of 6 never fits in a limit of 5");
}

#[test]
fn a_hundred_thousand_decisions_allocate_nothing() {
    let quota = Quota::per_second(100);
    let (log, keyed) = (log(quota), keyed(quota, 100));
    let allocations = measure(|| {
        for n in 0..100_000_u64 {
            let now = Timestamp::from_nanos(n * 1_000_000);
            let _ = log.check_at(n % 103, now);
            let _ = keyed.check_at(&(n * 7 % 400), n % 103, now);
        }
    });
    assert_eq!(allocations.count_total, 0);
}

#[test]
fn a_log_per_key_lives_in_memory_fixed_at_construction() {
    let quota = Quota::per_minute(10);
    drop(keyed(quota, 1)); // aHash asks the system for its secret once
    let mut table = None;
    let allocations = measure(|| table = Some(keyed(quota, 10_000)));
    let bytes = table.unwrap().bytes();
    let clock = measure(|| drop(ManualClock::new())).bytes_total;
    assert_eq!(allocations.bytes_total, bytes as u64 + clock);
    assert!(bytes <= 10_000 * 162, "{bytes}");
}

#[test]
fn a_full_table_denies_new_keys_and_evicts_none() {
    let quota = Quota::per_minute(2);
    let table = keyed(quota, 4);
    let start = Timestamp::from_secs(100);
    let admitted: Vec<u64> =
        (0..100).filter(|key| table.check_at(key, 2, start).is_allowed()).collect();
    // 7 entries in one shard: that is all there is for 4 keys.
    assert_eq!(admitted.len(), 7);
    let later = start + Duration::from_secs(59);
    for key in 0..100 {
        let denial = table.check_at(&key, 1, later).into_result().unwrap_err();
        assert_eq!(denial.is_table_full(), !admitted.contains(&key), "{key}");
        assert_eq!(denial.retry_after(), Some(Duration::from_secs(1)), "{key}");
        assert_eq!(denial.remaining(), 0);
    }
    // All are idle: each newcomer takes the entry of one.
    let then = start + Duration::from_secs(60);
    assert_eq!((200..300).filter(|key| table.check_at(key, 1, then).is_allowed()).count(), 7);
}

#[test]
fn a_key_that_was_forgotten_begins_where_its_units_were_free() {
    let table = keyed(Quota::per_second(2), 4);
    let spent: Vec<u64> = (0..100)
        .filter(|key| table.check_at(key, 2, Timestamp::from_secs(10)).is_allowed())
        .collect();
    // Others take all of their entries two seconds later.
    let others =
        (200..300).filter(|key| table.check_at(key, 1, Timestamp::from_secs(12)).is_allowed());
    assert_eq!(others.count(), 7);
    // When these are idle, the first come back, but with old times: they had 2 units from 10 s on.
    for key in spent {
        let late = Timestamp::from_millis(10_500);
        let denial = table.check_at(&key, 1, late).into_result().unwrap_err();
        assert_eq!(denial.remaining(), 0, "{key}");
        assert!(table.check_at(&key, 2, Timestamp::from_secs(13)).is_allowed(), "{key}");
        assert!(!table.check_at(&key, 1, Timestamp::from_secs(12)).is_allowed(), "{key}");
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
                single += if log.check_at(cost, now).is_allowed() { cost } else { 0 };
                by_key += if keyed.check_at(&7, cost, now).is_allowed() { cost } else { 0 };
            }
            (single, by_key)
        };
        let units: Vec<(u64, u64)> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || ask(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        // All were asked for many times over; the last ones by single units, which are always given.
        assert_eq!(units.iter().map(|units| units.0).sum::<u64>(), limit);
        assert_eq!(units.iter().map(|units| units.1).sum::<u64>(), limit);
    }
}

/// Quotas of a few units and of several rows of slots.
fn quotas() -> impl Strategy<Value = Quota> {
    let period_ns = prop_oneof![1_u64..100, Just(1_000_000_000), 1_u64..10_000_000_000_000];
    let count =
        prop_oneof![4 => 1_u64..12, 1 => 60_u64..70, 1 => 100_u64..600, 1 => 4_000_u64..5_000];
    (count, period_ns).prop_filter_map("too fast", |(count, period_ns)| {
        Quota::try_per(count, Duration::from_nanos(period_ns)).ok()
    })
}

/// Requests: thousandths of a period to go on by, a cost, a number that decides other things.
fn requests() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    let step = prop_oneof![4 => 0_u64..300, 1 => Just(0), 1 => Just(1_000), 1 => 900_u64..3_000];
    let cost = prop_oneof![4 => Just(1), 4 => 0_u64..4, 2 => 0_u64..6_000, 1 => Just(u64::MAX)];
    prop::collection::vec((step, cost, 0_u64..1_000_000), 1..80)
}

fn fitting(cost: u64, limit: u64) -> u64 {
    if cost == u64::MAX { cost } else { cost % (limit + 2) }
}

fn on(now_ns: u64, quota: Quota, step: u64, fine: u64) -> u64 {
    let period_ns = u64::try_from(quota.period().as_nanos()).unwrap();
    let step_ns = u128::from(period_ns) * u128::from(step) / 1_000;
    now_ns + u64::try_from(step_ns).unwrap() + fine % (period_ns / 10_000 + 1)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// With times that do not run backward: every answer, to the nanosecond.
    #[test]
    fn a_log_answers_as_the_model_does(
        quota in quotas(),
        start in prop_oneof![Just(0), 0_u64..LATEST_NS / 2],
        requests in requests(),
    ) {
        let (log, keyed, mut model) = (log(quota), keyed(quota, 5), oracle(quota));
        let mut now_ns = start;
        for (step, cost, fine) in requests {
            now_ns = on(now_ns, quota, step, fine);
            let (cost, now) = (fitting(cost, quota.count()), Timestamp::from_nanos(now_ns));
            let peeked = told(&log.peek_at(cost, now));
            prop_assert_eq!(peeked.0, model.peek(now_ns, cost));
            prop_assert_eq!(peeked.1, model.remaining(now_ns));
            prop_assert_eq!(told(&keyed.peek_at(&1, cost, now)), peeked);
            let checked = log.check_at(cost, now);
            prop_assert_eq!(told(&keyed.check_at(&1, cost, now)), told(&checked));
            let checked = told(&checked);
            prop_assert_eq!(checked.0, model.check(now_ns, cost));
            prop_assert_eq!(checked.1, model.remaining(now_ns));
            prop_assert_eq!(checked.2, duration(&model.reset_after(now_ns)));
            if let Some(wait) = checked.3 {
                let expected = model.retry_after(now_ns, cost).map(|ns| duration(&ns));
                prop_assert_eq!(wait, expected);
            }
        }
    }

    /// With times that run to and fro, by the list of all that was ever admitted: no window holds more than
    /// the limit; what fits that list is admitted; and what is said of units and waits is true.
    #[test]
    fn whatever_the_times_no_window_holds_more_than_the_limit(
        quota in quotas(),
        requests in requests(),
    ) {
        let (log, limit) = (log(quota), quota.count());
        let window_ns = u64::try_from(quota.period().as_nanos()).unwrap();
        let (mut now_ns, mut list) = (3 * window_ns, Vec::<(u64, u64)>::new());
        for (step, cost, fine) in requests {
            now_ns = on(now_ns, quota, step, fine);
            if fine % 3 == 0 {
                now_ns = now_ns.saturating_sub(window_ns * (fine % 100) / 30);
            }
            let (cost, now) = (fitting(cost, limit), Timestamp::from_nanos(now_ns));
            let later: u64 = list
                .iter()
                .filter(|&&(at_ns, _)| at_ns + window_ns > now_ns)
                .map(|&(_, cost)| cost)
                .sum();
            match log.check_at(cost, now) {
                Decision::Allowed(permit) => {
                    list.push((now_ns, cost));
                    let left = permit.remaining();
                    prop_assert!(log.peek_at(left, now).is_allowed());
                    prop_assert!(!log.peek_at(left + 1, now).is_allowed());
                }
                Decision::Denied(denial) => {
                    prop_assert!(later + cost.min(limit + 1) > limit);
                    let Some(wait) = denial.retry_after() else {
                        prop_assert!(cost > limit);
                        continue;
                    };
                    let just_before = wait - Duration::from_nanos(1);
                    prop_assert!(!log.peek_at(cost, now + just_before).is_allowed());
                    prop_assert!(log.peek_at(cost, now + wait).is_allowed());
                }
            }
            let reset = log.peek_at(0, now).reset_after();
            prop_assert!(log.peek_at(limit, now + reset).is_allowed());
            let before = now + reset.saturating_sub(Duration::from_nanos(1));
            prop_assert!(reset.is_zero() || !log.peek_at(limit, before).is_allowed());
        }
        for &(from_ns, _) in &list {
            let window = from_ns..from_ns + window_ns;
            let units: u64 =
                list.iter().filter(|(at_ns, _)| window.contains(at_ns)).map(|&(_, cost)| cost).sum();
            prop_assert!(units <= limit, "{} in a window of {}", units, quota);
        }
    }

    /// Many keys in a table of few entries: each is decided as if it had a model of its own, and only keys
    /// whose model is idle are told that the table is full.
    #[test]
    fn each_key_of_a_crowded_table_has_a_log_of_its_own(
        limit in 1_u64..5,
        requests in prop::collection::vec((0_u64..40, 0_u64..30, 0_u64..6), 1..300),
    ) {
        let quota = Quota::per(limit, Duration::from_nanos(1_000));
        let (table, mut models) = (keyed(quota, 8), HashMap::<u64, Oracle>::new());
        let mut now_ns = 0;
        for (step, key, cost) in requests {
            now_ns += step;
            let model = models.entry(key).or_insert_with(|| oracle(quota));
            let decision = table.check_at(&key, cost, Timestamp::from_nanos(now_ns));
            let full = matches!(&decision, Decision::Denied(denial) if denial.is_table_full());
            if full {
                prop_assert!(model.is_idle(now_ns));
            } else {
                prop_assert_eq!(verdict(&decision), model.check(now_ns, cost));
                prop_assert_eq!(decision.remaining(), model.remaining(now_ns));
            }
        }
    }

    /// The same with times to and fro: each key's windows hold no more than its limit.
    #[test]
    fn no_key_of_a_crowded_table_exceeds_its_limit_in_any_window(
        limit in 1_u64..4,
        requests in prop::collection::vec((0_u64..300, 0_u64..20, 1_u64..4, 0_u64..1_500), 1..300),
    ) {
        let window_ns = 1_000;
        let table = keyed(Quota::per(limit, Duration::from_nanos(window_ns)), 4);
        let (mut now_ns, mut lists) = (0, HashMap::<u64, Vec<(u64, u64)>>::new());
        for (step, key, cost, back) in requests {
            now_ns += step;
            let at_ns = if back < 1_000 { u64::saturating_sub(now_ns, back) } else { now_ns };
            if table.check_at(&key, cost, Timestamp::from_nanos(at_ns)).is_allowed() {
                lists.entry(key).or_default().push((at_ns, cost));
            }
        }
        for list in lists.values() {
            for &(from_ns, _) in list {
                let window = from_ns..from_ns + window_ns;
                let inside = list.iter().filter(|(at_ns, _)| window.contains(at_ns));
                let units: u64 = inside.map(|&(_, cost)| cost).sum();
                prop_assert!(units <= limit, "{:?}", list);
            }
        }
    }
}

#[test]
fn together_and_apart_come_to_the_same() {
    let quota = Quota::per_minute(9);
    assert_eq!(decisions(quota, &together("0:05", 10)), "AAAAAAAAAD");
    let costs = [4, 3, 2, 1].map(|cost| costing("0:05", cost));
    assert_eq!(decisions(quota, &costs), "AAAD");
}
