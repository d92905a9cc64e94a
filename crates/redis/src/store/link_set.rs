//! [`LinkSet`]: the links of a store. A single server has one link, and a cluster has one for each group of 64
//! successive slots.
//!
//! Each node of a cluster has long ranges of slots, so most groups are on one node, and the group's link reflects the
//! health of that node. A node that is away affects its own keys, and at most 63 slots of other nodes at either end of
//! its ranges. The isolation clock runs for these keys only. A key always uses the same link, even if its slot moves to
//! another node, so its share always uses the same isolation clock.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tollgate::Timestamp;

use crate::decision::Source;
use crate::error::{RedisBuildError, StoreError};
use crate::hash_slot::SLOTS;
use crate::local::Locals;
use crate::script::plan::ScriptPlan;
use crate::script::{ScriptPart, ScriptRequest, ScriptVerb, Units};
use crate::settings::OnError;
use crate::store::link::{Bond, Link, Probe};
use crate::store::outage::{
    Outage, OutageLine, OutageLog, OutageTally, OutageText, StoreReading, Without,
};
use crate::store::stats::{StoreCounters, StoreStats};

/// The policy of the key that a probe charges. Its limit is so high that the probes of any number of nodes are
/// admitted.
const PROBE: &str = "gcra 1000000/s burst 1000000";

/// The interval at which the log task reads the state. It also reads the state whenever the store is lost or comes
/// back.
const EVERY: Duration = Duration::from_secs(1);

/// The number of slots of a link to a cluster.
const SLOTS_OF_A_LINK: u16 = 64;

/// While this exists, a limit is included in the number of limits with its [`OnError`].
#[derive(Debug)]
pub(crate) struct Enrolled(Arc<[AtomicUsize; 3]>, OnError);

impl Drop for Enrolled {
    fn drop(&mut self) {
        // Relaxed: this is a count for operators, and orders no other memory.
        self.0[self.1 as usize].fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub(crate) struct LinkSet {
    bond: Bond,
    /// The address of the store, without user, password and options.
    pub(crate) name: Box<str>,
    /// For each [`OnError`], the number of limits with it, for the log.
    limits: Arc<[AtomicUsize; 3]>,
    /// One link if the store is one server. In a cluster, one link for each group of slots, in the order of the slots.
    links: Box<[Arc<Link>]>,
    pub(crate) locals: Locals,
}

impl LinkSet {
    pub(crate) fn open(
        bond: Bond,
        name: Box<str>,
        prefix: &Arc<str>,
    ) -> Result<Arc<Self>, RedisBuildError> {
        let is_cluster = bond.endpoint.is_cluster();
        let firsts =
            (0..SLOTS).step_by(SLOTS_OF_A_LINK.into()).filter(|slot| is_cluster || *slot == 0);
        let open = |slot| {
            let ask = probe(format!("{prefix}:probe"))?;
            let mut probe = Probe { ask, prefix: is_cluster.then(|| Arc::clone(prefix)) };
            probe.aim(slot);
            Ok(Arc::new(Link::open(bond.clone(), probe)))
        };
        let links = firsts.map(open).collect::<Result<Box<[_]>, RedisBuildError>>()?;
        let (limits, locals) = (Arc::default(), Locals::default());
        let links = Arc::new(Self { bond, name, limits, links, locals });
        let changed = Arc::clone(&links.bond.changed);
        links.spawn(watch(Arc::downgrade(&links), changed));
        Ok(links)
    }

    /// Includes a limit in the counts for the log.
    pub(crate) fn enrol(&self, on_error: OnError) -> Enrolled {
        self.limits[on_error as usize].fetch_add(1, Ordering::Relaxed); // Relaxed: as in `Enrolled::drop`
        Enrolled(Arc::clone(&self.limits), on_error)
    }

    pub(crate) fn without(&self) -> Without {
        // Relaxed: the log may count a limit that has just been dropped, or leave out a limit that has just been built.
        let count = |on_error: OnError| self.limits[on_error as usize].load(Ordering::Relaxed);
        let [local, allow, deny] = [OnError::Local, OnError::Allow, OnError::Deny].map(count);
        Without { local, allow, deny }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.links.len() > 1
    }

    /// The link for a slot. If the store is one server, all keys are in slot 0.
    pub(crate) fn of(&self, slot: u16) -> &Arc<Link> {
        &self.links[usize::from(slot / SLOTS_OF_A_LINK)]
    }

    pub(crate) fn due(&self) -> Instant {
        Instant::now() + self.bond.deadline
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.bond.deadline
    }

    pub(crate) fn counters(&self) -> &StoreCounters {
        &self.bond.counters
    }

    /// Runs a future in the background until it ends.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.bond.runtime.spawn(work);
    }

    pub(crate) fn are_up(&self) -> bool {
        self.links.iter().all(|link| link.health.is_up())
    }

    pub(crate) fn stats(&self) -> StoreStats {
        let now = Instant::now();
        let isolated = |link: &Arc<Link>| link.health.isolated(now) - Timestamp::default();
        let longest: Option<Duration> = self.links.iter().map(isolated).max();
        StoreStats::read(&self.bond.counters, !self.are_up(), longest.unwrap_or_default())
    }

    /// The figures from which log lines are made.
    pub(crate) fn reading(&self, now: Instant) -> StoreReading {
        let absences: Vec<_> = self.links.iter().map(|link| link.health.absence()).collect();
        let stats = self.stats();
        let decisions = |of: fn(&StoreStats, Source) -> u64| {
            of(&stats, Source::Share) + of(&stats, Source::Rule)
        };
        let tally = OutageTally {
            // If a node fails, many links lose it. This counts as one loss, since the largest number among the links is
            // used.
            losses: absences.iter().map(|absence| absence.losses).max().unwrap_or_default(),
            away: stats.degraded_for,
            allowed: decisions(StoreStats::allowed),
            denied: decisions(StoreStats::denied),
            in_line: stats.missed_in_line,
            sent: stats.missed_sent,
        };
        let outage = self.outage(now);
        let error = match self.longest() {
            Some((_, error)) => error,
            None => absences.iter().find_map(|absence| absence.error.clone()),
        };
        StoreReading { is_up: outage.is_none(), error, tally }
    }

    /// The longest of the present outages.
    pub(crate) fn outage(&self, now: Instant) -> Option<Outage> {
        let (since, error) = self.longest()?;
        let (fault, said) = error.map(|error| (error.fault, error.said)).unzip();
        Some(Outage {
            store: self.name.clone(),
            lasts: now.saturating_duration_since(since),
            fault,
            said: said.flatten(),
        })
    }

    fn longest(&self) -> Option<(Instant, Option<StoreError>)> {
        let absences = self.links.iter().map(|link| link.health.absence());
        let lasting = absences.filter_map(|absence| Some((absence.since?, absence.error)));
        lasting.min_by_key(|(since, _)| *since)
    }
}

/// Makes the request of a probe, which charges a key of its own.
fn probe(key: String) -> Result<ScriptRequest, RedisBuildError> {
    let policy = PROBE.parse().map_err(|error: tollgate::PolicyError| {
        RedisBuildError::Address { reason: error.to_string() }
    })?;
    let part = ScriptPart::new(key.into_bytes(), ScriptPlan::new(policy)?, Units::exactly(1));
    Ok(ScriptRequest { verb: ScriptVerb::Check, parts: vec![part] })
}

/// Writes the log of outages as long as the store is in use.
async fn watch(links: Weak<LinkSet>, changed: Arc<Notify>) {
    let mut log = OutageLog::new(Instant::now());
    loop {
        _ = timeout(EVERY, changed.notified()).await;
        let Some(links) = links.upgrade() else { return };
        let now = Instant::now();
        while let Some(line) = log.look(links.reading(now), now) {
            let told = OutageText { line: &line, store: &links.name, without: links.without() };
            match line {
                OutageLine::Back(_) => tracing::info!("{told}"),
                OutageLine::Lost(_) | OutageLine::Late(_) => tracing::warn!("{told}"),
            }
        }
    }
}
