//! The un-keyed limiter under windows. The first charge after the end of a window begins the next.
//!
//! Property: as for GCRA (see `limiter`), the answers and the units left are those of the exact reference model for
//! some order of the requests. So a new window begins once, each charge counts in one window, and a late request is
//! decided in the window in force.
//!
//! These models are sufficient because beginning a new window is not a separate step. The first thread that charges in
//! the new window computes the word of that window, and writes it with the compare-and-swap of its charge. Two threads
//! race to begin the new window. With three threads, one asks with a time in the old window while two begin the new
//! one.

use std::sync::Arc;

use loom_tests::race::{RaceRequest, ask_all, race};
use loom_tests::suite::{Bound, Model};
use loom_tests::verdict::{UNEXPLAINED, assert_explained};
use tollgate::control::Fault;
use tollgate::{Limiter, ManualClock, Policy};
use tollgate_oracle::{Algorithm, Rounding};

use crate::limiter::ask;

const SECOND_NS: u64 = 1_000_000_000;

/// An algorithm with windows of one second.
#[derive(Clone, Copy)]
enum Window {
    Fixed,
    FromFirst,
    Sliding,
    Segmented,
}

impl Window {
    fn limiter(self, limit: u64) -> (Arc<Limiter>, Algorithm) {
        let window_ns = SECOND_NS;
        let (text, algorithm) = match self {
            Self::Fixed => {
                (format!("fixed-window {limit}/s"), Algorithm::FixedWindow { limit, window_ns })
            }
            Self::FromFirst => (
                format!("fixed-window {limit}/s from-first"),
                Algorithm::FixedWindowFromFirst { limit, window_ns, quantum_ns: 1 },
            ),
            Self::Sliding => (
                format!("sliding-window {limit}/s exact"),
                Algorithm::SlidingWindow { limit, window_ns, rounding: Rounding::Exact },
            ),
            Self::Segmented => (
                format!("segmented-window {limit}/s x2"),
                Algorithm::SegmentedWindow { limit, window_ns, segments: 2 },
            ),
        };
        let policy: Policy = text.parse().expect("a policy");
        (Arc::new(Limiter::builder(policy).clock(ManualClock::new()).build()), algorithm)
    }
}

fn races(window: Window, setup: &[RaceRequest], lists: Vec<Vec<RaceRequest>>) {
    let (limiter, algorithm) = window.limiter(2);
    let last_ms = lists.iter().flatten().map(|ask| ask.now_ms).max().unwrap_or(0);
    let setup = ask_all(&*limiter, setup);
    let calls = race(&limiter, lists);
    assert_explained(&*limiter, algorithm, &setup, &calls, ask(1, last_ms));
}

/// 2 threads: one charges at the end of a window and again in the next; the other begins the next window.
fn turn(window: Window) {
    races(window, &[ask(1, 5_100)], vec![vec![ask(1, 5_900), ask(1, 6_200)], vec![ask(1, 6_200)]]);
}

/// 3 threads: two begin the new window, and the third asks with a time in the old one.
fn turn_by_three(window: Window) {
    races(
        window,
        &[ask(1, 5_100)],
        vec![vec![ask(1, 5_900)], vec![ask(1, 6_200)], vec![ask(1, 6_600)]],
    );
}

/// 2 threads: one skips whole windows, the other asks with times of the skipped windows, twice.
fn skipped(window: Window) {
    races(
        window,
        &[ask(2, 5_100)],
        vec![vec![ask(1, 6_900), ask(1, 7_900)], vec![ask(1, 9_100), ask(1, 8_200)]],
    );
}

pub(crate) fn models() -> Vec<Model> {
    use Bound::{None as Whole, Preemptions};
    use Fault::{FailureTakenForSuccess as Failure, PlainStoreForCas as Store};
    use Window::{Fixed, FromFirst, Segmented, Sliding};
    let three = Preemptions(3);
    vec![
        Model::new("fixed_turn", Whole, || turn(Fixed)).control(
            "fixed_turn_is_caught",
            Store,
            UNEXPLAINED,
        ),
        Model::new("from_first_turn", Whole, || turn(FromFirst)).control(
            "from_first_turn_is_caught",
            Store,
            UNEXPLAINED,
        ),
        Model::new("sliding_turn", Whole, || turn(Sliding)).control(
            "sliding_turn_is_caught",
            Store,
            UNEXPLAINED,
        ),
        Model::new("segmented_turn", Whole, || turn(Segmented)).control(
            "segmented_turn_is_caught",
            Store,
            UNEXPLAINED,
        ),
        Model::new("fixed_turn_by_three", three, || turn_by_three(Fixed)).control(
            "fixed_turn_by_three_is_caught",
            Failure,
            UNEXPLAINED,
        ),
        Model::new("from_first_turn_by_three", three, || turn_by_three(FromFirst)).control(
            "from_first_turn_by_three_is_caught",
            Failure,
            UNEXPLAINED,
        ),
        Model::new("sliding_turn_by_three", three, || turn_by_three(Sliding)).control(
            "sliding_turn_by_three_is_caught",
            Failure,
            UNEXPLAINED,
        ),
        Model::new("segmented_turn_by_three", three, || turn_by_three(Segmented)).control(
            "segmented_turn_by_three_is_caught",
            Failure,
            UNEXPLAINED,
        ),
        Model::new("fixed_skipped", Whole, || skipped(Fixed)).control(
            "fixed_skipped_is_caught",
            Store,
            UNEXPLAINED,
        ),
        Model::new("sliding_skipped", Whole, || skipped(Sliding)).control(
            "sliding_skipped_is_caught",
            Store,
            UNEXPLAINED,
        ),
        Model::new("segmented_skipped", Whole, || skipped(Segmented)).control(
            "segmented_skipped_is_caught",
            Store,
            UNEXPLAINED,
        ),
    ]
}
