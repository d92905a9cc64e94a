//! The textbook examples of every algorithm, decision by decision. A: admitted, D: denied.
//!
//! Each runs through the pure function, the shared limiter and the keyed table at once. Elsewhere:
//! * 6 to 8 and 34, of the sliding log, which has no pure function on one word: `sliding_log/main.rs`;
//! * 19 and 20, whose tolerance no policy names: the step function itself, `src/algorithm/gcra.rs`;
//! * 22, of a queue: `acquire.rs`; 23, of several limits at once: `all.rs`;
//! * 27 and 28 once more, as rules of a file: `crates/rules/tests/decisions.rs`.
//!
//! Some are also test vectors of other implementations, by their numbers: V13 is 11, V14 is 12, V15 is 13,
//! V41 is 18, V42 is 20, V43 is 19. The other vectors are in `vectors.rs`.

mod common;

use std::time::Duration;

use common::{at, decisions, every, instant, policy, together};
use tollgate::{Decision, Meter, Timestamp, Word};

/// The word after requests that must all be admitted.
fn after(meter: &Meter, requests: &[(&str, u64)]) -> Word {
    requests.iter().fold(Word::UNUSED, |word, &(time, cost)| {
        let (decision, next) = meter.check(word, instant(time), cost);
        assert!(decision.is_allowed(), "{cost} at {time}");
        next
    })
}

fn admitted(text: &str, requests: &[common::Request]) -> usize {
    decisions(text, requests).matches('A').count()
}

#[test]
fn example_01_fixed_window_counts_by_aligned_minute() {
    let times = at("0:05 0:15 1:01 1:10 1:40 1:50 2:20");
    assert_eq!(decisions("fixed-window 3/60s", &times), "AAAAADA");
}

#[test]
fn example_02_fixed_window_passes_twice_the_limit_across_a_boundary() {
    let times = [every(55_000, 50, 100), every(60_000, 50, 100)].concat();
    assert_eq!(admitted("fixed-window 100/60s", &times), 200);
    let times = [every(90_000, 1_000, 30), every(120_000, 1_000, 30)].concat();
    assert_eq!(admitted("fixed-window 10/m", &times), 20);
}

#[test]
fn example_03_from_first_reopens_at_its_own_age() {
    let times = [at("0:00"), together("0:00.9", 5), together("0:01", 6)].concat();
    assert_eq!(decisions("fixed-window 5/1s from-first", &times), "AAAAADAAAAAD");
    let times = [together("0:00.999", 5), together("0:01", 6)].concat();
    assert_eq!(decisions("fixed-window 5/1s", &times), "AAAAAAAAAAD");
}

#[test]
fn example_04_a_shorter_window_of_equal_average_passes_less_at_once() {
    assert_eq!(admitted("fixed-window 5/1s", &together("0:00", 9)), 5);
    assert_eq!(admitted("fixed-window 3/600ms", &together("0:00", 9)), 3);
    let a_minute = every(0, 10, 6_000);
    assert_eq!(admitted("fixed-window 5/1s", &a_minute), 300);
    assert_eq!(admitted("fixed-window 3/600ms", &a_minute), 300);
}

#[test]
fn example_05_spaced_never_admits_two_within_the_interval() {
    assert_eq!(decisions("spaced 5/s", &at("0 0.1 0.2 0.3 0.41")), "ADADA");
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
fn example_10_denied_requests_counted() {
    let seven = at("0:05 0:15 1:01 1:10 1:40 1:50 2:20");
    let text = "sliding-window 3/60s count-denied";
    assert_eq!(decisions(text, &seven), "AAAAADA");
    let meter = Meter::new(policy(text)).unwrap();
    let word = seven.iter().fold(Word::UNUSED, |word, &(now_ns, cost)| {
        meter.check(word, Timestamp::from_nanos(now_ns), cost).1
    });
    for second in 141..=150 {
        assert!(!meter.peek(word, Timestamp::from_secs(second), 1).is_allowed(), "{second}");
    }
    assert!(meter.peek(word, instant("2:31"), 1).is_allowed());
}

#[test]
fn example_14_denied_requests_counted() {
    let seven = at("0:05 0:15 1:01 1:10 1:40 1:50 2:20");
    assert_eq!(decisions("segmented-window 3/60s x4 count-denied", &seven), "AAAAADA");
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
    assert_eq!(admitted("gcra 50/m soft 5%", &together("0:30", 60)), 52);
    let error = "gcra 10/m soft 5%".parse::<tollgate::Policy>().unwrap_err().to_string();
    assert!(error.ends_with("5% of a limit of 10 is not one unit; use at least 10%"), "{error}");
}

#[test]
fn example_10_sliding_window_roundings_differ_on_the_same_seven() {
    let seven = at("0:05 0:15 1:01 1:10 1:40 1:50 2:20");
    assert_eq!(decisions("sliding-window 3/60s", &seven), "AAAAADA");
    assert_eq!(decisions("sliding-window 3/60s exact", &seven), "AAADADA");
    let then = |text: &str, time: &str| decisions(text, &[seven.clone(), at(time)].concat());
    assert_eq!(then("sliding-window 3/60s", "2:20"), "AAAAADAD");
    assert_eq!(then("sliding-window 3/60s", "2:21"), "AAAAADAA");
    assert_eq!(then("sliding-window 3/60s exact", "2:29.999"), "AAADADAD");
    assert_eq!(then("sliding-window 3/60s exact", "2:30"), "AAADADAA");
}

#[test]
fn example_11_v13_sliding_window_adds_before_it_compares() {
    let exact = Meter::new(policy("sliding-window 50/60s exact")).unwrap();
    let word = after(&exact, &[("0:30", 42), ("1:15", 18)]);
    assert!(!exact.peek(word, instant("1:15"), 1).is_allowed());
    let down = Meter::new(policy("sliding-window 50/60s")).unwrap();
    let word = after(&down, &[("0:30", 42), ("1:15", 18)]);
    assert!(down.peek(word, instant("1:15"), 1).is_allowed());
}

#[test]
fn example_12_v14_sliding_window_admits_when_the_share_has_shrunk() {
    let meter = Meter::new(policy("sliding-window 100/60s exact")).unwrap();
    let word = after(&meter, &[("0:30", 40), ("1:30", 80)]);
    assert!(!meter.peek(word, instant("1:30"), 1).is_allowed());
    assert!(meter.peek(word, instant("1:40"), 1).is_allowed());
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
fn example_14_segments_fall_off_one_by_one() {
    let times = at("0:05 0:15 1:01 1:10 1:40 1:50 2:20");
    assert_eq!(decisions("segmented-window 3/60s x4", &times), "AAAAADA");
}

#[test]
fn example_15_a_token_comes_back_every_interval() {
    assert_eq!(decisions("gcra 3/m", &at("0:00 0:05 0:05 0:19")), "AAAD");
    assert_eq!(decisions("gcra 3/m", &at("0:00 0:05 0:05 0:20")), "AAAA");
    let meter = Meter::new(policy("gcra 3/m")).unwrap();
    let word = after(&meter, &[("0:00", 1), ("0:05", 2)]);
    let (denied, same) = meter.check(word, instant("0:19"), 1);
    assert_eq!((denied.is_allowed(), same), (false, word));
    assert_eq!(denied.reset_after(), Duration::from_secs(41));
    let times = at("0:00 0:05 0:05 0:59 1:00");
    assert_eq!(decisions("fixed-window 3/1m from-first", &times), "AAADA");
}

#[test]
fn example_16_gcra_passes_burst_and_refill_in_a_closed_minute() {
    let times = at("1:00 1:00 1:00 1:20 1:40 2:00");
    assert_eq!(decisions("gcra 3/m", &times), "AAAAAA");
}

#[test]
fn example_17_a_bucket_of_three_passes_all_seven() {
    let times = at("0:05 0:15 1:01 1:10 1:40 1:50 2:20");
    assert_eq!(decisions("gcra 3/m", &times), "AAAAAAA");
}

#[test]
fn example_18_v41_gcra_without_tolerance() {
    // Interval 10 in nanoseconds.
    let times = [0, 9, 10, 20, 29, 30, 35, 40].map(|now_ns| (now_ns, 1));
    assert_eq!(decisions("gcra 1/10ns", &times), "ADAADADA");
}

// A tolerance is the burst beyond the first request: with intervals of 10, which cost 10 units, a unit drains in each
// nanosecond, and the burst is 10 and the tolerance.

#[test]
fn example_19_v43_equality_conforms() {
    let times = [0, 7, 14, 24].map(|now_ns| (now_ns, 10));
    assert_eq!(decisions("gcra 1/1ns burst 13", &times), "AADA");
}

#[test]
fn example_20_v42_with_tolerance_of_one_and_a_half_intervals() {
    let times = [0, 1, 6, 8, 19, 27].map(|now_ns| (now_ns, 10));
    assert_eq!(decisions("gcra 1/1ns burst 25", &times), "AAADAA");
}

#[test]
fn example_21_the_first_second_also_gives_the_burst() {
    let offered = every(0, 100, 50);
    let expected = format!("AAAAAAAAA{}", "DA".repeat(20) + "D");
    assert_eq!(decisions("gcra 5/s burst 5", &offered), expected);
    for burst in 1..=10 {
        let text = format!("gcra 5/s burst {burst}");
        assert_eq!(admitted(&text, &offered[..10]), 10.min(burst + 4), "{text}");
    }
}

#[test]
fn example_24_requests_of_different_cost_share_a_quota() {
    let costs = [1, 1, 1, 1, 2, 2, 2, 1].map(|cost| (0, cost));
    assert_eq!(decisions("gcra 10/m", &costs), "AAAAAAAD");
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
        assert!(never.is_never(), "{text}");
        assert_eq!(never.retry_after(), None, "{text}");
    }
}

#[test]
fn example_27_five_a_day_until_midnight_or_one_every_4_h_48_min() {
    // Ten o'clock, a second before midnight, midnight.
    let times = [together("600:00", 6), at("1439:59 1440:00")].concat();
    assert_eq!(decisions("fixed-window 5/d", &times), "AAAAADDA");
    // A tick of the table's word is 4.2 s.
    let times = [together("600:00", 6), at("887:55 888:00 888:00 1175:55 1176:00")].concat();
    assert_eq!(decisions("gcra 5/d", &times), "AAAAADDADDA");
}

#[test]
fn example_28_five_logins_until_the_minute_turns() {
    let times = [together("600:27", 6), at("600:59.999 601:00")].concat();
    assert_eq!(decisions("fixed-window 5/m", &times), "AAAAADDA");
}

#[test]
fn example_29_a_client_passes_while_count_and_cost_stay_within_the_limit() {
    assert_eq!(decisions("fixed-window 5/m", &together("0:01", 6)), "AAAAAD");
}

#[test]
fn example_30_windows_are_those_of_the_wall_clock() {
    let times = [together("0:59", 3), together("1:00", 3)].concat();
    assert_eq!(decisions("fixed-window 3/60s", &times), "AAAAAA");
    // The window of 10:00:27 ends at 10:01:00; 15-minute windows turn at 12:00 and 12:15.
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
fn example_31_soft_and_hard_leaky_buckets() {
    let times = [together("0:00", 6), every(100, 100, 20)].concat();
    let soft = decisions("leaky-bucket 5/1s soft", &times);
    assert_eq!(soft, format!("AAAAAD{}", "DA".repeat(10)));
    assert_eq!(soft[..15].matches('A').count(), 9); // [0, 1): six at 0, then nine
    assert_eq!(soft[..16].matches('A').count(), 10); // [0, 1]
    let hard = decisions("leaky-bucket 5/1s hard", &times);
    assert_eq!(hard, "AAAAADDDDDDDDDDADDDDDDDDDA");
}

#[test]
fn example_32_one_request_every_tenth_of_a_second_against_five_per_second() {
    let offered = every(0, 100, 30);
    let expected = [
        ("fixed-window 5/s", "AAAAADDDDD AAAAADDDDD AAAAADDDDD"),
        ("fixed-window 5/s from-first", "AAAAADDDDD AAAAADDDDD AAAAADDDDD"),
        ("segmented-window 5/s x5", "AAAAADDDDD AAAAADDDDD AAAAADDDDD"),
        ("spaced 5/s", "ADADADADAD ADADADADAD ADADADADAD"),
        ("leaky-bucket 5/s soft", "AAAAAAAAAD ADADADADAD ADADADADAD"),
        ("leaky-bucket 5/s hard", "AAAAADDDDD ADDDDDDDDD ADDDDDDDDD"),
        ("sliding-window 5/s exact", "AAAAADDDDD DDADADADAD ADDADADDAD"),
        ("sliding-window 5/s", "AAAAADDDDD DADADADADA DADADADADA"),
        ("sliding-window 5/s strict", "AAAAADDDDD DDDDDDDDDD AAAAADDDDD"),
    ];
    for (text, pattern) in expected {
        assert_eq!(decisions(text, &offered), pattern.replace(' ', ""), "{text}");
    }
}

#[test]
fn example_33_the_previous_count_weighs_what_is_left_of_the_window() {
    let meter = Meter::new(policy("sliding-window 100/60s exact")).unwrap();
    let word = after(&meter, &[("0:10", 100)]);
    assert_eq!(meter.peek(word, instant("1:18"), 1).remaining(), 30);
    assert_eq!(meter.peek(word, instant("1:15"), 1).remaining(), 25);
}

#[test]
fn example_34_from_first_reopens_a_minute_after_it_opened() {
    let times = [together("599:25", 3), at("600:24.999"), at("600:25")].concat();
    assert_eq!(decisions("fixed-window 3/60s from-first", &times), "AAADA");
}

#[test]
fn example_35_segments_at_their_worst() {
    let times = [together("0:14", 3), at("0:59"), together("1:00", 4)].concat();
    assert_eq!(decisions("segmented-window 3/60s x4", &times), "AAADAAAD");
}

#[test]
fn example_36_round_down_exact_and_strict_across_a_boundary() {
    let times = [together("0:59", 3), together("1:41", 4)].concat();
    assert_eq!(decisions("sliding-window 3/60s", &times), "AAAAAAD");
    assert_eq!(decisions("sliding-window 3/60s exact", &times), "AAAAADD");
    let pattern = ["AAA", "DDDDDDDDD"].concat().repeat(2);
    assert_eq!(decisions("sliding-window 3/60s strict", &every(0, 10_000, 24)), pattern);
}

/// The rule of the textbooks and of Cloudflare: share of the previous count, rounded down, and the current one.
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
    // Ten requests in each second of ten minutes.
    let offered = every(0, 100, 6_000);
    for (limit, passed) in [
        (1, [10, 5, 5]), // as text without more words, exact, strict
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

#[test]
fn example_37_a_hard_limit_and_its_boundary() {
    assert_eq!(admitted("fixed-window 500/m", &together("0:30", 501)), 500);
    let times = [every(500, 4, 125), every(1_000, 4, 125)].concat();
    assert_eq!(admitted("fixed-window 50/1s", &times), 100);
}
