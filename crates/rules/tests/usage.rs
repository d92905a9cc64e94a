//! Rules of usage: costs that are known only afterwards, asked for by requests of cost 0.

use std::time::Duration;

use crate::common::World;
use tollgate_rules::{Act, Answer, Descriptor, FoundElsewhere, Override, Request, Settings, Unit};

mod common;

const RULES: &str = "
domain: ai
descriptors:
  - {key: bucket, usage: true, rate_limit: {unit: hour, requests_per_unit: 1000, algorithm: gcra, burst: 1000}}
  - {key: window, usage: true, rate_limit: {unit: hour, requests_per_unit: 1000}}
  - {key: trial, usage: true, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1000}}
  - {key: plain, usage: false, rate_limit: {unit: hour, requests_per_unit: 1000}}
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
    world.maker.act(&Request::new("ai", &descriptors), Act::CheckEnvoy).expect("a good request")
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
    // In a window all of it is charged, too, to a hundred times the limit, and the rest is told.
    assert_eq!(ask(&world, &[("window", 1_200)]).statuses()[0].uncharged, 0);
    assert_eq!(ask(&world, &[("window", 100_000)]).statuses()[0].uncharged, 200);
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

#[test]
fn what_does_not_ask_as_envoy_teaches_no_rule() {
    let world = World::new(BY_SIGHT);
    let act = |hits, act| {
        let descriptors = [Descriptor { hits: Some(hits), ..Descriptor::new(&[("window", "x")]) }];
        world.maker.act(&Request::new("ai", &descriptors), act).expect("a good request")
    };
    for other in [Act::Check, Act::CheckNow, Act::Peek] {
        assert!(!act(0, other).statuses()[0].is_first_question, "{other:?}");
    }
    // So what does not fit is not charged.
    assert!(!act(1_001, Act::CheckEnvoy).is_allowed());
    assert_eq!(act(0, Act::Peek).statuses()[0].remaining, 1_000);
    assert!(act(0, Act::CheckEnvoy).statuses()[0].is_first_question);
}

const BY_SIGHT: &str = "
domain: ai
descriptors:
  - {key: bucket, rate_limit: {unit: hour, requests_per_unit: 1000, algorithm: gcra, burst: 1000}}
  - {key: window, rate_limit: {unit: hour, requests_per_unit: 1000}}
  - {key: never, usage: false, rate_limit: {unit: hour, requests_per_unit: 1000}}
  - {key: queued, rate_limit: {unit: hour, requests_per_unit: 1000, algorithm: gcra, queue: 50}}
  - {key: punished, rate_limit: {unit: hour, requests_per_unit: 1000, algorithm: gcra, penalty: 1h after 1}}
";

#[test]
fn a_rule_that_was_asked_a_question_charges_what_does_not_fit_and_denies_it() {
    for settings in [Settings::default(), Settings { compat: true, ..Settings::default() }] {
        let world = World::with(BY_SIGHT, settings);
        for key in ["bucket", "window"] {
            let mut questions = Vec::new();
            for _ in 0..6 {
                let question = ask(&world, &[(key, 0)]);
                questions.push((question.is_allowed(), question.statuses()[0].is_first_question));
                if question.is_allowed() {
                    // The last of them does not fit: what is admitted is never above the limit.
                    let fits = ask(&world, &[(key, 300)]).is_allowed();
                    assert_eq!(fits, questions.len() < 4, "{key}");
                }
            }
            let expected = [(true, true), (true, false), (true, false), (true, false)];
            assert_eq!(questions, [&expected[..], &[(false, false); 2]].concat(), "{key}");
        }
        // 200 are owed, and one unit more.
        assert_eq!(
            ask(&world, &[("bucket", 0)]).retry_after(),
            Some(Duration::from_millis(723_600))
        );
        world.clock.advance(Duration::from_hours(1));
        assert!(ask(&world, &[("window", 0)]).is_allowed());
    }
}

#[test]
fn before_a_question_and_where_a_rule_says_otherwise_what_is_denied_is_not_charged() {
    let world = World::new(BY_SIGHT);
    let left = |key| {
        let entries = [(key, "x")];
        let descriptors = [Descriptor { hits: Some(0), ..Descriptor::new(&entries) }];
        let told = world.maker.peek(&Request::new("ai", &descriptors)).expect("a good request");
        told.statuses()[0].remaining
    };
    for key in ["bucket", "never", "queued", "punished"] {
        assert!(ask(&world, &[(key, 900)]).is_allowed());
        assert!(!ask(&world, &[(key, 300)]).is_allowed(), "{key}");
        // A look by another verb is no question of Envoy's.
        let expected = if key == "punished" { 0 } else { 100 };
        assert_eq!(left(key), expected, "{key}");
        assert!(!ask(&world, &[(key, 0)]).statuses()[0].is_first_question || key == "bucket");
    }
    assert!(!ask(&world, &[("never", 300)]).is_allowed() && left("never") == 100);
    // One client has asked; it is the rule that has learnt from it.
    let other = [Descriptor { hits: Some(1_100), ..Descriptor::new(&[("bucket", "y")]) }];
    let act = |act| world.maker.act(&Request::new("ai", &other), act).expect("a good request");
    for other in [Act::Check, Act::CheckNow] {
        assert!(!act(other).is_allowed(), "by another verb it is charged as ever");
        assert_eq!(act(Act::Peek).statuses()[0].remaining, 1_000);
    }
    assert!(!act(Act::CheckEnvoy).is_allowed());
    assert_eq!(act(Act::Peek).statuses()[0].remaining, 0);
}

#[test]
fn two_requests_for_the_last_unit_are_not_both_admitted_after_a_question() {
    let world = World::new(BY_SIGHT);
    let _ = ask(&world, &[("window", 0)]);
    let admitted: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    (0..500)
                        .map(|_| u64::from(ask(&world, &[("window", 1)]).is_allowed()))
                        .sum::<u64>()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends")).sum::<u64>()
    });
    assert_eq!(admitted, 1_000);
}

/// Gives back under these rules, beside a cost of another.
fn give_back(world: &World, key: &str, hits: u64, beside: &[(&str, u64)]) -> Answer {
    let entries: Vec<[(&str, &str); 1]> = beside.iter().map(|(key, _)| [(*key, "x")]).collect();
    let own = [(key, "x")];
    let mut descriptors: Vec<Descriptor<'_>> = entries
        .iter()
        .zip(beside)
        .map(|(entries, (_, hits))| Descriptor { hits: Some(*hits), ..Descriptor::new(entries) })
        .collect();
    descriptors.push(Descriptor { hits: Some(hits), is_negative: true, ..Descriptor::new(&own) });
    world.maker.act(&Request::new("ai", &descriptors), Act::CheckEnvoy).expect("a good request")
}

#[test]
fn negative_hits_give_back_what_was_charged_and_never_more() {
    for settings in [Settings::default(), Settings { compat: true, ..Settings::default() }] {
        let rules = format!(
            "{RULES}  - {{key: log, rate_limit: {{window: 1h, requests_per_unit: 1000, algorithm: sliding-log}}}}\n  \
             - {{key: stacked, limits: [{{unit: minute, requests_per_unit: 1000}}, {{unit: hour, requests_per_unit: 5000}}]}}\n  \
             - {{key: block, rate_limit: {{unit: hour}}}}\n"
        );
        let world = World::with(&rules, settings);
        for key in ["bucket", "window", "trial", "plain", "log", "stacked"] {
            assert!(ask(&world, &[(key, 700)]).is_allowed());
            let answer = give_back(&world, key, 500, &[]);
            let told = &answer.statuses()[0];
            assert_eq!((told.remaining, told.uncharged, told.is_over), (800, 0, false), "{key}");
            let told = give_back(&world, key, 900, &[]).statuses()[0];
            assert_eq!(
                (told.remaining, told.uncharged),
                (1_000, 700),
                "{key}: no more than is charged"
            );
        }
        // A debt is paid back, and never answered as one.
        assert!(ask(&world, &[("bucket", 1_500)]).is_allowed());
        assert!(give_back(&world, "bucket", 100, &[]).is_allowed());
        assert!(!ask(&world, &[("bucket", 0)]).is_allowed());
        assert_eq!(give_back(&world, "bucket", 401, &[]).statuses()[0].remaining, 1);
        // Where nothing passes nothing was charged.
        assert_eq!(give_back(&world, "block", 5, &[]).statuses()[0].uncharged, 5);
        // Whatever comes of the request, and before the rest of it is decided.
        assert!(ask(&world, &[("window", 1_000)]).is_allowed());
        let denied = give_back(&world, "window", 300, &[("plain", 1_001)]);
        assert!(!denied.is_allowed());
        assert_eq!(ask(&world, &[("window", 0)]).statuses()[0].remaining, 300);
    }
}

#[test]
fn hits_that_are_given_back_are_counted_apart() {
    let world = World::new(RULES);
    assert!(ask(&world, &[("plain", 5)]).is_allowed());
    let _ = give_back(&world, "plain", 8, &[]);
    let rules = world.maker.cache().rules().expect("rules");
    let counts = rules.rules().iter().find(|rule| rule.path() == "plain").expect("it").counts();
    assert_eq!((counts.total(), counts.negative, counts.given_back), (5, 8, 5));
}

#[test]
fn negative_hits_of_a_limit_that_came_with_the_request_give_back_to_it() {
    let world = World::new(RULES);
    let limit = Some(Override { requests_per_unit: 5, unit: Unit::Hour });
    let entries = [("bucket", "x")];
    let act = |hits, is_negative| {
        let descriptors =
            [Descriptor { hits: Some(hits), limit, is_negative, ..Descriptor::new(&entries) }];
        world.maker.act(&Request::new("ai", &descriptors), Act::CheckEnvoy).expect("a request")
    };
    assert!(act(5, false).is_allowed() && !act(1, false).is_allowed());
    assert_eq!(act(3, true).statuses()[0].remaining, 3);
    assert_eq!(act(9, true).statuses()[0].remaining, 5);
}

const QUOTAS: &str = "
domain: ai
descriptors:
  - {key: one, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: two, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: plain, rate_limit: {unit: hour, requests_per_unit: 1000}}
  - {key: free, rate_limit: {unlimited: true}}
";

#[test]
fn what_a_rule_in_quota_mode_gives_back_is_neither_over_nor_room() {
    for settings in [Settings::default(), Settings { compat: true, ..Settings::default() }] {
        let world = World::with(QUOTAS, settings);
        // More than ever fits its limit.
        let answer = give_back(&world, "one", 12, &[("plain", 1)]);
        assert!(answer.is_allowed());
        let over: Vec<bool> = answer.statuses().iter().map(|status| status.is_over).collect();
        assert_eq!(over, [false, false]);
        // The only one that is asked is used up.
        assert!(ask(&world, &[("one", 10)]).is_allowed());
        let answer = give_back(&world, "two", 1, &[("one", 1)]);
        assert!(!answer.is_allowed());
        let over: Vec<bool> = answer.statuses().iter().map(|status| status.is_over).collect();
        assert_eq!(over, [true, false]);
    }
}

#[test]
fn a_rule_without_a_limit_gives_nothing_back() {
    let world = World::new(QUOTAS);
    let _ = give_back(&world, "free", 8, &[]);
    let descriptors =
        [Descriptor { hits: Some(5), is_negative: true, ..Descriptor::new(&[("free", "x")]) }];
    let request = Request::new("ai", &descriptors);
    let question = world.maker.question(&request, Act::CheckEnvoy).expect("a good request");
    let found = FoundElsewhere { admitted: true, limits: Vec::new() };
    assert!(world.maker.answer_found(question, &found).is_allowed());
    let rules = world.maker.cache().rules().expect("rules");
    let counts = rules.rules().iter().find(|rule| rule.path() == "free").expect("it").counts();
    assert_eq!((counts.total(), counts.negative, counts.given_back), (0, 13, 0));
}

#[test]
fn in_a_question_to_a_store_too_what_is_given_back_comes_first() {
    for compat in [false, true] {
        let world = World::with(RULES, Settings { compat, ..Settings::default() });
        let limit = Some(Override { requests_per_unit: 10, unit: Unit::Hour });
        let entries = [("bucket", "x")];
        let act = |asked: &[(u64, bool)]| {
            let of = |(hits, is_negative): &(u64, bool)| Descriptor {
                hits: Some(*hits),
                limit,
                is_negative: *is_negative,
                ..Descriptor::new(&entries)
            };
            let descriptors: Vec<Descriptor<'_>> = asked.iter().map(of).collect();
            let request = Request::new("ai", &descriptors);
            let question = world.maker.question(&request, Act::CheckEnvoy).expect("a request");
            let found = FoundElsewhere { admitted: true, limits: Vec::new() };
            world.maker.answer_found(question, &found)
        };
        assert!(act(&[(10, false)]).is_allowed());
        let answer = act(&[(1, false), (5, true)]);
        assert!(answer.is_allowed(), "compat {compat}");
        assert_eq!(act(&[(0, false)]).statuses()[0].remaining, 4);
    }
}
