//! [`Rarely`]: lets one of several threads do something, and then no thread for a while.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::Timestamp;

/// The time of the earliest next turn, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Rarely(AtomicU64);

impl Rarely {
    /// Whether it is the caller's turn. If it returns `true`, no other thread gets `true` until the pause is over.
    pub(crate) fn is_due(&self, now: Timestamp, pause: Duration) -> bool {
        let next = (now + pause).as_nanos();
        // Relaxed, for the load and both outcomes of the CAS: this word alone decides which thread has the turn.
        let until = self.0.load(Ordering::Relaxed);
        now.as_nanos() >= until
            && self.0.compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}
