//! The counters of a store.

use std::time::Duration;

use crate::decision::Source;
use crate::error::Fault;
use crate::store::counter::{CounterLane, LANES, StoreTotal, lane};
use crate::store::evictions::Evictions;

/// Events that are counted, other than decisions and faults.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StoreEvent {
    /// Calls of the script.
    Calls,
    /// Connections that passed the probe.
    Connections,
    /// Calls that contained the text of the script, since the server had forgotten it.
    Reloads,
    /// Replies about a key whose value was not a state. Such a key is treated as a limit with no units left.
    Broken,
    /// Leases taken.
    Leases,
    /// Units that were taken in leases.
    Leased,
    /// Units of leases that were given back unspent: they had expired, or their policy was no longer in force.
    Expired,
    /// Requests whose deadline passed before they were sent.
    MissedInLine,
    /// Requests whose deadline passed after they were sent and before the reply came.
    MissedSent,
    /// Attempts to connect that took too long.
    MissedConnecting,
    /// Times that the server's clock was found set back.
    SetBack,
}

/// The counters of a store and its limiters.
#[derive(Debug, Default)]
pub(crate) struct StoreCounters {
    counts: [StoreTotal; 11],
    allowed: [StoreTotal; 5],
    denied: [StoreTotal; 5],
    faults: [StoreTotal; Fault::ALL.len()],
    /// The requests that were admitted within leases. [`StoreStats::allowed`] includes them.
    leased: [CounterLane; LANES],
    pub(crate) evictions: Evictions,
}

impl StoreCounters {
    pub(crate) fn add(&self, count: StoreEvent, by: u64) {
        self.counts[count as usize].add(by);
    }

    pub(crate) fn get(&self, count: StoreEvent) -> u64 {
        self.counts[count as usize].get()
    }

    pub(crate) fn fault(&self, fault: Fault) {
        self.faults[fault as usize].add(1);
    }

    pub(crate) fn decision(&self, source: Source, allowed: bool) {
        if allowed && source == Source::Lease {
            self.leased[lane()].0.add(1);
            return;
        }
        let counters = if allowed { &self.allowed } else { &self.denied };
        counters[source as usize].add(1);
    }
}

/// A reading of the counters of a store. Everything is counted since the store was opened.
///
/// It contains no keys and has a fixed number of figures, so all of them can be exported as metrics.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate_redis::RedisBuildError> {
/// use tollgate_redis::{Fault, Source, Store};
/// let store = Store::open("redis://127.0.0.1:1/")?;
/// let stats = store.stats();
/// assert!(stats.degraded);
/// assert_eq!((stats.calls, stats.allowed(Source::Store), stats.faults(Fault::ReadOnly)), (0, 0, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStats {
    /// True if decisions are now made without the store, in a cluster for any slot.
    pub degraded: bool,
    /// The total time for which decisions were made without the store. In a cluster, the longest such time of any group
    /// of slots.
    pub degraded_for: Duration,
    /// Calls of the script. A call decides under up to 16 limits, or under more if a single request has more. In a
    /// cluster, all limits of a call are in one slot.
    pub calls: u64,
    /// Connections that were made and passed the probe. In a cluster they are counted for each group of 64 slots
    /// separately.
    pub connections: u64,
    /// Calls that contained the text of the script, since the server had forgotten it.
    pub reloads: u64,
    /// Replies about a key whose value was not a state. Such a key is treated as a limit with no units left.
    pub broken: u64,
    /// Leases taken.
    pub leases: u64,
    /// Units that were taken in leases.
    pub leased: u64,
    /// Units of leases that were given back unspent: they had expired, or their policy was no longer in force.
    pub expired: u64,
    /// Keys that the server has evicted for lack of memory since the store first asked for the number. The store asks
    /// every five seconds. The number includes keys that belong to no limit. A limit whose key was evicted starts
    /// unused. The number is 0 for a cluster, and for a user without the right to `INFO`.
    pub evicted: u64,
    /// The [`Fault::Deadline`] faults of requests that were never sent, because the deadline passed while they waited
    /// in line. These requests were not charged. Possible causes are earlier requests that took too long, and too
    /// little processor time for this process.
    pub missed_in_line: u64,
    /// The [`Fault::Deadline`] faults of requests that were sent and had no reply by the deadline. The store may have
    /// charged these requests. The store, the network or this process took too long.
    pub missed_sent: u64,
    /// The [`Fault::Deadline`] faults of attempts to connect. No request waits for an attempt.
    pub missed_connecting: u64,
    /// The number of times that the server's clock was found set back by more than a second. In a cluster, each slot
    /// that is asked counts it separately.
    pub set_back: u64,
    allowed: [u64; 5],
    denied: [u64; 5],
    faults: [u64; Fault::ALL.len()],
}

impl StoreStats {
    pub(crate) fn read(counters: &StoreCounters, degraded: bool, degraded_for: Duration) -> Self {
        fn all<const N: usize>(counters: &[StoreTotal; N]) -> [u64; N] {
            std::array::from_fn(|n| counters[n].get())
        }
        let mut allowed = all(&counters.allowed);
        let lanes = counters.leased.iter().map(|lane| lane.0.get());
        allowed[Source::Lease as usize] = lanes.sum();
        Self {
            degraded,
            degraded_for,
            calls: counters.get(StoreEvent::Calls),
            connections: counters.get(StoreEvent::Connections),
            reloads: counters.get(StoreEvent::Reloads),
            broken: counters.get(StoreEvent::Broken),
            leases: counters.get(StoreEvent::Leases),
            leased: counters.get(StoreEvent::Leased),
            expired: counters.get(StoreEvent::Expired),
            evicted: counters.evictions.grown(),
            missed_in_line: counters.get(StoreEvent::MissedInLine),
            missed_sent: counters.get(StoreEvent::MissedSent),
            missed_connecting: counters.get(StoreEvent::MissedConnecting),
            set_back: counters.get(StoreEvent::SetBack),
            allowed,
            denied: all(&counters.denied),
            faults: all(&counters.faults),
        }
    }

    /// The number of requests that this source has admitted.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate_redis::RedisBuildError> {
    /// use tollgate_redis::{Source, Store};
    /// assert_eq!(Store::open("redis://127.0.0.1:1/")?.stats().allowed(Source::Share), 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn allowed(&self, source: Source) -> u64 {
        self.allowed[source as usize]
    }

    /// The number of requests that this source has denied.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate_redis::RedisBuildError> {
    /// use tollgate_redis::{Source, Store};
    /// assert_eq!(Store::open("redis://127.0.0.1:1/")?.stats().denied(Source::Share), 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn denied(&self, source: Source) -> u64 {
        self.denied[source as usize]
    }

    /// The number of times that the store failed with this fault. It includes requests that the store did not decide,
    /// and attempts to connect.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate_redis::RedisBuildError> {
    /// use tollgate_redis::{Fault, Store};
    /// assert_eq!(Store::open("redis://127.0.0.1:1/")?.stats().faults(Fault::Busy), 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn faults(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }
}
