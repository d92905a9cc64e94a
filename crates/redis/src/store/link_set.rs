//! [`LinkSet`]: the links of a store: one, or in a cluster one for each slot that its limits live in.
//!
//! Every key has the limit's name as its hash tag, so all keys of a name are in one slot, which one node serves. A
//! link for each name reflects the health of that node alone: a node that is away affects only its own limits, and
//! only for those the time in isolation passes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tollgate::Timestamp;

use crate::decision::Source;
use crate::error::BuildError;
use crate::local::Locals;
use crate::script::plan::ScriptPlan;
use crate::script::{ScriptPart, ScriptRequest, ScriptVerb, Units};
use crate::settings::OnError;
use crate::store::link::{Bond, Link};
use crate::store::outage::{
    Outage, OutageLine, OutageLog, OutageTally, OutageText, StoreReading, Without,
};
use crate::store::stats::Stats;

/// The policy of the key that is charged to see whether the store works: it admits the probes of any number of nodes.
const PROBE: &str = "gcra 1000000/s burst 1000000";

/// How often the state is read, besides whenever the store is lost or back.
const EVERY: Duration = Duration::from_secs(1);

/// Counts a limit that decides in some way while the store is away, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Enrolled(Arc<[AtomicUsize; 3]>, OnError);

impl Drop for Enrolled {
    fn drop(&mut self) {
        // Relaxed: a count for operators, which stands by itself.
        self.0[self.1 as usize].fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub(crate) struct LinkSet {
    bond: Bond,
    /// Its address, without user, password and options.
    pub(crate) name: Box<str>,
    /// Limits by [`OnError`], for the log.
    limits: Arc<[AtomicUsize; 3]>,
    prefix: Arc<str>,
    /// The link to a single server.
    one: Option<Arc<Link>>,
    /// The links to a cluster, by name, as long as a limiter uses them.
    of_names: Mutex<HashMap<String, Weak<Link>>>,
    pub(crate) locals: Locals,
}

impl LinkSet {
    pub(crate) fn open(
        bond: Bond,
        name: Box<str>,
        prefix: Arc<str>,
    ) -> Result<Arc<Self>, BuildError> {
        let one = if bond.endpoint.is_cluster() {
            None
        } else {
            let probe = probe(format!("{prefix}:probe"))?;
            Some(Arc::new(Link::open(bond.clone(), "", probe)))
        };
        let (limits, of_names, locals) = (Arc::default(), Mutex::default(), Locals::default());
        let links = Arc::new(Self { bond, name, limits, prefix, one, of_names, locals });
        let changed = Arc::clone(&links.bond.changed);
        links.spawn(watch(Arc::downgrade(&links), changed));
        Ok(links)
    }

    /// Counts a limit, for the log.
    pub(crate) fn enrol(&self, on_error: OnError) -> Enrolled {
        self.limits[on_error as usize].fetch_add(1, Ordering::Relaxed); // Relaxed: as in `Enrolled::drop`
        Enrolled(Arc::clone(&self.limits), on_error)
    }

    pub(crate) fn without(&self) -> Without {
        // Relaxed: the log may tell of a limit that has just gone, or leave out one that has just come.
        let count = |on_error: OnError| self.limits[on_error as usize].load(Ordering::Relaxed);
        let [local, allow, deny] = [OnError::Local, OnError::Allow, OnError::Deny].map(count);
        Without { local, allow, deny }
    }

    /// The link that limits of a name ask.
    pub(crate) fn of(&self, name: &str) -> Result<Arc<Link>, BuildError> {
        if let Some(one) = &self.one {
            return Ok(Arc::clone(one));
        }
        let mut names = self.names();
        if let Some(link) = names.get(name).and_then(Weak::upgrade) {
            return Ok(link);
        }
        let probe = probe(format!("{}:{{{name}}}:probe", self.prefix))?;
        let link = Arc::new(Link::open(self.bond.clone(), name, probe));
        names.retain(|_, link| link.strong_count() > 0);
        names.insert(name.to_string(), Arc::downgrade(&link));
        Ok(link)
    }

    /// Runs something in the background until it ends.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.bond.runtime.spawn(work);
    }

    pub(crate) fn are_up(&self) -> bool {
        self.all().iter().all(|link| link.health.is_up())
    }

    pub(crate) fn stats(&self) -> Stats {
        let now = Instant::now();
        let isolated = |link: &Arc<Link>| link.health.isolated(now) - Timestamp::default();
        let longest: Option<Duration> = self.all().iter().map(isolated).max();
        Stats::read(&self.bond.counters, !self.are_up(), longest.unwrap_or_default())
    }

    /// The figures that the log is written from.
    pub(crate) fn reading(&self, now: Instant) -> StoreReading {
        let absences: Vec<_> = self.all().iter().map(|link| link.health.absence()).collect();
        let stats = self.stats();
        let decisions =
            |of: fn(&Stats, Source) -> u64| of(&stats, Source::Share) + of(&stats, Source::Rule);
        let tally = OutageTally {
            losses: absences.iter().map(|absence| absence.losses).sum(),
            away: stats.degraded_for,
            allowed: decisions(Stats::allowed),
            denied: decisions(Stats::denied),
            in_line: stats.missed_in_line,
            sent: stats.missed_sent,
        };
        let outage = self.outage(now);
        let fault = absences.iter().find_map(|absence| absence.fault);
        let fault = outage.as_ref().map_or(fault, |outage| outage.fault);
        StoreReading { is_up: outage.is_none(), fault, tally }
    }

    /// The longest of the outages that last.
    pub(crate) fn outage(&self, now: Instant) -> Option<Outage> {
        let absences = self.all().into_iter().map(|link| link.health.absence());
        let lasting = absences.filter_map(|absence| Some((absence.since?, absence.fault)));
        let (since, fault) = lasting.min_by_key(|(since, _)| *since)?;
        Some(Outage {
            store: self.name.clone(),
            lasts: now.saturating_duration_since(since),
            fault,
        })
    }

    fn all(&self) -> Vec<Arc<Link>> {
        let of_names = self.names().values().filter_map(Weak::upgrade).collect::<Vec<_>>();
        self.one.iter().cloned().chain(of_names).collect()
    }

    /// Held for a lookup, when a limiter is built and when the state of the store is read.
    fn names(&self) -> MutexGuard<'_, HashMap<String, Weak<Link>>> {
        self.of_names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A charge that serves no request.
fn probe(key: String) -> Result<ScriptRequest, BuildError> {
    let policy = PROBE.parse().map_err(|error: tollgate::PolicyError| BuildError::Address {
        reason: error.to_string(),
    })?;
    let part = ScriptPart::new(key.into_bytes(), ScriptPlan::new(policy)?, Units::exactly(1));
    Ok(ScriptRequest { verb: ScriptVerb::Check, parts: vec![part] })
}

/// Writes lines as long as the store is in use.
async fn watch(links: Weak<LinkSet>, changed: Arc<Notify>) {
    let mut log = OutageLog::new(Instant::now());
    loop {
        _ = timeout(EVERY, changed.notified()).await;
        let Some(links) = links.upgrade() else { return };
        let now = Instant::now();
        while let Some(line) = log.look(links.reading(now), now) {
            let told = OutageText { line, store: &links.name, without: links.without() };
            match line {
                OutageLine::Back(_) => tracing::info!("{told}"),
                OutageLine::Lost(_) | OutageLine::Late(_) => tracing::warn!("{told}"),
            }
        }
    }
}
