//! Rates that are too high to be counted exactly. Other services use such rates where there is to be no limit.

use tollgate_rules::{
    DecisionMaker, Descriptor, Lowered, Override, Request, RuleCache, RuleSettings, RuleText, Unit,
};

const MOST: u32 = 2_248_262_313;

fn loaded(text: &str) -> Result<(DecisionMaker, Vec<(u32, u32)>), String> {
    let cache = RuleCache::new(RuleSettings::default());
    let rules =
        cache.load(&[RuleText::new("a.yaml", text)]).map_err(|errors| errors[0].to_string())?;
    let numbers = |lowered: &Lowered| (lowered.asked(), lowered.counted());
    let lowered = rules.lowered().iter().map(numbers).collect();
    Ok((DecisionMaker::new(cache.into()).unwrap(), lowered))
}

fn rule(limit: &str) -> String {
    format!("{{domain: d, descriptors: [{{key: k, rate_limit: {{{limit}}}}}]}}")
}

#[test]
fn a_rate_that_is_too_high_is_counted_as_the_highest_that_is_exact_and_told() {
    for (limit, asked, counted) in [
        ("unit: second, requests_per_unit: 4294967295", u32::MAX, MOST),
        ("unit: second, requests_per_unit: 2248262314", MOST + 1, MOST),
        ("window: 100ms, requests_per_unit: 4294967295", u32::MAX, 224_826_231),
        ("unit: second, requests_per_unit: 4294967295, algorithm: fixed-window", u32::MAX, MOST),
    ] {
        let (maker, lowered) = loaded(&rule(limit)).unwrap();
        assert_eq!(lowered, [(asked, counted)], "{limit}");
        let descriptors = [Descriptor { hits: Some(5), ..Descriptor::new(&[("k", "v")]) }];
        let answer = maker.check(&Request::new("d", &descriptors)).unwrap();
        let status = &answer.statuses()[0];
        assert_eq!(status.limit.unwrap().requests_per_unit, counted, "{limit}");
        assert_eq!(status.remaining, u64::from(counted) - 5, "{limit}");
    }
}

#[test]
fn what_can_be_counted_is_not_lowered() {
    for limit in [
        "unit: second, requests_per_unit: 2248262313",
        "unit: minute, requests_per_unit: 4294967295",
        "unit: year, requests_per_unit: 4294967295",
        "unit: month, requests_per_unit: 4294967295, algorithm: calendar-month",
        "unit: second, requests_per_unit: 0",
    ] {
        assert_eq!(loaded(&rule(limit)).unwrap().1, [], "{limit}");
    }
}

#[test]
fn a_rate_that_is_too_high_for_another_algorithm_is_refused_with_the_users_number() {
    for algorithm in ["gcra", "sliding-window", "segmented-window x6", "sliding-log"] {
        let limit = format!("unit: second, requests_per_unit: 4294967295, algorithm: {algorithm}");
        let error = loaded(&rule(&limit)).map(|_| ()).unwrap_err();
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
    let cache = RuleCache::new(RuleSettings::default());
    let rules = cache.load(&[RuleText::new("a.yaml", text)]).unwrap();
    let told: Vec<String> = rules.lowered().iter().map(ToString::to_string).collect();
    let expected = |at: &str, asked: u32| {
        format!(
            "a.yaml:{at}: {asked} in 1s is too many to be counted exactly: {MOST} in 1s are counted, the most that can be"
        )
    };
    assert_eq!(told, [expected("2:7", u32::MAX), expected("8:13", 3_000_000_000)]);
}

#[test]
fn a_limit_that_comes_with_a_request_counts_over_the_whole_range_of_its_type() {
    let (maker, _) = loaded("domain: d").unwrap();
    let ask = |unit, hits| {
        let limit = Some(Override { requests_per_unit: u32::MAX, unit });
        let descriptors =
            [Descriptor { hits: Some(hits), limit, ..Descriptor::new(&[("k", "v")]) }];
        let answer = maker.check(&Request::new("d", &descriptors)).unwrap();
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
