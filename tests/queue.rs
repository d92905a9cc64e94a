//! The queue of a policy, of one limit and of each key: how many places the queue has, and how long a request may wait.

use std::time::Duration;

use tollgate::{
    BuildError, Entry, KeyedLimiter, Limiter, ManualClock, Policy, Quota, SketchLimiter,
    SketchSize, Wait,
};

const LONG: Duration = Duration::MAX;

fn policy(text: &str) -> Policy {
    text.parse().unwrap()
}

fn keyed(text: &str) -> (KeyedLimiter<str>, ManualClock) {
    let clock = ManualClock::new();
    (KeyedLimiter::builder(policy(text)).clock(clock.clone()).build(1_000).unwrap(), clock)
}

/// The waits, in milliseconds, of `asked` requests for one unit. Refused requests are left out.
fn waits<'a>(asked: u32, entry: impl Fn() -> Entry<'a>) -> Vec<u128> {
    let places = (0..asked).filter_map(|_| entry().reserve(1, LONG).ok());
    places.map(|place| place.wait().as_millis()).collect()
}

/// The example is nginx with `limit_req_zone ... rate=5r/s` and `burst=50`, and 60 requests at once.
#[test]
fn nginx_serves_the_first_at_once_and_the_next_fifty_at_steps_of_200_ms() {
    let steps: Vec<u128> = (0..=50).map(|place| place * 200).collect();
    for text in ["5/s burst 1 queue 50", "spaced 5/s queue 50", "gcra 1/200ms queue 50"] {
        let (limiter, _) = keyed(text);
        assert_eq!(waits(60, || limiter.entry("alice")), steps, "{text}");
        assert_eq!(waits(60, || limiter.entry("bob")), steps, "each key has its own");
        let one = Limiter::builder(policy(text)).clock(ManualClock::new()).build();
        assert_eq!(waits(60, || one.entry()), steps);
    }
}

/// With `nodelay` the same setting is a burst, so no request waits.
#[test]
fn nginx_with_nodelay_serves_fifty_one_at_once() {
    let (limiter, _) = keyed("5/s burst 51");
    let passed = (0..60).filter(|_| limiter.entry("alice").check().is_allowed());
    assert_eq!(passed.count(), 51);
}

#[test]
fn a_place_is_free_again_when_a_unit_has_drained() {
    let (limiter, clock) = keyed("leaky-bucket 4/s queue 2");
    assert_eq!(waits(9, || limiter.entry("alice")), [0, 0, 0, 0, 250, 500]);
    clock.advance(Duration::from_millis(249));
    assert!(waits(1, || limiter.entry("alice")).is_empty());
    clock.advance(Duration::from_millis(1));
    assert_eq!(waits(9, || limiter.entry("alice")), [500]);
}

#[test]
fn a_wait_bounds_the_queue_also_alone_and_the_nearer_bound_counts() {
    let (limiter, _) = keyed("5/s burst 1 wait 450ms");
    assert_eq!(waits(6, || limiter.entry("alice")), [0, 200, 400]);
    let (limiter, _) = keyed("5/s burst 1 queue 50 wait 400ms");
    assert_eq!(waits(6, || limiter.entry("alice")), [0, 200, 400]);
    let (limiter, _) = keyed("5/s burst 1 queue 1 wait 1h");
    assert_eq!(waits(6, || limiter.entry("alice")), [0, 200]);
}

#[test]
fn a_caller_may_ask_for_less_than_the_policy_gives_and_not_for_more() {
    let (limiter, _) = keyed("5/s burst 1 queue 50");
    let asked =
        |wait: Wait| (0..99).filter(move |_| limiter.entry("a").queue(1, wait).is_ok()).count();
    assert_eq!(asked(Wait::at_most(LONG).behind(3)), 4);
    let (limiter, _) = keyed("5/s burst 1 queue 50");
    let asked = |wait: Wait| (0..99).filter(|_| limiter.entry("a").queue(1, wait).is_ok()).count();
    assert_eq!(asked(Wait::at_most(Duration::from_secs(1))), 6);
    assert_eq!(asked(Wait::at_most(LONG).behind(1_000)), 45);
}

#[test]
fn a_check_does_not_wait_and_is_what_it_is_without_the_queue() {
    let (queued, clock) = keyed("7/s burst 3 queue 50");
    let plain = KeyedLimiter::<str>::builder(policy("7/s burst 3"))
        .clock(clock.clone())
        .build(1_000)
        .unwrap();
    for step in 0..2_000_u64 {
        let (key, cost) = (["a", "b"][usize::from(step % 3 == 0)], step % 5);
        let told = |limiter: &KeyedLimiter<str>| {
            let decision = limiter.entry(key).check_n(cost);
            (decision.is_allowed(), decision.remaining(), decision.retry_after())
        };
        let [one, other] = [&queued, &plain].map(told);
        assert_eq!(one, other, "at step {step}");
        clock.advance(Duration::from_millis(step * 37 % 190));
    }
}

#[test]
fn a_full_queue_survives_a_restart() {
    let (limiter, clock) = keyed("5/s burst 1 queue 50");
    assert_eq!(waits(40, || limiter.entry("alice")).len(), 40);
    let mut file = Vec::new();
    limiter.snapshot(&mut file).unwrap();
    let restored = KeyedLimiter::<str>::builder(policy("5/s burst 1 queue 50"))
        .clock(clock)
        .restore(&file[..])
        .unwrap();
    assert_eq!(
        waits(60, || restored.entry("alice")),
        (40..=50).map(|place| place * 200).collect::<Vec<_>>()
    );
}

#[test]
fn long_queues_fit_in_the_word_of_a_key() {
    for (text, asked) in [
        ("1/s burst 1 queue 100000", 100_001),
        ("1000/s burst 10 queue 100000", 100_010),
        ("10/s burst 5 queue 200 soft 100%", 210),
        ("10/s burst 5 queue 200 count-denied", 205),
        ("10/s burst 5 queue 200 penalty 10m after 3", 205),
    ] {
        let (limiter, _) = keyed(text);
        assert_eq!(waits(asked + 9, || limiter.entry("alice")).len(), asked as usize, "{text}");
    }
    let too_long =
        KeyedLimiter::<str>::new(policy("1000000/s queue 1000000000000"), 9).unwrap_err();
    assert!(matches!(too_long, BuildError::Policy(_)), "{too_long}");
}

#[test]
fn a_question_for_a_place_takes_none_and_tells_whether_there_is_one() {
    let text = policy("1/s burst 1 queue 1");
    let one = Limiter::builder(text).clock(ManualClock::new()).build();
    let live = Limiter::builder(text).clock(ManualClock::new()).changing().build().unwrap();
    let log = Limiter::builder(policy("sliding-log 1/s queue 1")).clock(ManualClock::new()).build();
    let (keyed, _) = keyed("1/s burst 1 queue 1");
    let tiers =
        KeyedLimiter::<str>::builder(text).changing().clock(ManualClock::new()).build(9).unwrap();
    for (name, entry) in [
        ("one", one.entry()),
        ("changing", live.entry()),
        ("log", log.entry()),
        ("keyed", keyed.entry("a")),
        ("tiers", tiers.entry("a")),
    ] {
        let wait = Wait::at_most(LONG);
        for left in [true, true, false] {
            let asked: Vec<bool> = (0..3).map(|_| entry.peek_queue(1, wait).is_allowed()).collect();
            assert_eq!(asked, [left; 3], "{name}");
            assert_eq!(entry.queue(1, wait).is_ok(), left, "{name}");
        }
    }
}

#[test]
fn what_has_no_queue_says_why() {
    let refused = |text: &str| text.parse::<Policy>().unwrap_err().to_string();
    for text in
        ["fixed-window 5/s queue 5", "calendar-year 5 wait 2s", "sliding-window 5/s queue 5"]
    {
        assert!(refused(text).contains("a window has no queue, since"), "{text}");
    }
    for text in ["5/s queue 0", "5/s wait 0s queue 5"] {
        assert!(!refused(text).is_empty());
    }
    assert!(refused("5/s queue").contains("places of queue"), "{}", refused("5/s queue"));
    assert!(refused("5/s wait").contains("wait \"\" is not understood"), "{}", refused("5/s wait"));
    assert!(refused("5/s wait 2s wait 3s").contains("wait is given twice"));
    let of = |wait| Policy::from(Quota::per_second(5)).queue(wait);
    for wait in [Wait::at_most(LONG), Wait::at_most(LONG).behind(5).jitter(Duration::from_secs(1))]
    {
        assert!(of(wait).unwrap_err().to_string().starts_with("a queue has at least one place"));
    }
    let queued = policy("5/s queue 5");
    let sketch = SketchLimiter::<str>::new(queued, SketchSize::for_load(100, 10).unwrap());
    assert!(sketch.unwrap_err().to_string().contains("queue"));
    // In a limiter whose quota may change, the queue is part of the quota in force.
    let places =
        |entry: Entry<'_>| (0..20).filter(|_| entry.reserve(1, Duration::MAX).is_ok()).count();
    let tiers =
        KeyedLimiter::builder(policy("5/s burst 1 queue 2")).tier(policy("5/s burst 1 queue 5"));
    let tiers = tiers.clock(ManualClock::new()).build(9).unwrap();
    assert_eq!([0, 1].map(|tier| places(tiers.entry("a").tier(tier).unwrap())), [3, 6]);
    let live = Limiter::builder(policy("5/s burst 1 queue 2"))
        .clock(ManualClock::new())
        .changing()
        .build();
    let live = live.unwrap();
    assert_eq!(places(live.entry()), 3);
    live.set_quota(policy("5/s burst 1 queue 5")).unwrap();
    live.entry().reset();
    assert_eq!(places(live.entry()), 6);
}
