//! `mode`, `count_rejected` and `penalty` become words of a policy, and the core decides by them.

use std::time::Duration;

use crate::common::{World, over_and_left};
use tollgate::{Changing, Decision, KeyedLimiter, ManualClock, Policy};
use tollgate_rules::{Answer, Descriptor, Request};

fn one(limit: &str) -> String {
    format!("domain: d\ndescriptors:\n  - key: user\n    rate_limit: {{{limit}}}\n")
}

fn ask(world: &World, hits: u64) -> Answer {
    let entries = [("user", "alice")];
    let descriptors = [Descriptor { hits: Some(hits), ..Descriptor::new(&entries) }];
    world.ask(&Request::new("d", &descriptors)).expect("a good request")
}

/// Whether the request is admitted, the units left, and for a denial the wait in whole seconds, rounded up as in
/// headers.
fn told(answer: &Answer) -> (bool, u64, Option<u64>) {
    let status = answer.statuses()[0];
    let up = |wait: Duration| wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    (answer.is_allowed(), status.remaining, status.retry_after.map(up))
}

fn secs(world: &World, seconds: u64) {
    world.clock.advance(Duration::from_secs(seconds));
}

#[test]
fn soft_admits_its_share_more_and_hard_nothing() {
    for (words, admitted) in
        [("", 4), (", mode: hard", 4), (", mode: soft 50%", 6), (", mode: soft 25%", 5)]
    {
        for algorithm in ["", ", algorithm: gcra", ", algorithm: sliding-window strict"] {
            let limit = format!("unit: minute, requests_per_unit: 4{algorithm}{words}");
            let world = World::new(&one(&limit));
            for n in 1..=admitted {
                // The units left are those of the limit without its soft share.
                assert_eq!(told(&ask(&world, 1)), (true, 4_u64.saturating_sub(n), None), "{limit}");
            }
            assert!(!ask(&world, 1).is_allowed(), "{limit}");
        }
    }
}

#[test]
fn soft_tells_the_wait_for_the_softened_limit() {
    let limit = "unit: minute, requests_per_unit: 4, algorithm: gcra, mode: soft 50%";
    let world = World::new(&one(limit));
    assert_eq!(told(&ask(&world, 6)), (true, 0, None));
    assert_eq!(told(&ask(&world, 1)), (false, 0, Some(15)));
    assert_eq!(told(&ask(&world, 7)), (false, 0, None));
    secs(&world, 15);
    assert!(ask(&world, 1).is_allowed());
}

#[test]
fn counted_denials_keep_out_a_client_that_keeps_asking() {
    let plain = "unit: minute, requests_per_unit: 4, algorithm: gcra";
    let waits = |words: &str| {
        let world = World::new(&one(&format!("{plain}{words}")));
        assert_eq!(told(&ask(&world, 4)), (true, 0, None));
        [(); 5].map(|()| told(&ask(&world, 1)).2.expect("it will fit"))
    };
    assert_eq!(waits(""), [15; 5]);
    assert_eq!(waits(", count_rejected: false"), [15; 5]);
    // Each denial adds the time of one unit to the wait, up to a minute, in which the whole burst comes back.
    assert_eq!(waits(", count_rejected: true"), [30, 45, 60, 60, 60]);
    assert_eq!(waits(", count_rejected: 40s"), [30, 40, 40, 40, 40]);
}

#[test]
fn a_counted_denial_is_charged_to_the_limit_that_denied_and_to_no_other() {
    let world = World::new(
        "domain: d
descriptors:
  - {key: strict, rate_limit: {unit: minute, requests_per_unit: 2, algorithm: gcra, count_rejected: true}}
  - {key: wide, rate_limit: {unit: minute, requests_per_unit: 10}}
",
    );
    let check = || world.check("d", &[&[("strict", "x")], &[("wide", "x")]]);
    assert_eq!(over_and_left(&check()), [(false, 1), (false, 9)]);
    assert_eq!(over_and_left(&check()), [(false, 0), (false, 8)]);
    for _ in 0..3 {
        let denied = check();
        assert_eq!(over_and_left(&denied), [(true, 0), (false, 8)]);
        assert_eq!(denied.retry_after(), Some(Duration::from_secs(60)));
    }
}

#[test]
fn a_penalty_begins_with_its_denial_and_ends_to_the_second() {
    let limit = "unit: minute, requests_per_unit: 2, algorithm: gcra, penalty: 10m after 3";
    let world = World::new(&one(limit));
    assert_eq!(told(&ask(&world, 2)), (true, 0, None));
    for _ in 0..2 {
        assert_eq!(told(&ask(&world, 1)), (false, 0, Some(30)));
    }
    assert_eq!(told(&ask(&world, 1)), (false, 0, Some(600)));
    secs(&world, 599);
    assert_eq!(told(&ask(&world, 1)), (false, 0, Some(1)));
    secs(&world, 1);
    assert_eq!(told(&ask(&world, 1)), (true, 1, None));
}

#[test]
fn every_word_decides_as_the_core_does_with_the_same_words() {
    const ALGORITHMS: [(&str, &str); 4] = [
        ("gcra", "gcra 4/m"),
        ("fixed-window", "fixed-window 4/m"),
        ("sliding-window strict", "sliding-window 4/m strict"),
        ("segmented-window x6", "segmented-window 4/m x6"),
    ];
    const WORDS: [(&str, &str); 5] = [
        ("", ""),
        (", mode: soft 50%", " soft 50%"),
        (", count_rejected: true", " count-denied"),
        (", penalty: 2m after 2 extended", " penalty 2m after 2 extended"),
        (
            ", mode: soft 25%, count_rejected: true, penalty: 5m after 3",
            " soft 25% count-denied penalty 5m after 3",
        ),
    ];
    for ((algorithm, policy), (keys, words)) in
        ALGORITHMS.into_iter().flat_map(|one| WORDS.map(|other| (one, other)))
    {
        let limit = format!("unit: minute, requests_per_unit: 4, algorithm: {algorithm}{keys}");
        let (world, clock) = (World::new(&one(&limit)), ManualClock::new());
        let policy: Policy = format!("{policy}{words}").parse().expect("a policy");
        // The core's table is built as a rule builds it, so that a reload could change its policy.
        let core = KeyedLimiter::builder(policy).changing().clock(clock.clone()).build(100);
        let core: Changing<KeyedLimiter<str>> = core.expect("a table");
        // The steps of time do not divide the window, and the costs are 1 to 3.
        for n in 0..200_u64 {
            let decision = core.check_n("alice", 1 + n % 3);
            let (waits, is_soft) = match &decision {
                Decision::Allowed(permit) => (None, permit.is_over()),
                Decision::Denied(denial) => (denial.retry_after(), false),
            };
            let status = ask(&world, 1 + n % 3).statuses()[0];
            assert_eq!(
                (!status.is_over, status.remaining, status.retry_after, status.reset_after),
                (decision.is_allowed(), decision.remaining(), waits, decision.reset_after()),
                "{limit}, request {n}"
            );
            assert_eq!(status.is_within_soft, is_soft, "{limit}, request {n}");
            let step = Duration::from_millis(700 + 613 * (n % 11));
            world.clock.advance(step);
            clock.advance(step);
        }
    }
}
