//! The features for what happens at the limit, `soft`, `count-denied` and `penalty`, promise by promise.
//!
//! Each script runs through the pure function, the shared limiter and the keyed table at once.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

#[path = "../common/mod.rs"]
mod common;
mod count_denied;
mod penalty;
mod soft;
mod word;

use std::time::Duration;

use common::policy;
use tollgate::{
    Decision, Denial, DenialReason, KeyedLimiter, Limiter, ManualClock, Meter, Permit, Timestamp,
    Word,
};

/// Every algorithm with a limit of 4 units per 2 s.
const ALGORITHMS: [&str; 7] = [
    "gcra 4/2s",
    "fixed-window 4/2s",
    "fixed-window 4/2s from-first",
    "sliding-window 4/2s exact",
    "sliding-window 4/2s",
    "sliding-window 4/2s strict",
    "segmented-window 4/2s x2",
];

/// One limit in all three engines, which are asked at times in milliseconds.
struct Engines {
    meter: Meter,
    word: Word,
    limiter: Limiter,
    keyed: KeyedLimiter<str>,
}

impl Engines {
    fn new(text: &str) -> Self {
        let policy = policy(text);
        Self {
            meter: Meter::new(policy).unwrap(),
            word: Word::UNUSED,
            limiter: Limiter::builder(policy).clock(ManualClock::new()).build(),
            keyed: KeyedLimiter::builder(policy).clock(ManualClock::new()).build(10).unwrap(),
        }
    }

    fn check(&mut self, cost: u64, now: Timestamp) -> Decision {
        let (pure, next) = self.meter.check(self.word, now, cost);
        self.word = next;
        let shared = self.limiter.entry().at(now).check_n(cost);
        let in_table = self.keyed.entry("key").at(now).check_n(cost);
        assert_eq!(format!("{pure:?}"), format!("{shared:?}"));
        // A keyed word may round times that are not whole ticks or quanta, so times are not compared.
        assert_eq!(told(&pure), told(&in_table));
        pure
    }

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

/// A decision without its times: allowed, limit, remaining, and whether it is over the limit or in a penalty.
fn told(decision: &Decision) -> (bool, u64, u64, bool) {
    let marked = match decision {
        Decision::Allowed(permit) => permit.is_over(),
        Decision::Denied(denial) => denial.reason() == DenialReason::Penalty,
    };
    (decision.is_allowed(), decision.limit(), decision.remaining(), marked)
}

fn secs(secs: u64) -> Option<Duration> {
    Some(Duration::from_secs(secs))
}
