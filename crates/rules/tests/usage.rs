//! Rules with `usage: true`: a request of cost 0 asks, and the cost is charged when it is known.

use std::time::Duration;

use crate::common::{Scripted, World, compat_is};
use tollgate_rules::{Answer, Descriptor, Override, Purpose, Request, RuleSettings, Unit};

const RULES: &str = "
domain: ai
descriptors:
  - {key: bucket, usage: true, rate_limit: {unit: hour, requests_per_unit: 1000, algorithm: gcra, burst: 1000}}
  - {key: window, usage: true, rate_limit: {unit: hour, requests_per_unit: 1000}}
  - {key: trial, usage: true, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1000}}
  - {key: plain, usage: false, rate_limit: {unit: hour, requests_per_unit: 1000}}
";

/// Makes one request with a descriptor for each of these keys; each has the cost beside its key.
#[track_caller]
fn ask(world: &World, keys: &[(&str, u64)]) -> Answer {
    world.decide_keys("ai", keys, Purpose::CheckEnvoy)
}

#[test]
fn questions_are_answered_over_limit_once_costs_have_used_the_limit_up() {
    for compat in [false, true] {
        let world = World::with(RULES, compat_is(compat));
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
        // The debt is 200 units. The next unit is available after 201 times 3.6 s. In a window the debt is forgotten
        // when the window ends.
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
fn without_usage_a_cost_that_does_not_fit_is_charged_nowhere_and_told() {
    let world = World::new(&format!(
        "{RULES}  - {{key: unsaid, rate_limit: {{unit: hour, requests_per_unit: 1000}}}}\n"
    ));
    for (key, tells) in [("plain", false), ("unsaid", true)] {
        let mut told = Vec::new();
        for _ in 0..6 {
            assert!(ask(&world, &[(key, 0)]).is_allowed());
            told.push(ask(&world, &[(key, 300)]).statuses()[0].is_first_denied_cost);
        }
        assert_eq!(told, [false, false, false, tells, false, false], "{key}");
        assert_eq!(world.counts(key).denied_costs, 900);
        // A denied cost of 1 is not counted, because it is usually the cost of a request that was only asked for.
        assert!(ask(&world, &[(key, 100)]).is_allowed() && !ask(&world, &[(key, 1)]).is_allowed());
        assert_eq!(world.counts(key).denied_costs, 900);
    }
}

#[test]
fn a_cost_that_another_rule_denies_is_told_of_both_and_under_compat_of_none() {
    let rules = "domain: ai\ndescriptors:\n  - {key: small, rate_limit: {unit: hour, requests_per_unit: 5}}\n  \
                 - {key: large, rate_limit: {unit: hour, requests_per_unit: 500}}\n";
    for (compat, expected) in [(false, true), (true, false)] {
        let world = World::with(rules, compat_is(compat));
        let answer = ask(&world, &[("small", 6), ("large", 6)]);
        let told: Vec<bool> =
            answer.statuses().iter().map(|status| status.is_first_denied_cost).collect();
        assert_eq!((answer.is_allowed(), told), (false, vec![expected; 2]));
    }
}

#[test]
fn a_question_is_over_a_limit_that_is_used_up_and_under_compat_one_that_is_exceeded() {
    let rules = "domain: ai\ndescriptors:\n  - {key: plain, rate_limit: {unit: hour, requests_per_unit: 10}}\n  \
                 - {key: one, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 10}}\n  \
                 - {key: two, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 10}}\n  \
                 - {key: most, rate_limit: {unit: second, requests_per_unit: 2248262313}}\n";
    for compat in [false, true] {
        let world = World::with(rules, compat_is(compat));
        for keys in [&["plain"][..], &["one"], &["two"]] {
            let costs = |cost| keys.iter().map(|key| (*key, cost)).collect::<Vec<_>>();
            assert!(ask(&world, &costs(10)).is_allowed());
            assert_eq!(ask(&world, &costs(0)).is_allowed(), compat, "{keys:?}");
            assert!(!ask(&world, &costs(1)).is_allowed());
            assert!(!ask(&world, &costs(0)).is_allowed(), "{keys:?}");
        }
        // If one of several rules in quota mode has room, the request passes.
        world.clock.advance(Duration::from_hours(1));
        assert!(ask(&world, &[("one", 11), ("two", 1)]).is_allowed());
        assert!(ask(&world, &[("one", 0), ("two", 0)]).is_allowed());
        assert!(
            ask(&world, &[("two", 9)]).is_allowed() && !ask(&world, &[("two", 1)]).is_allowed()
        );
        assert_eq!(ask(&world, &[("one", 0), ("two", 0)]).is_allowed(), !compat);
        // A limit so high that its word has no room for a debt denies when it is used up.
        assert!(ask(&world, &[("most", 2_248_262_313)]).is_allowed());
        assert!(!ask(&world, &[("most", 0)]).is_allowed());
    }
}

#[test]
fn a_question_counts_of_its_own_request_only_used_costs_before_it_and_under_compat_all() {
    for compat in [false, true] {
        let world = World::with(RULES, compat_is(compat));
        let left = |key, costs: [u64; 2]| {
            let answer = ask(&world, &costs.map(|cost| (key, cost)));
            assert!(answer.is_allowed());
            [0, 1].map(|place| answer.statuses()[place].remaining)
        };
        // Costs that were used are charged in the order of the request, and questions are answered in between.
        assert_eq!(left("window", [300, 0]), [700, 700]);
        assert_eq!(left("window", [0, 300]), [700, 400]);
        // Other costs are charged together, after all questions; under `compat`, in the order of the request, too.
        assert_eq!(left("plain", [300, 0]), [700, if compat { 700 } else { 1_000 }]);
        assert_eq!(left("plain", [0, 300]), [700, 400]);
    }
}

#[test]
fn what_else_is_asked_by_a_cost_of_0_is_as_ever() {
    let world = World::new(RULES);
    assert!(ask(&world, &[("plain", 1_000)]).is_allowed());
    for other in [Purpose::Check, Purpose::CheckNow, Purpose::Peek] {
        assert!(world.decide_keys("ai", &[("plain", 0)], other).is_allowed());
    }
    assert!(!ask(&world, &[("plain", 0)]).is_allowed());
}

#[test]
fn in_quota_mode_usage_is_charged_in_full_and_denied_once_all_are_used_up() {
    let rules = "domain: ai\ndescriptors:\n  \
                 - {key: one, usage: true, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1000}}\n  \
                 - {key: two, usage: true, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 2000}}\n";
    for (compat, asked) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
        let world = World::with(rules, compat_is(compat));
        let both = |cost| [("one", cost), ("two", cost)];
        let mut admitted = 0;
        for _ in 0..20 {
            if ask(&world, &both(asked)).is_allowed() {
                admitted += 1;
                let _ = ask(&world, &both(300));
            }
        }
        // Seven requests have charged 2,100 units, and in addition the units with which they asked. Now both limits are
        // in debt.
        assert_eq!(admitted, 7);
        assert!(ask(&world, &[("two", 0)]).statuses()[0].is_over);
    }
}

#[test]
fn a_limit_that_comes_with_a_request_is_one_of_usage_where_its_rule_is() {
    for (compat, key, asked, expected) in [
        (false, "bucket", 0, 4),
        (false, "bucket", 1, 4),
        (false, "window", 0, 4),
        (true, "bucket", 0, 4),
        (true, "plain", 0, 4),
        (true, "plain", 1, 4),
        // No rule matches.
        (true, "other", 0, 4),
        (false, "plain", 0, 20),
    ] {
        let world = World::with(RULES, compat_is(compat));
        let limit = Override { requests_per_unit: 1_000, unit: Unit::Hour };
        let decide = |hits| world.decide_own(("ai", key), limit, hits, Purpose::CheckEnvoy);
        let admitted =
            (0..20).filter(|_| decide(asked).is_allowed() && decide(300).statuses().len() == 1);
        assert_eq!(admitted.count(), expected, "{compat} {key} {asked}");
        // Denied costs under limits that come with requests are counted together, and under no rule.
        let denied = world.maker.cache().own_limits().denied_costs;
        assert_eq!(denied, if expected == 20 { 17 * 300 } else { 0 });
    }
}

#[test]
fn in_quota_mode_for_all_a_limit_that_comes_with_a_request_has_to_be_used_up_like_all() {
    let world =
        World::with(RULES, RuleSettings { global_quota_mode: true, ..RuleSettings::default() });
    let limit = Some(Override { requests_per_unit: 5, unit: Unit::Hour });
    let decide = |own, plain| {
        let descriptors = [
            Descriptor { hits: Some(own), limit, ..Descriptor::new(&[("own", "x")]) },
            Descriptor { hits: Some(plain), ..Descriptor::new(&[("plain", "x")]) },
        ];
        let answer = world.maker.decide(&Request::new("ai", &descriptors), Purpose::CheckEnvoy);
        answer.expect("a good request").is_allowed()
    };
    assert!(decide(5, 1) && decide(1, 999));
    assert!(!decide(1, 1));
}

#[test]
fn a_cost_is_charged_whatever_comes_of_the_request_and_denied_if_nothing_was_left() {
    let world = World::new(RULES);
    // Another rule denies the request, but its cost was used nevertheless.
    assert!(!ask(&world, &[("bucket", 300), ("plain", 1_001)]).is_allowed());
    assert_eq!(ask(&world, &[("bucket", 0)]).statuses()[0].remaining, 700);
    assert!(ask(&world, &[("bucket", 900)]).is_allowed());
    // Nothing was left, so the cost is charged and the request denied. The other descriptor of the request is not
    // charged.
    let answer = ask(&world, &[("plain", 1), ("bucket", 100)]);
    assert_eq!(
        answer.statuses().iter().map(|status| status.is_over).collect::<Vec<_>>(),
        [false, true]
    );
    assert!(!answer.is_allowed());
    assert_eq!(answer.retry_after(), Some(Duration::from_millis(301 * 3_600)));
    assert_eq!(ask(&world, &[("plain", 0)]).statuses()[0].remaining, 1_000);
    // In a window, too, costs are charged in full, up to a debt of a hundred times the limit. The rest is reported as
    // uncharged.
    assert_eq!(ask(&world, &[("window", 1_200)]).statuses()[0].uncharged, 0);
    assert_eq!(ask(&world, &[("window", 100_000)]).statuses()[0].uncharged, 200);
    // A rule in shadow mode denies nothing.
    assert!(ask(&world, &[("trial", 1_200)]).is_allowed());
    let told = ask(&world, &[("trial", 0)]);
    assert!(told.is_allowed() && told.statuses()[0].is_over);
}

#[test]
fn a_look_tells_what_a_question_would_and_charges_nothing() {
    let world = World::new(RULES);
    let look = || world.decide_keys("ai", &[("bucket", 5_000)], Purpose::Peek);
    assert!(look().is_allowed() && look().is_allowed());
    assert_eq!(look().statuses()[0].remaining, 1_000);
    assert!(ask(&world, &[("bucket", 1_000)]).is_allowed());
    assert!(!look().is_allowed());
}

#[test]
fn a_limit_that_comes_with_a_request_takes_the_place_of_the_rule() {
    let world = World::new(RULES);
    let limit = Override { requests_per_unit: 5, unit: Unit::Hour };
    let check = || world.decide_own(("ai", "bucket"), limit, 6, Purpose::Check);
    assert!(check().is_allowed(), "something was left");
    assert!(!check().is_allowed());
}

#[test]
fn usage_beside_a_queue_is_refused_with_its_place() {
    let world = World::new(RULES);
    let refused = |rule: &str| {
        let text = format!("domain: ai\ndescriptors:\n  - {{key: a, {rule}}}\n");
        world.load(&text).expect_err("it is refused")[0].to_string()
    };
    let limit = "rate_limit: {unit: hour, requests_per_unit: 5, algorithm: gcra";
    let queue = refused(&format!("usage: true, {limit}, queue: 5}}"));
    assert!(queue.starts_with("test.yaml:3:21: "), "{queue}");
    assert!(queue.contains("usage") && queue.contains("queue or wait"), "{queue}");
}

/// Gives hits of one key back, in a request that also has costs of other keys.
fn give_back(world: &World, key: &str, hits: u64, beside: &[(&str, u64)]) -> Answer {
    let entries: Vec<[(&str, &str); 1]> = beside.iter().map(|(key, _)| [(*key, "x")]).collect();
    let own = [(key, "x")];
    let mut descriptors: Vec<Descriptor<'_>> = entries
        .iter()
        .zip(beside)
        .map(|(entries, (_, hits))| Descriptor { hits: Some(*hits), ..Descriptor::new(entries) })
        .collect();
    descriptors.push(Descriptor { hits: Some(hits), is_negative: true, ..Descriptor::new(&own) });
    world
        .maker
        .decide(&Request::new("ai", &descriptors), Purpose::CheckEnvoy)
        .expect("a good request")
}

#[test]
fn negative_hits_give_back_what_was_charged_and_never_more() {
    for compat in [false, true] {
        let rules = format!(
            "{RULES}  - {{key: log, rate_limit: {{window: 1h, requests_per_unit: 1000, algorithm: sliding-log}}}}\n  \
             - {{key: stacked, limits: [{{unit: minute, requests_per_unit: 1000}}, {{unit: hour, requests_per_unit: 5000}}]}}\n  \
             - {{key: block, rate_limit: {{unit: hour}}}}\n"
        );
        let world = World::with(&rules, compat_is(compat));
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
        // Hits that are given back reduce a debt, and such a request is never denied because of the debt.
        assert!(ask(&world, &[("bucket", 1_500)]).is_allowed());
        assert!(give_back(&world, "bucket", 100, &[]).is_allowed());
        assert!(!ask(&world, &[("bucket", 0)]).is_allowed());
        assert_eq!(give_back(&world, "bucket", 401, &[]).statuses()[0].remaining, 1);
        // A limit of 0 was charged nothing, so nothing comes back.
        assert_eq!(give_back(&world, "block", 5, &[]).statuses()[0].uncharged, 5);
        // Hits come back before the rest of the request is decided, even if the request is then denied.
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
    let counts = world.counts("plain");
    assert_eq!((counts.total(), counts.negative, counts.given_back), (5, 8, 5));
}

#[test]
fn negative_hits_of_a_limit_that_came_with_the_request_give_back_to_it() {
    let world = World::new(RULES);
    let limit = Some(Override { requests_per_unit: 5, unit: Unit::Hour });
    let entries = [("plain", "x")];
    let decide = |hits, is_negative| {
        let descriptors =
            [Descriptor { hits: Some(hits), limit, is_negative, ..Descriptor::new(&entries) }];
        world
            .maker
            .decide(&Request::new("ai", &descriptors), Purpose::CheckEnvoy)
            .expect("a request")
    };
    assert!(decide(5, false).is_allowed() && !decide(1, false).is_allowed());
    assert_eq!(decide(3, true).statuses()[0].remaining, 3);
    assert_eq!(decide(9, true).statuses()[0].remaining, 5);
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
    for compat in [false, true] {
        let world = World::with(QUOTAS, compat_is(compat));
        // More is given back than the whole limit.
        let answer = give_back(&world, "one", 12, &[("plain", 1)]);
        assert!(answer.is_allowed());
        let over: Vec<bool> = answer.statuses().iter().map(|status| status.is_over).collect();
        assert_eq!(over, [false, false]);
        // The request asks only one rule in quota mode, and the limit of that rule is used up.
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
    let mut store = Scripted::default();
    assert!(world.decide_in(&mut store, &request, Purpose::CheckEnvoy).is_allowed());
    let counts = world.counts("free");
    assert_eq!((counts.total(), counts.negative, counts.given_back), (0, 13, 0));
}
