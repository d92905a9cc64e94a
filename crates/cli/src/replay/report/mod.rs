//! The results of a replay, in the structure in which they are reported.

mod page;
mod pictures;
mod table;

use std::time::Duration;

use serde::Serialize;

use super::decide::{NamedOutcome, PolicyOutcome};
use super::gather::Keys;
use super::suggest::Suggestion;
use super::summary::LogSummary;
use super::timeline::Timeline;
use super::waits::Waits;
use crate::delays::DelaySummary;
use crate::tables::grouped;

/// The whole report. Its fields are those of `--json`, in their order.
#[derive(Debug, Serialize)]
pub(crate) struct ReplayReport {
    #[serde(flatten)]
    log: LogSummary,
    /// Set only for rules.
    #[serde(flatten)]
    about: Option<RulesAbout>,
    #[serde(flatten)]
    rows: ReportRows,
    /// Set only with `--suggest`.
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestion: Option<Suggestion>,
}

/// The subject of the report's rows.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum ReportRows {
    Policies(Vec<PolicyReport>),
    Rules(Vec<PolicyReport>),
}

/// The results of the rules as a whole.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RulesAbout {
    /// The domain whose rules were applied.
    pub(crate) domain: String,
    /// Lines that give no descriptor.
    pub(crate) unasked: u64,
    /// Requests whose descriptors no rule matches.
    pub(crate) unmatched: u64,
    /// Requests of clients that found no cell in a full table.
    pub(crate) crowded_out: u64,
}

/// The name of a row.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum RowName {
    Policy(String),
    Rule(String),
}

/// The results of one policy, or of one rule.
#[derive(Debug, Serialize)]
struct PolicyReport {
    #[serde(flatten)]
    name: RowName,
    requests: u64,
    admitted: u64,
    refused: u64,
    keys: u64,
    keys_refused: u64,
    longest_wait_ms: u64,
    peak_admitted_per_second: u64,
    /// Set only for a policy with a queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    delays: Option<DelaySummary>,
    worst: Vec<WorstKey>,
    /// The exact wait, for the table.
    #[serde(skip)]
    longest_wait: Duration,
    /// The counts over time, for the pictures.
    #[serde(skip)]
    timeline: Timeline,
    #[serde(skip)]
    waits: Waits,
}

/// One of the most refused keys.
#[derive(Debug, Serialize)]
struct WorstKey {
    key: String,
    requests: u64,
    refused: u64,
    /// The bytes of the key, which need not be UTF-8, for the table, the page and the pictures. `key` is their lossy
    /// text, for JSON.
    #[serde(skip)]
    raw: Box<[u8]>,
}

impl ReplayReport {
    /// Returns the report of a replay by policies.
    pub(crate) fn new(log: LogSummary, policies: &[NamedOutcome], keys: &Keys) -> Self {
        let row = |NamedOutcome { name, outcome }: &NamedOutcome| {
            PolicyReport::new(RowName::Policy(name.clone()), outcome, keys)
        };
        let rows = ReportRows::Policies(policies.iter().map(row).collect());
        Self { log, about: None, rows, suggestion: None }
    }

    /// Returns the report of a replay by rules.
    pub(crate) fn of_rules(
        log: LogSummary,
        about: RulesAbout,
        rules: &[NamedOutcome],
        keys: &Keys,
    ) -> Self {
        let row = |NamedOutcome { name, outcome }: &NamedOutcome| {
            PolicyReport::new(RowName::Rule(name.clone()), outcome, keys)
        };
        let rows = ReportRows::Rules(rules.iter().map(row).collect());
        Self { log, about: Some(about), rows, suggestion: None }
    }

    fn rows(&self) -> &[PolicyReport] {
        match &self.rows {
            ReportRows::Policies(rows) | ReportRows::Rules(rows) => rows,
        }
    }

    /// Returns the word for a row.
    fn noun(&self) -> &'static str {
        match self.rows {
            ReportRows::Policies(_) => "policy",
            ReportRows::Rules(_) => "rule",
        }
    }

    /// Adds the limits that `--suggest` has found.
    pub(crate) fn suggesting(self, suggestion: Option<Suggestion>) -> Self {
        Self { suggestion, ..self }
    }

    /// Returns the report as one line of JSON.
    pub(crate) fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}

impl PolicyReport {
    fn new(name: RowName, outcome: &PolicyOutcome, keys: &Keys) -> Self {
        let worst = outcome.worst.iter().map(|worst| {
            let raw = keys[worst.key].clone();
            let key = String::from_utf8_lossy(&raw).into_owned();
            WorstKey { key, requests: worst.requests, refused: worst.refused, raw }
        });
        Self {
            name,
            requests: outcome.admitted + outcome.refused,
            admitted: outcome.admitted,
            refused: outcome.refused,
            keys: outcome.keys,
            keys_refused: outcome.keys_refused,
            longest_wait_ms: millis_rounded_up(outcome.longest_wait),
            peak_admitted_per_second: outcome.peak_admitted_per_second,
            delays: outcome.delays.summary(),
            worst: worst.collect(),
            longest_wait: outcome.longest_wait,
            timeline: outcome.timeline.clone(),
            waits: outcome.waits,
        }
    }

    fn name(&self) -> &str {
        match &self.name {
            RowName::Policy(name) | RowName::Rule(name) => name,
        }
    }
}

impl RulesAbout {
    /// Says in words how the log and the rules match.
    fn in_words(&self) -> String {
        let mut words = format!(
            "domain {}: {} requests that no rule speaks of, {} lines without a descriptor",
            self.domain.escape_debug(),
            grouped(self.unmatched),
            grouped(self.unasked)
        );
        if self.crowded_out > 0 {
            words += &format!(
                ", {} requests of clients that found a table full (see --capacity)",
                grouped(self.crowded_out)
            );
        }
        words
    }
}

/// Returns a wait in milliseconds. It is rounded up like `Retry-After`, so that waiting for the stated time is enough.
fn millis_rounded_up(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
