//! The times of decisions. The library's histogram takes a lock for each observation, but a request must not wait. So
//! the counts are kept here, each in an atomic.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::{MetricEncoder, NoLabelSet};

use super::counter::ServiceTotal;

/// The upper bounds, in nanoseconds. They suit decisions, which take about a microsecond, and Envoy, which gives up
/// after 20 ms.
const BOUNDS_NS: [u64; 11] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    1_000_000,
    5_000_000,
    20_000_000,
    100_000_000,
];

#[derive(Debug, Default)]
pub(crate) struct Histogram {
    sum_ns: ServiceTotal,
    /// A count for each bound, and one for times above all bounds.
    counts: [ServiceTotal; BOUNDS_NS.len() + 1],
}

impl Histogram {
    /// Counts `times` decisions that took this long each.
    pub(crate) fn observe(&self, took: Duration, times: u64) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_NS.partition_point(|bound_ns| *bound_ns < took_ns);
        self.counts[bucket].add(times);
        self.sum_ns.add(took_ns.saturating_mul(times));
    }

    /// The counts, each with its upper bound in nanoseconds; the last count has no bound.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let bounds = BOUNDS_NS.into_iter().map(Some).chain([None]);
        bounds.zip(self.counts.iter().map(ServiceTotal::get))
    }

    pub(crate) fn encode(&self, mut metric: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let bounds = BOUNDS_NS.iter().map(|bound_ns| seconds(*bound_ns)).chain([f64::INFINITY]);
        let counts = self.counts.iter().map(ServiceTotal::get);
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = seconds(self.sum_ns.get());
        metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a statistic")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
