//! Test vectors of other implementations and of standards, by their numbers. Where Tollgate differs on purpose, the
//! test asserts Tollgate's answer, and a comment gives the other one.
//!
//! V3 is example 25. V3, V13 to V15 and V41 to V43 are in `worked_examples.rs`, V9 to V11 in `sliding_log/mod.rs`, V36
//! and the borrowing of V40 in `verbs/mod.rs`, and V55 to V60 in `crates/controllers/tests/controllers.rs`.

use std::time::Duration;

use crate::common::{clock, decisions, on, policy};
use tollgate::{Changing, KeyedLimiter, Limiter, ManualClock, Quota, Timestamp, check_all};

fn limiter(text: &str) -> Limiter {
    Limiter::builder(policy(text)).clock(ManualClock::new()).build()
}

fn live(quota: Quota) -> Changing<Limiter> {
    Limiter::builder(quota).clock(clock()).changing().build().unwrap()
}

#[test]
fn v20_a_clock_that_jumps_back_gives_nothing_a_second_time() {
    // Go's limiter with a rate of 10/s and a burst of 3; times are in tenths of a second. When the time jumps back,
    // Go's limiter forgets that it has seen a later time. So it also admits the second request at 0. Its answers are
    // AAADDADDAD: four requests within the first tenth of a second, and one more at 1, for a unit that had come back
    // before. In Tollgate the charge at time 1 is still owed at 0.
    let asked = [(1, 1), (0, 1), (0, 1), (0, 1), (0, 1), (1, 1), (1, 1), (1, 1), (2, 1), (2, 1)];
    let requests = asked.map(|(tenths, cost)| (tenths * 100_000_000, cost));
    assert_eq!(decisions("gcra 10/s burst 3", &requests), "AADDDADDAD");
}

#[test]
fn v32_of_two_limits_the_smaller_rest_is_there() {
    // Two bandwidths of Bucket4j, both empty at 0: 5 per 6 ns up to 9, and 4 per 5 ns up to 12. Bucket4j adds units in
    // lumps, so that 0, 0, 4, 5, 8, 9 are left; in Tollgate a unit comes back as soon as it is due.
    for (now_ns, left) in [(4, 3), (5, 4), (6, 4), (10, 8), (12, 9), (15, 9)] {
        let both = [limiter("gcra 5/6ns burst 9"), limiter("gcra 4/5ns burst 12")];
        let [first, second] = &both;
        let at = Timestamp::from_nanos;
        assert!(
            first.entry().at(at(0)).check_n(9).is_allowed()
                && second.entry().at(at(0)).check_n(12).is_allowed()
        );
        let take = |cost| {
            check_all(&mut [
                first.entry().at(at(now_ns)).cost(cost),
                second.entry().at(at(now_ns)).cost(cost),
            ])
            .is_allowed()
        };
        assert!(!take(left + 1), "{now_ns} ns");
        assert!(take(left) && !take(1), "{now_ns} ns");
    }
}

#[test]
fn v35_a_changed_burst_keeps_what_is_owed() {
    // A change of Bucket4j's limit, with 40 of 100 tokens left. Bucket4j keeps the 40 (as is), scales them to 80
    // (proportional), or adds the difference and has 140 (additive). Tollgate keeps the debt of 60, which gives the
    // same as the last of the three. With a new burst of 20, Bucket4j leaves 20 or 8 tokens. Tollgate leaves none,
    // because more than 20 is owed.
    let now = Timestamp::from_secs(1_000);
    for (burst, left) in [(200, 140), (20, 0), (100, 40)] {
        let quota = |burst| Quota::per_day(1).burst(burst);
        let live = live(quota(100));
        let tiers = KeyedLimiter::builder(quota(100)).headroom(quota(200));
        let table: Changing<KeyedLimiter<u64>> = tiers.clock(clock()).build(10).unwrap();
        assert!(
            live.entry().at(now).check_n(60).is_allowed()
                && table.entry(&7).at(now).check_n(60).is_allowed()
        );
        on(now);
        live.set_quota(quota(burst)).unwrap();
        table.set_quota(quota(burst)).unwrap();
        assert_eq!(live.entry().at(now).peek(0).remaining(), left, "burst {burst}");
        assert_eq!(table.entry(&7).at(now).peek(0).remaining(), left, "burst {burst}");
    }
}

#[test]
fn v38_after_a_change_of_rate_the_debt_drains_at_the_new_one() {
    // Requests for 1, 2, 4 and 1 units. Guava's waits are 0 and 1 and then, after a change from 1/s to 2/s, 1, .5, 1
    // and 2. In Guava each request waits for the units of the request before it, at the old rate if those units were
    // charged before the change. In Tollgate each request waits for its own units, and the rest of the debt drains at
    // the rate in force.
    let second = Duration::from_secs(1);
    let clock = ManualClock::new();
    let limit = Limiter::builder(Quota::per_second(1).burst(1))
        .clock(clock.clone())
        .changing()
        .build()
        .unwrap();
    let wait_for = |units| {
        let wait = limit.entry().reserve(units, second * 9).unwrap().wait();
        clock.advance(wait);
        wait.as_millis()
    };
    assert_eq!([wait_for(1), wait_for(1)], [0, 1_000]);
    limit.set_quota(Quota::per_second(2).burst(1)).unwrap();
    assert_eq!([1, 2, 4, 1].map(wait_for), [500, 1_000, 2_000, 500]);
}

#[test]
fn v40_what_is_there_is_drained_and_what_comes_back_fills_no_further() {
    // folly's dynamic bucket, with 10 a second and a burst of 10.
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(1));
    let limit = Limiter::builder(policy("gcra 10/s burst 10")).clock(clock.clone()).build();
    let mut taken = limit.check_n(9).into_result().unwrap();
    let denied = limit.check_n(5);
    assert!(!denied.is_allowed());
    assert_eq!(denied.remaining(), 1);
    let drained = limit.entry().take_up_to(5).into_result().unwrap();
    assert_eq!(drained.cost(), 1);
    assert!(!limit.entry().take_up_to(5).is_allowed());
    // More units are given back than the limit holds. Only 10 are taken back, and the rest is lost.
    assert_eq!(limit.entry().refund(taken.split_off(4)), 4);
    assert_eq!(limit.entry().uncharge(u64::MAX), 6);
    assert_eq!(limit.entry().refund(drained) + limit.entry().refund(taken), 0);
    assert!(limit.check_n(10).is_allowed());
    assert!(!limit.check().is_allowed());
    // While the limit is in debt, even a request for 0 units is denied.
    assert_eq!(limit.entry().charge(10), 0);
    assert!(!limit.check_n(0).is_allowed());
    // A request with an earlier time changes nothing.
    let left = limit.entry().peek(0).reset_after();
    assert!(!limit.entry().at(Timestamp::from_secs(0)).check().is_allowed());
    assert_eq!(limit.entry().peek(0).reset_after(), left);
}

#[test]
fn v51_green_yellow_and_red_are_admitted_over_and_denied() {
    // RFC 2697 with 500 a second, a committed burst of 1000 and an excess burst of 1000. The RFC has two buckets, and a
    // yellow packet is charged to the second one alone, so its colours are GYGYGGGYR. In Tollgate both are one debt, so
    // requests after a yellow one are yellow until the debt is below the burst again. Red packets are the same in both.
    let asked =
        [(0, 600), (0, 600), (0, 300), (0, 300), (1, 500), (1, 1), (5, 1_000), (5, 1_000), (5, 1)];
    let limit = limiter("gcra 500/s burst 1000 soft 100%");
    let colours = asked.map(|(seconds, cost)| {
        let decision = limit.entry().at(Timestamp::from_secs(seconds)).check_n(cost);
        match decision.into_result() {
            Ok(permit) if permit.is_over() => 'Y',
            Ok(_) => 'G',
            Err(_) => 'R',
        }
    });
    assert_eq!(colours.iter().collect::<String>(), "GYYYYYGYR");
}
