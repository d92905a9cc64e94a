//! Elastic limits under policies that say what happens at their limit.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

use std::sync::Arc;
use std::time::Duration;

use tollgate::{
    Decision, DenialReason, KeyedLimiter, Limiter, ManualClock, Policy, Quota, Timestamp,
};
use tollgate_elastic::{ElasticDecision, SparePool};

const START: Timestamp = Timestamp::from_secs(300 * 3_600);

fn later(seconds: u64) -> Timestamp {
    START + Duration::from_secs(seconds)
}

fn policy(text: &str) -> Policy {
    text.parse().unwrap()
}

fn pool(quota: Quota) -> Arc<SparePool> {
    let pool = SparePool::with_clock(quota, ManualClock::new());
    pool.report_headroom(1.0).unwrap();
    Arc::new(pool)
}

/// Checks a limit that may borrow, for one client or for keys, and returns what was borrowed and the decision.
type Elastic = Box<dyn Fn(u64, Timestamp) -> (Option<bool>, Decision)>;

/// A limit for one client and one for keys, under the same policy; each borrows from its own pool.
fn elastic(text: &str, quota: Quota) -> [(Arc<SparePool>, Elastic); 2] {
    let [shared_pool, keyed_pool] = [pool(quota), pool(quota)];
    let shared = Limiter::builder(policy(text)).clock(shared_pool.clock()).build();
    let keyed =
        KeyedLimiter::<str>::builder(policy(text)).clock(keyed_pool.clock()).build(10).unwrap();
    let told = |told: ElasticDecision| {
        (told.is_allowed().then_some(told.is_borrowed()), told.into_decision())
    };
    let lender = Arc::clone(&shared_pool);
    let shared: Elastic =
        Box::new(move |cost, now| told(lender.check(shared.entry().at(now), cost)));
    let lender = Arc::clone(&keyed_pool);
    let keyed: Elastic = Box::new(move |cost, now| {
        let own = keyed.entry("key").at(now);
        // A peek counts no denial, neither in the client's own limit nor in the pool.
        let _ = lender.peek(own, cost);
        told(lender.check(own, cost))
    });
    [(shared_pool, shared), (keyed_pool, keyed)]
}

fn is_penalty(decision: Decision) -> bool {
    decision.into_result().unwrap_err().reason() == DenialReason::Penalty
}

#[test]
fn what_a_pool_lends_is_no_denial_and_under_a_penalty_it_lends_nothing() {
    let quota = Quota::per_second(3);
    for (pool, check) in elastic("gcra 1/h penalty 1h after 2", quota) {
        assert_eq!(check(1, START).0, Some(false));
        for _ in 0..3 {
            assert_eq!(check(1, START).0, Some(true));
        }
        let (told, denied) = check(1, START);
        assert_eq!((told, is_penalty(denied)), (None, false));
        let (told, denied) = check(1, START);
        assert_eq!((told, is_penalty(denied)), (None, true));
        let (told, denied) = check(1, later(10));
        assert_eq!((told, is_penalty(denied)), (None, true));
        assert_eq!(pool.remaining_at(later(10)), 3);
        // The penalty is over, and the client's whole quota is available again.
        assert_eq!(check(1, later(3_600)).0, Some(false));
        assert_eq!(check(1, later(3_600)).0, Some(true));
    }
}

#[test]
fn what_is_borrowed_ends_no_row_of_denials() {
    for (_, check) in elastic("gcra 1/h penalty 1h after 2", Quota::per_second(1)) {
        assert_eq!(check(1, START).0, Some(false));
        assert_eq!(check(1, START).0, Some(true));
        assert!(!is_penalty(check(1, START).1));
        assert_eq!(check(1, later(1)).0, Some(true));
        assert!(is_penalty(check(1, later(1)).1));
    }
}

#[test]
fn a_limit_that_borrows_charges_what_the_pool_denies_and_not_what_it_lends() {
    for (_, check) in elastic("gcra 1/s burst 10 count-denied 4s", Quota::per_hour(2)) {
        assert_eq!(check(10, START).0, Some(false));
        // Two units are lent. The figures are those of the client's own quota, which the loan does not charge.
        let (told, decision) = check(2, START);
        assert_eq!((told, decision.reset_after()), (Some(true), Duration::from_secs(10)));
        let (told, decision) = check(2, START);
        assert_eq!((told, decision.reset_after()), (None, Duration::from_secs(12)));
    }
}

#[test]
fn what_is_borrowed_is_not_over() {
    for (_, check) in elastic("gcra 4/h soft 50%", Quota::per_hour(2)) {
        let told: Vec<_> = (0..9)
            .map(|_| match check(1, START) {
                (Some(borrowed), Decision::Allowed(permit)) => (borrowed, permit.is_over()),
                _ => (true, true),
            })
            .collect();
        let [own, over, lent, denied] =
            [(false, false), (false, true), (true, false), (true, true)];
        assert_eq!(told, [own, own, own, own, over, over, lent, lent, denied]);
    }
}
