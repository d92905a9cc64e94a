//! Rates that are too high to be counted exactly. Other services use such rates where there is to be no limit.

use crate::common::{World, limit, refused};
use tollgate_rules::{Override, Problem, Purpose, RuleError, Unit};

const MOST: u32 = 2_248_262_313;

/// The rates that were asked for and could not be counted, and those that are counted in their place.
fn lowered(world: &World) -> Vec<(u32, u32)> {
    let numbers = |lowered: &RuleError| match lowered.problem {
        Problem::Lowered { asked, counted, .. } => (asked, counted),
        ref other => panic!("{other}"),
    };
    world.rules().lowered().iter().map(numbers).collect()
}

#[test]
fn a_rate_that_is_too_high_is_counted_as_the_highest_that_is_exact_and_told() {
    for (text, asked, counted) in [
        ("unit: second, requests_per_unit: 4294967295", u32::MAX, MOST),
        ("unit: second, requests_per_unit: 2248262314", MOST + 1, MOST),
        ("window: 100ms, requests_per_unit: 4294967295", u32::MAX, 224_826_231),
        ("unit: second, requests_per_unit: 4294967295, algorithm: fixed-window", u32::MAX, MOST),
    ] {
        let world = World::new(&limit(text));
        assert_eq!(lowered(&world), [(asked, counted)], "{text}");
        let status = world.take("d", "k", 5).statuses()[0];
        assert_eq!(status.limit.unwrap().requests_per_unit, counted, "{text}");
        assert_eq!(status.remaining, u64::from(counted) - 5, "{text}");
    }
}

#[test]
fn what_can_be_counted_is_not_lowered() {
    for text in [
        "unit: second, requests_per_unit: 2248262313",
        "unit: minute, requests_per_unit: 4294967295",
        "unit: year, requests_per_unit: 4294967295",
        "unit: month, requests_per_unit: 4294967295, algorithm: calendar-month",
        "unit: second, requests_per_unit: 0",
    ] {
        assert_eq!(lowered(&World::new(&limit(text))), [], "{text}");
    }
}

#[test]
fn a_rate_that_is_too_high_for_another_algorithm_is_refused_with_the_users_number() {
    for algorithm in ["gcra", "sliding-window", "segmented-window x6", "sliding-log"] {
        let text = format!("unit: second, requests_per_unit: 4294967295, algorithm: {algorithm}");
        let error = refused(limit(&text));
        assert!(error.contains("4294967295/s"), "{error}");
        assert!(error.contains("at most 2.2e9 units per second"), "{error}");
    }
}

#[test]
fn pools_and_stacked_limits_are_lowered_and_told_by_their_places() {
    let text = "domain: d\npool: {unit: second, requests_per_unit: 4294967295}\ndescriptors:\n  \
                - key: k\n    descriptors:\n      - key: l\n        limits:\n          \
                - {unit: second, requests_per_unit: 3000000000}\n          \
                - {unit: hour, requests_per_unit: 5}\n";
    let told: Vec<String> =
        World::new(text).rules().lowered().iter().map(ToString::to_string).collect();
    let expected = |at: &str, asked: u32| {
        format!(
            "test.yaml:{at}: {asked} in 1s is too many to be counted exactly: {MOST} in 1s are counted, the most that can be"
        )
    };
    assert_eq!(told, [expected("2:7", u32::MAX), expected("8:13", 3_000_000_000)]);
}

#[test]
fn a_limit_that_comes_with_a_request_counts_over_the_whole_range_of_its_type() {
    let world = World::new("domain: d");
    let ask = |unit, hits| {
        let limit = Override { requests_per_unit: u32::MAX, unit };
        let answer = world.decide_own(("d", "k"), limit, hits, Purpose::Check);
        let status = &answer.statuses()[0];
        (answer.is_allowed(), status.limit.unwrap().requests_per_unit, status.remaining)
    };
    for unit in Unit::ALL.into_iter().filter(|unit| *unit != Unit::Second) {
        assert_eq!(ask(unit, 3_000_000_000), (true, u32::MAX, 1_294_967_295), "{unit}");
        assert_eq!(ask(unit, 1_294_967_296), (false, u32::MAX, 1_294_967_295), "{unit}");
        assert_eq!(ask(unit, 1_294_967_295), (true, u32::MAX, 0), "{unit}");
    }
    // The answer reports the limit as it is counted.
    assert_eq!(ask(Unit::Second, 2_000_000_000), (true, MOST, 248_262_313));
}
