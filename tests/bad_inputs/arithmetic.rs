//! Section A of the catalogue of bad inputs: arithmetic and configuration.

use std::time::Duration;

use crate::common::{decisions, each, policy};
use tollgate::{
    Algorithm, DenialReason, KeyedLimiter, Limiter, ManualClock, Meter, Policy, PolicyError, Quota,
    Rounding, Timestamp, Word,
};

const SECOND_NS: u64 = 1_000_000_000;
const DAY_NS: u64 = 86_400 * SECOND_NS;

/// The units admitted when a request of one unit comes at each of the given times.
fn admitted(meter: &Meter, times_ns: impl IntoIterator<Item = u64>) -> u64 {
    let mut word = Word::UNUSED;
    let mut admitted = 0;
    for now_ns in times_ns {
        let (decision, next) = meter.check(word, Timestamp::from_nanos(now_ns), 1);
        admitted += u64::from(decision.is_allowed());
        word = next;
    }
    admitted
}

fn per_second(count: u64) -> Result<Quota, PolicyError> {
    Quota::try_per(count, Duration::from_secs(1))
}

fn told(refused: Result<Quota, PolicyError>) -> String {
    refused.unwrap_err().to_string()
}

#[test]
fn row_01_a_rate_of_zero_is_refused() {
    assert!(told(per_second(0)).starts_with("count 0 would admit nothing"));
    assert_eq!(
        "0/s burst 5".parse::<Policy>().unwrap_err().to_string(),
        "in policy \"0/s burst 5\": count 0 would admit nothing; it must be at least 1"
    );
}

#[test]
fn row_02_a_burst_of_zero_is_refused() {
    assert!(told(Quota::per_second(5).try_burst(0)).starts_with("burst 0 would admit nothing"));
    assert_eq!(
        "5/s burst 0".parse::<Policy>().unwrap_err().to_string(),
        "in policy \"5/s burst 0\": burst 0 would admit nothing; it must be at least 1"
    );
}

#[test]
fn row_03_a_period_that_is_zero_negative_or_no_number_is_refused() {
    assert!(told(Quota::try_per(5, Duration::ZERO)).starts_with("period 0 would be"));
    assert!(told(Quota::try_per(5, Duration::MAX)).starts_with("the period is too long"));
    for text in ["5/0s", "5/-1s", "5/NaNs", "5/infs", "5/1e3s", "5/", "5/ms", "5/99999999d"] {
        let error = text.parse::<Policy>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("in policy {text:?}: period")), "{error}");
    }
}

#[test]
fn row_04_three_billion_per_second_is_refused_not_clamped() {
    let too_high =
        "the rate is too high to be counted exactly; it must be at most 2.2e9 units per second";
    assert_eq!(told(per_second(3_000_000_000)), too_high);
    assert!(per_second(2_248_000_000).is_ok());
    assert_eq!(told(per_second(2_249_000_000)), too_high);
}

#[test]
fn row_05_six_hundred_million_per_second_errs_by_less_than_one_in_a_billion() {
    let meter = Meter::new(Quota::per_second(600_000_000)).unwrap();
    // All units are spent in each of 1,000 seconds, which admits the burst and then exactly the rate.
    let mut word = Word::UNUSED;
    let mut units = 0;
    for second in 0..=1_000 {
        let now = Timestamp::from_secs(second);
        let cost = meter.peek(word, now, 1).remaining();
        word = meter.check(word, now, cost).1;
        units += cost;
    }
    assert_eq!(units, 600_000_000 * 1_001);
}

#[test]
fn row_06_seven_per_second_does_not_drift_in_thirty_days() {
    let spaced = Meter::new(Quota::per_second(7).burst(1)).unwrap();
    let mut word = Word::UNUSED;
    let mut now_ns = 0;
    let mut count = 0_u64;
    // The next request comes exactly when the wait ends. Each wait is rounded up, and these roundings must not add up.
    while now_ns < 30 * DAY_NS {
        let (decision, next) = spaced.check(word, Timestamp::from_nanos(now_ns), 1);
        assert!(decision.is_allowed(), "at {now_ns}");
        word = next;
        count += 1;
        let wait = spaced.peek(word, Timestamp::from_nanos(now_ns), 1).into_result().unwrap_err();
        now_ns += u64::try_from(wait.retry_after().unwrap().as_nanos()).unwrap();
    }
    assert_eq!(count, 30 * 86_400 * 7);
}

#[test]
fn row_07_a_burst_of_2_to_the_32_at_one_per_hour_is_exact() {
    let meter = Meter::new(Quota::per_hour(1).burst(u64::from(u32::MAX))).unwrap();
    let now = Timestamp::from_secs(7_200); // a whole number of ticks, so that nothing is rounded
    let (all, word) = meter.check(Word::UNUSED, now, u64::from(u32::MAX));
    assert!(all.is_allowed());
    let denial = meter.peek(word, now, 1).into_result().unwrap_err();
    assert_eq!(denial.retry_after(), Some(Duration::from_secs(3_600)));
    let later = now + Duration::from_secs(3_600);
    assert!(!meter.peek(word, now + Duration::from_nanos(3_600 * SECOND_NS - 1), 1).is_allowed());
    assert!(meter.peek(word, later, 1).is_allowed());
    assert!(!meter.peek(word, later, 2).is_allowed());
    // The word of a keyed limiter has no room for this policy, so the policy is refused, not cut.
    let keyed = KeyedLimiter::<str>::new(Quota::per_hour(1).burst(u64::from(u32::MAX)), 100);
    let told = keyed.unwrap_err().to_string();
    let expected = "one key's state needs 43 of 63 bits, which leaves 20 to tell keys apart";
    assert!(told.starts_with(expected), "{told}");
}

#[test]
fn row_07_one_per_day_with_burst_213505_is_right() {
    // This burst takes a little more than 2^64 ns to drain. A limiter that computes in 64 bits would admit it twice.
    let meter = Meter::new(Quota::per_day(1).burst(213_505)).unwrap();
    let (all, word) = meter.check(Word::UNUSED, Timestamp::default(), 213_505);
    assert!(all.is_allowed());
    for now in [0, 1, DAY_NS - 1] {
        assert!(!meter.peek(word, Timestamp::from_nanos(now), 1).is_allowed());
    }
    assert!(meter.peek(word, Timestamp::from_nanos(DAY_NS), 1).is_allowed());
    assert!(!meter.peek(word, Timestamp::from_nanos(DAY_NS), 2).is_allowed());
    assert_eq!(decisions("gcra 1/d burst 213505", &[(0, 213_505), (1, 1), (DAY_NS, 1)]), "ADA");
}

#[test]
fn row_08_a_cost_of_zero_is_a_peek() {
    for text in
        ["gcra 2/m", "fixed-window 2/m", "sliding-window 2/m exact", "segmented-window 2/m x4"]
    {
        let meter = Meter::new(policy(text)).unwrap();
        let word = meter.check(Word::UNUSED, Timestamp::from_secs(30), 2).1;
        for second in [0, 30, 59, 60, 7_200] {
            let (decision, same) = meter.check(word, Timestamp::from_secs(second), 0);
            assert_eq!(same, word, "{text} at {second}");
            if second >= 30 {
                assert!(decision.is_allowed(), "{text} at {second}");
            }
        }
    }
    let keyed = KeyedLimiter::new(Quota::per_minute(2), 100).unwrap();
    assert!(keyed.check_n("key", 0).is_allowed());
    assert_eq!(keyed.stats().live, 0);
}

#[test]
fn row_09_a_cost_above_the_burst_never_fits_and_charges_nothing() {
    each("gcra 10/s", Timestamp::default(), |entry, _, kind| {
        for _ in 0..3 {
            let denial = entry.check_n(11).into_result().unwrap_err();
            assert_eq!(denial.reason(), DenialReason::NeverFits, "{kind}");
            assert_eq!((denial.retry_after(), denial.remaining()), (None, 10), "{kind}");
        }
        assert!(entry.check_n(10).is_allowed(), "{kind}");
    });
}

#[test]
fn row_10_huge_costs_are_limited_and_do_not_wrap() {
    for text in
        ["gcra 10/s", "fixed-window 10/s", "sliding-window 10/s exact", "segmented-window 10/s x5"]
    {
        for cost in [u64::from(u32::MAX), 1 << 52, u64::MAX - 1, u64::MAX] {
            assert_eq!(decisions(text, &[(0, 1), (0, cost), (0, 9), (0, 1)]), "ADAD", "{text}");
        }
    }
}

#[test]
fn row_13_the_last_instant_saturates() {
    for text in
        ["gcra 2/s", "fixed-window 2/s", "fixed-window 2/s from-first", "sliding-window 2/s exact"]
    {
        let meter = Meter::new(policy(text)).unwrap();
        let end = std::iter::repeat_n(u64::MAX, 10);
        // The clock has reached its last time, so not even a window's units come back.
        assert_eq!(admitted(&meter, end), 2, "{text}");
        let keyed =
            KeyedLimiter::builder(policy(text)).clock(ManualClock::new()).build(100).unwrap();
        let end = Timestamp::from_nanos(u64::MAX);
        let count = (0..10).filter(|_| keyed.entry("key").at(end).check().is_allowed()).count();
        assert_eq!(count, 2, "{text}");
        assert!(!keyed.entry("key").at(Timestamp::default()).check().is_allowed(), "{text}");
    }
}

#[test]
fn row_14_the_first_request_at_time_zero_is_charged() {
    for text in [
        "gcra 1/m",
        "fixed-window 1/m",
        "fixed-window 1/m from-first",
        "sliding-window 1/m exact",
        "segmented-window 1/m x2",
    ] {
        assert_eq!(decisions(text, &[(0, 1), (0, 1)]), "AD", "{text}");
    }
}

#[test]
fn row_16_a_state_that_lives_for_less_than_a_millisecond_lives_its_time() {
    let clock = ManualClock::new();
    let keyed =
        KeyedLimiter::builder(Quota::per_second(1_000_000).burst(1)).clock(clock.clone()).build(10);
    let keyed = keyed.unwrap();
    let at = |ns: u64| Timestamp::from_nanos(5_000_000_000 + ns);
    let admitted = keyed.entry("key").at(at(0)).check();
    assert_eq!(admitted.reset_after(), Duration::from_micros(1));
    let denial = keyed.entry("key").at(at(1)).check().into_result().unwrap_err();
    assert_eq!(denial.retry_after(), Some(Duration::from_nanos(999)));
    for (ns, live) in [(999, 1), (1_000, 0)] {
        clock.set(at(ns));
        assert_eq!(keyed.stats().live, live);
    }
    assert!(keyed.entry("key").at(at(1_000)).check().is_allowed());
}

#[test]
fn row_17_a_state_that_lives_for_more_than_2_to_the_31_seconds_lives_its_time() {
    let years = |years: u64| years * 365 * 86_400;
    assert!(years(80) > 1 << 31);
    let quota = Quota::per(1, Duration::from_secs(years(80)));
    let limiter = Limiter::builder(quota).clock(ManualClock::new()).build();
    let keyed = KeyedLimiter::builder(quota).clock(ManualClock::new()).build(10).unwrap();
    for entry in [limiter.entry(), keyed.entry("key")] {
        let check = |seconds| entry.at(Timestamp::from_secs(seconds)).check();
        assert!(check(0).is_allowed());
        for seconds in [1, 1 << 31, (1 << 31) + 1, years(80) - 1] {
            assert_eq!(check(seconds).retry_after().unwrap().as_secs(), years(80) - seconds);
        }
        assert!(check(years(80)).is_allowed());
    }
}

#[test]
fn row_18_thousands_per_second_work() {
    for rate in [1_500, 8_000] {
        let meter = Meter::new(Quota::per_second(rate).burst(1)).unwrap();
        // 100,000 attempts per second for one second, both ends included.
        let times = (0..=100_000).map(|n| n * 10_000);
        let count = admitted(&meter, times);
        // Attempts come every 10 us, and 8,000/s is one unit in 125 us, so each admission is up to one attempt late.
        assert!(count <= rate + 1, "{count} at {rate}/s");
        assert!(count >= rate * 92 / 100, "{count} at {rate}/s");
    }
}

#[test]
fn row_19_a_limit_wider_than_its_counter_is_refused() {
    let error = Policy::new(
        Algorithm::SlidingWindow { rounding: Rounding::Exact },
        Quota::per_second(1_000_000),
    )
    .unwrap_err();
    let expected = "the counts and the window number need 72 bits; 64 are there; ";
    assert!(error.to_string().starts_with(expected), "{error}");
    let error = "segmented-window 1000/m x12".parse::<Policy>().unwrap_err().to_string();
    assert_eq!(
        error,
        "in policy \"segmented-window 1000/m x12\": the counts and the window number need 150 bits; \
         64 are there; at most x3 fits"
    );
    assert!("segmented-window 1000/m x3".parse::<Policy>().is_ok());
    assert!("segmented-window 1000/m x4".parse::<Policy>().is_err());
}

#[test]
fn row_20_a_full_counter_stays_limited_to_the_end_of_its_window() {
    for text in ["fixed-window 1023/m", "sliding-window 1023/m exact", "segmented-window 1023/m x2"]
    {
        let meter = Meter::new(policy(text)).unwrap();
        let times = (0..100_000).map(|n| n * 500_000); // 50 s
        assert_eq!(admitted(&meter, times), 1_023, "{text}");
    }
}

#[test]
fn row_21_whole_wraps_of_idle_time_are_idle() {
    // The word of a keyed limiter stores only the low bits of its time. So the test asks for the key again after every
    // power of two of epochs.
    for text in
        ["gcra 3/s", "fixed-window 3/s", "sliding-window 3/s exact", "segmented-window 3/s x4"]
    {
        let keyed =
            KeyedLimiter::builder(policy(text)).clock(ManualClock::new()).build(100).unwrap();
        let epoch_ns = u64::try_from(keyed.stats().epoch.as_nanos()).unwrap();
        let mut now_ns = 0;
        for power in 0..20 {
            for extra_ns in [0, 1, SECOND_NS] {
                now_ns += (epoch_ns << power) + extra_ns;
                let now = Timestamp::from_nanos(now_ns);
                let count =
                    (0..5).filter(|_| keyed.entry("key").at(now).check().is_allowed()).count();
                assert_eq!(count, 3, "{text} after 2^{power} epochs and {extra_ns} ns");
            }
        }
    }
}

#[test]
fn row_12_a_refund_above_what_is_owed_fills_the_limit_and_no_more() {
    for text in
        ["gcra 10/m", "fixed-window 10/m", "sliding-window 10/m exact", "segmented-window 10/m x6"]
    {
        each(text, Timestamp::default(), |entry, _, kind| {
            let charge = || entry.check_n(10).into_result().unwrap();
            assert_eq!(entry.refund(charge()), 10, "{text}, {kind}");
            let permit = charge();
            entry.reset();
            // The key owes nothing any more.
            assert_eq!(entry.refund(permit), 0, "{text}, {kind}");
            assert_eq!(entry.take_up_to(50).into_result().unwrap().cost(), 10, "{text}, {kind}");
            assert!(entry.check().is_denied(), "{text}, {kind}");
        });
    }
}
