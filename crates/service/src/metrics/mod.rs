//! Metrics in Prometheus' text format. Labels come only from rules, so that their number is known when rules are
//! loaded, whatever requests contain. A rule may ask for labels with values of requests; the number of such labels has
//! a maximum.

mod classic;
mod clients;
mod counter;
mod envoyproxy;
mod gauge;
mod histogram;
mod requests;
mod rules;
mod series;

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::MetricFamily;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_protobuf, text};
use prometheus_client::registry::Registry;
use tollgate_rules::RuleCache;

use crate::metrics_names::MetricsNames;

pub(crate) use clients::{MAX_RESP_CONNECTIONS, OfRespClients, RespClients};
pub(crate) use counter::{ServiceTotal, encode_total};
pub(crate) use envoyproxy::RESPONSE_TIMES;
pub(crate) use gauge::encode_gauge;
pub(crate) use requests::{OUTCOMES_COUNT, Protocol, RequestOutcome, Requests};

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    /// Further metrics for StatsD alone.
    of_statsd: Registry,
    pub(crate) requests: Arc<Requests>,
}

impl Metrics {
    pub(crate) fn new(cache: Arc<RuleCache>, names: MetricsNames) -> Self {
        let mut registry = Registry::default();
        let requests = Arc::new(Requests::default());
        let own = registry.sub_registry_with_prefix("tollgate");
        own.register_collector(Box::new(OfRequests(Arc::clone(&requests))));
        own.register_collector(Box::new(rules::OfRules { cache: Arc::clone(&cache) }));
        own.register_collector(Box::new(series::OfSeries { cache: Arc::clone(&cache) }));
        let mut of_statsd = Registry::default();
        if names == MetricsNames::Envoyproxy {
            let requests_too = Arc::clone(&requests);
            let paths =
                envoyproxy::TheirPaths { cache: Arc::clone(&cache), requests: requests_too };
            of_statsd.register_collector(Box::new(paths));
            let requests = Arc::clone(&requests);
            registry.register_collector(Box::new(envoyproxy::Theirs { cache, requests }));
        }
        Self { registry, of_statsd, requests }
    }

    /// Adds a collector to those that every service has.
    pub(crate) fn show(&mut self, collector: impl Collector + 'static) {
        self.registry.sub_registry_with_prefix("tollgate").register_collector(Box::new(collector));
    }

    /// The page in OpenMetrics, or in the older format that every reader knows.
    pub(crate) fn text(&self, is_open_metrics: bool) -> Result<String, fmt::Error> {
        let mut page = String::new();
        text::encode(&mut page, &self.registry)?;
        Ok(if is_open_metrics { page } else { classic::classic(&page) })
    }

    /// All metrics for StatsD: the metrics of the page, and those that are sent to StatsD alone.
    pub(crate) fn for_statsd(&self) -> Result<Vec<MetricFamily>, fmt::Error> {
        let mut families = prometheus_protobuf::encode(&self.registry)?;
        families.extend(prometheus_protobuf::encode(&self.of_statsd)?);
        Ok(families)
    }
}

#[derive(Debug)]
struct OfRequests(Arc<Requests>);

impl Collector for OfRequests {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.0.encode(&mut encoder)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate_rules::RuleSettings;

    use super::*;

    /// A duration equal to a bound of the histogram belongs to the bucket below the bound. A duration that is a
    /// nanosecond longer belongs to the bucket above.
    #[test]
    fn what_was_answered_is_told_by_protocol_outcome_and_time() {
        let cache = Arc::new(RuleCache::new(RuleSettings::default()));
        let metrics = Metrics::new(cache, MetricsNames::Envoyproxy);
        let took = [
            (Protocol::Grpc, RequestOutcome::Allowed, 1_000),
            (Protocol::Grpc, RequestOutcome::OverLimit, 1_001),
            (Protocol::Grpc, RequestOutcome::Refused, 100_000_001),
            (Protocol::Json, RequestOutcome::Allowed, 500_000_000),
        ];
        for (protocol, outcome, ns) in took {
            metrics.requests.answered(protocol, outcome, Duration::from_nanos(ns));
        }
        let page = metrics.text(true).unwrap();
        for line in [
            "tollgate_requests_total{protocol=\"grpc\",outcome=\"allowed\"} 1",
            "tollgate_requests_total{protocol=\"json\",outcome=\"allowed\"} 1",
            "tollgate_requests_total{protocol=\"json\",outcome=\"refused\"} 0",
            "tollgate_decision_seconds_sum{protocol=\"grpc\"} 0.100002002",
            "tollgate_decision_seconds_count{protocol=\"grpc\"} 3",
            "tollgate_decision_seconds_bucket{le=\"0.000001\",protocol=\"grpc\"} 1",
            "tollgate_decision_seconds_bucket{le=\"0.000002\",protocol=\"grpc\"} 2",
            "tollgate_decision_seconds_bucket{le=\"0.1\",protocol=\"grpc\"} 2",
            "tollgate_decision_seconds_bucket{le=\"+Inf\",protocol=\"grpc\"} 3",
            "tollgate_decision_seconds_sum{protocol=\"json\"} 0.5",
            "ratelimit_service_total_requests{grpc_method=\"ShouldRateLimit\"} 3",
            "ratelimit_service_should_rate_limit_error{err_type=\"service_error\"} 1",
        ] {
            assert!(page.lines().any(|told| told == line), "{line} in\n{page}");
        }
    }
}
