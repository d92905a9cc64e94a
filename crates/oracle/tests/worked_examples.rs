//! Worked examples that need more than the decisions of one policy: windows of the calendar, tolerances, the meter of a
//! queue, and the same requests through every algorithm. `crates/model/tests/worked.rs` decides the table in
//! `src/worked.txt`.
//!
//! In the strings `A` is admitted, `D` is denied and `N` can never be admitted.

use tollgate_oracle::{Algorithm, BigUint, CalendarSpan, Oracle, Rounding, Verdict};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const MIN: u64 = 60 * S;

fn letter(verdict: Verdict) -> char {
    match verdict {
        Verdict::Allowed => 'A',
        Verdict::Denied => 'D',
        Verdict::Never => 'N',
    }
}

/// Requests of one unit at the given times, as a string of verdicts.
fn ask(oracle: &mut Oracle, times_ns: impl IntoIterator<Item = u64>) -> String {
    times_ns.into_iter().map(|now_ns| letter(oracle.check(now_ns, 1))).collect()
}

/// `times` requests of one unit at one instant.
fn ask_at(oracle: &mut Oracle, now_ns: u64, times: usize) -> String {
    ask(oracle, std::iter::repeat_n(now_ns, times))
}

/// The number of admissions.
fn admitted(verdicts: &str) -> usize {
    verdicts.matches('A').count()
}

fn seconds(seconds: u64) -> BigUint {
    BigUint::from(seconds) * S
}

fn fixed(limit: u64, window_ns: u64) -> Oracle {
    Oracle::new(Algorithm::FixedWindow { limit, window_ns })
}

fn from_first(limit: u64, window_ns: u64) -> Oracle {
    Oracle::new(Algorithm::FixedWindowFromFirst { limit, window_ns, quantum_ns: 1 })
}

fn sliding(limit: u64, window_ns: u64, rounding: Rounding) -> Oracle {
    Oracle::new(Algorithm::SlidingWindow { limit, window_ns, rounding })
}

fn segmented(limit: u64, window_ns: u64, segments: u64) -> Oracle {
    Oracle::new(Algorithm::SegmentedWindow { limit, window_ns, segments })
}

fn log(limit: u64, window_ns: u64) -> Oracle {
    Oracle::new(Algorithm::SlidingLog { limit, window_ns })
}

/// The same quota in rational time and in ticks: no example may distinguish them.
fn gcra(count: u64, period_ns: u64, burst: u64) -> [Oracle; 3] {
    [None, Some(8), Some(12)]
        .map(|tick| Oracle::new(Algorithm::Gcra { count, period_ns, burst, tick }))
}

/// Every algorithm with the same limit and period.
fn every_algorithm(limit: u64, period_ns: u64) -> Vec<Oracle> {
    let mut all = vec![
        fixed(limit, period_ns),
        from_first(limit, period_ns),
        sliding(limit, period_ns, Rounding::Exact),
        sliding(limit, period_ns, Rounding::Down),
        sliding(limit, period_ns, Rounding::Strict),
        segmented(limit, period_ns, 4),
        log(limit, period_ns),
    ];
    all.extend(gcra(limit, period_ns, limit));
    all
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
fn example_18_without_tolerance_nothing_conforms_before_its_time() {
    let arrivals = [0, 9, 10, 20, 29, 30, 35, 40];
    assert_eq!(ask(&mut Oracle::with_tolerance(10, 0), arrivals), "ADAADADA");
    for mut oracle in gcra(1, 10, 1) {
        assert_eq!(ask(&mut oracle, arrivals), "ADAADADA");
    }
}

#[test]
fn example_19_an_arrival_exactly_the_tolerance_early_conforms() {
    assert_eq!(ask(&mut Oracle::with_tolerance(10, 3), [0, 7, 14, 24]), "AADA");
}

#[test]
fn example_20_a_tolerance_above_the_interval_passes_a_cluster() {
    assert_eq!(ask(&mut Oracle::with_tolerance(10, 15), [0, 1, 6, 8, 19, 27]), "AAADAA");
}

#[test]
fn example_22_the_meter_of_a_queue_sets_places_free_at_the_rate_of_departure() {
    for mut oracle in gcra(60, MIN, 3) {
        // A request leaves when the debt that existed before its charge has drained.
        let departures: Vec<Option<BigUint>> = (0..5)
            .map(|_| {
                let wait = oracle.reset_after(0);
                (oracle.check(0, 1) == Verdict::Allowed).then_some(wait)
            })
            .collect();
        assert_eq!(departures, [Some(seconds(0)), Some(seconds(1)), Some(seconds(2)), None, None]);

        assert_eq!(ask(&mut oracle, [500 * MS]), "D");
        assert_eq!(oracle.reset_after(S), seconds(2)); // so the next one leaves at 3 s
        assert_eq!(ask_at(&mut oracle, S, 2), "AD");
    }
}

#[test]
fn example_24_methods_of_different_cost_share_one_quota() {
    for mut oracle in every_algorithm(10, MIN) {
        let costs = [1, 1, 1, 1, 2, 2, 2]; // four GET and three POST
        for cost in costs {
            assert_eq!(oracle.check(5 * S, cost), Verdict::Allowed);
        }
        assert_eq!(oracle.remaining(5 * S), 0);
        assert_eq!(oracle.check(5 * S, 1), Verdict::Denied);
    }
}
