//! The ends of the number range, and numbers that are refused.

use super::*;

use tollgate_oracle::{BigUint, CalendarSpan};

/// Any number, with an emphasis on the ends of the range.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..3u64, u64::MAX - 2..=u64::MAX, any::<u64>()]
}

fn positive() -> impl Strategy<Value = u64> {
    number().prop_map(|number| number.max(1))
}

fn large_algorithm() -> impl Strategy<Value = Algorithm> {
    (positive(), positive(), positive(), rounding(), 0..9u8).prop_map(
        |(limit, window_ns, other, rounding, which)| match which {
            0 => Algorithm::Gcra { count: other, period_ns: window_ns, burst: limit, tick: None },
            1 => Algorithm::FixedWindow { limit, window_ns },
            2 => Algorithm::FixedWindowFromFirst { limit, window_ns, quantum_ns: other },
            3 => Algorithm::SlidingWindow { limit, window_ns, rounding },
            4 => Algorithm::SegmentedWindow { limit, window_ns, segments: window_ns },
            5 => Algorithm::Calendar { limit, unit: CalendarSpan::Month },
            6 => Algorithm::Calendar { limit, unit: CalendarSpan::Year },
            7 => {
                let begins = (other % 7).try_into().expect("below seven");
                Algorithm::Calendar { limit, unit: CalendarSpan::Week { begins } }
            }
            _ => Algorithm::SlidingLog { limit, window_ns },
        },
    )
}

/// Calls every query.
fn exercise(oracle: &mut Oracle, requests: &[Request]) {
    for &(now_ns, cost) in requests {
        oracle.check(now_ns, cost);
        assert!(oracle.remaining(now_ns) <= oracle.limit());
        let fits = oracle.peek(now_ns, cost) == Verdict::Allowed;
        assert_eq!(oracle.retry_after(now_ns, cost) == Some(BigUint::ZERO), fits);
        if oracle.is_idle(now_ns) {
            assert_eq!(oracle.reset_after(now_ns), BigUint::ZERO);
        }
    }
}

proptest! {
    #[test]
    fn no_number_is_too_large(
        algorithm in large_algorithm(), requests in vec((number(), number()), 1..6),
    ) {
        exercise(&mut Oracle::new(algorithm), &requests);
    }

    #[test]
    fn no_tolerance_is_too_large(
        interval_ns in positive(), tolerance_ns in number(),
        requests in vec((number(), number()), 1..6),
    ) {
        exercise(&mut Oracle::with_tolerance(interval_ns, tolerance_ns), &requests);
    }

    #[test]
    fn ticks_hold_wherever_they_have_a_factor(
        count in 1..1_000_000_000u64, period_ns in 1_000_000_000..=u64::MAX, burst in positive(),
        k in 0..60u32, requests in vec((number(), number()), 1..6),
    ) {
        let tick = Some(k);
        exercise(&mut Oracle::new(Algorithm::Gcra { count, period_ns, burst, tick }), &requests);
    }
}

#[test]
fn the_last_nanosecond_is_like_any_other() {
    let mut oracle = Oracle::new(Algorithm::SlidingLog { limit: 1, window_ns: u64::MAX });
    assert_eq!(oracle.check(u64::MAX, 1), Verdict::Allowed);
    assert_eq!(oracle.retry_after(u64::MAX, 1), Some(BigUint::from(u64::MAX)));

    let day = Algorithm::Gcra { count: 1, period_ns: 86_400_000_000_000, burst: 1, tick: None };
    let mut oracle = Oracle::new(day);
    assert_eq!(oracle.check(u64::MAX, 1), Verdict::Allowed);
    assert_eq!(oracle.reset_after(u64::MAX), BigUint::from(86_400_000_000_000u64));
    assert_eq!(oracle.reset_after(0), BigUint::from(u64::MAX) + 86_400_000_000_000u64);
}

#[test]
#[should_panic = "limit must be at least 1"]
fn a_limit_of_zero_is_refused() {
    let _ = Oracle::new(Algorithm::FixedWindow { limit: 0, window_ns: 1 });
}

#[test]
#[should_panic = "window must be at least 1 ns"]
fn a_window_of_zero_is_refused() {
    let _ = Oracle::new(Algorithm::SlidingLog { limit: 1, window_ns: 0 });
}

#[test]
#[should_panic = "period must be at least 1 ns"]
fn a_period_of_zero_is_refused() {
    let _ = Oracle::new(Algorithm::Gcra { count: 1, period_ns: 0, burst: 1, tick: Some(12) });
}

#[test]
#[should_panic = "a whole number of ns per segment"]
fn segments_that_do_not_divide_the_window_are_refused() {
    let _ = Oracle::new(Algorithm::SegmentedWindow { limit: 1, window_ns: 10, segments: 3 });
}

#[test]
#[should_panic = "no factor below 2^64"]
fn a_rate_too_high_for_ticks_is_refused() {
    let _ = Oracle::new(Algorithm::Gcra { count: u64::MAX, period_ns: 1, burst: 1, tick: Some(1) });
}
