//! Giving back without a permit takes back units of any charges, and never leaves more units than an unused limit has.

use std::cell::Cell;
use std::time::Duration;

use tollgate::{KeyedLimiter, Limiter, ManualClock, Policy, Timestamp};

use crate::common::{each, policy};
use crate::give_back::{KEY, START, left, millis};

/// Numbers of a linear congruential generator (Knuth's multiplier).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

const WINDOWS: [&str; 7] = [
    "fixed-window 10/h",
    "fixed-window 10/h from-first",
    "sliding-window 10/h",
    "segmented-window 10/h x6",
    "calendar-month 10",
    "calendar-year 10",
    "calendar-week 10 from-sunday",
];

#[test]
fn units_come_back_without_a_permit_and_never_more_than_are_charged() {
    for policy in WINDOWS.into_iter().chain(["gcra 10/h"]) {
        each(policy, START, |entry, _, name| {
            assert_eq!(entry.uncharge(3), 0, "{policy} {name}: nothing was charged");
            assert!(entry.check_n(4).is_allowed() && entry.check_n(3).is_allowed());
            assert_eq!(entry.uncharge(5), 5, "{policy} {name}: of two charges");
            assert_eq!(left(entry), 8, "{policy} {name}");
            assert_eq!(entry.uncharge(u64::MAX), 2, "{policy} {name}");
            assert_eq!(left(entry), 10, "{policy} {name}");
            assert!(!entry.check_n(11).is_allowed(), "{policy} {name}: no more than unused");
        });
    }
    let log = policy("sliding-log 10/h");
    let (one, keyed) = (Limiter::new(log), KeyedLimiter::<u64>::new(log, 10).unwrap());
    for entry in
        [one.entry(), keyed.entry(&KEY), Limiter::builder(log).changing().build().unwrap().entry()]
    {
        assert!(entry.check_n(7).is_allowed());
        assert_eq!((entry.uncharge(5), entry.peek(1).remaining()), (5, 8));
        assert_eq!((entry.uncharge(9), entry.peek(1).remaining()), (2, 10));
    }
}

#[test]
fn of_a_window_that_is_over_nothing_comes_back_without_a_permit() {
    for policy in WINDOWS {
        each(policy, START, |entry, clock, name| {
            clock.set(Timestamp::from_secs(3_600));
            assert!(entry.check_n(7).is_allowed());
            // The time goes on to the next window or segment.
            let longest = Policy::parse(policy).unwrap().quota().period();
            clock.advance(longest);
            let remains = left(entry);
            assert_eq!(entry.uncharge(7), 0, "{policy} {name}");
            assert_eq!(
                left(entry),
                remains,
                "{policy} {name}: of a sliding one, what still counts"
            );
        });
    }
    let clock = ManualClock::new();
    let log = Limiter::builder(policy("sliding-log 10/h")).clock(clock.clone()).build();
    assert!(log.check_n(7).is_allowed());
    clock.advance(Duration::from_secs(3_600));
    assert_eq!(log.entry().uncharge(7), 0);
}

#[test]
fn what_is_owed_is_taken_back_debt_first_and_during_a_penalty_nothing() {
    each("gcra 10/h", START, |entry, clock, name| {
        assert_eq!(entry.charge(16), 0, "{name}");
        assert_eq!(entry.uncharge(5), 5, "{name}");
        assert_eq!(left(entry), 0, "{name}: one is still owed beyond the burst");
        clock.advance(Duration::from_secs(360));
        // Exactly ten units are still owed.
        assert_eq!((entry.uncharge(99), left(entry)), (10, 10), "{name}");
    });
    each("gcra 10/h penalty 1h after 1", START, |entry, _, name| {
        assert!(entry.check_n(10).is_allowed() && !entry.check().is_allowed());
        assert_eq!(entry.uncharge(10), 0, "{name}");
    });
}

#[test]
fn a_place_that_is_taken_back_is_admitted_at_its_turn_beside_what_fits_then() {
    each("gcra 1/s burst 10", START, |entry, clock, name| {
        assert!(entry.check_n(10).is_allowed(), "{name}");
        let place = entry.reserve(10, Duration::from_secs(10)).expect("it fits later");
        assert_eq!(entry.uncharge(20), 20, "{name}");
        assert!(entry.check_n(10).is_allowed(), "{name}");
        clock.advance(Duration::from_secs(10));
        assert!(place.ready_at() <= clock.now(), "{name}");
        assert_eq!(
            (entry.check_n(10).is_allowed(), entry.check().is_allowed()),
            (true, false),
            "{name}: ten beside the ten of the place, as many as were taken back of it"
        );
    });
}

/// The largest amount by which an interval of a random run exceeds its bound, the burst plus the units that come back
/// in the interval. The amount of an interval is the units admitted in it, less the units that were given back in it.
/// `counts` says how many of the latter are subtracted.
fn excess(policy: &str, counts: fn(u64) -> u64) -> i64 {
    let (rate, burst) = (10_i64, 10_i64);
    let signed = |units: u64| i64::try_from(units).unwrap();
    let most = Cell::new(i64::MIN);
    for seed in 1..40_u64 {
        each(policy, START, |entry, clock, _| {
            let (mut now, mut random) = (0_i64, Random(seed));
            // For each instant so far, the units admitted since then less those given back since then.
            let mut since: Vec<(i64, i64)> = Vec::new();
            for _ in 0..150 {
                let (what, units) = (random.below(4), random.below(7));
                since.push((now, 0));
                let gained = match what {
                    0 => -signed(counts(entry.uncharge(units))),
                    1 => {
                        clock.advance(millis(100 * units));
                        now += 100 * signed(units);
                        0
                    }
                    _ => signed(units) * i64::from(entry.check_n(units).is_allowed()),
                };
                for (begin, sum) in &mut since {
                    *sum += gained;
                    let back = (now - *begin) * rate / 1_000 + 1;
                    most.set(most.get().max(*sum - burst - back));
                }
            }
        });
    }
    most.get()
}

#[test]
fn in_any_interval_no_more_is_admitted_above_the_bound_than_was_given_back_in_it() {
    assert!(excess("gcra 10/s burst 10", |units| units) <= 0);
}

#[test]
fn what_is_given_back_and_not_counted_is_caught() {
    assert!(excess("gcra 10/s burst 10", |_| 0) > 0);
}
