//! What happens at the limit, in all that is built on a limit: requests under several, elastic limits,
//! reservations, leases, snapshots, and the latest of late requests.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use common::policy;
use tollgate::{
    Decision, Denial, ElasticKeyedLimiter, ElasticLimiter, KeyedLimiter, Limiter, ManualClock,
    PolicyError, Quota, RestoreError, SparePool, Timestamp, check_all_at,
};

/// A whole number of hours, so that all times below are whole ticks.
const START: Timestamp = Timestamp::from_secs(300 * 3_600);

fn limit(text: &str) -> Limiter {
    Limiter::with_clock(policy(text), ManualClock::new())
}

fn table(text: &str) -> KeyedLimiter<str> {
    KeyedLimiter::with_clock(policy(text), 10, ManualClock::new()).unwrap()
}

fn secs(secs: u64) -> Option<Duration> {
    Some(Duration::from_secs(secs))
}

fn later(secs: u64) -> Timestamp {
    START + Duration::from_secs(secs)
}

/// A limit of its own, or that of a key: the same promises for both.
enum One {
    Shared(Box<Limiter>),
    Keyed(Box<KeyedLimiter<str>>),
}

impl One {
    fn both(text: &str) -> [Self; 2] {
        [Self::Shared(Box::new(limit(text))), Self::Keyed(Box::new(table(text)))]
    }

    fn check(&self, cost: u64, now: Timestamp) -> Decision {
        match self {
            Self::Shared(limiter) => limiter.check_at(cost, now),
            Self::Keyed(limiter) => limiter.check_at("key", cost, now),
        }
    }

    fn denied(&self, cost: u64, now: Timestamp) -> Denial {
        self.check(cost, now).into_result().unwrap_err()
    }

    fn peek(&self, cost: u64, now: Timestamp) -> Decision {
        match self {
            Self::Shared(limiter) => limiter.peek_at(cost, now),
            Self::Keyed(limiter) => limiter.peek_at("key", cost, now),
        }
    }

    /// Asks this limit and another one for so many units each.
    fn and(&self, cost: u64, other: &Limiter, now: Timestamp) -> Result<(), Denial> {
        let toll = match self {
            Self::Shared(limiter) => limiter.toll(cost),
            Self::Keyed(limiter) => limiter.toll("key", cost),
        };
        check_all_at(&mut [toll, other.toll(cost)], now).into_result()
    }

    fn reserve(&self, cost: u64, wait_s: u64, now: Timestamp) -> Result<(bool, Duration), Denial> {
        let wait = Duration::from_secs(wait_s);
        let place = match self {
            Self::Shared(limiter) => limiter.reserve_at(cost, wait, now),
            Self::Keyed(limiter) => limiter.reserve_at("key", cost, wait, now),
        }?;
        Ok((place.permit().is_over(), place.wait()))
    }
}

#[test]
fn a_request_that_comes_too_late_to_be_told_changes_nothing() {
    // 128 ticks a nanosecond in these words, or more: after 1,668 days a distance has more than 64 bits.
    let rate = "gcra 500000000/s burst 1";
    let now = Timestamp::from_secs(2_000 * 86_400);
    for words in [
        "soft 100%",
        "count-denied",
        "count-denied 9ns",
        "penalty 1us after 2",
        "penalty 1us after 2 extended",
        "soft 100% count-denied penalty 1us after 2",
    ] {
        for early in (0..40).map(|bit| Timestamp::from_nanos(1 << bit)) {
            let full = |limiter: &KeyedLimiter<str>| {
                assert!(limiter.take_up_to_at("key", 9, now).is_allowed());
            };
            let [limiter, twin] = [(); 2].map(|()| table(&format!("{rate} {words}")));
            full(&limiter);
            full(&twin);
            assert_eq!(limiter.charge_at("key", 1, early), 1, "{words}");
            assert!(!limiter.check_at("key", 1, early).is_allowed(), "{words}");
            assert!(!limiter.take_up_to_at("key", 1, early).is_allowed(), "{words}");
            assert!(limiter.reserve_at("key", 1, Duration::ZERO, early).is_err(), "{words}");
            for _ in 0..4 {
                let [told, expected] =
                    [&limiter, &twin].map(|limiter| limiter.check_at("key", 1, now));
                assert_eq!(format!("{told:?}"), format!("{expected:?}"), "{words}");
            }
        }
    }
}

#[test]
fn a_charge_during_a_penalty_charges_nothing_and_says_so() {
    for limiter in One::both("gcra 4/m penalty 1m after 1") {
        assert!(limiter.check(4, START).is_allowed());
        assert!(limiter.denied(1, START).is_penalty());
        let uncharged = match &limiter {
            One::Shared(limiter) => limiter.charge_at(7, later(30)),
            One::Keyed(limiter) => limiter.charge_at("key", 7, later(30)),
        };
        assert_eq!(uncharged, 7);
        assert_eq!(limiter.peek(0, later(60)).remaining(), 4);
    }
}

#[test]
fn under_several_limits_each_counts_its_own_denials() {
    let wide = limit("100/m");
    for limiter in One::both("gcra 2/m penalty 10m after 2") {
        assert!(limiter.check(2, START).is_allowed());
        let first = limiter.and(1, &wide, START).unwrap_err();
        assert!(!first.is_penalty());
        let second = limiter.and(1, &wide, START).unwrap_err();
        assert_eq!((second.is_penalty(), second.retry_after()), (true, secs(600)));
        // Now also the question is answered so, and the other limit was never charged.
        assert!(limiter.and(1, &wide, later(599)).unwrap_err().is_penalty());
        assert!(limiter.peek(2, later(600)).is_allowed());
        assert_eq!(wide.peek_at(0, START).remaining(), 100);
    }
    for limiter in One::both("gcra 1/s burst 10 count-denied 4s") {
        assert!(limiter.check(10, START).is_allowed());
        let wait = || limiter.peek(1, START).into_result().unwrap_err().retry_after();
        assert_eq!(wait(), secs(1));
        assert_eq!(limiter.and(2, &wide, START).unwrap_err().retry_after(), secs(4));
        assert_eq!(wait(), secs(3));
    }
}

#[test]
fn a_denial_by_another_limit_is_none_of_ones_own_and_ends_no_row() {
    let shut = limit("1/d");
    assert!(shut.check_at(1, START).is_allowed());
    for limiter in One::both("gcra 5/m penalty 10m after 2") {
        for _ in 0..5 {
            assert!(!limiter.and(1, &shut, START).unwrap_err().is_penalty());
        }
        assert_eq!(limiter.peek(0, START).remaining(), 5);
        assert!(limiter.check(4, START).is_allowed());
        assert!(!limiter.denied(2, START).is_penalty());
        assert!(limiter.and(1, &shut, START).is_err());
        assert!(limiter.denied(2, START).is_penalty());
    }
}

#[test]
fn who_asks_several_limits_for_nothing_or_too_much_is_counted_by_none() {
    let wide = limit("100/m");
    for limiter in One::both("gcra 2/m penalty 10m after 1 extended") {
        assert!(limiter.check(2, START).is_allowed());
        assert!(limiter.and(0, &wide, START).is_ok());
        assert!(limiter.and(3, &wide, START).unwrap_err().is_never());
        assert!(!limiter.peek(1, START).into_result().unwrap_err().is_penalty());
        assert!(limiter.denied(1, START).is_penalty());
        assert!(limiter.and(0, &wide, later(30)).is_err());
        let end = |now| limiter.peek(1, now).into_result().unwrap_err().retry_after();
        assert_eq!(end(later(30)), secs(570));
        // An extended one is extended by a joint denial, too.
        assert!(limiter.and(1, &wide, later(30)).is_err());
        assert_eq!(end(later(30)), secs(600));
    }
}

#[test]
fn a_soft_limit_is_one_of_several_and_is_charged_beyond_what_it_names() {
    let wide = limit("100/m");
    for limiter in One::both("gcra 4/h soft 50%") {
        assert_eq!((0..9).filter(|_| limiter.and(1, &wide, START).is_ok()).count(), 6);
        assert!(!limiter.check(1, START).is_allowed());
    }
    assert_eq!(wide.peek_at(0, START).remaining(), 100 - 12);
}

#[test]
fn a_key_that_is_named_twice_is_denied_once_for_the_second_part() {
    for limiter in One::both("gcra 2/h penalty 2h after 2") {
        assert!(limiter.check(1, START).is_allowed());
        let twice = match &limiter {
            One::Shared(one) => check_all_at(&mut [one.toll(1), one.toll(1)], START),
            One::Keyed(one) => check_all_at(&mut [one.toll("key", 1), one.toll("key", 1)], START),
        };
        assert_eq!(twice.index(), Some(1));
        assert!(!twice.into_result().unwrap_err().is_penalty());
        assert!(limiter.denied(2, START).is_penalty());
    }
}

fn pool(quota: Quota) -> Arc<SparePool> {
    let pool = SparePool::with_clock(quota, ManualClock::new());
    pool.report_headroom(1.0).unwrap();
    Arc::new(pool)
}

/// What an elastic limit of one client, and one of keys, answer.
type Elastic = Box<dyn Fn(u64, Timestamp) -> (Option<bool>, Decision)>;

/// The limits of a policy that borrow from a pool of their own.
fn elastic(text: &str, quota: Quota) -> [(Arc<SparePool>, Elastic); 2] {
    let [shared_pool, keyed_pool] = [pool(quota), pool(quota)];
    let shared = ElasticLimiter::new(policy(text), Arc::clone(&shared_pool));
    let keyed = ElasticKeyedLimiter::<str>::new(policy(text), 10, Arc::clone(&keyed_pool)).unwrap();
    let told = |told: tollgate::ElasticDecision| {
        (told.is_allowed().then_some(told.is_borrowed()), told.decision())
    };
    let shared: Elastic = Box::new(move |cost, now| told(shared.check_at(cost, now)));
    let keyed: Elastic = Box::new(move |cost, now| {
        // A question counts nothing, whoever would answer it.
        let _ = keyed.peek_at("key", cost, now);
        told(keyed.check_at("key", cost, now))
    });
    [(shared_pool, shared), (keyed_pool, keyed)]
}

fn is_penalty(decision: Decision) -> bool {
    decision.into_result().unwrap_err().is_penalty()
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
        // The penalty over, the own quota is as never used.
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
fn an_elastic_limit_charges_what_the_pool_denies_and_not_what_it_lends() {
    for (_, check) in elastic("gcra 1/s burst 10 count-denied 4s", Quota::per_hour(2)) {
        assert_eq!(check(10, START).0, Some(false));
        // Two are lent; the figures are those of the own quota, which stays as it was.
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

#[test]
fn a_reservation_counts_from_the_softened_limit_and_is_marked() {
    for limiter in One::both("gcra 1/s burst 4 soft 50%") {
        let told: Vec<_> = [4, 2, 1].iter().map(|&cost| limiter.reserve(cost, 1, START)).collect();
        let second = Duration::from_secs(1);
        let expected = [(false, Duration::ZERO), (true, Duration::ZERO), (true, second)];
        assert_eq!(told.into_iter().map(Result::unwrap).collect::<Vec<_>>(), expected);
        assert!(limiter.reserve(1, 1, START).is_err());
    }
}

#[test]
fn a_denied_reservation_is_a_denial_and_a_penalty_reserves_nothing() {
    for limiter in One::both("gcra 1/s burst 4 penalty 60s after 2 extended") {
        assert_eq!(limiter.reserve(4, 0, START).unwrap().1, Duration::ZERO);
        assert!(!limiter.reserve(2, 1, START).unwrap_err().is_penalty());
        // More than ever fits at once may be reserved, but its denial is none.
        for _ in 0..3 {
            assert!(limiter.reserve(5, 1, START).unwrap_err().is_never());
        }
        assert!(limiter.reserve(1, 0, START).unwrap_err().is_penalty());
        // However long it would wait.
        let denial = limiter.reserve(1, 3, later(20)).unwrap_err();
        assert_eq!((denial.is_penalty(), denial.retry_after()), (true, secs(60)));
        assert!(limiter.reserve(4, 0, later(80)).is_ok());
    }
    for limiter in One::both("gcra 1/s burst 4 count-denied 3s") {
        assert_eq!(limiter.reserve(4, 0, START).unwrap().1, Duration::ZERO);
        assert!(limiter.reserve(2, 1, START).is_err());
        let denial = limiter.peek(1, START).into_result().unwrap_err();
        assert_eq!(denial.retry_after(), secs(3));
    }
}

#[test]
fn an_admission_ends_the_row_also_if_it_is_given_back() {
    let limiter = limit("gcra 4/h penalty 1h after 2");
    let deny = || limiter.check_at(4, START).into_result().unwrap_err().is_penalty();
    let [permit, _] = [(); 2].map(|()| limiter.check_at(1, START).into_result().unwrap());
    assert!(!deny());
    let place = limiter.reserve_at(1, Duration::ZERO, START).unwrap();
    assert!(limiter.cancel_at(place, START));
    assert!(!deny());
    // A refund is no admission: the row goes on.
    assert_eq!(limiter.refund_at(permit, START), 1);
    assert!(deny());
}

#[test]
fn a_request_that_a_lease_passes_on_is_one_request() {
    let limiter = limit("gcra 4/h penalty 1h after 2");
    let mut lease = limiter.lease(3).unwrap();
    assert!(lease.spend(3));
    // No three are left, but the one that was asked for.
    assert!(lease.check(1).is_ok());
    assert!(!lease.check(1).unwrap_err().is_penalty());
    assert!(lease.check(1).unwrap_err().is_penalty());
    assert!(limiter.lease(1).unwrap_err().is_penalty());
}

#[test]
fn units_in_a_lease_outlive_a_penalty_and_do_not_come_back_in_it() {
    let limiter = limit("gcra 4/h penalty 1h after 1");
    let mut lease = limiter.lease_at(4, START).unwrap();
    assert!(limiter.check_at(1, START).into_result().unwrap_err().is_penalty());
    assert!(lease.spend(1));
    lease.return_at(later(1));
    assert!(limiter.peek_at(1, later(3_599)).into_result().unwrap_err().is_penalty());
    assert_eq!(limiter.peek_at(0, later(3_600)).remaining(), 4);
}

#[test]
fn a_lease_says_when_it_goes_beyond_what_a_soft_policy_names() {
    let limiter = limit("gcra 4/h soft 50%");
    let mut lease = limiter.lease(3).unwrap();
    assert!(!lease.is_over() && lease.spend(3));
    // Three more, of which two are over; or as many as there are.
    assert!(lease.check(1).is_ok() && lease.is_over());
    assert_eq!(lease.left(), 2);
    assert!(lease.spend(2) && lease.check(1).is_err());
}

#[test]
fn a_quota_has_no_place_for_what_happens_at_the_limit_and_says_so() {
    // Stripes, logs and pools take a quota.
    for words in ["soft 5%", "count-denied", "penalty 10m after 3"] {
        match format!("100/m {words}").parse::<Quota>() {
            Err(PolicyError::Text { reason, .. }) => {
                assert!(reason.starts_with("a quota does not say what happens"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
}

const RULED: [&str; 7] = [
    "gcra 4/2s soft 50% count-denied penalty 10s after 3",
    "fixed-window 4/2s soft 50% penalty 10s after 3 extended",
    "fixed-window 4/2s from-first count-denied penalty 10s after 3",
    "sliding-window 4/2s count-denied penalty 10s after 3",
    "sliding-window 4/2s round-down soft 25% penalty 10s after 3",
    "sliding-window 4/2s strict penalty 10s after 3 extended",
    "segmented-window 4/2s x2 soft 50% count-denied penalty 10s after 3",
];

/// Decisions that end a row of denials, go on with one, and lie in a penalty: all that is told.
fn story(check: impl Fn(Timestamp) -> Decision) -> Vec<String> {
    [0, 0, 0, 3, 9, 10, 10, 11, 25].map(|second| format!("{:?}", check(later(second)))).to_vec()
}

#[test]
fn a_restart_forgets_neither_denials_nor_penalties() {
    let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(1_790_000_000);
    let clock = ManualClock::new();
    clock.set(START);
    for text in RULED {
        // After so many denials; three begin the penalty.
        for denials in 0..=4 {
            let limiter = Limiter::with_clock(policy(text), clock.clone());
            let keyed = KeyedLimiter::<str>::with_clock(policy(text), 10, clock.clone()).unwrap();
            let _ = (limiter.take_up_to(9), keyed.take_up_to("key", 9));
            for _ in 0..denials {
                assert!(!limiter.check(1).is_allowed() && !keyed.check("key", 1).is_allowed());
            }
            let (mut one, mut many) = (Vec::new(), Vec::new());
            limiter.snapshot_at(&mut one, wall).unwrap();
            keyed.snapshot_at(&mut many, wall).unwrap();
            let again = Limiter::restore_at(policy(text), clock.clone(), &one[..], wall).unwrap();
            assert_eq!(
                story(|now| again.check_at(1, now)),
                story(|now| limiter.check_at(1, now)),
                "{text} after {denials}"
            );
            let again =
                KeyedLimiter::<str>::restore_at(policy(text), clock.clone(), &many[..], wall);
            let again = again.unwrap();
            assert_eq!(
                story(|now| again.check_at("key", 1, now)),
                story(|now| keyed.check_at("key", 1, now)),
                "{text} after {denials}"
            );
        }
    }
}

#[test]
fn a_snapshot_is_of_its_words_for_the_limit_too() {
    let clock = ManualClock::new;
    let mut file = Vec::new();
    table("gcra 4/m penalty 1m after 3").snapshot(&mut file).unwrap();
    for other in ["gcra 4/m", "gcra 4/m penalty 1m after 2", "gcra 4/m penalty 1m after 3 extended"]
    {
        let refused = KeyedLimiter::<str>::restore(policy(other), clock(), &file[..]);
        assert!(matches!(refused, Err(RestoreError::Policy { .. })), "{other}");
    }
}

#[test]
fn a_policy_with_all_words_and_long_numbers_is_restored() {
    let text = "gcra 123456789/999999999999999999ns burst 123456788 soft 99.99% \
                count-denied 999999999999999999ns penalty 18446744073709551615ns \
                after 2147483647 extended";
    let limiter = limit(text);
    assert_eq!(policy(text).to_string(), text);
    assert!(text.len() > 150);
    assert!(limiter.check(123_456_789).is_allowed());
    let mut file = Vec::new();
    limiter.snapshot(&mut file).unwrap();
    let again = Limiter::restore(policy(text), ManualClock::new(), &file[..]).unwrap();
    assert_eq!(format!("{:?}", again.peek(7)), format!("{:?}", limiter.peek(7)));
}
