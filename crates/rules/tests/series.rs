//! Counts by values of requests (`detailed_metric`, `value_to_metric`).

use crate::common::World;
use tollgate_rules::{Descriptor, DescriptorEntry, Request, RuleCounts, RuleSettings};

/// The names and the hits of all series of all rules.
fn told(world: &World) -> Vec<(String, u64)> {
    let rules = world.rules();
    let series = rules.rules().iter().flat_map(|rule| rule.series());
    series.map(|one| (one.to_string(), one.counts().total())).collect()
}

fn named(rules: &str, asked: &[&[DescriptorEntry<'_>]]) -> Vec<String> {
    let world = World::new(&format!("domain: d\ndescriptors:\n{rules}"));
    for entries in asked {
        world.check("d", &[entries]);
    }
    let named = told(&world).into_iter().filter(|(name, hits)| *hits > 0 || name != "other");
    named.map(|(name, _)| name).collect()
}

const LIMIT: &str = "rate_limit: {unit: hour, requests_per_unit: 9}";

#[test]
fn detailed_metric_names_the_values_of_all_levels() {
    let flat = format!(
        "  - {{key: key1, detailed_metric: true, {LIMIT}}}\n  - {{key: key1, value: value1, {LIMIT}}}\n"
    );
    let asked: [&[DescriptorEntry<'_>]; 4] =
        [&[("key1", "b")], &[("key1", "a")], &[("key1", "value1")], &[("key1", "a")]];
    assert_eq!(named(&flat, &asked), ["key1_a", "key1_b"]);
    let nested = format!(
        "  - key: plan\n    value: 'pre*'\n    descriptors:\n      - key: user\n        descriptors:\n          \
         - {{key: path, detailed_metric: true, {LIMIT}}}\n"
    );
    let asked: [&[DescriptorEntry<'_>]; 2] = [
        &[("plan", "premium"), ("user", "alice"), ("path", "/a.b")],
        &[("plan", "pre"), ("user", ""), ("path", "/")],
    ];
    // As in envoyproxy/ratelimit, the `_` is there also if the value is empty.
    assert_eq!(
        named(&nested, &asked),
        ["plan_pre.user_.path_/", "plan_premium.user_alice.path_/a.b"]
    );
}

#[test]
fn value_to_metric_names_the_value_of_its_level_also_for_rules_below() {
    let nested = |first: &str, second: &str| {
        format!(
            "  - key: route\n    {first}\n    descriptors:\n      - key: http_method\n        {second}\n        \
             descriptors:\n          - {{key: subject_id, {LIMIT}}}\n"
        )
    };
    let asked: [&[DescriptorEntry<'_>]; 2] = [
        &[("route", "api"), ("http_method", "GET"), ("subject_id", "123")],
        &[("route", "web"), ("http_method", ""), ("subject_id", "456")],
    ];
    let shown = "value_to_metric: true";
    for (first, second, expected) in [
        (
            shown,
            shown,
            vec!["route_api.http_method_GET.subject_id", "route_web.http_method.subject_id"],
        ),
        ("", shown, vec!["route.http_method.subject_id", "route.http_method_GET.subject_id"]),
        (shown, "", vec!["route_api.http_method.subject_id", "route_web.http_method.subject_id"]),
        ("", "", vec![]),
    ] {
        assert_eq!(named(&nested(first, second), &asked), expected);
    }
}

#[test]
fn wildcards_are_named_by_the_value_and_what_shares_a_limit_by_the_pattern() {
    let of = |first: &str, second: &str| {
        format!(
            "  - key: route\n    value: 'api/*'\n    {first}\n    descriptors:\n      \
             - {{key: method, {second}{LIMIT}}}\n"
        )
    };
    let asked: [&[DescriptorEntry<'_>]; 2] =
        [&[("route", "api/v1"), ("method", "GET")], &[("route", "api/v2"), ("method", "")]];
    let (shared, shown, detailed) =
        ("share_threshold: true", "value_to_metric: true", "detailed_metric: true, ");
    let both = "share_threshold: true\n    value_to_metric: true";
    for (first, second, expected) in [
        (shown, "", vec!["route_api/v1.method", "route_api/v2.method"]),
        ("", detailed, vec!["route_api/v1.method_GET", "route_api/v2.method_"]),
        // All values share one limit, so there is only one name, and no series.
        (both, "", vec![]),
        (both, "value_to_metric: true, ", vec!["route_api/*.method", "route_api/*.method_GET"]),
        (shared, detailed, vec!["route_api/*.method", "route_api/*.method_GET"]),
        // `detailed_metric` takes effect, and `value_to_metric` does not.
        (shown, detailed, vec!["route_api/v1.method_GET", "route_api/v2.method_"]),
    ] {
        assert_eq!(named(&of(first, second), &asked), expected, "{first} {second}");
    }
    let ours = format!(
        "  - {{key: ip, cidr: 10.0.0.0/8, value_to_metric: true, {LIMIT}}}\n  \
         - {{key: 'h*', value_to_metric: true, {LIMIT}}}\n"
    );
    assert_eq!(named(&ours, &[&[("ip", "10.1.2.3")], &[("host", "a")]]), ["ip_10.1.2.3", "host_a"]);
}

const USERS: &str = "
domain: d
descriptors:
  - {key: user, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: other, value_to_metric: true, rate_limit: {unlimited: true}}
";

#[test]
fn a_series_counts_what_its_rule_counts_of_its_value() {
    let world = World::new(USERS);
    for (user, hits) in [("a", 3), ("a", 3), ("b", 5)] {
        let entries = [("user", user)];
        let descriptors = [Descriptor { hits: Some(hits), ..Descriptor::new(&entries) }];
        assert!(world.ask(&Request::new("d", &descriptors)).is_ok());
    }
    let rules = world.rules();
    let rule = &rules.rules()[0];
    let figures = |counts: RuleCounts| {
        let over = (counts.over_limit, counts.beyond_limit, counts.near_denied);
        (counts.within_limit, counts.near_limit, over)
    };
    let told: Vec<_> = rule.series().iter().map(|one| figures(one.counts())).collect();
    assert_eq!(told, [(0, 0, (0, 0, 0)), (3, 0, (3, 1, 1)), (5, 1, (0, 0, 0))]);
    assert_eq!(figures(rule.counts()), (8, 1, (3, 1, 1)));
    // For an empty value, the series of this unlimited rule would have the name `other`. Its hits are counted with
    // those that found no room.
    for value in ["", "x"] {
        world.check("d", &[&[("other", value)]]);
    }
    assert_eq!(told_of(&world, 1), [("other".into(), 1), ("other_x".into(), 1)]);
}

fn told_of(world: &World, rule: usize) -> Vec<(String, u64)> {
    let rules = world.rules();
    let series = rules.rules()[rule].series();
    series.iter().map(|one| (one.to_string(), one.counts().total())).collect()
}

/// Makes two requests of each of a thousand users. Returns the number of series, the hits in `other`, and the number of
/// descriptors that found no room.
fn after_a_thousand(max_series: usize) -> (usize, u64, u64) {
    let world = World::with(USERS, RuleSettings { max_series, ..RuleSettings::default() });
    for user in (0..1_000).chain(0..1_000) {
        world.check("d", &[&[("user", &user.to_string())]]);
    }
    let live = world.maker.cache().live_series();
    assert_eq!(told_of(&world, 0).len(), live + 1);
    let other =
        told_of(&world, 0).iter().filter(|(name, _)| name == "other").map(|(_, hits)| *hits).sum();
    (live, other, world.maker.cache().refused_series())
}

#[test]
fn there_are_no_more_series_than_the_maximum_and_further_hits_are_counted_as_other() {
    assert_eq!(after_a_thousand(100), (100, 1_800, 1_800));
    assert_eq!(after_a_thousand(0), (0, 2_000, 2_000));
}

#[test]
fn series_without_a_bound_are_caught() {
    assert_eq!(after_a_thousand(usize::MAX), (1_000, 0, 0));
}

#[test]
fn a_name_that_is_too_long_is_counted_as_other() {
    let world = World::new(USERS);
    for length in [251, 252, 1_000_000] {
        world.check("d", &[&[("user", &"x".repeat(length))]]);
    }
    let told = told_of(&world, 0);
    assert_eq!(told, [("other".into(), 2), (format!("user_{}", "x".repeat(251)), 1)]);
}

#[test]
fn threads_that_add_series_at_once_lose_no_hit_and_keep_the_maximum() {
    let world = World::with(USERS, RuleSettings { max_series: 100, ..RuleSettings::default() });
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for user in 0..2_000 {
                    world.check("d", &[&[("user", &(user % 200).to_string())]]);
                }
            });
        }
    });
    let told = told_of(&world, 0);
    assert_eq!((told.len(), world.maker.cache().live_series()), (101, 100));
    assert_eq!(told.iter().map(|(_, hits)| hits).sum::<u64>(), 8_000);
}

#[test]
fn series_stay_over_a_load_and_leave_with_their_rule_or_its_names() {
    let world = World::new(USERS);
    world.check("d", &[&[("user", "a")]]);
    assert_eq!(world.load(&USERS.replace("requests_per_unit: 5", "requests_per_unit: 6")), Ok(()));
    world.check("d", &[&[("user", "a")]]);
    assert_eq!(told_of(&world, 0), [("other".into(), 0), ("user_a".into(), 2)]);
    let others = USERS.replace("detailed_metric: true, ", "");
    assert_eq!(world.load(&others), Ok(()));
    assert_eq!((told_of(&world, 0), world.maker.cache().live_series()), (vec![], 0));
    // The counts of the rule itself continue.
    assert_eq!(world.counts("user").total(), 2);
}

#[test]
fn what_counts_no_hits_takes_no_room() {
    let world = World::new(USERS);
    for (key, user, hits, is_negative) in [
        ("user", "question", 0, false),
        ("user", "back", 3, true),
        ("other", "back", 3, true),
        ("user", "cost", 1, false),
    ] {
        let entries = [(key, user)];
        let descriptors =
            [Descriptor { hits: Some(hits), is_negative, ..Descriptor::new(&entries) }];
        world.ask(&Request::new("d", &descriptors)).expect("a good request");
    }
    let descriptors = [Descriptor::new(&[("user", "looked at")])];
    assert!(world.maker.peek(&Request::new("d", &descriptors)).is_ok());
    assert_eq!(world.maker.reset(&Request::new("d", &descriptors)), Ok(1));
    let cache = world.maker.cache();
    assert_eq!((cache.live_series(), cache.refused_series()), (1, 0));
    let expected = [("other", 0), ("user_cost", 1), ("other", 0)];
    assert_eq!(told(&world), expected.map(|(name, hits)| (name.to_owned(), hits)));
}
