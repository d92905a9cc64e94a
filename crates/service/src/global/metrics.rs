//! The store's counters as metrics. Their labels contain no key and no rule.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tollgate_redis::{Fault, Source, Store, StoreStats};

/// Reads the store's counters when metrics are collected.
#[derive(Debug)]
pub(crate) struct OfStore {
    pub(crate) store: Store,
}

type Figure = fn(&StoreStats) -> u64;
type StoreCounter = (&'static str, &'static str, Figure);

const COUNTERS: [StoreCounter; 9] = [
    ("store_calls", "Calls of the script", |stats| stats.calls),
    ("store_connections", "Connections that were made and work", |stats| stats.connections),
    ("store_reloads", "Calls that brought the script along", |stats| stats.reloads),
    ("store_broken", "States that could not be read", |stats| stats.broken),
    ("store_leases", "Leases that were taken", |stats| stats.leases),
    ("store_leased_units", "Units in leases", |stats| stats.leased),
    ("store_expired_units", "Units of leases that expired unspent", |stats| stats.expired),
    ("store_evicted_keys", "Keys that the server evicted for want of memory", |stats| {
        stats.evicted
    }),
    ("store_clock_set_back", "How often the server's clock was found set back", |stats| {
        stats.set_back
    }),
];

const MISSED: [(&str, Figure); 3] = [
    ("in_line", |stats| stats.missed_in_line),
    ("sent", |stats| stats.missed_sent),
    ("connecting", |stats| stats.missed_connecting),
];

const SOURCES: [(Source, &str); 5] = [
    (Source::Store, "store"),
    (Source::Lease, "lease"),
    (Source::Count, "count"),
    (Source::Share, "share"),
    (Source::Rule, "rule"),
];

impl Collector for OfStore {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let stats = self.store.stats();
        let help = "1 while decisions are made without the store";
        let degraded = ConstGauge::new(i64::from(stats.degraded));
        let kind = degraded.metric_type();
        degraded.encode(encoder.encode_descriptor("store_degraded", help, None, kind)?)?;
        let help = "Time without the store";
        let seconds = ConstCounter::new(stats.degraded_for.as_secs_f64());
        let kind = seconds.metric_type();
        seconds.encode(encoder.encode_descriptor("store_degraded_seconds", help, None, kind)?)?;
        for (name, help, read) in COUNTERS {
            let counter = ConstCounter::new(read(&stats));
            let kind = counter.metric_type();
            counter.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        let help = "Requests by who decided them: the store, a lease, this node's count, and \
                    without the store the share of this node or its rule";
        let mut metric =
            encoder.encode_descriptor("store_decisions", help, None, MetricType::Counter)?;
        for (source, by) in SOURCES {
            for (count, outcome) in
                [(stats.allowed(source), "allowed"), (stats.denied(source), "denied")]
            {
                let labels = [("by", by), ("outcome", outcome)];
                ConstCounter::new(count).encode(metric.encode_family(&labels)?)?;
            }
        }
        let help = "Requests that the store did not decide, and attempts to connect that failed";
        let mut metric =
            encoder.encode_descriptor("store_faults", help, None, MetricType::Counter)?;
        for fault in Fault::ALL {
            let kind = name(fault);
            let labels = [("kind", kind.as_str())];
            ConstCounter::new(stats.faults(fault)).encode(metric.encode_family(&labels)?)?;
        }
        let help = "Deadlines that passed before the request was sent, while its reply was waited for, and \
                    while a connection was tried for";
        let mut metric =
            encoder.encode_descriptor("store_missed_deadlines", help, None, MetricType::Counter)?;
        for (phase, read) in MISSED {
            ConstCounter::new(read(&stats)).encode(metric.encode_family(&[("phase", phase)])?)?;
        }
        Ok(())
    }
}

/// The label of a fault: `out_of_memory` for `OutOfMemory`.
fn name(fault: Fault) -> String {
    let mut name = String::new();
    for letter in format!("{fault:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_names_as_metrics_have() {
        assert_eq!(name(Fault::OutOfMemory), "out_of_memory");
        assert_eq!(name(Fault::Busy), "busy");
    }
}
