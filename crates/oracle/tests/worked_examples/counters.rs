//! Windows that start empty: aligned, from the first request, in segments, and the log.

use super::*;

#[test]
fn example_01_an_aligned_window_counts_only_its_own_requests() {
    let mut oracle = fixed(3, MIN);
    assert_eq!(ask_s(&mut oracle, &[5, 15]), "AA");
    assert_eq!(ask_s(&mut oracle, &[61, 70, 100, 110]), "AAAD");
    assert_eq!(ask_s(&mut oracle, &[140]), "A");
}

#[test]
fn example_02_an_aligned_window_passes_twice_its_limit_across_a_boundary() {
    let mut hundred = fixed(100, MIN);
    let spread = |from: u64| (0..100).map(move |i| from * S + i * 50 * MS);
    assert_eq!(ask(&mut hundred, spread(55)), "A".repeat(100));
    assert_eq!(ask(&mut hundred, spread(60)), "A".repeat(100));

    let mut ten = fixed(10, MIN);
    let passed = ask(&mut ten, (90..150).map(|time| time * S));
    assert_eq!(passed, ["A".repeat(10), "D".repeat(20), "A".repeat(10), "D".repeat(20)].concat());
    assert_eq!(admitted(&passed), 20);
}

#[test]
fn example_03_a_window_from_the_first_request_passes_one_less_than_twice_its_limit() {
    let mut oracle = from_first(5, S);
    assert_eq!(ask_at(&mut oracle, 0, 1), "A");
    let late = ask_at(&mut oracle, 900 * MS, 5);
    let reopened = ask_at(&mut oracle, S, 6);
    assert_eq!((late.as_str(), reopened.as_str()), ("AAAAD", "AAAAAD"));
    assert_eq!(admitted(&late) + admitted(&reopened), 9); // all in (0, 1]

    let mut aligned = fixed(5, S);
    assert_eq!(ask_at(&mut aligned, 999 * MS, 6), "AAAAAD");
    assert_eq!(ask_at(&mut aligned, S, 6), "AAAAAD"); // twice the limit within 2 ms
}

#[test]
fn example_04_the_same_average_over_a_shorter_window_has_a_smaller_burst() {
    for mut oracle in every_algorithm(5, S) {
        assert_eq!(admitted(&ask_at(&mut oracle, 0, 10)), 5);
    }
    for mut oracle in every_algorithm(3, 600 * MS) {
        for now_ns in (0..100).map(|i| i * 150 * MS) {
            assert!(admitted(&ask_at(&mut oracle, now_ns, 10)) <= 3);
        }
    }
    // Both aligned windows admit 15 units in three seconds if requests ask for as many as possible.
    for (limit, window_ns) in [(5, S), (3, 600 * MS)] {
        let mut oracle = fixed(limit, window_ns);
        let passed: usize = (0..30).map(|i| admitted(&ask_at(&mut oracle, i * 100 * MS, 10))).sum();
        assert_eq!(passed, 15);
    }
}

#[test]
fn windows_of_the_calendar_end_at_midnight_after_their_own_number_of_days() {
    const DAY: u64 = 86_400 * S;
    // The first day of each window in days since 1970, as `date -u` prints them, and the length of the window in days.
    let months = [
        (0, 31),      // January 1970
        (31, 28),     // February 1970
        (10_988, 29), // February 2000
        (19_754, 29), // February 2024
        (20_120, 28), // February 2025
        (20_148, 31), // March 2025
        (20_179, 30), // April 2025
        (20_423, 31), // December 2025
        (47_513, 28), // February 2100
    ];
    let years = [(0, 365), (730, 366), (10_957, 366), (20_089, 365), (47_482, 365), (157_054, 366)];
    // The weeks from Monday begin on 5 January 1970, 30 December 2024 and 28 February 2400. The week from Sunday begins
    // on 28 February 2100.
    let (mondays, sundays) = ([(4, 7), (20_087, 7), (157_112, 7)], [(47_540, 7)]);
    let week = |begins| CalendarSpan::Week { begins };
    let of = |unit, windows: &[(u64, u64)]| {
        let of_unit = |&(first, days): &(u64, u64)| (unit, first, days);
        windows.iter().map(of_unit).collect::<Vec<_>>()
    };
    let (months, years) = (of(CalendarSpan::Month, &months), of(CalendarSpan::Year, &years));
    let weeks = of(week(0), &mondays).into_iter().chain(of(week(6), &sundays));
    for (unit, first, days) in months.into_iter().chain(years).chain(weeks) {
        let (start, end) = (first * DAY, (first + days) * DAY);
        let mut oracle = Oracle::new(Algorithm::Calendar { limit: 2, unit });
        assert_eq!(ask(&mut oracle, [start, end - 1, end - 1, end, end, end]), "AADAAD");
        let mut oracle = Oracle::new(Algorithm::Calendar { limit: 2, unit });
        assert_eq!(ask_at(&mut oracle, start + 5 * DAY, 3), "AAD", "{unit:?} from day {first}");
        let wait = seconds((days - 5) * 86_400);
        assert_eq!(oracle.retry_after(start + 5 * DAY, 1), Some(wait.clone()));
        assert_eq!(oracle.reset_after(start + 5 * DAY), wait);
    }
}

#[test]
fn example_06_a_log_counts_back_from_each_request() {
    assert_eq!(ask_s(&mut log(3, MIN), &SEVEN), "AAAAADA");
}

#[test]
fn example_07_a_log_of_two_denies_the_third_within_the_window() {
    assert_eq!(ask_s(&mut log(2, MIN), &[60, 80, 105, 145]), "AADA");
}

#[test]
fn example_08_a_log_entry_as_old_as_the_window_is_outside() {
    let filled = || {
        let mut oracle = log(10, MIN);
        assert_eq!(ask_s(&mut oracle, &[10, 20, 20, 30, 30, 30, 30, 50, 50, 50]), "AAAAAAAAAA");
        oracle
    };
    assert_eq!(ask_s(&mut filled(), &[70, 71]), "AD");
    assert_eq!(ask_s(&mut filled(), &[71, 72]), "AD");
}

#[test]
fn example_14_segments_of_15_s_decide_the_seven_requests_as_the_log_does() {
    assert_eq!(ask_s(&mut segmented(3, MIN, 4), &SEVEN), "AAAAADA");
}

#[test]
fn example_15_a_window_from_the_first_request_gives_nothing_back_before_its_end() {
    assert_eq!(ask_s(&mut from_first(3, MIN), &[0, 5, 5, 59, 60]), "AAADA");
}

#[test]
fn example_30_aligned_windows_pass_six_in_two_seconds_and_turn_on_the_boundary() {
    let mut oracle = fixed(3, MIN);
    assert_eq!(ask_s(&mut oracle, &[59, 59, 59, 60, 60, 60]), "AAAAAA");

    let clock = |hours: u64, minutes: u64, seconds: u64| (hours * 60 + minutes) * 60 + seconds;
    // The window of 10:00:27 began at 10:00:00 and ends at 10:01:00, and so on.
    for (window_ns, asked, turns) in [
        (MIN, clock(10, 0, 27), clock(10, 1, 0)),
        (MIN, clock(10, 0, 0), clock(10, 1, 0)),
        (MIN, clock(10, 1, 27), clock(10, 2, 0)),
        (15 * MIN, clock(11, 59, 59), clock(12, 0, 0)),
        (15 * MIN, clock(12, 0, 0), clock(12, 15, 0)),
        (15 * MIN, clock(12, 14, 59), clock(12, 15, 0)),
    ] {
        let mut oracle = fixed(1, window_ns);
        assert_eq!(ask_s(&mut oracle, &[asked, asked, turns - 1, turns]), "ADDA");
        let mut oracle = fixed(1, window_ns);
        assert_eq!(ask_s(&mut oracle, &[asked]), "A");
        assert_eq!(oracle.reset_after(asked * S), seconds(turns - asked));
    }
}

#[test]
fn example_34_what_happened_a_whole_window_ago_is_over() {
    let clock = |minutes: u64, seconds: u64| (9 * 60 + minutes) * 60 + seconds;
    assert_eq!(ask_s(&mut log(1, MIN), &[clock(59, 28), clock(60, 27)]), "AD");
    assert_eq!(ask_s(&mut log(1, MIN), &[clock(59, 27), clock(60, 27)]), "AA");

    let opened = clock(59, 25);
    assert_eq!(ask_s(&mut from_first(1, MIN), &[opened, clock(60, 24), clock(60, 25)]), "ADA");
}

#[test]
fn example_35_segments_pass_twice_the_limit_within_46_s() {
    let mut oracle = segmented(3, MIN, 4);
    assert_eq!(ask_s(&mut oracle, &[14, 14, 14, 59, 60, 60, 60, 60]), "AAADAAAD");
}

#[test]
fn example_37_the_501st_of_a_window_is_denied_and_two_half_windows_pass_twice_the_count() {
    assert_eq!(ask_at(&mut fixed(500, MIN), 10 * S, 501), "A".repeat(500) + "D");

    for count in [1, 5, 500] {
        let mut oracle = fixed(count, S);
        let step = 500 * MS / count;
        let passed = ask(&mut oracle, (0..2 * count).map(|i| 500 * MS + i * step));
        assert_eq!(admitted(&passed) as u64, 2 * count);
    }
}
