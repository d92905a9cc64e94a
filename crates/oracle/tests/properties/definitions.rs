//! Compares the answers with those that are found by trying every case, and by recounting the whole history.

use super::*;

/// This time is long enough for each of the small limits to be fully available again.
const HORIZON: u64 = 4 * LAST_TIME + 100;

proptest! {
    #[test]
    fn a_wait_is_the_first_time_that_fits_and_then_it_keeps_fitting(
        algorithm in algorithm(), requests in requests(), now_ns in 0..LAST_TIME, cost in 0..8u64,
    ) {
        let mut oracle = Oracle::new(algorithm);
        run(&mut oracle, &requests);
        let fits: Vec<bool> =
            (0..HORIZON).map(|n| oracle.peek(now_ns + n, cost) == Verdict::Allowed).collect();
        let first = fits.iter().position(|&fits| fits);
        prop_assert_eq!(oracle.retry_after(now_ns, cost), first.map(|n| n.into()));
        prop_assert_eq!(first.is_none(), cost > oracle.limit());
        if let Some(first) = first {
            prop_assert!(fits[first..].iter().all(|&fits| fits));
        }
    }

    #[test]
    fn what_remains_is_the_largest_cost_that_fits(
        algorithm in algorithm(), requests in requests(), now_ns in 0..LAST_TIME,
    ) {
        let mut oracle = Oracle::new(algorithm);
        run(&mut oracle, &requests);
        let fits = |cost: &u64| oracle.peek(now_ns, *cost) == Verdict::Allowed;
        let largest = (0..=oracle.limit()).rev().find(fits);
        prop_assert_eq!(oracle.remaining(now_ns), largest.unwrap_or(0));
        // Every smaller cost fits as well.
        prop_assert!((0..largest.map_or(0, |cost| cost + 1)).all(|cost| fits(&cost)));
    }

    #[test]
    fn reset_is_the_first_time_the_whole_limit_remains(
        algorithm in algorithm(), requests in requests(), now_ns in 0..LAST_TIME,
    ) {
        let mut oracle = Oracle::new(algorithm);
        run(&mut oracle, &requests);
        let first = (0..HORIZON).find(|n| oracle.remaining(now_ns + n) == oracle.limit());
        prop_assert_eq!(Some(oracle.reset_after(now_ns)), first.map(|n| n.into()));
    }

    #[test]
    fn only_an_admitted_cost_changes_the_state(
        algorithm in algorithm(), requests in requests(), now_ns in 0..LAST_TIME, cost in 0..9u64,
    ) {
        let mut oracle = Oracle::new(algorithm);
        run(&mut oracle, &requests);
        let before = oracle.clone();
        let peeked = oracle.peek(now_ns, cost);
        let verdict = oracle.check(now_ns, cost);
        prop_assert_eq!(peeked, verdict);
        prop_assert_eq!(oracle != before, verdict == Verdict::Allowed && cost > 0);
        prop_assert_eq!(verdict == Verdict::Never, cost > oracle.limit());
    }

    #[test]
    fn idle_is_as_good_as_never_used(
        algorithm in algorithm(), requests in requests(), now_ns in 0..LAST_TIME,
        later in requests(),
    ) {
        let mut oracle = Oracle::new(algorithm);
        run(&mut oracle, &requests);
        prop_assert_eq!(oracle.is_idle(now_ns), oracle.remaining(now_ns) == oracle.limit());
        if oracle.is_idle(now_ns) {
            let mut fresh = Oracle::new(algorithm);
            for (time, cost) in later {
                let time = now_ns + time;
                prop_assert_eq!(oracle.check(time, cost), fresh.check(time, cost));
                prop_assert_eq!(oracle.remaining(time), fresh.remaining(time));
                prop_assert_eq!(oracle.is_idle(time), fresh.is_idle(time));
            }
        }
    }

    #[test]
    fn each_decision_follows_from_the_history_of_admissions(
        algorithm in algorithm(), requests in requests_in_order(),
    ) {
        let mut oracle = Oracle::new(algorithm);
        let mut history: Vec<Request> = Vec::new();
        for (now_ns, cost) in requests {
            let verdict = oracle.check(now_ns, cost);
            if cost <= oracle.limit() {
                let fits = fits(algorithm, &history, now_ns, cost);
                prop_assert_eq!(verdict == Verdict::Allowed, fits);
            }
            if verdict == Verdict::Allowed && cost > 0 {
                history.push((now_ns, cost));
            }
        }
    }
}

/// The definition over a history in order of time, without any state.
fn fits(algorithm: Algorithm, history: &[Request], now: u64, cost: u64) -> bool {
    let sum = |counts: &dyn Fn(u64) -> bool| -> u64 {
        history.iter().filter(|request| counts(request.0)).map(|request| request.1).sum()
    };
    match algorithm {
        Algorithm::Gcra { count, period_ns, burst, tick } => {
            let (unit, time): (u64, Box<dyn Fn(u64) -> u64>) = match tick {
                None => (period_ns, Box::new(|now| now * count)),
                // For numbers this small the rounding of the factor never reaches a whole tick.
                Some(k) => (1 << k, Box::new(move |now| now * (count << k) / period_ns)),
            };
            // Every interval that ends now must keep the bound: GCRA denies a request only if one of these intervals
            // would exceed it.
            (0..history.len()).all(|first| {
                let charged: u64 = history[first..].iter().map(|request| request.1).sum();
                let since = time(now) - time(history[first].0);
                (charged + cost) * unit <= burst * unit + since
            })
        }
        Algorithm::FixedWindow { limit, window_ns } => {
            sum(&|time| time / window_ns == now / window_ns) + cost <= limit
        }
        Algorithm::FixedWindowFromFirst { limit, window_ns, quantum_ns } => {
            let (mut end, mut units) = (0, 0);
            for (time, charged) in history.iter().copied().chain([(now, cost)]) {
                if time >= end {
                    end = time.div_ceil(quantum_ns) * quantum_ns + window_ns;
                    units = 0;
                }
                units += charged;
            }
            units <= limit
        }
        Algorithm::SlidingWindow { limit, window_ns, rounding } => {
            let current = sum(&|time| time / window_ns == now / window_ns);
            let previous = sum(&|time| time / window_ns + 1 == now / window_ns);
            let share = previous * (window_ns - now % window_ns);
            current
                + cost
                + match rounding {
                    Rounding::Exact => share.div_ceil(window_ns),
                    Rounding::Down => share / window_ns,
                    Rounding::Strict => previous,
                }
                <= limit
        }
        Algorithm::SegmentedWindow { limit, window_ns, segments } => {
            let segment = |time: u64| time / (window_ns / segments);
            sum(&|time| segment(now) - segment(time) < segments) + cost <= limit
        }
        Algorithm::SlidingLog { limit, window_ns } => {
            sum(&|time| now - time < window_ns) + cost <= limit
        }
        Algorithm::Calendar { .. } => unreachable!(),
    }
}
