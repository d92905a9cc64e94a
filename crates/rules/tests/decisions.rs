//! Decisions, and what is charged for them.

use std::time::Duration;

use crate::common::{World, compat_is, over_and_left};
use tollgate_rules::{CurrentLimit, Descriptor, Override, Purpose, Request, Unit};

const SHOP: &str = "
domain: another
descriptors:
  - {key: key2, rate_limit: {unit: minute, requests_per_unit: 20}}
  - {key: key3, rate_limit: {unit: hour, requests_per_unit: 10}}
";

#[test]
fn a_window_admits_its_limit_and_turns_on_the_clock() {
    let world = World::new(SHOP);
    world.clock.advance(Duration::from_millis(90_500));
    let check = || world.check("another", &[&[("key2", "x")]]);
    for left in (0..20).rev() {
        assert_eq!(over_and_left(&check()), [(false, left)]);
    }
    for _ in 0..5 {
        let denied = check();
        assert_eq!(over_and_left(&denied), [(true, 0)]);
        assert_eq!(denied.retry_after(), Some(Duration::from_millis(29_500)));
        assert_eq!(denied.statuses()[0].reset_after, Duration::from_millis(29_500));
    }
    world.clock.advance(Duration::from_millis(29_500));
    assert_eq!(over_and_left(&check()), [(false, 19)]);
    let counts = check().rule(0).expect("a rule").counts();
    assert_eq!((counts.total(), counts.over_limit, counts.near_limit), (27, 5, 4));
}

const DAILY: &str = "
domain: messaging
descriptors:
  - {key: message_type, value: marketing, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: message_type, value: news, rate_limit: {unit: day, requests_per_unit: 5, algorithm: gcra}}
";

#[test]
fn example_27_five_a_day_until_midnight_or_one_every_4_h_48_min() {
    let world = World::new(DAILY);
    let hours = |hours: u64| Duration::from_secs(hours * 3_600);
    world.clock.advance(hours(10));
    let check = |kind| world.check("messaging", &[&[("message_type", kind)]]);
    for kind in ["marketing", "news"] {
        for left in (0..5).rev() {
            assert_eq!(over_and_left(&check(kind)), [(false, left)], "{kind}");
        }
    }
    assert_eq!(check("marketing").retry_after(), Some(hours(14)));
    // The wait is a third of a tick (4.2 s) shorter than 4 h 48 min, because ten o'clock lies between two ticks.
    let interval = Duration::from_secs(4 * 3_600 + 48 * 60) - Duration::from_micros(1_406_250);
    assert_eq!(check("news").retry_after(), Some(interval));
    world.clock.advance(interval);
    assert_eq!(over_and_left(&check("news")), [(false, 0)]);
    assert_eq!(over_and_left(&check("news")), [(true, 0)]);
    world.clock.advance(hours(14) - interval - Duration::from_nanos(1));
    assert_eq!(over_and_left(&check("marketing")), [(true, 0)]);
    world.clock.advance(Duration::from_nanos(1));
    assert_eq!(over_and_left(&check("marketing")), [(false, 4)]);
}

#[test]
fn a_denied_request_is_charged_nowhere() {
    let world = World::new(SHOP);
    let check = || over_and_left(&world.check("another", &[&[("key2", "x")], &[("key3", "x")]]));
    for call in 1..=10 {
        assert_eq!(check(), [(false, 20 - call), (false, 10 - call)]);
    }
    for _ in 0..5 {
        assert_eq!(check(), [(false, 10), (true, 0)]);
    }
}

#[test]
fn compat_charges_each_descriptor_on_its_own() {
    let world = World::with(SHOP, compat_is(true));
    let check = || over_and_left(&world.check("another", &[&[("key2", "x")], &[("key3", "x")]]));
    for call in 1..=10 {
        assert_eq!(check(), [(false, 20 - call), (false, 10 - call)]);
    }
    for call in 11..=15 {
        assert_eq!(check(), [(false, 20 - call), (true, 0)]);
    }
}

#[test]
fn compat_lets_a_denied_request_use_up_what_was_left() {
    let take = |world: &World, hits| over_and_left(&world.take("another", "key3", hits))[0];
    let (world, as_there) = (World::new(SHOP), World::with(SHOP, compat_is(true)));
    for (hits, ours, theirs) in
        [(7, (false, 3), (false, 3)), (5, (true, 3), (true, 0)), (1, (false, 2), (true, 0))]
    {
        assert_eq!((take(&world, hits), take(&as_there, hits)), (ours, theirs), "{hits}");
    }
    // A denied request does not use up what is left under a rule that names an algorithm.
    let named = SHOP.replace("unit: 10}", "unit: 10, algorithm: fixed-window}");
    let named = World::with(&named, compat_is(true));
    let [_, denied, rest] = [7, 5, 3].map(|hits| take(&named, hits));
    assert_eq!((denied, rest), ((true, 3), (false, 0)));
}

#[test]
fn compat_lets_a_denied_request_use_up_the_limit_that_it_brought() {
    let world = World::with(SHOP, compat_is(true));
    let limit = Override { requests_per_unit: 10, unit: Unit::Hour };
    let ask =
        |hits| over_and_left(&world.decide_own(("another", "own"), limit, hits, Purpose::Check));
    assert_eq!([ask(7), ask(5), ask(1)], [[(false, 3)], [(true, 0)], [(true, 0)]]);
}

#[test]
fn a_descriptor_that_is_listed_twice_is_charged_twice_or_not_at_all() {
    let world = World::new(SHOP);
    let entries: &[(&str, &str)] = &[("key3", "x")];
    let check = |n: usize| over_and_left(&world.check("another", &vec![entries; n]));
    assert_eq!(check(4), [(false, 6); 4]);
    assert_eq!(check(1), [(false, 5)]);
    // Each descriptor would fit alone, but both together would not.
    let six = check(6);
    assert_eq!(six.iter().filter(|(over, _)| *over).count(), 1, "{six:?}");
    assert_eq!(check(5), [(false, 0); 5]);
}

#[test]
fn stacked_limits_are_charged_together_and_the_tightest_one_answers() {
    let world = World::new(
        "
domain: d
descriptors:
  - key: user
    limits:
      - {unit: second, requests_per_unit: 2, name: fast}
      - {window: 10m, requests_per_unit: 3, name: slow}
",
    );
    let check = || {
        let answer = world.check("d", &[&[("user", "alice")]]);
        (over_and_left(&answer)[0], answer.limit_name(0).map(str::to_owned))
    };
    assert_eq!(check(), ((false, 1), Some("fast".to_owned())));
    assert_eq!(check(), ((false, 0), Some("fast".to_owned())));
    assert_eq!(check(), ((true, 0), Some("fast".to_owned())));
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(check(), ((false, 0), Some("slow".to_owned())));
    assert_eq!(check(), ((true, 0), Some("slow".to_owned())));
    // The second request was not charged to this limit.
    world.clock.advance(Duration::from_secs(598));
    assert_eq!(check(), ((true, 0), Some("slow".to_owned())));
}

#[test]
fn a_limit_of_nothing_lets_nothing_pass() {
    let world = World::new(
        "
domain: d
descriptors:
  - {key: block, rate_limit: {unit: minute}}
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 5}}
",
    );
    world.clock.advance(Duration::from_secs(45));
    let answer = world.check("d", &[&[("user", "x")], &[("block", "x")]]);
    assert_eq!(over_and_left(&answer), [(false, 5), (true, 0)]);
    let status = answer.statuses()[1];
    assert_eq!((status.reset_after, status.retry_after), (Duration::from_secs(15), None));
    assert_eq!(answer.retry_after(), None);
    // A cost of 0 under a rule with a limit of 0 does not keep the other rules from being charged.
    let (user, block) = ([("user", "x")], [("block", "x")]);
    let descriptors =
        [Descriptor::new(&user), Descriptor { hits: Some(0), ..Descriptor::new(&block) }];
    let answer = world.ask(&Request::new("d", &descriptors)).expect("good");
    assert_eq!(over_and_left(&answer), [(false, 4), (false, 0)]);
    let answer = world.check("d", &[&user]);
    assert_eq!(over_and_left(&answer), [(false, 3)]);
}

#[test]
fn any_number_of_hits_is_decided_without_wrapping() {
    let world = World::new(SHOP);
    let entries = [("key3", "x")];
    let ask = |hits| {
        let descriptors = [Descriptor { hits, ..Descriptor::new(&entries) }];
        let request = Request { hits: 0, ..Request::new("another", &descriptors) };
        over_and_left(&world.ask(&request).expect("good"))[0]
    };
    assert_eq!(ask(None), (false, 9), "0 in the request is 1");
    assert_eq!(ask(Some(0)), (false, 9), "0 in a descriptor only asks");
    assert_eq!(ask(Some(u64::from(u32::MAX))), (true, 9));
    assert_eq!(ask(Some(u64::MAX)), (true, 9));
    assert_eq!(ask(Some(9)), (false, 0));
    assert_eq!(ask(Some(0)), (false, 0));
}

#[test]
fn peek_charges_and_counts_nothing_and_reset_forgets() {
    let world = World::new(SHOP);
    let descriptors = [Descriptor::new(&[("key3", "x")])];
    let request = Request { hits: 10, ..Request::new("another", &descriptors) };
    for _ in 0..3 {
        let peeked = world.maker.peek(&request).expect("good");
        assert_eq!(over_and_left(&peeked), [(false, 10)]);
        assert_eq!(peeked.rule(0).expect("a rule").counts().total(), 0);
    }
    assert!(world.ask(&request).expect("good").is_allowed());
    assert!(!world.maker.peek(&request).expect("good").is_allowed());
    assert_eq!(world.maker.reset(&request), Ok(1));
    assert!(world.ask(&request).expect("good").is_allowed());
}

#[test]
fn a_denied_request_gives_back_what_its_own_limit_was_charged() {
    let world = World::new(SHOP);
    let (own, full) = ([("own", "x")], [("key3", "x")]);
    let limit = Some(Override { requests_per_unit: 10, unit: Unit::Hour });
    let ask = |hits| {
        let descriptors = [
            Descriptor { limit, ..Descriptor::new(&own) },
            Descriptor { hits: Some(hits), ..Descriptor::new(&full) },
        ];
        over_and_left(&world.ask(&Request::new("another", &descriptors)).expect("good"))
    };
    assert_eq!(ask(10), [(false, 9), (false, 0)]);
    assert_eq!(ask(1), [(false, 9), (true, 0)]);
    assert_eq!(ask(1), [(false, 9), (true, 0)]);
}

#[test]
fn a_rule_that_is_replaced_in_the_same_request_does_not_count() {
    let world = World::new(
        "
domain: d
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1, name: each}}
  - key: gold
    rate_limit: {unit: hour, requests_per_unit: 5, name: better, replaces: [{name: each}]}
",
    );
    let both = || over_and_left(&world.check("d", &[&[("user", "x")], &[("gold", "x")]]));
    assert_eq!(both(), [(false, 0), (false, 4)]);
    assert_eq!(both(), [(false, 0), (false, 3)]);
    assert_eq!(over_and_left(&world.check("d", &[&[("user", "x")]])), [(false, 0)]);
    assert_eq!(over_and_left(&world.check("d", &[&[("user", "x")]])), [(true, 0)]);
}

#[test]
fn a_rule_that_replaces_another_can_be_replaced_itself() {
    let world = World::new(
        "
domain: d
descriptors:
  - key: gold
    rate_limit: {unit: hour, requests_per_unit: 5, name: gold, replaces: [{name: silver}]}
  - key: silver
    rate_limit: {unit: hour, requests_per_unit: 1, name: silver, replaces: [{name: plain}]}
",
    );
    let limits = || {
        let answer = world.check("d", &[&[("gold", "x")], &[("silver", "x")]]);
        let of = |limit: CurrentLimit| limit.requests_per_unit;
        answer.statuses().iter().map(|status| status.limit.map(of)).collect::<Vec<_>>()
    };
    assert_eq!(limits(), [Some(5), None]);
    assert_eq!(over_and_left(&world.check("d", &[&[("silver", "x")]])), [(false, 0)]);
}
