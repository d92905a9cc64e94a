//! Snapshots of limits with `soft`, `count-denied` or `penalty`. `tests/snapshot/round_trip.rs` compares decisions
//! before a snapshot with those after it.

use tollgate::{KeyedLimiter, Limiter, ManualClock, RestoreError};

use super::{limit, table};
use crate::common::policy;

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
