//! The options `soft`, `count-denied` and `penalty`, which decide what happens at the limit. Each promise has its test.
//!
//! Each script runs through the pure function, the shared limiter and the keyed table at once.

mod count_denied;
mod penalty;
mod soft;
mod word;

use std::time::Duration;

use crate::common::Engines;
use tollgate::{Decision, Denial, Permit, Timestamp};

/// Every algorithm, each with a limit of 4 units per 2 s.
const ALGORITHMS: [&str; 7] = [
    "gcra 4/2s",
    "fixed-window 4/2s",
    "fixed-window 4/2s from-first",
    "sliding-window 4/2s exact",
    "sliding-window 4/2s",
    "sliding-window 4/2s strict",
    "segmented-window 4/2s x2",
];

impl Engines {
    fn check_ms(&mut self, cost: u64, now_ms: u64) -> Decision {
        self.check(cost, Timestamp::from_millis(now_ms))
    }

    fn denied(&mut self, cost: u64, now_ms: u64) -> Denial {
        self.check_ms(cost, now_ms).into_result().unwrap_err()
    }

    fn admitted(&mut self, cost: u64, now_ms: u64) -> Permit {
        self.check_ms(cost, now_ms).into_result().unwrap()
    }
}

fn secs(secs: u64) -> Option<Duration> {
    Some(Duration::from_secs(secs))
}
