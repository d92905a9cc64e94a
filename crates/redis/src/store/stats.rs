//! The counters of a store.

use std::time::Duration;

use crate::decision::Source;
use crate::error::Fault;
use crate::store::counter::{CounterLane, LANES, StoreTotal, lane};
use crate::store::evictions::Evictions;

/// The events that are counted besides decisions and faults.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StoreEvent {
    /// Calls of the script.
    Calls,
    /// Connections that passed the probe.
    Connections,
    /// Calls that had to contain the script.
    Reloads,
    /// Keys that held no state, and were taken for full limits: once for each reply that found one.
    Broken,
    /// Leases taken.
    Leases,
    /// Units of the leases.
    Leased,
    /// Units of leases that were given back unspent: they had expired, or their policy was no longer in force.
    Expired,
    /// Deadlines that passed before the request was sent.
    MissedInLine,
    /// Deadlines that passed while a reply was waited for.
    MissedSent,
    /// Attempts to connect that took too long.
    MissedConnecting,
    /// The server's clock was set back.
    SetBack,
}

/// The counters of a store and its limiters.
#[derive(Debug, Default)]
pub(crate) struct StoreCounters {
    counts: [StoreTotal; 11],
    allowed: [StoreTotal; 5],
    denied: [StoreTotal; 5],
    faults: [StoreTotal; Fault::ALL.len()],
    /// The decisions within leases, which [`Stats::allowed`] includes.
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

/// A reading of a store's counters, all counted since it was opened.
///
/// It contains no keys and has a fixed number of figures, so all of it can be exported.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate_redis::BuildError> {
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
pub struct Stats {
    /// Whether decisions are now made without the store; in a cluster, those of any slot.
    pub degraded: bool,
    /// The total time for which that was so; in a cluster, for the slots for which it was longest.
    pub degraded_for: Duration,
    /// Calls of the script. A call decides up to 16 requests, which in a cluster are all of one slot.
    pub calls: u64,
    /// Connections that were made and passed the probe. In a cluster they are counted for each group of 64 slots that
    /// shares one.
    pub connections: u64,
    /// Calls that had to contain the script, since the server had forgotten it.
    pub reloads: u64,
    /// Keys that held no state, and were taken for full limits: once for each reply that found one.
    pub broken: u64,
    /// Leases taken.
    pub leases: u64,
    /// Units of the leases.
    pub leased: u64,
    /// Units of leases that were given back unspent: they had expired, or their policy was no longer in force.
    pub expired: u64,
    /// Keys, of limits or others, that the server has evicted for want of memory since it was first asked. It is asked
    /// every five seconds. A limit whose key was evicted began anew. 0 for a cluster, and for a user without the right
    /// to `INFO`.
    pub evicted: u64,
    /// Among [`Fault::Deadline`], requests that waited in line until their deadline had passed. They were not sent,
    /// and so not charged. Earlier requests took too long, or this process has too little processor time.
    pub missed_in_line: u64,
    /// Among [`Fault::Deadline`], requests that were sent and had no reply when their deadline had passed: the store
    /// may have charged them. The store, the network or this process took too long.
    pub missed_sent: u64,
    /// Among [`Fault::Deadline`], attempts to connect. No request waits for one.
    pub missed_connecting: u64,
    /// The number of times that the server's clock was found set back by more than a second; in a cluster, for each slot
    /// that is asked.
    pub set_back: u64,
    allowed: [u64; 5],
    denied: [u64; 5],
    faults: [u64; Fault::ALL.len()],
}

impl Stats {
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

    /// Requests that were admitted, by the source of the decision.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate_redis::BuildError> {
    /// use tollgate_redis::{Source, Store};
    /// assert_eq!(Store::open("redis://127.0.0.1:1/")?.stats().allowed(Source::Share), 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn allowed(&self, source: Source) -> u64 {
        self.allowed[source as usize]
    }

    /// Requests that were denied, by the source of the decision.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate_redis::BuildError> {
    /// use tollgate_redis::{Source, Store};
    /// assert_eq!(Store::open("redis://127.0.0.1:1/")?.stats().denied(Source::Share), 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn denied(&self, source: Source) -> u64 {
        self.denied[source as usize]
    }

    /// The number of times that the store failed in this way: requests that it did not decide, and attempts to connect.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate_redis::BuildError> {
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
