//! The code against the reference model, decision by decision and answer by answer.
//!
//! The model (crates/oracle) is written from the definitions in unbounded integers and shares nothing
//! with the code. It is told how finely a word counts time, by the rule in the documentation.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use std::time::Duration;

use common::model::{LATEST_NS, duration, finest_quantum_ns, finest_tick, model, verdict};
use proptest::prelude::*;
use tollgate::{Algorithm, Decision, Meter, Policy, Quota, Timestamp, Word};

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
    (0..7_usize, period, count, burst, 2_u8..9).prop_filter_map(
        "refused",
        |(algorithm, period_ns, count, burst, segments)| {
            let algorithm = [
                Algorithm::Gcra,
                Algorithm::FixedWindow,
                Algorithm::FixedWindowFromFirst,
                Algorithm::SlidingWindow,
                Algorithm::SlidingWindowRoundDown,
                Algorithm::SlidingWindowStrict,
                Algorithm::SegmentedWindow { segments },
            ][algorithm];
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
        policy in any_policy(),
        start in prop_oneof![Just(0), 0_u64..LATEST_NS, Just(1_790_000_000_000_000_000)],
        requests in requests(),
        backward in any::<bool>(),
    ) {
        let meter = Meter::new(policy);
        let mut model = model(policy, finest_tick(policy.quota()), finest_quantum_ns(policy.quota().count()));
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
            let cost = fitting(cost, meter.limit());
            let now = Timestamp::from_nanos(now_ns);
            let peeked = meter.peek(word, now, cost);
            prop_assert_eq!(verdict(&peeked), model.peek(now_ns, cost));
            prop_assert_eq!(peeked.remaining(), model.remaining(now_ns));
            if let Decision::Denied(denial) = &peeked {
                let expected = model.retry_after(now_ns, cost).map(|ns| duration(&ns));
                let told = denial.retry_after();
                // Past the clock's end there is no first instant to name.
                if expected.is_none_or(|wait| now + wait < Timestamp::from_nanos(LATEST_NS)) {
                    prop_assert_eq!(told, expected, "{} at {} cost {}", policy, now_ns, cost);
                }
            }
            let (decision, next) = meter.check(word, now, cost);
            prop_assert_eq!(verdict(&decision), model.check(now_ns, cost), "{} at {}", policy, now_ns);
            word = next;
            prop_assert_eq!(decision.remaining(), model.remaining(now_ns));
            let reset = duration(&model.reset_after(now_ns));
            if now + reset < Timestamp::from_nanos(LATEST_NS) {
                prop_assert_eq!(decision.reset_after(), reset, "{} at {}", policy, now_ns);
            }
        }
    }

    /// What a policy prints it reads.
    #[test]
    fn a_policy_reads_what_it_prints(policy in any_policy()) {
        prop_assert_eq!(policy.to_string().parse::<Policy>().unwrap(), policy);
    }

    /// No text makes the parser panic, and what it takes it prints so that it takes it again.
    #[test]
    fn any_text_is_read_or_refused(text in "[a-z0-9/ .x-]{0,40}|\\PC{0,40}") {
        if let Ok(policy) = text.parse::<Policy>() {
            prop_assert_eq!(policy.to_string().parse::<Policy>().unwrap(), policy);
        }
    }
}
