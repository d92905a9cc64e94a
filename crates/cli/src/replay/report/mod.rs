//! What a replay found, in the shape in which it is reported.

mod page;
mod pictures;
mod table;

use std::time::Duration;
use std::{fmt, io};

use serde::Serialize;
use tollgate::Policy;

use super::decide::Outcome;
use super::gather::Keys;
use super::parse::{Tally, instant};
use super::suggest::Suggestion;
use super::timeline::Timeline;
use super::waits::Waits;

/// The whole report. Its fields are those of `--json`, in their order.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Lines that are not blank.
    lines: u64,
    /// Those that could not be used.
    bad_lines: u64,
    /// Only in a stream: lines that came too late to be put in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    late_lines: Option<u64>,
    /// The time of the oldest request.
    first: String,
    /// The time of the newest request.
    last: String,
    policies: Vec<PolicyReport>,
    /// Only if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestion: Option<Suggestion>,
}

/// What one policy did.
#[derive(Debug, Serialize)]
struct PolicyReport {
    policy: String,
    requests: u64,
    admitted: u64,
    refused: u64,
    keys: u64,
    keys_refused: u64,
    longest_wait_ms: u64,
    peak_admitted_per_second: u64,
    worst: Vec<WorstKey>,
    /// The wait in full, for the table.
    #[serde(skip)]
    longest_wait: Duration,
    /// For the pictures.
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
    /// The key as it was read, for the table.
    #[serde(skip)]
    raw: Box<[u8]>,
}

impl Report {
    /// Puts together what reading and deciding found.
    pub(crate) fn new(
        tallies: &[Tally],
        span: (u64, u64),
        late_lines: Option<u64>,
        policies: &[(Policy, Outcome)],
        keys: &Keys,
    ) -> Self {
        Self {
            lines: tallies.iter().map(Tally::counted).sum(),
            bad_lines: tallies.iter().map(|tally| tally.bad).sum(),
            late_lines,
            first: instant(span.0),
            last: instant(span.1),
            policies: policies
                .iter()
                .map(|(policy, outcome)| PolicyReport::new(*policy, outcome, keys))
                .collect(),
            suggestion: None,
        }
    }

    /// The same with limits that would have refused fewer keys than was allowed.
    pub(crate) fn suggesting(self, suggestion: Option<Suggestion>) -> Self {
        Self { suggestion, ..self }
    }

    /// The report as one line of JSON.
    pub(crate) fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// The report as a page that needs nothing else.
    pub(crate) fn to_html(&self) -> io::Result<String> {
        page::page(self)
    }

    /// The report as one picture.
    pub(crate) fn to_svg(&self) -> io::Result<String> {
        pictures::whole(self)
    }
}

impl PolicyReport {
    fn new(policy: Policy, outcome: &Outcome, keys: &Keys) -> Self {
        let worst = outcome.worst.iter().map(|worst| {
            let raw = keys[worst.key].clone();
            let key = String::from_utf8_lossy(&raw).into_owned();
            WorstKey { key, requests: worst.requests, refused: worst.refused, raw }
        });
        Self {
            policy: policy.to_string(),
            requests: outcome.admitted + outcome.refused,
            admitted: outcome.admitted,
            refused: outcome.refused,
            keys: outcome.keys,
            keys_refused: outcome.keys_refused,
            longest_wait_ms: millis_rounded_up(outcome.longest_wait),
            peak_admitted_per_second: outcome.peak_admitted_per_second,
            worst: worst.collect(),
            longest_wait: outcome.longest_wait,
            timeline: outcome.timeline.clone(),
            waits: outcome.waits,
        }
    }
}

/// As `Retry-After` is: waiting what is shown is enough.
fn millis_rounded_up(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        table::write(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_rounded_up_to_milliseconds() {
        for (nanos, millis) in [(0, 0), (1, 1), (1_000_000, 1), (1_000_001, 2)] {
            assert_eq!(millis_rounded_up(Duration::from_nanos(nanos)), millis);
        }
    }
}
