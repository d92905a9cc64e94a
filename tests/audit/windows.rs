//! Windows. A fixed window never admits more than the limit in a window of the clock. A sliding window never admits
//! more than twice the limit less one in any interval of a window's length. If a key gets enough requests, its fullest
//! window holds no less than the limit.
//!
//! The threads enter each window together, so that no request is late for its window. The promise for late requests is
//! a different one.

use crate::limits::{direct, keyed};
use crate::run::{Admission, Random, rounds, run};

const WINDOW_NS: u64 = 1_000_000_000;

/// The number of requests that each thread makes in one window.
pub(crate) const IN_STEP: u64 = 5_000;

/// The limit of every policy in these tests.
pub(crate) const LIMIT: u64 = 100;

/// A request for one of `keys` keys, at a time within the window that its thread is in.
pub(crate) fn request(keys: u64) -> impl Fn(&mut Random, u64) -> (u64, u64, u64) + Sync {
    move |random, n| (random.below(keys), n / IN_STEP * WINDOW_NS + random.below(WINDOW_NS), 1)
}

/// Calls `check` with the admitted units of every key in every window of the clock.
pub(crate) fn in_each_window(admissions: &mut [Admission], check: impl Fn(u64)) -> usize {
    admissions.sort_unstable();
    let same = |a: &Admission, b: &Admission| {
        a.key == b.key && a.now_ns / WINDOW_NS == b.now_ns / WINDOW_NS
    };
    admissions.chunk_by(same).for_each(|window| check(window.iter().map(|a| a.cost).sum()));
    admissions.len()
}

/// The most units of one key that were admitted in any half-open interval of a window's length.
pub(crate) fn max_in_any_window(admissions: &mut [Admission]) -> u64 {
    max_within(admissions, WINDOW_NS)
}

/// The most units of one key that were admitted in any half-open interval of this length.
pub(crate) fn max_within(admissions: &mut [Admission], length_ns: u64) -> u64 {
    admissions.sort_unstable();
    let mut most = 0;
    for of_key in admissions.chunk_by(|a, b| a.key == b.key) {
        let (mut first, mut units) = (0, 0);
        for admission in of_key {
            units += admission.cost;
            while of_key[first].now_ns + length_ns <= admission.now_ns {
                units -= of_key[first].cost;
                first += 1;
            }
            most = most.max(units);
        }
    }
    most
}

const FIXED: &str = "fixed-window 100/s";
const SLIDING: &str = "sliding-window 100/s exact";

#[test]
fn a_fixed_window_admits_its_limit_and_no_more() {
    // There are 20,000 requests for one key in each window.
    rounds(|count| {
        let mut admissions = run(count, IN_STEP, request(1), direct(FIXED));
        in_each_window(&mut admissions, |units| assert_eq!(units, LIMIT))
    });
    rounds(|count| {
        let mut admissions = run(count, IN_STEP, request(1), keyed(FIXED, 10));
        in_each_window(&mut admissions, |units| assert_eq!(units, LIMIT))
    });
}

fn audit_fixed(keys: u64, capacity: usize) {
    rounds(|count| {
        let mut admissions = run(count, IN_STEP, request(keys), keyed(FIXED, capacity));
        in_each_window(&mut admissions, |units| assert!(units <= LIMIT, "{units}"))
    });
}

#[test]
fn fixed_windows_of_many_keys_admit_no_more_than_their_limit() {
    audit_fixed(150, 1_000);
}

#[test]
fn fixed_windows_in_a_storm_of_reclaims_admit_no_more_than_their_limit() {
    audit_fixed(190, 50);
}

#[test]
fn a_sliding_window_admits_no_more_than_its_bound_in_any_interval() {
    rounds(|count| {
        let mut admissions = run(count, IN_STEP, request(1), direct(SLIDING));
        let most = max_in_any_window(&mut admissions);
        assert!((LIMIT..2 * LIMIT).contains(&most), "{most}");
        admissions.len()
    });
    rounds(|count| {
        let mut admissions = run(count, IN_STEP, request(1), keyed(SLIDING, 10));
        let most = max_in_any_window(&mut admissions);
        assert!((LIMIT..2 * LIMIT).contains(&most), "{most}");
        admissions.len()
    });
}

fn audit_sliding(keys: u64, capacity: usize) {
    rounds(|count| {
        let mut admissions = run(count, IN_STEP, request(keys), keyed(SLIDING, capacity));
        let most = max_in_any_window(&mut admissions);
        assert!(most < 2 * LIMIT, "{most}");
        admissions.len()
    });
}

#[test]
fn sliding_windows_of_many_keys_admit_no_more_than_their_bound() {
    audit_sliding(150, 1_000);
}

#[test]
fn sliding_windows_in_a_storm_of_reclaims_admit_no_more_than_their_bound() {
    audit_sliding(190, 50);
}

/// A request at the current instant of its thread. Instants are a third of a window apart, and no request is late.
fn at_once(keys: u64) -> impl Fn(&mut Random, u64) -> (u64, u64, u64) + Sync {
    move |random, n| (random.below(keys), n / IN_STEP * (WINDOW_NS / 3), random.below(3) + 1)
}

/// Audits one limit, and keys in a table that is too small for all of them at once.
fn audit_other(text: &str, bounds: &[(u64, u64)]) {
    let within = |mut admissions: Vec<Admission>| {
        for &(length_ns, most) in bounds {
            let found = max_within(&mut admissions, length_ns);
            assert!(found <= most, "{text}: {found} in {length_ns} ns");
        }
        admissions.len()
    };
    rounds(|count| {
        within(run(count / 2, IN_STEP, at_once(1), direct(text)))
            + within(run(count / 2, IN_STEP, at_once(190), keyed(text, 50)))
    });
}

#[test]
fn a_strict_window_never_admits_more_than_its_limit_in_any_interval() {
    audit_other("sliding-window 100/s strict", &[(WINDOW_NS, LIMIT)]);
}

#[test]
fn a_share_that_is_rounded_down_keeps_its_bound_in_any_interval() {
    audit_other("sliding-window 100/s", &[(WINDOW_NS, 2 * LIMIT)]);
}

#[test]
fn segments_admit_no_more_than_their_bound_in_any_interval() {
    audit_other("segmented-window 100/s x4", &[(WINDOW_NS, 2 * LIMIT), (WINDOW_NS / 4 * 3, LIMIT)]);
}

#[test]
fn windows_from_the_first_request_admit_no_more_than_their_bound_in_any_interval() {
    audit_other("fixed-window 100/s from-first", &[(WINDOW_NS, 2 * LIMIT - 1)]);
}

#[test]
fn a_window_that_is_too_wide_is_caught() {
    let wider = || direct("fixed-window 101/s");
    let mut admissions = run(100_000, IN_STEP, request(1), wider());
    let caught = std::panic::catch_unwind(move || {
        in_each_window(&mut admissions, |units| assert!(units <= LIMIT, "{units}"))
    });
    assert!(caught.is_err());
    let mut admissions = run(100_000, IN_STEP, request(1), wider());
    assert!(max_in_any_window(&mut admissions) >= 101);
}
