//! Small worlds, tested in full: every sequence of requests up to some length is compared with the reference model.
//!
//! Windows last a few milliseconds, and limits are a few units. For each request every step in time, backward steps
//! included, and every cost is tried. So each behaviour of an algorithm shows within a few requests. Sequences that
//! begin alike share their beginning, so a *case* is one request after one history.
//!
//! `TOLLGATE_EXHAUSTIVE=32 cargo test --release -p tollgate-model --test exhaustive` looks at 2^32 cases instead.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use tollgate::{Algorithm, AtLimit, CountDenied, Meter, Policy, Timestamp, Word};
use tollgate_model::{Plant, TimeFineness, TimedRequest, judge, verdict};
use tollgate_oracle::{Oracle, Verdict};

/// The worlds. Each period is short enough for the steps below to cross it several times.
const WORLDS: [&str; 35] = [
    "gcra 1/3ms",
    "gcra 2/3ms burst 3",
    "gcra 1/2ms burst 4",
    "gcra 3/7ms burst 2",
    "fixed-window 1/3ms",
    "fixed-window 3/4ms",
    "calendar-month 3",
    "calendar-month 2 soft 50%",
    "calendar-month 2 count-denied",
    "calendar-year 3",
    "calendar-week 3",
    "calendar-week 2 from-sunday soft 50%",
    "calendar-week 2 from-thursday count-denied",
    "fixed-window 2/3ms from-first",
    "fixed-window 3/4ms from-first",
    "sliding-window 2/3ms exact",
    "sliding-window 4/4ms exact",
    "sliding-window 3/4ms",
    "sliding-window 3/3ms strict",
    "segmented-window 3/4ms x2",
    "segmented-window 4/6ms x3",
    "gcra 2/3ms burst 2 soft 50%",
    "gcra 1/2ms burst 2 count-denied",
    "gcra 1/2ms burst 2 count-denied 1ms",
    "gcra 1/2ms burst 2 count-denied 0s",
    "gcra 1/2ms burst 2 penalty 6ms after 2",
    "gcra 2/3ms soft 50% count-denied 3ms penalty 9ms after 3 extended",
    "fixed-window 2/3ms soft 50% penalty 3ms after 2",
    "fixed-window 2/3ms from-first count-denied penalty 4ms after 1 extended",
    "sliding-window 2/3ms exact count-denied",
    "sliding-window 2/3ms exact soft 50% penalty 7ms after 2 extended",
    "sliding-window 3/4ms count-denied penalty 8ms after 2",
    "sliding-window 2/3ms strict soft 100% count-denied",
    "segmented-window 2/4ms x2 count-denied penalty 5ms after 2",
    "segmented-window 2/6ms x3 soft 50% penalty 6ms after 1",
];

/// The steps in time and the costs that are tried for each request of a sequence.
const STEPS_NS: [i64; 6] = [0, 1_000_000, 2_000_000, 3_000_000, 5_000_000, -2_000_000];
const COSTS: [u64; 4] = [0, 1, 2, 3];

/// The number of cases of all worlds together, as a power of 2.
fn power() -> u32 {
    let asked = std::env::var("TOLLGATE_EXHAUSTIVE").ok();
    asked.map_or(19, |number| number.parse().expect("TOLLGATE_EXHAUSTIVE is a power of two"))
}

/// One world, walked depth first.
struct Walk {
    meter: Meter,
    /// The times of the steps are multiplied by this factor.
    scale: i64,
    /// Whether denials are counted, so that a denial may write.
    counts: bool,
    cases: u64,
    /// One case in this many also asks the model for the answers that are expensive to compute.
    every: u64,
}

impl Walk {
    /// Checks every next request, every request after each of those, and so on, up to `depth` requests.
    fn explore(&mut self, word: Word, oracle: &Oracle, now_ns: u64, depth: u32) {
        for step_ns in STEPS_NS {
            for cost in COSTS {
                let now_ns = now_ns.saturating_add_signed(step_ns * self.scale);
                let mut oracle = oracle.clone();
                let next = self.case(word, &mut oracle, now_ns, cost);
                // If the word is unchanged, other cases already have the same continuations.
                if depth > 1 && next != word {
                    self.explore(next, &oracle, now_ns, depth - 1);
                }
            }
        }
    }

    fn case(&mut self, word: Word, oracle: &mut Oracle, now_ns: u64, cost: u64) -> Word {
        self.cases += 1;
        let now = Timestamp::from_nanos(now_ns);
        let (decision, next) = self.meter.check(word, now, cost);
        let before = oracle.clone();
        let expected = if self.cases.is_multiple_of(self.every) {
            let ask = TimedRequest { now_ns, cost, charge: true, exact: true };
            judge(oracle, ask, &decision)
                .unwrap_or_else(|told| panic!("{told}: cost {cost} at {now_ns} after {before:?}"))
        } else {
            let expected = oracle.check(now_ns, cost);
            assert_eq!(verdict(&decision), expected, "cost {cost} at {now_ns} after {before:?}");
            expected
        };
        let may_write = match expected {
            Verdict::Allowed => cost > 0,
            Verdict::Denied => cost > 0 && self.counts,
            Verdict::Never => false,
        };
        assert!(next == word || may_write, "a look or a denial wrote");
        assert!(next != word || expected != Verdict::Allowed || cost == 0, "not charged");
        next
    }
}

/// Walks one world, one request deeper each time, until enough cases were seen.
fn exhaust(policy: Policy, oracle: &Oracle, enough: u64) -> u64 {
    let mut cases = 0;
    for depth in 1.. {
        let AtLimit { count_denied, penalty, .. } = policy.at_limit();
        let counts = count_denied != CountDenied::No || penalty.is_some();
        let meter = Meter::new(policy).unwrap();
        // For months a millisecond becomes ten days, and for other windows of the calendar as much in proportion, so
        // that a few steps cross windows of every length.
        let is_calendar = matches!(policy.algorithm(), Algorithm::Calendar(_));
        let longest_ns = i64::try_from(policy.quota().period().as_nanos()).unwrap();
        let scale = if is_calendar { longest_ns / 3_100_000 } else { 1 };
        let mut walk = Walk { meter, scale, counts, cases: 0, every: 1 << (depth / 2) };
        // The start is in the middle of a window, so that steps back do not end at time 0.
        walk.explore(Word::UNUSED, oracle, 25_000_000 * scale.unsigned_abs(), depth);
        cases += walk.cases;
        if cases >= enough {
            break;
        }
    }
    cases
}

fn oracle_of(policy: Policy, plant: Plant) -> Oracle {
    TimeFineness::unkeyed(policy).model(policy, plant)
}

#[test]
fn every_short_history_is_decided_as_the_model_decides_it() {
    let enough = (1_u64 << power()) / WORLDS.len() as u64;
    let mut cases = 0;
    for text in WORLDS {
        let policy = common::policy(text);
        cases += exhaust(policy, &oracle_of(policy, Plant::Nothing), enough);
    }
    println!("{cases} cases in {} worlds", WORLDS.len());
    assert!(cases >= enough * WORLDS.len() as u64);
}

#[test]
fn a_model_that_is_off_by_one_is_caught_in_every_world() {
    for text in WORLDS {
        let policy = common::policy(text);
        let wrong = oracle_of(policy, Plant::Limit);
        let quiet = std::panic::catch_unwind(|| exhaust(policy, &wrong, 100_000));
        assert!(quiet.is_err(), "{text} agrees with a limit that is one larger");
    }
}

#[test]
fn a_model_with_other_words_is_caught() {
    for [policy, other] in [
        ["gcra 2/3ms burst 2 soft 50%", "gcra 2/3ms burst 2 soft 100%"],
        ["gcra 1/2ms burst 2 count-denied", "gcra 1/2ms burst 2"],
        ["gcra 1/2ms burst 2 count-denied 1ms", "gcra 1/2ms burst 2 count-denied 2ms"],
        ["gcra 1/2ms burst 2 penalty 5ms after 2", "gcra 1/2ms burst 2 penalty 5ms after 3"],
        ["gcra 1/2ms burst 2 penalty 5ms after 2", "gcra 1/2ms burst 2 penalty 6ms after 2"],
        [
            "gcra 1/2ms burst 2 penalty 5ms after 2",
            "gcra 1/2ms burst 2 penalty 5ms after 2 extended",
        ],
        ["sliding-window 2/3ms exact count-denied", "sliding-window 2/3ms exact"],
        ["segmented-window 2/4ms x2 count-denied", "segmented-window 2/4ms x2"],
        ["fixed-window 2/3ms penalty 3ms after 2", "fixed-window 2/3ms penalty 3001us after 2"],
        ["fixed-window 2/3ms soft 50%", "fixed-window 3/3ms"],
        // A month of the calendar is not a window of 30 days, nor of 31.
        ["calendar-month 3", "fixed-window 3/30d"],
        ["calendar-month 3", "fixed-window 3/31d"],
        ["calendar-month 3", "fixed-window 3/31d from-first"],
        ["calendar-year 3", "fixed-window 3/365d"],
        ["calendar-year 3", "fixed-window 3/366d"],
        // A week of the calendar from Monday is not a window of seven days, which begins on Thursday, nor a week from
        // Sunday.
        ["calendar-week 3", "fixed-window 3/7d"],
        ["calendar-week 3", "calendar-week 3 from-sunday"],
    ] {
        let wrong = oracle_of(common::policy(other), Plant::Nothing);
        let quiet = std::panic::catch_unwind(|| exhaust(common::policy(policy), &wrong, 300_000));
        assert!(quiet.is_err(), "{policy} agrees with {other}");
    }
}
