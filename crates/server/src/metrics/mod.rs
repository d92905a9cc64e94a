//! Metrics in Prometheus' text format. Labels come from rules alone: their number is known when rules are
//! loaded, whatever requests say.

mod envoyproxy;
mod histogram;
mod requests;
mod rules;

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tollgate_rules::RuleCache;

use crate::options::MetricsNames;

pub(crate) use requests::{Outcome, Protocol, Requests};

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) requests: Arc<Requests>,
}

impl Metrics {
    pub(crate) fn new(cache: Arc<RuleCache>, names: MetricsNames) -> Self {
        let mut registry = Registry::default();
        let requests = Arc::new(Requests::default());
        let own = registry.sub_registry_with_prefix("tollgate");
        own.register_collector(Box::new(OfRequests(Arc::clone(&requests))));
        own.register_collector(Box::new(rules::OfRules { cache: Arc::clone(&cache) }));
        if names == MetricsNames::Envoyproxy {
            let requests = Arc::clone(&requests);
            registry.register_collector(Box::new(envoyproxy::Theirs { cache, requests }));
        }
        Self { registry, requests }
    }

    /// Shows more than what belongs to any service.
    pub(crate) fn show(&mut self, collector: impl Collector + 'static) {
        self.registry.sub_registry_with_prefix("tollgate").register_collector(Box::new(collector));
    }

    pub(crate) fn text(&self) -> Result<String, fmt::Error> {
        let mut page = String::new();
        text::encode(&mut page, &self.registry)?;
        Ok(page)
    }
}

#[derive(Debug)]
struct OfRequests(Arc<Requests>);

impl Collector for OfRequests {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.0.encode(&mut encoder)
    }
}

/// One gauge without labels.
fn encode_gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: u64,
) -> Result<(), fmt::Error> {
    gauge(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

/// What is too large for a gauge stands at its end.
fn gauge(value: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}
