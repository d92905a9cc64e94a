//! The code against the reference model, decision by decision and answer by answer.
//!
//! The model (crates/oracle) is written from the definitions in unbounded integers and shares nothing
//! with the code. It is told how finely a word counts time, by the rule in the documentation.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use std::time::Duration;

use common::model::{Grain, LATEST_NS, ceiling, model, tells_the_same, verdict};
use common::rules::{calendar_unit, ruled};
use proptest::prelude::*;
use tollgate::{Algorithm, Meter, Policy, Quota, Rounding, Timestamp, Word};

/// Every quota that a test might meet: short and long periods, small and large counts.
fn any_policy() -> impl Strategy<Value = Policy> {
    let period = prop_oneof![
        1_u64..100,
        Just(1_000_000_000),
        Just(60_000_000_000),
        1_u64..10_000_000_000_000,
        1_u64..u64::MAX,
    ];
    let count = prop_oneof![1_u64..20, 1_u64..5_000, 1_u64..4_000_000_000];
    let burst =
        prop_oneof![Just(None), (1_u64..20).prop_map(Some), (1_u64..1 << 40).prop_map(Some)];
    (0..8_usize, period, count, burst, 2_u8..9, calendar_unit()).prop_filter_map(
        "refused",
        |(algorithm, period_ns, count, burst, segments, unit)| {
            let algorithm = [
                Algorithm::Gcra,
                Algorithm::FixedWindow,
                Algorithm::FixedWindowFromFirst,
                Algorithm::SlidingWindow { rounding: Rounding::Exact },
                Algorithm::SlidingWindow { rounding: Rounding::Down },
                Algorithm::SlidingWindow { rounding: Rounding::Strict },
                Algorithm::SegmentedWindow { segments },
                Algorithm::Calendar(unit),
            ][algorithm];
            if let Algorithm::Calendar(unit) = algorithm {
                return Policy::calendar(unit, count).ok();
            }
            let segmented = matches!(algorithm, Algorithm::SegmentedWindow { .. });
            let period_ns =
                if segmented { period_ns.next_multiple_of(u64::from(segments)) } else { period_ns };
            let quota = Quota::try_per(count, Duration::from_nanos(period_ns)).ok()?;
            let quota = match burst {
                Some(burst) if algorithm == Algorithm::Gcra => quota.try_burst(burst).ok()?,
                _ => quota,
            };
            Policy::new(algorithm, quota).ok()
        },
    )
}

/// Requests whose times are near each other in units of the policy's own period, and anywhere.
fn requests() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    let step = prop_oneof![Just(0), 1_u64..1_000, 900_u64..1_100, 0_u64..5_000];
    let cost = prop_oneof![Just(1), 0_u64..4, Just(u64::MAX), 0_u64..1 << 40];
    prop::collection::vec((step, cost, 0..1_000_000_u64), 1..60)
}

/// A cost between 0 and a little above the limit, most often within it.
fn fitting(cost: u64, limit: u64) -> u64 {
    if cost == u64::MAX { cost } else { cost % (limit.saturating_add(2)) }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Also with times that run backward.
    #[test]
    fn the_pure_function_answers_as_the_model_does(
        policy in ruled(any_policy()),
        start in prop_oneof![Just(0), 0_u64..LATEST_NS, Just(1_790_000_000_000_000_000)],
        requests in requests(),
        backward in any::<bool>(),
    ) {
        let meter = Meter::new(policy).unwrap();
        prop_assert_eq!(meter.limit(), policy.quota().max_burst());
        let mut model = model(policy, Grain::finest(policy));
        let mut word = Word::UNUSED;
        let mut now_ns = start;
        let period_ns = u64::try_from(policy.quota().period().as_nanos()).unwrap();
        for (step, cost, fine) in requests {
            // Thousandths of a period, and a little noise below that.
            let step_ns = u128::from(period_ns) * u128::from(step) / 1_000;
            let step_ns = u64::try_from(step_ns).unwrap_or(u64::MAX);
            let step_ns = step_ns.saturating_add(fine % (period_ns / 1_000 + 2));
            now_ns = if backward && fine % 5 == 0 {
                now_ns.saturating_sub(step_ns)
            } else {
                now_ns.saturating_add(step_ns)
            }.min(LATEST_NS);
            let cost = fitting(cost, ceiling(policy));
            let now = Timestamp::from_nanos(now_ns);
            let peeked = meter.peek(word, now, cost);
            prop_assert_eq!(verdict(&peeked), model.peek(now_ns, cost));
            let over = model.is_over(now_ns, cost);
            let asked = (now_ns, cost);
            let told = tells_the_same(&peeked, &model, asked, over);
            prop_assert_eq!(told, Ok(()), "peek, {} at {} cost {}", policy, now_ns, cost);
            let (decision, next) = meter.check(word, now, cost);
            prop_assert_eq!(verdict(&decision), model.check(now_ns, cost), "{} at {}", policy, now_ns);
            word = next;
            let told = tells_the_same(&decision, &model, asked, over);
            prop_assert_eq!(told, Ok(()), "{} at {} cost {}", policy, now_ns, cost);
        }
    }

    /// What a policy prints is read as the same policy.
    #[test]
    fn a_policy_reads_what_it_prints(policy in ruled(any_policy())) {
        prop_assert_eq!(policy.to_string().parse::<Policy>().unwrap(), policy);
    }

    /// No text makes the parser panic, and a policy that it reads is printed so that it is read again.
    #[test]
    fn any_text_is_read_or_refused(
        text in "[a-z0-9/ .x-]{0,40}|\\PC{0,40}|9/s( (soft|count-denied|penalty|after|extended|[0-9]{1,3}(%|s|m|\\.[0-9]%)?)){0,6}",
    ) {
        if let Ok(policy) = text.parse::<Policy>() {
            prop_assert_eq!(policy.to_string().parse::<Policy>().unwrap(), policy);
        }
    }
}
