//! Counts and reports decisions about clients that have no cell because their rule's table is full. They are kept apart
//! from other decisions, because such a denial does not mean that the client has spent its limit.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::{Decision, DenialReason, Timestamp};

use crate::counts::counter::RuleTotal;
use crate::counts::rarely::Rarely;
use crate::language::on_full::OnFull;

/// The minimum time between two reports of a rule.
const SILENCE: Duration = Duration::from_secs(60);

/// How a request was decided if its client had no cell because the rule's table was full.
///
/// ```
/// use std::sync::Arc;
/// use tollgate_rules::{DecisionMaker, Descriptor, NoCell, Request, RuleCache, RuleText, RuleSettings};
/// let cache = Arc::new(RuleCache::new(RuleSettings::default()));
/// let text = "domain: shop\ndescriptors:\n  - {key: user, capacity: 1, on_full: allow, \
///             rate_limit: {unit: hour, requests_per_unit: 1}}\n";
/// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
/// let maker = DecisionMaker::new(cache)?;
/// let mut how = Vec::new();
/// for user in 0..1_000 {
///     let (user, name) = (format!("user {user}"), "user");
///     let entries = [(name, user.as_str())];
///     let descriptors = [Descriptor::new(&entries)];
///     let answer = maker.check(&Request::new("shop", &descriptors))?;
///     assert!(answer.is_allowed());
///     how.extend(answer.statuses()[0].no_cell);
/// }
/// assert!(how.contains(&NoCell::Spilled) && how.contains(&NoCell::Allowed));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NoCell {
    /// Decided by the table's spill, in which the client shares a count with others. The request was admitted or
    /// denied; if it was denied, the client may be within its limit nevertheless.
    Spilled,
    /// Denied, because there is no cell.
    Denied,
    /// Admitted, because there is no cell and the rule says [`OnFull::Allow`].
    Allowed,
}

impl NoCell {
    /// The word by which answers give this reason for a decision.
    ///
    /// ```
    /// assert_eq!(tollgate_rules::NoCell::Denied.reason(), "table_full_denied");
    /// ```
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Spilled => "table_full_spilled",
            Self::Denied => "table_full_denied",
            Self::Allowed => "table_full_allowed",
        }
    }

    pub(crate) fn of(decision: &Decision, on_full: OnFull) -> Option<Self> {
        let is_full = matches!(decision, Decision::Denied(denial) if denial.reason() == DenialReason::TableFull);
        match (decision.is_spilled() || is_full, on_full) {
            (false, _) => None,
            (true, OnFull::Allow) if !decision.is_allowed() => Some(Self::Allowed),
            (true, _) if is_full => Some(Self::Denied),
            (true, _) => Some(Self::Spilled),
        }
    }
}

/// A report that a rule's table is full, with the decisions about clients without a cell since the last report. There
/// is at most one report a minute for each rule.
///
/// ```
/// use std::sync::Arc;
/// use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleText, RuleSettings};
/// let cache = Arc::new(RuleCache::new(RuleSettings::default()));
/// let text = "domain: shop\ndescriptors:\n  - {key: user, capacity: 1, on_full: deny, \
///             rate_limit: {unit: hour, requests_per_unit: 1}}\n";
/// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
/// let maker = DecisionMaker::new(cache)?;
/// let mut reports = Vec::new();
/// for user in 0..1_000 {
///     let user = format!("user {user}");
///     let entries = [("user", user.as_str())];
///     let descriptors = [Descriptor::new(&entries)];
///     reports.extend_from_slice(maker.check(&Request::new("shop", &descriptors))?.reports());
/// }
/// assert_eq!(
///     reports.iter().map(ToString::to_string).collect::<Vec<_>>(),
///     ["shop.user: its table for 1 client is full; of the hits of clients without a cell 0 were decided in the \
///       spill, 1 denied and 0 admitted; raise its capacity"]
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullReport {
    pub(crate) domain: Box<str>,
    pub(crate) path: Box<str>,
    pub(crate) capacity: usize,
    /// The number of hits for each variant of [`NoCell`], in their order.
    pub(crate) hits: [u64; 3],
}

impl FullReport {
    /// The domain of the rule; empty for limits that come with requests.
    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The path of the rule, as in [`Rule::path`](crate::Rule::path); empty for limits that come with requests.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The hits since the last report that were decided as `how` says.
    #[must_use]
    pub fn hits(&self, how: NoCell) -> u64 {
        self.hits[how as usize]
    }
}

impl fmt::Display for FullReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, path, capacity, hits: [spilled, denied, allowed] } = self;
        let (domain, path) = (domain.escape_debug(), path.escape_debug());
        let clients = if *capacity == 1 { "client" } else { "clients" };
        // Every rule has a domain, so this report is about limits that come with requests.
        if self.domain.is_empty() {
            f.write_str("limits that come with requests")?;
        } else {
            write!(f, "{domain}.{path}")?;
        }
        write!(
            f,
            ": its table for {capacity} {clients} is full; of the hits of clients without a cell \
             {spilled} were decided in the spill, {denied} denied and {allowed} admitted; raise its capacity"
        )
    }
}

/// Counts of a rule's decisions about clients without a cell.
#[derive(Debug, Default)]
pub(crate) struct NoCellTally {
    hits: [RuleTotal; 3],
    /// The part of `hits` that reports so far have included.
    reported: [AtomicU64; 3],
    reports: Rarely,
}

impl NoCellTally {
    /// Counts the hits, and returns whether a report is due. If it returns `true`, no other thread gets `true` for a
    /// minute.
    pub(crate) fn count(&self, how: NoCell, hits: u64, now: Timestamp) -> bool {
        self.hits[how as usize].add(hits);
        // The report may lack hits that another thread has just counted; the next report includes them.
        self.reports.is_due(now, SILENCE)
    }

    pub(crate) fn read(&self, how: NoCell) -> u64 {
        self.hits[how as usize].get()
    }

    /// The counts since the previous call.
    pub(crate) fn since_report(&self) -> [u64; 3] {
        std::array::from_fn(|n| {
            let now = self.hits[n].get();
            // Relaxed: this word alone decides which of two concurrent reports includes a hit. `fetch_max` never lowers
            // it, so a report that has read a smaller count does not make the next report repeat hits.
            now.saturating_sub(self.reported[n].fetch_max(now, Ordering::Relaxed))
        })
    }
}

/// Counts requests that were refused because the table had no place for their [`Pace`](crate::Pace).
#[derive(Debug, Default)]
pub(crate) struct NoPlaceTally {
    requests: RuleTotal,
    /// The part of `requests` that reports so far have included.
    reported: AtomicU64,
    reports: Rarely,
}

impl NoPlaceTally {
    /// Counts a request. Returns the number since the previous report, if a report is due.
    pub(crate) fn count(&self, now: Timestamp) -> Option<u64> {
        self.requests.add(1);
        // Relaxed, for the reasons given in `NoCellTally::since_report`.
        self.reports.is_due(now, SILENCE).then(|| {
            let requests = self.requests.get();
            requests.saturating_sub(self.reported.fetch_max(requests, Ordering::Relaxed))
        })
    }

    pub(crate) fn read(&self) -> u64 {
        self.requests.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_due_at_once_and_then_a_minute_later_with_what_came_since() {
        let tally = NoCellTally::default();
        let count = |how, seconds| tally.count(how, 2, Timestamp::from_secs(seconds));
        assert!(count(NoCell::Spilled, 100));
        assert_eq!(tally.since_report(), [2, 0, 0]);
        assert!(!count(NoCell::Denied, 100) && !count(NoCell::Allowed, 159));
        assert!(count(NoCell::Denied, 160));
        assert_eq!(tally.since_report(), [0, 4, 2]);
        // The clock has gone back, so no report is due.
        assert!(!count(NoCell::Denied, 3));
        assert_eq!(
            [NoCell::Spilled, NoCell::Denied, NoCell::Allowed].map(|how| tally.read(how)),
            [2, 6, 2]
        );
    }
}
