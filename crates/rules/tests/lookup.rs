//! The rule that a descriptor matches, in the search order of envoyproxy/ratelimit.

use crate::common::World;
use tollgate_rules::{Code, Descriptor, Override, Request, RuleSettings, Unit};

const NESTED: &str = "
domain: test-domain
descriptors:
  - key: key1
    value: value1
    descriptors:
      - key: subkey1
        rate_limit: {unit: second, requests_per_unit: 5}
      - key: subkey1
        value: subvalue1
        rate_limit: {unit: second, requests_per_unit: 10}
  - key: key2
    rate_limit: {unit: minute, requests_per_unit: 20}
  - key: key2
    value: value2
    rate_limit: {unit: minute, requests_per_unit: 30}
  - key: key2
    value: value3
  - key: key3
    rate_limit: {unit: hour, requests_per_unit: 1}
  - key: key4
    rate_limit: {name: key4_rate_limit, unit: day, requests_per_unit: 1}
  - key: key5
    value: value5
    rate_limit: {unit: day, requests_per_unit: 15}
    descriptors:
      - key: subkey5
        value: subvalue5
        rate_limit: {unit: day, requests_per_unit: 25}
  - key: key6
    rate_limit: {unlimited: true}
  - key: key7
    detailed_metric: true
    rate_limit: {unit: minute, requests_per_unit: 70}
";

#[test]
fn a_limit_counts_at_the_last_entry_and_there_is_no_way_back() {
    let world = World::new(NESTED);
    let finds = |entries: &[(&str, &str)]| world.finds("test-domain", entries);
    assert_eq!(finds(&[("key1", "something")]), None);
    assert_eq!(finds(&[("key1", "value1")]), None);
    assert_eq!(finds(&[("key2", "value2"), ("subkey", "subvalue")]), None);
    assert_eq!(finds(&[("key5", "value5"), ("subkey5", "subvalue")]), None);
    assert_eq!(finds(&[("key5", "value5")]), Some(15));
    assert_eq!(finds(&[("key5", "value5"), ("subkey5", "subvalue5")]), Some(25));
    assert_eq!(finds(&[]), None);
    assert_eq!(finds(&[("key1", "value1"), ("subkey1", "x")]), Some(5));
    assert_eq!(finds(&[("key1", "value1"), ("subkey1", "subvalue1")]), Some(10));
    assert_eq!(finds(&[("subkey1", "subvalue1"), ("key1", "value1")]), None);
    assert_eq!(finds(&[("key2", "x")]), Some(20));
    assert_eq!(finds(&[("key2", "")]), Some(20));
    assert_eq!(finds(&[("key2", "value2")]), Some(30));
    assert_eq!(finds(&[("key2", "value3")]), None);
    assert_eq!(finds(&[("key3", "x")]), Some(1));
    assert_eq!(finds(&[("key7", "abc")]), Some(70));
    assert_eq!(world.finds("unknown", &[("key3", "x")]), None);
}

#[test]
fn names_and_unlimited_rules_are_answered_as_such() {
    let world = World::new(NESTED);
    let answer =
        world.check("test-domain", &[&[("key4", "x")], &[("key6", "x")], &[("key7", "abc")]]);
    assert_eq!(answer.limit_name(0), Some("key4_rate_limit"));
    let [day, unlimited, detailed] = answer.statuses() else { panic!("three") };
    assert_eq!(day.limit.and_then(|limit| limit.unit), Some(Unit::Day));
    assert_eq!((unlimited.remaining, unlimited.limit), (4_294_967_295, None));
    assert_eq!(detailed.remaining, 69);
    // The path contains no text of the request. Counts by values are in the series.
    assert_eq!(answer.rule(2).map(|rule| rule.path()), Some("key7"));
}

#[test]
fn what_an_unlimited_rule_lets_pass_is_counted_for_it() {
    let world = World::new(NESTED);
    let answer = world.take("test-domain", "key6", 3);
    let rule = answer.rule(0).expect("the unlimited rule");
    assert_eq!((rule.path(), rule.is_unlimited()), ("key6", true));
    let counts = rule.counts();
    assert_eq!((counts.within_limit, counts.near_limit, counts.over_limit), (3, 0, 0));
}

#[test]
fn patterns_are_tried_in_the_order_of_the_file_after_exact_values() {
    let world = World::new(
        "
domain: d
descriptors:
  - {key: wild, value: 'foo*', rate_limit: {unit: minute, requests_per_unit: 20}}
  - {key: wild, value: 'foobar', rate_limit: {unit: minute, requests_per_unit: 21}}
  - {key: wild, value: 'fo*', rate_limit: {unit: minute, requests_per_unit: 22}}
  - {key: wild, rate_limit: {unit: minute, requests_per_unit: 23}}
  - {key: noWild, value: foo, rate_limit: {unit: minute, requests_per_unit: 24}}
  - key: nestedWild
    value: val1
    descriptors:
      - {key: wild, value: 'goo*', rate_limit: {unit: minute, requests_per_unit: 26}}
  - {key: 'any*', rate_limit: {unit: minute, requests_per_unit: 27}}
",
    );
    let finds = |key, value| world.finds("d", &[(key, value)]);
    assert_eq!([finds("wild", "foo1"), finds("wild", "foo")], [Some(20); 2]);
    assert_eq!(finds("wild", "foobar"), Some(21));
    assert_eq!(finds("wild", "fob"), Some(22));
    assert_eq!(finds("wild", "bar"), Some(23));
    assert_eq!([finds("noWild", "foo"), finds("noWild", "foo1")], [Some(24), None]);
    let nested = |value| world.finds("d", &[("nestedWild", value), ("wild", "goober")]);
    assert_eq!([nested("val1"), nested("val2")], [Some(26), None]);
    assert_eq!(finds("anything", "else"), Some(27));
}

#[test]
fn key_and_value_are_never_joined() {
    let world = World::new(
        "
domain: d
descriptors:
  - {key: a_b, value: c, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: a, value: b_c, rate_limit: {unit: minute, requests_per_unit: 2}}
",
    );
    assert_eq!(world.finds("d", &[("a_b", "c")]), Some(1));
    assert_eq!(world.finds("d", &[("a", "b_c")]), Some(2));
}

#[test]
fn clients_are_told_apart_by_what_a_rule_leaves_open() {
    let world = World::new(
        "
domain: d
descriptors:
  - key: one
    descriptors:
      - {key: two, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: each, value: 'p*', rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: shared, value: 'p*', share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: 'any*', rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: 'some*', value: 'p', rate_limit: {unit: hour, requests_per_unit: 1}}
",
    );
    let allowed = |entries: &[(&str, &str)]| world.check("d", &[entries]).is_allowed();
    assert!(allowed(&[("one", "a"), ("two", "bc")]));
    assert!(allowed(&[("one", "ab"), ("two", "c")]), "other parts of the same text");
    assert!(!allowed(&[("one", "a"), ("two", "bc")]));
    assert!(allowed(&[("each", "p1")]) && allowed(&[("each", "p2")]));
    assert!(allowed(&[("shared", "p1")]) && !allowed(&[("shared", "p2")]));
    for star in ["any", "some"] {
        let keys = ["1", "2"].map(|end| format!("{star}{end}"));
        for key in &keys {
            assert!(allowed(&[(key, "p")]) && !allowed(&[(key, "p")]), "{key}");
        }
    }
}

#[test]
fn a_rule_that_leaves_nothing_open_has_room_for_one_client_and_is_known_by_its_value() {
    let rule = |more: &str| format!("  - {{{more}, rate_limit: {{unit: hour}}}}\n");
    let rules: String = [
        "key: plan, value: gold",
        "key: plan, value: 'p*', share_threshold: true",
        "key: 'any*', value: 'q*', share_threshold: true",
        "key: user",
        "key: path, value: 'p*'",
        "key: 'some*', value: p",
    ]
    .map(rule)
    .concat();
    let settings = RuleSettings { default_capacity: Some(16), ..RuleSettings::default() };
    let world = World::with(&format!("domain: d\ndescriptors:\n{rules}"), settings);
    let rules = world.rules();
    let found: Vec<_> =
        rules.rules().iter().map(|rule| (rule.identity(), rule.capacity())).collect();
    assert_eq!(
        found,
        [
            ("plan=gold", 1),
            ("plan=p*", 1),
            ("any*=q*", 1),
            ("user", 16),
            ("path~p*", 16),
            ("some*~p", 16)
        ]
    );
}

#[test]
fn a_limit_that_comes_with_a_request_counts_in_place_of_any_rule() {
    let world = World::new(NESTED);
    let entries = [("key1", "value1"), ("subkey1", "something")];
    let with = |domain, requests_per_unit, unit| {
        let limit = Some(Override { requests_per_unit, unit });
        let descriptors = [Descriptor { limit, ..Descriptor::new(&entries) }];
        let answer = world.ask(&Request::new(domain, &descriptors)).expect("a good request");
        let status = answer.statuses()[0];
        (
            answer.code(),
            status.limit.map(|limit| (limit.requests_per_unit, limit.unit)),
            status.remaining,
        )
    };
    let day = Some((10, Some(Unit::Day)));
    assert_eq!(with("test-domain", 10, Unit::Day), (Code::Ok, day, 9));
    assert_eq!(with("test-domain", 42, Unit::Hour), (Code::Ok, Some((42, Some(Unit::Hour))), 41));
    // There is one count for all limits that come with requests, and no state for each limit.
    for requests in 11..=500 {
        let (code, _, left) = with("test-domain", requests, Unit::Day);
        assert_eq!((code, left), (Code::Ok, 9));
    }
    assert_eq!(with("test-domain", 10, Unit::Day), (Code::OverLimit, day, 0));
    assert_eq!(with("unknown", 10, Unit::Day), (Code::Ok, None, 0));
}
