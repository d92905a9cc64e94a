//! Limits that come with requests alone: as redis-cell decides, and as the core does.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Decision, Limiter, ManualClock, Quota};
use tollgate_rules::{DecisionMaker, Pace, PacedAnswer, RequestError, RuleCache, Settings};

const SECOND: Duration = Duration::from_secs(1);

fn maker(settings: Settings) -> (DecisionMaker, ManualClock) {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(1_000_000));
    let cache = RuleCache::with_clock(settings, clock.clone());
    (DecisionMaker::new(Arc::new(cache)).expect("tables"), clock)
}

fn pace(burst: u64, count: u64, period: Duration) -> Pace {
    Pace::new(burst, count, period).expect("it fits")
}

/// Whether it is limited, the remaining units, and the times in milliseconds; -1 if there is none.
fn told(answer: &PacedAnswer) -> (bool, u64, i64, i64) {
    let ms = |wait: Duration| i64::try_from(wait.as_millis()).expect("short");
    (
        !answer.is_allowed,
        answer.remaining,
        ms(answer.reset_after),
        answer.retry_after.map_or(-1, ms),
    )
}

/// Its rule: the theoretical arrival time moves on by an interval for each unit, and may lie a whole burst ahead.
#[test]
fn a_burst_of_five_at_one_a_second_is_decided_as_redis_cell_does() {
    let (maker, clock) = maker(Settings::default());
    let start = clock.now();
    let limit = pace(5, 1, SECOND);
    for (at_ms, cost, expected) in [
        (0, 6, (true, 5, 0, -1)),
        (0, 1, (false, 4, 1_000, -1)),
        (0, 3, (false, 1, 4_000, -1)),
        (0, 1, (false, 0, 5_000, -1)),
        (0, 1, (true, 0, 5_000, 1_000)),
        (3_000, 1, (false, 2, 3_000, -1)),
        (3_100, 1, (false, 1, 3_900, -1)),
        (4_000, 1, (false, 1, 4_000, -1)),
        (8_000, 1, (false, 4, 1_000, -1)),
        (9_500, 1, (false, 4, 1_000, -1)),
        (9_500, 0, (false, 4, 1_000, -1)),
        (9_500, 2, (false, 2, 3_000, -1)),
        (9_500, 5, (true, 2, 3_000, 3_000)),
    ] {
        clock.set(start + Duration::from_millis(at_ms));
        let answer = maker.pace(b"x", limit, cost).expect("a decision");
        assert_eq!(told(&answer), expected, "{cost} at {at_ms} ms");
    }
}

#[test]
fn a_key_keeps_what_it_has_spent_when_its_pace_changes() {
    let (maker, _) = maker(Settings::default());
    let decide = |burst, cost| {
        let answer = maker.pace(b"x", pace(burst, 1, SECOND), cost).expect("a decision");
        (answer.is_allowed, answer.remaining)
    };
    assert_eq!(decide(10, 6), (true, 4));
    assert_eq!(decide(7, 1), (true, 0));
    assert_eq!(decide(5, 0), (false, 0), "even a question: more is spent than this limit holds");
    assert_eq!(decide(20, 1), (true, 12));
}

#[test]
fn what_is_switched_off_or_too_long_is_refused() {
    let limit = pace(5, 1, SECOND);
    let (off, _) = maker(Settings { override_capacity: 0, ..Settings::default() });
    assert_eq!(off.pace(b"x", limit, 1), Err(RequestError::OverridesOff));
    let (short, _) = maker(Settings { max_key_bytes: 3, ..Settings::default() });
    assert!(short.pace(b"abc", limit, 1).is_ok());
    let refused = RequestError::TooManyBytes { found: 4, most: 3 };
    assert_eq!(short.pace(b"abcd", limit, 1), Err(refused));
}

#[test]
fn in_global_shadow_mode_nothing_is_denied_and_it_is_counted() {
    let (maker, _) = maker(Settings { global_shadow_mode: true, ..Settings::default() });
    let limit = pace(1, 1, SECOND);
    for expected in [(false, 0, 1_000, -1), (false, 0, 1_000, -1)] {
        assert_eq!(told(&maker.pace(b"x", limit, 1).expect("a decision")), expected);
    }
    assert_eq!(maker.cache().global_shadow_mode(), 1);
}

#[test]
fn a_key_without_a_cell_is_counted_and_reported_once() {
    let (maker, _) = maker(Settings { override_capacity: 1, ..Settings::default() });
    let limit = pace(1, 1, 3_600 * SECOND);
    let answers =
        (0..1_000_u64).map(|n| maker.pace(&n.to_le_bytes(), limit, 1).expect("a decision"));
    let (full, reports) = answers.fold((0, Vec::new()), |(full, mut reports), answer| {
        reports.extend(answer.report);
        (full + u64::from(answer.no_cell.is_some()), reports)
    });
    let counts = maker.cache().own_limits();
    let counted = [counts.spilled, counts.full_denied];
    assert!(full > 900 && counted.iter().sum::<u64>() == full, "{full} {counted:?}");
    let [report] = &reports[..] else { panic!("{reports:?}") };
    let text = report.to_string();
    assert!(
        text.starts_with("limits that come with requests: its table for 1 client is full;"),
        "{text}"
    );
}

#[test]
fn threads_that_share_a_key_are_never_admitted_above_its_burst() {
    let (maker, _) = maker(Settings::default());
    let limit = pace(1_000, 1, 3_600 * SECOND);
    let ask =
        || (0..900).filter(|_| maker.pace(b"x", limit, 1).expect("a decision").is_allowed).count();
    let admitted: usize = std::thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(ask));
        threads.into_iter().map(|thread| thread.join().expect("it ends")).sum()
    });
    assert!(admitted <= 1_000, "{admitted}");
    let rest = (0..1_000).filter(|_| maker.pace(b"x", limit, 1).expect("a decision").is_allowed);
    assert_eq!(admitted + rest.count(), 1_000, "alone it gets what is left");
}

/// A step of time, in the unit of its table, and a cost.
fn steps() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0..2_000_000_u64, 0..12_u64), 1..200)
}

proptest! {
    /// Intervals that are whole grains are not rounded.
    #[test]
    fn a_pace_decides_as_a_limiter_of_its_quota(
        burst in 1..50_u64,
        interval_us in prop::sample::select(vec![1_000_u64, 20_000, 1_000_000, 60_000_000]),
        steps in steps(),
    ) {
        let (maker, clock) = maker(Settings::default());
        let interval = Duration::from_micros(interval_us);
        let quota = Quota::per(1, interval).burst(burst);
        let limiter = Limiter::builder(quota).clock(clock.clone()).build();
        let limit = pace(burst, 1, interval);
        for (step, cost) in steps {
            // Whole grains of time: between two of them what has come back is told in whole ones.
            clock.advance(interval * u32::try_from(step / 1_000).expect("small") / 1_000);
            let expected: Decision = limiter.check_n(cost);
            let answer = maker.pace(b"x", limit, cost).expect("a decision");
            prop_assert_eq!(answer.is_allowed, expected.is_allowed());
            prop_assert_eq!(answer.remaining, expected.remaining());
            let waits = (answer.retry_after, expected.retry_after());
            prop_assert_eq!(waits.0.map(rounded), waits.1.map(rounded), "{:?}", waits);
        }
    }
}

/// To microseconds: ticks of the two words differ by nanoseconds.
fn rounded(wait: Duration) -> u128 {
    (wait.as_nanos() + 500) / 1_000
}
