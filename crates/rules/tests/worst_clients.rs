//! The clients that a rule denies most.

use crate::common::World;
use tollgate_rules::{Descriptor, Request, RuleSettings, WorstClient};

const RULES: &str = "
domain: d
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: tried, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: all, value: '*', share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - key: plan
    descriptors:
      - {key: ip, rate_limit: {unit: hour, requests_per_unit: 1}}
";

fn world(worst_clients: bool) -> World {
    World::with(RULES, RuleSettings { worst_clients, ..RuleSettings::default() })
}

/// The worst clients of a rule, and the largest number of hits that each may have had.
fn told(world: &World, rule: usize) -> Vec<(String, u64)> {
    let worst = world.maker.cache().worst_clients(&world.rules().rules()[rule]).into_iter();
    worst.map(|one| (one.client, one.at_most)).collect()
}

fn ask(world: &World, entries: &[(&str, &str)], hits: u64) {
    let descriptors = [Descriptor { hits: Some(hits), ..Descriptor::new(entries) }];
    assert!(world.ask(&Request::new("d", &descriptors)).is_ok());
}

#[test]
fn clients_are_named_by_their_values_and_counted_by_denied_hits() {
    let world = world(true);
    for (user, hits) in [("alice", 1), ("alice", 1), ("bob", 5), ("carol", 1), ("bob", 0)] {
        ask(&world, &[("user", user)], hits);
        ask(&world, &[("tried", user)], hits);
        ask(&world, &[("all", user)], hits);
    }
    let expected = [("bob".to_owned(), 5), ("alice".to_owned(), 1)];
    assert_eq!(told(&world, 0), expected);
    // The rule `tried` is in shadow mode: its list counts the hits that it would have denied.
    assert_eq!(told(&world, 1), expected);
    // All clients share one limit, so there are no clients to name.
    assert_eq!(told(&world, 2), []);
    for ip in ["2001:db8:1:2::1", "2001:db8:1:2::2", "2001:db8:1:2::3"] {
        ask(&world, &[("plan", "a,b"), ("ip", ip)], 1);
    }
    assert_eq!(told(&world, 3), [("a%2Cb,2001:db8:1:2::".to_owned(), 2)]);
    // A load that keeps the rule keeps its lists.
    assert_eq!(world.load(RULES), Ok(()));
    assert_eq!(told(&world, 0), expected);
}

#[test]
fn nothing_is_kept_unless_it_is_asked_for() {
    let world = world(false);
    ask(&world, &[("user", "alice")], 5);
    assert_eq!(told(&world, 0), []);
}

/// This many rules, numbered from `from`.
fn many(from: usize, rules: usize) -> String {
    let rule = |n| format!("  - {{key: k{n}, rate_limit: {{unit: hour}}}}\n");
    let rules: String = (from..from + rules).map(rule).collect();
    format!("domain: d\ndescriptors:\n{rules}")
}

#[test]
fn a_rule_beyond_the_maximum_has_no_list_until_another_is_gone() {
    let most = WorstClient::MAX_RULES;
    let settings =
        RuleSettings { worst_clients: true, default_capacity: Some(1), ..RuleSettings::default() };
    let world = World::with(&many(0, most + 1), settings);
    let deny = |n: usize| ask(&world, &[(&format!("k{n}"), "x")], 1);
    (0..=most).for_each(deny);
    let named = |rule| told(&world, rule).len();
    let all: Vec<usize> = (0..=most).map(named).collect();
    assert_eq!(all, [vec![1; most], vec![0]].concat());
    // A rule that has lists keeps them.
    deny(0);
    deny(most);
    assert_eq!((told(&world, 0), named(most)), (vec![("x".to_owned(), 2)], 0));
    assert_eq!(world.load(&many(1, most)), Ok(()));
    assert_eq!(named(most - 1), 0, "it has missed what was before");
    deny(most);
    assert_eq!(told(&world, most - 1), [("x".to_owned(), 1)]);
}
