//! The lanes as one line of JSON.

use std::time::Duration;

use serde::Serialize;

use super::lane::{SimulatedLane, period_ns};
use crate::delays::DelaySummary;
use crate::traffic::Traffic;

/// The report. Spans and times are in nanoseconds, and exact.
#[derive(Debug, Serialize)]
struct SimulatedReport<'r> {
    traffic: &'r str,
    requests: usize,
    first_ns: u64,
    last_ns: u64,
    policies: Vec<LaneReport>,
}

#[derive(Debug, Serialize)]
struct LaneReport {
    policy: String,
    admitted: u64,
    refused: u64,
    longest_wait_ns: u64,
    longest_pause_ns: u64,
    /// One entry for each limit of the policy.
    limits: Vec<LaneLimit>,
    /// Set only for a policy with a queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    delays: Option<DelaySummary>,
}

#[derive(Debug, Serialize)]
struct LaneLimit {
    policy: String,
    period_ns: u64,
    max_in_period: u64,
}

/// Returns the report as one line.
pub(super) fn of(traffic: &Traffic, lanes: &[SimulatedLane]) -> serde_json::Result<String> {
    serde_json::to_string(&SimulatedReport {
        traffic: &traffic.name,
        requests: traffic.times.len(),
        first_ns: traffic.times.first().copied().unwrap_or(0),
        last_ns: traffic.times.last().copied().unwrap_or(0),
        policies: lanes.iter().map(lane).collect(),
    })
}

fn lane(lane: &SimulatedLane) -> LaneReport {
    let limits = lane.policy.all().zip(&lane.max_in_period);
    let limits = limits.map(|(one, units)| LaneLimit {
        policy: one.to_string(),
        period_ns: period_ns(one.policy),
        max_in_period: *units,
    });
    LaneReport {
        policy: lane.policy.to_string(),
        admitted: lane.admitted_count,
        refused: lane.refused_count,
        longest_wait_ns: nanos(lane.longest_wait),
        longest_pause_ns: nanos(lane.longest_pause),
        limits: limits.collect(),
        delays: lane.delays,
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
