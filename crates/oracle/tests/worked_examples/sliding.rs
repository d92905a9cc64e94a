//! Sliding windows with two counters: the counter of the previous window counts by its share.

use super::*;

use Rounding::{Down, Exact, Strict};

/// A sliding window over a minute with `previous` units in its first window and `current` in the
/// second, the latter charged at `age_s` seconds into it.
fn sliding_with(
    limit: u64,
    rounding: Rounding,
    previous: u64,
    current: u64,
    age_s: u64,
) -> (Oracle, u64) {
    let mut oracle = sliding(limit, MIN, rounding);
    let now_ns = MIN + age_s * S;
    assert_eq!(oracle.check(0, previous), Verdict::Allowed);
    assert_eq!(oracle.check(now_ns, current), Verdict::Allowed);
    (oracle, now_ns)
}

#[test]
fn example_09_the_previous_window_counts_by_the_share_that_is_left_of_it() {
    for rounding in [Exact, Down] {
        let (oracle, now_ns) = sliding_with(100, rounding, 88, 12, 15);
        assert_eq!(oracle.remaining(now_ns), 100 - 78);
        assert_eq!(oracle.peek(now_ns, 1), Verdict::Allowed);
    }
}

#[test]
fn example_10_rounding_down_admits_again_from_2_21_and_exactly_from_2_30() {
    for (rounding, verdicts, last_denied_s) in [(Down, "AAAAADA", 140), (Exact, "AAADADA", 149)] {
        let mut oracle = sliding(3, MIN, rounding);
        assert_eq!(ask_s(&mut oracle, &SEVEN), verdicts);
        for second in 140..=last_denied_s {
            assert_eq!(oracle.peek(second * S, 1), Verdict::Denied);
        }
        for second in last_denied_s + 1..300 {
            assert_eq!(oracle.peek(second * S, 1), Verdict::Allowed);
        }
    }
}

#[test]
fn example_11_the_request_is_added_before_the_comparison() {
    let (oracle, now_ns) = sliding_with(50, Exact, 42, 18, 15);
    assert_eq!(oracle.peek(now_ns, 1), Verdict::Denied); // 31.5 + 18 + 1
    let (oracle, now_ns) = sliding_with(50, Down, 42, 18, 15);
    assert_eq!(oracle.peek(now_ns, 1), Verdict::Allowed); // 31 + 18 + 1
}

#[test]
fn example_12_room_comes_back_as_the_previous_window_fades() {
    for rounding in [Exact, Down] {
        let (oracle, now_ns) = sliding_with(100, rounding, 40, 80, 30);
        assert_eq!(oracle.peek(now_ns, 1), Verdict::Denied); // 20 + 80 + 1
        assert_eq!(oracle.peek(now_ns + 10 * S, 1), Verdict::Allowed); // 13.3 + 80 + 1
    }
}

#[test]
fn example_13_the_wait_is_the_time_one_unit_takes_to_fade() {
    let (oracle, now_ns) = sliding_with(60, Exact, 60, 12, 12);
    assert_eq!(oracle.remaining(now_ns), 0);
    assert_eq!(oracle.retry_after(now_ns, 1), Some(seconds(1)));
}

#[test]
fn example_33_the_weight_is_what_is_left_of_the_window() {
    for rounding in [Exact, Down] {
        for (age_percent, weight_percent) in [(30, 70), (25, 75)] {
            let mut oracle = sliding(100, MIN, rounding);
            assert_eq!(oracle.check(0, 100), Verdict::Allowed);
            let now_ns = MIN + MIN * age_percent / 100;
            assert_eq!(oracle.remaining(now_ns), 100 - weight_percent);
        }
    }
}

#[test]
fn example_36_each_rounding_has_its_own_worst_case() {
    let times = [59, 59, 59, 101, 101, 101, 101];
    assert_eq!(ask_s(&mut sliding(3, MIN, Down), &times), "AAAAAAD"); // 6 in 42 s
    assert_eq!(ask_s(&mut sliding(3, MIN, Exact), &times), "AAAAADD");

    let every_10_s = ask(&mut sliding(3, MIN, Strict), (0..24).map(|i| i * 10 * S));
    assert_eq!(every_10_s, ["AAA", &"D".repeat(9), "AAA", &"D".repeat(9)].concat());
}
