//! The rows of the catalogue that are about `soft`, `count-denied` and `penalty`.

use std::time::Duration;

use crate::common::{decisions, policy};
use tollgate::{BuildError, KeyedLimiter, Limiter, ManualClock, Meter, Policy, Timestamp, Word};

/// Policies under every algorithm whose denials write to the word.
const COUNTING: [&str; 7] = [
    "gcra 2/s count-denied penalty 4s after 2",
    "fixed-window 2/s count-denied penalty 4s after 2",
    "fixed-window 2/s from-first count-denied penalty 4s after 2",
    "sliding-window 2/s exact count-denied penalty 4s after 2",
    "sliding-window 2/s count-denied penalty 4s after 2",
    "sliding-window 2/s strict count-denied penalty 4s after 2",
    "segmented-window 2/s x4 count-denied penalty 4s after 2",
];

#[test]
fn row_03_lengths_that_are_zero_negative_or_no_number_are_refused() {
    for text in ["penalty 0s after 1", "penalty -1s after 1", "penalty NaNs after 1"] {
        let text = format!("5/s {text}");
        let error = text.parse::<Policy>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("in policy {text:?}: ")), "{error}");
    }
    let penalty = policy("5/s").penalty(Duration::MAX, 1);
    let counted = policy("5/s").count_denied(Some(Duration::MAX));
    for endless in [penalty, counted] {
        let told = endless.unwrap_err().to_string();
        assert!(told.starts_with("the counts and the window number need"), "{told}");
    }
}

#[test]
fn row_08_and_09_a_peek_and_what_never_fits_write_nothing_where_denials_do() {
    for text in COUNTING {
        let meter = Meter::new(policy(text)).unwrap();
        let now = Timestamp::from_secs(1);
        let full = meter.check(Word::UNUSED, now, 2).1;
        let denied = meter.check(full, now, 1).1;
        assert_ne!(denied, full, "{text}");
        let penalised = meter.check(denied, now, 1).1;
        for word in [full, denied, penalised] {
            for cost in [0, 3, u64::MAX] {
                assert_eq!(meter.check(word, now, cost).1, word, "{text} cost {cost}");
            }
        }
        let keyed =
            KeyedLimiter::builder(policy(text)).clock(ManualClock::new()).build(10).unwrap();
        assert!(!keyed.entry("key").at(now).check_n(3).is_allowed());
        assert_eq!(keyed.stats().live, 0);
    }
}

#[test]
fn row_10_huge_denied_costs_do_not_wrap() {
    for text in COUNTING {
        for cost in [1 << 52, u64::MAX - 1, u64::MAX] {
            assert_eq!(decisions(text, &[(0, 1), (0, cost), (0, 1), (0, 2)]), "ADAD", "{text}");
        }
    }
}

#[test]
fn row_13_at_the_last_instant_penalties_saturate() {
    for text in COUNTING {
        let policy = policy(text);
        let limiter = Limiter::builder(policy).clock(ManualClock::new()).build();
        let keyed = KeyedLimiter::builder(policy).clock(ManualClock::new()).build(10).unwrap();
        for now_ns in [u64::MAX - 1, u64::MAX, u64::MAX, u64::MAX, u64::MAX] {
            let now = Timestamp::from_nanos(now_ns);
            for _ in 0..2 {
                let (_, _) =
                    (limiter.entry().at(now).check_n(2), keyed.entry("key").at(now).check_n(2));
            }
            // This penalty lasts until the end of the clock.
            assert!(!limiter.entry().at(now).check().is_allowed(), "{text}");
            assert!(!keyed.entry("key").at(now).check().is_allowed(), "{text}");
        }
        assert!(!keyed.entry("key").at(Timestamp::default()).check().is_allowed(), "{text}");
    }
}

#[test]
fn row_19_a_softened_limit_or_a_count_of_denials_wider_than_its_field_is_refused() {
    // A count of 60,000 takes 16 bits, and 17 with `soft 100%`. A word holds two such counts and the number of a
    // second.
    let error = "sliding-window 60000/s exact soft 100%".parse::<Policy>().unwrap_err().to_string();
    assert_eq!(
        error,
        "in policy \"sliding-window 60000/s exact soft 100%\": the counts and the window number need 66 \
         bits; 64 are there; without what happens at the limit it fits: use a shorter penalty after \
         fewer denials, a smaller share, or a smaller limit"
    );
    let error = KeyedLimiter::<str>::new(policy("gcra 9/s penalty 1m after 4000000"), 1);
    assert!(matches!(error, Err(BuildError::Policy(_))));
}

#[test]
fn row_20_a_count_of_denied_requests_stops_and_stays_limited() {
    for (text, next) in [
        ("fixed-window 7/m count-denied", 'A'),
        ("sliding-window 7/m exact count-denied", 'D'),
        ("sliding-window 7/m strict count-denied", 'D'),
        ("segmented-window 7/m x2 count-denied", 'D'),
    ] {
        // There are far more denials than any field can count. The next request comes at the first instant of the next
        // window.
        let flood: Vec<_> = (0..5_000).map(|n| (n * 10_000_000, 7)).collect();
        let told = decisions(text, &[flood, vec![(60_000_000_000, 7)]].concat());
        assert_eq!(told, format!("A{}{next}", "D".repeat(4_999)), "{text}");
        // Two windows later the lockout is over, however many requests there were.
        assert_eq!(decisions(text, &[(0, 7), (1, 7), (120_000_000_000, 7)]), "ADA", "{text}");
    }
}

#[test]
fn row_21_whole_wraps_after_a_penalty_are_idle() {
    for text in COUNTING {
        let keyed =
            KeyedLimiter::builder(policy(text)).clock(ManualClock::new()).build(100).unwrap();
        let epoch_ns = u64::try_from(keyed.stats().epoch.as_nanos()).unwrap();
        let mut now_ns = 0;
        for power in 0..16 {
            now_ns += epoch_ns << power;
            let now = Timestamp::from_nanos(now_ns);
            let told: Vec<_> = [2, 1, 1]
                .map(|cost| keyed.entry("key").at(now).check_n(cost).is_allowed())
                .to_vec();
            assert_eq!(told, [true, false, false], "{text} after 2^{power} epochs");
        }
    }
}
