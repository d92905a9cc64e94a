//! Reloads that change a limit. Units that were spent stay spent, and a limit that starts empty is reported.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::{World, over_and_left, stacked, with};
use tollgate::{ChangeError, ManualClock};
use tollgate_rules::{
    DecisionMaker, Descriptor, LimitChange, Loss, Purpose, Request, RuleCache, RuleSettings,
    RuleText,
};

/// One rule with this text under `rate_limit`.
fn one(limit: &str) -> String {
    with(&format!("{{key: user, rate_limit: {{{limit}}}}}"))
}

const USER: &[(&str, &str)] = &[("user", "x")];

/// The units left, as a peek shows them.
fn left(world: &World) -> u64 {
    world.decide_keys("d", &[("user", 1)], Purpose::Peek).statuses()[0].remaining
}

fn spend(world: &World, hits: u64) -> (bool, u64) {
    over_and_left(&world.take("d", "user", hits))[0]
}

/// Loads the text. Returns the limits that changed, and for each the reason why it started empty, if it did.
fn reload(world: &World, text: &str) -> (Vec<String>, Vec<Option<Loss>>) {
    world.load(text).expect("good rules");
    (world.changes(), world.rules().changes().iter().map(LimitChange::loss).collect())
}

#[test]
fn a_raised_limit_gives_the_difference_and_a_lowered_one_takes_it() {
    let world = World::new(&one("unit: hour, requests_per_unit: 5"));
    assert_eq!(spend(&world, 3), (false, 2));
    let (texts, _) = reload(&world, &one("unit: hour, requests_per_unit: 9"));
    assert_eq!(
        texts,
        ["d.user: fixed-window 5/h is now fixed-window 9/h; what was spent stays spent"]
    );
    let (now, other) = (world.rules(), "fixed-window 5/h".parse().expect("a policy"));
    let change = &now.changes()[0];
    assert_eq!((change.domain(), change.path(), change.is_kept()), ("d", "user", true));
    assert_eq!(change.policies(), [other, "fixed-window 9/h".parse().expect("a policy")]);
    assert_eq!(left(&world), 6);
    reload(&world, &one("unit: hour, requests_per_unit: 2"));
    assert_eq!(spend(&world, 1), (true, 0));
    world.clock.advance(Duration::from_secs(3_599));
    assert_eq!(spend(&world, 1), (true, 0));
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(spend(&world, 1), (false, 1));
    // Loading the same rules changes nothing.
    assert_eq!(reload(&world, &one("unit: hour, requests_per_unit: 2")).0, [""; 0]);
    assert_eq!(left(&world), 1);
}

#[test]
fn a_changed_rate_counts_from_the_reload_on() {
    let gcra = |requests, burst| {
        one(&format!(
            "unit: minute, requests_per_unit: {requests}, algorithm: gcra, burst: {burst}"
        ))
    };
    let world = World::new(&gcra(60, 60));
    assert_eq!(spend(&world, 40), (false, 20));
    world.clock.advance(Duration::from_secs(10));
    // 30 of 50 units are spent. From here on one unit comes back in ten seconds.
    reload(&world, &gcra(6, 50));
    assert_eq!(left(&world), 20);
    world.clock.advance(Duration::from_secs(10));
    assert_eq!(left(&world), 21);
}

#[test]
fn another_algorithm_takes_over_what_was_used() {
    let world = World::new(&one("unit: minute, requests_per_unit: 10"));
    assert_eq!(spend(&world, 4), (false, 6));
    let gcra = one("unit: minute, requests_per_unit: 10, algorithm: gcra");
    let (texts, _) = reload(&world, &gcra);
    assert_eq!(world.counts("user").total(), 4);
    assert_eq!(texts, ["d.user: fixed-window 10/m is now gcra 10/m; what was spent stays spent"]);
    assert_eq!(left(&world), 6);
}

#[test]
fn stacked_limits_find_themselves_by_their_windows() {
    let world = World::new(&stacked(&[
        "unit: hour, requests_per_unit: 5",
        "unit: day, requests_per_unit: 8",
    ]));
    assert_eq!(spend(&world, 3), (false, 2));
    let (texts, _) = reload(
        &world,
        &stacked(&["unit: day, requests_per_unit: 9", "unit: hour, requests_per_unit: 6"]),
    );
    assert_eq!(
        texts,
        [
            "d.user: fixed-window 8/d is now fixed-window 9/d; what was spent stays spent",
            "d.user: fixed-window 5/h is now fixed-window 6/h; what was spent stays spent",
        ]
    );
    assert_eq!(spend(&world, 3), (false, 0));
    assert_eq!(spend(&world, 1), (true, 0));
    world.clock.advance(Duration::from_secs(3_600));
    // Six of the nine units of the day are spent.
    assert_eq!(spend(&world, 4), (true, 3));
    assert_eq!(spend(&world, 3), (false, 0));
}

#[test]
fn what_does_not_fit_begins_anew_and_says_so() {
    let world = World::new(&one("unit: minute, requests_per_unit: 60, algorithm: gcra"));
    assert_eq!(spend(&world, 40), (false, 20));
    let fast = one("unit: second, requests_per_unit: 10000, algorithm: gcra");
    let (texts, losses) = reload(&world, &fast);
    assert_eq!(losses, [Some(Loss::Refused(ChangeError::DoesNotFit { state_bits: 29 }))]);
    assert_eq!(
        texts,
        [
            "d.user: gcra 60/m is now gcra 10000/s and begins anew: it cannot be counted in the 29 bits \
          that the one of before was built with"
        ]
    );
    assert_eq!(left(&world), 10_000);
}

#[test]
fn limits_that_say_what_happens_at_them_keep_what_was_spent() {
    let limit = |requests, more: &str| {
        one(&format!("unit: hour, requests_per_unit: {requests}, algorithm: gcra{more}"))
    };
    let world = World::new(&limit(5, ""));
    assert_eq!(spend(&world, 3), (false, 2));
    // Three of the five units are spent, so two are left. After these, the soft share admits one more.
    assert_eq!(reload(&world, &limit(5, ", mode: soft 20%")).1, [None]);
    assert_eq!(left(&world), 2);
    assert_eq!(reload(&world, &limit(9, ", mode: soft 20%")).1, [None]);
    assert_eq!(left(&world), 6);
}

#[test]
fn a_load_that_is_refused_changes_no_limit() {
    let world = World::new(&one("unit: hour, requests_per_unit: 5"));
    assert_eq!(spend(&world, 3), (false, 2));
    let texts = [
        RuleText::new("test.yaml", one("unit: hour, requests_per_unit: 9")),
        RuleText::new("zzz.yaml", "domain: ''"),
    ];
    assert_eq!(world.maker.cache().load(&texts).expect_err("a bad file").len(), 1);
    assert_eq!(left(&world), 2);
    assert!(world.rules().changes().is_empty());
}

#[test]
fn a_limit_that_is_raised_while_threads_spend_it_is_spent_to_the_unit() {
    const LAST: u32 = 200;
    let clock = ManualClock::new();
    let settings = RuleSettings { default_capacity: Some(16), ..RuleSettings::default() };
    let cache = Arc::new(RuleCache::with_clock(settings, clock));
    let load = |requests: u32| {
        let text = one(&format!("unit: hour, requests_per_unit: {requests}"));
        cache.load(&[RuleText::new("d.yaml", text)]).expect("good rules")
    };
    load(1);
    let maker = DecisionMaker::new(Arc::clone(&cache)).expect("small tables");
    let admitted = AtomicU32::new(0);
    let spend_all = || loop {
        let descriptors = [Descriptor::new(USER)];
        let request = Request::new("d", &descriptors);
        if maker.check(&request).expect("a good request").is_allowed() {
            // Relaxed: the count is read after the threads have ended.
            admitted.fetch_add(1, Ordering::Relaxed);
        } else if cache.status().loads == u64::from(LAST) {
            // The denial came from the last limit, unless this limit was put in force after the check. So the request
            // is repeated.
            if !maker.check(&request).expect("a good request").is_allowed() {
                return;
            }
            admitted.fetch_add(1, Ordering::Relaxed);
        }
    };
    // The results are compared after all threads have ended. The threads run until the last load.
    let kept: Vec<Vec<bool>> = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(spend_all);
        }
        let kept = |requests| load(requests).changes().iter().map(LimitChange::is_kept).collect();
        (2..=LAST).map(kept).collect()
    });
    assert!(kept.iter().all(|kept| *kept == [true]));
    assert_eq!(admitted.into_inner(), LAST);
}

/// The changes that a load reports if limits are kept elsewhere, in a store that does not know the previous rules.
#[test]
fn of_limits_that_are_kept_elsewhere_the_longest_goes_on_and_the_others_by_their_windows() {
    let cache = RuleCache::new(RuleSettings::default()).vetted(|_| Ok(()));
    let load = |limits: &[&str], capacity: usize| {
        let text =
            stacked(limits).replace("    limits", &format!("    capacity: {capacity}\n    limits"));
        let rules = cache.load(&[RuleText::new("d.yaml", text)]).expect("good rules");
        rules.changes().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let (hour, day) = ("unit: hour, requests_per_unit: 5", "unit: day, requests_per_unit: 8");
    assert!(load(&[hour, day], 10).is_empty());
    // The order of the limits and the capacity may change.
    assert!(load(&[day, hour], 20).is_empty());
    assert_eq!(
        load(&["unit: day, requests_per_unit: 9", "unit: hour, requests_per_unit: 6"], 20),
        [
            "d.user: fixed-window 8/d is now fixed-window 9/d; what was spent stays spent",
            "d.user: fixed-window 5/h is now fixed-window 6/h; what was spent stays spent",
        ]
    );
    // The limit with the longest window continues, even if that window changes.
    assert_eq!(
        load(&["unit: week, requests_per_unit: 9"], 20),
        ["d.user: fixed-window 9/d is now fixed-window 9/7d; what was spent stays spent"]
    );
    // A limit that now has a longer limit beside it is identified by its window. Before, it was identified as the limit
    // with the longest window.
    let texts =
        load(&["unit: week, requests_per_unit: 9", "unit: year, requests_per_unit: 90"], 20);
    assert_eq!(
        texts,
        [
            "d.user: fixed-window 9/7d and begins anew: of the limits of a rule that is kept elsewhere the \
             longest goes on, and the others by their windows; there was none of 604800s beside a longer one",
            "d.user: fixed-window 9/7d is now fixed-window 90/365d; what was spent stays spent",
        ]
    );
    // The store keeps a sliding log apart from other limits.
    let begins = |before, now| {
        let text = "a sliding log is kept apart from other limits, and what was spent under one is not counted by the \
                    other";
        [format!(
            "d.user: {before} is now {now} and counts alone, with what it held if it was so before: {text}"
        )]
    };
    let window = |requests: u32| format!("unit: week, requests_per_unit: {requests}");
    let log = |requests: u32| window(requests) + ", algorithm: sliding-log";
    load(&[&window(9)], 20);
    let texts = load(&[&log(9)], 20);
    assert_eq!(texts, begins("fixed-window 9/7d", "sliding-log 9/7d"));
    let texts = load(&[&log(8)], 20);
    let goes_on = "d.user: sliding-log 9/7d is now sliding-log 8/7d; what was spent stays spent";
    assert_eq!(texts, [goes_on]);
    let texts = load(&[&window(8)], 20);
    assert_eq!(texts, begins("sliding-log 8/7d", "fixed-window 8/7d"));
}
