//! Windows that begin at midnight of a time zone.

use std::time::Duration;

use crate::common::{World, refused};
use tollgate::Timestamp;
use tollgate_rules::{Descriptor, Request, RuleCache, RuleSettings, RuleText};

fn text(limit: &str) -> String {
    format!("domain: shop\ndescriptors:\n  - key: user\n    rate_limit:\n      {{{limit}}}\n")
}

fn world(limit: &str) -> World {
    World::new(&text(limit))
}

/// The answer to a request of one unit at a second of Unix time: whether it may go, and the time until which it waits.
fn at(world: &World, second: u64) -> (bool, Option<u64>) {
    let descriptors = [Descriptor::new(&[("user", "alice")])];
    let now = Timestamp::from_secs(second);
    let answer =
        world.maker.check_at(&Request::new("shop", &descriptors), now).expect("a good request");
    (answer.is_allowed(), answer.retry_after().map(|wait| second + wait.as_secs()))
}

/// In Berlin, 2026-03-29 is a day of 23 hours, and 2026-10-25 a day of 25 hours.
const MARCH_28_23H: u64 = 1_774_738_800;
const OCTOBER_24_22H: u64 = 1_792_879_200;

#[test]
fn a_day_begins_at_midnight_of_its_zone_when_clocks_change_as_well() {
    for (midnight, hours) in [(MARCH_28_23H, 23), (OCTOBER_24_22H, 25)] {
        let world = world("unit: day, requests_per_unit: 1, time_zone: Europe/Berlin");
        let next = midnight + hours * 3_600;
        assert_eq!(at(&world, midnight - 1), (true, None));
        assert_eq!(at(&world, midnight), (true, None));
        assert_eq!(at(&world, next - 1), (false, Some(next)));
        assert_eq!(at(&world, next), (true, None));
        assert_eq!(at(&world, next + 3_600), (false, Some(next + 86_400)));
    }
}

/// The expected times are those of Python's `zoneinfo`.
#[test]
fn months_years_and_weeks_begin_on_their_day_in_its_zone() {
    // 2026-11-01 and 2026-12-01, 00:00 in New York: clocks are set back on the first of November.
    let month =
        "unit: month, requests_per_unit: 1, algorithm: calendar-month, time_zone: America/New_York";
    // 2027-01-01 and 2028-01-01, 00:00 in Tokyo.
    let year = "unit: year, requests_per_unit: 1, algorithm: calendar-year, time_zone: Asia/Tokyo";
    // Sunday, 2026-10-25, 00:00 in Berlin, a day on which clocks are set back; and the next Sunday.
    let week = "unit: week, requests_per_unit: 1, algorithm: calendar-week from-sunday, \
                time_zone: Europe/Berlin";
    // Monday, 2026-03-23, 00:00 in Berlin: clocks are put forward on the Sunday after it.
    let monday =
        "unit: week, requests_per_unit: 1, algorithm: calendar-week, time_zone: Europe/Berlin";
    // 2026-01-01 in Tokyo: a week of the clock begins on Thursday, as in UTC.
    let thursday = "unit: week, requests_per_unit: 1, time_zone: Asia/Tokyo";
    for (limit, begins, ends) in [
        (month, 1_793_505_600, 1_796_101_200),
        (year, 1_798_729_200, 1_830_265_200),
        (week, OCTOBER_24_22H, OCTOBER_24_22H + 7 * 86_400 + 3_600),
        (monday, 1_774_220_400, 1_774_220_400 + 7 * 86_400 - 3_600),
        (thursday, 1_767_193_200, 1_767_193_200 + 7 * 86_400),
    ] {
        let world = world(limit);
        assert_eq!(at(&world, begins - 1), (true, None), "{limit}");
        assert_eq!(at(&world, begins), (true, None), "{limit}");
        assert_eq!(at(&world, begins + 2 * 86_400), (false, Some(ends)), "{limit}");
        assert_eq!(at(&world, ends - 1), (false, Some(ends)), "{limit}");
        assert_eq!(at(&world, ends), (true, None), "{limit}");
    }
}

#[test]
fn a_zone_decides_by_the_clock_and_a_reset_is_one_of_its_window() {
    let world = world("unit: day, requests_per_unit: 1, time_zone: Europe/Berlin");
    world.clock.advance(Duration::from_secs(MARCH_28_23H));
    let check = || world.check("shop", &[&[("user", "alice")]]).is_allowed();
    assert_eq!((check(), check()), (true, false));
    world.clock.advance(Duration::from_secs(23 * 3_600 - 1));
    assert!(!check());
    let descriptors = [Descriptor::new(&[("user", "alice")])];
    assert_eq!(world.maker.reset(&Request::new("shop", &descriptors)), Ok(1));
    assert_eq!((check(), check()), (true, false));
    world.clock.advance(Duration::from_secs(1));
    assert_eq!((check(), check()), (true, false));
}

#[test]
fn what_was_spent_stays_spent_when_the_zone_changes() {
    let rule = |zone: &str| text(&format!("unit: day, requests_per_unit: 1{zone}"));
    let world = World::new(&rule(""));
    world.clock.advance(Duration::from_secs(MARCH_28_23H - 43_200));
    let check = || world.check("shop", &[&[("user", "alice")]]).is_allowed();
    assert!(check());
    for zone in [", time_zone: Europe/Berlin", ", time_zone: America/New_York", ""] {
        world.load(&rule(zone)).expect("good rules");
        assert!(!check(), "{zone}");
    }
}

#[test]
fn what_only_this_process_can_keep_is_refused_where_limits_are_kept_elsewhere() {
    let load = |limit: &str| {
        let cache = RuleCache::new(RuleSettings::default()).vetted(|_| Ok(()));
        let loaded = cache.load(&[RuleText::new("test.yaml", text(limit))]);
        loaded.map(drop).map_err(|errors| errors[0].to_string())
    };
    let day = "unit: day, requests_per_unit: 1";
    assert_eq!(load(day), Ok(()));
    assert_eq!(
        load(&format!("{day}, time_zone: Europe/Berlin")).unwrap_err(),
        "test.yaml:5:7: time_zone: Europe/Berlin is not kept in Redis, where windows are those of UTC; leave it out, \
         or serve the rule without --redis"
    );
    assert_eq!(load(&format!("{day}, algorithm: gcra, wait: 2s")), Ok(()));
}

#[test]
fn a_rule_tells_its_zone() {
    let world = world("unit: day, requests_per_unit: 5, time_zone: europe/berlin");
    let rules = world.rules();
    assert_eq!(rules.rules()[0].to_string(), "shop.user: fixed-window 5/d in Europe/Berlin");
}

#[test]
fn a_zone_that_does_not_exist_or_has_no_midnights_is_refused_with_its_place() {
    for (limit, expected) in [
        (
            "unit: day, requests_per_unit: 1, time_zone: Europe/Berln",
            "test.yaml:5:52: error checking config: time_zone 'Europe/Berln' (did you mean 'Europe/Berlin'?) is not \
             understood; use a name of the IANA's list, as in Europe/Berlin",
        ),
        (
            "unit: day, requests_per_unit: 1, time_zone: Mordor",
            "test.yaml:5:52: error checking config: time_zone 'Mordor' is not understood; use a name of the IANA's \
             list, as in Europe/Berlin",
        ),
        (
            "unit: hour, requests_per_unit: 1, time_zone: Europe/Berlin",
            "test.yaml:5:53: error checking config: time_zone 'Europe/Berlin' is not understood; use it beside \
             windows of the calendar, or fixed windows of whole days",
        ),
        (
            "unit: day, requests_per_unit: 1, algorithm: gcra, time_zone: Europe/Berlin",
            "test.yaml:5:69: error checking config: time_zone 'Europe/Berlin' is not understood; use it beside \
             windows of the calendar, or fixed windows of whole days",
        ),
        (
            "unlimited: true, time_zone: Europe/Berlin",
            "test.yaml:5:36: time_zone and unlimited exclude each other; leave one out",
        ),
    ] {
        let found = refused(text(limit));
        assert!(found.starts_with(expected), "{found}");
    }
}
