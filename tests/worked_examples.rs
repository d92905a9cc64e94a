//! The textbook examples of every algorithm, decision by decision. A means admitted, D means denied.
//!
//! Each example is in the table of `tollgate-oracle`, which the tests of every layer use. Here it runs through the pure
//! function, the shared limiter and the keyed table at once. The tests with a number in their names check more than
//! decisions. These examples are tested in other files:
//! * 6 to 8 and 34, of the sliding log, which has no pure function on one word: also in `sliding_log/main.rs`;
//! * 22, of a queue: `acquire.rs`; 23, of several limits at once: `all.rs`;
//! * 27 and 28 are also tested as rules of a file: `crates/rules/tests/decisions.rs`.
//!
//! Some examples are also test vectors of other implementations: V3 is example 25, V13 is 11, V14 is 12, V15 is 13, V41
//! is 18, V42 is 20, and V43 is 19. The other vectors are in `vectors.rs`.

use std::time::Duration;

use crate::common::{decisions, every, instant, policy};
use tollgate::{Decision, DenialReason, Meter, Timestamp, Word};
use tollgate_oracle::worked_examples;

#[test]
fn the_worked_examples_are_decided_as_they_say() {
    let mut decided = 0;
    for example in worked_examples() {
        let [text] = example.policies[..] else { continue };
        // Only policies that fit in one word are used, and examples that consist of checks.
        if Meter::new(policy(text)).is_ok() && !example.waits() {
            assert_eq!(decisions(text, &example.asked()), example.expected(), "{example:?}");
            decided += 1;
        }
    }
    assert!(decided > 70, "{decided}");
}

/// The word after requests that must all be admitted.
fn after(meter: &Meter, requests: &[(&str, u64)]) -> Word {
    requests.iter().fold(Word::UNUSED, |word, &(time, cost)| {
        let (decision, next) = meter.check(word, instant(time), cost);
        assert!(decision.is_allowed(), "{cost} at {time}");
        next
    })
}

fn admitted(text: &str, requests: &[crate::common::Request]) -> usize {
    decisions(text, requests).matches('A').count()
}

#[test]
fn example_04_a_shorter_window_of_equal_average_passes_less_at_once() {
    let a_minute = every(0, 10, 6_000);
    assert_eq!(admitted("fixed-window 5/1s", &a_minute), 300);
    assert_eq!(admitted("fixed-window 3/600ms", &a_minute), 300);
}

#[test]
fn example_09_sliding_window_weighs_what_is_still_covered() {
    let meter = Meter::new(policy("sliding-window 100/60s exact")).unwrap();
    let word = after(&meter, &[("0:30", 88), ("1:00", 12)]);
    assert_eq!(meter.peek(word, instant("1:15"), 1).remaining(), 22);
    assert!(meter.peek(word, instant("1:15"), 22).is_allowed());
    assert!(!meter.peek(word, instant("1:15"), 23).is_allowed());
}

#[test]
fn example_26_soft_admits_five_percent_more_and_marks_it() {
    for text in
        ["gcra 500/m soft 5%", "fixed-window 500/m soft 5%", "sliding-window 500/m exact soft 5%"]
    {
        let meter = Meter::new(policy(text)).unwrap();
        let (mut word, mut marked) = (Word::UNUSED, Vec::new());
        for _ in 0..526 {
            let (decision, next) = meter.check(word, instant("0:30"), 1);
            marked.push(decision.into_result().map(|permit| permit.is_over()).ok());
            word = next;
        }
        let expected = [vec![Some(false); 500], vec![Some(true); 25], vec![None]].concat();
        assert_eq!(marked, expected, "{text}");
    }
    let error = "gcra 10/m soft 5%".parse::<tollgate::Policy>().unwrap_err().to_string();
    assert!(error.ends_with("5% of a limit of 10 is not one unit; use at least 10%"), "{error}");
}

#[test]
fn example_13_v15_sliding_window_says_one_second_not_the_window_end() {
    let meter = Meter::new(policy("sliding-window 60/60s exact")).unwrap();
    let word = after(&meter, &[("0:30", 60), ("1:12", 12)]);
    let Decision::Denied(denial) = meter.peek(word, instant("1:12"), 1) else {
        panic!("admitted above the limit");
    };
    assert_eq!(denial.retry_after(), Some(Duration::from_secs(1)));
}

#[test]
fn example_15_a_token_comes_back_every_interval() {
    let meter = Meter::new(policy("gcra 3/m")).unwrap();
    let word = after(&meter, &[("0:00", 1), ("0:05", 2)]);
    let (denied, same) = meter.check(word, instant("0:19"), 1);
    assert_eq!((denied.is_allowed(), same), (false, word));
    assert_eq!(denied.reset_after(), Duration::from_secs(41));
}

#[test]
fn example_21_the_first_second_also_gives_the_burst() {
    for burst in 1..=10 {
        let text = format!("gcra 5/s burst {burst}");
        assert_eq!(admitted(&text, &every(0, 100, 10)), 10.min(burst + 4), "{text}");
    }
}

#[test]
fn example_25_a_denied_cost_spends_nothing_and_a_larger_one_never_fits() {
    let algorithms = [
        "gcra 10/m",
        "leaky-bucket 10/m soft",
        "leaky-bucket 10/m hard",
        "fixed-window 10/m",
        "fixed-window 10/m from-first",
        "sliding-window 10/m exact",
        "sliding-window 10/m",
        "sliding-window 10/m strict",
        "segmented-window 10/m x6",
    ];
    for text in algorithms {
        assert_eq!(decisions(text, &[(7, 8), (7, 5), (7, 2), (7, 1), (7, 11)]), "ADADD", "{text}");
        let meter = Meter::new(policy(text)).unwrap();
        let never = meter.peek(Word::UNUSED, Timestamp::default(), 11).into_result().unwrap_err();
        assert_eq!(never.reason(), DenialReason::NeverFits, "{text}");
        assert_eq!(never.retry_after(), None, "{text}");
    }
}

#[test]
fn example_30_windows_are_those_of_the_wall_clock() {
    // The window of 10:00:27 ends at 10:01:00. Windows of 15 minutes end at 12:00 and 12:15.
    let ends_after = |text: &str, time: &str| {
        let meter = Meter::new(policy(text)).unwrap();
        meter.check(Word::UNUSED, instant(time), 1).0.reset_after()
    };
    assert_eq!(ends_after("fixed-window 3/60s", "600:27"), Duration::from_secs(33));
    assert_eq!(ends_after("fixed-window 3/60s", "601:27"), Duration::from_secs(33));
    assert_eq!(ends_after("fixed-window 3/15m", "720:00"), Duration::from_secs(900));
    assert_eq!(ends_after("fixed-window 3/15m", "734:59"), Duration::from_secs(1));
}

#[test]
fn example_33_the_previous_count_weighs_what_is_left_of_the_window() {
    let meter = Meter::new(policy("sliding-window 100/60s exact")).unwrap();
    let word = after(&meter, &[("0:10", 100)]);
    assert_eq!(meter.peek(word, instant("1:18"), 1).remaining(), 30);
    assert_eq!(meter.peek(word, instant("1:15"), 1).remaining(), 25);
}

/// This is the rule of the textbooks and of Cloudflare: the share of the previous count, rounded down, plus the current
/// count.
fn textbook(limit: u64, window_ms: u64, times_ms: impl Iterator<Item = u64>) -> Vec<bool> {
    let mut counts = std::collections::HashMap::<u64, u64>::new();
    times_ms
        .map(|at| {
            let (window, into) = (at / window_ms, at % window_ms);
            let count = |window: u64| counts.get(&window).copied().unwrap_or(0);
            let previous = window.checked_sub(1).map_or(0, count);
            let fits = previous * (window_ms - into) / window_ms + count(window) < limit;
            *counts.entry(window).or_default() += u64::from(fits);
            fits
        })
        .collect()
}

#[test]
fn the_sliding_window_of_the_field_passes_its_limit_in_ten_minutes_of_saturation() {
    // There are ten requests in each second of ten minutes.
    let offered = every(0, 100, 6_000);
    for (limit, passed) in [
        (1, [10, 5, 5]), // in this order: without an option, exact, strict
        (3, [30, 21, 15]),
    ] {
        let texts =
            ["", " exact", " strict"].map(|option| format!("sliding-window {limit}/m{option}"));
        assert_eq!(texts.each_ref().map(|text| admitted(text, &offered)), passed);
        for (synonym, text) in [(" round-down", &texts[0]), (" round-up", &texts[1])] {
            assert_eq!(policy(&format!("sliding-window {limit}/m{synonym}")), policy(text));
        }
        let decided: String = textbook(limit, 60_000, (0..6_000).map(|i| i * 100))
            .into_iter()
            .map(|fits| if fits { 'A' } else { 'D' })
            .collect();
        assert_eq!(decisions(&texts[0], &offered), decided);
    }
}
