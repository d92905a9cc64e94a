//! Elastic limits: a client gets its whole own quota, and beyond it only what the server can spare.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

use std::hash::Hash;
use std::time::Duration;

use ahash::RandomState;
use proptest::prelude::*;
use tollgate::{
    DenialReason, Entry, KeyedLimiter, Limiter, ManualClock, Policy, Quota, Timestamp, WhenFull,
};
use tollgate_elastic::{ElasticDecision, SparePool};

fn policy(text: &str) -> Policy {
    text.parse().unwrap()
}

fn pool(quota: Quota, headroom: f64) -> SparePool {
    let clock = ManualClock::new();
    clock.set(START);
    let pool = SparePool::with_clock(quota, clock);
    pool.report_headroom(headroom).unwrap();
    pool
}

/// A client's own limit, which reads the pool's clock.
fn limiter(policy: impl Into<Policy>, pool: &SparePool) -> Limiter {
    Limiter::builder(policy).clock(pool.clock()).build()
}

fn keyed<K: Hash + ?Sized>(
    policy: impl Into<Policy>,
    capacity: usize,
    pool: &SparePool,
) -> KeyedLimiter<K> {
    KeyedLimiter::builder(policy).clock(pool.clock()).build(capacity).unwrap()
}

/// The number of requests for one unit, out of 100, that are admitted at an instant.
fn admitted(own: Entry<'_>, pool: &SparePool, now: Timestamp) -> usize {
    (0..100).filter(|_| pool.check(own.at(now), 1).is_allowed()).count()
}

const START: Timestamp = Timestamp::from_secs(1_000_000);

#[test]
fn the_own_quota_comes_first_and_whole_and_nothing_is_split() {
    let pool = pool(Quota::per_hour(10), 1.0);
    let limiter = limiter(Quota::per_hour(5), &pool);
    let own = limiter.entry().at(START);
    let left = || (own.peek(0).remaining(), pool.remaining_at(START));
    assert!(!pool.check(own, 3).is_borrowed());
    // Two of the client's own units are left, which is too few: all three units come from the pool.
    assert!(pool.peek(own, 3).is_borrowed());
    assert!(pool.check(own, 3).is_borrowed());
    assert_eq!(left(), (2, 7));
    assert!(!pool.check(own, 2).is_borrowed());
    // After five more units from the pool, a cost of three fits neither in the pool nor in the client's own quota, so
    // nothing is charged.
    assert!(pool.check(own, 5).is_borrowed());
    let denied = pool.check(own, 3);
    assert!(!denied.is_allowed() && !denied.is_borrowed());
    assert_eq!(left(), (0, 2));
}

#[test]
fn what_could_never_fit_in_the_own_quota_is_not_lent() {
    let pool = pool(Quota::per_hour(100), 1.0);
    let limiter = limiter(Quota::per_hour(5), &pool);
    let above = pool.check(limiter.entry().at(START), 6);
    assert_eq!(above.into_result().unwrap_err().reason(), DenialReason::NeverFits);
    assert_eq!(pool.remaining(), 100);
}

#[test]
fn a_key_without_a_cell_does_not_borrow() {
    let pool = pool(Quota::per_hour(100), 1.0);
    let limiter = keyed::<u64>(Quota::per_hour(5), 1, &pool);
    // With a spill, keys without a cell are decided in the spill, and most of them are denied.
    let crowd = |limiter: &KeyedLimiter<u64>| {
        let is_denied = |key: &u64| !pool.check(limiter.entry(key).at(START), 1).is_allowed();
        (0..1_000).filter(is_denied).count()
    };
    assert!(crowd(&limiter) > 500);
    // Without a spill, keys that find no cell are denied at once.
    let limiter = limiter.when_full(WhenFull::Deny).unwrap();
    assert!(crowd(&limiter) > 900);
    assert_eq!(pool.remaining(), 100);
}

#[test]
fn the_figures_are_those_of_the_own_quota() {
    let pool = pool(Quota::per_second(100), 1.0);
    let limiter = limiter(Quota::per_minute(6).burst(2), &pool);
    let own = limiter.entry().at(START);
    assert_eq!(pool.check(own, 1).decision().remaining(), 1);
    let borrowed = pool.check(own, 2);
    assert!(borrowed.is_borrowed());
    let decision = borrowed.decision();
    assert_eq!((decision.limit(), decision.remaining()), (2, 1));
    assert_eq!(decision.reset_after(), Duration::from_secs(10));
    assert!(size_of_val(&borrowed) <= 112);
    assert_eq!(borrowed.into_result().unwrap().cost(), 2);
}

#[test]
fn half_the_headroom_lends_half_the_burst_and_half_the_rate() {
    // A tenth has no exact binary form. It is rounded down, so a tenth of 20 units is a little less than two.
    for (headroom, burst, rate) in [(1.0, 20, 10), (0.5, 10, 5), (0.1, 1, 1), (0.0, 0, 0)] {
        let pool = pool(Quota::per_second(10).burst(20), headroom);
        let limiter = limiter(Quota::per_day(1), &pool);
        let own = limiter.entry();
        assert!(!pool.check(own.at(START), 1).is_borrowed());
        assert_eq!(admitted(own, &pool, START), burst, "headroom {headroom}");
        let later = |s| START + Duration::from_secs(s);
        let steady: usize = (1..=10).map(|s| admitted(own, &pool, later(s))).sum();
        assert_eq!(steady, 10 * rate, "headroom {headroom}");
    }
}

#[test]
fn a_report_mints_nothing_however_often_the_headroom_changes() {
    let pool = pool(Quota::per_hour(8), 1.0);
    let limiter = limiter(Quota::per_hour(1), &pool);
    assert_eq!(admitted(limiter.entry(), &pool, START), 1 + 8);
    for headroom in [0.5, 0.25, 0.0, 1.0, 0.125, 1.0] {
        pool.report_headroom(headroom).unwrap();
        assert_eq!(admitted(limiter.entry(), &pool, START), 0, "at {headroom}");
    }
}

#[test]
fn what_was_lent_is_priced_at_the_headroom_of_its_time() {
    let pool = pool(Quota::per_hour(8), 0.5);
    let limiter = limiter(Quota::per_hour(1), &pool);
    let own = limiter.entry().at(START);
    assert!(pool.check(own, 1).is_allowed());
    // Two units that are lent at a headroom of a half take half of the pool. The other half is four units at a headroom
    // of 1.
    for _ in 0..2 {
        assert!(pool.check(own, 1).is_borrowed());
    }
    pool.report_headroom(1.0).unwrap();
    assert_eq!(admitted(own, &pool, START), 4);
    // An hour refills the pool, at any headroom.
    pool.report_headroom(0.25).unwrap();
    let later = START + Duration::from_secs(3_600);
    assert_eq!(admitted(own, &pool, later), 1 + 2);
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
        let limiter = limiter(quota, &pool);
        let own = limiter.entry().at(Timestamp::from_nanos(u64::MAX));
        for cost in [1 << 62, u64::MAX, 1 << 62, 1, 1 << 33] {
            let _ = pool.check(own, cost);
        }
        assert!(pool.remaining() <= 1 << 62);
    }
}

#[test]
fn clients_share_one_pool_and_keep_their_own() {
    let pool = pool(Quota::per_hour(10), 1.0);
    let clients = [(); 4].map(|()| limiter(Quota::per_hour(5), &pool));
    let keyed = keyed::<str>(Quota::per_hour(5), 10, &pool);
    let ask = |own| admitted(own, &pool, START);
    assert_eq!(ask(clients[0].entry()), 15);
    assert!(clients[1..].iter().all(|client| ask(client.entry()) == 5));
    assert_eq!(["alice", "bob"].map(|key| ask(keyed.entry(key))), [5, 5]);
}

/// The client's own limit may be kept by a limiter of any kind.
#[test]
fn limits_with_a_quota_that_may_change_and_tiers_borrow_too() {
    let pool = pool(Quota::per_hour(10), 1.0);
    let live = Limiter::builder(Quota::per_hour(5)).clock(pool.clock()).changing().build().unwrap();
    let tiers = KeyedLimiter::builder(Quota::per_hour(2)).tier(Quota::per_hour(4));
    let tiers = tiers.clock(pool.clock()).build(10).unwrap();
    let ask = |own: Entry<'_>| {
        let answers = [(); 8].map(|()| pool.check(own.at(START), 1));
        let borrowed = answers.iter().filter(|answer| answer.is_borrowed()).count();
        (answers.iter().filter(|answer| answer.is_allowed()).count(), borrowed)
    };
    assert_eq!(ask(live.entry()), (8, 3));
    assert_eq!(ask(tiers.entry("alice").tier(1).unwrap()), (8, 4));
    assert_eq!(ask(tiers.entry("alice").tier(0).unwrap()), (2 + 3, 3));
}

#[test]
fn pools_and_the_limits_that_borrow_from_them_can_be_shared() {
    fn shareable<T: Send + Sync + std::fmt::Debug + 'static>() {}
    shareable::<SparePool>();
    shareable::<Limiter>();
    shareable::<KeyedLimiter<std::rc::Rc<str>>>();
    shareable::<Entry<'static>>();
    shareable::<ElasticDecision>();
    assert!(align_of::<SparePool>() >= 64);
}

#[test]
fn limiters_of_a_pool_have_its_clock() {
    let clock = ManualClock::new();
    let pool = SparePool::with_clock(Quota::per_minute(1), clock.clone());
    pool.report_headroom(1.0).unwrap();
    let limiter = limiter(Quota::per_minute(1), &pool);
    let keyed = keyed::<str>(Quota::per_minute(1), 10, &pool);
    let check = |own: Entry<'_>| pool.check(own, 1);
    let peek = |own: Entry<'_>| pool.peek(own, 1);
    let (one, key) = (limiter.entry(), || keyed.entry("key"));
    let now = |is: bool| assert!(is);
    now(!check(one).is_borrowed() && !check(key()).is_borrowed());
    now(peek(key()).is_borrowed() && peek(one).is_borrowed());
    now(check(key()).is_borrowed() && !check(one).is_allowed());
    clock.advance(Duration::from_secs(60));
    now(!check(one).is_borrowed() && check(one).is_borrowed());
    now(check(key()).is_allowed() && !check(key()).is_allowed());
}

/// One loan, with its time, its units and the headroom at that time in quarters.
#[derive(Debug)]
struct Loan {
    now_ns: u64,
    units: u64,
    quarters: u64,
}

/// The most by which the prices of the loans in any interval exceed `burst + rate * length`. It is in units times the
/// period in nanoseconds times 12, so that every price is a whole number.
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

    /// The bound also holds when time runs backward and when some loans are given back.
    #[test]
    fn no_interval_is_lent_more_than_the_pool_at_its_headroom(
        count in 1..20_u64,
        burst in 1..20_u64,
        steps in prop::collection::vec(
            (0..3_000_000_000_u64, 0..8_u64, 1..5_u64, 0..4_usize, 0..3_usize),
            1..80,
        ),
    ) {
        let quota = Quota::per(count, Duration::from_secs(10)).burst(burst);
        let pool = pool(quota, 1.0);
        // The clients have spent their own units, of which none comes back before the year 2100.
        let own = Quota::per(1, Duration::from_secs(100 * 365 * 86_400)).burst(5);
        let clients = [(); 3].map(|()| limiter(own, &pool));
        for client in &clients {
            assert!(pool.check(client.entry().at(START), 5).is_allowed());
        }
        let (mut now, mut quarters, mut loans) = (START, 4, Vec::new());
        for (passed_ns, report, units, back, returned) in steps {
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
            if returned == 0 {
                let denial = client.entry().at(now).check_n(units).into_result().unwrap_err();
                if let Some(loan) = pool.lend(&denial, Some(now)) {
                    pool.give_back(loan, Some(now + Duration::from_nanos(passed_ns / 2)));
                }
                continue;
            }
            let answer = pool.check(client.entry().at(now), units);
            prop_assert_eq!(answer.is_allowed(), answer.is_borrowed());
            if answer.is_borrowed() {
                prop_assert!(quarters > 0);
                loans.push(Loan { now_ns: now.as_nanos(), units, quarters });
            }
        }
        // The bound may be exceeded by one tick, which is at most a nanosecond long.
        let tick = 12 * i128::from(count + 1);
        prop_assert!(excess(&loans, quota) <= tick, "{loans:?}");
    }

    /// Every answer is compared with that of a limiter without a pool.
    #[test]
    fn without_headroom_it_is_the_hard_limit(
        text in 0..4_usize,
        steps in prop::collection::vec((0_u64..40_000, 0..7_u64, 0..3_u64, any::<bool>()), 1..80),
    ) {
        let text = ["gcra 6/m burst 5", "fixed-window 5/m", "sliding-window 5/m exact", "5/m"][text];
        let seeds = || RandomState::with_seeds(1, 2, 3, 4);
        let pool = pool(Quota::per_second(1_000), 0.0);
        let limiter = limiter(policy(text), &pool);
        let keyed = KeyedLimiter::builder(policy(text)).clock(pool.clock()).hasher(seeds()).build(1).unwrap();
        let hard = Limiter::builder(policy(text)).clock(ManualClock::new()).build();
        let hard_keyed =
            KeyedLimiter::builder(policy(text)).clock(ManualClock::new()).hasher(seeds()).build(1).unwrap();
        let mut now = START;
        for (passed_ms, cost, key, charge) in steps {
            now = now + Duration::from_millis(passed_ms);
            let elastic = [limiter.entry(), keyed.entry(&key)].map(|own| match charge {
                true => pool.check(own.at(now), cost),
                false => pool.peek(own.at(now), cost),
            });
            let plain = [hard.entry(), hard_keyed.entry(&key)].map(|own| match charge {
                true => own.at(now).check_n(cost),
                false => own.at(now).peek(cost),
            });
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
    let pool = SparePool::with_clock(Quota::per_hour(100), clock.clone());
    pool.report_headroom(1.0).unwrap();
    let limiter = limiter(Quota::per_hour(10), &pool);
    let own = limiter.entry();
    assert!(pool.check(own, 10).is_allowed());
    let borrowed = pool.check(own, 4);
    assert!(borrowed.is_borrowed());
    assert_eq!(own.refund(borrowed.into_result().unwrap()), 0);
    assert_eq!(own.peek(1).remaining(), 0);
}
