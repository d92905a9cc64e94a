//! Requests in two halves: the questions to limits that are kept elsewhere, and the meaning of the answers.

use std::time::Duration;

use crate::common::{World, over_and_left};
use tollgate::{Decision, Limiter, ManualClock, Policy};
use tollgate_rules::{
    Act, Answer, Claimed, Code, Descriptor, DescriptorEntry, FoundElsewhere, Override, Question,
    Request, Rule, Unit,
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

/// The question for these keys and hits, either to charge them or not.
#[track_caller]
fn question(world: &World, charges: bool, keys: &[(&str, u64)]) -> Question {
    let entries: Vec<[DescriptorEntry<'_>; 1]> =
        keys.iter().map(|(key, _)| [(*key, "x")]).collect();
    let descriptor = |(n, (key, hits)): (usize, &(&str, u64))| {
        let own = Override { requests_per_unit: 3, unit: Unit::Hour };
        let limit = (*key == OWN).then_some(own);
        Descriptor { hits: Some(*hits), limit, ..Descriptor::new(&entries[n]) }
    };
    let descriptors: Vec<Descriptor<'_>> = keys.iter().enumerate().map(descriptor).collect();
    let request = Request::new("d", &descriptors);
    let maker = &world.maker;
    let question = maker.question(&request, if charges { Act::Check } else { Act::Peek });
    question.expect("a good request")
}

/// The decision of a limit of 5 about one more unit, if this many units are spent.
fn says(spent: u64) -> Decision {
    let policy: Policy = "fixed-window 5/h".parse().expect("a policy");
    let limiter = Limiter::builder(policy).clock(ManualClock::new()).build();
    let _ = limiter.check_n(spent);
    limiter.check()
}

/// The answer for one unit of each key, if these numbers of units are spent of the limits elsewhere.
#[track_caller]
fn answer(world: &World, keys: &[&str], admitted: bool, spent: &[u64]) -> Answer {
    let keys: Vec<(&str, u64)> = keys.iter().map(|key| (*key, 1)).collect();
    let limits = spent.iter().map(|spent| says(*spent).into()).collect();
    world.maker.answer_found(question(world, true, &keys), &FoundElsewhere { admitted, limits })
}

/// The names of the rules and the costs in a question's claims, and whether the claims are to be charged.
fn asked(question: &Question) -> (Vec<(&str, u64)>, bool) {
    let claims = question.claims().map(|claim| match claim.of {
        Claimed::Limits(rule) => (rule.path(), claim.cost),
        Claimed::OwnLimit { .. } => (OWN, claim.cost),
    });
    let charges = question.is_to_be_charged();
    (claims.collect(), charges)
}

#[test]
fn what_is_asked_elsewhere_is_each_rule_whose_limits_let_anything_pass() {
    let world = World::new(RULES);
    let all = ["normal", "free", OWN, "none", "shadow", "shadow_block", "stacked", "quota"];
    let keys: Vec<(&str, u64)> = all.iter().zip(1..).map(|(key, hits)| (*key, hits)).collect();
    let expected = vec![("normal", 1), (OWN, 3), ("shadow", 5), ("stacked", 7), ("quota", 8)];
    assert_eq!(asked(&question(&world, false, &keys)), (expected.clone(), false));
    assert_eq!(asked(&question(&world, true, &keys[..2])), (vec![("normal", 1)], true));
    // Two clients of a rule have two keys.
    let claim = |client| {
        let entries = [("normal", client)];
        let descriptors = [Descriptor::new(&entries)];
        let question =
            world.maker.question(&Request::new("d", &descriptors), Act::Check).expect("a request");
        question.claims().map(|claim| claim.key.to_vec()).collect::<Vec<_>>()
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
        assert_eq!(question(&world, true, keys).is_to_be_charged(), charges, "{keys:?}");
        assert!(!question(&world, false, keys).is_to_be_charged(), "{keys:?}");
    }
}

#[test]
fn a_limit_that_comes_with_a_request_is_asked_elsewhere_like_those_of_rules() {
    let world = World::new(RULES);
    for (spent, left) in [(2, 2), (5, 0)] {
        let (admitted, is_over) = (spent < 5, spent == 5);
        let limits = vec![says(spent).into(), says(1).into()];
        let found = FoundElsewhere { admitted, limits };
        let asked = question(&world, true, &[(OWN, 1), ("normal", 1)]);
        let answer = world.maker.answer_found(asked, &found);
        assert_eq!(over_and_left(&answer), [(is_over, left), (false, 3)]);
        // The answer shows the limit that came with the request.
        assert_eq!(answer.statuses()[0].limit.map(|limit| limit.requests_per_unit), Some(3));
        assert_eq!(answer.rule(0).map(Rule::path), None);
    }
    // A claim without an answer of the store is denied.
    let found = FoundElsewhere { admitted: true, limits: Vec::new() };
    let answer = world.maker.answer_found(question(&world, true, &[(OWN, 1)]), &found);
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
    let question =
        world.maker.question(&Request::new("d", &descriptors), Act::Check).expect("a request");
    let told: Vec<_> = question
        .claims()
        .map(|claim| {
            let Claimed::OwnLimit { limit, .. } = claim.of else { panic!("{claim:?}") };
            let path = claim.rule().map(Rule::path);
            (claim.client(), limit.requests_per_unit, path, claim.is_shadow(), claim.is_quota())
        })
        .collect();
    let most = 2_248_262_313;
    assert_eq!(
        told,
        [
            ("d,normal,x".to_owned(), most, Some("normal"), false, false),
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
    // The limit that denies is reported, of all limits of a rule.
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
    let asked = question(&world, false, &[("normal", 1)]);
    let _ = world
        .maker
        .answer_found(asked, &FoundElsewhere { admitted: false, limits: vec![says(5).into()] });
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
        let found = FoundElsewhere { admitted: true, limits: vec![says(0).into(), says(0).into()] };
        let answer = world.maker.answer_found(question(&world, true, &keys), &found);
        assert_eq!(answer.code(), Code::OverLimit);
        assert_eq!(over_and_left(&answer), [(false, 4), (true, 0)], "{hits}");
    }
}
