//! The textbook examples of every algorithm, decision by decision. A means admitted, D means denied.
//!
//! Each example is in the table of `tollgate-oracle`, which the tests of every layer use. Here it runs through the pure
//! function, the shared limiter and the keyed table at once. These examples are tested in other files:
//! * 6 to 8 and 34, of the sliding log, which has no pure function on one word: `sliding_log/mod.rs`;
//! * 22, of a queue: `acquire.rs`; 23, of several limits at once: `all.rs`;
//! * 27 and 28 are also tested as rules of a file: `crates/rules/tests/decisions.rs`.
//!
//! Some examples are also test vectors of other implementations: V3 is example 25, V13 is 11, V14 is 12, V15 is 13, V41
//! is 18, V42 is 20, and V43 is 19. The other vectors are in `vectors.rs`.

use crate::common::{decisions, every, policy};
use tollgate::Meter;
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

fn admitted(text: &str, requests: &[crate::common::Request]) -> usize {
    decisions(text, requests).matches('A').count()
}

#[test]
fn example_04_a_shorter_window_of_equal_average_passes_less_at_once() {
    let a_minute = every(0, 10, 6_000);
    assert_eq!(admitted("fixed-window 5/1s", &a_minute), 300);
    assert_eq!(admitted("fixed-window 3/600ms", &a_minute), 300);
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
