//! Shadow rules, quota rules, and their combined effect on one request.

use std::time::Duration;

use crate::common::{World, over_and_left};
use tollgate_rules::{Code, Descriptor, Override, Request, RuleSettings, Unit};

const RULES: &str = "
domain: d
descriptors:
  - {key: normal, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: wide, rate_limit: {unit: hour, requests_per_unit: 100}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: quota, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: large, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 2}}
";

fn codes(world: &World, keys: &[&str]) -> (Code, Vec<Code>) {
    let entries: Vec<[(&str, &str); 1]> = keys.iter().map(|key| [(*key, "x")]).collect();
    let descriptors: Vec<&[(&str, &str)]> = entries.iter().map(|entries| &entries[..]).collect();
    let answer = world.check("d", &descriptors);
    (answer.code(), answer.statuses().iter().map(|status| status.code).collect())
}

/// A world with these settings, and one with `compat` added.
fn worlds(settings: &RuleSettings) -> [World; 2] {
    [false, true].map(|compat| World::with(RULES, RuleSettings { compat, ..settings.clone() }))
}

#[test]
fn what_several_statuses_make_of_a_request() {
    use Code::{Ok, OverLimit as Over};
    for world in worlds(&RuleSettings::default()) {
        // Each key has one unit, which is spent here.
        for key in ["normal", "shadow", "quota"] {
            assert_eq!(codes(&world, &[key]), (Ok, vec![Ok]));
        }
        assert_eq!(codes(&world, &["normal"]), (Over, vec![Over]));
        assert_eq!(codes(&world, &["shadow"]), (Ok, vec![Ok]));
        assert_eq!(codes(&world, &["shadow", "normal"]), (Over, vec![Ok, Over]));
        assert_eq!(
            codes(&world, &["wide", "quota"]),
            (Over, vec![Ok, Over]),
            "all quota rules are over"
        );
        assert_eq!(codes(&world, &["normal", "large"]), (Over, vec![Over, Ok]));
        assert_eq!(codes(&world, &["quota", "large"]), (Ok, vec![Over, Ok]), "one has room");
        let counts = |path: &str| {
            let counts = world.counts(path);
            (counts.within_limit, counts.over_limit, counts.shadow)
        };
        assert_eq!(counts("shadow"), (1, 2, 2));
        assert_eq!(counts("normal"), (1, 3, 0));
    }
}

#[test]
fn a_quota_rule_that_is_over_is_left_out_of_what_is_charged() {
    let world = World::new(RULES);
    assert_eq!(codes(&world, &["quota"]).0, Code::Ok);
    let check = || {
        let entries: [&[(&str, &str)]; 3] =
            [&[("quota", "x")], &[("large", "x")], &[("wide", "x")]];
        over_and_left(&world.check("d", &entries))
    };
    assert_eq!(check(), [(true, 0), (false, 1), (false, 99)]);
    assert_eq!(check(), [(true, 0), (false, 0), (false, 98)]);
    assert_eq!(check(), [(true, 0), (true, 0), (false, 98)]);
}

#[test]
fn a_quota_rule_that_is_left_out_says_when_it_has_room_again() {
    let world = World::new(RULES);
    let check = || world.check("d", &[&[("quota", "x")], &[("large", "x")]]);
    assert_eq!(over_and_left(&check()), [(false, 0), (false, 1)]);
    let answer = check();
    assert_eq!((answer.code(), over_and_left(&answer)), (Code::Ok, vec![(true, 0), (false, 0)]));
    assert_eq!(answer.statuses()[0].retry_after, Some(Duration::from_secs(3_600)));
}

#[test]
fn a_quota_rule_that_loses_its_room_within_a_request_is_left_out_and_the_rest_is_charged() {
    let world = World::new(RULES);
    let large: &[(&str, &str)] = &[("large", "x")];
    let answer = world.check("d", &[large, large, large]);
    let over: Vec<bool> = answer.statuses().iter().map(|status| status.is_over).collect();
    assert_eq!((answer.code(), over.iter().filter(|over| **over).count()), (Code::Ok, 1));
    assert_eq!(over_and_left(&world.check("d", &[large])), [(true, 0)]);
}

#[test]
fn a_shadow_is_charged_as_if_it_counted_and_denies_no_request() {
    let world = World::new(RULES);
    let check = || over_and_left(&world.check("d", &[&[("shadow", "x")], &[("normal", "x")]]));
    assert_eq!(check(), [(false, 0), (false, 0)]);
    assert_eq!(check(), [(false, 0), (true, 0)]);
    let fresh = World::new(RULES);
    assert_eq!(codes(&fresh, &["normal"]).0, Code::Ok);
    let check = |keys: &[&str]| codes(&fresh, keys).0;
    assert_eq!(check(&["shadow", "normal"]), Code::OverLimit);
    let answer = fresh.check("d", &[&[("shadow", "x")]]);
    assert!(!answer.statuses()[0].is_over, "what was denied by another rule is not charged to it");
    assert!(fresh.check("d", &[&[("shadow", "x")]]).statuses()[0].is_over);
}

#[test]
fn global_shadow_denies_nothing_and_tells_what_would_be() {
    for world in worlds(&RuleSettings { global_shadow_mode: true, ..RuleSettings::default() }) {
        let would_be = || world.maker.cache().global_shadow_mode();
        assert_eq!(codes(&world, &["normal"]), (Code::Ok, vec![Code::Ok]));
        assert_eq!(would_be(), 0);
        for n in 1..=3 {
            assert_eq!(codes(&world, &["normal"]), (Code::Ok, vec![Code::OverLimit]));
            assert_eq!(would_be(), n);
        }
        // A cost of 0 is not counted.
        let descriptors = [Descriptor::new(&[("normal", "x")])];
        let peeked = world.maker.peek(&Request::new("d", &descriptors)).expect("a good request");
        assert_eq!((peeked.code(), would_be()), (Code::Ok, 3));
    }
    let world = World::new(RULES);
    assert_eq!(codes(&world, &["normal", "normal"]).0, Code::OverLimit);
    assert_eq!(world.maker.cache().global_shadow_mode(), 0, "it was denied");
}

#[test]
fn global_quota_denies_only_if_all_are_over() {
    use Code::{Ok, OverLimit as Over};
    for world in worlds(&RuleSettings { global_quota_mode: true, ..RuleSettings::default() }) {
        assert_eq!(codes(&world, &["normal", "wide"]), (Ok, vec![Ok, Ok]));
        assert_eq!(codes(&world, &["normal", "wide"]), (Ok, vec![Over, Ok]));
        assert_eq!(codes(&world, &["normal", "quota"]), (Ok, vec![Over, Ok]));
        assert_eq!(codes(&world, &["normal", "quota"]), (Over, vec![Over, Over]));
    }
}

#[test]
fn requests_that_no_file_has_a_domain_for_are_counted_and_questions_are_not() {
    for world in worlds(&RuleSettings::default()) {
        let cache = world.maker.cache();
        for n in 1..=3 {
            assert!(world.check("unknown", &[&[("normal", "x")], &[("wide", "x")]]).is_allowed());
            assert_eq!(cache.unknown_domains(), n);
        }
        let limit = Some(Override { requests_per_unit: 1, unit: Unit::Day });
        let descriptors = [Descriptor { limit, ..Descriptor::new(&[("normal", "x")]) }];
        assert!(world.maker.peek(&Request::new("unknown", &descriptors)).is_ok());
        assert_eq!(cache.unknown_domains(), 3);
        assert!(world.ask(&Request::new("unknown", &descriptors)).is_ok());
        assert_eq!(cache.unknown_domains(), 4, "whatever it brings");
        // A domain with rules is known even if none of them matches.
        assert_eq!(codes(&world, &["another"]), (Code::Ok, vec![Code::Ok]));
        assert_eq!(codes(&world, &["normal", "another"]), (Code::Ok, vec![Code::Ok; 2]));
        assert_eq!(cache.unknown_domains(), 4);
    }
}
