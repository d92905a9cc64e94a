//! The behaviour at the limit, computed by hand.

use tollgate_oracle::{
    Algorithm, AtLimit, BigUint, CountDenied, Oracle, Penalty, Rounding, Verdict,
};

const COUNTED: AtLimit =
    AtLimit { soft_bp: 0, count_denied: Some(CountDenied { wait_ns: None }), penalty: None };

fn penalty(length_ns: u64, after: u64, extended: bool) -> AtLimit {
    let penalty = Penalty { length_ns, after, extended, unit_ns: 1, quantum_ns: 1 };
    AtLimit { penalty: Some(penalty), ..AtLimit::default() }
}

/// Requests of one unit at these times.
fn decisions(oracle: &mut Oracle, times: &[u64]) -> String {
    let told = |&time: &u64| if oracle.check(time, 1) == Verdict::Allowed { 'A' } else { 'D' };
    times.iter().map(told).collect()
}

fn wait(oracle: &Oracle, now: u64) -> u64 {
    oracle.retry_after(now, 1).and_then(|wait| u64::try_from(wait).ok()).expect("a short wait")
}

#[test]
fn a_denied_charge_is_cut_at_the_horizon_or_at_its_own_wait() {
    let gcra = Algorithm::Gcra { count: 1, period_ns: 10, burst: 3, tick: None };
    let mut oracle = Oracle::with_rules(gcra, COUNTED);
    assert_eq!(decisions(&mut oracle, &[0; 8]), "AAADDDDD");
    // The charge is cut where 3 - 1 units and the additional wait of 30 ns are owed.
    assert_eq!(wait(&oracle, 0), 30);
    assert_eq!(decisions(&mut oracle, &[29, 60]), "DA");
    // A unit takes 40/3 ns, and a tick is a quarter of that. C is rounded down to whole ticks: 24 ns are 7.2 ticks, and
    // 7 ticks are 23.33 ns.
    let thirds = Algorithm::Gcra { count: 3, period_ns: 40, burst: 3, tick: Some(2) };
    let counted = AtLimit { count_denied: Some(CountDenied { wait_ns: Some(24) }), ..COUNTED };
    let mut oracle = Oracle::with_rules(thirds, counted);
    assert_eq!(decisions(&mut oracle, &[0; 8]), "AAADDDDD");
    assert_eq!(wait(&oracle, 0), 24);
}

#[test]
fn a_full_debt_is_charged_again_when_it_has_room_for_a_thousandth_of_the_wait_or_a_unit() {
    // A unit drains in 4 us, and a thousandth of the wait in 1 us.
    let gcra = Algorithm::Gcra { count: 1, period_ns: 4_000, burst: 2, tick: None };
    let counted =
        AtLimit { count_denied: Some(CountDenied { wait_ns: Some(1_000_000) }), ..COUNTED };
    let mut oracle = Oracle::with_rules(gcra, counted);
    assert!(!decisions(&mut oracle, &[0; 300])[2..].contains('A'));
    for (now, expected) in [(0, 1_000_000), (999, 999_001), (1_000, 1_000_000), (1_999, 999_001)] {
        assert_eq!(decisions(&mut oracle, &[now]), "D");
        assert_eq!(wait(&oracle, now), expected, "at {now}");
    }
    // Here a thousandth of the wait is longer than a unit takes. A charge that is not cut is at least a unit, so it is
    // always made.
    let counted =
        AtLimit { count_denied: Some(CountDenied { wait_ns: Some(10_000_000) }), ..COUNTED };
    let mut oracle = Oracle::with_rules(gcra, counted);
    decisions(&mut oracle, &[0; 3_000]);
    for (now, expected) in [(3_999, 9_996_001), (4_000, 10_000_000), (9_000, 9_999_000)] {
        assert_eq!(decisions(&mut oracle, &[now]), "D");
        assert_eq!(wait(&oracle, now), expected, "at {now}");
    }
}

#[test]
fn windows_stop_counting_at_the_limit_or_at_twice_it() {
    let (limit, window_ns) = (2, 10);
    let sliding = |rounding| Algorithm::SlidingWindow { limit, window_ns, rounding };
    for (algorithm, expected) in [
        (Algorithm::FixedWindow { limit, window_ns }, 10),
        (Algorithm::FixedWindowFromFirst { limit, window_ns, quantum_ns: 1 }, 10),
        (Algorithm::SegmentedWindow { limit, window_ns, segments: 2 }, 10),
        // Under `Exact`, 4 units that count by (20 - now) / 10 leave room for one more from 17.5 on. Under `Strict`, 2
        // units count in full until 20.
        (sliding(Rounding::Exact), 18),
        (sliding(Rounding::Down), 16),
        (sliding(Rounding::Strict), 20),
    ] {
        let mut oracle = Oracle::with_rules(algorithm, COUNTED);
        assert_eq!(decisions(&mut oracle, &[0; 12]), "AADDDDDDDDDD");
        assert_eq!(wait(&oracle, 0), expected, "{algorithm:?}");
    }
}

#[test]
fn the_last_units_asked_for_are_those_that_count_in_a_log() {
    let log = Algorithm::SlidingLog { limit: 2, window_ns: 10 };
    let mut oracle = Oracle::with_rules(log, COUNTED);
    assert_eq!(decisions(&mut oracle, &[0, 0, 4, 10]), "AADA");
    let mut oracle = Oracle::with_rules(log, COUNTED);
    assert_eq!(decisions(&mut oracle, &[0, 0, 4, 5, 10, 14]), "AADDDD");
    assert_eq!(wait(&oracle, 14), 6);
    // When all recorded units are from the last thousandth of the window, no more are recorded.
    let log = Algorithm::SlidingLog { limit: 2, window_ns: 2_001 };
    let mut oracle = Oracle::with_rules(log, COUNTED);
    assert_eq!(decisions(&mut oracle, &[1, 0, 1, 2]), "AADD");
    for (now, expected) in [(2, 1_999), (3, 1_999), (3, 1_999), (4, 2_000), (5, 1_999)] {
        assert_eq!(decisions(&mut oracle, &[now]), "D");
        assert_eq!(wait(&oracle, now), expected, "at {now}");
    }
}

#[test]
fn a_penalty_begins_with_the_nth_denial_in_a_row_and_is_half_open() {
    let fixed = Algorithm::FixedWindow { limit: 1, window_ns: 10 };
    let mut oracle = Oracle::with_rules(fixed, penalty(25, 2, false));
    // An admission between the denials starts a new series.
    assert_eq!(decisions(&mut oracle, &[0, 1, 10, 11]), "ADAD");
    assert!(!oracle.is_penalised(11));
    assert_eq!(decisions(&mut oracle, &[12]), "D");
    assert!(oracle.is_penalised(12) && oracle.is_penalised(36) && !oracle.is_penalised(37));
    assert_eq!((oracle.remaining(36), oracle.remaining(37)), (0, 1));
    assert_eq!(oracle.check(36, 2), Verdict::Never);
    assert_eq!(oracle.reset_after(20), BigUint::from(17u32));
    assert!(!oracle.is_idle(36) && oracle.is_idle(37));
    assert_eq!(decisions(&mut oracle, &[36, 37, 38]), "DAD");
    assert!(!oracle.is_penalised(38));
}

#[test]
fn an_extended_penalty_moves_its_end_forward_only() {
    let fixed = Algorithm::FixedWindow { limit: 1, window_ns: 10 };
    let mut oracle = Oracle::with_rules(fixed, penalty(10, 1, true));
    assert_eq!(decisions(&mut oracle, &[0, 1, 8, 3]), "ADDD");
    assert!(oracle.is_penalised(17) && !oracle.is_penalised(18));
    // The end moves by at least a thousandth of the length, or not at all.
    let mut oracle = Oracle::with_rules(fixed, penalty(1_001, 1, true));
    for (now, end) in [(0, 1_001), (1, 1_001), (2, 1_003), (3, 1_003)] {
        decisions(&mut oracle, &[now; 2]);
        assert_eq!(wait(&oracle, now), end - now, "at {now}");
    }
}

#[test]
fn a_penalty_that_begins_late_lasts_until_what_was_admitted_has_drained() {
    let fixed = Algorithm::FixedWindow { limit: 1, window_ns: 10 };
    let mut oracle = Oracle::with_rules(fixed, penalty(10, 1, false));
    assert_eq!(decisions(&mut oracle, &[50, 20]), "AD");
    assert!(oracle.is_penalised(59) && !oracle.is_penalised(60));
}
