//! Lingering tables: the counts of a limit that is gone are kept for a while, in case the limit comes back.
//!
//! A file that is written in two steps, or removed and written anew, removes its rules for a moment. A client that had
//! spent a limit must find it spent when the rule is back. So a table that no rule in force uses any more is kept under
//! the identity of its rule. It is kept for [`RuleSettings::linger_rules`] after the load that removed the rule, by the
//! cache's clock. Nothing is copied: a request that still decides by the previous rules charges the table that lingers
//! here.
//!
//! # Memory
//! Lingering tables and tables in force together take at most [`RuleSettings::max_table_bytes`]. Tables in force have
//! priority: if there is no room, the table that has lingered longest is dropped, and the load reports it
//! ([`RuleSet::forgotten`]). The bytes of the entry that holds a lingering table are included, so that many small
//! tables are bounded as well as few large ones.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ahash::RandomState;
use tollgate::Timestamp;

use crate::language::rule_id::{PathStep, RuleId};
use crate::set::carry::{CarriedTable, LimitChange};
use crate::set::rule::{RuleLimit, RuleTable};
use crate::set::rule_set::RuleSet;
use crate::set::settings::RuleSettings;

/// The minimum time that a table lingers by default. It is longer than a deployment takes.
const USUAL: Duration = Duration::from_secs(600);

/// The lingering tables, by the rules that had them.
#[derive(Debug, Default)]
pub(crate) struct Lingering {
    waiting: HashMap<RuleId, Vec<LingeringTable>, RandomState>,
    tables: usize,
    bytes: u64,
    /// The number that the next table gets. The table with the lowest number has lingered longest.
    next: u64,
}

/// One lingering table.
struct LingeringTable {
    path: Box<str>,
    kept: CarriedTable,
    /// The object that keeps the limit elsewhere. It must live as long as this entry.
    object: Option<KeptElsewhere>,
    bytes: u64,
    until: Timestamp,
    number: u64,
}

impl fmt::Debug for LingeringTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LingeringTable")
            .field("kept", &self.kept)
            .field("is_kept_elsewhere", &self.object.is_some())
            .finish_non_exhaustive()
    }
}

impl Lingering {
    pub(crate) fn tables(&self) -> usize {
        self.tables
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The lingering table of this rule that fits. If several tables fit, it is the one that was added last.
    pub(crate) fn find(
        &self,
        id: &RuleId,
        fits: impl Fn(&CarriedTable) -> bool,
    ) -> Option<&CarriedTable> {
        let waiting = self.waiting.get(id)?.iter().rev();
        waiting.map(|one| &one.kept).find(|kept| fits(kept))
    }

    /// Drops the tables whose time is over.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        self.retain(|one| one.until > now);
    }

    /// Updates the lingering tables when the rules of `before` are replaced with those of `after`: adds the tables that
    /// `after` does not use, and removes the tables that it uses again. Returns the limits that had to be forgotten
    /// because memory was short.
    pub(crate) fn turn(
        &mut self,
        before: Option<&RuleSet>,
        after: &RuleSet,
        now: Timestamp,
        settings: &RuleSettings,
    ) -> Vec<LimitChange> {
        let in_use: HashSet<*const RuleTable> =
            after.tables.values().flatten().map(address).collect();
        self.retain(|one| !in_use.contains(&address(&one.kept)));
        if let Some(before) = before {
            let attached = attached(before);
            for (id, tables) in &before.tables {
                for kept in tables.iter().filter(|kept| !in_use.contains(&address(kept))) {
                    let object = attached.get(&address(kept)).copied().cloned();
                    self.add(id, kept, object, now, settings);
                }
            }
        }
        self.make_room(settings.max_table_bytes.saturating_sub(after.table_bytes))
    }

    fn add(
        &mut self,
        id: &RuleId,
        kept: &CarriedTable,
        object: Option<KeptElsewhere>,
        now: Timestamp,
        settings: &RuleSettings,
    ) {
        let period = kept.policy.quota().period();
        let linger = settings.linger_rules.unwrap_or_else(|| period.max(USUAL));
        if linger.is_zero() {
            return;
        }
        let path = id.path();
        let more = (kept.capacity as u64).saturating_mul(settings.more_bytes_per_client);
        let bytes = kept.bytes.saturating_add(more).saturating_add(bytes_of_entry(id, &path));
        let (path, until) = (path.into(), now + linger);
        let one =
            LingeringTable { path, kept: kept.clone(), object, bytes, until, number: self.next };
        self.waiting.entry(id.clone()).or_default().push(one);
        self.next += 1;
        self.tables += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Forgets the tables that have lingered longest, until the rest takes at most `most` bytes.
    fn make_room(&mut self, most: u64) -> Vec<LimitChange> {
        if self.bytes <= most {
            return Vec::new();
        }
        let mut order: Vec<(u64, u64)> =
            self.waiting.values().flatten().map(|one| (one.number, one.bytes)).collect();
        order.sort_unstable();
        let mut left = self.bytes;
        let too_many = order.iter().take_while(|(_, bytes)| {
            let is_over = left > most;
            left = left.saturating_sub(*bytes);
            is_over
        });
        let last = too_many.last().map_or(0, |(number, _)| *number);
        let mut forgotten = Vec::new();
        for (id, one) in
            self.waiting.iter().flat_map(|(id, all)| all.iter().map(move |one| (id, one)))
        {
            if one.number <= last {
                let (domain, path) = (id.domain.clone(), one.path.clone());
                let forgotten_one = LimitChange::of_forgotten(domain, path, one.kept.policy);
                forgotten.push((one.number, forgotten_one));
            }
        }
        self.retain(|one| one.number > last);
        forgotten.sort_unstable_by_key(|(number, _)| *number);
        forgotten.into_iter().map(|(_, one)| one).collect()
    }

    fn retain(&mut self, stays: impl Fn(&LingeringTable) -> bool) {
        let (mut tables, mut bytes) = (0, 0_u64);
        self.waiting.retain(|_, all| {
            all.retain(&stays);
            tables += all.len();
            bytes = all.iter().fold(bytes, |sum, one| sum.saturating_add(one.bytes));
            !all.is_empty()
        });
        (self.tables, self.bytes) = (tables, bytes);
    }
}

/// The object that keeps a limit elsewhere.
type KeptElsewhere = Arc<dyn Any + Send + Sync>;

/// The objects that keep limits elsewhere, by the limits' tables.
fn attached(rules: &RuleSet) -> HashMap<*const RuleTable, &KeptElsewhere, RandomState> {
    let limits = rules.rules.iter().flat_map(|rule| &rule.limits);
    let of_limit = limits.filter_map(|RuleLimit { gate, attached, .. }| {
        Some((Arc::as_ptr(&gate.as_ref()?.table), attached.any()?))
    });
    of_limit.collect()
}

/// The address of a table, which identifies it: two live tables have different addresses.
fn address(kept: &CarriedTable) -> *const RuleTable {
    Arc::as_ptr(&kept.table)
}

/// The bytes that a lingering table takes besides its cells: those of its structure and of its entry.
fn bytes_of_entry(id: &RuleId, path: &str) -> u64 {
    let steps = id.steps.iter().map(|step| step.heap_bytes() + size_of::<PathStep>());
    let texts = id.domain.len() + path.len() + steps.sum::<usize>();
    (texts + size_of::<RuleTable>() + size_of::<LingeringTable>() + size_of::<RuleId>()) as u64
}
