//! Undos that come too late to be exact: the tests make other charges between a charge and its undo.

use std::time::Duration;

use super::*;
use crate::undo::SKEW_NS;
use crate::{DenialReason, KeyedLimiter, Limiter, ManualClock, Policy, Quota, WhenFull};

/// One unit comes back every 10 s, and 12 may be used at once.
const SLOW: Quota = Quota::per_minute(6).burst(12);

fn policy(text: &str) -> Policy {
    text.parse().expect("a policy")
}

fn start(clock: &ManualClock) -> Timestamp {
    clock.set(Timestamp::from_secs(1_000_000));
    clock.now()
}

fn word_of(limiter: &Limiter) -> Word {
    match &limiter.state {
        State::Plain { cell, .. } | State::Word { cell, .. } => cell.load(),
        other => panic!("no word of one policy: {other:?}"),
    }
}

fn charged<'a>(mut claim: Claim<'a>, now: Timestamp) -> Claim<'a> {
    claim.now = now;
    assert!(claim.charge().is_allowed());
    claim
}

#[test]
fn an_untouched_word_is_put_back_bit_for_bit() {
    for text in ["gcra 6/m burst 12", "fixed-window 12/m", "sliding-window 12/m exact"] {
        let limiter = Limiter::builder(policy(text)).clock(ManualClock::new()).build();
        for (second, spent) in [(0, 0), (61, 3), (62, 1), (500, 2)] {
            let now = Timestamp::from_secs(second);
            assert!(limiter.entry().at(now).check_n(spent).is_allowed());
            let word = word_of(&limiter);
            let claim = charged(limiter.entry().at(now).cost(4), now);
            assert_ne!(word_of(&limiter), word);
            claim.undo();
            assert_eq!(word_of(&limiter), word, "{text} at {second} s");
        }
    }
}

/// After nearly all of a charge has drained, a refund and an equal charge restore the bits that the first charge left.
#[test]
fn what_another_charge_has_restored_forgives_nothing_of_it() {
    let clock = ManualClock::new();
    start(&clock);
    let quota = Quota::per_second(1).burst(10);
    let limiter = Limiter::builder(quota).clock(clock.clone()).build();
    let keyed =
        KeyedLimiter::<str>::builder(quota).clock(clock.clone()).build(10).expect("it fits");
    let tiers =
        KeyedLimiter::builder(quota).changing().clock(clock.clone()).build(10).expect("it fits");
    let permits = [limiter.check_n(5), keyed.check_n("key", 5), tiers.check_n("key", 5)];
    let [first, second, third] =
        permits.map(|decision| decision.into_result().expect("a fresh limit"));
    let claims = [limiter.entry().cost(5), keyed.entry("key").cost(5), tiers.entry("key").cost(5)];
    let claims = claims.map(|claim| charged(claim, clock.now()));
    assert_eq!(limiter.entry().refund(first), 5);
    assert_eq!((keyed.entry("key").refund(second), tiers.entry("key").refund(third)), (5, 5));
    clock.advance(Duration::from_millis(4_990));
    assert!(limiter.check_n(5).is_allowed());
    assert!(keyed.check_n("key", 5).is_allowed() && tiers.check_n("key", 5).is_allowed());
    claims.iter().for_each(|claim| claim.undo());
    let left = [limiter.entry().peek(1), keyed.entry("key").peek(1), tiers.entry("key").peek(1)];
    assert_eq!(left.map(|decision| decision.remaining()), [5; 3]);
}

#[test]
fn under_another_charge_what_has_not_drained_is_given_back() {
    let clock = ManualClock::new();
    let now = start(&clock);
    let limiter = Limiter::builder(SLOW).clock(clock.clone()).build();
    let keyed = KeyedLimiter::<str>::builder(SLOW).clock(clock.clone()).build(10).expect("it fits");
    let claims =
        [limiter.entry().cost(6), keyed.entry("key").cost(6)].map(|claim| charged(claim, now));
    assert!(limiter.check_n(2).is_allowed() && keyed.check_n("key", 2).is_allowed());
    // Two of the six units have drained. Four units come back, except for the part that drains in `SKEW_NS`.
    clock.advance(Duration::from_secs(20));
    claims.iter().for_each(|claim| claim.undo());
    // In a keyed word the part that drains in `SKEW_NS` is less than a tick.
    assert_eq!(
        (limiter.entry().peek(1).remaining(), keyed.entry("key").peek(1).remaining()),
        (9, 10)
    );
    clock.advance(Duration::from_nanos(SKEW_NS));
    assert_eq!(limiter.entry().peek(1).remaining(), 10);
}

#[test]
fn what_has_drained_is_not_given_back() {
    for (after_s, keyed_too) in [(60, true), (600, true), (100_000, true)] {
        let clock = ManualClock::new();
        let now = start(&clock);
        let limiter = Limiter::builder(SLOW).clock(clock.clone()).build();
        let keyed =
            KeyedLimiter::<str>::builder(SLOW).clock(clock.clone()).build(10).expect("it fits");
        let claims =
            [limiter.entry().cost(6), keyed.entry("key").cost(6)].map(|claim| charged(claim, now));
        clock.advance(Duration::from_secs(after_s));
        assert!(
            limiter.check_n(5).is_allowed() && keyed.check_n("key", 5).is_allowed() == keyed_too
        );
        let before = word_of(&limiter);
        let left = [limiter.entry().peek(1).remaining(), keyed.entry("key").peek(1).remaining()];
        claims.iter().for_each(|claim| claim.undo());
        assert_eq!(word_of(&limiter), before, "after {after_s} s");
        assert_eq!(
            left,
            [limiter.entry().peek(1).remaining(), keyed.entry("key").peek(1).remaining()]
        );
    }
}

#[test]
fn at_a_time_of_the_callers_a_charge_under_another_stays() {
    let limiter = Limiter::builder(SLOW).clock(ManualClock::new()).build();
    let keyed =
        KeyedLimiter::<str>::builder(SLOW).clock(ManualClock::new()).build(10).expect("it fits");
    let now = Timestamp::from_secs(50);
    let claims = [limiter.entry().at(now).cost(6), keyed.entry("key").at(now).cost(6)]
        .map(|claim| charged(claim, now));
    assert!(
        limiter.entry().at(now).check_n(2).is_allowed()
            && keyed.entry("key").at(now).check_n(2).is_allowed()
    );
    claims.iter().for_each(|claim| claim.undo());
    assert_eq!(limiter.entry().at(now).peek(1).remaining(), 4);
    assert_eq!(keyed.entry("key").at(now).peek(1).remaining(), 4);
}

#[test]
fn in_a_window_a_charge_under_another_stays() {
    for text in ["fixed-window 12/m", "sliding-window 12/m exact", "segmented-window 12/m x2"] {
        let clock = ManualClock::new();
        let now = start(&clock);
        let limiter = Limiter::builder(policy(text)).clock(clock.clone()).build();
        let keyed = KeyedLimiter::<str>::builder(policy(text)).clock(clock.clone()).build(10);
        let keyed = keyed.expect("it fits");
        let claims =
            [limiter.entry().cost(6), keyed.entry("key").cost(6)].map(|claim| charged(claim, now));
        assert!(limiter.check_n(2).is_allowed() && keyed.check_n("key", 2).is_allowed());
        claims.iter().for_each(|claim| claim.undo());
        assert_eq!(limiter.entry().peek(1).remaining(), 4, "{text}");
        assert_eq!(keyed.entry("key").peek(1).remaining(), 4, "{text}");
    }
}

#[test]
fn a_word_that_is_put_back_across_a_floor_is_read_as_it_was() {
    for text in ["gcra 6/m burst 12", "fixed-window 12/m", "sliding-window 12/m exact"] {
        for (taken_s, later_s) in [(0, 30), (5, 25), (5, 40), (5, 80), (30, 200), (5, 100_000)] {
            let keyed =
                KeyedLimiter::<u64>::builder(policy(text)).clock(ManualClock::new()).build(1);
            let keyed = keyed.and_then(|keyed| keyed.when_full(WhenFull::Deny)).expect("it fits");
            let one = Limiter::builder(policy(text)).clock(ManualClock::new()).build();
            let at = |second: u64| Timestamp::from_secs(1_000_000 + second);
            assert!(keyed.entry(&0).at(at(0)).check_n(3).is_allowed());
            assert!(one.entry().at(at(0)).check_n(3).is_allowed());
            let claim = charged(keyed.entry(&0).at(at(taken_s)).cost(6), at(taken_s));
            // Other keys fill both shards, and later more keys need cells. So the shards' floors rise.
            for (second, key) in (1..40).map(|n| (taken_s, n)).chain((40..80).map(|n| (later_s, n)))
            {
                let _ = keyed.entry(&key).at(at(second)).check();
            }
            claim.undo();
            for second in [later_s, later_s + 7, later_s + 1_000] {
                let found = keyed.entry(&0).at(at(second)).peek(1);
                let told = one.entry().at(at(second)).peek(1).remaining();
                // Under GCRA the part of the charge that had drained by the time of the floor is not given back: one
                // unit for each 10 s.
                let is_gcra = text.starts_with("gcra");
                let drained = if is_gcra { (later_s - taken_s).div_ceil(10).min(6) } else { 0 };
                let left = found.remaining();
                // The key may have lost its cell to another key, since its whole charge had drained.
                let is_gone =
                    found.denial().is_some_and(|denial| denial.reason() == DenialReason::TableFull);
                let is_right = (left..=left + drained).contains(&told) || (is_gone && told == 12);
                assert!(is_right, "{text}: {taken_s}, {later_s} at {second}: {found:?}");
            }
            let moved = keyed.stats().reclaimed > 0;
            assert!(moved || later_s < 200, "{text}: {taken_s}, {later_s}");
        }
    }
}

#[test]
fn a_key_that_was_new_is_idle_again_and_its_cell_can_be_taken() {
    let policy = policy("gcra 1/h burst 1");
    let clock = ManualClock::new();
    let keyed =
        KeyedLimiter::<u64>::builder(policy).clock(clock.clone()).build(1).expect("it fits");
    let cells = keyed.stats().cells as u64;
    for round in 0..100 {
        let now = Timestamp::from_secs(1_000_000 + round);
        clock.set(now);
        for key in 0..cells {
            let mut claim = keyed.entry(&(round * cells + key)).at(now).cost(1);
            if claim.charge().is_allowed() {
                assert_eq!(keyed.stats().live, 1);
                claim.undo();
            }
            assert_eq!(keyed.stats().live, 0);
        }
    }
    assert!(keyed.stats().reclaimed > 0);
}

/// Time passes between the charges, so that the undo of the second charge does not restore the bits that the first
/// charge left.
#[test]
fn limits_whose_quota_may_change_are_undone_under_a_charge_that_is_undone() {
    let clock = ManualClock::new();
    start(&clock);
    let quota = Quota::per_second(1).burst(10);
    let live = Limiter::builder(quota).clock(clock.clone()).changing().build().expect("it fits");
    let tiers =
        KeyedLimiter::builder(quota).changing().clock(clock.clone()).build(10).expect("it fits");
    let entries = [live.entry(), tiers.entry("key")];
    for entry in entries {
        let first = charged(entry.cost(4), clock.now());
        clock.advance(Duration::from_secs(1));
        let second = charged(entry.cost(4), clock.now());
        clock.advance(Duration::from_secs(1));
        second.undo();
        // Two of the first four units have drained. One unit of the second charge has drained, and three come back. So
        // 4 + 4 - 2 - 3 units are owed.
        assert_eq!(entry.peek(1).remaining(), 7);
        first.undo();
        // The undo gives back the two units of the first charge that have not drained, less the skew of clocks: one
        // whole unit.
        assert_eq!(entry.peek(1).remaining(), 8);
    }
}

#[test]
fn a_claim_goes_by_its_clock_unless_its_entry_was_given_a_time() {
    let clock = ManualClock::new();
    let now = start(&clock);
    let limiter = Limiter::builder(Quota::per_second(1).burst(1)).clock(clock.clone()).build();
    let mut at = [limiter.entry().at(now + Duration::from_secs(9)).cost(1)];
    let mut claims = [limiter.entry().cost(1)];
    assert!(check_all(&mut claims).is_allowed());
    assert!(!check_all(&mut claims).is_allowed());
    clock.advance(Duration::from_secs(1));
    assert!(check_all(&mut claims).is_allowed());
    // The claim read its own clock, so its charge may be given back by that clock, too.
    assert!(claims[0].own_clock);
    // A claim whose entry was given a time keeps that time.
    assert!(check_all(&mut at).is_allowed());
    assert!(!at[0].own_clock);
}
