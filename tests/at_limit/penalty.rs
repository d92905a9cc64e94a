//! Penalties: after some denials in a row every request is denied, and when the penalty ends, the limit is as if
//! unused.

use std::time::Duration;

use tollgate::{DenialReason, KeyedLimiter, ManualClock, Timestamp};

use super::{ALGORITHMS, secs};
use crate::common::{Engines, policy};

const SECOND_NS: u64 = 1_000_000_000;

#[test]
fn a_penalty_is_half_open_and_then_the_limit_is_as_never_used() {
    for text in ALGORITHMS {
        let mut engines = Engines::new(&format!("{text} penalty 10s after 3"));
        assert!(engines.check_ms(4, 1_000).is_allowed());
        assert_ne!(engines.denied(1, 1_000).reason(), DenialReason::Penalty);
        assert_ne!(engines.denied(1, 1_000).reason(), DenialReason::Penalty);
        let third = engines.denied(1, 1_000);
        assert_eq!(third.reason(), DenialReason::Penalty, "{text}");
        assert_eq!((third.retry_after(), third.reset_after()), (secs(10), Duration::from_secs(10)));
        assert_eq!((third.remaining(), third.limit()), (0, 4));
        let word = engines.word;
        let end_ns = 11 * SECOND_NS;
        for now_ns in [SECOND_NS, 6 * SECOND_NS, end_ns - 1] {
            let denial = engines.check(1, Timestamp::from_nanos(now_ns)).into_result().unwrap_err();
            assert_eq!(denial.reason(), DenialReason::Penalty, "{text} at {now_ns}");
            let wait = Duration::from_nanos(end_ns - now_ns);
            assert_eq!(denial.retry_after(), Some(wait));
            assert!(denial.to_string().contains("refused for a while"), "{denial}");
        }
        assert_eq!(engines.word, word, "{text}: a denial during a penalty wrote");
        let end = Timestamp::from_nanos(end_ns);
        assert_eq!(engines.meter.peek(engines.word, end, 0).remaining(), 4, "{text}");
        assert!(engines.check(4, end).is_allowed(), "{text}");
        // The count of denials in a row starts again from zero, too.
        assert_ne!(engines.denied(1, 11_000).reason(), DenialReason::Penalty);
        assert_ne!(engines.denied(1, 11_000).reason(), DenialReason::Penalty);
        assert_eq!(engines.denied(1, 11_000).reason(), DenialReason::Penalty, "{text}");
    }
}

#[test]
fn an_admission_ends_the_row_of_denials_and_what_asks_for_nothing_or_too_much_is_not_in_it() {
    for text in ALGORITHMS {
        let mut engines = Engines::new(&format!("{text} penalty 10s after 2"));
        assert!(engines.check_ms(3, 1_000).is_allowed());
        assert_ne!(engines.denied(2, 1_000).reason(), DenialReason::Penalty);
        assert!(engines.check_ms(1, 1_000).is_allowed());
        assert_ne!(engines.denied(2, 1_000).reason(), DenialReason::Penalty);
        let word = engines.word;
        for _ in 0..5 {
            let _ = engines.check_ms(0, 1_000);
            assert_eq!(engines.denied(5, 1_000).reason(), DenialReason::NeverFits);
            let _ = engines.limiter.entry().at(Timestamp::from_secs(1)).peek(1);
            let _ = engines.keyed.entry("key").at(Timestamp::from_secs(1)).peek(1);
        }
        assert_eq!(engines.word, word, "{text}");
        assert_eq!(engines.denied(1, 1_000).reason(), DenialReason::Penalty, "{text}");
    }
}

#[test]
fn during_a_penalty_also_a_peek_and_what_never_fits_are_told_of_it() {
    let mut engines = Engines::new("gcra 4/2s penalty 10s after 1");
    assert!(engines.check_ms(4, 0).is_allowed());
    engines.denied(1, 0);
    for cost in [0, 1, 4] {
        let peek = engines.meter.peek(engines.word, Timestamp::from_secs(4), cost);
        let denial = peek.into_result().unwrap_err();
        assert_eq!(
            (denial.reason() == DenialReason::Penalty, denial.retry_after()),
            (true, secs(6))
        );
    }
    let never = engines.denied(5, 4_000);
    // Both reasons are true, and `NeverFits` is the more useful one.
    assert_eq!(never.reason(), DenialReason::NeverFits);
    assert_eq!((never.retry_after(), never.remaining()), (None, 0));
}

#[test]
fn an_extended_penalty_ends_its_length_after_the_last_denial() {
    for text in ALGORITHMS {
        let mut engines = Engines::new(&format!("{text} penalty 10s after 1 extended"));
        assert!(engines.check_ms(4, 0).is_allowed());
        for (now_ms, wait) in [(0, 10), (5_000, 10), (14_000, 10), (23_000, 10)] {
            assert_eq!(engines.denied(1, now_ms).retry_after(), secs(wait), "{text} at {now_ms}");
        }
        // A late denial does not move the end of the penalty, and neither do requests that are not counted.
        assert_eq!(engines.denied(1, 13_000).retry_after(), secs(20), "{text}");
        assert_eq!(engines.denied(5, 30_000).reason(), DenialReason::NeverFits);
        assert!(!engines.check_ms(0, 30_000).is_allowed());
        assert!(!engines.check(1, Timestamp::from_nanos(33 * SECOND_NS - 1)).is_allowed());
        let mut after = Engines::new(&format!("{text} penalty 10s after 1 extended"));
        assert!(after.check_ms(4, 0).is_allowed());
        after.denied(1, 0);
        assert!(after.check_ms(4, 10_000).is_allowed(), "{text}");
    }
}

#[test]
fn an_extended_penalty_is_moved_once_in_a_thousandth_of_its_length() {
    for text in ALGORITHMS {
        let mut engines = Engines::new(&format!("{text} penalty 10s after 1 extended"));
        assert!(engines.check_ms(4, 0).is_allowed());
        assert_eq!(engines.denied(1, 0).retry_after(), secs(10));
        let word = engines.word;
        let ten_ms = 10_000_000;
        for now_ns in (0..10_000).map(|n| n * 1_000).chain([ten_ms - 1]) {
            let told = engines.check(1, Timestamp::from_nanos(now_ns)).into_result().unwrap_err();
            let wait = Duration::from_nanos(10 * SECOND_NS - now_ns);
            assert_eq!((engines.word, told.retry_after()), (word, Some(wait)), "{text}");
        }
        assert_eq!(engines.denied(1, 10).retry_after(), secs(10), "{text}");
        // The end moves only in steps of 10 ms, however many denials there are.
        let mut ends: Vec<_> = (10..=1_000)
            .map(|now_ms| {
                engines.denied(1, now_ms).retry_after().unwrap() + Duration::from_millis(now_ms)
            })
            .collect();
        ends.dedup();
        assert_eq!(
            ends,
            (1..=100).map(|n| Duration::from_millis(10_000 + 10 * n)).collect::<Vec<_>>()
        );
        assert!(
            !engines.check_ms(1, 10_999).is_allowed()
                && engines.check_ms(4, 11_000 + 10_999).is_allowed()
        );
    }
}

#[test]
fn a_penalised_key_keeps_its_cell_in_a_full_table_and_over_many_epochs() {
    let policy = policy("gcra 1/s burst 1 penalty 30d after 1");
    let table = KeyedLimiter::builder(policy).clock(ManualClock::new()).build(8).unwrap();
    assert!(table.entry(&0).at(Timestamp::from_secs(1)).check().is_allowed());
    assert!(!table.entry(&0).at(Timestamp::from_secs(1)).check().is_allowed());
    let epoch = table.stats().epoch;
    let month_s = 30 * 86_400;
    // Many other keys make requests at every epoch, and every hour.
    let step_s = epoch.as_secs().clamp(1, 3_600);
    for second in (2..=month_s).step_by(usize::try_from(step_s).unwrap()) {
        let now = Timestamp::from_secs(second);
        for key in 1..40 {
            let _ = table.entry(&key).at(now).check();
        }
        let denial = table.entry(&0).at(now).peek(1).into_result().unwrap_err();
        assert_eq!(denial.retry_after(), Some(Duration::from_secs(month_s + 1 - second)));
    }
    assert!(table.entry(&0).at(Timestamp::from_secs(month_s + 1)).check().is_allowed());
}
