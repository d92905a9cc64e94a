//! [`Health`]: whether the store answers, why it does not, and for how long in all it has not answered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tollgate::Timestamp;

use crate::error::StoreError;

/// The state of a link's connection. The task that keeps the connection and all callers share it.
#[derive(Debug)]
pub(crate) struct Health {
    up: AtomicBool,
    isolation: Mutex<Isolation>,
}

/// The time spent without the store, which is the clock of the local shares. The clock stands still while the store
/// answers, so the shares regain nothing during that time, and losing the store again grants nothing.
#[derive(Debug)]
struct Isolation {
    before: Duration,
    since: Option<Instant>,
    /// The number of times that the store was lost.
    losses: u64,
    /// Why the store was last lost, or why the last attempt to reach it failed.
    error: Option<StoreError>,
}

/// A snapshot of [`Health`]: the present absence of the store, and the number of losses so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Absence {
    /// The instant since which the store has not answered; `None` if it answers now.
    pub(crate) since: Option<Instant>,
    pub(crate) losses: u64,
    pub(crate) error: Option<StoreError>,
}

impl Health {
    /// Makes the state of a link without a connection. The link is isolated until the first connection is made.
    pub(crate) fn new(now: Instant) -> Self {
        let isolation =
            Isolation { before: Duration::ZERO, since: Some(now), losses: 0, error: None };
        Self { up: AtomicBool::new(false), isolation: Mutex::new(isolation) }
    }

    pub(crate) fn is_up(&self) -> bool {
        // Relaxed: this is a hint, and orders no other memory. A caller that reads an old value asks the store in vain,
        // or decides one more request without the store.
        self.up.load(Ordering::Relaxed)
    }

    pub(crate) fn rise(&self, now: Instant) {
        let mut isolation = self.isolation();
        if let Some(since) = isolation.since.take() {
            isolation.before += now.saturating_duration_since(since);
        }
        // Relaxed: see `is_up`. Callers read the isolation itself under the lock.
        self.up.store(true, Ordering::Relaxed);
    }

    pub(crate) fn fall(&self, now: Instant) {
        let mut isolation = self.isolation();
        isolation.losses += u64::from(isolation.since.is_none());
        isolation.since.get_or_insert(now);
        // Relaxed: as in `rise`.
        self.up.store(false, Ordering::Relaxed);
    }

    /// Notes why the store does not answer.
    pub(crate) fn blame(&self, error: StoreError) {
        self.isolation().error = Some(error);
    }

    pub(crate) fn absence(&self) -> Absence {
        let Isolation { since, losses, error, .. } = &*self.isolation();
        Absence { since: *since, losses: *losses, error: error.clone() }
    }

    /// The time spent in isolation, which is the present time of the local shares' clock.
    pub(crate) fn isolated(&self, now: Instant) -> Timestamp {
        let isolation = self.isolation();
        let current = isolation.since.map(|since| now.saturating_duration_since(since));
        Timestamp::default() + (isolation.before + current.unwrap_or_default())
    }

    /// Locks the isolation. The lock is held for a few instructions. Decisions take it only while the store is away.
    fn isolation(&self) -> MutexGuard<'_, Isolation> {
        self.isolation.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_isolation_passes() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let health = Health::new(start);
        assert!(!health.is_up());
        assert_eq!(health.isolated(at(2)), Timestamp::from_secs(2));
        health.rise(at(2));
        health.rise(at(5));
        assert!(health.is_up());
        assert_eq!(health.isolated(at(9)), Timestamp::from_secs(2));
        health.fall(at(10));
        health.fall(at(11));
        assert_eq!(health.isolated(at(13)), Timestamp::from_secs(5));
        health.rise(at(14));
        assert_eq!(health.isolated(at(99)), Timestamp::from_secs(6));
        assert_eq!(health.absence(), Absence { since: None, losses: 1, error: None });
    }
}
