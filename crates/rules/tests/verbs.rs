//! What a request can do besides a check: take a place in a queue, charge what does not fit, and give units back.

use std::time::Duration;

use crate::common::{World, compat_is};
use tollgate_rules::{Answer, Override, Purpose, RuleSettings, Unit};

/// Five units a second, a burst of one, and fifty places in the queue.
const QUEUE: &str =
    "rate_limit: {unit: second, requests_per_unit: 5, algorithm: gcra, burst: 1, queue: 50}";
/// A limit of three requests in each hour of the clock.
const HOURLY: &str = "rate_limit: {unit: hour, requests_per_unit: 3}";
const RESERVE: Purpose = Purpose::Reserve { max_wait: None };

fn world(rules: &[(&str, &str)]) -> World {
    World::new(&text(rules))
}

fn text(rules: &[(&str, &str)]) -> String {
    let lines = rules.iter().map(|(key, rest)| format!("  - {{key: {key}, {rest}}}\n"));
    format!("domain: shop\ndescriptors:\n{}", lines.collect::<String>())
}

fn told(answer: &Answer) -> (bool, u128) {
    (answer.is_allowed(), answer.wait().as_millis())
}

/// Makes a request of one unit of each of these keys. Returns whether it is admitted, and its wait in milliseconds.
#[track_caller]
fn check(world: &World, keys: &[&str]) -> (bool, u128) {
    told(&world.decide_in_shop(keys, 1, Purpose::Check))
}

#[test]
fn fifty_places_are_given_in_order_and_the_next_is_denied() {
    let world = world(&[("user", QUEUE)]);
    let waits: Vec<(bool, u128)> = (0..52).map(|_| check(&world, &["user"])).collect();
    let expected = (0..51).map(|place| (true, 200 * place)).chain([(false, 0)]);
    assert_eq!(waits, expected.collect::<Vec<_>>());
    // `retry_after` of a denial is the time until a request would be admitted at once.
    let denied = world.decide_in_shop(&["user"], 1, Purpose::Check);
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(10_200)));
    world.clock.advance(Duration::from_millis(200));
    assert_eq!(check(&world, &["user"]), (true, 10_000));
}

#[test]
fn a_wait_bounds_the_queue_as_well() {
    let rule =
        "rate_limit: {unit: second, requests_per_unit: 5, algorithm: gcra, burst: 1, wait: 450ms}";
    let world = world(&[("user", rule)]);
    let waits = [(); 4].map(|()| check(&world, &["user"]));
    assert_eq!(waits, [(true, 0), (true, 200), (true, 400), (false, 0)]);
}

#[test]
fn a_question_tells_the_wait_and_takes_no_place() {
    let world = world(&[("user", QUEUE)]);
    for place in 0..51 {
        for _ in 0..2 {
            assert_eq!(
                told(&world.decide_in_shop(&["user"], 1, Purpose::Peek)),
                (true, 200 * place)
            );
        }
        world.decide_in_shop(&["user"], 1, Purpose::Check);
    }
    assert_eq!(told(&world.decide_in_shop(&["user"], 1, Purpose::Peek)), (false, 0));
}

#[test]
fn a_cost_above_the_burst_waits_until_what_is_owed_is_the_burst() {
    let world = world(&[("user", QUEUE)]);
    world.decide_in_shop(&["user"], 2, Purpose::Check);
    let asked = told(&world.decide_in_shop(&["user"], 3, Purpose::Peek));
    assert_eq!(asked, told(&world.decide_in_shop(&["user"], 3, Purpose::Check)));
    // Costs of two and three are charged. The burst is one unit, so the request waits for the other four, 200 ms each.
    assert_eq!(asked, (true, 800));
}

#[test]
fn a_request_that_cannot_wait_is_denied_and_takes_no_place() {
    let world = world(&[("user", QUEUE)]);
    assert_eq!(told(&world.decide_in_shop(&["user"], 1, Purpose::CheckNow)), (true, 0));
    let denied = world.decide_in_shop(&["user"], 1, Purpose::CheckNow);
    assert_eq!(
        (told(&denied), denied.retry_after()),
        ((false, 0), Some(Duration::from_millis(200)))
    );
    assert_eq!(check(&world, &["user"]), (true, 200));
}

#[test]
fn a_caller_that_gives_up_gives_its_place_back_unless_another_stands_behind_it() {
    let world = world(&[("user", QUEUE)]);
    let mut reserved: Vec<Answer> =
        (0..3).map(|_| world.decide_in_shop(&["user"], 1, RESERVE)).collect();
    assert_eq!(
        reserved.iter().map(|answer| answer.wait().as_millis()).collect::<Vec<_>>(),
        [0, 200, 400]
    );
    let [_, second, third] = &mut reserved[..] else { unreachable!() };
    let (second, third) = (second.take_receipt().unwrap(), third.take_receipt().unwrap());
    assert!(!second.cancel());
    assert!(third.cancel());
    assert_eq!(check(&world, &["user"]), (true, 400));
    assert!(reserved[2].take_receipt().is_none(), "it is given once");
}

#[test]
fn the_longest_wait_counts_and_all_give_a_place_or_none() {
    let slow =
        "rate_limit: {unit: second, requests_per_unit: 1, algorithm: gcra, burst: 1, queue: 2}";
    let world = world(&[("user", QUEUE), ("all", slow), ("hour", HOURLY)]);
    let both = ["user", "all"];
    assert_eq!(check(&world, &both), (true, 0));
    assert_eq!(check(&world, &both), (true, 1_000));
    assert_eq!(check(&world, &both), (true, 2_000));
    let denied = world.decide_in_shop(&both, 1, Purpose::Check);
    assert_eq!(told(&denied), (false, 0));
    assert_eq!(
        denied.statuses().iter().map(|status| status.is_over).collect::<Vec<_>>(),
        [false, true]
    );
    // The limit that had a place has taken it back: the next request gets the fourth place.
    assert_eq!(check(&world, &["user"]), (true, 600));
    // A window that had room has kept no charge either.
    assert!(!world.decide_in_shop(&["hour", "all"], 1, Purpose::Check).is_allowed());
    assert_eq!(world.decide_in_shop(&["hour"], 0, Purpose::Peek).statuses()[0].remaining, 3);
}

#[test]
fn a_window_that_denies_takes_no_place_of_a_queue() {
    let world = world(&[("user", QUEUE), ("hour", HOURLY)]);
    for _ in 0..3 {
        assert!(world.decide_in_shop(&["hour"], 1, Purpose::Check).is_allowed());
    }
    assert!(!world.decide_in_shop(&["user", "hour"], 1, Purpose::Check).is_allowed());
    assert_eq!(check(&world, &["user"]), (true, 0));
}

#[test]
fn stacked_limits_queue_together() {
    let stacked = "limits: [{unit: second, requests_per_unit: 5, algorithm: gcra, burst: 1, queue: 50}, \
                   {unit: hour, requests_per_unit: 3}]";
    let world = world(&[("user", stacked)]);
    let waits = [(); 4].map(|()| check(&world, &["user"]));
    assert_eq!(waits, [(true, 0), (true, 200), (true, 400), (false, 0)]);
    assert_eq!(told(&world.decide_in_shop(&["user"], 1, RESERVE)), (false, 0));
}

#[test]
fn what_was_reserved_is_given_back_to_every_limit() {
    let world = world(&[("user", QUEUE), ("hour", HOURLY)]);
    let mut answer = world.decide_in_shop(&["user", "hour"], 1, RESERVE);
    assert_eq!(world.decide_in_shop(&["hour"], 0, Purpose::Peek).statuses()[0].remaining, 2);
    assert!(answer.take_receipt().unwrap().cancel());
    assert_eq!(world.decide_in_shop(&["hour"], 0, Purpose::Peek).statuses()[0].remaining, 3);
    assert_eq!(check(&world, &["user"]), (true, 0));
}

#[test]
fn a_refund_gives_back_what_was_not_used_and_not_what_is_over() {
    let world = world(&[("hour", "rate_limit: {unit: hour, requests_per_unit: 10}")]);
    let left = || world.decide_in_shop(&["hour"], 0, Purpose::Peek).statuses()[0].remaining;
    let receipt = |cost| world.decide_in_shop(&["hour"], cost, RESERVE).take_receipt().unwrap();
    let (eight, one) = (receipt(8), receipt(1));
    assert_eq!((left(), eight.refund(5), left()), (1, 5, 6));
    assert_eq!((receipt(0).refund(9), left()), (0, 6));
    world.clock.advance(Duration::from_secs(3_600));
    assert!(world.decide_in_shop(&["hour"], 2, Purpose::Check).is_allowed());
    assert_eq!((one.refund(1), left()), (0, 8));
}

#[test]
fn a_callers_own_wait_makes_a_queue_of_a_limit_that_has_none() {
    let rule = "rate_limit: {unit: second, requests_per_unit: 5, algorithm: gcra, burst: 2}";
    let world = world(&[("user", rule), ("hour", HOURLY)]);
    let within = |ms| Purpose::Reserve { max_wait: Some(Duration::from_millis(ms)) };
    let waits = [0, 0, 200, 200].map(|ms| told(&world.decide_in_shop(&["user"], 1, within(ms))));
    assert_eq!(waits, [(true, 0), (true, 0), (true, 200), (false, 0)]);
    // A window gives no places: it admits a request at once or denies it.
    let hours =
        [1, 1, 1, 1].map(|cost| told(&world.decide_in_shop(&["hour"], cost, within(9_000))));
    assert_eq!(hours, [(true, 0), (true, 0), (true, 0), (false, 0)]);
}

#[test]
fn a_charge_goes_into_debt_in_every_limit_and_is_never_denied() {
    let bucket = "rate_limit: {unit: minute, requests_per_unit: 60, algorithm: gcra, burst: 10}";
    let world = world(&[
        ("user", bucket),
        ("hour", HOURLY),
        ("none", "rate_limit: {unit: hour, requests_per_unit: 0}"),
    ]);
    let answer = world.decide_in_shop(&["user", "hour", "none", "unknown"], 15, Purpose::Charge);
    let uncharged: Vec<u64> = answer.statuses().iter().map(|status| status.uncharged).collect();
    // A window is charged no more than its limit, and a limit of 0 is charged nothing.
    assert_eq!((answer.is_allowed(), uncharged), (true, vec![0, 12, 15, 0]));
    let denied = world.decide_in_shop(&["user"], 1, Purpose::Check);
    assert_eq!((denied.is_allowed(), denied.retry_after()), (false, Some(Duration::from_secs(6))));
    assert_eq!(
        world.decide_in_shop(&["user"], 1, Purpose::Charge).statuses()[0].retry_after,
        Some(Duration::from_secs(7))
    );
}

#[test]
fn a_rule_in_shadow_mode_gives_places_and_nothing_waits_for_them() {
    let world = world(&[("user", &format!("shadow_mode: true, {QUEUE}")), ("hour", HOURLY)]);
    for _ in 0..60 {
        assert_eq!(check(&world, &["user"]), (true, 0));
    }
    let answer = world.decide_in_shop(&["user", "hour"], 1, Purpose::Check);
    assert_eq!(told(&answer), (true, 0));
    assert!(answer.statuses()[0].is_over, "its places are taken");
    // The word has no room for more than the queue holds, so the charge is not remembered.
    assert_eq!(world.decide_in_shop(&["user"], 9, Purpose::Charge).statuses()[0].uncharged, 9);
}

#[test]
fn of_rules_in_quota_mode_one_that_has_a_place_is_enough() {
    let one = "quota_mode: true, rate_limit: {unit: second, requests_per_unit: 5, algorithm: gcra, burst: 1, queue: 1}";
    let two = "quota_mode: true, rate_limit: {unit: second, requests_per_unit: 5, algorithm: gcra, burst: 1, queue: 2}";
    let world = world(&[("one", one), ("two", two)]);
    let waits = [(); 4].map(|()| check(&world, &["one", "two"]));
    assert_eq!(waits, [(true, 0), (true, 200), (true, 400), (false, 0)]);
}

#[test]
fn under_compat_each_descriptor_gets_a_place_by_itself() {
    let world = World::with(&text(&[("user", QUEUE), ("hour", HOURLY)]), compat_is(true));
    let answers = [(); 4].map(|()| check(&world, &["user", "hour"]));
    assert_eq!(answers, [(true, 0), (true, 200), (true, 400), (false, 0)]);
    // The limit of the hour denied the fourth request, but the request keeps its place in the queue, as in
    // envoyproxy/ratelimit.
    assert_eq!(check(&world, &["user"]), (true, 800));
}

#[test]
fn under_global_shadow_nothing_waits() {
    let settings = RuleSettings { global_shadow_mode: true, ..RuleSettings::default() };
    let world = World::with(&text(&[("user", QUEUE)]), settings);
    for _ in 0..60 {
        assert_eq!(check(&world, &["user"]), (true, 0));
    }
}

#[test]
fn what_only_global_shadow_admits_under_compat_is_charged_and_can_be_given_back() {
    let settings = RuleSettings { global_shadow_mode: true, ..compat_is(true) };
    let world = World::with(&text(&[("room", HOURLY), ("over", HOURLY)]), settings);
    let left = || world.decide_in_shop(&["room"], 0, Purpose::Peek).statuses()[0].remaining;
    assert!(world.decide_in_shop(&["over"], 3, Purpose::Check).is_allowed());
    let mut answer = world.decide_in_shop(&["room", "over"], 1, RESERVE);
    assert_eq!((answer.is_allowed(), answer.statuses()[1].is_over, left()), (true, true, 2));
    let receipt = answer.take_receipt();
    assert_eq!((receipt.map(|receipt| receipt.refund(1)), left()), (Some(1), 3));
}

#[test]
fn a_limit_that_comes_with_the_request_is_charged_and_given_back_as_others() {
    let world = World::with(
        &text(&[("user", HOURLY)]),
        RuleSettings { override_capacity: 100, ..RuleSettings::default() },
    );
    let limit = Override { requests_per_unit: 10, unit: Unit::Hour };
    let decide = |hits, purpose| world.decide_own(("shop", "user"), limit, hits, purpose);
    let left = |answer: &Answer| answer.statuses()[0].remaining;
    let mut reserved = decide(8, RESERVE);
    assert_eq!(left(&reserved), 2);
    assert_eq!(reserved.take_receipt().unwrap().refund(5), 5);
    assert_eq!(left(&decide(0, Purpose::Peek)), 7);
    assert_eq!(left(&decide(9, Purpose::Charge)), 0);
    assert!(!decide(1, Purpose::Check).is_allowed());
}

/// If a request loses a race, its charges are given back. No two admitted requests have the same place.
#[test]
fn under_a_race_no_limit_admits_more_and_no_place_is_given_twice() {
    let short =
        "rate_limit: {unit: second, requests_per_unit: 5, algorithm: gcra, burst: 1, queue: 24}";
    let hour = "rate_limit: {unit: hour, requests_per_unit: 40}";
    for round in 0..20 {
        let world = world(&[("user", QUEUE), ("all", short), ("hour", hour)]);
        // The places are compared for each queue. Two requests may have the same longest wait, but in different queues.
        let places: Vec<[Duration; 2]> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let asked = (0..20)
                            .map(|_| world.decide_in_shop(&["user", "all", "hour"], 1, RESERVE));
                        let admitted = asked.filter(Answer::is_allowed);
                        let waits = |answer: Answer| [0, 1].map(|n| answer.statuses()[n].wait);
                        admitted.map(waits).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
        });
        let given = places.len();
        for queue in [0, 1] {
            let waits: std::collections::BTreeSet<_> = places.iter().map(|it| it[queue]).collect();
            assert_eq!(
                waits.len(),
                given,
                "round {round}: a place of queue {queue} was given twice"
            );
        }
        assert!(given <= 25, "round {round}: {given} of 25 places");
        let left = world.decide_in_shop(&["hour"], 0, Purpose::Peek).statuses()[0].remaining;
        assert!(left <= 40 - given as u64, "round {round}: {left} left after {given}");
    }
}
