//! Properties of the oracle itself, over small numbers where every case can be tried.

#[path = "properties/bounds.rs"]
mod bounds;
#[path = "properties/definitions.rs"]
mod definitions;
#[path = "properties/extremes.rs"]
mod extremes;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate_oracle::{Algorithm, Oracle, Rounding, Verdict};

/// A request: its time and its cost.
type Request = (u64, u64);

const LAST_TIME: u64 = 80;

fn rounding() -> impl Strategy<Value = Rounding> {
    prop_oneof![Just(Rounding::Exact), Just(Rounding::Down), Just(Rounding::Strict)]
}

fn gcra() -> impl Strategy<Value = Algorithm> {
    (1..7u64, 1..17u64, 1..7u64, proptest::option::of(0..5u32)).prop_map(
        |(count, period_ns, burst, tick)| Algorithm::Gcra { count, period_ns, burst, tick },
    )
}

fn log() -> impl Strategy<Value = Algorithm> {
    (1..7u64, 1..17u64).prop_map(|(limit, window_ns)| Algorithm::SlidingLog { limit, window_ns })
}

/// All kinds of windows that last for nanoseconds only. Windows of the calendar last longer, and have worked examples
/// instead.
fn window() -> impl Strategy<Value = Algorithm> {
    let fixed = (1..7u64, 1..17u64)
        .prop_map(|(limit, window_ns)| Algorithm::FixedWindow { limit, window_ns });
    let from_first = (1..7u64, 1..17u64, 1..21u64).prop_map(|(limit, window_ns, quantum_ns)| {
        Algorithm::FixedWindowFromFirst { limit, window_ns, quantum_ns }
    });
    let sliding = (1..7u64, 1..17u64, rounding()).prop_map(|(limit, window_ns, rounding)| {
        Algorithm::SlidingWindow { limit, window_ns, rounding }
    });
    let segmented = (1..7u64, 1..6u64, 1..5u64).prop_map(|(limit, segment_ns, segments)| {
        Algorithm::SegmentedWindow { limit, window_ns: segment_ns * segments, segments }
    });
    prop_oneof![fixed, from_first, sliding, segmented]
}

fn algorithm() -> impl Strategy<Value = Algorithm> {
    prop_oneof![2 => gcra(), 4 => window(), 1 => log()]
}

/// Requests in any order of time.
fn requests() -> impl Strategy<Value = Vec<Request>> {
    vec((0..LAST_TIME, 0..8u64), 0..40)
}

/// Requests whose times never fall.
fn requests_in_order() -> impl Strategy<Value = Vec<Request>> {
    requests().prop_map(|mut requests| {
        requests.sort_by_key(|request| request.0);
        requests
    })
}

/// Makes all requests, and returns those that are admitted.
fn run(oracle: &mut Oracle, requests: &[Request]) -> Vec<Request> {
    let admit = |request: &&Request| oracle.check(request.0, request.1) == Verdict::Allowed;
    requests.iter().filter(admit).copied().collect()
}
