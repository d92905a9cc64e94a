//! The bound of keys with their own quotas: in any time T a key is admitted at most B + R * T. B is the largest burst
//! and R the highest rate of all quotas that its requests brought. Times run forward in some tests, and come in any
//! order in others.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::Permit;

use super::random::several;
use super::reference::{Rate, TICK, UNIT};
use super::{SECOND, START, started};

const KEYS: u64 = 3;

/// The admissions of a key with their times, and the bound that follows from the quotas that its requests brought.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    admitted: Vec<(u64, u64)>,
    per_ns: i128,
    burst: i128,
    /// A request may have been decided as if it came earlier by this much time.
    late_ns: u64,
}

impl Audit {
    pub(crate) fn asked(&mut self, rate: Rate) {
        self.per_ns = self.per_ns.max(rate.per_ns());
        self.burst = self.burst.max(i128::from(rate.burst) * UNIT);
    }

    pub(crate) fn admit(&mut self, at_ns: u64, units: u64) -> usize {
        self.admitted.push((at_ns, units));
        self.admitted.len() - 1
    }

    /// The largest amount by which an interval exceeds the bound, in parts of a unit.
    pub(crate) fn excess(&self) -> i128 {
        let mut admitted = self.admitted.clone();
        admitted.sort_unstable();
        let (mut before, mut least, mut worst) = (0, i128::MAX, i128::MIN);
        for (at_ns, units) in admitted {
            let flow = self.per_ns * i128::from(at_ns);
            least = least.min(before - flow);
            before += i128::from(units) * UNIT;
            let most = self.burst + self.per_ns * i128::from(self.late_ns);
            worst = worst.max(before - flow - least - most);
        }
        worst
    }
}

#[derive(Clone, Copy, Debug)]
enum Ask {
    Check(u64),
    UpTo(u64),
    /// A charge into debt. Nothing is promised about the units of a charge into debt, but the bound holds for the
    /// admitted ones.
    Charge(u64),
    Refund {
        nth: usize,
        part: u64,
    },
    ForgetQuotas,
}

fn asks() -> impl Strategy<Value = Ask> {
    prop_oneof![
        12 => prop_oneof![Just(1), 1_u64..=5, 1_u64..=41].prop_map(Ask::Check),
        3 => (1_u64..=41).prop_map(Ask::UpTo),
        1 => (1_u64..=41).prop_map(Ask::Charge),
        2 => (0_usize..9, 0_u64..40).prop_map(|(nth, part)| Ask::Refund { nth, part }),
        1 => Just(Ask::ForgetQuotas),
    ]
}

/// A request: its key, the number of its quota, its time in nanoseconds, and the call.
type Request = (u64, usize, u64, Ask);

fn requests(ns: impl Strategy<Value = u64>) -> impl Strategy<Value = Vec<Request>> {
    prop::collection::vec((0..KEYS, 0_usize..6, ns, asks()), 1..200)
}

/// Makes the requests and returns the audits of all keys. The times are steps of the clock or, if `is_late` is true,
/// instants in any order.
fn audits(rates: &[Rate], requests: &[Request], is_late: bool) -> Vec<Audit> {
    let (limiter, clock) = started(rates[0].quota());
    let start = clock.now();
    let mut audits: Vec<Audit> = (0..KEYS).map(|_| Audit::default()).collect();
    let mut permits: Vec<(u64, usize, Permit)> = Vec::new();
    for &(key, nth, ns, ask) in requests {
        let rate = rates[nth % rates.len()];
        let entry = limiter.entry(&key).under(rate.quota()).unwrap();
        let entry = if is_late {
            // The clock shows the latest time so far, as it would if the times were read from it.
            clock.set((start + Duration::from_nanos(ns)).max(clock.now()));
            entry.at(start + Duration::from_nanos(ns))
        } else {
            clock.advance(Duration::from_nanos(ns));
            entry
        };
        let at_ns = clock.now().as_nanos();
        let audit = &mut audits[usize::try_from(key).unwrap()];
        let permit = match ask {
            Ask::Check(cost) => entry.check_n(cost).into_result().ok(),
            Ask::UpTo(cost) => entry.take_up_to(cost).into_result().ok(),
            Ask::Charge(cost) => {
                let _ = entry.charge(cost);
                None
            }
            // A refund whose time is before another charge gives too much back, as its documentation says.
            Ask::Refund { nth, part } if !is_late => {
                let own: Vec<usize> = (0..permits.len()).filter(|&n| permits[n].0 == key).collect();
                if let Some(&n) = own.get(nth % own.len().max(1)) {
                    let (_, admission, permit) = permits.swap_remove(n);
                    let units = part.min(permit.cost());
                    audit.admitted[admission].1 -= entry.refund(permit.portion(units));
                }
                continue;
            }
            Ask::Refund { .. } => continue,
            Ask::ForgetQuotas => {
                let _ = limiter.forget_quotas();
                continue;
            }
        };
        audit.asked(rate);
        if is_late {
            audit.late_ns = audit.late_ns.max(at_ns - start.as_nanos() - ns);
        }
        if let Some(permit) = permit {
            permits.push((key, audit.admit(at_ns, permit.cost()), permit));
        }
    }
    audits
}

fn assert_bound(audits: &[Audit]) -> Result<(), TestCaseError> {
    for audit in audits.iter().filter(|audit| !audit.admitted.is_empty()) {
        let excess = audit.excess();
        prop_assert!(excess <= TICK, "{excess} of {UNIT} of a unit above: {audit:?}");
    }
    Ok(())
}

proptest! {
    #[test]
    fn no_interval_holds_more_than_the_bound_by_the_clock(
        rates in several(),
        requests in requests(prop_oneof![Just(0), 0..1_000_u64, 0..SECOND, 0..60 * SECOND, 0..4_000 * SECOND]),
    ) {
        assert_bound(&audits(&rates, &requests, false))?;
    }

    #[test]
    fn late_requests_add_no_more_to_the_bound_than_comes_back_while_the_latest_is_late(
        rates in several(),
        requests in requests(prop_oneof![0..SECOND, 0..60 * SECOND, 0..4_000 * SECOND]),
    ) {
        assert_bound(&audits(&rates, &requests, true))?;
    }

    #[test]
    fn requests_a_little_late_add_no_more_to_the_bound_than_that(
        rates in several(),
        requests in requests(prop_oneof![0..SECOND / 10, 0..3 * SECOND]),
    ) {
        assert_bound(&audits(&rates, &requests, true))?;
    }
}

#[test]
fn a_late_request_under_the_slower_quota_does_not_give_units_back() {
    // Forty units are spent under the fast quota at 1,002 s. Then one request under the slow quota comes at that time,
    // and another one comes late.
    let rates = [Rate::new(20, 1, 40), Rate::new(5, 3_600, 40)];
    let ask = |cost| Ask::Check(cost);
    let at = |seconds: u64| seconds * SECOND;
    let requests = [
        (0, 0, at(2), ask(39)),
        (0, 1, at(2), ask(1)),
        (0, 0, at(0), ask(40)),
        (0, 0, at(2), ask(1)),
    ];
    let audits = audits(&rates, &requests, true);
    assert_eq!(audits[0].admitted, [(START_2, 39), (START_2, 1)]);
}

const START_2: u64 = START.as_nanos() + 2 * SECOND;

/// Thirty units are admitted at 1,002 s under the slow quota. A request under the fast quota then comes with a time of
/// 1,000 s. If the debt were carried over as of that time, it would drain for two seconds at the fast rate before the
/// thirty units were admitted.
#[test]
fn a_late_request_under_a_faster_quota_does_not_drain_what_was_admitted_after_its_time() {
    let rates = [Rate::new(5, 3_600, 40), Rate::new(20, 1, 40)];
    let ask = |cost| Ask::Check(cost);
    let requests = [(0, 0, 2 * SECOND, ask(30)), (0, 1, 0, ask(1)), (0, 1, 2 * SECOND, ask(30))];
    let audits = audits(&rates, &requests, true);
    let units: u64 = audits[0].admitted.iter().map(|(_, units)| units).sum();
    assert!(units <= 40, "{:?}", audits[0].admitted);
}

#[test]
fn an_interval_above_the_bound_is_caught() {
    let mut audit = Audit::default();
    for rate in [Rate::new(30, 30, 30), Rate::new(30, 60, 7)] {
        audit.asked(rate);
    }
    for (at_s, units) in [(10, 30), (11, 1), (12, 1)] {
        let _ = audit.admit(at_s * SECOND, units);
    }
    assert_eq!(audit.excess(), 0);
    let _ = audit.admit(11 * SECOND + SECOND / 2, 1);
    assert_eq!(audit.excess(), UNIT);
}
