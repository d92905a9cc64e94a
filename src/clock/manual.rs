//! [`ManualClock`]: a clock that its owner moves.

use std::time::Duration;

use super::timestamp::{Timestamp, saturating_nanos};
use crate::sync::{Arc, AtomicU64, Ordering};

/// A clock for tests, which stands still until its owner moves it. Clones share one time.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, ManualClock, Quota};
///
/// let clock = ManualClock::new();
/// let limiter = Limiter::builder(Quota::per_second(1)).clock(clock.clone()).build();
/// assert!(limiter.check().is_allowed());
/// assert!(!limiter.check().is_allowed());
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.check().is_allowed());
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    now_ns: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that reads 0.
    #[must_use]
    pub fn new() -> Self {
        Self { now_ns: Arc::new(AtomicU64::new(0)) }
    }

    /// Reads the clock.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Timestamp {
        // Relaxed: the time orders no other memory, and limiters accept readings in any order.
        Timestamp(self.now_ns.load(Ordering::Relaxed))
    }

    /// Moves the clock forward; at the end of its range it stops.
    pub fn advance(&self, by: Duration) {
        let by_ns = saturating_nanos(by);
        let forward = |now_ns: u64| Some(now_ns.saturating_add(by_ns));
        // Relaxed: as in `now`. The closure never returns None, so the update cannot fail.
        let _ = self.now_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, forward);
    }

    /// Sets the clock to any time, even an earlier one.
    ///
    /// ```
    /// use tollgate::{ManualClock, Timestamp};
    /// let clock = ManualClock::new();
    /// clock.set(Timestamp::from_secs(60));
    /// assert_eq!(clock.now(), Timestamp::from_secs(60));
    /// ```
    pub fn set(&self, now: Timestamp) {
        // Relaxed: as in `now`.
        self.now_ns.store(now.0, Ordering::Relaxed);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}
