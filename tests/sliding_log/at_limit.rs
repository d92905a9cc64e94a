//! The options `soft` and `count-denied` in a sliding log, for a single limit and for a key.

use std::thread;
use std::time::Duration;

use tollgate::{
    Decision, DenialReason, Entry, KeyedLimiter, Limiter, ManualClock, Policy, Quota, Timestamp,
    Wait, check_all,
};

use super::{Told, told};
use crate::common::{at, instant};

struct Both {
    log: Limiter,
    keyed: KeyedLimiter<str>,
}

impl Both {
    fn new(text: &str) -> Self {
        Self::of(text.parse().unwrap_or_else(|error| panic!("{error}")))
    }

    fn of(policy: Policy) -> Self {
        let keyed = KeyedLimiter::builder(policy).clock(ManualClock::new()).build(10).unwrap();
        Self { log: Limiter::builder(policy).clock(ManualClock::new()).build(), keyed }
    }

    fn entries(&self, now: Timestamp) -> [Entry<'_>; 2] {
        [self.log.entry().at(now), self.keyed.entry("alice").at(now)]
    }

    /// Asks both logs, checks that they agree, and returns their answer.
    fn ask(&self, now: Timestamp, ask: impl Fn(Entry<'_>) -> Decision) -> Decision {
        let [decision, keyed] = self.entries(now).map(ask);
        assert_eq!(everything(&keyed), everything(&decision), "at {now:?}");
        decision
    }

    fn check(&self, cost: u64, millis: u64) -> Decision {
        self.ask(Timestamp::from_millis(millis), |entry| entry.check_n(cost))
    }

    fn decisions(&self, times: &str) -> String {
        let letter = |allowed: bool| if allowed { 'A' } else { 'D' };
        let ask = |now_ns| self.ask(Timestamp::from_nanos(now_ns), |entry| entry.check());
        at(times).iter().map(|&(now_ns, _)| letter(ask(now_ns).is_allowed())).collect()
    }
}

fn everything(decision: &Decision) -> (Told, u64, bool) {
    let is_over = matches!(decision, Decision::Allowed(permit) if permit.is_over());
    (told(decision), decision.limit(), is_over)
}

fn wait_ms(decision: &Decision) -> u128 {
    decision.retry_after().unwrap().as_millis()
}

#[test]
fn example_06_denied_requests_in_the_log_change_nothing_there() {
    let times = "0:05 0:15 1:01 1:10 1:40 1:50 2:20";
    for words in ["", " count-denied"] {
        assert_eq!(Both::new(&format!("sliding-log 3/m{words}")).decisions(times), "AAAAADA");
    }
}

#[test]
fn a_client_that_keeps_asking_is_kept_out_while_denials_count() {
    let times = "0:00 0:20 0:30 0:50 1:20 1:40 2:10 2:50 3:40";
    assert_eq!(Both::new("sliding-log 2/m").decisions(times), "AADDAAD".to_owned() + "AA");
    // At 0:50 the log holds 0:30 and 0:50, at 1:20 it holds 0:50 and 1:20, and so on. So it admits two in every minute.
    let counted = Both::new("sliding-log 2/m count-denied").decisions(times);
    assert_eq!(counted, "AADDDDDDA".replace("DDDDDDA", "DDDDDAA"));
}

#[test]
fn example_26_a_soft_log_admits_five_percent_more_and_says_so() {
    let both = Both::new("sliding-log 500/m soft 5%");
    for n in 1..=525 {
        let permit = both.check(1, 1_000).into_result().unwrap();
        assert_eq!((permit.is_over(), permit.limit()), (n > 500, 500));
        assert_eq!(permit.remaining(), 500_u64.saturating_sub(n));
    }
    let denial = both.check(1, 1_000).into_result().unwrap_err();
    assert_eq!((denial.limit(), denial.remaining()), (500, 0));
    assert_eq!(denial.retry_after(), Some(Duration::from_secs(60)));
    assert_eq!(both.check(526, 1_000).into_result().unwrap_err().reason(), DenialReason::NeverFits);
    assert_ne!(both.check(525, 1_000).into_result().unwrap_err().reason(), DenialReason::NeverFits);
    let fresh = Both::new("sliding-log 50/m soft 5%");
    assert!(fresh.ask(instant("1"), |entry| entry.peek(52)).is_allowed());
    let is_over = |cost| match fresh.ask(instant("1"), |entry| entry.peek(cost)) {
        Decision::Allowed(permit) => permit.is_over(),
        Decision::Denied(denial) => panic!("{denial}"),
    };
    assert_eq!([0, 50, 51, 52].map(is_over), [false, false, true, true]);
}

#[test]
fn each_verb_records_its_denial_once() {
    let both = Both::new("sliding-log 2/s count-denied");
    assert!(both.check(2, 10_000).is_allowed());
    let wait = |millis| {
        let peek = both.ask(Timestamp::from_millis(millis), |entry| entry.peek(2));
        millis + u64::try_from(wait_ms(&peek)).unwrap()
    };
    assert_eq!(wait(10_100), 11_000, "a question records nothing");
    // A cost that never fits records nothing, and neither does a cost of 0.
    assert!(!both.check(3, 10_100).is_allowed());
    assert_eq!(wait(10_100), 11_000);
    // A denied `take_up_to` is recorded as one unit, so the other slot stays as it is.
    assert!(!both.ask(Timestamp::from_millis(10_200), |entry| entry.take_up_to(9)).is_allowed());
    let peek = both.ask(Timestamp::from_millis(10_200), |entry| entry.peek(1));
    assert_eq!((wait_ms(&peek), wait(10_200)), (800, 11_200));
    // A reservation whose place would come too late is denied and recorded.
    for entry in both.entries(Timestamp::from_millis(10_300)) {
        assert!(entry.reserve(1, Duration::from_millis(1)).is_err());
    }
    assert_eq!(wait(10_300), 11_300);
    // If this log denies a request under several limits, the log records the request once, whichever limit is asked
    // first.
    for limit in both.entries(Timestamp::from_millis(10_400)) {
        let free = Limiter::builder(Quota::per_second(9)).clock(ManualClock::new()).build();
        let other = free.entry().at(Timestamp::from_millis(10_400));
        assert!(!check_all(&mut [limit.cost(1), other.cost(1)]).is_allowed());
    }
    let peek = both.ask(Timestamp::from_millis(10_400), |entry| entry.peek(1));
    assert_eq!((wait_ms(&peek), wait(10_400)), (900, 11_400));
    // A charge is not a denial.
    for entry in both.entries(Timestamp::from_millis(10_500)) {
        assert_eq!(entry.charge(0), 0);
    }
    assert_eq!(wait(10_500), 11_400);
}

#[test]
fn a_flood_of_denials_is_recorded_once_for_each_unit_in_a_thousandth_of_the_window() {
    let both = Both::new("sliding-log 2/s count-denied");
    let at = |after_ns: u64| Timestamp::from_nanos(10_000_000_000 + after_ns);
    assert!(both.ask(at(0), |entry| entry.check_n(2)).is_allowed());
    // The times, in microseconds, at which one unit is free, and at which both units are free.
    let denied = |cost, after_ns| {
        assert!(!both.ask(at(after_ns), |entry| entry.check_n(cost)).is_allowed());
        [1, 2].map(|cost| {
            let wait = both.ask(at(after_ns), |entry| entry.peek(cost)).retry_after().unwrap();
            (after_ns + u64::try_from(wait.as_nanos()).unwrap()) / 1_000
        })
    };
    let flood = |from_ns: u64, told: [u64; 2]| {
        for after_ns in (0..10_000).map(|n| from_ns + n * 99).chain([from_ns + 999_999]) {
            assert_eq!(denied(1 + after_ns % 2, after_ns), told, "after {after_ns}");
        }
    };
    flood(0, [1_000_000, 1_000_000]);
    assert_eq!(denied(1, 1_000_000), [1_000_000, 1_001_000]);
    assert_eq!(denied(1, 1_000_000), [1_001_000, 1_001_000]);
    flood(1_000_000, [1_001_000, 1_001_000]);
    assert_eq!(denied(2, 2_000_000), [1_002_000, 1_002_000]);
}

#[test]
fn a_refund_of_what_has_left_the_ring_gives_nothing_back() {
    let both = Both::new("sliding-log 2/s count-denied");
    let now = Timestamp::from_secs(10);
    let permits = both.entries(now).map(|entry| entry.check_n(2).into_result().unwrap());
    // One denied unit takes the place of one of the two units.
    assert!(!both.check(1, 10_400).is_allowed());
    let later = Timestamp::from_millis(10_500);
    for (entry, permit) in both.entries(later).into_iter().zip(permits) {
        assert_eq!(entry.refund(permit), 1);
        assert_eq!(entry.peek(1).remaining(), 1);
    }
    assert!(both.check(1, 10_500).is_allowed());
    let peek = both.ask(later, |entry| entry.peek(1));
    assert_eq!(wait_ms(&peek), 900);
}

#[test]
fn a_late_denial_is_recorded_at_its_own_time_or_not_at_all() {
    let both = Both::new("sliding-log 2/s count-denied");
    assert!(both.check(1, 10_000).is_allowed());
    assert!(both.check(1, 10_800).is_allowed());
    // These denials are older than both units, so the two units, which are newer, stay.
    assert!(!both.check(1, 9_900).is_allowed());
    assert_eq!(wait_ms(&both.check(1, 0)), 11_000);
    // This denial lies between the two units, so it takes the place of the older one.
    assert!(!both.check(2, 10_400).is_allowed());
    let peek = both.ask(Timestamp::from_millis(10_900), |entry| entry.peek(1));
    assert_eq!(wait_ms(&peek), 500);
}

#[test]
fn a_log_with_a_queue_promises_places_up_to_its_end() {
    let both = Both::new("sliding-log 1/s queue 2 wait 1500ms");
    let waits = both.entries(Timestamp::from_secs(10)).map(|entry| {
        let waits = (0..4).map_while(|_| entry.queue(1, Wait::at_most(Duration::MAX)).ok());
        waits.map(|place| place.wait().as_millis()).collect::<Vec<_>>()
    });
    assert_eq!(waits, [[0, 1_000], [0, 1_000]]);
    let places = Both::new("sliding-log 2/s queue 3");
    let count = places
        .entries(Timestamp::from_secs(10))
        .map(|entry| (0..9).filter(|_| entry.reserve(1, Duration::MAX).is_ok()).count());
    assert_eq!(count, [5, 5]);
}

#[test]
fn threads_that_are_denied_never_open_the_limit() {
    for text in ["sliding-log 70/h count-denied", "sliding-log 60/h soft 17% count-denied"] {
        let both = &Both::new(text);
        let ask = move |thread: u64| {
            let mut units = [0; 2];
            for n in 0..400 {
                // Times go back and forth within a window. Some costs are 0, some never fit, and some are the whole
                // limit.
                let now =
                    Timestamp::from_millis(4_000_000 + (n * 7_919 + thread * 104_729) % 900_000);
                let cost = [1, 0, 3, 70, 71, u64::MAX, 2][((n + thread) % 7) as usize];
                for (sum, entry) in units.iter_mut().zip(both.entries(now)) {
                    *sum += if entry.check_n(cost).is_allowed() { cost } else { 0 };
                }
            }
            units
        };
        let units = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || ask(thread))).collect();
            let units = threads.into_iter().map(|thread| thread.join().unwrap());
            units.fold([0; 2], |[one, two], units| [one + units[0], two + units[1]])
        });
        assert!(units.iter().all(|units| (1..=70).contains(units)), "{text}: {units:?}");
        // The log is free again one window after the last denial.
        let last = Timestamp::from_millis(4_900_000 + 3_600_000);
        assert!(both.ask(last, |entry| entry.check_n(70)).is_allowed());
    }
}
