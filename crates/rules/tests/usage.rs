//! Rules of usage: costs that are known only afterwards, asked for by requests of cost 0.

use std::time::Duration;

use crate::common::World;
use tollgate_rules::{Act, Answer, Descriptor, Override, Request, Settings, Unit};

mod common;

const RULES: &str = "
domain: ai
descriptors:
  - {key: bucket, usage: true, rate_limit: {unit: hour, requests_per_unit: 1000, algorithm: gcra, burst: 1000}}
  - {key: window, usage: true, rate_limit: {unit: hour, requests_per_unit: 1000}}
  - {key: trial, usage: true, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1000}}
  - {key: plain, rate_limit: {unit: hour, requests_per_unit: 1000}}
";

/// One request under these rules, each at its cost.
#[track_caller]
fn ask(world: &World, keys: &[(&str, u64)]) -> Answer {
    let entries: Vec<[(&str, &str); 1]> = keys.iter().map(|(key, _)| [(*key, "x")]).collect();
    let descriptors: Vec<Descriptor<'_>> = entries
        .iter()
        .zip(keys)
        .map(|(entries, (_, hits))| Descriptor { hits: Some(*hits), ..Descriptor::new(entries) })
        .collect();
    world.maker.act(&Request::new("ai", &descriptors), Act::CheckNow).expect("a good request")
}

#[test]
fn questions_are_answered_over_limit_once_costs_have_used_the_limit_up() {
    for settings in [Settings::default(), Settings { compat: true, ..Settings::default() }] {
        let world = World::with(RULES, settings);
        for key in ["bucket", "window"] {
            let mut admitted = 0;
            for _ in 0..6 {
                if ask(&world, &[(key, 0)]).is_allowed() {
                    admitted += 1;
                    assert!(ask(&world, &[(key, 300)]).is_allowed());
                }
            }
            assert_eq!(admitted, 4, "{key}");
        }
        // 200 are owed: with one unit more they come back in 201 times 3.6 s. The window's end forgets them.
        assert_eq!(
            ask(&world, &[("bucket", 0)]).retry_after(),
            Some(Duration::from_millis(723_600))
        );
        world.clock.advance(Duration::from_millis(723_599));
        assert!(!ask(&world, &[("bucket", 0)]).is_allowed());
        world.clock.advance(Duration::from_millis(1));
        assert!(ask(&world, &[("bucket", 0)]).is_allowed());
        assert!(!ask(&world, &[("window", 0)]).is_allowed());
        world.clock.advance(Duration::from_hours(1));
        assert!(ask(&world, &[("window", 0)]).is_allowed());
    }
}

#[test]
fn without_usage_the_same_requests_pass_for_ever_which_is_caught() {
    let world = World::new(RULES);
    for _ in 0..6 {
        assert!(ask(&world, &[("plain", 0)]).is_allowed());
        let _ = ask(&world, &[("plain", 300)]);
    }
}

#[test]
fn a_cost_is_charged_whatever_comes_of_the_request_and_denied_if_nothing_was_left() {
    let world = World::new(RULES);
    // Another rule denies it; it was used nevertheless.
    assert!(!ask(&world, &[("bucket", 300), ("plain", 1_001)]).is_allowed());
    assert_eq!(ask(&world, &[("bucket", 0)]).statuses()[0].remaining, 700);
    assert!(ask(&world, &[("bucket", 900)]).is_allowed());
    // Nothing was left: it is denied and charged, and what comes with it is not charged.
    let answer = ask(&world, &[("plain", 1), ("bucket", 100)]);
    assert_eq!(
        answer.statuses().iter().map(|status| status.is_over).collect::<Vec<_>>(),
        [false, true]
    );
    assert!(!answer.is_allowed());
    assert_eq!(answer.retry_after(), Some(Duration::from_millis(301 * 3_600)));
    assert_eq!(ask(&world, &[("plain", 0)]).statuses()[0].remaining, 1_000);
    // Of a window what fits is charged, and the rest is told.
    assert_eq!(ask(&world, &[("window", 1_200)]).statuses()[0].uncharged, 200);
    // In shadow mode it denies nothing.
    assert!(ask(&world, &[("trial", 1_200)]).is_allowed());
    let told = ask(&world, &[("trial", 0)]);
    assert!(told.is_allowed() && told.statuses()[0].is_over);
}

#[test]
fn a_look_tells_what_a_question_would_and_charges_nothing() {
    let world = World::new(RULES);
    let descriptors = [Descriptor { hits: Some(5_000), ..Descriptor::new(&[("bucket", "x")]) }];
    let look = || world.maker.peek(&Request::new("ai", &descriptors)).expect("a good request");
    assert!(look().is_allowed() && look().is_allowed());
    assert_eq!(look().statuses()[0].remaining, 1_000);
    assert!(ask(&world, &[("bucket", 1_000)]).is_allowed());
    assert!(!look().is_allowed());
}

#[test]
fn a_limit_that_comes_with_a_request_takes_the_place_of_the_rule() {
    let world = World::new(RULES);
    let limit = Some(Override { requests_per_unit: 5, unit: Unit::Hour });
    let descriptors = [Descriptor { hits: Some(6), limit, ..Descriptor::new(&[("bucket", "x")]) }];
    let check = world.maker.check(&Request::new("ai", &descriptors)).expect("a good request");
    assert!(!check.is_allowed());
}

#[test]
fn usage_beside_a_queue_or_quota_mode_is_refused_with_its_place() {
    let world = World::new(RULES);
    let refused = |rule: &str| {
        let text = format!("domain: ai\ndescriptors:\n  - {{key: a, {rule}}}\n");
        world.load(&text).expect_err("it is refused")[0].to_string()
    };
    let limit = "rate_limit: {unit: hour, requests_per_unit: 5, algorithm: gcra";
    let queue = refused(&format!("usage: true, {limit}, queue: 5}}"));
    assert!(queue.starts_with("test.yaml:3:21: "), "{queue}");
    assert!(queue.contains("usage") && queue.contains("queue or wait"), "{queue}");
    let quota = refused(&format!("usage: true, quota_mode: true, {limit}}}"));
    assert!(quota.contains("usage") && quota.contains("quota_mode"), "{quota}");
}
