//! Random worlds: a table of a few cells, and keys that go back and forth between its cells and the spill.
//!
//! Each key is compared with a limit of its own that is charged for the same requests. A request is admitted only if
//! that limit would admit it, too. A key that waits as long as its denial says is admitted.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use common::{drawn, policy, seeds};
use proptest::prelude::*;
use tollgate::{Algorithm, Decision, DenialReason, KeyedLimiter, ManualClock, Policy, Timestamp};
use tollgate_model::{Plant, PolicyCase, TimeFineness};
use tollgate_oracle::Verdict;

const KEYS: u64 = 40;

/// A request for some fifths of the limit. Time first goes on by thousandths of a period; for this request alone it may
/// also go back.
#[derive(Clone, Copy, Debug)]
struct Request {
    on: u64,
    back: u64,
    key: u64,
    fifths: u64,
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let on = prop_oneof![6 => Just(0), 4 => 0_u64..30, 2 => 0_u64..400, 1 => 0_u64..4_000];
    let back = prop_oneof![8 => Just(0), 1 => 0_u64..1_500];
    let request = (on, back, 0..KEYS, 0_u64..6).prop_map(|(on, back, key, fifths)| Request {
        on,
        back,
        key,
        fifths,
    });
    prop::collection::vec(request, 1..400)
}

/// Policies whose words, of a cell and of the spill, count in known ticks.
fn policies() -> impl Strategy<Value = Policy> {
    drawn::<PolicyCase>().prop_filter_map("does not fit", |policy| {
        let policy = policy.policy()?;
        let (quota, period_ns) = (policy.quota(), policy.quota().period().as_nanos());
        let is_short = (1_000_000..1 << 46).contains(&period_ns);
        let is_known = quota.count() <= 200 && quota.max_burst() <= 400;
        let is_on_grid =
            !matches!(policy.algorithm(), Algorithm::FixedWindowFromFirst | Algorithm::Calendar(_));
        let table = KeyedLimiter::<u64>::new(policy, 1);
        (is_short && is_known && is_on_grid && table.is_ok()).then_some(policy)
    })
}

/// Compares a table for `capacity` keys under one policy with a separate limit for each key, under the other policy.
fn world(
    [policy, own]: [Policy; 2],
    capacity: usize,
    requests: &[Request],
) -> Result<u64, TestCaseError> {
    let table = KeyedLimiter::builder(policy)
        .clock(ManualClock::new())
        .hasher(seeds())
        .build(capacity)
        .unwrap();
    // The words of these quotas have ticks of 2^-12 units.
    let fineness = TimeFineness { tick: 12, quantum_ns: 1, end_quantum_ns: 1 };
    let own = fineness.model(own, Plant::Nothing);
    let mut own = vec![own; usize::try_from(KEYS).unwrap()];
    let is_gcra = policy.algorithm() == Algorithm::Gcra;
    let limit = table.entry(&0).at(Timestamp::default()).peek(0).limit();
    let thousandth_ns = u64::try_from(policy.quota().period().as_nanos()).unwrap() / 1_000;
    let mut latest_ns = 1_u64 << 50;
    for request in requests {
        latest_ns += thousandth_ns * request.on;
        // A window policy counts a late request in the window of the floor, which cannot be seen from outside. So its
        // times never go back here.
        let back_ns = if is_gcra { thousandth_ns * request.back } else { 0 };
        let now = Timestamp::from_nanos(latest_ns - back_ns);
        let cost = (limit * request.fifths / 5).max(1);
        let own = &mut own[usize::try_from(request.key).unwrap()];
        let peeked = table.entry(&request.key).at(now).peek(cost);
        let decision = table.entry(&request.key).at(now).check_n(cost);
        let told = format!("{policy} {request:?} at {now:?}: {decision:?}");
        // A check may first advance the floor, and so forget its own key. A peek must give the same answer.
        prop_assert_eq!(peeked.is_allowed(), decision.is_allowed(), "{}", told);
        prop_assert_eq!(peeked.is_spilled(), decision.is_spilled(), "{}", told);
        if decision.is_allowed() {
            prop_assert_eq!(own.check(now.as_nanos(), cost), Verdict::Allowed, "{}", told);
        }
        prop_assert!(decision.remaining() <= own.remaining(now.as_nanos()), "{told}");
        if let Decision::Denied(denial) = decision {
            if denial.reason() == DenialReason::TableFull {
                // The floor is more than an epoch ahead: a request that is so late cannot be decided.
                prop_assert!(back_ns > 0, "{told}");
                continue;
            }
            let then = now + denial.retry_after().unwrap();
            prop_assert!(table.entry(&request.key).at(then).peek(cost).is_allowed(), "{told}");
        }
    }
    Ok(table.stats().spilled)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_key_gets_more_than_a_limit_of_its_own_would_give(
        policy in policies(),
        capacity in 1_usize..12,
        requests in requests(),
    ) {
        world([policy, policy], capacity, &requests)?;
    }
}

/// Forty keys ask again and again for all that they can get.
fn greedy() -> Vec<Request> {
    let request = |n: u64| Request { on: n % 4, back: 0, key: n * 7 % KEYS, fifths: n % 5 + 1 };
    (0..4_000).map(request).collect()
}

#[test]
fn keys_that_come_and_go_are_decided_in_both() {
    for text in ["gcra 60/m burst 5", "sliding-window 60/m exact", "segmented-window 60/m x6"] {
        let policy = policy(text);
        let spilled = world([policy, policy], 1, &greedy()).unwrap();
        assert!((100..3_900).contains(&spilled), "{text}: {spilled}");
    }
}

#[test]
fn a_table_that_grants_one_unit_more_is_caught() {
    for [text, own] in
        [["gcra 60/m burst 5", "gcra 60/m burst 4"], ["fixed-window 60/m", "fixed-window 59/m"]]
    {
        let caught = world([policy(text), policy(own)], 1, &greedy());
        assert!(caught.is_err(), "{text}");
    }
}
