//! The maximum admitted in any interval, as promised for each algorithm.

use super::*;

/// The maximum number of units admitted in any closed interval `[x, x + length]` of request times.
fn max_within(admitted: &[Request], length: u64) -> u64 {
    let within = |from: u64| {
        let inside = |request: &&Request| (from..=from + length).contains(&request.0);
        admitted.iter().filter(inside).map(|request| request.1).sum()
    };
    admitted.iter().map(|request| within(request.0)).max().unwrap_or(0)
}

proptest! {
    // Charged times may come in any order here.
    #[test]
    fn gcra_passes_its_burst_and_what_flows_back(algorithm in gcra(), requests in requests()) {
        let Algorithm::Gcra { count, period_ns, burst, tick } = algorithm else { unreachable!() };
        let admitted = run(&mut Oracle::new(algorithm), &requests);
        for length in 0..LAST_TIME {
            let flows_back = match tick {
                None => length * count / period_ns,
                Some(k) => (length * (count << k)).div_ceil(period_ns) >> k,
            };
            prop_assert!(max_within(&admitted, length) <= burst + flows_back);
        }
    }

    #[test]
    fn a_log_passes_its_limit_in_any_window(algorithm in log(), requests in requests()) {
        let Algorithm::SlidingLog { limit, window_ns } = algorithm else { unreachable!() };
        let admitted = run(&mut Oracle::new(algorithm), &requests);
        prop_assert!(max_within(&admitted, window_ns - 1) <= limit);
        prop_assert!(max_within(&admitted, window_ns) <= 2 * limit);
    }

    #[test]
    fn windows_pass_at_most_what_they_promise(
        algorithm in window(), requests in requests_in_order(),
    ) {
        // The limit, the window, and the maximum in a half-open and in a closed window.
        let (limit, window_ns, half_open, closed) = match algorithm {
            Algorithm::FixedWindow { limit: l, window_ns } => (l, window_ns, 2 * l, 2 * l),
            Algorithm::FixedWindowFromFirst { limit: l, window_ns, .. } => {
                (l, window_ns, 2 * l - 1, 2 * l)
            }
            Algorithm::SlidingWindow { limit: l, window_ns, rounding } => match rounding {
                Rounding::Exact => (l, window_ns, 2 * l - 1, 2 * l - 1),
                Rounding::Down => (l, window_ns, 2 * l, 2 * l),
                Rounding::Strict => (l, window_ns, l, l),
            },
            Algorithm::SegmentedWindow { limit: l, window_ns, .. } => (l, window_ns, 2 * l, 2 * l),
            Algorithm::Gcra { .. }
            | Algorithm::Calendar { .. }
            | Algorithm::SlidingLog { .. } => unreachable!(),
        };
        let admitted = run(&mut Oracle::new(algorithm), &requests);
        prop_assert!(max_within(&admitted, 0) <= limit);
        prop_assert!(max_within(&admitted, window_ns - 1) <= half_open);
        prop_assert!(max_within(&admitted, window_ns) <= closed);
        if let Algorithm::SegmentedWindow { segments, .. } = algorithm {
            let all_but_one = window_ns / segments * (segments - 1);
            prop_assert!(max_within(&admitted, all_but_one) <= limit);
        }
    }
}
