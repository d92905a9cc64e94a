//! The bound up to which a debt is remembered.

use std::time::Duration;

use crate::common::World;
use tollgate_rules::{Answer, Purpose};

/// A request as Envoy sends it: a question, with a cost of 0, or a cost that was used.
fn ask(world: &World, key: &str, hits: u64) -> Answer {
    world.decide_keys("ai", &[(key, hits)], Purpose::CheckEnvoy)
}

/// A thousand responses of 300 tokens each are under way at once, under a limit of 1,000 tokens an hour.
#[test]
fn what_was_used_is_remembered_to_a_hundred_limits_or_as_the_rule_says_and_the_rest_is_told() {
    const RULES: &str = "
domain: ai
descriptors:
  - {key: bucket, usage: true, rate_limit: {unit: hour, requests_per_unit: 1000, algorithm: gcra}}
  - {key: wide, usage: true, rate_limit: {unit: hour, requests_per_unit: 1000, algorithm: gcra, debt: 1000x}}
  - {key: narrow, usage: true, rate_limit: {unit: hour, requests_per_unit: 1000, algorithm: gcra, debt: none}}
  - {key: window, usage: true, rate_limit: {unit: hour, requests_per_unit: 1000}}
  - {key: short, usage: true, rate_limit: {unit: hour, requests_per_unit: 1000, debt: none}}
  - {key: ring, usage: true, rate_limit: {unit: hour, requests_per_unit: 1000, algorithm: segmented-window x2}}
";
    let drains = |owed: u64| Duration::from_millis(3_600 * (owed - 999));
    let hour = Duration::from_hours(1);
    for (key, remembered, wait) in [
        ("bucket", 101_000, drains(101_000)),
        ("wide", 300_000, drains(300_000)),
        ("narrow", 2_000, drains(2_000)),
        ("window", 101_000, hour),
        ("short", 1_000, hour),
        ("ring", 1_000, hour),
    ] {
        let world = World::new(RULES);
        assert!(ask(&world, key, 0).is_allowed());
        let told: Vec<_> = (0..1_000).map(|_| ask(&world, key, 300).statuses()[0]).collect();
        let forgotten: u64 = told.iter().map(|status| status.uncharged).sum();
        assert_eq!(300_000 - forgotten, remembered, "{key}");
        // Only the first charge that leaves units unremembered is marked for the log. The counter counts all such
        // units.
        let firsts = told.iter().filter(|status| status.is_first_uncharged).count();
        assert_eq!(firsts, usize::from(forgotten > 0), "{key}");
        let first = told.iter().find(|status| status.uncharged > 0);
        assert!(first.is_none_or(|status| status.is_first_uncharged), "{key}");
        assert_eq!(world.counts(key).uncharged, forgotten, "{key}");
        // The time until the next question is admitted is exact, to the nanosecond.
        assert_eq!(ask(&world, key, 0).retry_after(), Some(wait), "{key}");
        world.clock.advance(wait - Duration::from_nanos(1));
        assert!(!ask(&world, key, 0).is_allowed(), "{key}");
        world.clock.advance(Duration::from_nanos(1));
        assert!(ask(&world, key, 0).is_allowed(), "{key}");
    }
}
