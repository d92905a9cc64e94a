//! The counts of quotas, and their metrics.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// The totals of all quotas since the start, and their present numbers.
#[derive(Debug, Default)]
pub(crate) struct QuotaCounts {
    pub(super) streams: QuotaCount,
    pub(super) buckets: QuotaCount,
    pub(super) bytes: QuotaCount,
    pub(super) allowed: QuotaCount,
    pub(super) denied: QuotaCount,
    pub(super) assigned: QuotaCount,
    pub(super) abandoned: QuotaCount,
    pub(super) refused: QuotaCount,
}

#[derive(Debug, Default)]
pub(super) struct QuotaCount(AtomicU64);

impl QuotaCount {
    pub(super) fn add(&self, by: u64) {
        // Relaxed, like all accesses here: each number stands by itself, and no memory is published with it.
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    pub(super) fn set(&self, to: usize) {
        // Relaxed, for the reason in `add`.
        self.0.store(to as u64, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        // Relaxed, for the reason in `add`.
        self.0.load(Ordering::Relaxed)
    }
}

/// Reads the counts when metrics are collected.
#[derive(Debug)]
pub(crate) struct OfQuotas(pub(crate) Arc<QuotaCounts>);

impl Collector for OfQuotas {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = &self.0;
        for (name, help, count) in [
            ("quota_streams", "Streams of Envoys that are assigned quotas", &counts.streams),
            ("quota_buckets", "Buckets of all streams that share limits", &counts.buckets),
            ("quota_bytes", "Bytes that quotas take, in round numbers", &counts.bytes),
        ] {
            let gauge = ConstGauge::new(i64::try_from(count.get()).unwrap_or(i64::MAX));
            let kind = gauge.metric_type();
            gauge.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        for (name, help, count) in [
            (
                "quota_reported_allowed",
                "Requests that Envoys reported as admitted",
                &counts.allowed,
            ),
            ("quota_reported_denied", "Requests that Envoys reported as denied", &counts.denied),
            ("quota_assignments", "Assignments that were sent", &counts.assigned),
            (
                "quota_abandoned",
                "Buckets that were abandoned since they fell silent",
                &counts.abandoned,
            ),
            (
                "quota_refused",
                "Reports of buckets that are no text, or for which there was no memory",
                &counts.refused,
            ),
        ] {
            let counter = ConstCounter::new(count.get());
            let kind = counter.metric_type();
            counter.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        Ok(())
    }
}
