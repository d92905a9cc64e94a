//! Changes of a quota while other threads decide or change the quota as well.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tollgate::{ChangeError, Changing, Decision, KeyedLimiter, Quota};

use super::{at, live, table};
use crate::common::{clock, on};

#[test]
fn row_51_decisions_of_four_threads_during_changes_are_of_one_quota_or_the_other() {
    let quotas = [Quota::per_minute(100).burst(50_000), Quota::per_hour(700).burst(60_000)];
    let tiers = KeyedLimiter::builder(quotas[0]).headroom(quotas[1]);
    let limiter: Changing<KeyedLimiter<u64>> = tiers.clock(clock()).build(1_000).unwrap();
    let live = live(quotas[0]);
    let (over, admitted) = (AtomicBool::new(false), AtomicU64::new(0));
    let now = at(1_000);
    on(now);
    // At one instant nothing drains, so the units left are always the burst less the admitted units.
    let is_whole = |decision: &Decision| {
        let limit = decision.limit();
        quotas.iter().any(|quota| quota.max_burst() == limit) && decision.remaining() < limit
    };
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (limiter, live, over, admitted) = (&limiter, &live, &over, &admitted);
            scope.spawn(move || {
                for n in (thread..).step_by(4) {
                    if over.load(Ordering::Relaxed) || n >= 40_000 {
                        break;
                    }
                    let decision = limiter.entry(&(n % 100)).at(now).check();
                    assert!(is_whole(&decision), "{decision:?}");
                    let decision = live.entry().at(now).check();
                    assert!(is_whole(&decision), "{decision:?}");
                    admitted.fetch_add(u64::from(decision.is_allowed()), Ordering::Relaxed);
                }
            });
        }
        for change in 1..300 {
            limiter.set_quota(quotas[change % 2]).unwrap();
            live.set_quota(quotas[change % 2]).unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
    live.set_quota(quotas[1]).unwrap();
    let spent = quotas[1].max_burst() - live.entry().at(now).peek(0).remaining();
    assert_eq!(spent, admitted.into_inner());
}

#[test]
fn a_second_change_at_the_same_time_is_told_so() {
    let limiter = table(Quota::per_second(9));
    on(at(1_000));
    let refused = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for count in 5..=20 {
                    match limiter.set_quota(Quota::per_second(count)) {
                        Ok(()) => {}
                        Err(error) => {
                            assert_eq!(error, ChangeError::Busy);
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    assert!(refused.into_inner() < 64);
    limiter.set_quota(Quota::per_second(11)).unwrap();
    assert_eq!(limiter.entry(&7).at(at(1_000)).peek(0).remaining(), 11);
}
