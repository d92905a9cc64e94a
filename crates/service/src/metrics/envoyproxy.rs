//! Reports the counts under the names that dashboards for envoyproxy/ratelimit use. The names come from
//! envoyproxy/ratelimit's mapping from StatsD to Prometheus.
//!
//! Under these names a rule has the labels `domain`, `key1` and, if it has a second level, `key2`. Deeper levels are
//! dropped, so rules that differ only in deeper levels are added up in one series. With `detailed_metric` or
//! `value_to_metric`, these labels contain values of requests; hits beyond the maximum number of series, and hits that
//! are given back, have labels without values. A rule that is unlimited is not counted.
//!
//! Hits near and over a limit are counted as if each hit had come by itself, which differs from our own metrics. If a
//! request is denied, only its hits beyond the limit count as over the limit. Its hits between the near-limit share (by
//! default 0.8 of the limit) and the limit count as near the limit, and its hits below that share count as neither.
//! OpenMetrics requires that names of counters end in `_total`, which these names do not. So their type is given as
//! `unknown`, which readers of these names accept. Counts that have no name in envoyproxy/ratelimit are left out. A
//! counter that is zero is left out, too, because envoyproxy/ratelimit sends a counter only after its first hit.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use tollgate_rules::{Rule, RuleCache, RuleCounts};

use super::gauge::gauge;
use super::requests::{Protocol, RequestOutcome, Requests};
use super::rules::RuleCounter;

#[derive(Debug)]
pub(crate) struct Theirs {
    pub(crate) cache: Arc<RuleCache>,
    pub(crate) requests: Arc<Requests>,
}

/// The counters of a rule. Each has the end of its name, its help text, and the function that reads it.
const RULE_COUNTERS: [RuleCounter; 7] = [
    ("total_hits", "Hits that a rule decided", RuleCounts::total),
    ("within_limit", "Hits of requests that fitted a rule's limit", |counts| counts.within_limit),
    ("over_limit", "Hits beyond a rule's limit", |counts| counts.beyond_limit),
    ("near_limit", "Hits up to a rule's limit, and close to it", |counts| {
        counts.near_limit.saturating_add(counts.near_denied)
    }),
    ("shadow_mode", "Hits beyond the limit of a rule in shadow mode", |counts| {
        counts.shadow_beyond
    }),
    (
        "over_limit_with_local_cache",
        "Hits over a rule's limit without a question to Redis",
        |counts| counts.remembered,
    ),
    ("total_negative_hits", "Hits that requests asked to give back", |counts| counts.negative),
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
        let seconds = self.requests.seconds(Protocol::Grpc);
        if seconds.counts().any(|(_, count)| count > 0) {
            let mut metric = encoder.encode_descriptor(
                "ratelimit_service_response_time_seconds",
                "Time from a request that was read to its answer",
                None,
                MetricType::Histogram,
            )?;
            seconds.encode(metric.encode_family(&method)?)?;
        }
        let Some(rules) = self.cache.rules() else { return Ok(()) };
        let series = added_up(rules.rules(), labels);
        for (name, help, read) in RULE_COUNTERS {
            let name = format!("ratelimit_service_rate_limit_{name}");
            let counted = series.iter().map(|(labels, counts)| (labels, added(counts, read)));
            let counted: Vec<_> = counted.filter(|(_, count)| *count > 0).collect();
            if counted.is_empty() {
                continue;
            }
            let mut metric = encoder.encode_descriptor(&name, help, None, MetricType::Unknown)?;
            for ((domain, key1, key2), count) in counted {
                let mut labels = vec![("domain", *domain), ("key1", key1.as_str())];
                labels.extend(key2.as_deref().map(|key2| ("key2", key2)));
                gauge(count).encode(metric.encode_family(&labels)?)?;
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
    if count == 0 {
        return Ok(());
    }
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Unknown)?;
    match labels {
        [] => gauge(count).encode(metric),
        labels => gauge(count).encode(metric.encode_family(&labels)?),
    }
}

/// The sum of a count over all series that have the same labels.
fn added(counts: &[RuleCounts], read: fn(&RuleCounts) -> u64) -> u64 {
    counts.iter().map(read).fold(0, u64::saturating_add)
}

/// The number of requests over gRPC by the time that they took, for StatsD alone. Each series has a bound in
/// milliseconds, and counts the requests that took at most this bound and more than the next smaller one.
pub(crate) const RESPONSE_TIMES: &str = "ratelimit_service_response_times";

/// The label of requests that took longer than the largest bound.
const LONGEST_MS: &str = "1000";

/// The counts of rules for StatsD. A name in StatsD contains all levels of a rule, so the levels form one label. The
/// times of requests are reported, too: each time is rounded up to a bound of the histogram.
#[derive(Debug)]
pub(crate) struct TheirPaths {
    pub(crate) cache: Arc<RuleCache>,
    pub(crate) requests: Arc<Requests>,
}

impl Collector for TheirPaths {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Requests over gRPC by the bound of their time in milliseconds";
        let mut metric =
            encoder.encode_descriptor(RESPONSE_TIMES, help, None, MetricType::Counter)?;
        for (bound_ns, count) in self.requests.seconds(Protocol::Grpc).counts() {
            let ms = bound_ns.map_or_else(|| LONGEST_MS.to_owned(), milliseconds);
            ConstCounter::new(count).encode(metric.encode_family(&[("ms", ms.as_str())])?)?;
        }
        let Some(rules) = self.cache.rules() else { return Ok(()) };
        let path = |domain, levels: Levels<'_, '_>| (domain, levels.collect::<Vec<_>>().join("."));
        let series = added_up(rules.rules(), path);
        for (name, help, read) in RULE_COUNTERS {
            let name = format!("ratelimit_service_rate_limit_{name}");
            let mut metric = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
            for ((domain, path), counts) in &series {
                let labels = [("domain", *domain), ("rule", path.as_str())];
                ConstCounter::new(added(counts, read)).encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// A bound in milliseconds. All bounds are whole microseconds.
fn milliseconds(bound_ns: u64) -> String {
    let (whole, rest) = (bound_ns / 1_000_000, bound_ns / 1_000 % 1_000);
    if rest == 0 { whole.to_string() } else { format!("{whole}.{rest:03}") }
}

type Levels<'i, 'l> = &'i mut dyn Iterator<Item = &'l str>;

fn added_up<'r, K: Ord>(
    rules: &'r [Rule],
    labels: impl Fn(&'r str, Levels<'_, '_>) -> K,
) -> BTreeMap<K, Vec<RuleCounts>> {
    let mut added: BTreeMap<K, Vec<RuleCounts>> = BTreeMap::new();
    for rule in rules.iter().filter(|rule| !rule.is_unlimited()) {
        let domain = rule.domain();
        let series = rule.series();
        let mut of_rule = rule.counts();
        if !series.is_empty() {
            // Hits that are given back are counted in a series without values, which is not shown until a hit has been
            // given back.
            let negative = of_rule.negative;
            of_rule = RuleCounts::default();
            of_rule.negative = negative;
        }
        if series.is_empty() || of_rule.negative > 0 {
            added.entry(labels(domain, &mut rule.levels())).or_default().push(of_rule);
        }
        for one in series {
            let counts = one.counts();
            let key = match one.levels().next() {
                Some(_) => labels(domain, &mut one.levels()),
                // Hits beyond the maximum number of series are counted in a series without values. This series is not
                // shown before there is such a hit.
                None if counts.total() > 0 => labels(domain, &mut rule.levels()),
                None => continue,
            };
            added.entry(key).or_default().push(counts);
        }
    }
    added
}

fn labels<'r>(domain: &'r str, levels: Levels<'_, '_>) -> Series<'r> {
    let mut levels = levels.map(sanitized);
    (domain, levels.next().unwrap_or_default(), levels.next())
}

/// StatsD separates names by these characters; in the mapping to Prometheus they become underscores.
fn sanitized(level: &str) -> String {
    level.replace([':', '|', '.'], "_")
}
