//! The verbs other than check and peek, on limits of every kind.

mod windows;

use std::time::Duration;

use crate::common::{each, policy};
use tollgate::{DenialReason, Entry, KeyedLimiter, Limiter, ManualClock, Timestamp};

const WINDOWS: [&str; 7] = [
    "fixed-window 10/m",
    "fixed-window 10/m from-first",
    "sliding-window 10/m exact",
    "sliding-window 10/m",
    "sliding-window 10/m strict",
    "segmented-window 10/m x2",
    "segmented-window 10/m x6",
];

/// Runs a test on limits of every kind, under each of these policies.
fn each_of(texts: &[&str], promise: impl Fn(Entry<'_>, &ManualClock, &str)) {
    for text in texts {
        each(text, Timestamp::default(), |entry, clock, kind| {
            promise(entry, clock, &format!("{text}, {kind}"));
        });
    }
}

fn left(entry: Entry<'_>) -> u64 {
    entry.peek(1).remaining()
}

#[test]
fn as_much_is_taken_as_fits() {
    let texts: Vec<_> = WINDOWS.into_iter().chain(["gcra 10/m"]).collect();
    each_of(&texts, |entry, _, text| {
        assert_eq!(entry.take_up_to(0).into_result().unwrap().cost(), 0, "{text}");
        assert_eq!(entry.take_up_to(7).into_result().unwrap().cost(), 7, "{text}");
        assert_eq!(entry.take_up_to(u64::MAX).into_result().unwrap().cost(), 3, "{text}");
        let denial = entry.take_up_to(7).into_result().unwrap_err();
        assert_eq!(
            (denial.cost(), denial.reason() == DenialReason::NeverFits, denial.remaining()),
            (1, false, 0),
            "{text}"
        );
        assert!(denial.retry_after().unwrap() > Duration::ZERO, "{text}");
    });
}

#[test]
fn a_reset_limit_is_as_never_used() {
    let texts: Vec<_> = WINDOWS.into_iter().chain(["gcra 10/m"]).collect();
    each_of(&texts, |entry, clock, text| {
        entry.reset();
        assert!(entry.check_n(10).is_allowed(), "{text}");
        clock.advance(Duration::from_secs(1));
        assert!(!entry.check_n(5).is_allowed(), "{text}");
        entry.reset();
        assert_eq!(left(entry), 10, "{text}");
        assert!(entry.check_n(10).is_allowed(), "{text}");
        assert!(!entry.check_n(1).is_allowed(), "{text}");
    });
}

#[test]
fn a_request_with_an_earlier_time_does_not_profit_from_a_reset() {
    for text in ["gcra 1/m burst 5", "fixed-window 5/m"] {
        let limiter = Limiter::new(policy(text));
        let at = Timestamp::from_secs(6_000);
        assert!(limiter.entry().at(at).check_n(5).is_allowed());
        limiter.entry().at(at).reset();
        // If the reset wrote the unused word, a full burst would fit at each of these times.
        let times = [1, 2_000, 4_000].map(Timestamp::from_secs);
        let early =
            times.into_iter().filter(|&now| limiter.entry().at(now).check_n(5).is_allowed());
        assert!(early.count() <= 1, "{text}");
    }
}

#[test]
fn a_peek_and_a_denial_have_nothing_to_give_back() {
    each_of(&["gcra 10/m", "fixed-window 10/m"], |entry, _, text| {
        assert!(entry.check_n(6).is_allowed());
        let peeked = entry.peek(4).into_result().unwrap();
        assert_eq!(entry.refund(peeked), 0, "{text}");
        assert_eq!(entry.refund(entry.peek(0).into_result().unwrap()), 0, "{text}");
        assert_eq!(left(entry), 4, "{text}");
    });
}

#[test]
fn a_permit_of_another_policy_gives_back_nothing() {
    each_of(&["gcra 10/m", "fixed-window 10/m"], |entry, _, text| {
        assert!(entry.check_n(6).is_allowed());
        let other = Limiter::builder(policy("gcra 100/m")).clock(ManualClock::new()).build();
        let foreign = other.check_n(50).into_result().unwrap();
        assert_eq!(entry.refund(foreign), 0, "{text}");
        assert_eq!(left(entry), 4, "{text}");
    });
}

#[test]
fn a_key_that_is_not_there_has_nothing_to_give_back() {
    let limiter = KeyedLimiter::<u64>::new(policy("gcra 10/m"), 10).unwrap();
    let permit = limiter.check_n(&1, 5).into_result().unwrap();
    assert_eq!(limiter.entry(&2).refund(permit), 0);
    limiter.entry(&2).reset();
    assert_eq!(limiter.stats().live, 1);
}

#[test]
fn the_folly_vector_of_borrowing_waits_one_second_more_each_time() {
    // At a rate of 10 a second a burst of 10 is spent. Then ten places of ten units each are reserved.
    let limiter = Limiter::builder(policy("gcra 10/s burst 10")).clock(ManualClock::new()).build();
    assert!(limiter.check_n(10).is_allowed());
    for seconds in 1..=10 {
        let place = limiter.entry().reserve(10, Duration::from_secs(10)).unwrap();
        assert_eq!(place.wait(), Duration::from_secs(seconds));
    }
    assert!(limiter.entry().reserve(10, Duration::from_secs(10)).is_err());
}

#[test]
fn v36_a_forced_charge_puts_the_next_unit_off() {
    // At 10 a second, 2 units were left 100 ms ago. 6 units are charged although they do not fit.
    let clock = ManualClock::new();
    let limiter = Limiter::builder(policy("gcra 10/s burst 10")).clock(clock.clone()).build();
    assert!(limiter.check_n(8).is_allowed());
    clock.advance(Duration::from_millis(100));
    assert_eq!(limiter.entry().charge(6), 0);
    let denial = limiter.check().into_result().unwrap_err();
    assert_eq!(denial.retry_after(), Some(Duration::from_millis(400)));
}
