//! Limits as the audits ask them: a function of key, time and cost.

use tollgate::{Decision, KeyedLimiter, Limiter, ManualClock, Timestamp};

use crate::common::policy;

/// One limit for all keys.
pub(crate) fn direct(text: &str) -> impl Fn(u64, u64, u64) -> Decision + Sync + 'static {
    let limiter = Limiter::builder(policy(text)).clock(ManualClock::new()).build();
    move |_, now_ns, cost| limiter.entry().at(Timestamp::from_nanos(now_ns)).check_n(cost)
}

/// A table for `capacity` keys.
pub(crate) fn keyed(
    text: &str,
    capacity: usize,
) -> impl Fn(u64, u64, u64) -> Decision + Sync + 'static {
    let table =
        KeyedLimiter::builder(policy(text)).clock(ManualClock::new()).build(capacity).unwrap();
    move |key, now_ns, cost| table.entry(&key).at(Timestamp::from_nanos(now_ns)).check_n(cost)
}
