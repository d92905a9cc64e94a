//! Snapshots of limits with `soft`, `count-denied` or `penalty`.

use tollgate::{Decision, KeyedLimiter, Limiter, ManualClock, RestoreError, Timestamp};

use super::common::policy;
use super::{START, later, limit, table};

const RULED: [&str; 7] = [
    "gcra 4/2s soft 50% count-denied penalty 10s after 3",
    "fixed-window 4/2s soft 50% penalty 10s after 3 extended",
    "fixed-window 4/2s from-first count-denied penalty 10s after 3",
    "sliding-window 4/2s exact count-denied penalty 10s after 3",
    "sliding-window 4/2s soft 25% penalty 10s after 3",
    "sliding-window 4/2s strict penalty 10s after 3 extended",
    "segmented-window 4/2s x2 soft 50% count-denied penalty 10s after 3",
];

/// The decisions at times that end a row of denials, continue a row, and lie in a penalty.
fn story(check: impl Fn(Timestamp) -> Decision) -> Vec<String> {
    [0, 0, 0, 3, 9, 10, 10, 11, 25].map(|second| format!("{:?}", check(later(second)))).to_vec()
}

#[test]
fn a_restart_forgets_neither_denials_nor_penalties() {
    let clock = ManualClock::new();
    clock.set(START);
    for text in RULED {
        // The number of denials before the snapshot; three begin the penalty.
        for denials in 0..=4 {
            let limiter = Limiter::builder(policy(text)).clock(clock.clone()).build();
            let keyed =
                KeyedLimiter::<str>::builder(policy(text)).clock(clock.clone()).build(10).unwrap();
            let _ = (limiter.entry().take_up_to(9), keyed.entry("key").take_up_to(9));
            for _ in 0..denials {
                assert!(!limiter.check().is_allowed() && !keyed.check("key").is_allowed());
            }
            let (mut one, mut many) = (Vec::new(), Vec::new());
            limiter.snapshot(&mut one).unwrap();
            keyed.snapshot(&mut many).unwrap();
            let again =
                Limiter::builder(policy(text)).clock(clock.clone()).restore(&one[..]).unwrap();
            assert_eq!(
                story(|now| again.entry().at(now).check()),
                story(|now| limiter.entry().at(now).check()),
                "{text} after {denials}"
            );
            let again =
                KeyedLimiter::<str>::builder(policy(text)).clock(clock.clone()).restore(&many[..]);
            let again = again.unwrap();
            assert_eq!(
                story(|now| again.entry("key").at(now).check()),
                story(|now| keyed.entry("key").at(now).check()),
                "{text} after {denials}"
            );
        }
    }
}

#[test]
fn a_snapshot_is_of_its_words_for_the_limit_too() {
    let clock = ManualClock::new;
    let mut file = Vec::new();
    table("gcra 4/m penalty 1m after 3").snapshot(&mut file).unwrap();
    for other in ["gcra 4/m", "gcra 4/m penalty 1m after 2", "gcra 4/m penalty 1m after 3 extended"]
    {
        let refused = KeyedLimiter::<str>::builder(policy(other)).clock(clock()).restore(&file[..]);
        assert!(matches!(refused, Err(RestoreError::Policy(_))), "{other}");
    }
}

#[test]
fn a_policy_with_all_words_and_long_numbers_is_restored() {
    let text = "gcra 123456789/999999999999999999ns burst 123456788 soft 99.99% \
                count-denied 999999999999999999ns penalty 18446744073709551615ns \
                after 2147483647 extended";
    let limiter = limit(text);
    assert_eq!(policy(text).to_string(), text);
    assert!(text.len() > 150);
    assert!(limiter.check_n(123_456_789).is_allowed());
    let mut file = Vec::new();
    limiter.snapshot(&mut file).unwrap();
    let again =
        Limiter::builder(policy(text)).clock(ManualClock::new()).restore(&file[..]).unwrap();
    assert_eq!(format!("{:?}", again.entry().peek(7)), format!("{:?}", limiter.entry().peek(7)));
}
