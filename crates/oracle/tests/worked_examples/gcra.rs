//! Token bucket, leaky bucket, enforced average: all are GCRA.

use super::*;

#[test]
fn example_05_an_enforced_average_never_passes_two_within_one_interval() {
    let tenths = [0u64, 100, 200, 300, 410];
    for mut oracle in gcra(5, S, 1) {
        assert_eq!(ask(&mut oracle, tenths.map(|ms| ms * MS)), "ADADA");
    }
}

#[test]
fn example_15_a_bucket_gives_one_token_back_per_interval() {
    for fresh in gcra(3, MIN, 3) {
        let mut oracle = fresh.clone();
        assert_eq!(ask_s(&mut oracle, &[0, 5, 5, 19]), "AAAD");
        // The bucket is full again at 1:00.
        assert_eq!(oracle.reset_after(19 * S), seconds(41));
        assert_eq!(oracle.remaining(59 * S), 2);
        assert_eq!(oracle.remaining(60 * S), 3);
        assert!(!oracle.is_idle(59 * S));
        assert!(oracle.is_idle(60 * S));

        assert_eq!(ask_s(&mut fresh.clone(), &[0, 5, 5, 20]), "AAAA");
    }
}

#[test]
fn example_16_a_bucket_passes_burst_and_refill_in_one_closed_window() {
    for mut oracle in gcra(3, MIN, 3) {
        // The bucket passes 5 units in [1:00, 2:00), and 6 = 3 + 3 in [1:00, 2:00].
        assert_eq!(ask_s(&mut oracle, &[60, 60, 60, 80, 100, 120]), "AAAAAA");
        assert_eq!(ask_s(&mut oracle, &[120]), "D");
    }
}

#[test]
fn example_17_a_bucket_of_three_passes_all_of_the_seven_requests() {
    for mut oracle in gcra(3, MIN, 3) {
        assert_eq!(ask_s(&mut oracle, &SEVEN), "AAAAAAA");
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
fn example_21_a_steady_overload_drains_the_burst_then_passes_every_second_request() {
    let second =
        |oracle: &mut Oracle, number: u64| ask(oracle, (0..10).map(|i| number * S + i * 100 * MS));
    for mut oracle in gcra(5, S, 5) {
        assert_eq!(second(&mut oracle, 0), "AAAAAAAAAD");
        for number in 1..20 {
            assert_eq!(second(&mut oracle, number), "ADADADADAD");
        }
    }
    for burst in 1..20 {
        for mut oracle in gcra(5, S, burst) {
            let passed = admitted(&second(&mut oracle, 0));
            assert_eq!(passed as u64, 10.min(burst + 4));
        }
    }
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
fn example_31_a_soft_leaky_bucket_keeps_the_average_and_a_hard_one_its_limit_per_window() {
    let tenths = || (1..=10).map(|i| i * 100 * MS);
    for mut soft in gcra(5, S, 5) {
        let at_once = ask_at(&mut soft, 0, 6);
        let after = ask(&mut soft, tenths());
        assert_eq!((at_once.as_str(), after.as_str()), ("AAAAAD", "DADADADADA"));
        assert_eq!(admitted(&at_once) + admitted(&after[..9]), 9); // in [0, 1)
        assert_eq!(admitted(&at_once) + admitted(&after), 10); // in [0, 1]
    }
    for mut hard in gcra(1, S, 5) {
        let at_once = ask_at(&mut hard, 0, 6);
        let after = ask(&mut hard, tenths());
        assert_eq!((at_once.as_str(), after.as_str()), ("AAAAAD", "DDDDDDDDDA"));
        assert_eq!(admitted(&at_once) + admitted(&after[..9]), 5); // in [0, 1)
        assert_eq!(admitted(&at_once) + admitted(&after), 6); // in [0, 1]
        assert_eq!(ask(&mut hard, tenths().map(|now_ns| S + now_ns)), "DDDDDDDDDA");
    }
}
