//! The same requests through every algorithm.

use super::*;

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

#[test]
fn example_25_a_denied_cost_spends_nothing_and_one_above_the_limit_never_fits() {
    for fresh in every_algorithm(10, MIN) {
        let mut oracle = fresh.clone();
        let verdicts: String =
            [8, 5, 2, 11].map(|cost| letter(oracle.check(7 * S, cost))).iter().collect();
        assert_eq!(verdicts, "ADAN", "{fresh:?}");
        assert_eq!(oracle.retry_after(7 * S, 11), None);

        let mut undenied = fresh;
        undenied.check(7 * S, 8);
        undenied.check(7 * S, 2);
        assert_eq!(oracle, undenied);
    }
}

/// One request every 0.1 s for three seconds.
fn three_seconds(mut oracle: Oracle) -> String {
    ask(&mut oracle, (0..30).map(|i| i * 100 * MS))
}

#[test]
fn example_32_counting_from_nothing_passes_the_limit_at_the_start_of_each_window() {
    for oracle in [fixed(5, S), from_first(5, S), log(5, S), segmented(5, S, 5)] {
        assert_eq!(three_seconds(oracle), "AAAAADDDDD".repeat(3));
    }
}

#[test]
fn example_32_spacing_soft_and_hard_differ_in_what_they_hold_steady() {
    for spaced in gcra(5, S, 1) {
        assert_eq!(three_seconds(spaced), "AD".repeat(15));
    }
    for soft in gcra(5, S, 5) {
        assert_eq!(three_seconds(soft), joined("AAAAAAAAAD ADADADADAD ADADADADAD"));
    }
    for hard in gcra(1, S, 5) {
        assert_eq!(three_seconds(hard), joined("AAAAADDDDD ADDDDDDDDD ADDDDDDDDD"));
    }
}

#[test]
fn example_32_the_three_roundings_of_a_sliding_window_pass_different_shares() {
    for (rounding, verdicts) in [
        (Rounding::Exact, "AAAAADDDDD DDADADADAD ADDADADDAD"),
        (Rounding::Down, "AAAAADDDDD DADADADADA DADADADADA"),
        (Rounding::Strict, "AAAAADDDDD DDDDDDDDDD AAAAADDDDD"),
    ] {
        assert_eq!(three_seconds(sliding(5, S, rounding)), joined(verdicts));
    }
}
