//! `mode`, `count_rejected` and `penalty` become words of a policy, and the core decides by them.

use std::time::Duration;

use crate::common::{World, limit, over_and_left};
use tollgate::{Changing, Decision, KeyedLimiter, ManualClock, Policy};

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
fn every_word_decides_as_the_core_does_with_the_same_words() {
    const ALGORITHMS: [(&str, &str); 4] = [
        ("gcra", "gcra 4/m"),
        ("fixed-window", "fixed-window 4/m"),
        ("sliding-window strict", "sliding-window 4/m strict"),
        ("segmented-window x6", "segmented-window 4/m x6"),
    ];
    const WORDS: [(&str, &str); 6] = [
        ("", ""),
        (", mode: hard, count_rejected: false", ""),
        (", mode: soft 50%", " soft 50%"),
        (", count_rejected: true", " count-denied"),
        (", penalty: 2m after 2 extended", " penalty 2m after 2 extended"),
        (
            ", mode: soft 25%, count_rejected: true, penalty: 5m after 3",
            " soft 25% count-denied penalty 5m after 3",
        ),
    ];
    // Only under GCRA can `count_rejected` name a maximum wait.
    let up_to = (ALGORITHMS[0], (", count_rejected: 40s", " count-denied 40s"));
    let all = ALGORITHMS.into_iter().flat_map(|one| WORDS.map(|other| (one, other)));
    for ((algorithm, policy), (keys, words)) in all.chain([up_to]) {
        let text = format!("unit: minute, requests_per_unit: 4, algorithm: {algorithm}{keys}");
        let (world, clock) = (World::new(&limit(&text)), ManualClock::new());
        let policy: Policy = format!("{policy}{words}").parse().expect("a policy");
        // The core's table is built like the table of a rule, whose policy a reload can change.
        let core = KeyedLimiter::builder(policy).changing().clock(clock.clone()).build(100);
        let core: Changing<KeyedLimiter<str>> = core.expect("a table");
        // The window is not a multiple of the time steps, and the costs are 1 to 3.
        for n in 0..200_u64 {
            let decision = core.check_n("alice", 1 + n % 3);
            let (waits, is_soft) = match &decision {
                Decision::Allowed(permit) => (None, permit.is_over()),
                Decision::Denied(denial) => (denial.retry_after(), false),
            };
            let status = world.take("d", "k", 1 + n % 3).statuses()[0];
            assert_eq!(
                (!status.is_over, status.remaining, status.retry_after, status.reset_after),
                (decision.is_allowed(), decision.remaining(), waits, decision.reset_after()),
                "{text}, request {n}"
            );
            assert_eq!(status.is_within_soft, is_soft, "{text}, request {n}");
            let step = Duration::from_millis(700 + 613 * (n % 11));
            world.clock.advance(step);
            clock.advance(step);
        }
    }
}
