//! Policies with `soft`, `count-denied` or `penalty` in limiters with several quotas, or with a quota that changes. A
//! change keeps the counts of denials in a row, and penalties. `crates/model` checks that each quota decides like a
//! limiter of that quota alone.

use std::time::Duration;

use tollgate::{
    ChangeError, Changing, DenialReason, Entry, KeyedLimiter, Limiter, ManualClock, Percent,
    Policy, Quota, Timestamp,
};

use crate::common::policy;

fn clock() -> ManualClock {
    ManualClock::new()
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(6_000_000 + ms)
}

/// Two denials come before the change. Under the new policy they count towards its number of denials in a row. If that
/// is at most two, the next denial begins the penalty.
#[test]
fn a_row_of_denials_goes_along() {
    for (old, new, more) in [
        ("gcra 1/m burst 1 penalty 10m after 3", "gcra 1/m burst 1 penalty 20m after 4", 2),
        ("gcra 1/m burst 1 penalty 10m after 5", "fixed-window 1/m penalty 20m after 2", 1),
        ("fixed-window 1/m penalty 10m after 3", "gcra 1/m burst 1 penalty 20m after 3", 1),
    ] {
        let clock = clock();
        clock.set(at(9));
        let live = Limiter::builder(policy(old)).clock(clock.clone()).changing().build().unwrap();
        let tiers = KeyedLimiter::builder(policy(old)).headroom(policy(new));
        let tiers: Changing<KeyedLimiter<str>> = tiers.clock(clock.clone()).build(10).unwrap();
        let entries = || [live.entry().at(at(9)), tiers.entry("a").at(at(9))];
        for entry in entries() {
            assert!(entry.check().is_allowed());
            assert!((0..2).all(|_| !entry.check().is_allowed()));
        }
        live.set_quota(policy(new)).unwrap();
        tiers.set_quota(policy(new)).unwrap();
        for entry in entries() {
            let denials: Vec<_> =
                (0..more).map(|_| entry.check().into_result().unwrap_err()).collect();
            assert!(
                denials[..more - 1].iter().all(|denial| denial.reason() != DenialReason::Penalty),
                "{old}, {new}"
            );
            let last = denials[more - 1].retry_after().unwrap();
            assert!(last >= Duration::from_secs(1_199), "{old}, {new}: {last:?}");
        }
    }
}

#[test]
fn a_penalty_goes_along_to_its_end_and_no_longer_than_the_new_quota_penalises() {
    let old = "gcra 1/m burst 1 penalty 10m after 1";
    for (new, minutes) in [
        ("gcra 2/m burst 2 penalty 1h after 3", 10),
        ("fixed-window 5/m penalty 1h after 3", 10),
        ("gcra 2/m burst 2 penalty 4m after 3", 4),
        // The new policy has no penalty, so the whole limit can be used.
        ("gcra 1/m burst 3", 1),
    ] {
        let clock = clock();
        clock.set(at(0));
        let live = Limiter::builder(policy(old)).clock(clock.clone()).changing().build().unwrap();
        let tiers = KeyedLimiter::builder(policy(old)).headroom(policy(new));
        let tiers: Changing<KeyedLimiter<str>> = tiers.clock(clock.clone()).build(10).unwrap();
        for entry in [live.entry(), tiers.entry("a")] {
            assert!(entry.check().is_allowed());
            assert!(!entry.check().is_allowed());
        }
        live.set_quota(policy(new)).unwrap();
        tiers.set_quota(policy(new)).unwrap();
        for entry in [live.entry(), tiers.entry("a")] {
            let ms = minutes * 60_000;
            assert!(!entry.at(at(ms - 100)).check().is_allowed(), "{new}");
            assert!(entry.at(at(ms + 1_000)).check().is_allowed(), "{new}");
        }
    }
}

#[test]
fn a_key_that_moves_under_a_penalty_has_used_all_of_its_old_limit() {
    let old = policy("gcra 5/m penalty 10m after 1");
    let tiers = KeyedLimiter::builder(old).tier(policy("gcra 60/m"));
    let tiers: Changing<KeyedLimiter<str>> = tiers.clock(clock()).build(10).unwrap();
    let entry = tiers.entry("a").at(at(0));
    assert!(entry.check_n(5).is_allowed());
    assert!(!entry.check().is_allowed());
    assert_eq!(entry.move_to(1).unwrap(), 5);
    assert_eq!(entry.tier(1).unwrap().peek(0).remaining(), 55);
    assert!(entry.check_n(5).is_allowed());
}

#[test]
fn a_key_does_not_move_into_a_tier_where_it_has_a_penalty() {
    let tiers =
        KeyedLimiter::builder(policy("gcra 10/h")).tier(policy("gcra 60/m penalty 2m after 1"));
    let tiers: Changing<KeyedLimiter<str>> = tiers.clock(clock()).build(10).unwrap();
    let [old, new] = [0, 1].map(|tier| tiers.entry("a").tier(tier).unwrap());
    assert!(new.at(at(0)).check_n(60).is_allowed());
    assert!(!new.at(at(0)).check().is_allowed());
    assert!(old.at(at(0)).check_n(10).is_allowed());
    assert_eq!(old.at(at(1_000)).move_to(1), Err(ChangeError::Penalty));
    assert_eq!(old.at(at(1_000)).peek(0).remaining(), 0);
    // The penalty ends, and with it what had been spent there. Two minutes give back no whole unit of ten an hour.
    assert_eq!(old.at(at(120_000)).move_to(1), Ok(10));
    assert_eq!([old, new].map(|tier| tier.at(at(120_000)).peek(0).remaining()), [10, 50]);
}

/// Keys of a tier with `count-denied` are not decided in the spill: a new key without a cell is denied, as in a table
/// of that policy alone.
#[test]
fn a_full_table_denies_new_keys_of_a_tier_with_rules_and_decides_those_of_others() {
    let tiers = KeyedLimiter::builder(policy("gcra 1/h burst 99"))
        .tier(policy("gcra 1/h burst 9 count-denied"));
    let tiers: Changing<KeyedLimiter<u64>> = tiers.clock(clock()).build(1).unwrap();
    for key in 0..100 {
        let _ = tiers.entry(&key).at(at(0)).check();
    }
    let told = tiers.entry(&1_000).at(at(0)).tier(1).unwrap().check().into_result();
    assert_eq!(told.unwrap_err().reason(), DenialReason::TableFull);
    assert!(tiers.entry(&1_000).at(at(0)).check().into_result().is_ok());
}

#[test]
fn a_quota_that_outruns_its_word_is_refused_with_rules_as_without() {
    // The time until 2100 is 2.2e20 ticks, more than 2^64. In this table a tick is a 256th of a unit, which is the
    // coarsest tick.
    let quota = Quota::per_second(208_617_000).burst(12_806);
    for policy in [
        quota.into(),
        Policy::from(quota).soft(Percent::from_hundredths(5_934)).expect("it fits alone"),
    ] {
        let refused =
            Limiter::builder(policy).clock(ManualClock::new()).changing().build().map(drop);
        assert!(matches!(refused, Err(ChangeError::DoesNotFit { .. })), "{policy}: {refused:?}");
    }
}

/// The waits, in seconds, of all requests for one unit that get a place.
fn places<'a>(entry: impl Fn() -> Entry<'a>) -> Vec<u64> {
    let place = |_| entry().reserve(1, Duration::MAX).ok();
    (0..99).filter_map(place).map(|place| place.wait().as_secs()).collect()
}

/// If a change forgave the debt beyond the burst, it would give three more places.
#[test]
fn a_change_gives_no_place_in_the_queue_out_again() {
    let (text, clock) = (policy("6/m burst 1 queue 3"), clock());
    let live = Limiter::builder(text).clock(clock.clone()).changing().build().unwrap();
    let tiers = KeyedLimiter::builder(text).headroom(policy("6/m burst 1 queue 9"));
    let table: Changing<KeyedLimiter<str>> = tiers.clock(clock).build(100).unwrap();
    let set = |text: &str| {
        live.set_quota(policy(text)).unwrap();
        table.set_quota(policy(text)).unwrap();
    };
    let both = || {
        let (one, key) = (places(|| live.entry()), places(|| table.entry("a")));
        assert_eq!(one, key);
        one
    };
    assert_eq!(both(), [0, 10, 20, 30]);
    set("6/m burst 1 queue 3 wait 1h");
    assert!(both().is_empty());
    // At twice the rate the turns of the same places come twice as soon, and the longer queue has more places behind
    // them.
    set("12/m burst 1 queue 5");
    assert_eq!(both(), [20, 25]);
    // A shorter queue holds only the requests for which it has places. In a longer queue the others have their places
    // again.
    set("6/m burst 1 wait 20s");
    assert!(both().is_empty());
    set("6/m burst 1 queue 9");
    assert_eq!(both(), [60, 70, 80, 90]);
    // Without a queue at most the burst is owed.
    set("6/m burst 1");
    assert_eq!(live.entry().peek(1).remaining(), 0);
    set("6/m burst 1 queue 3");
    assert!(both().is_empty());
}
