//! A quota that is lowered and raised again admits no more than the largest quota that was in force.

use std::time::Duration;

use tollgate::{Changing, Decision, KeyedLimiter, Limiter, Timestamp};

use super::{Both, at};
use crate::common::{new_clock, on, policy};

/// Every kind of limit whose quota may change, with a limit of a hundred an hour or fewer.
const KINDS: [&str; 7] = [
    "gcra N/h",
    "fixed-window N/h",
    "fixed-window N/h from-first",
    "sliding-window N/h",
    "sliding-window N/h exact",
    "sliding-window N/h strict",
    "segmented-window N/h x4",
];

fn of(kind: &str, limit: u64) -> String {
    kind.replace('N', &limit.to_string())
}

/// The number of requests that are admitted out of a hundred.
fn admitted(both: &Both, seconds: u64) -> usize {
    (0..100).filter(|_| both.check(1, seconds)).count()
}

/// The beginning of an hour, at which a window of every length begins.
const START: u64 = 36_000;

#[test]
fn to_and_fro_admits_no_more_than_the_largest_limit_that_was_in_force() {
    for kind in KINDS {
        let texts = [100, 1].map(|limit| of(kind, limit));
        let both = Both::among(&[&texts[0], &texts[1]]);
        let mut sum = admitted(&both, START);
        for _ in 0..4 {
            both.set(&texts[1], START);
            sum += admitted(&both, START);
            both.set(&texts[0], START);
            sum += admitted(&both, START);
        }
        assert_eq!(sum, 100, "{kind}");
    }
}

#[test]
fn after_a_change_the_new_limit_less_what_was_spent_is_left() {
    for kind in KINDS {
        let texts = [100, 40, 70].map(|limit| of(kind, limit));
        let both = Both::among(&[&texts[0], &texts[1], &texts[2]]);
        assert!(both.check(60, START), "{kind}");
        for (text, left) in [(1, 0), (2, 10), (0, 40), (1, 0), (0, 40)] {
            both.set(&texts[text], START + 1);
            assert_eq!(both.left(START + 1), left, "{kind} {}", texts[text]);
        }
        assert!(both.check(40, START + 1), "{kind}");
        assert!(!both.check(1, START + 1), "{kind}");
    }
}

#[test]
fn under_a_lower_limit_a_client_waits_for_one_unit_of_it_and_no_longer() {
    for kind in KINDS {
        let texts = [100, 2].map(|limit| of(kind, limit));
        let both = Both::among(&[&texts[0], &texts[1]]);
        let fresh = Limiter::builder(policy(&texts[1])).clock(new_clock()).build();
        assert!(both.check(100, START), "{kind}");
        both.set(&texts[1], START);
        // The waits must be those of a limiter that had the lower limit from the start and has just used it up.
        assert!(fresh.entry().at(at(START)).check_n(2).is_allowed());
        let wait = |decision: Decision| match decision {
            Decision::Denied(denial) => denial.retry_after().expect("it fits some time"),
            Decision::Allowed(_) => Duration::ZERO,
        };
        let expected = wait(fresh.entry().at(at(START)).peek(1));
        let keyed = wait(both.table.entry(&7).at(at(START)).peek(1));
        let live = wait(both.live.entry().at(at(START)).peek(1));
        // A tick of a table is at most 1/256 of a unit.
        let tick = Duration::from_secs(1_800) / 256;
        for wait in [keyed, live] {
            assert!(wait <= expected + tick && wait + tick >= expected, "{kind}: {wait:?}");
        }
    }
}

#[test]
fn what_was_spent_counts_when_the_limit_is_put_back_within_its_window_and_not_after_it() {
    for (kind, left) in [
        ("gcra N/h", [49, 100]),
        ("fixed-window N/h", [0, 100]),
        ("fixed-window N/h from-first", [0, 100]),
        ("segmented-window N/h x4", [0, 100]),
    ] {
        for (later, left) in [1_800, 3_600].into_iter().zip(left) {
            let texts = [100, 1].map(|limit| of(kind, limit));
            let both = Both::among(&[&texts[0], &texts[1]]);
            assert!(both.check(100, START), "{kind}");
            both.set(&texts[1], START);
            both.set(&texts[0], START + later);
            assert_eq!(both.left(START + later), left, "{kind}, {later} s later");
        }
    }
    // The previous window is weighted by the share of it that lies in the sliding window.
    let texts = [100, 1].map(|limit| of("sliding-window N/h", limit));
    let both = Both::among(&[&texts[0], &texts[1]]);
    assert!(both.check(100, START));
    both.set(&texts[1], START);
    both.set(&texts[0], START + 3_600 + 900);
    assert_eq!(both.left(START + 4_500), 25);
}

/// A lower quota whose one unit comes back in a second. Its words are idle long before the spent units of the larger
/// quota have come back.
const QUICK: &str = "gcra 3600/h burst 1";

fn quick(capacity: usize) -> Changing<KeyedLimiter<u64>> {
    let (large, quick) = (policy("gcra 100/h"), policy(QUICK));
    KeyedLimiter::builder(large).headroom(quick).clock(new_clock()).build(capacity).unwrap()
}

fn set(table: &Changing<KeyedLimiter<u64>>, text: &str, seconds: u64) {
    on(at(seconds));
    table.set_quota(policy(text)).unwrap();
}

fn left(table: &KeyedLimiter<u64>, seconds: u64) -> u64 {
    table.entry(&7).at(at(seconds)).peek(0).remaining()
}

#[test]
fn a_key_that_owes_nothing_any_more_keeps_its_cell_while_its_surplus_counts() {
    let table = quick(14);
    assert!(table.entry(&7).at(at(START)).check_n(100).is_allowed());
    set(&table, QUICK, START);
    // More other keys come and go than the table has cells, and its floors advance.
    for second in (START + 2..START + 1_800).step_by(20) {
        for stranger in 100..140 {
            let _ = table.entry(&(second * 1_000 + stranger)).at(at(second)).check();
        }
    }
    assert_eq!(left(&table, START + 1_799), 1);
    set(&table, "gcra 100/h", START + 1_800);
    let left = left(&table, START + 1_800);
    assert!(left <= 50, "half of it came back, not {left}");
}

#[test]
fn a_key_without_a_cell_gets_no_more_by_to_and_fro_than_one_with_a_cell() {
    for lower in ["gcra 1/h", QUICK] {
        let large = policy("gcra 100/h");
        let tiers = KeyedLimiter::builder(large).headroom(policy(lower));
        let table: Changing<KeyedLimiter<u64>> = tiers.clock(new_clock()).build(1).unwrap();
        // There are so many keys that most of them are in the spill.
        let keys = 0..200;
        let mut sums = vec![0; 200];
        for (step, text) in
            ["gcra 100/h", lower, "gcra 100/h", lower, "gcra 100/h"].iter().enumerate()
        {
            let second = START + 5 * step as u64;
            set(&table, text, second);
            for (key, sum) in keys.clone().zip(&mut sums) {
                *sum += (0..100)
                    .filter(|_| table.entry(&key).at(at(second)).check().is_allowed())
                    .count();
            }
        }
        assert!(table.stats().spilled > 0, "or this shows nothing");
        let most = sums.iter().max().unwrap();
        // Less than a unit comes back in twenty seconds. Under the quick quota up to one unit comes back between two
        // changes.
        assert!(*most <= 103, "{lower}: {most}");
    }
}

#[test]
fn a_snapshot_holds_what_a_lower_limit_cannot_count() {
    let tiers = |text: &str| KeyedLimiter::builder(policy(text)).headroom(policy("gcra 100/h"));
    let table: Changing<KeyedLimiter<u64>> =
        tiers("gcra 100/h").clock(new_clock()).build(10).unwrap();
    assert!(table.entry(&7).at(at(START)).check_n(100).is_allowed());
    set(&table, "gcra 1/h", START);
    let mut file = Vec::new();
    table.snapshot(&mut file).unwrap();
    let clock = new_clock();
    clock.set(at(START));
    let table: Changing<KeyedLimiter<u64>> =
        tiers("gcra 1/h").clock(clock).restore(&file[..]).unwrap();
    set(&table, "gcra 100/h", START);
    assert_eq!(left(&table, START), 0);
}

#[test]
fn a_reset_forgets_what_was_spent_under_every_quota() {
    // In the second row, all that the key owes under ten a second has drained just when the reset comes. The ninety
    // units that this quota could not count still count when the first quota comes back.
    for (between, seconds) in [("gcra 1/h", 0), ("gcra 10/s", 1)] {
        for resets in [false, true] {
            let both = Both::among(&["gcra 100/h", between]);
            assert!(both.check(100, START));
            both.set(between, START);
            let now = START + seconds;
            if resets {
                both.table.entry(&7).at(at(now)).reset();
                both.live.entry().at(at(now)).reset();
            }
            both.set("gcra 100/h", now);
            let left = [left(&both.table, now), both.live.entry().at(at(now)).peek(0).remaining()];
            // A word stores a surplus only in steps, so the table may have fewer units left.
            let is_as_promised = |left: &u64| if resets { *left == 100 } else { *left <= 10 };
            assert!(left.iter().all(is_as_promised), "{between}, {resets}: {left:?}");
        }
    }
}

#[test]
fn a_surplus_that_a_word_cannot_tell_exactly_is_told_less_than_a_step_too_large() {
    let texts = ["gcra 10000/s", "gcra 9000/s"];
    let table: Changing<KeyedLimiter<u64>> =
        KeyedLimiter::builder(policy(texts[0])).changing().clock(new_clock()).build(10).unwrap();
    // The word has four bits for the surplus, which are fifteen steps up to twice the limit.
    let step = 20_000_u64.div_ceil(15);
    for spent in [9_001, 9_500, 10_000] {
        table.entry(&7).at(at(START)).reset();
        assert!(table.entry(&7).at(at(START)).check_n(spent).is_allowed());
        for text in [texts[1], texts[0]] {
            set(&table, text, START);
        }
        let left = left(&table, START);
        assert!(left <= 10_000 - spent, "{left} of {spent}");
        assert!(left + step > 10_000 - spent, "{left} of {spent}");
    }
}

#[test]
fn a_change_with_a_penalty_does_not_walk_through_all_epochs_since_a_key_was_idle() {
    let texts = ["gcra 100/m penalty 10m after 3", "gcra 90/m penalty 10m after 3"];
    let table: Changing<KeyedLimiter<u64>> = KeyedLimiter::builder(policy(texts[0]))
        .headroom(policy(texts[1]))
        .clock(new_clock())
        .build(100)
        .unwrap();
    for key in 0..100 {
        assert!(table.entry(&key).at(at(START)).check().is_allowed());
    }
    // If the table advanced epoch by epoch, this would take practically forever.
    let seventy_years = 70 * 365 * 86_400;
    set(&table, texts[1], START + seventy_years);
    assert_eq!(table.entry(&7).at(at(START + seventy_years)).peek(0).remaining(), 90);
}

#[test]
fn a_debt_beyond_the_burst_outlasts_a_change_of_rate_for_as_long_as_it_would_have_taken() {
    let both = Both::among(&["gcra 1000/h burst 1000", "gcra 500/h burst 1000"]);
    let _ = both.table.entry(&7).at(at(START)).charge(2_000);
    let _ = both.live.entry().at(at(START)).charge(2_000);
    both.set("gcra 500/h burst 1000", START);
    // The 1,000 units beyond the burst take an hour to drain, and one more unit takes 7.2 s.
    let after = |ms| Timestamp::from_millis(1_000 * START + ms);
    for (ms, is_allowed) in [(3_607_100, false), (3_607_300, true)] {
        assert_eq!(both.table.entry(&7).at(after(ms)).peek(1).is_allowed(), is_allowed, "{ms}");
        assert_eq!(both.live.entry().at(after(ms)).peek(1).is_allowed(), is_allowed, "{ms}");
    }
}
