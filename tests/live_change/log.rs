//! A sliding log whose count changes. A request is admitted if its units plus the units in the window before it are at
//! most the limit in force. It does not matter what the limit was when those units were admitted.

use std::time::Duration;

use tollgate::{
    ChangeError, Changing, KeyedLimiter, Limiter, ManualClock, Policy, Quota, SnapshotError,
    Timestamp,
};

use crate::common::policy;

pub(crate) fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(6_000_000 + ms)
}

pub(crate) fn log(count: u64) -> Policy {
    policy(&format!("sliding-log {count}/10s"))
}

pub(crate) fn live(count: u64) -> Changing<Limiter> {
    Limiter::builder(log(count)).clock(ManualClock::new()).changing().build().unwrap()
}

#[test]
fn a_denial_says_when_the_limit_in_force_admits() {
    let live = live(10);
    for second in 0..8 {
        assert!(live.entry().at(at(second * 1_000)).check().is_allowed());
    }
    live.set_quota(log(5)).unwrap();
    // When the unit of 3 s has left the window, four units are in it.
    let denial = live.entry().at(at(8_000)).check().into_result().unwrap_err();
    assert_eq!(denial.retry_after(), Some(Duration::from_secs(5)));
    assert!(!live.entry().at(at(12_999)).check().is_allowed());
    assert!(live.entry().at(at(13_000)).check().is_allowed());
    assert_eq!(
        live.entry().at(at(13_000)).check_n(6).into_result().unwrap_err().retry_after(),
        None
    );
}

/// The times in these slots have the bit that marks an unused slot.
#[test]
fn units_that_count_beyond_the_year_2116_are_kept_through_changes() {
    let of = |count| Policy::sliding_log(Quota::per(count, Duration::from_secs(4_000_000_000)));
    let live =
        Limiter::builder(of(3).unwrap()).clock(ManualClock::new()).changing().build().unwrap();
    let now = Timestamp::from_secs(1_000_000_000);
    assert!(live.entry().at(now).check_n(2).is_allowed());
    for (count, left) in [(1, 0), (3, 1), (2, 0), (3, 1)] {
        live.set_quota(of(count).unwrap()).unwrap();
        assert_eq!(live.entry().at(now).peek(0).remaining(), left);
    }
    assert!(live.entry().at(now).reserve(2, Duration::MAX).is_err());
    assert!(live.entry().at(now).check().is_allowed());
    assert!(!live.entry().at(Timestamp::from_secs(4_102_444_800)).check().is_allowed());
}

#[test]
fn a_reset_forgives_also_what_a_lowered_limit_does_not_use() {
    let live = live(100);
    assert!(live.entry().at(at(0)).check_n(80).is_allowed());
    live.set_quota(log(10)).unwrap();
    live.entry().at(at(1)).reset();
    assert_eq!(live.entry().at(at(1)).peek(0).remaining(), 10);
    live.set_quota(log(100)).unwrap();
    assert_eq!(live.entry().at(at(1)).peek(0).remaining(), 100);
}

#[test]
fn a_place_in_the_future_stays_promised_and_a_permit_of_before_gives_back_nothing() {
    let live = live(2);
    let first = live.entry().at(at(0)).check().into_result().unwrap();
    let place = live.entry().at(at(0)).reserve(2, Duration::MAX).unwrap();
    assert_eq!(place.wait(), Duration::from_secs(10));
    live.set_quota(log(1)).unwrap();
    assert_eq!(live.entry().at(at(0)).refund(first), 0);
    // One slot is in use. It is reserved from 10 s to 20 s.
    assert!(!live.entry().at(at(19_999)).check().is_allowed());
    assert!(live.entry().at(at(20_000)).check().is_allowed());
}

#[test]
fn what_happens_at_the_limit_goes_by_the_limit_in_force() {
    let of = |count| policy(&format!("sliding-log {count}/10s soft 50% count-denied"));
    let live = Limiter::builder(of(8)).clock(ManualClock::new()).changing().build().unwrap();
    live.set_quota(of(2)).unwrap();
    let over = |ms| live.entry().at(at(ms)).check().into_result().map(|permit| permit.is_over());
    assert_eq!([over(0), over(0), over(0)].map(Result::ok), [Some(false), Some(false), Some(true)]);
    // This request is denied, and its unit is recorded.
    assert!(over(5_000).is_err());
    live.set_quota(of(3)).unwrap();
    assert_eq!(live.entry().at(at(10_000)).peek(0).remaining(), 2);
}

#[test]
fn another_window_another_rule_and_more_units_than_slots_are_refused() {
    let live = live(10);
    for text in [
        "sliding-log 11/10s",
        "sliding-log 5/20s",
        "sliding-log 5/10s soft 50%",
        "fixed-window 5/10s",
        "5/10s",
    ] {
        let policy = policy(text);
        assert_eq!(live.set_quota(policy), Err(ChangeError::Log { policy }), "{text}");
        assert_eq!(live.policy(), log(10));
    }
    let told = "sliding-log 11/10s cannot come here: what is kept in a word takes no sliding log, and a log takes another \
                count alone, up to that of the policy that it was built with; build another limiter";
    assert_eq!(live.set_quota(log(11)).unwrap_err().to_string(), told);
    let word =
        Limiter::builder(policy("5/s")).clock(ManualClock::new()).changing().build().unwrap();
    assert_eq!(word.set_quota(log(5)), Err(ChangeError::Log { policy: log(5) }));
    assert!(matches!(live.snapshot(Vec::new()), Err(SnapshotError::NotFixed)));
}

#[test]
fn what_is_given_back_without_a_permit_is_first_what_is_beyond_a_lowered_limit() {
    let live = live(100);
    assert!(live.entry().at(at(0)).check_n(80).is_allowed());
    live.set_quota(log(10)).unwrap();
    let given = |units| live.entry().at(at(1)).uncharge(units);
    let left = || live.entry().at(at(1)).peek(0).remaining();
    // The window holds first 80 units, then 75, then 10, and then 9.
    assert_eq!((given(5), left()), (5, 0));
    assert_eq!((given(65), left()), (65, 0));
    assert_eq!((given(1), left()), (1, 1));
    live.set_quota(log(100)).unwrap();
    assert_eq!((left(), given(100), left()), (91, 9, 100));
}

/// Logs cannot share cells, so there are two tables instead of tiers.
#[test]
fn a_key_moves_between_two_tables_of_logs_with_what_it_has_spent() {
    let [free, paid]: [KeyedLimiter<str>; 2] = [10, 50].map(|count| {
        KeyedLimiter::builder(log(count)).clock(ManualClock::new()).build(100).unwrap()
    });
    assert!(free.entry("a").at(at(0)).check_n(8).is_allowed());
    let spent = 10 - free.entry("a").at(at(1_000)).peek(0).remaining();
    assert_eq!(paid.entry("a").at(at(1_000)).take_up_to(spent).into_result().unwrap().cost(), 8);
    assert_eq!(paid.entry("a").at(at(1_000)).peek(0).remaining(), 42);
    // The key moves back within the window, and the units that it has spent in the first table still count there.
    assert!(paid.entry("a").at(at(1_000)).check_n(30).is_allowed());
    let spent = 50 - paid.entry("a").at(at(2_000)).peek(0).remaining();
    let _ = free.entry("a").at(at(2_000)).take_up_to(spent);
    assert!(!free.entry("a").at(at(9_000)).check().is_allowed());
}
