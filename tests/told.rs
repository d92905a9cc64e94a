//! Decisions that were made elsewhere: what they answer, and that nothing is given back for them here.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

use std::time::Duration;

use tollgate::{Decision, DenialReason, Limiter, Policy, Quota, Told};

const TOLD: Told = Told {
    allowed: true,
    cost: 3,
    limit: 10,
    soft_bp: 0,
    remaining: 7,
    retry_after: Duration::ZERO,
    reset_after: Duration::from_secs(3),
    penalty: false,
};

#[test]
fn a_decision_answers_what_it_was_told() {
    let permit = Decision::from(TOLD).into_result().unwrap();
    assert_eq!((permit.cost(), permit.limit(), permit.remaining()), (3, 10, 7));
    assert_eq!(permit.reset_after(), Duration::from_secs(3));
    let retry_after = Duration::from_nanos(1_000_000_001);
    let denied = Told { allowed: false, cost: 8, retry_after, ..TOLD };
    let denial = Decision::from(denied).into_result().unwrap_err();
    assert_eq!((denial.cost(), denial.retry_after()), (8, Some(retry_after)));
    assert_eq!(denial.retry_after_secs(), Some(2));
    assert_ne!(denial.reason(), DenialReason::TableFull);
    let never = Decision::from(Told { cost: 11, ..denied }).into_result().unwrap_err();
    assert!(never.reason() == DenialReason::NeverFits && never.retry_after().is_none());
}

#[test]
fn a_penalty_is_told_as_one() {
    let (retry_after, reset_after) = (Duration::from_secs(600), Duration::from_secs(600));
    let told =
        Told { allowed: false, remaining: 0, retry_after, reset_after, penalty: true, ..TOLD };
    let denial = Decision::from(told).into_result().unwrap_err();
    assert_eq!(denial.reason(), DenialReason::Penalty);
    assert_eq!((denial.retry_after(), denial.reset_after()), (Some(retry_after), reset_after));
    assert_eq!((denial.limit(), denial.remaining()), (10, 0));
}

#[test]
fn no_limiter_gives_back_what_was_charged_elsewhere() {
    let permit = Decision::from(TOLD).into_result().unwrap();
    let limiter = Limiter::new(Quota::per_hour(10));
    assert!(limiter.check_n(5).is_allowed());
    assert_eq!(limiter.entry().refund(permit), 0);
    let log = Limiter::new(Policy::sliding_log(Quota::per_hour(10)).unwrap());
    assert!(log.check_n(5).is_allowed());
    assert_eq!(log.entry().refund(permit), 0);
    assert_eq!(log.entry().peek(1).remaining(), 5);
}

#[test]
fn what_is_told_of_a_soft_limit_is_told_of_the_limit_that_was_named() {
    // 10 units softened by half of them: with 15 - 12 left, two are over.
    let soft = |used: u64, allowed| {
        let told = Told { allowed, limit: 15, soft_bp: 5_000, remaining: 15 - used, ..TOLD };
        let decision = Decision::from(told);
        let is_over = decision.into_result().is_ok_and(|permit| permit.is_over());
        (decision.limit(), decision.remaining(), is_over)
    };
    assert_eq!([soft(9, true), soft(10, true)], [(10, 1, false), (10, 0, false)]);
    assert_eq!([soft(12, true), soft(15, false)], [(10, 0, true), (10, 0, false)]);
}
