//! Elastic limits: the own quota whole, the rest from what the server can spare, and never more than that.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use ahash::RandomState;
use common::policy;
use proptest::prelude::*;
use tollgate::{
    ElasticDecision, ElasticKeyedLimiter, ElasticLimiter, Full, KeyedLimiter, Limiter, ManualClock,
    Quota, SparePool, Timestamp,
};

fn pool(quota: Quota, headroom: f64) -> Arc<SparePool> {
    let pool = SparePool::with_clock(quota, ManualClock::new());
    pool.report_headroom(headroom).unwrap();
    Arc::new(pool)
}

/// How many requests for one unit are admitted at an instant.
fn admitted(limiter: &ElasticLimiter, now: Timestamp) -> usize {
    (0..100).filter(|_| limiter.check_at(1, now).is_allowed()).count()
}

const START: Timestamp = Timestamp::from_secs(1_000_000);

#[test]
fn the_own_quota_comes_first_and_whole_and_nothing_is_split() {
    let pool = pool(Quota::per_hour(10), 1.0);
    let limiter = ElasticLimiter::new(Quota::per_hour(5), Arc::clone(&pool));
    assert!(!limiter.check_at(3, START).is_borrowed());
    // Two are left of its own: all three come from the pool.
    assert!(limiter.peek_at(3, START).is_borrowed());
    assert!(limiter.check_at(3, START).is_borrowed());
    assert_eq!(
        (limiter.own().entry().at(START).peek(0).remaining(), pool.remaining_at(START)),
        (2, 7)
    );
    assert!(!limiter.check_at(2, START).is_borrowed());
    // Eight do not fit in the pool: nothing is charged anywhere.
    assert!(limiter.check_at(5, START).is_borrowed());
    let denied = limiter.check_at(3, START);
    assert!(!denied.is_allowed() && !denied.is_borrowed());
    assert_eq!(
        (limiter.own().entry().at(START).peek(0).remaining(), pool.remaining_at(START)),
        (0, 2)
    );
}

#[test]
fn what_could_never_fit_in_the_own_quota_is_not_lent() {
    let pool = pool(Quota::per_hour(100), 1.0);
    let limiter = ElasticLimiter::new(Quota::per_hour(5), Arc::clone(&pool));
    assert!(limiter.check_at(6, START).into_result().unwrap_err().is_never());
    assert_eq!(pool.remaining_at(START), 100);
}

#[test]
fn a_key_without_a_cell_does_not_borrow() {
    let pool = pool(Quota::per_hour(100), 1.0);
    let limiter =
        ElasticKeyedLimiter::<u64>::new(Quota::per_hour(5), 1, Arc::clone(&pool)).unwrap();
    // With a spill, keys are decided there, and most are denied.
    let crowd = |limiter: &ElasticKeyedLimiter<u64>| {
        (0..1_000).filter(|key| !limiter.check_at(key, 1, START).is_allowed()).count()
    };
    assert!(crowd(&limiter) > 500);
    // Without one, keys that find no cell are denied at once.
    let limiter = limiter.when_full(Full::Deny).unwrap();
    assert!(crowd(&limiter) > 900);
    assert_eq!(pool.remaining_at(START), 100);
}

#[test]
fn the_figures_are_those_of_the_own_quota() {
    let pool = pool(Quota::per_second(100), 1.0);
    let limiter = ElasticLimiter::new(Quota::per_minute(6).burst(2), pool);
    assert_eq!(limiter.check_at(1, START).decision().remaining(), 1);
    let borrowed = limiter.check_at(2, START);
    assert!(borrowed.is_borrowed());
    let decision = borrowed.decision();
    assert_eq!((decision.limit(), decision.remaining()), (2, 1));
    assert_eq!(decision.reset_after(), Duration::from_secs(10));
    assert_eq!(borrowed.into_result().unwrap().cost(), 2);
    assert!(size_of_val(&borrowed) <= 112);
}

#[test]
fn half_the_headroom_lends_half_the_burst_and_half_the_rate() {
    // A tenth is no binary fraction: rounded down it is a little less, and two do not fit in 20.
    for (headroom, burst, rate) in [(1.0, 20, 10), (0.5, 10, 5), (0.1, 1, 1), (0.0, 0, 0)] {
        let pool = pool(Quota::per_second(10).burst(20), headroom);
        let limiter = ElasticLimiter::new(Quota::per_day(1), pool);
        assert!(!limiter.check_at(1, START).is_borrowed());
        assert_eq!(admitted(&limiter, START), burst, "headroom {headroom}");
        let later = |s| START + Duration::from_secs(s);
        let steady: usize = (1..=10).map(|s| admitted(&limiter, later(s))).sum();
        assert_eq!(steady, 10 * rate, "headroom {headroom}");
    }
}

#[test]
fn a_report_mints_nothing_however_often_the_headroom_changes() {
    let pool = pool(Quota::per_hour(8), 1.0);
    let limiter = ElasticLimiter::new(Quota::per_hour(1), Arc::clone(&pool));
    assert_eq!(admitted(&limiter, START), 1 + 8);
    for headroom in [0.5, 0.25, 0.0, 1.0, 0.125, 1.0] {
        pool.report_headroom(headroom).unwrap();
        assert_eq!(admitted(&limiter, START), 0, "at {headroom}");
    }
}

#[test]
fn what_was_lent_is_priced_at_the_headroom_of_its_time() {
    let pool = pool(Quota::per_hour(8), 0.5);
    let limiter = ElasticLimiter::new(Quota::per_hour(1), Arc::clone(&pool));
    assert!(limiter.check_at(1, START).is_allowed());
    // Two units at a half are half of the pool; the other half is four units at the whole.
    assert!(limiter.check_at(1, START).is_borrowed() && limiter.check_at(1, START).is_borrowed());
    pool.report_headroom(1.0).unwrap();
    assert_eq!(admitted(&limiter, START), 4);
    // An hour refills the pool, at any headroom.
    pool.report_headroom(0.25).unwrap();
    let later = START + Duration::from_secs(3_600);
    assert_eq!(admitted(&limiter, later), 1 + 2);
}

#[test]
fn headroom_that_is_no_share_is_refused_and_changes_nothing() {
    let pool = SparePool::new(Quota::per_second(10));
    pool.report_headroom(0.25).unwrap();
    for bad in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.01, 1.000_000_1] {
        let error = pool.report_headroom(bad).unwrap_err();
        assert_eq!(error.found.to_bits(), bad.to_bits());
        assert_eq!(error.to_string(), format!("headroom {bad} is refused; use 0 to 1"));
        assert_eq!(pool.headroom(), 0.25);
    }
    for good in [0.0, -0.0, 1.0, 0.5, f64::MIN_POSITIVE] {
        pool.report_headroom(good).unwrap();
        assert!(pool.headroom() <= good && good - pool.headroom() < 1e-9);
    }
}

#[test]
fn the_smallest_headroom_and_the_largest_cost_do_not_overflow() {
    let quota = Quota::per_second(2_000_000_000).burst(1 << 62);
    for headroom in [2.0_f64.powi(-32), 1e-9, 1.0] {
        let pool = pool(quota, headroom);
        let limiter = ElasticLimiter::new(quota, Arc::clone(&pool));
        for cost in [1 << 62, u64::MAX, 1 << 62, 1, 1 << 33] {
            let _ = limiter.check_at(cost, Timestamp::from_nanos(u64::MAX));
        }
        assert!(pool.remaining_at(Timestamp::default()) <= 1 << 62);
    }
}

#[test]
fn clients_share_one_pool_and_keep_their_own() {
    let pool = pool(Quota::per_hour(10), 1.0);
    let clients: Vec<_> =
        (0..4).map(|_| ElasticLimiter::new(Quota::per_hour(5), Arc::clone(&pool))).collect();
    let keyed = ElasticKeyedLimiter::<str>::new(Quota::per_hour(5), 10, Arc::clone(&pool)).unwrap();
    assert_eq!(admitted(&clients[0], START), 15);
    assert!(clients[1..].iter().all(|client| admitted(client, START) == 5));
    let ask = |key| (0..20).filter(|_| keyed.check_at(key, 1, START).is_allowed()).count();
    assert_eq!(["alice", "bob"].map(ask), [5, 5]);
}

#[test]
fn elastic_limits_can_be_shared() {
    fn shareable<T: Send + Sync + std::fmt::Debug + 'static>() {}
    shareable::<SparePool>();
    shareable::<ElasticLimiter>();
    shareable::<ElasticKeyedLimiter<std::rc::Rc<str>>>();
    shareable::<ElasticDecision>();
    assert!(align_of::<SparePool>() >= 64);
}

#[test]
fn limiters_of_a_pool_have_its_clock() {
    let clock = ManualClock::new();
    let pool = Arc::new(SparePool::with_clock(Quota::per_minute(1), clock.clone()));
    pool.report_headroom(1.0).unwrap();
    let limiter = ElasticLimiter::new(Quota::per_minute(1), Arc::clone(&pool));
    let keyed = ElasticKeyedLimiter::<str>::new(Quota::per_minute(1), 10, pool).unwrap();
    let now = |is: bool| assert!(is);
    now(!limiter.check(1).is_borrowed() && !keyed.check("key", 1).is_borrowed());
    now(keyed.peek("key", 1).is_borrowed() && limiter.peek(1).is_borrowed());
    now(keyed.check("key", 1).is_borrowed() && !limiter.check(1).is_allowed());
    clock.advance(Duration::from_secs(60));
    now(!limiter.check(1).is_borrowed() && limiter.check(1).is_borrowed());
    now(keyed.check("key", 1).is_allowed() && !keyed.check("key", 1).is_allowed());
}

/// A loan: when, how many units, and at which headroom, in quarters.
#[derive(Debug)]
struct Loan {
    now_ns: u64,
    units: u64,
    quarters: u64,
}

/// The most by which any interval exceeds `burst + rate * length` in prices; in units, multiplied by the
/// period in nanoseconds and by 12, so that every price is a whole number.
fn excess(loans: &[Loan], quota: Quota) -> i128 {
    let period_ns = i128::try_from(quota.period().as_nanos()).unwrap();
    let mut worst = i128::MIN;
    for from in loans {
        for to in loans.iter().filter(|to| from.now_ns <= to.now_ns) {
            let inside =
                loans.iter().filter(|loan| (from.now_ns..=to.now_ns).contains(&loan.now_ns));
            let price: u64 = inside.map(|loan| 12 * 4 * loan.units / loan.quarters).sum();
            let flow = i128::from(to.now_ns - from.now_ns) * i128::from(quota.count());
            let most = 12 * (i128::from(quota.max_burst()) * period_ns + flow);
            worst = worst.max(i128::from(price) * period_ns - most);
        }
    }
    worst
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Also with times that run backward, as the callers' own do.
    #[test]
    fn no_interval_is_lent_more_than_the_pool_at_its_headroom(
        count in 1..20_u64,
        burst in 1..20_u64,
        steps in prop::collection::vec((0..3_000_000_000_u64, 0..8_u64, 1..5_u64, 0..4_usize), 1..80),
    ) {
        let quota = Quota::per(count, Duration::from_secs(10)).burst(burst);
        let pool = pool(quota, 1.0);
        // The clients have spent their own units, of which none comes back before the year 2100.
        let own = Quota::per(1, Duration::from_secs(100 * 365 * 86_400)).burst(5);
        let clients = [(); 3].map(|()| ElasticLimiter::new(own, Arc::clone(&pool)));
        clients.iter().for_each(|client| assert!(client.check_at(5, START).is_allowed()));
        let (mut now, mut quarters, mut loans) = (START, 4, Vec::new());
        for (passed_ns, report, units, back) in steps {
            now = if back == 0 {
                Timestamp::from_nanos(now.as_nanos() - passed_ns)
            } else {
                now + Duration::from_nanos(passed_ns)
            };
            if report <= 4 {
                quarters = report;
                pool.report_headroom(f64::from(u32::try_from(quarters).unwrap()) / 4.0).unwrap();
            }
            let client = &clients[usize::try_from(units % 3).unwrap()];
            let answer = client.check_at(units, now);
            prop_assert_eq!(answer.is_allowed(), answer.is_borrowed());
            if answer.is_borrowed() {
                prop_assert!(quarters > 0);
                loans.push(Loan { now_ns: now.as_nanos(), units, quarters });
            }
        }
        // One tick, of at most a nanosecond.
        let tick = 12 * i128::from(count + 1);
        prop_assert!(excess(&loans, quota) <= tick, "{loans:?}");
    }

    /// The answers are equal one by one.
    #[test]
    fn without_headroom_it_is_the_hard_limit(
        text in 0..4_usize,
        steps in prop::collection::vec((0_u64..40_000, 0..7_u64, 0..3_u64, any::<bool>()), 1..80),
    ) {
        let text = ["gcra 6/m burst 5", "fixed-window 5/m", "sliding-window 5/m", "5/m"][text];
        let seeds = || [RandomState::with_seeds(1, 2, 3, 4), RandomState::with_seeds(5, 6, 7, 8)];
        let pool = pool(Quota::per_second(1_000), 0.0);
        let limiter = ElasticLimiter::new(policy(text), Arc::clone(&pool));
        let keyed = ElasticKeyedLimiter::with_hashers(policy(text), 1, pool, seeds()).unwrap();
        let hard = Limiter::with_clock(policy(text), ManualClock::new());
        let hard_keyed =
            KeyedLimiter::with_hashers(policy(text), 1, ManualClock::new(), seeds()).unwrap();
        let mut now = START;
        for (passed_ms, cost, key, charge) in steps {
            now = now + Duration::from_millis(passed_ms);
            let (elastic, plain) = if charge {
                let elastic = [limiter.check_at(cost, now), keyed.check_at(&key, cost, now)];
                (elastic, [hard.entry().at(now).check(cost), hard_keyed.entry(&key).at(now).check(cost)])
            } else {
                let elastic = [limiter.peek_at(cost, now), keyed.peek_at(&key, cost, now)];
                (elastic, [hard.entry().at(now).peek(cost), hard_keyed.entry(&key).at(now).peek(cost)])
            };
            for (elastic, plain) in elastic.iter().zip(plain) {
                prop_assert!(!elastic.is_borrowed());
                prop_assert_eq!(format!("{:?}", elastic.decision()), format!("{plain:?}"));
            }
        }
    }
}

#[test]
fn an_interval_above_the_pool_is_caught() {
    let quota = Quota::per_second(1).burst(4);
    let loan = |at_s: u64, units, quarters| Loan { now_ns: at_s * 1_000_000_000, units, quarters };
    for (loans, units_above) in [
        (vec![loan(5, 4, 4)], 0),
        (vec![loan(5, 3, 2)], 2),
        (vec![loan(5, 4, 4), loan(7, 1, 2)], 0),
        (vec![loan(5, 4, 4), loan(6, 1, 2)], 1),
    ] {
        assert_eq!(excess(&loans, quota), 12 * units_above * 1_000_000_000);
    }
}

#[test]
fn what_was_borrowed_cannot_be_given_back_to_the_own_quota() {
    let clock = ManualClock::new();
    let pool = Arc::new(SparePool::with_clock(Quota::per_hour(100), clock.clone()));
    pool.report_headroom(1.0).unwrap();
    let limiter = ElasticLimiter::new(Quota::per_hour(10), pool);
    assert!(limiter.check(10).is_allowed());
    let borrowed = limiter.check(4);
    assert!(borrowed.is_borrowed());
    assert_eq!(limiter.own().entry().refund(borrowed.into_result().unwrap()), 0);
    assert_eq!(limiter.own().peek(1).remaining(), 0);
}
