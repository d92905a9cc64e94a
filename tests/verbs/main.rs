//! The verbs other than check and peek, on one limit and on one key of a table.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

#[path = "../common/mod.rs"]
mod common;
mod windows;

use std::time::Duration;

use common::policy;
use tollgate::{
    Decision, DenialReason, Entry, KeyedLimiter, Limiter, ManualClock, Policy, Timestamp,
};

/// One limit, or one key of a table.
enum Subject {
    One(Box<Limiter>),
    Keyed(Box<KeyedLimiter<u64>>),
}

const KEY: u64 = 7;

fn subjects(policy: Policy) -> [(Subject, ManualClock); 2] {
    let clocks = [ManualClock::new(), ManualClock::new()];
    let [one, keyed] = clocks.clone();
    let one = Subject::One(Box::new(Limiter::builder(policy).clock(one).build()));
    let keyed = KeyedLimiter::builder(policy).clock(keyed).build(10).unwrap();
    let keyed = Subject::Keyed(Box::new(keyed));
    let [first, second] = clocks;
    [(one, first), (keyed, second)]
}

impl Subject {
    /// The short form of a check.
    fn check(&self, cost: u64) -> Decision {
        match self {
            Self::One(limiter) => limiter.check_n(cost),
            Self::Keyed(limiter) => limiter.check_n(&KEY, cost),
        }
    }

    fn entry(&self) -> Entry<'_> {
        match self {
            Self::One(limiter) => limiter.entry(),
            Self::Keyed(limiter) => limiter.entry(&KEY),
        }
    }

    fn remaining(&self) -> u64 {
        self.entry().peek(1).remaining()
    }
}

const WINDOWS: [&str; 7] = [
    "fixed-window 10/m",
    "fixed-window 10/m from-first",
    "sliding-window 10/m exact",
    "sliding-window 10/m",
    "sliding-window 10/m strict",
    "segmented-window 10/m x2",
    "segmented-window 10/m x6",
];

fn each(texts: &[&str], promise: impl Fn(&Subject, &ManualClock, &str)) {
    for text in texts {
        for (subject, clock) in subjects(policy(text)) {
            promise(&subject, &clock, text);
        }
    }
}

#[test]
fn as_much_is_taken_as_fits() {
    let texts: Vec<_> = WINDOWS.into_iter().chain(["gcra 10/m"]).collect();
    each(&texts, |subject, _, text| {
        assert_eq!(subject.entry().take_up_to(0).into_result().unwrap().cost(), 0, "{text}");
        assert_eq!(subject.entry().take_up_to(7).into_result().unwrap().cost(), 7, "{text}");
        assert_eq!(subject.entry().take_up_to(u64::MAX).into_result().unwrap().cost(), 3, "{text}");
        let denial = subject.entry().take_up_to(7).into_result().unwrap_err();
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
    each(&texts, |subject, clock, text| {
        subject.entry().reset();
        assert!(subject.check(10).is_allowed(), "{text}");
        clock.advance(Duration::from_secs(1));
        assert!(!subject.check(5).is_allowed(), "{text}");
        subject.entry().reset();
        assert_eq!(subject.remaining(), 10, "{text}");
        assert!(subject.check(10).is_allowed(), "{text}");
        assert!(!subject.check(1).is_allowed(), "{text}");
    });
}

#[test]
fn a_request_with_an_earlier_time_does_not_profit_from_a_reset() {
    for text in ["gcra 1/m burst 5", "fixed-window 5/m"] {
        let limiter = Limiter::new(policy(text));
        let at = Timestamp::from_secs(6_000);
        assert!(limiter.entry().at(at).check_n(5).is_allowed());
        limiter.entry().at(at).reset();
        // If the word were reset to its unused state, a full burst would fit at each of these times.
        let times = [1, 2_000, 4_000].map(Timestamp::from_secs);
        let early =
            times.into_iter().filter(|&now| limiter.entry().at(now).check_n(5).is_allowed());
        assert!(early.count() <= 1, "{text}");
    }
}

#[test]
fn a_peek_and_a_denial_have_nothing_to_give_back() {
    each(&["gcra 10/m", "fixed-window 10/m"], |subject, _, text| {
        assert!(subject.check(6).is_allowed());
        let peeked = subject.entry().peek(4).into_result().unwrap();
        assert_eq!(subject.entry().refund(peeked), 0, "{text}");
        assert_eq!(
            subject.entry().refund(subject.entry().peek(0).into_result().unwrap()),
            0,
            "{text}"
        );
        assert_eq!(subject.remaining(), 4, "{text}");
    });
}

#[test]
fn a_permit_of_another_policy_gives_back_nothing() {
    each(&["gcra 10/m", "fixed-window 10/m"], |subject, _, text| {
        assert!(subject.check(6).is_allowed());
        let other = Limiter::builder(policy("gcra 100/m")).clock(ManualClock::new()).build();
        let foreign = other.check_n(50).into_result().unwrap();
        assert_eq!(subject.entry().refund(foreign), 0, "{text}");
        assert_eq!(subject.remaining(), 4, "{text}");
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
    // A rate of 10 a second and a burst of 10, which is spent: then ten places of ten units each.
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
    // 10 a second, 2 units left, and 100 ms later: 6 units are charged all the same.
    let clock = ManualClock::new();
    let limiter = Limiter::builder(policy("gcra 10/s burst 10")).clock(clock.clone()).build();
    assert!(limiter.check_n(8).is_allowed());
    clock.advance(Duration::from_millis(100));
    assert_eq!(limiter.entry().charge(6), 0);
    let denial = limiter.check().into_result().unwrap_err();
    assert_eq!(denial.retry_after(), Some(Duration::from_millis(400)));
}

#[test]
fn a_charge_that_comes_too_late_to_be_told_changes_nothing() {
    // This keyed word has 256 ticks a nanosecond: after 834 days a distance in ticks has more than 64 bits.
    let later = Timestamp::from_secs(2_000 * 86_400);
    for early_ns in (0..40).map(|bit| 1 << bit) {
        let limiter = KeyedLimiter::<u64>::new(policy("gcra 1000000000/s burst 1"), 10).unwrap();
        assert!(limiter.entry(&KEY).at(later).check().is_allowed());
        assert_eq!(limiter.entry(&KEY).at(Timestamp::from_nanos(early_ns)).charge(1), 1);
        let denied = limiter.entry(&KEY).at(later).check().into_result().unwrap_err();
        assert_eq!(denied.retry_after(), Some(Duration::from_nanos(1)), "{early_ns}");
    }
}
