//! `soft`, `count-denied` and `penalty` on real threads. No interval admits more than the policy's bound, even while
//! denials write to the same word, and no key is admitted during its penalty.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate::{Decision, DenialReason, Limiter, ManualClock, Timestamp};

use crate::bound::excess;
use crate::common::policy;
use crate::gcra::audit_gcra;
use crate::limits::{direct, keyed};
use crate::run::{Admission, Random, rounds, run};

/// A policy that admits 105 units at once and 100,000 per second. 100 of the 105 are within its named limit.
const SOFT: &str = "gcra 100000/s burst 100 soft 5%";

/// Audits the bound of `gcra`, with the softened burst instead of the burst.
fn audit_soft<C: Fn(u64, u64, u64) -> Decision + Sync>(fresh: impl Fn() -> C) {
    let request = |random: &mut Random, n: u64| {
        (7, 1_000_000_000 + n * 1_000 + random.below(2_000_000), random.below(3) + 1)
    };
    let period_ns = 1_000_000_000;
    rounds(|decisions| {
        let (fresh, over) = (fresh(), AtomicU64::new(0));
        let check = |key, now_ns, cost| {
            let decision = fresh(key, now_ns, cost);
            // A permit that is over the limit leaves no unit of the limit that the policy names.
            if let Some(permit) = decision.permit() {
                assert!(!permit.is_over() || permit.remaining() == 0);
                over.fetch_add(permit.is_over().into(), Relaxed);
            }
            decision
        };
        let mut admissions = run(decisions, u64::MAX, request, check);
        // A unit may be admitted at most one tick early, which is 2^-8 of a unit.
        let above = excess(&mut admissions, 100_000, period_ns, 105);
        assert!(above <= period_ns / 256, "{above} of {period_ns} of a unit above the bound");
        // Some admissions must be over the named limit, because the limit is soft.
        assert!(over.into_inner() > 0);
        admissions.len()
    });
}

#[test]
fn a_soft_limit_never_exceeds_the_softened_bound_in_any_interval() {
    audit_soft(|| direct(SOFT));
    audit_soft(|| keyed(SOFT, 10));
}

#[test]
fn counting_denials_admits_no_more_than_the_limit_alone() {
    // Requests beyond the rate are charged too, so a key is admitted again only when it gets fewer requests.
    let request = |random: &mut Random, n: u64| {
        let now_ns = 1_000_000_000 + n * 20_000 + random.below(2_000_000);
        (random.below(40), now_ns, random.below(3) + 1)
    };
    let text = "gcra 10000/s burst 100 count-denied 5ms";
    audit_gcra(text, 1, || keyed(text, 100), request);
}

/// Two units a second, with a penalty of ten seconds after three denials in a row.
const PENALTY: &str = "gcra 2/s burst 2 penalty 10s after 3";
const PENALTY_NS: u64 = 10_000_000_000;

/// The threads wait for each other after each phase of `IN_STEP` requests. All requests of a phase have the same time,
/// so that the order of the threads does not change the right answers. Phases are seven seconds apart, so that every
/// second phase lies in the penalty of the phase before it.
const IN_STEP: u64 = 2_000;
const PHASE_NS: u64 = 7_000_000_000;

fn request(keys: u64) -> impl Fn(&mut Random, u64) -> (u64, u64, u64) + Sync {
    move |random, n| (random.below(keys), n / IN_STEP * PHASE_NS, 1)
}

/// The times at which each key's penalties began, computed from its denials: a penalty began `PENALTY_NS` before its
/// end.
type Begun = Mutex<BTreeMap<u64, Vec<u64>>>;

fn noted<'a>(
    check: impl Fn(u64, u64, u64) -> Decision + Sync + 'a,
    begun: &'a Begun,
) -> impl Fn(u64, u64, u64) -> Decision + Sync + 'a {
    move |key, now_ns, cost| {
        let decision = check(key, now_ns, cost);
        if let Decision::Denied(denial) = decision
            && denial.reason() == DenialReason::Penalty
        {
            let wait_ns = u64::try_from(denial.retry_after().unwrap().as_nanos()).unwrap();
            assert!(wait_ns <= PENALTY_NS);
            let begin_ns = now_ns + wait_ns - PENALTY_NS;
            let mut begun = begun.lock().unwrap();
            let of_key = begun.entry(key).or_default();
            // The denials of one penalty are consecutive, because the threads wait for each other.
            if of_key.last() != Some(&begin_ns) {
                of_key.push(begin_ns);
            }
        }
        decision
    }
}

/// Asserts that no admission of a key lies in a penalty of that key. At the very instant at which a penalty begins
/// there may be admissions that came before it.
fn outside_of_penalties(admissions: &mut [Admission], begun: &Begun) -> usize {
    admissions.sort_unstable();
    let begun = begun.lock().unwrap();
    assert!(!begun.is_empty());
    for of_key in admissions.chunk_by(|a, b| a.key == b.key) {
        let begins = begun.get(&of_key[0].key).map_or(&[][..], Vec::as_slice);
        for at_once in of_key.chunk_by(|a, b| a.now_ns == b.now_ns) {
            let now_ns = at_once[0].now_ns;
            assert!(at_once.len() <= 2, "{} at once", at_once.len());
            let inside = |&&begin_ns: &&u64| begin_ns < now_ns && now_ns < begin_ns + PENALTY_NS;
            let around = begins.iter().find(inside);
            assert_eq!(around, None, "admitted at {now_ns} in the penalty from there");
        }
    }
    admissions.len()
}

/// Asserts that nothing is admitted in phases 1, 3, 5, ... This holds for a key that gets enough requests in each even
/// phase to begin a penalty (burst 2 and three denials).
fn every_other_phase(admissions: &[Admission]) {
    for admission in admissions {
        assert_eq!(admission.now_ns / PHASE_NS % 2, 0, "{admission:?}");
    }
}

#[test]
fn no_request_is_admitted_during_a_penalty_and_every_request_after_it() {
    rounds(|count| {
        let begun = Begun::default();
        let mut admissions = run(count, IN_STEP, request(1), noted(direct(PENALTY), &begun));
        every_other_phase(&admissions);
        // In each of the remaining phases the whole burst is admitted before the third denial.
        let phases = (count / 4).div_ceil(IN_STEP).div_ceil(2);
        assert_eq!(admissions.len() as u64, 2 * phases);
        outside_of_penalties(&mut admissions, &begun)
    });
}

#[test]
fn no_key_of_many_is_admitted_during_its_penalty() {
    rounds(|count| {
        let begun = Begun::default();
        let check = noted(keyed(PENALTY, 1_000), &begun);
        let mut admissions = run(count, IN_STEP, request(700), check);
        outside_of_penalties(&mut admissions, &begun)
    });
}

#[test]
fn a_limit_that_forgets_its_penalties_is_caught() {
    let limiter = Limiter::builder(policy(PENALTY)).clock(ManualClock::new()).build();
    let plain = Limiter::builder(policy("gcra 2/s burst 2")).clock(ManualClock::new()).build();
    let begun = Begun::default();
    let check = |_, now_ns, cost| {
        let now = Timestamp::from_nanos(now_ns);
        let decision = limiter.entry().at(now).check_n(cost);
        // In one phase in four the limit answers as if it had no penalties.
        if now_ns / PHASE_NS % 4 == 3 { plain.entry().at(now).check_n(cost) } else { decision }
    };
    let mut admissions = run(100_000, IN_STEP, request(1), noted(check, &begun));
    let caught = std::panic::catch_unwind(move || outside_of_penalties(&mut admissions, &begun));
    assert!(caught.is_err());
}
