//! Clients without a cell in a full table. They are decided as the rule says, and these decisions are marked, counted
//! and reported.

use std::time::Duration;

use crate::common::{World, over_and_left, refused, with};
use tollgate_rules::{Answer, Code, Descriptor, NoCell, Request, RuleCounts, Status};

fn rule(capacity: usize, more: &str) -> String {
    with(&format!(
        "{{key: remote_address, capacity: {capacity}, {more}, \
         rate_limit: {{unit: hour, requests_per_unit: 100}}}}"
    ))
}

fn ask(world: &World, client: u32) -> Answer {
    let address = std::net::Ipv4Addr::from(client).to_string();
    world.check("d", &[&[("remote_address", &address)]])
}

fn status(answer: &Answer) -> Status {
    answer.statuses()[0]
}

fn counts(world: &World) -> RuleCounts {
    world.counts("remote_address")
}

/// A rule whose table of some dozen cells is filled by other clients.
fn full(more: &str) -> World {
    let world = World::new(&rule(10, more));
    for client in 0..200 {
        ask(&world, client);
    }
    world
}

#[test]
fn five_hundred_of_five_hundred_newcomers_are_served_by_a_full_table() {
    // A bug was found under these conditions: the default capacity, and generated addresses.
    let world = World::new(&rule(65_536, "on_full: spill"));
    for client in 0..209_529 {
        assert_eq!(ask(&world, client).code(), Code::Ok);
    }
    for client in 1 << 24..(1 << 24) + 500 {
        let answer = ask(&world, client);
        assert_eq!((answer.code(), status(&answer).no_cell), (Code::Ok, Some(NoCell::Spilled)));
        assert!((1..100).contains(&status(&answer).remaining));
    }
    // No client is admitted above its limit.
    let admitted = (0..150).filter(|_| ask(&world, 1 << 24).is_allowed()).count();
    assert!((50..100).contains(&admitted), "{admitted}");
    let RuleCounts { spilled, full_denied, full_allowed, .. } = counts(&world);
    assert!(spilled > 100_000, "{spilled}");
    assert_eq!((full_denied, full_allowed), (0, 0));
}

#[test]
fn a_rule_that_says_deny_denies_newcomers_and_says_that_it_is_not_their_limit() {
    let world = full("on_full: deny");
    let denied = ask(&world, 1_000);
    assert_eq!((denied.code(), status(&denied).no_cell), (Code::OverLimit, Some(NoCell::Denied)));
    assert_eq!(NoCell::Denied.reason(), "table_full_denied");
    // A client with a cell is decided as before, and its answer does not mention the full table.
    let served = ask(&world, 0);
    assert_eq!((served.code(), status(&served).no_cell), (Code::Ok, None));
    let of_it = counts(&world);
    assert!(of_it.full_denied > 150, "{of_it:?}");
    assert_eq!((of_it.spilled, of_it.full_allowed), (0, 0));
    assert_eq!(of_it.over_limit, of_it.full_denied);
}

#[test]
fn a_rule_that_says_allow_admits_newcomers_and_counts_them() {
    let world = full("on_full: allow");
    // There are far more requests than any limit admits. The spill records some of them, and the others are admitted as
    // well.
    for nth in 0..20_000 {
        let answer = ask(&world, 1_000 + nth % 7);
        assert!(answer.is_allowed() && !status(&answer).is_over, "{answer:?}");
        assert_eq!((answer.retry_after(), status(&answer).retry_after), (None, None));
    }
    let answer = ask(&world, 1_000);
    assert_eq!(status(&answer).no_cell, Some(NoCell::Allowed));
    // A peek returns the same, and counts nothing.
    let before = counts(&world);
    let entries = [("remote_address", "0.0.3.232")];
    let descriptors = [Descriptor::new(&entries)];
    let looked = world.maker.peek(&Request::new("d", &descriptors)).unwrap();
    assert_eq!((looked.code(), status(&looked).no_cell), (Code::Ok, Some(NoCell::Allowed)));
    assert_eq!(counts(&world), before);
    assert!(before.full_allowed > 10_000 && before.spilled > 100, "{before:?}");
    assert_eq!((before.full_denied, before.over_limit), (0, 0));
    // A client with a cell stays within its limit.
    let admitted = (0..200).filter(|_| ask(&world, 0).is_allowed()).count();
    assert_eq!(admitted, 99);
}

#[test]
fn windows_that_open_with_the_first_request_have_no_spill_and_say_so() {
    let limit =
        "rate_limit: {unit: hour, requests_per_unit: 9, algorithm: fixed-window from-first}";
    for (word, expected) in [
        ("spill", (Code::OverLimit, Some(NoCell::Denied))),
        ("allow", (Code::Ok, Some(NoCell::Allowed))),
    ] {
        let rule = format!("{{key: remote_address, capacity: 10, on_full: {word}, {limit}}}");
        let world = World::new(&with(&rule));
        (0..200).for_each(|client| drop(ask(&world, client)));
        let answer = ask(&world, 1_000);
        assert_eq!((answer.code(), status(&answer).no_cell), expected, "{word}");
    }
}

/// A rule that admits clients without a cell, and another rule with room. The first rule has two limits, whose tables
/// are full. For a new client, the limit of the hour is decided by the spill, but the limit of the day has no spill.
fn stacked() -> World {
    let limits = "limits: [{unit: hour, requests_per_unit: 5}, \
                  {unit: day, requests_per_unit: 8, algorithm: fixed-window from-first}]";
    let world = World::new(&format!(
        "domain: d\ndescriptors:\n  - {{key: user, capacity: 10, on_full: allow, {limits}}}\n  \
         - {{key: path, rate_limit: {{unit: hour, requests_per_unit: 6}}}}\n"
    ));
    // Three clients for each cell; more would use up the spill, whose cells new clients share.
    for user in 0..60 {
        world.check("d", &[&[("user", &user.to_string())]]);
    }
    world
}

#[test]
fn other_limits_of_a_request_are_charged_though_one_has_no_cell_and_allows() {
    let world = stacked();
    // The table of the day has neither a cell nor a spill for the client. The table of the hour has a spill, and is
    // charged.
    let alone = || world.check("d", &[&[("user", "newcomer")]]);
    let answer = alone();
    assert_eq!((answer.code(), status(&answer).no_cell), (Code::Ok, Some(NoCell::Spilled)));
    // Another descriptor of the same request is charged as usual: its limit admits six units and no more.
    let both = || world.check("d", &[&[("user", "other")], &[("path", "/")]]);
    for left in (0..6).rev() {
        let answer = both();
        assert_eq!((answer.code(), answer.statuses()[1].remaining), (Code::Ok, left));
        assert_eq!(answer.statuses()[0].no_cell, Some(NoCell::Allowed));
    }
    let denied = both();
    assert_eq!(denied.code(), Code::OverLimit);
    assert_eq!(denied.statuses().iter().map(|status| status.code).max(), Some(Code::OverLimit));
    assert_eq!(denied.statuses()[0].code, Code::Ok);
}

#[test]
fn a_client_with_a_cell_for_its_hour_and_none_for_its_day_is_told_so() {
    let world = stacked();
    // The cells in the table of the hour become free, because their windows are over. Those in the table of the day
    // stay taken.
    world.clock.advance(Duration::from_secs(7_200));
    for left in (0..5).rev() {
        let answer = world.check("d", &[&[("user", "newcomer")]]);
        let Status { code, remaining, no_cell, .. } = status(&answer);
        assert_eq!((code, remaining, no_cell), (Code::Ok, left, Some(NoCell::Allowed)));
    }
    let answer = world.check("d", &[&[("user", "newcomer")]]);
    assert_eq!(answer.code(), Code::OverLimit);
}

#[test]
fn a_limit_with_a_cell_is_charged_and_denies_though_another_limit_of_its_rule_has_none() {
    let world = stacked();
    // As above, the client gets a cell in the table of the hour, and none in that of the day.
    world.clock.advance(Duration::from_secs(7_200));
    let both = || world.check("d", &[&[("user", "newcomer")], &[("path", "/")]]);
    for left in (0..5).rev() {
        let answer = both();
        let Status { code, remaining, no_cell, .. } = status(&answer);
        assert_eq!((code, remaining, no_cell), (Code::Ok, left, Some(NoCell::Allowed)));
    }
    // The path has room for one more request, but the hour of the client is used up.
    let denied = both();
    assert_eq!(
        (denied.code(), over_and_left(&denied)),
        (Code::OverLimit, vec![(true, 0), (false, 1)])
    );
}

#[test]
fn a_client_is_told_of_the_spill_that_decides_one_of_its_limits_though_another_is_reported() {
    let limits =
        "limits: [{unit: hour, requests_per_unit: 5}, {unit: day, requests_per_unit: 100}]";
    let world = World::new(&with(&format!("{{key: user, capacity: 10, {limits}}}")));
    for user in 0..60 {
        world.check("d", &[&[("user", &user.to_string())]]);
    }
    // The cells of the hour become free, and those of the day stay taken.
    world.clock.advance(Duration::from_secs(7_200));
    let told = |answer: &Answer| {
        let Status { code, remaining, no_cell, .. } = status(answer);
        (code, remaining, no_cell)
    };
    let expected = (Code::Ok, 4, Some(NoCell::Spilled));
    assert_eq!(told(&world.check("d", &[&[("user", "newcomer")]])), expected);
    // A peek finds the same.
    let descriptors = [Descriptor::new(&[("user", "newcomer")])];
    let looked = world.maker.peek(&Request::new("d", &descriptors)).unwrap();
    assert_eq!(told(&looked), expected);
}

#[test]
fn a_newcomer_is_told_that_it_has_no_cell_even_if_its_other_limit_is_used_up() {
    let world = stacked();
    (0..6).for_each(|_| drop(world.check("d", &[&[("user", "newcomer")]])));
    let (user, path) = ([("user", "newcomer")], [("path", "/")]);
    // The limit of the hour is used up, but a cost of 0 is admitted.
    let descriptors =
        [Descriptor { hits: Some(0), ..Descriptor::new(&user) }, Descriptor::new(&path)];
    let answer = world.ask(&Request::new("d", &descriptors)).expect("good");
    let Status { code, remaining, no_cell, .. } = status(&answer);
    assert_eq!((code, remaining, no_cell), (Code::Ok, 0, Some(NoCell::Allowed)));
}

#[test]
fn a_full_table_is_reported_at_most_once_a_minute_with_what_came_since() {
    let world = full("on_full: deny");
    let reported = |seconds: u64| {
        world.clock.advance(Duration::from_secs(seconds));
        let answers = (0..100).map(|client| ask(&world, 1_000 + client));
        answers.flat_map(|answer| answer.reports().to_vec()).collect::<Vec<_>>()
    };
    // The first request that found the table full was reported, and the minute after it is not over.
    assert_eq!(reported(0), []);
    assert_eq!(reported(59), []);
    let before = counts(&world).full_denied;
    let [report] = &reported(1)[..] else { panic!("one report") };
    assert_eq!((report.domain(), report.path()), ("d", "remote_address"));
    // The report includes all denials except the first, which the first report included.
    assert_eq!(report.hits(NoCell::Denied), before);
    assert_eq!(
        report.to_string(),
        format!(
            "d.remote_address: its table for 10 clients is full; of the hits of clients without a cell 0 were \
             decided in the spill, {before} denied and 0 admitted; raise its capacity"
        )
    );
    assert_eq!(reported(30), []);
    assert_eq!(reported(30).len(), 1);
}

#[test]
fn a_table_goes_on_from_spill_to_allow_and_begins_anew_where_deny_comes_or_goes() {
    let world = World::new(&rule(10, "on_full: spill"));
    assert_eq!(status(&ask(&world, 7)).remaining, 99);
    world.load(&rule(10, "on_full: allow")).unwrap();
    assert_eq!(status(&ask(&world, 7)).remaining, 98);
    assert_eq!(world.changes(), [""; 0]);
    world.load(&rule(10, "on_full: deny")).unwrap();
    let anew = "d.remote_address: fixed-window 100/h and begins anew: whether clients without a cell are denied \
                is decided when a table is built";
    assert_eq!(world.changes(), [anew]);
    assert_eq!(status(&ask(&world, 7)).remaining, 99);
    world.load(&rule(10, "on_full: deny")).unwrap();
    assert_eq!((world.changes().len(), status(&ask(&world, 7)).remaining), (0, 98));
}

#[test]
fn an_unknown_word_is_refused_with_its_place_and_what_is_accepted() {
    assert_eq!(
        refused(rule(10, "on_full: wait")),
        "test.yaml:3:50: error checking config: on_full 'wait' is not understood; use spill, deny or allow"
    );
}
