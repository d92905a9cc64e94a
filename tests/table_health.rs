//! A table stays useful for all keys: under churn, after a long silence, and when one caller's clock is far ahead.

use std::time::Duration;

use crate::common::{on, policy, seeded_table as table};
use tollgate::{DenialReason, KeyedLimiter, ManualClock, Quota, Timestamp, WhenFull};

/// 600,000 keys come to a table for 50,000 keys, once each, and at such a pace that `live` of them are live at a time.
/// Returns how many are denied.
fn denied_under_churn(live: u64) -> u64 {
    let table = table("gcra 1/m burst 1", 50_000).when_full(WhenFull::Deny).unwrap();
    // Each key lives for a minute, so keys come at `live` per minute.
    (0..600_000)
        .filter(|n| {
            let now = Timestamp::from_nanos(n * 60_000_000_000 / live);
            !table.entry(n).at(now).check().is_allowed()
        })
        .count() as u64
}

#[test]
fn new_keys_find_cells_while_old_ones_leave() {
    assert!(denied_under_churn(50_000) <= 12, "1 in 100,000, and as many again");
    assert!(denied_under_churn(45_000) <= 1, "next to never");
    assert_eq!(denied_under_churn(40_000), 0);
}

#[test]
fn a_far_time_from_one_caller_spreads_to_no_other_key() {
    let policies = [
        ("gcra 100/s burst 20", 1_000),
        ("fixed-window 100/s", 1_000),
        ("sliding-window 100/m exact", 50),
    ];
    for (text, keys) in policies {
        let table = table(text, 10_000);
        let far = Timestamp::from_secs(30 * 86_400);
        assert!(table.entry(&u64::MAX).at(far).check().is_allowed());
        let mut denied = 0_u64;
        for step in 0..100_u64 {
            let now = Timestamp::from_secs(100 + step);
            let key = |n| step * 1_000 + n;
            for n in 0..keys {
                let asked = table.entry(&key(n)).at(now).peek(1).is_allowed();
                let admitted = table.entry(&key(n)).at(now).check().is_allowed();
                assert_eq!(asked, admitted, "{text}: the look at {} and its charge", key(n));
                denied += u64::from(!admitted);
            }
        }
        // One of some 2,040 shards has a floor a month ahead. Each key has four shards, so 1 key in 510 is affected.
        assert!(denied <= keys * 100 / 400, "{text}: {denied} of {}", keys * 100);
    }
}

#[test]
fn a_peek_or_denial_moves_no_time() {
    let clock = ManualClock::new();
    let table = KeyedLimiter::builder(policy("1/m")).clock(clock.clone()).build(100).unwrap();
    let hour = Timestamp::from_secs(3_600);
    assert!(table.entry(&1).at(Timestamp::default()).check().is_allowed());
    for key in 0..100 {
        assert!(table.entry(&key).at(hour).peek(1).is_allowed());
        assert!(table.entry(&key).at(hour).peek(0).is_allowed());
        assert!(!table.entry(&key).at(hour).check_n(99).is_allowed());
    }
    clock.set(hour);
    for key in 0..100 {
        assert!(table.check_n(&key, 0).is_allowed());
        assert!(table.entry(&key).peek(1).is_allowed());
        table.check_many(&[key], 0, |_, decision| assert!(decision.is_allowed()));
    }
    assert!(!table.entry(&1).at(Timestamp::default()).check().is_allowed());
    for key in 2..50 {
        assert!(table.entry(&key).at(Timestamp::default()).check().is_allowed(), "{key}");
    }
}

#[test]
fn live_are_the_keys_that_are_not_idle_to_the_tick() {
    let table = table("1/s burst 1", 100);
    assert_eq!(table.stats().live, 0);
    for key in 0..5 {
        assert!(table.entry(&key).at(Timestamp::from_secs(key)).check().is_allowed());
    }
    // Key n becomes idle after n + 1 seconds.
    for (millis, live) in [(0, 5), (999, 5), (1_000, 4), (4_000, 1), (4_999, 1), (5_000, 0)] {
        on(Timestamp::from_millis(millis));
        assert_eq!(table.stats().live, live, "at {millis} ms");
    }
}

#[test]
fn a_look_far_ahead_sees_what_will_have_drained() {
    let table = table("10/m burst 10", 100);
    assert!(table.entry(&1).at(Timestamp::default()).check_n(10).is_allowed());
    for (second, remaining) in [(0, 0), (6, 1), (59, 9), (60, 10), (86_400 * 365, 10)] {
        let decision = table.entry(&1).at(Timestamp::from_secs(second)).peek(1);
        assert_eq!(decision.remaining(), remaining, "after {second} s");
    }
}

#[test]
fn a_new_key_waits_for_no_long_silence() {
    // Under these policies words last for many epochs. The floor passes them in a few steps within one request.
    for text in [
        "fixed-window 100/30d from-first",
        "fixed-window 100/3d from-first",
        "fixed-window 100/36h from-first",
        "fixed-window 100/1310000s from-first",
        "fixed-window 1000000/h from-first",
        "segmented-window 100/3d x3",
        "segmented-window 1/d x30",
        "gcra 1/d burst 1000",
        "sliding-window 10/d strict",
    ] {
        let policy = policy(text);
        let window = policy.quota().period();
        let table = KeyedLimiter::builder(policy).clock(ManualClock::new()).build(4).unwrap();
        let early = Timestamp::default() + window / 100;
        for key in 0..3_u64 {
            assert!(table.entry(&key).at(early).check().is_allowed(), "{text}");
        }
        for later in [9, 11, 25, 50, 400] {
            let now = Timestamp::default() + window / 10 * later;
            let key = u64::from(later);
            assert!(table.entry(&key).at(now).check().is_allowed(), "{text} after {later} tenths");
        }
        assert_eq!(table.stats().contended, 0, "{text}");
    }
}

#[test]
fn a_late_request_is_told_the_exact_wait() {
    let table = table("1/s burst 20", 100);
    let second = |s: u64| Timestamp::from_secs(s);
    // After more than an epoch, other keys make the floors advance to 100,000 s.
    for key in 0..60 {
        assert!(table.entry(&key).at(second(100_000)).check().is_allowed());
    }
    let newcomer = (100..1_000)
        .find(|key| !table.entry(key).at(second(99_950)).peek(1).is_allowed())
        .expect("some floor stands near 100,000 s");
    let denial = table.entry(&newcomer).at(second(99_950)).check().into_result().unwrap_err();
    assert_ne!(denial.reason(), DenialReason::TableFull);
    let wait = denial.retry_after().unwrap();
    // A new key starts at the floor with 20 units, so its first unit is available 19 s before the floor.
    assert!(wait > Duration::from_secs(30) && wait < Duration::from_secs(32), "{wait:?}");
    let admitted_at = second(99_950) + wait;
    let just_before = Timestamp::from_nanos(admitted_at.as_nanos() - 1);
    assert!(!table.entry(&newcomer).at(just_before).check().is_allowed());
    assert!(table.entry(&newcomer).at(admitted_at).check().is_allowed());
}

#[test]
fn a_late_request_on_a_live_key_is_decided_as_if_in_time() {
    let table = table("1/s burst 20", 100);
    let second = |s: u64| Timestamp::from_secs(s);
    assert!(table.entry(&1).at(second(100)).check_n(20).is_allowed());
    for key in 2..500 {
        let _ = table.entry(&key).at(second(110)).check();
    }
    // At 105 s five of the twenty units have come back, whatever floor the shard has.
    assert!(!table.entry(&1).at(second(105)).check_n(6).is_allowed());
    assert!(table.entry(&1).at(second(105)).check_n(5).is_allowed());
    assert!(!table.entry(&1).at(second(105)).check().is_allowed());
}

#[test]
fn the_epoch_of_the_longest_quotas_is_told() {
    let quota = Quota::per(1, Duration::from_secs(200 * 365 * 86_400));
    let table = KeyedLimiter::<str>::new(quota, 10).unwrap();
    assert!(table.stats().epoch > Duration::from_secs(365 * 86_400));
}

#[test]
fn rings_too_wide_to_lie_side_by_side_fit_a_keyed_word_by_number() {
    for text in
        ["segmented-window 100/d x6", "segmented-window 300/d x4", "segmented-window 100/m x6"]
    {
        let table = table(text, 10);
        assert!(table.stats().tag_bits >= 24, "{text}");
        assert!(table.entry(&1).at(Timestamp::default()).check_n(100).is_allowed(), "{text}");
    }
    let narrow = table("segmented-window 100/m x5", 10).stats().tag_bits;
    let wide = table("segmented-window 100/m x6", 10).stats().tag_bits;
    assert!(narrow >= wide, "{narrow} {wide}");
}

#[test]
fn what_is_forgotten_is_counted_once() {
    let table = table("gcra 1/m burst 1", 1);
    for key in 0..5 {
        assert!(table.entry(&key).at(Timestamp::from_secs(100)).check().is_allowed());
    }
    // A day later the first new key in each shard makes the shard's floor advance, and that sweeps the shard.
    for key in 10..14 {
        assert!(table.entry(&key).at(Timestamp::from_secs(86_500)).check().is_allowed());
    }
    assert_eq!(table.stats().reclaimed, 5);
    on(Timestamp::from_secs(86_500));
    assert_eq!(table.stats().live, 4);
}
