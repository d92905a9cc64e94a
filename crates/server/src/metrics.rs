//! Metrics in Prometheus' text format. Labels come from rules alone: their number is known when rules are
//! loaded, whatever requests say.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tollgate_rules::{Rule, RuleCache, RuleCounts};

use crate::histogram::Histogram;

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    errors: Counter,
    seconds: Arc<Histogram>,
}

impl Metrics {
    pub(crate) fn new(cache: Arc<RuleCache>) -> Self {
        let mut registry = Registry::with_prefix("tollgate");
        let errors = Counter::default();
        let seconds = Arc::new(Histogram::default());
        registry.register("request_errors", "Requests that got no decision", errors.clone());
        registry.register_collector(Box::new(OfRequests { seconds: Arc::clone(&seconds) }));
        registry.register_collector(Box::new(OfRules { cache }));
        Self { registry, errors, seconds }
    }

    /// Shows more than what belongs to any service.
    pub(crate) fn show(&mut self, collector: impl Collector + 'static) {
        self.registry.register_collector(Box::new(collector));
    }

    pub(crate) fn answered(&self, took: Duration, refused: bool) {
        self.seconds.observe(took);
        if refused {
            self.errors.inc();
        }
    }

    pub(crate) fn text(&self) -> Result<String, fmt::Error> {
        let mut page = String::new();
        text::encode(&mut page, &self.registry)?;
        Ok(page)
    }
}

#[derive(Debug)]
struct OfRequests {
    seconds: Arc<Histogram>,
}

impl Collector for OfRequests {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Time from a request that was read to its answer";
        let kind = MetricType::Histogram;
        self.seconds.encode(encoder.encode_descriptor("decision_seconds", help, None, kind)?)
    }
}

/// Reads the rules in force when it is asked.
#[derive(Debug)]
struct OfRules {
    cache: Arc<RuleCache>,
}

/// A counter of each rule: its name, what it counts, and how it is read.
type RuleCounter = (&'static str, &'static str, fn(&RuleCounts) -> u64);

const RULE_COUNTERS: [RuleCounter; 5] = [
    ("rule_hits", "Hits that a rule decided", RuleCounts::total),
    ("rule_within_limit", "Hits that fitted a rule's limit", |counts| counts.within_limit),
    ("rule_over_limit", "Hits over a rule's limit", |counts| counts.over_limit),
    ("rule_near_limit", "Hits within a rule's limit, and close to it", |counts| counts.near_limit),
    ("rule_shadow", "Hits over the limit of a rule in shadow mode", |counts| counts.shadow),
];

impl Collector for OfRules {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let status = self.cache.status();
        let loads = [
            ("config_load_success", "Loads of rules that took effect", status.loads),
            ("config_load_error", "Loads of rules that were refused", status.refused_loads),
        ];
        for (name, help, count) in loads {
            let counter = ConstCounter::new(count);
            let metric = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(metric)?;
        }
        let is_refused = ConstGauge::new(i64::from(!status.errors.is_empty()));
        let metric = encoder.encode_descriptor(
            "config_refused",
            "1 while the newest rules are refused and older ones are in force",
            None,
            is_refused.metric_type(),
        )?;
        is_refused.encode(metric)?;
        let Some(rules) = self.cache.rules() else { return Ok(()) };
        let bytes = ConstGauge::new(i64::try_from(rules.table_bytes()).unwrap_or(i64::MAX));
        let help = "Bytes of all tables";
        let metric = encoder.encode_descriptor("table_bytes", help, None, bytes.metric_type())?;
        bytes.encode(metric)?;
        for (name, help, read) in RULE_COUNTERS {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for rule in rules.rules() {
                let labels = [("domain", rule.domain()), ("rule", rule.path())];
                ConstCounter::new(read(&rule.counts())).encode(metric.encode_family(&labels)?)?;
            }
        }
        encode_tables(&mut encoder, rules.rules())
    }
}

/// A counter of a rule's tables: its name, what it counts, and how it is read.
type TableCounter = (&'static str, &'static str, fn(&tollgate::Stats) -> u64);

const TABLE_COUNTERS: [TableCounter; 2] = [
    ("rule_full", "New clients that were denied because a rule's table was full", |stats| {
        stats.full
    }),
    ("rule_spilled", "Requests of clients without a cell, decided in the spill", |stats| {
        stats.spilled
    }),
];

/// How full the tables are. Reads them whole.
fn encode_tables(encoder: &mut DescriptorEncoder<'_>, rules: &[Rule]) -> Result<(), fmt::Error> {
    let stats: Vec<_> = rules.iter().map(|rule| (rule, rule.table_stats())).collect();
    let help = "Clients that a rule limits now, in its fullest table";
    let mut metric = encoder.encode_descriptor("rule_clients", help, None, MetricType::Gauge)?;
    for (rule, stats) in &stats {
        let labels = [("domain", rule.domain()), ("rule", rule.path())];
        let live = stats.iter().map(|stats| stats.live).max().unwrap_or_default();
        let live = ConstGauge::new(i64::try_from(live).unwrap_or(i64::MAX));
        live.encode(metric.encode_family(&labels)?)?;
    }
    for (name, help, read) in TABLE_COUNTERS {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (rule, stats) in &stats {
            let labels = [("domain", rule.domain()), ("rule", rule.path())];
            let sum: u64 = stats.iter().map(read).sum();
            ConstCounter::new(sum).encode(metric.encode_family(&labels)?)?;
        }
    }
    Ok(())
}
