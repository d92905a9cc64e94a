//! One limit in stripes: its total admissions, the policies with which it cannot be built, and its answers.

use std::thread;
use std::time::Duration;

use tollgate::{BuildError, DenialReason, ManualClock, Policy, Quota, StripedLimiter, Timestamp};

fn striped(policy: impl Into<Policy>, stripes: usize) -> StripedLimiter {
    StripedLimiter::builder(policy).stripes(stripes).clock(ManualClock::new()).build().unwrap()
}

#[test]
fn the_whole_burst_is_there_whichever_thread_asks() {
    for stripes in [1, 2, 3, 7, 10] {
        let limiter = striped(Quota::per_second(10), stripes);
        let admitted =
            (0..20).filter(|_| limiter.entry().at(Timestamp::default()).check().is_allowed());
        assert_eq!(admitted.count(), 10, "{stripes} stripes");
    }
}

#[test]
fn threads_share_one_burst() {
    let limiter = striped(Quota::per_hour(1_000), 4);
    let ask = || {
        (0..1_000).filter(|_| limiter.entry().at(Timestamp::default()).check().is_allowed()).count()
    };
    let admitted: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(admitted, 1_000);
}

#[test]
fn the_rate_is_that_of_the_quota_and_never_rounded() {
    // At 7 a second in 3 stripes, each stripe gives 7 units every 3 seconds.
    let limiter = striped(Quota::per_second(7).burst(3), 3);
    let steps = (0..70_000_u64).map(|n| Timestamp::from_nanos(n * 10_000_000_000 / 70_000));
    let admitted = steps.filter(|&now| limiter.entry().at(now).check().is_allowed()).count();
    // The total is the burst plus the units that drain in 10 s less the last step.
    assert_eq!(admitted, 3 + 69);
}

#[test]
fn windows_are_divided_without_a_unit_lost() {
    for text in [
        "fixed-window 10/m",
        "fixed-window 10/m from-first",
        "sliding-window 10/m",
        "sliding-window 10/m exact",
        "sliding-window 10/m strict",
        "segmented-window 10/m x6",
        "calendar-month 10",
        "calendar-week 10",
    ] {
        let policy: Policy = text.parse().unwrap();
        for stripes in [1, 3, 4, 10] {
            let limiter = StripedLimiter::builder(policy)
                .stripes(stripes)
                .clock(ManualClock::new())
                .build()
                .unwrap();
            // The second time is at least two windows later, so requests at the first time have no effect any more.
            for time in [Timestamp::default(), Timestamp::from_secs(62 * 86_400)] {
                let ask = |_: &u32| limiter.entry().at(time).check().is_allowed();
                assert_eq!((0..30).filter(ask).count(), 10, "{text}, {stripes} stripes");
            }
        }
    }
}

#[test]
fn a_window_in_stripes_turns_on_the_clock_for_all_of_them() {
    let policy: Policy = "fixed-window 7/m".parse().unwrap();
    let limiter =
        StripedLimiter::builder(policy).stripes(3).clock(ManualClock::new()).build().unwrap();
    let admitted = |seconds, asked: usize| {
        let now = Timestamp::from_secs(seconds);
        (0..asked).filter(|_| limiter.entry().at(now).check().is_allowed()).count()
    };
    assert_eq!([admitted(10, 5), admitted(59, 5), admitted(60, 9)], [5, 2, 7]);
}

#[test]
fn a_soft_limit_is_softened_in_each_stripe_and_marks_it() {
    let policy: Policy = "gcra 6/h soft 50%".parse().unwrap();
    let limiter =
        StripedLimiter::builder(policy).stripes(2).clock(ManualClock::new()).build().unwrap();
    let over = |_| limiter.check().into_result().ok().map(|permit| permit.is_over());
    let answers: Vec<_> = (0..9).map(over).collect();
    // Two stripes of 3 units each, softened to 4 each. The thread asks its own stripe first.
    let (within, marked) = (Some(false), Some(true));
    let expected = [within, within, within, marked, within, within, within, marked, None];
    assert_eq!(answers, expected);
}

#[test]
fn under_a_soft_limit_the_largest_cost_is_a_smaller_stripes_softened_share() {
    // The stripes have 3 and 2 units, softened to 4 and 3.
    for text in ["gcra 5/h soft 50%", "fixed-window 5/h soft 50%"] {
        let policy: Policy = text.parse().unwrap();
        let limiter =
            StripedLimiter::builder(policy).stripes(2).clock(ManualClock::new()).build().unwrap();
        assert_eq!(limiter.largest_cost(), 3, "{text}");
        let denial = limiter.check_n(4).into_result().unwrap_err();
        assert_eq!(denial.reason(), DenialReason::NeverFits, "{text}");
        // Seven units in all, so that one is left after two costs of three.
        let admitted = [3, 3, 2, 1, 1].map(|cost| limiter.check_n(cost).is_allowed());
        assert_eq!(admitted, [true, true, false, true, false], "{text}");
    }
}

#[test]
fn a_cost_that_never_fits_is_told_of_what_a_stripe_has_left() {
    let limiter = striped("gcra 10/h".parse::<Policy>().unwrap(), 2);
    let entry = limiter.entry().at(Timestamp::from_secs(1));
    assert_eq!(entry.take_up_to(10).into_result().unwrap().cost(), 10);
    let denial = entry.check_n(6).into_result().unwrap_err();
    assert_eq!(denial.reason(), DenialReason::NeverFits);
    // Five units come back at half the rate of ten an hour.
    assert_eq!((denial.remaining(), denial.reset_after()), (0, Duration::from_secs(3_600)));
}

#[test]
fn what_several_stripes_give_is_over_the_limit_if_the_part_of_one_is() {
    // Two stripes of two units, softened to three each.
    let over = |units| {
        let limiter = striped("gcra 4/h soft 50%".parse::<Policy>().unwrap(), 2);
        let permit = limiter.entry().take_up_to(units).into_result().unwrap();
        (permit.cost(), permit.is_over())
    };
    assert_eq!([1, 2, 3, 5].map(over), [(1, false), (2, false), (3, true), (5, true)]);
}

#[test]
fn what_counts_denials_or_has_slots_is_refused() {
    let refused = |text: &str| {
        let policy: Policy = text.parse().unwrap();
        StripedLimiter::new(policy).unwrap_err().to_string()
    };
    let told = "a stripe sees a part of all denials, so gcra 6/m count-denied cannot be kept; leave out all but soft, \
                or use a Limiter";
    assert_eq!(refused("6/m count-denied"), told);
    assert!(refused("fixed-window 6/m penalty 2m after 3").starts_with("a stripe sees"));
    let soft = StripedLimiter::builder("gcra 4/h soft 25%".parse::<Policy>().unwrap()).stripes(4);
    let told = "in each of 4 stripes, 25% of a limit of 1 is not one unit; use at least 100%; or use fewer stripes";
    assert_eq!(soft.build().unwrap_err().to_string(), told);
    let told = "no verb waits for a turn here, so gcra 6/m burst 1 queue 3 cannot be kept; leave out queue and wait, or use \
                a Limiter";
    assert_eq!(refused("6/m burst 1 queue 3"), told);
    assert!(refused("6/m burst 1 queue 3 count-denied").starts_with("a stripe sees"));
    assert!(refused("sliding-log 6/m").starts_with("sliding-log 6/m has a slot for each unit"));
}

#[test]
fn a_denial_waits_for_the_first_stripe_that_admits() {
    let limiter = striped(Quota::per_second(2).burst(2), 2);
    let start = Timestamp::from_secs(100);
    assert!(limiter.entry().at(start).check().is_allowed());
    assert!(limiter.entry().at(start + Duration::from_millis(400)).check().is_allowed());
    // Each stripe gets its unit back a second after it was taken.
    let now = start + Duration::from_millis(600);
    let denial = limiter.entry().at(now).check().into_result().unwrap_err();
    assert_eq!(denial.retry_after(), Some(Duration::from_millis(400)));
    assert!(!limiter.entry().at(now).peek(1).is_allowed());
    assert!(limiter.entry().at(now + Duration::from_millis(400)).check().is_allowed());
}

#[test]
fn a_cost_above_one_stripes_share_never_fits() {
    let limiter = striped(Quota::per_second(10).burst(11), 4);
    assert_eq!(limiter.largest_cost(), 2);
    assert!(limiter.entry().at(Timestamp::default()).check_n(2).is_allowed());
    let denial = limiter.entry().at(Timestamp::default()).check_n(3).into_result().unwrap_err();
    assert_eq!(denial.reason(), DenialReason::NeverFits);
    assert_eq!(denial.retry_after(), None);
}

#[test]
fn what_cannot_be_divided_is_refused_with_what_can() {
    let build = |quota, stripes| {
        StripedLimiter::builder(quota).stripes(stripes).clock(ManualClock::new()).build()
    };
    for stripes in [0, 11] {
        let error = build(Quota::per_second(10), stripes).unwrap_err();
        let expected =
            format!("a burst of 10 cannot be divided between {stripes} stripes; use 1 to 10");
        assert_eq!(error, BuildError::OutOfRange(expected));
    }
    let slow = Quota::per(1, Duration::from_secs(200 * 365 * 86_400)).burst(8);
    let error = build(slow, 8).unwrap_err();
    assert!(matches!(error, BuildError::Policy(_)), "{error:?}");
    assert!(
        error.to_string().ends_with(", 8 times as long, is out of range; use fewer stripes"),
        "{error}"
    );
}

#[test]
fn as_much_as_fits_is_taken_from_all_stripes() {
    for text in ["gcra 1/m burst 11", "fixed-window 11/h", "gcra 1/m burst 11 soft 100%"] {
        let limiter = StripedLimiter::builder(text.parse::<Policy>().unwrap())
            .stripes(4)
            .clock(ManualClock::new())
            .build()
            .unwrap();
        let entry = limiter.entry().at(Timestamp::from_secs(7_200));
        let limit = if text.contains("soft") { 22 } else { 11 };
        assert_eq!(entry.take_up_to(7).into_result().unwrap().cost(), 7, "{text}");
        assert_eq!(entry.take_up_to(u64::MAX).into_result().unwrap().cost(), limit - 7, "{text}");
        let denial = entry.take_up_to(5).into_result().unwrap_err();
        assert_eq!(denial.cost(), 1);
        assert!(denial.retry_after().is_some());
        assert!(!entry.check().is_allowed());
    }
}

#[test]
fn a_charge_fills_all_stripes_and_divides_what_they_owe() {
    // All 4 stripes together get one unit a minute, so each stripe gets one every 4 minutes.
    let limiter = striped(Quota::per_minute(1).burst(8), 4);
    let at = |minute: u64| limiter.entry().at(Timestamp::from_secs(7_200 + 60 * minute));
    assert!(at(0).check().is_allowed());
    // 7 units fit, and the 8 further units are two units of debt in each stripe.
    assert_eq!(at(0).charge(15), 0);
    assert!(!at(11).check().is_allowed());
    let admitted = (0..20).filter(|_| at(12).check().is_allowed()).count();
    assert_eq!(admitted, 4);
    let window = StripedLimiter::builder("fixed-window 8/h".parse::<Policy>().unwrap())
        .stripes(4)
        .clock(ManualClock::new())
        .build();
    let window = window.unwrap();
    let entry = window.entry().at(Timestamp::from_secs(7_200));
    assert_eq!((entry.charge(5), entry.charge(5), entry.charge(5)), (0, 2, 5));
    assert_eq!(entry.charge(0), 0);
}
