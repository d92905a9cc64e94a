//! Limits that come with requests, without rules. They are decided as redis-cell decides, and exactly as the core does.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Decision, Limiter, ManualClock, Quota};
use tollgate_rules::{DecisionMaker, Pace, PacedAnswer, RequestError, RuleCache, RuleSettings};

const SECOND: Duration = Duration::from_secs(1);

fn maker(settings: RuleSettings) -> (DecisionMaker, ManualClock) {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(1_000_000));
    let cache = RuleCache::with_clock(settings, clock.clone());
    (DecisionMaker::new(Arc::new(cache)).expect("tables"), clock)
}

/// Settings for tests that build many tables.
fn few_keys() -> RuleSettings {
    RuleSettings { override_capacity: 100, ..RuleSettings::default() }
}

fn pace(burst: u64, count: u64, period: Duration) -> Pace {
    Pace::new(burst, count, period).expect("it fits")
}

/// Whether the request is limited, the remaining units, and the answer's two times in milliseconds, with -1 for a
/// missing time.
fn told(answer: &PacedAnswer) -> (bool, u64, i64, i64) {
    let ms = |wait: Duration| i64::try_from(wait.as_millis()).expect("short");
    (
        !answer.is_allowed,
        answer.remaining,
        ms(answer.reset_after),
        answer.retry_after.map_or(-1, ms),
    )
}

/// The rule of redis-cell: the theoretical arrival time moves on by an interval for each unit, and may lie a whole
/// burst ahead.
#[test]
fn a_burst_of_five_at_one_a_second_is_decided_as_redis_cell_does() {
    let (maker, clock) = maker(RuleSettings::default());
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
    let (maker, clock) = maker(RuleSettings::default());
    let decide = |burst, cost| {
        // A change of the quota may round the debt up by a part of a tick, which comes back in this millisecond.
        clock.advance(Duration::from_millis(1));
        let answer = maker.pace(b"x", pace(burst, 1, SECOND), cost).expect("a decision");
        (answer.is_allowed, answer.remaining)
    };
    assert_eq!(decide(10, 6), (true, 4));
    assert_eq!(decide(7, 1), (true, 0));
    assert_eq!(decide(5, 0), (false, 0), "even a question: more is spent than this limit holds");
    assert_eq!(decide(20, 1), (true, 12));
}

#[test]
fn a_key_that_is_asked_by_two_paces_in_turns_gets_the_burst_once() {
    let (maker, clock) = maker(RuleSettings::default());
    let admitted = || {
        let periods = [30, 60].into_iter().cycle().map(Duration::from_secs);
        let ask =
            |period: &Duration| maker.pace(b"k", pace(30, 30, *period), 1).expect("a decision");
        periods.take(100).filter(|period| ask(period).is_allowed).count()
    };
    let first = admitted();
    // The part of a tick that rounding may have added to the debt comes back in these 20 ms.
    clock.advance(Duration::from_millis(20));
    assert_eq!(first + admitted(), 30);
}

#[test]
fn a_raised_rate_counts_at_once() {
    let (maker, clock) = maker(RuleSettings::default());
    let [slow, fast] = [10, 1_000].map(|count| pace(16, count, 20 * SECOND));
    let ask = |pace, cost| {
        // The part of a tick that rounding may have added to the debt comes back in these 10 ms.
        clock.advance(Duration::from_millis(10));
        let answer = maker.pace(b"k", pace, cost).expect("a decision");
        (answer.is_allowed, answer.remaining, answer.retry_after)
    };
    assert_eq!(ask(slow, 9), (true, 7, None));
    assert_eq!(ask(fast, 1), (true, 6, None), "units stay spent");
    assert_eq!(ask(slow, 6), (true, 0, None), "half a unit has come back");
    let about = |wait: Duration, found: Option<Duration>| {
        found.is_some_and(|found| found < wait && found > wait * 9 / 10)
    };
    let (is_allowed, _, wait) = ask(slow, 1);
    assert!(!is_allowed && about(SECOND, wait), "{wait:?}");
    let (is_allowed, _, wait) = ask(fast, 1);
    assert!(!is_allowed && about(SECOND / 100, wait), "{wait:?}");
    assert_eq!(ask(fast, 1), (true, 0, None));
}

/// The bounds of the tables are those in the documentation of [`Pace`].
#[test]
fn a_key_has_a_count_in_each_table() {
    let (maker, _) = maker(RuleSettings::default());
    let hour = 3_600 * SECOND;
    let left = |pace| maker.pace(b"x", pace, 1).expect("a decision").remaining;
    // One pace for each table. The bursts of the first four come back within an hour, within a day, within 31 days, and
    // later. The rate of the fifth is too high for the table of an hour, and that of the sixth also for the table of a
    // minute.
    let first = [
        (10, 10, hour),
        (11, 10, hour),
        (10, 10, 31 * 24 * hour),
        (11, 10, 31 * 24 * hour),
        (20, 10_000, SECOND),
        (20, 10_001, SECOND),
    ];
    let first = first.map(|(burst, count, period)| pace(burst, count, period));
    assert_eq!(first.map(left), [9, 10, 9, 10, 19, 19]);
    for (burst, count, period) in
        [(10, 1, SECOND), (25, 1, hour), (24, 1, 25 * hour), (99, 1, 24 * hour)]
    {
        let left = left(pace(burst, count, period));
        assert!(left < burst - 1, "{burst} at {count} in {period:?}: a unit was spent before");
    }
}

#[test]
fn what_is_switched_off_or_too_long_is_refused() {
    let limit = pace(5, 1, SECOND);
    let (off, _) = maker(RuleSettings { override_capacity: 0, ..RuleSettings::default() });
    assert_eq!(off.pace(b"x", limit, 1), Err(RequestError::OverridesOff));
    let (short, _) = maker(RuleSettings { max_key_bytes: 3, ..RuleSettings::default() });
    assert!(short.pace(b"abc", limit, 1).is_ok());
    let refused = RequestError::TooManyBytes { found: 4, most: 3 };
    assert_eq!(short.pace(b"abcd", limit, 1), Err(refused));
}

#[test]
fn in_global_shadow_mode_nothing_is_denied_and_it_is_counted() {
    let (maker, _) = maker(RuleSettings { global_shadow_mode: true, ..RuleSettings::default() });
    let limit = pace(1, 1, SECOND);
    for expected in [(false, 0, 1_000, -1), (false, 0, 1_000, -1)] {
        assert_eq!(told(&maker.pace(b"x", limit, 1).expect("a decision")), expected);
    }
    assert_eq!(maker.cache().global_shadow_mode(), 1);
}

#[test]
fn a_key_without_a_cell_is_denied_counted_and_reported_once() {
    let (maker, _) = maker(RuleSettings { override_capacity: 1, ..RuleSettings::default() });
    let limit = pace(1, 1, 3_600 * SECOND);
    let answers =
        (0..1_000_u64).map(|n| maker.pace(&n.to_le_bytes(), limit, 1).expect("a decision"));
    let (full, reports) = answers.fold((0, Vec::new()), |(full, mut reports), answer| {
        reports.extend(answer.report);
        assert!(answer.is_allowed == answer.no_cell.is_none());
        (full + u64::from(answer.no_cell.is_some()), reports)
    });
    let counts = maker.cache().own_limits();
    assert!(full > 900, "{full}");
    assert_eq!((counts.spilled, counts.full_denied), (0, full));
    let [report] = &reports[..] else { panic!("{reports:?}") };
    let text = report.to_string();
    assert!(
        text.starts_with("limits that come with requests: its table for 1 client is full;"),
        "{text}"
    );
}

#[test]
fn a_key_without_a_cell_is_told_when_one_is_free() {
    let (maker, clock) = maker(RuleSettings { override_capacity: 1, ..RuleSettings::default() });
    let ask = |n: u64| maker.pace(&n.to_le_bytes(), pace(1, 1, SECOND), 1).expect("a decision");
    let denied = (0..100).map(ask).find(|answer| answer.no_cell.is_some()).expect("it is full");
    let wait = denied.retry_after.expect("its cost fits");
    assert!((SECOND..2 * SECOND).contains(&wait), "{wait:?}");
    clock.advance(wait - Duration::from_millis(3));
    assert!(ask(100).no_cell.is_some());
    clock.advance(Duration::from_millis(3));
    assert!(ask(101).is_allowed);
}

#[test]
fn a_pace_without_a_place_is_refused_counted_and_reported_until_idle_ones_are_forgotten() {
    let (maker, clock) = maker(RuleSettings::default());
    // Each key is asked under a pace of its own, and all paces belong to one table.
    let ask = |n: u64| maker.pace(&n.to_le_bytes(), pace(n, 1, SECOND), 1);
    let refusals = |paces: std::ops::Range<u64>| -> Vec<Option<u64>> {
        let refusal = |n| match ask(n) {
            Ok(answer) => {
                assert!(answer.is_allowed && answer.no_cell.is_none(), "{n}");
                None
            }
            Err(RequestError::TooManyPaces { most: 512, report }) => Some(report),
            Err(other) => panic!("{n}: {other}"),
        };
        paces.filter_map(refusal).collect()
    };
    assert_eq!(refusals(1..513), []);
    let refused = refusals(513..2_000);
    assert_eq!(refused[0], Some(1), "the first is reported");
    assert!(refused[1..].iter().all(Option::is_none), "and no other for a minute");
    assert_eq!(maker.cache().too_many_paces(), refused.len() as u64);
    assert!(ask(7).is_ok(), "a pace that has its place keeps it");
    // Each key has one unit charged, which comes back in a second.
    clock.advance(2 * SECOND);
    assert_eq!(refusals(2_000..2_512), []);
    clock.advance(60 * SECOND);
    let before = refused.len() as u64;
    let later = refusals(3_000..4_500);
    assert_eq!(later[0], Some(before), "those that no report has told yet");
}

#[test]
fn places_are_looked_for_once_a_second() {
    let (maker, clock) = maker(RuleSettings::default());
    // All requests have one key, so only the last pace is in use.
    let is_refused = |n: &u64| maker.pace(b"x", pace(*n, 1, SECOND), 0).is_err();
    assert!((1..1_000).find(is_refused).is_none(), "places are freed when there is none");
    let refused = (1_000..3_000).find(is_refused).expect("not twice in a second");
    clock.advance(Duration::from_millis(999));
    assert!(is_refused(&refused));
    clock.advance(Duration::from_millis(1));
    assert!(!is_refused(&refused));
}

#[test]
fn threads_that_share_a_key_are_never_admitted_above_its_burst() {
    let (maker, _) = maker(RuleSettings::default());
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

/// Time steps, each followed by a request: the index of its pace, and its cost.
fn steps(paces: usize) -> impl Strategy<Value = Vec<(u32, usize, u64)>> {
    prop::collection::vec((0..32_u32, 0..paces, 0..12_u64), 1..200)
}

proptest! {
    #[test]
    fn a_pace_decides_as_a_limiter_of_its_quota(
        burst in 1..50_u64,
        interval_us in prop::sample::select(vec![16_u64, 1_000, 20_000, 1_000_000, 60_000_000]),
        steps in steps(1),
    ) {
        let (maker, clock) = maker(few_keys());
        let interval = Duration::from_micros(interval_us);
        let quota = Quota::per(1, interval).burst(burst);
        let limiter = Limiter::builder(quota).clock(clock.clone()).build();
        let limit = pace(burst, 1, interval);
        // A unit that takes at least 16 us has at least 256 ticks in a word of a table.
        let tick = interval / 256 + Duration::from_nanos(1);
        for (step, _, cost) in steps {
            // The steps are whole ticks of both the table's word and the limiter's word, because otherwise the two
            // would round differently.
            clock.advance(interval / 16 * step);
            let expected: Decision = limiter.check_n(cost);
            let answer = maker.pace(b"x", limit, cost).expect("a decision");
            prop_assert_eq!(answer.is_allowed, expected.is_allowed());
            prop_assert_eq!(answer.remaining, expected.remaining());
            let waits = [answer.retry_after, expected.retry_after()];
            let [ours, theirs] = waits.map(Option::unwrap_or_default);
            prop_assert!(ours.abs_diff(theirs) <= tick, "{:?}", waits);
        }
    }

    /// The paces lie near every bound of every table, and near the rates at which the length of a tick changes.
    #[test]
    fn every_pace_has_room_in_its_table(
        seconds in prop::sample::select(vec![1_u64, 7, 60, 3_600, 86_400, 31 * 86_400, 42 * 365 * 86_400]),
        count in prop::sample::select(vec![
            1_u64, 2, 30, 600_000, 61_035, 122_070, 244_140, 488_281, 976_562, 1_000_000,
        ]),
        burst in prop::sample::select(vec![1_u64, 2, 600, 10_000, 140_000]),
        less in prop::array::uniform2(0..3_u64),
    ) {
        let [count, burst] = [count - less[0].min(count - 1), burst - less[1].min(burst - 1)];
        let limit = Pace::new(burst, count, Duration::from_secs(seconds));
        prop_assume!(limit.is_ok());
        let (maker, _) = maker(few_keys());
        let answer = maker.pace(b"x", limit.expect("it is one"), 1).expect("a place");
        prop_assert_eq!((answer.is_allowed, answer.remaining), (true, burst - 1));
    }

    /// The bound holds over every span of time, whichever paces of one table the key is asked under.
    #[test]
    fn a_key_gets_no_more_than_the_largest_burst_and_the_highest_rate_of_its_paces(
        paces in prop::collection::vec((1..40_u64, 1..60_u64, 1..60_u32), 1..5),
        steps in steps(5),
        step_ms in prop::sample::select(vec![1_u32, 17, 250, 3_000]),
    ) {
        let (maker, clock) = maker(few_keys());
        let limits: Vec<Pace> =
            paces.iter().map(|(burst, count, s)| pace(*burst, *count, SECOND * *s)).collect();
        let mut admitted: Vec<(u64, u64)> = Vec::new();
        let (mut most, mut fastest) = (0, 0.0_f64);
        for (step, which, cost) in steps {
            clock.advance(Duration::from_millis(1) * (step * step_ms));
            let which = which % limits.len();
            let (burst, count, seconds) = paces[which];
            most = most.max(burst);
            fastest = fastest.max(count as f64 / f64::from(seconds));
            if maker.pace(b"x", limits[which], cost).expect("a decision").is_allowed {
                admitted.push((clock.now().as_nanos(), cost));
            }
            let now_ns = clock.now().as_nanos();
            let mut units = 0;
            for (since_ns, cost) in admitted.iter().rev() {
                units += cost;
                let bound = most as f64 + fastest * (now_ns - since_ns) as f64 / 1e9;
                // The time of a charge is rounded down to a whole tick, and a unit has at least 256 ticks.
                prop_assert!(units as f64 <= bound + 1.0 / 256.0, "{units} of {bound}");
            }
        }
    }
}
