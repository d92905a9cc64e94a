//! The same counts under the names that dashboards for envoyproxy/ratelimit use: those of its mapping from statsd to
//! Prometheus.
//!
//! There a rule has the labels `domain`, `key1` and, below the first level, `key2`; deeper levels are dropped, so
//! rules that differ only there are added up in one series. The names of its counters do not end in `_total`, as
//! OpenMetrics requires; so the type is given as `unknown`, which readers that use these names accept. Counts without
//! a name there, or with labels from requests, are left out.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use tollgate_rules::{Rule, RuleCache, RuleCounts};

use super::gauge::gauge;
use super::requests::{Protocol, RequestOutcome, Requests};
use super::rules::RuleCounter;

#[derive(Debug)]
pub(crate) struct Theirs {
    pub(crate) cache: Arc<RuleCache>,
    pub(crate) requests: Arc<Requests>,
}

/// Each with the end of its name.
const RULE_COUNTERS: [RuleCounter; 5] = [
    ("total_hits", "Hits that a rule decided", RuleCounts::total),
    ("within_limit", "Hits that fitted a rule's limit", |counts| counts.within_limit),
    ("over_limit", "Hits over a rule's limit", |counts| counts.over_limit),
    ("near_limit", "Hits within a rule's limit, and close to it", |counts| counts.near_limit),
    ("shadow_mode", "Hits over the limit of a rule in shadow mode", |counts| counts.shadow),
];

/// `domain`, `key1`, `key2`.
type Series<'r> = (&'r str, String, Option<String>);

impl Collector for Theirs {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let status = self.cache.status();
        for (name, help, count) in [
            ("config_load_success", "Loads of rules that took effect", status.loads),
            ("config_load_error", "Loads of rules that were refused", status.refused_loads),
            (
                "global_shadow_mode",
                "Requests that nothing but the global shadow mode let pass",
                self.cache.global_shadow_mode(),
            ),
        ] {
            plain(&mut encoder, &format!("ratelimit_service_{name}"), help, &[], count)?;
        }
        let method = [("grpc_method", "ShouldRateLimit")];
        let of_grpc = |outcome| self.requests.of(Protocol::Grpc, outcome);
        let refused = of_grpc(RequestOutcome::Refused);
        let total = of_grpc(RequestOutcome::Allowed) + of_grpc(RequestOutcome::OverLimit) + refused;
        let (name, help) = ("ratelimit_service_total_requests", "Requests over gRPC");
        plain(&mut encoder, name, help, &method, total)?;
        plain(
            &mut encoder,
            "ratelimit_service_should_rate_limit_error",
            "Requests over gRPC that got no decision",
            &[("err_type", "service_error")],
            refused,
        )?;
        let mut metric = encoder.encode_descriptor(
            "ratelimit_service_response_time_seconds",
            "Time from a request that was read to its answer",
            None,
            MetricType::Histogram,
        )?;
        self.requests.seconds(Protocol::Grpc).encode(metric.encode_family(&method)?)?;
        let Some(rules) = self.cache.rules() else { return Ok(()) };
        let series = added_up(rules.rules());
        for (name, help, read) in RULE_COUNTERS {
            let name = format!("ratelimit_service_rate_limit_{name}");
            let mut metric = encoder.encode_descriptor(&name, help, None, MetricType::Unknown)?;
            for ((domain, key1, key2), counts) in &series {
                let count = gauge(counts.iter().map(read).fold(0, u64::saturating_add));
                let mut labels = vec![("domain", *domain), ("key1", key1.as_str())];
                labels.extend(key2.as_deref().map(|key2| ("key2", key2)));
                count.encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

fn plain(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    labels: &[(&str, &str)],
    count: u64,
) -> Result<(), fmt::Error> {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Unknown)?;
    match labels {
        [] => gauge(count).encode(metric),
        labels => gauge(count).encode(metric.encode_family(&labels)?),
    }
}

fn added_up(rules: &[Rule]) -> BTreeMap<Series<'_>, Vec<RuleCounts>> {
    let mut series: BTreeMap<Series<'_>, Vec<RuleCounts>> = BTreeMap::new();
    for rule in rules {
        let mut levels = rule.levels().map(sanitized);
        let key1 = levels.next().unwrap_or_default();
        series.entry((rule.domain(), key1, levels.next())).or_default().push(rule.counts());
    }
    series
}

/// Statsd separates names by these characters; in that mapping they become underscores.
fn sanitized(level: &str) -> String {
    level.replace([':', '|', '.'], "_")
}
