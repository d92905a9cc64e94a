//! The options for what happens at the limit also work in everything that uses a limit: requests under several limits,
//! reservations, leases, snapshots, and late requests. `crates/elastic/tests/at_limit.rs` tests elastic limits.

mod restart;

use std::time::Duration;

use crate::common::policy;
use tollgate::{
    Decision, Denial, DenialReason, Entry, KeyedLimiter, Limiter, ManualClock, Quota, Timestamp,
    check_all,
};

/// A whole number of hours, so that all times in these tests are whole ticks.
const START: Timestamp = Timestamp::from_secs(300 * 3_600);

fn limit(text: &str) -> Limiter {
    Limiter::builder(policy(text)).clock(ManualClock::new()).build()
}

fn table(text: &str) -> KeyedLimiter<str> {
    KeyedLimiter::builder(policy(text)).clock(ManualClock::new()).build(10).unwrap()
}

fn secs(secs: u64) -> Option<Duration> {
    Some(Duration::from_secs(secs))
}

fn later(secs: u64) -> Timestamp {
    START + Duration::from_secs(secs)
}

/// A limit in a `Limiter`, or of a key in a table. Both make the same promises.
enum One {
    Shared(Box<Limiter>),
    Keyed(Box<KeyedLimiter<str>>),
}

impl One {
    fn both(text: &str) -> [Self; 2] {
        [Self::Shared(Box::new(limit(text))), Self::Keyed(Box::new(table(text)))]
    }

    fn entry(&self) -> Entry<'_> {
        match self {
            Self::Shared(limiter) => limiter.entry(),
            Self::Keyed(limiter) => limiter.entry("key"),
        }
    }

    fn check(&self, cost: u64, now: Timestamp) -> Decision {
        self.entry().at(now).check_n(cost)
    }

    fn denied(&self, cost: u64, now: Timestamp) -> Denial {
        self.check(cost, now).into_result().unwrap_err()
    }

    fn peek(&self, cost: u64, now: Timestamp) -> Decision {
        self.entry().at(now).peek(cost)
    }

    /// Asks this limit and another limit for `cost` units each.
    fn and(&self, cost: u64, other: &Limiter, now: Timestamp) -> Result<(), Denial> {
        let mut claims = [self.entry().at(now).cost(cost), other.entry().at(now).cost(cost)];
        check_all(&mut claims).into_result().map_err(Denial::from)
    }

    fn reserve(&self, cost: u64, wait_s: u64, now: Timestamp) -> Result<(bool, Duration), Denial> {
        let place = self.entry().at(now).reserve(cost, Duration::from_secs(wait_s))?;
        Ok((place.permit().is_over(), place.wait()))
    }
}

#[test]
fn a_request_that_comes_too_late_to_be_told_changes_nothing() {
    // The times in these words have at least 128 ticks a nanosecond, so after 1,668 days a distance in ticks has more
    // than 64 bits.
    let rate = "gcra 500000000/s burst 1";
    let now = Timestamp::from_secs(2_000 * 86_400);
    for words in [
        "",
        "soft 100%",
        "count-denied",
        "count-denied 9ns",
        "penalty 1us after 2",
        "penalty 1us after 2 extended",
        "soft 100% count-denied penalty 1us after 2",
    ] {
        for early in (0..40).map(|bit| Timestamp::from_nanos(1 << bit)) {
            let full = |limiter: &KeyedLimiter<str>| {
                assert!(limiter.entry("key").at(now).take_up_to(9).is_allowed());
            };
            let [limiter, twin] = [(); 2].map(|()| table(&format!("{rate} {words}")));
            full(&limiter);
            full(&twin);
            assert_eq!(limiter.entry("key").at(early).charge(1), 1, "{words}");
            assert!(!limiter.entry("key").at(early).check().is_allowed(), "{words}");
            assert!(!limiter.entry("key").at(early).take_up_to(1).is_allowed(), "{words}");
            assert!(limiter.entry("key").at(early).reserve(1, Duration::ZERO).is_err(), "{words}");
            for _ in 0..4 {
                let [told, expected] =
                    [&limiter, &twin].map(|limiter| limiter.entry("key").at(now).check());
                assert_eq!(format!("{told:?}"), format!("{expected:?}"), "{words}");
            }
        }
    }
}

#[test]
fn a_charge_during_a_penalty_charges_nothing_and_says_so() {
    for limiter in One::both("gcra 4/m penalty 1m after 1") {
        assert!(limiter.check(4, START).is_allowed());
        assert_eq!(limiter.denied(1, START).reason(), DenialReason::Penalty);
        assert_eq!(limiter.entry().at(later(30)).charge(7), 7);
        assert_eq!(limiter.peek(0, later(60)).remaining(), 4);
    }
}

#[test]
fn under_several_limits_each_counts_its_own_denials() {
    let wide = limit("100/m");
    for limiter in One::both("gcra 2/m penalty 10m after 2") {
        assert!(limiter.check(2, START).is_allowed());
        let first = limiter.and(1, &wide, START).unwrap_err();
        assert_ne!(first.reason(), DenialReason::Penalty);
        let second = limiter.and(1, &wide, START).unwrap_err();
        assert_eq!(
            (second.reason() == DenialReason::Penalty, second.retry_after()),
            (true, secs(600))
        );
        // Now the first limit denies because of its penalty, and the other limit was not charged at all.
        assert!(limiter.and(1, &wide, later(599)).unwrap_err().reason() == DenialReason::Penalty);
        assert!(limiter.peek(2, later(600)).is_allowed());
        assert_eq!(wide.entry().at(START).peek(0).remaining(), 100);
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
    assert!(shut.entry().at(START).check().is_allowed());
    for limiter in One::both("gcra 5/m penalty 10m after 2") {
        for _ in 0..5 {
            assert!(limiter.and(1, &shut, START).unwrap_err().reason() != DenialReason::Penalty);
        }
        assert_eq!(limiter.peek(0, START).remaining(), 5);
        assert!(limiter.check(4, START).is_allowed());
        assert_ne!(limiter.denied(2, START).reason(), DenialReason::Penalty);
        assert!(limiter.and(1, &shut, START).is_err());
        assert_eq!(limiter.denied(2, START).reason(), DenialReason::Penalty);
    }
}

#[test]
fn a_request_to_several_limits_for_nothing_or_too_much_is_counted_by_none() {
    let wide = limit("100/m");
    for limiter in One::both("gcra 2/m penalty 10m after 1 extended") {
        assert!(limiter.check(2, START).is_allowed());
        assert!(limiter.and(0, &wide, START).is_ok());
        assert!(limiter.and(3, &wide, START).unwrap_err().reason() == DenialReason::NeverFits);
        assert_ne!(
            limiter.peek(1, START).into_result().unwrap_err().reason(),
            DenialReason::Penalty
        );
        assert_eq!(limiter.denied(1, START).reason(), DenialReason::Penalty);
        assert!(limiter.and(0, &wide, later(30)).is_err());
        let end = |now| limiter.peek(1, now).into_result().unwrap_err().retry_after();
        assert_eq!(end(later(30)), secs(570));
        // A denial by several limits also extends a penalty that is `extended`.
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
    assert_eq!(wide.entry().at(START).peek(0).remaining(), 100 - 12);
}

#[test]
fn a_key_that_is_named_twice_is_denied_once_for_the_second_part() {
    for limiter in One::both("gcra 2/h penalty 2h after 2") {
        assert!(limiter.check(1, START).is_allowed());
        let twice = check_all(&mut [(); 2].map(|()| limiter.entry().at(START).cost(1)));
        assert_eq!(twice.denied_by(), Some(1));
        assert_ne!(twice.into_result().unwrap_err().denial().reason(), DenialReason::Penalty);
        assert_eq!(limiter.denied(2, START).reason(), DenialReason::Penalty);
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
        assert_ne!(limiter.reserve(2, 1, START).unwrap_err().reason(), DenialReason::Penalty);
        // A reservation may ask for more units than ever fit at once, but its denial is not counted.
        for _ in 0..3 {
            assert_eq!(limiter.reserve(5, 1, START).unwrap_err().reason(), DenialReason::NeverFits);
        }
        assert_eq!(limiter.reserve(1, 0, START).unwrap_err().reason(), DenialReason::Penalty);
        // A penalty denies a reservation, however long the reservation would wait.
        let denial = limiter.reserve(1, 3, later(20)).unwrap_err();
        assert_eq!(
            (denial.reason() == DenialReason::Penalty, denial.retry_after()),
            (true, secs(60))
        );
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
    let deny = || {
        limiter.entry().at(START).check_n(4).into_result().unwrap_err().reason()
            == DenialReason::Penalty
    };
    let [permit, _] = [(); 2].map(|()| limiter.entry().at(START).check().into_result().unwrap());
    assert!(!deny());
    let place = limiter.entry().at(START).reserve(1, Duration::ZERO).unwrap();
    assert!(limiter.entry().at(START).cancel(place));
    assert!(!deny());
    // A refund is not an admission, so it does not reset the count of denials in a row.
    assert_eq!(limiter.entry().at(START).refund(permit), 1);
    assert!(deny());
}

#[test]
fn a_request_that_a_lease_passes_on_is_one_request() {
    let limiter = limit("gcra 4/h penalty 1h after 2");
    let mut lease = limiter.entry().lease(3).unwrap();
    assert!(lease.spend(3));
    // Three units are no longer left, but one is, so the renewed lease is smaller than the first.
    assert!(lease.check().is_ok());
    assert_ne!(lease.check().unwrap_err().reason(), DenialReason::Penalty);
    assert_eq!(lease.check().unwrap_err().reason(), DenialReason::Penalty);
    assert_eq!(limiter.entry().lease(1).unwrap_err().reason(), DenialReason::Penalty);
}

#[test]
fn units_in_a_lease_outlive_a_penalty_and_do_not_come_back_in_it() {
    let limiter = limit("gcra 4/h penalty 1h after 1");
    let mut lease = limiter.entry().at(START).lease(4).unwrap();
    assert_eq!(
        limiter.entry().at(START).check().into_result().unwrap_err().reason(),
        DenialReason::Penalty
    );
    assert!(lease.spend(1));
    limiter.entry().at(later(1)).refund(lease.into_unspent());
    assert_eq!(
        limiter.entry().at(later(3_599)).peek(1).into_result().unwrap_err().reason(),
        DenialReason::Penalty
    );
    assert_eq!(limiter.entry().at(later(3_600)).peek(0).remaining(), 4);
}

#[test]
fn a_lease_says_when_it_goes_beyond_what_a_soft_policy_names() {
    let limiter = limit("gcra 4/h soft 50%");
    let mut lease = limiter.entry().lease(3).unwrap();
    assert!(!lease.is_over() && lease.spend(3));
    // The lease has no units left. So the next check takes three more units, of which two are over the limit.
    assert!(lease.check().is_ok() && lease.is_over());
    assert_eq!(lease.left(), 2);
    assert!(lease.spend(2) && lease.check().is_err());
}

#[test]
fn a_quota_has_no_place_for_what_happens_at_the_limit_and_says_so() {
    // Stripes, logs and pools are built with a plain quota, not with such a policy.
    for words in ["soft 5%", "count-denied", "penalty 10m after 3"] {
        let told = format!("100/m {words}").parse::<Quota>().unwrap_err().to_string();
        let expected = format!("in policy \"100/m {words}\": a quota does not say what happens");
        assert!(told.starts_with(&expected), "{told}");
    }
}
