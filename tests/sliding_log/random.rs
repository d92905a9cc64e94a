//! Random requests: answers as the model gives them, and the bound, whatever the times.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Decision, DenialReason, Quota, Timestamp};
use tollgate_oracle::Oracle;

use super::common::model::{LATEST_NS, duration, verdict};
use super::{keyed, log, oracle, told};

/// Quotas of a few units and of several rows of slots.
fn quotas() -> impl Strategy<Value = Quota> {
    let period_ns = prop_oneof![1_u64..100, Just(1_000_000_000), 1_u64..10_000_000_000_000];
    let count =
        prop_oneof![4 => 1_u64..12, 1 => 60_u64..70, 1 => 100_u64..600, 1 => 4_000_u64..5_000];
    (count, period_ns).prop_filter_map("too fast", |(count, period_ns)| {
        Quota::try_per(count, Duration::from_nanos(period_ns)).ok()
    })
}

/// Requests: thousandths of a period to go on by, a cost, a number that decides other things.
fn requests() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    let step = prop_oneof![4 => 0_u64..300, 1 => Just(0), 1 => Just(1_000), 1 => 900_u64..3_000];
    let cost = prop_oneof![4 => Just(1), 4 => 0_u64..4, 2 => 0_u64..6_000, 1 => Just(u64::MAX)];
    prop::collection::vec((step, cost, 0_u64..1_000_000), 1..80)
}

fn fitting(cost: u64, limit: u64) -> u64 {
    if cost == u64::MAX { cost } else { cost % (limit + 2) }
}

fn on(now_ns: u64, quota: Quota, step: u64, fine: u64) -> u64 {
    let period_ns = u64::try_from(quota.period().as_nanos()).unwrap();
    let step_ns = u128::from(period_ns) * u128::from(step) / 1_000;
    now_ns + u64::try_from(step_ns).unwrap() + fine % (period_ns / 10_000 + 1)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// With times that do not run backward: every answer, to the nanosecond.
    #[test]
    fn a_log_answers_as_the_model_does(
        quota in quotas(),
        start in prop_oneof![Just(0), 0_u64..LATEST_NS / 2],
        requests in requests(),
    ) {
        let (log, keyed, mut model) = (log(quota), keyed(quota, 5), oracle(quota));
        let mut now_ns = start;
        for (step, cost, fine) in requests {
            now_ns = on(now_ns, quota, step, fine);
            let (cost, now) = (fitting(cost, quota.count()), Timestamp::from_nanos(now_ns));
            let peeked = told(&log.entry().at(now).peek(cost));
            prop_assert_eq!(peeked.0, model.peek(now_ns, cost));
            prop_assert_eq!(peeked.1, model.remaining(now_ns));
            prop_assert_eq!(told(&keyed.entry(&1).at(now).peek(cost)), peeked);
            let checked = log.entry().at(now).check_n(cost);
            prop_assert_eq!(told(&keyed.entry(&1).at(now).check_n(cost)), told(&checked));
            let checked = told(&checked);
            prop_assert_eq!(checked.0, model.check(now_ns, cost));
            prop_assert_eq!(checked.1, model.remaining(now_ns));
            prop_assert_eq!(checked.2, duration(&model.reset_after(now_ns)));
            if let Some(wait) = checked.3 {
                let expected = model.retry_after(now_ns, cost).map(|ns| duration(&ns));
                prop_assert_eq!(wait, expected);
            }
        }
    }

    /// With times that run to and fro, by the list of all that was ever admitted: no window holds more than the
    /// limit; what fits that list is admitted; and the units and waits of decisions are right.
    #[test]
    fn whatever_the_times_no_window_holds_more_than_the_limit(
        quota in quotas(),
        requests in requests(),
    ) {
        let (log, limit) = (log(quota), quota.count());
        let window_ns = u64::try_from(quota.period().as_nanos()).unwrap();
        let (mut now_ns, mut list) = (3 * window_ns, Vec::<(u64, u64)>::new());
        for (step, cost, fine) in requests {
            now_ns = on(now_ns, quota, step, fine);
            if fine % 3 == 0 {
                now_ns = now_ns.saturating_sub(window_ns * (fine % 100) / 30);
            }
            let (cost, now) = (fitting(cost, limit), Timestamp::from_nanos(now_ns));
            let later: u64 = list
                .iter()
                .filter(|&&(at_ns, _)| at_ns + window_ns > now_ns)
                .map(|&(_, cost)| cost)
                .sum();
            match log.entry().at(now).check_n(cost) {
                Decision::Allowed(permit) => {
                    list.push((now_ns, cost));
                    let left = permit.remaining();
                    prop_assert!(log.entry().at(now).peek(left).is_allowed());
                    prop_assert!(!log.entry().at(now).peek(left + 1).is_allowed());
                }
                Decision::Denied(denial) => {
                    prop_assert!(later + cost.min(limit + 1) > limit);
                    let Some(wait) = denial.retry_after() else {
                        prop_assert!(cost > limit);
                        continue;
                    };
                    let just_before = wait - Duration::from_nanos(1);
                    prop_assert!(!log.entry().at(now + just_before).peek(cost).is_allowed());
                    prop_assert!(log.entry().at(now + wait).peek(cost).is_allowed());
                }
            }
            let reset = log.entry().at(now).peek(0).reset_after();
            prop_assert!(log.entry().at(now + reset).peek(limit).is_allowed());
            let before = now + reset.saturating_sub(Duration::from_nanos(1));
            prop_assert!(reset.is_zero() || !log.entry().at(before).peek(limit).is_allowed());
        }
        for &(from_ns, _) in &list {
            let window = from_ns..from_ns + window_ns;
            let units: u64 =
                list.iter().filter(|(at_ns, _)| window.contains(at_ns)).map(|&(_, cost)| cost).sum();
            prop_assert!(units <= limit, "{} in a window of {}", units, quota);
        }
    }

    /// Many keys in a table of few entries: each is decided as if it had a model of its own, and only keys
    /// whose model is idle are told that the table is full.
    #[test]
    fn each_key_of_a_crowded_table_has_a_log_of_its_own(
        limit in 1_u64..5,
        requests in prop::collection::vec((0_u64..40, 0_u64..30, 0_u64..6), 1..300),
    ) {
        let quota = Quota::per(limit, Duration::from_nanos(1_000));
        let (table, mut models) = (keyed(quota, 8), HashMap::<u64, Oracle>::new());
        let mut now_ns = 0;
        for (step, key, cost) in requests {
            now_ns += step;
            let model = models.entry(key).or_insert_with(|| oracle(quota));
            let decision = table.entry(&key).at(Timestamp::from_nanos(now_ns)).check_n(cost);
            let full = matches!(&decision, Decision::Denied(denial) if denial.reason() == DenialReason::TableFull);
            if full {
                prop_assert!(model.is_idle(now_ns));
            } else {
                prop_assert_eq!(verdict(&decision), model.check(now_ns, cost));
                prop_assert_eq!(decision.remaining(), model.remaining(now_ns));
            }
        }
    }

    /// The same with times to and fro: no window of a key holds more than its limit.
    #[test]
    fn no_key_of_a_crowded_table_exceeds_its_limit_in_any_window(
        limit in 1_u64..4,
        requests in prop::collection::vec((0_u64..300, 0_u64..20, 1_u64..4, 0_u64..1_500), 1..300),
    ) {
        let window_ns = 1_000;
        let table = keyed(Quota::per(limit, Duration::from_nanos(window_ns)), 4);
        let (mut now_ns, mut lists) = (0, HashMap::<u64, Vec<(u64, u64)>>::new());
        for (step, key, cost, back) in requests {
            now_ns += step;
            let at_ns = if back < 1_000 { u64::saturating_sub(now_ns, back) } else { now_ns };
            if table.entry(&key).at(Timestamp::from_nanos(at_ns)).check_n(cost).is_allowed() {
                lists.entry(key).or_default().push((at_ns, cost));
            }
        }
        for list in lists.values() {
            for &(from_ns, _) in list {
                let window = from_ns..from_ns + window_ns;
                let inside = list.iter().filter(|(at_ns, _)| window.contains(at_ns));
                let units: u64 = inside.map(|&(_, cost)| cost).sum();
                prop_assert!(units <= limit, "{:?}", list);
            }
        }
    }
}
