//! Hits within, near and over a limit, as envoyproxy/ratelimit counts them.

use crate::common::{World, compat_is};
use tollgate_rules::{Purpose, RuleCounts, RuleSettings};

const RULES: &str = "
domain: d
descriptors:
  - {key: ten, rate_limit: {unit: year, requests_per_unit: 10}}
  - {key: seven, rate_limit: {unit: year, requests_per_unit: 7}}
  - {key: tried, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 10}}
  - {key: none, rate_limit: {unit: year, requests_per_unit: 0}}
";

/// The key, the hits before the request, and the hits of the request; then the expected hits within, near and over the
/// limit. All cases of the split itself are tested in `src/decide/verdict.rs`.
const CASES: [(&str, u64, u64, [u64; 3]); 6] = [
    ("ten", 8, 1, [1, 1, 0]),
    ("ten", 5, 10, [0, 2, 5]),
    ("ten", 10, 7, [0, 0, 7]),
    ("seven", 4, 3, [3, 2, 0]),
    ("tried", 5, 10, [0, 2, 5]),
    ("none", 0, 3, [0, 0, 3]),
];

/// Reads the hits within, near and over the limit.
type Read = fn(&RuleCounts) -> [u64; 3];

const AS_ENVOYPROXY: Read =
    |counts| [counts.within_limit, counts.near_limit + counts.near_denied, counts.beyond_limit];

/// The indices of the cases whose results differ from those expected.
fn wrong(settings: &RuleSettings, read: Read) -> Vec<usize> {
    let is_wrong = |n: &usize| {
        let (key, before, hits, expected) = CASES[*n];
        let world = World::with(RULES, settings.clone());
        let ask = |hits| {
            let answer = world.take("d", key, hits);
            let counts = answer.rule(0).expect("its rule").counts();
            (counts, read(&counts))
        };
        let (_, start) = ask(before);
        let (counts, end) = ask(hits);
        assert_eq!(counts.total(), before + hits);
        let shadow = if key == "tried" { expected[2] } else { 0 };
        assert_eq!(counts.shadow_beyond, shadow, "{key}");
        [0, 1, 2].map(|n| end[n] - start[n]) != expected
    };
    (0..CASES.len()).filter(is_wrong).collect()
}

#[test]
fn hits_of_one_request_are_split_at_the_near_limit_share_and_at_the_limit() {
    for compat in [false, true] {
        assert_eq!(wrong(&compat_is(compat), AS_ENVOYPROXY), [0_usize; 0], "compat {compat}");
    }
}

#[test]
fn a_denied_request_that_is_counted_whole_is_caught() {
    let whole: Read = |counts| [counts.within_limit, counts.near_limit, counts.over_limit];
    assert_eq!(wrong(&RuleSettings::default(), whole), [1, 4]);
}

#[test]
fn a_near_limit_share_of_another_number_is_caught() {
    let settings = RuleSettings { near_limit_ratio: 0.7, ..RuleSettings::default() };
    assert_eq!(wrong(&settings, AS_ENVOYPROXY), [1, 3, 4]);
}

/// Under `compat` a denied request uses up what was left, so all hits of the following requests are over the limit.
#[test]
fn with_compat_what_follows_a_denial_is_over_and_without_it_is_split_again() {
    for (compat, expected) in [(true, [0, 2, 15]), (false, [0, 4, 10])] {
        let world = World::with(RULES, compat_is(compat));
        let ask = |hits| world.take("d", "ten", hits);
        let start = AS_ENVOYPROXY(&ask(5).rule(0).expect("its rule").counts());
        ask(10);
        let end = AS_ENVOYPROXY(&ask(10).rule(0).expect("its rule").counts());
        assert_eq!([0, 1, 2].map(|n| end[n] - start[n]), expected, "compat {compat}");
    }
}

#[test]
fn a_cost_that_is_denied_and_charged_is_split_by_what_was_left_before() {
    let used = RULES.replace("{key: ten,", "{key: ten, usage: true,");
    for (rules, compat) in [(RULES, true), (&used, true), (&used, false)] {
        let world = World::with(rules, compat_is(compat));
        let ask = |hits| {
            let answer = world.decide_keys("d", &[("ten", hits)], Purpose::CheckEnvoy);
            AS_ENVOYPROXY(&answer.rule(0).expect("its rule").counts())
        };
        assert_eq!([ask(0), ask(10), ask(5)], [[0, 0, 0], [10, 2, 0], [10, 2, 5]], "{compat}");
        assert_eq!(ask(1), [10, 2, 6], "nothing is left");
    }
}
