//! Denials that are charged: a client that keeps asking is kept out, and none for good.

use std::time::Duration;

use tollgate::{Meter, Timestamp, Word};

use super::common::{decisions, every, policy, together};
use super::{Engines, secs};

#[test]
fn vector_17_a_key_that_asks_too_much_for_ever_gets_nothing_while_denials_count() {
    // 12 a minute of 10: an hour long.
    let hour = every(0, 5_000, 720);
    for text in ["gcra 10/60s", "sliding-window 10/60s exact", "sliding-window 10/60s"] {
        let counted = decisions(&format!("{text} count-denied"), &hour);
        let lockout = counted.find('D').unwrap();
        assert!(!counted[lockout..].contains('A'), "{text}: {counted}");
        // Not counted, nearly 10 of 12 pass in every minute.
        let passed = decisions(text, &hour).matches('A').count();
        assert!((540..=610).contains(&passed), "{text}: {passed}");
    }
}

#[test]
fn vector_17_each_further_call_extends_the_wait_up_to_the_stop() {
    let meter = Meter::new(policy("sliding-window 500/h exact count-denied")).unwrap();
    let now = Timestamp::from_secs(1_800);
    let mut word = meter.check(Word::UNUSED, now, 500).1;
    let mut last = Duration::ZERO;
    for call in 1..=600 {
        let (decision, next) = meter.check(word, now, 1);
        let wait = decision.into_result().unwrap_err().retry_after().unwrap();
        assert_eq!(wait > last, call <= 500, "call {call}");
        (word, last) = (next, wait);
    }
    // 1,000 counted weigh no more than 499 at 50.1 % of the next hour.
    assert_eq!(last, Duration::from_millis(1_800_000 + 1_803_600));
}

#[test]
fn vector_54_a_capped_charge_of_denials_does_not_lock_out() {
    // 40 % of the rate: others answer T T F F F ... for ever.
    let hits = every(0, 5_000, 100);
    for text in ["gcra 2/6s", "fixed-window 2/6s", "fixed-window 2/6s from-first"] {
        assert_eq!(decisions(&format!("{text} count-denied"), &hits), "A".repeat(100), "{text}");
    }
    // Two counters deny one in six of these anyway, and no more when that one counts.
    let plain = decisions("sliding-window 2/6s exact", &hits);
    assert_eq!(decisions("sliding-window 2/6s exact count-denied", &hits), plain);
    assert_eq!(plain.matches('D').count(), 16);
    // Also after a flood: the wait for one unit is at most 6 s, and soon every call passes again.
    let flood = [together("0:00", 50), every(5_000, 5_000, 20)].concat();
    let told = decisions("gcra 2/6s count-denied", &flood);
    assert_eq!(told, format!("AA{}D{}", "D".repeat(48), "A".repeat(19)));
}

#[test]
fn a_denied_charge_is_cut_so_that_one_unit_waits_no_longer_than_told() {
    let mut engines = Engines::new("gcra 1/s burst 10 count-denied 4s");
    assert!(engines.check_ms(10, 0).is_allowed());
    // In full at first, then cut: the level stops at 10 - 1 + 4.
    let waits: Vec<_> = [1, 1, 1, 1, 1, 9]
        .map(|cost| {
            engines.denied(cost, 0);
            engines.meter.peek(engines.word, Timestamp::default(), 1).into_result().unwrap_err()
        })
        .map(|denial| denial.retry_after().unwrap().as_secs())
        .to_vec();
    assert_eq!(waits, [2, 3, 4, 4, 4, 4]);
    // What was there before is not cut: a smaller C would lower it.
    assert_eq!(engines.denied(10, 0).retry_after(), secs(13));
}

#[test]
fn a_full_bucket_is_not_lowered_by_a_short_c() {
    let mut engines = Engines::new("gcra 1/s burst 10 count-denied 0s");
    assert!(engines.check_ms(10, 0).is_allowed());
    let word = engines.word;
    assert_eq!(engines.denied(5, 0).retry_after(), secs(5));
    assert_eq!(engines.word, word);
    // At 5 units a denied 6 fills it up to where one unit still fits.
    engines.denied(6, 5_000);
    assert_eq!(engines.meter.peek(engines.word, Timestamp::from_secs(5), 0).remaining(), 1);
}

#[test]
fn counting_denials_decides_as_before_where_the_window_is_full_anyway() {
    for text in ["fixed-window 4/2s", "sliding-window 4/2s strict", "segmented-window 4/2s x2"] {
        let requests: Vec<_> = every(0, 170, 200);
        let counted = decisions(&format!("{text} count-denied"), &requests);
        assert!(counted.contains('A') && counted.contains('D'));
        if text.starts_with("fixed") {
            assert_eq!(counted, decisions(text, &requests), "{text}");
        } else {
            // There denials that were counted weigh on later windows: no more is admitted than without them.
            let admitted = |told: &str| told.matches('A').count();
            assert!(admitted(&counted) <= admitted(&decisions(text, &requests)), "{text}");
        }
    }
}
