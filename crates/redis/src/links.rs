//! [`Links`]: the links of a store: one, or in a cluster one for each slot that its limits live in.
//!
//! Every key has the limit's name as its hash tag, so all keys of a name are in one slot, which one node
//! serves. A link for each name has that node's health and no other's: a node that is away takes no
//! limits with it but its own, and only for those the time in isolation passes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;
use tollgate::Timestamp;

use crate::counters::Stats;
use crate::error::BuildError;
use crate::link::{Bond, Link};
use crate::local::Locals;
use crate::plan::Plan;
use crate::script::{Ask, Part, Units, Verb};

/// Of the key that is charged to see whether the store works: often enough for any node.
const PROBE: &str = "gcra 1000000/s burst 1000000";

#[derive(Debug)]
pub(crate) struct Links {
    bond: Bond,
    prefix: Arc<str>,
    /// Of one server.
    one: Option<Arc<Link>>,
    /// Of a cluster, by name, as long as some limiter has it.
    of_names: Mutex<HashMap<String, Weak<Link>>>,
    pub(crate) locals: Locals,
}

impl Links {
    pub(crate) fn open(bond: Bond, prefix: Arc<str>) -> Result<Self, BuildError> {
        let one = if bond.place.is_cluster() {
            None
        } else {
            let probe = probe(format!("{prefix}:probe"))?;
            Some(Arc::new(Link::open(bond.clone(), "", probe)))
        };
        let (of_names, locals) = (Mutex::default(), Locals::default());
        Ok(Self { bond, prefix, one, of_names, locals })
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

    /// Does something in the background, for as long as it takes.
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

    fn all(&self) -> Vec<Arc<Link>> {
        let of_names = self.names().values().filter_map(Weak::upgrade).collect::<Vec<_>>();
        self.one.iter().cloned().chain(of_names).collect()
    }

    /// Held for a lookup, when a limiter is built and when somebody looks at the store.
    fn names(&self) -> MutexGuard<'_, HashMap<String, Weak<Link>>> {
        self.of_names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A charge that nobody asked for.
fn probe(key: String) -> Result<Ask, BuildError> {
    let policy = PROBE.parse().map_err(|error: tollgate::PolicyError| BuildError::Address {
        reason: error.to_string(),
    })?;
    let part = Part::new(key.into_bytes(), Plan::new(policy)?, Units::exactly(1));
    Ok(Ask { verb: Verb::Check, parts: vec![part] })
}
