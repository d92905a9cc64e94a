//! Limits that a store outside this process keeps: what the store is asked, and the meaning of its answers.

use std::time::Duration;

use crate::common::{Scripted, World, compat_is, over_and_left, with};
use tollgate::{Decision, Limiter, ManualClock, Policy};
use tollgate_rules::{
    Answer, Code, Descriptor, DescriptorEntry, LimitStore, Override, Purpose, Request, Rule,
    RuleClaim, StoreAnswer, Unit,
};

const RULES: &str = "
domain: d
descriptors:
  - {key: normal, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: quota, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: block, rate_limit: {unit: hour}}
  - {key: shadow_block, shadow_mode: true, rate_limit: {unit: hour}}
  - {key: quota_block, quota_mode: true, rate_limit: {unit: hour}}
  - key: stacked
    limits: [{unit: minute, requests_per_unit: 2}, {unit: hour, requests_per_unit: 9}]
";

/// The key whose descriptors come with a limit of 3.
const OWN: &str = "own";

/// The answer for these keys and hits.
#[track_caller]
fn decide(world: &World, store: &mut Scripted, purpose: Purpose, keys: &[(&str, u64)]) -> Answer {
    let entries: Vec<[DescriptorEntry<'_>; 1]> =
        keys.iter().map(|(key, _)| [(*key, "x")]).collect();
    let descriptor = |(n, (key, hits)): (usize, &(&str, u64))| {
        let own = Override { requests_per_unit: 3, unit: Unit::Hour };
        let limit = (*key == OWN).then_some(own);
        Descriptor { hits: Some(*hits), limit, ..Descriptor::new(&entries[n]) }
    };
    let descriptors: Vec<Descriptor<'_>> = keys.iter().enumerate().map(descriptor).collect();
    world.decide_in(store, &Request::new("d", &descriptors), purpose)
}

/// The call that a store gets for these keys and hits: its verb, and the rules and the costs of its claims.
#[track_caller]
fn asked(
    world: &World,
    purpose: Purpose,
    keys: &[(&str, u64)],
) -> (&'static str, Vec<(String, u64)>) {
    let mut store = Scripted::default();
    let _ = decide(world, &mut store, purpose, keys);
    assert_eq!(store.asked.len(), 1, "it is one call");
    store.asked.remove(0)
}

/// What a limit of 5 decides about one more unit if this many units are spent.
fn says(spent: u64) -> Decision {
    says_under("fixed-window 5/h", spent)
}

/// The same under this policy.
fn says_under(policy: &str, spent: u64) -> Decision {
    let policy: Policy = policy.parse().expect("a policy");
    let limiter = Limiter::builder(policy).clock(ManualClock::new()).build();
    let _ = limiter.check_n(spent);
    limiter.check()
}

/// The answer for one unit of each key, if the store says that these numbers of units of its limits are spent.
#[track_caller]
fn answer(world: &World, keys: &[&str], admitted: bool, spent: &[u64]) -> Answer {
    let keys: Vec<(&str, u64)> = keys.iter().map(|key| (*key, 1)).collect();
    decide(world, &mut answering(admitted, spent), Purpose::Check, &keys)
}

fn answering(admitted: bool, spent: &[u64]) -> Scripted {
    let answers = spent.iter().map(|spent| says(*spent).into()).collect();
    Scripted { admitted, answers, ..Scripted::default() }
}

#[test]
fn what_is_asked_elsewhere_is_each_rule_whose_limits_let_anything_pass() {
    let world = World::new(RULES);
    let all = ["normal", "free", OWN, "none", "shadow", "shadow_block", "stacked", "quota"];
    let keys: Vec<(&str, u64)> = all.iter().zip(1..).map(|(key, hits)| (*key, hits)).collect();
    let expected = [("normal", 1), (OWN, 3), ("shadow", 5), ("stacked", 7), ("quota", 8)];
    let expected: Vec<_> = expected.map(|(rule, cost)| (rule.to_owned(), cost)).into();
    assert_eq!(asked(&world, Purpose::Peek, &keys), ("look", expected.clone()));
    assert_eq!(asked(&world, Purpose::Check, &keys), ("charge together", expected.clone()));
    assert_eq!(asked(&world, Purpose::Charge, &keys), ("charge used", expected));
    // Two clients of a rule have two keys.
    let claim = |client| {
        let entries = [("normal", client)];
        let descriptors = [Descriptor::new(&entries)];
        let request = Request::new("d", &descriptors);
        let keys = world.maker.with_claims(&request, |claims| {
            claims.iter().map(|claim| claim.key().to_vec()).collect::<Vec<_>>()
        });
        keys.expect("a good request")
    };
    assert_eq!(claim("x").len(), 1);
    assert!(claim("x") == claim("x") && claim("x") != claim("y"));
}

#[test]
fn what_this_process_denies_is_not_charged_elsewhere() {
    for (keys, charges) in [
        (&[("normal", 1), ("block", 1)][..], false),
        (&[("normal", 1), ("block", 0)], true),
        (&[("normal", 1), ("shadow_block", 1)], true),
        (&[("normal", 1), ("quota_block", 1)], false),
        (&[("quota", 1), ("quota_block", 1)], true),
        (&[("normal", 1), (OWN, 4)], true),
    ] {
        let world = World::new(RULES);
        let verb = if charges { "charge together" } else { "look" };
        assert_eq!(asked(&world, Purpose::Check, keys).0, verb, "{keys:?}");
        assert_eq!(asked(&world, Purpose::Peek, keys).0, "look", "{keys:?}");
    }
}

#[test]
fn a_limit_that_comes_with_a_request_is_asked_elsewhere_like_those_of_rules() {
    let world = World::new(RULES);
    let keys = [(OWN, 1), ("normal", 1)];
    for (spent, left) in [(2, 2), (5, 0)] {
        let (admitted, is_over) = (spent < 5, spent == 5);
        let answer = decide(&world, &mut answering(admitted, &[spent, 1]), Purpose::Check, &keys);
        assert_eq!(over_and_left(&answer), [(is_over, left), (false, 3)]);
        // The answer shows the limit that came with the request.
        assert_eq!(answer.statuses()[0].limit.map(|limit| limit.requests_per_unit), Some(3));
        assert_eq!(answer.rule(0).map(Rule::path), None);
    }
    // A claim without an answer of the store is denied.
    let answer = decide(&world, &mut answering(true, &[]), Purpose::Check, &keys[..1]);
    assert_eq!((answer.code(), over_and_left(&answer)), (Code::OverLimit, vec![(true, 0)]));
}

#[test]
fn a_claim_of_a_limit_that_comes_with_a_request_names_it_its_client_and_the_rule_in_whose_place_it_is()
 {
    let world = World::new(RULES);
    let limit = Some(Override { requests_per_unit: u32::MAX, unit: Unit::Second });
    let (normal, other) = ([("normal", "x")], [("other", "a,b"), ("z", "")]);
    let descriptors = [
        Descriptor { limit, ..Descriptor::new(&normal) },
        Descriptor { limit, ..Descriptor::new(&other) },
    ];
    let found = world.maker.with_claims(&Request::new("d", &descriptors), |claims| {
        let found = claims.iter().map(|claim| {
            let most = claim.own_limit().map(|limit| limit.requests_per_unit);
            let path = claim.rule().map(|rule| rule.path().to_owned());
            (claim.client(), most, path, claim.is_shadow(), claim.is_quota())
        });
        found.collect::<Vec<_>>()
    });
    let most = Some(2_248_262_313);
    assert_eq!(
        found.expect("a good request"),
        [
            ("d,normal,x".to_owned(), most, Some("normal".to_owned()), false, false),
            ("d,other,a%2Cb,z,".to_owned(), most, None, false, false),
        ]
    );
}

#[test]
fn an_answer_tells_what_each_limit_has_said() {
    let world = World::new(RULES);
    let admitted = answer(&world, &["normal", "shadow"], true, &[1, 5]);
    assert_eq!(admitted.code(), Code::Ok);
    assert_eq!(over_and_left(&admitted), [(false, 3), (false, 0)]);
    assert!(!admitted.statuses()[0].is_over && admitted.statuses()[1].is_over);
    let denied = answer(&world, &["shadow", "normal", "block"], false, &[1, 5]);
    assert_eq!(over_and_left(&denied), [(false, 3), (true, 0), (true, 0)]);
    assert_eq!(denied.statuses()[1].retry_after, Some(Duration::from_secs(3_600)));
    // The request passes if one of its rules in quota mode has room.
    let quota = answer(&world, &["quota", "quota"], true, &[5, 2]);
    assert_eq!((quota.code(), over_and_left(&quota)), (Code::Ok, vec![(true, 0), (false, 2)]));
    let quota = answer(&world, &["quota", "quota"], false, &[5, 5]);
    assert_eq!(quota.code(), Code::OverLimit);
    // Of all limits of a rule, the limit that denies is reported.
    let stacked = answer(&world, &["stacked"], false, &[1, 5]).statuses()[0];
    assert_eq!(
        (stacked.is_over, stacked.limit.map(|limit| limit.unit)),
        (true, Some(Some(Unit::Hour)))
    );
}

#[test]
fn what_is_said_of_a_request_is_counted_and_what_is_only_asked_is_not() {
    let world = World::new(RULES);
    let _ = answer(&world, &["normal"], true, &[1]);
    let denied = answer(&world, &["normal"], false, &[5]);
    let _ = decide(&world, &mut answering(false, &[5]), Purpose::Peek, &[("normal", 1)]);
    let counts = denied.rule(0).expect("a rule").counts();
    assert_eq!((counts.within_limit, counts.over_limit), (1, 1));
    assert_eq!(world.maker.cache().unknown_domains(), 0);
}

#[test]
fn a_denial_to_which_each_limit_had_room_is_told_of_the_first_that_can_deny() {
    let world = World::new(RULES);
    let met = answer(&world, &["shadow", "normal", "normal"], false, &[1, 2, 3]);
    assert_eq!(met.code(), Code::OverLimit);
    let told: Vec<_> =
        met.statuses().iter().map(|status| (status.is_over, status.retry_after)).collect();
    assert_eq!(told, [(false, None), (true, Some(Duration::ZERO)), (false, None)]);
    // If only one limit had no room, only that limit is reported as over.
    let denied = answer(&world, &["normal", "normal"], false, &[1, 5]);
    assert_eq!(over_and_left(&denied), [(false, 3), (true, 0)]);
}

#[test]
fn a_limit_of_which_nothing_is_said_denies() {
    let world = World::new(RULES);
    for hits in [0, 1] {
        let keys = [("normal", hits), ("stacked", hits)];
        let answer = decide(&world, &mut answering(true, &[0, 0]), Purpose::Check, &keys);
        assert_eq!(answer.code(), Code::OverLimit);
        assert_eq!(over_and_left(&answer), [(false, 4), (true, 0)], "{hits}");
    }
}

#[test]
fn a_store_gets_units_back_first_then_used_costs_and_then_the_rest_together() {
    let rules = "
domain: d
descriptors:
  - {key: normal, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: used, usage: true, rate_limit: {unit: hour, requests_per_unit: 5}}
";
    let (normal, used) = ([("normal", "x")], [("used", "x")]);
    let descriptors = [
        Descriptor::new(&normal),
        Descriptor { hits: Some(7), ..Descriptor::new(&used) },
        Descriptor { hits: Some(2), is_negative: true, ..Descriptor::new(&normal) },
    ];
    let request = Request::new("d", &descriptors);
    let asked = |compat, purpose, spent| {
        let world = World::with(rules, compat_is(compat));
        let mut store = answering(true, &[spent; 3]);
        let answer = world.decide_in(&mut store, &request, purpose);
        let verbs = store.asked.into_iter().map(|(verb, claims)| {
            let names = claims.into_iter().map(|(name, cost)| format!("{name} {cost}"));
            format!("{verb}: {}", names.collect::<Vec<_>>().join(", "))
        });
        (answer.is_allowed(), verbs.collect::<Vec<_>>().join("; "))
    };
    let first = "give back: normal 2; look: used 7; charge used: used 7; ";
    for (compat, purpose, spent, is_allowed, calls) in [
        (false, Purpose::Check, 1, true, [first, "charge together: normal 1"]),
        // The used cost has denied the request, so the rest is only looked at.
        (false, Purpose::Check, 5, false, [first, "look: normal 1"]),
        (true, Purpose::Check, 1, true, [first, "charge together: normal 1"]),
        (true, Purpose::Check, 5, false, [first, "charge together: normal 1; count denied: x 1"]),
        (
            false,
            Purpose::Charge,
            5,
            true,
            ["give back: normal 2; ", "charge used: normal 1, used 7"],
        ),
        (false, Purpose::Peek, 1, true, ["look: normal 2; look: used 7; ", "look: normal 1"]),
    ] {
        assert_eq!(asked(compat, purpose, spent), (is_allowed, calls.concat()), "{purpose:?}");
    }
}

#[test]
fn a_used_cost_is_denied_by_what_was_left_before_it_and_its_answer_tells_what_nobody_pays_for() {
    let world = World::new(&with(
        "{key: used, usage: true, rate_limit: {unit: hour, requests_per_unit: 5}}",
    ));
    let keys = [("used", 7)];
    let mut store = Scripted { kept: 2, ..answering(true, &[5]) };
    // Units have come back between the look and the charge.
    store.after = Some(vec![says(1).into()]);
    let status = decide(&world, &mut store, Purpose::Check, &keys).statuses()[0];
    let told = (status.is_over, status.retry_after, status.uncharged);
    assert_eq!(told, (true, Some(Duration::from_secs(3_600)), 2));
    // Nothing is left after the charge, but one unit was left before.
    let mut store = Scripted { after: Some(vec![says(5).into()]), ..answering(true, &[4]) };
    let status = decide(&world, &mut store, Purpose::Check, &keys).statuses()[0];
    let told = (status.is_over, status.remaining, status.retry_after);
    assert_eq!(told, (false, 0, Some(Duration::from_secs(3_600))));
}

#[test]
fn a_used_cost_waits_for_no_turn_and_is_denied_if_nothing_was_left() {
    let rules = "{domain: d, descriptors: [{key: used, usage: true, \
                 rate_limit: {unit: minute, requests_per_unit: 60, algorithm: gcra, burst: 10}}]}";
    let reserve = Purpose::Reserve { max_wait: Some(Duration::from_secs(3_600)) };
    for cost in [0, 5] {
        let answers = vec![says_under("gcra 60/m burst 10", 10).into()];
        let mut store = Scripted { admitted: true, answers, ..Scripted::default() };
        let world = World::new(rules);
        let answer = decide(&world, &mut store, reserve, &[("used", cost)]);
        assert!(!answer.is_allowed(), "a store, cost {cost}");
        let decided = |cost| world.decide_keys("d", &[("used", cost)], reserve);
        assert!(decided(10).is_allowed());
        assert!(!decided(cost).is_allowed(), "the tables, cost {cost}");
    }
}

#[test]
fn rules_in_quota_mode_that_a_store_denies_are_all_over() {
    let rules = "{domain: d, descriptors: [{key: one, quota_mode: true, rate_limit: &limit {unit: second, \
                 requests_per_unit: 5, algorithm: gcra}}, {key: two, quota_mode: true, rate_limit: *limit}]}";
    let world = World::new(rules);
    let mut store = answering(false, &[0, 0]);
    let answer = decide(&world, &mut store, Purpose::Check, &[("one", 1), ("two", 1)]);
    assert!(!answer.is_allowed());
    assert_eq!(over_and_left(&answer).iter().filter(|(is_over, _)| *is_over).count(), 2);
}

#[test]
fn a_denial_without_the_store_promises_no_place_in_its_queue() {
    let rules = "{domain: d, descriptors: [{key: queue, rate_limit: {unit: second, requests_per_unit: 5, \
                 algorithm: gcra, queue: 50}}]}";
    let world = World::new(rules);
    for (is_without_store, is_allowed) in [(false, true), (true, false)] {
        let answers = vec![StoreAnswer { is_without_store, ..says_under("gcra 5/s", 5).into() }];
        let mut store = Scripted { answers, ..Scripted::default() };
        let answer = decide(&world, &mut store, Purpose::Peek, &[("queue", 1)]);
        assert_eq!(answer.is_allowed(), is_allowed, "{is_without_store}");
    }
}

/// A store that never reports what it decided.
struct Silent;

impl LimitStore for Silent {
    async fn look(&mut self, _: &mut [RuleClaim<'_>]) {}
    async fn charge_together(&mut self, _: &mut [RuleClaim<'_>]) {}
    async fn charge_used(&mut self, _: &mut [RuleClaim<'_>]) {}
    async fn give_back(&mut self, _: &mut RuleClaim<'_>) {}
    async fn count_denied(&mut self, _: &RuleClaim<'_>) {}
}

#[test]
fn a_store_that_reports_nothing_denies() {
    let world = World::new(RULES);
    let entries = [("normal", "x")];
    let descriptors = [Descriptor::new(&entries)];
    let request = Request::new("d", &descriptors);
    for purpose in [Purpose::Check, Purpose::Peek] {
        assert!(!world.decide_in(&mut Silent, &request, purpose).is_allowed(), "{purpose:?}");
    }
}
