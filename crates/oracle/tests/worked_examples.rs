//! The worked examples of the algorithms, each a test named after its promise and its number.
//!
//! Times are seconds or minutes:seconds after time 0, where all aligned windows begin. In the strings `A` is
//! admitted, `D` is denied and `N` can never be admitted; blanks only group them.

#[path = "worked_examples/counters.rs"]
mod counters;
#[path = "worked_examples/gcra.rs"]
mod gcra;
#[path = "worked_examples/several.rs"]
mod several;
#[path = "worked_examples/sliding.rs"]
mod sliding;

use tollgate_oracle::{Algorithm, BigUint, CalendarSpan, Oracle, Rounding, Verdict};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const MIN: u64 = 60 * S;

/// The seven requests with which several sources compare the algorithms, with 3 units per minute.
const SEVEN: [u64; 7] = [5, 15, 61, 70, 100, 110, 140];

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

/// Requests of one unit at the given whole seconds, as a string of verdicts.
fn ask_s(oracle: &mut Oracle, times_s: &[u64]) -> String {
    ask(oracle, times_s.iter().map(|time| time * S))
}

/// `times` requests of one unit at one instant.
fn ask_at(oracle: &mut Oracle, now_ns: u64, times: usize) -> String {
    ask(oracle, std::iter::repeat_n(now_ns, times))
}

/// The number of admissions.
fn admitted(verdicts: &str) -> usize {
    verdicts.matches('A').count()
}

/// A string of verdicts without the blanks that group it.
fn joined(verdicts: &str) -> String {
    verdicts.replace(' ', "")
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
