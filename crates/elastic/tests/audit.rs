//! Elastic limits: the admissions within the clients' own quotas keep the bounds of these quotas. The loans keep the
//! pool's bound at the largest headroom that was reported.
//!
//! These audits use the threads and the bound of `tests/audit`. `TOLLGATE_AUDIT` says how many decisions each audit
//! makes.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

#[path = "../../../tests/audit/bound.rs"]
mod bound;
#[path = "../../../tests/audit/run.rs"]
#[allow(dead_code, reason = "other audits use the rest")]
mod run;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tollgate::{KeyedLimiter, ManualClock, Policy, Quota, Timestamp};
use tollgate_elastic::SparePool;

use crate::bound::excess;
use crate::run::{Admission, Random, rounds, run};

const PERIOD_NS: i128 = 1_000_000_000;

/// The limit that each of 40 clients has for itself. All of them ask for more.
const OWN: &str = "gcra 2000/s burst 8";

/// The number of decisions between two reports of a headroom. A round of some hundred thousand decisions thus meets
/// every headroom thousands of times, whatever the scheduler does.
const DECISIONS_PER_REPORT: usize = 16;

/// Audits the admissions within the clients' own quotas and the loans separately, while the deciding threads report one
/// headroom after the other. The largest headroom is `most` quarters.
fn audit(reports: &[f64], most: i128) {
    rounds(|count| {
        let pool = SparePool::with_clock(Quota::per_second(80_000).burst(400), ManualClock::new());
        pool.report_headroom(reports[0]).unwrap();
        let limiter = KeyedLimiter::builder(OWN.parse::<Policy>().unwrap())
            .clock(pool.clock())
            .build(100)
            .unwrap();
        let (lent, asked) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
        let check = |key: u64, now_ns, cost| {
            let asked = asked.fetch_add(1, Relaxed);
            if asked.is_multiple_of(DECISIONS_PER_REPORT) {
                let next = asked / DECISIONS_PER_REPORT % reports.len();
                pool.report_headroom(reports[next]).unwrap();
            }
            let own = limiter.entry(&key).at(Timestamp::from_nanos(now_ns));
            let elastic = pool.check(own, cost);
            let is_borrowed = elastic.is_borrowed();
            let decision = elastic.into_decision();
            if is_borrowed {
                let remaining = decision.remaining();
                lent.lock().unwrap().push(Admission { key, now_ns, cost, remaining });
            }
            decision
        };
        let request = |random: &mut Random, n: u64| {
            let now_ns = 1_000_000_000 + n * 20_000 + random.below(2_000_000);
            (random.below(40), now_ns, random.below(3) + 1)
        };
        let mut all = run(count, u64::MAX, request, check);
        let mut lent = lent.into_inner().unwrap();
        all.sort_unstable();
        lent.sort_unstable();
        let mut borrowed = lent.iter().peekable();
        let mut own: Vec<Admission> =
            all.iter().filter(|one| borrowed.next_if_eq(one).is_none()).copied().collect();
        assert_eq!(own.len() + lent.len(), all.len());
        assert!(!own.is_empty() && !lent.is_empty());
        let above = excess(&mut own, 2_000, PERIOD_NS, 8);
        assert!(above <= PERIOD_NS / 256, "own: {above} of {PERIOD_NS} of a unit above the bound");
        lent.iter_mut().for_each(|one| one.key = 0);
        let above = excess(&mut lent, 20_000 * most, PERIOD_NS, 100 * most);
        assert!(above <= PERIOD_NS / 256, "lent: {above} of {PERIOD_NS} of a unit above the bound");
        all.len()
    });
}

#[test]
fn what_is_borrowed_keeps_the_bound_of_the_pool_and_the_rest_that_of_the_own_quotas() {
    audit(&[1.0], 4);
}

#[test]
fn while_the_headroom_changes_the_largest_one_bounds_what_is_borrowed() {
    audit(&[0.5, 0.25, 0.0], 2);
}
