//! The counts of rules' decisions, and how full their tables are, read when metrics are collected.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tollgate::Stats;
use tollgate_rules::{DomainPool, Rule, RuleCache, RuleCounts, RuleSet};

use super::counter::encode_total;
use super::gauge::{encode_gauge, gauge};

/// Reads the rules in force.
#[derive(Debug)]
pub(crate) struct OfRules {
    pub(crate) cache: Arc<RuleCache>,
}

/// A counter of each rule: its name, its help text, and the function that reads it.
pub(super) type RuleCounter = (&'static str, &'static str, fn(&RuleCounts) -> u64);

const RULE_COUNTERS: [RuleCounter; 13] = [
    ("rule_hits", "Hits that a rule decided", RuleCounts::total),
    ("rule_within_limit", "Hits that fitted a rule's limit", |counts| counts.within_limit),
    ("rule_over_limit", "Hits over a rule's limit", |counts| counts.over_limit),
    ("rule_near_limit", "Hits within a rule's limit, and close to it", |counts| counts.near_limit),
    ("rule_borrowed", "Hits over a rule's own limit, lent by its pool", |counts| counts.borrowed),
    ("rule_shadow", "Hits over the limit of a rule in shadow mode", |counts| counts.shadow),
    ("rule_spilled", "Hits of clients without a cell, decided in a rule's spill", |counts| {
        counts.spilled
    }),
    ("rule_full_denied", "Hits of clients without a cell, denied for that", |counts| {
        counts.full_denied
    }),
    ("rule_full_allowed", "Hits of clients without a cell, admitted all the same", |counts| {
        counts.full_allowed
    }),
    ("rule_negative_hits", "Hits that requests asked to give back", |counts| counts.negative),
    ("rule_given_back", "Of those, the hits that were charged and came back", |counts| {
        counts.given_back
    }),
    (
        "rule_uncharged",
        "Units that were used or charged, and that a limit does not remember",
        |counts| counts.uncharged,
    ),
    (
        "rule_denied_costs",
        "Units of costs above 1 that were denied, and are charged nowhere",
        |counts| counts.denied_costs,
    ),
];

/// A counter of each pool: its name, its help text, and the function that reads it.
type PoolCounter = (&'static str, &'static str, fn(&DomainPool) -> u64);

const POOL_COUNTERS: [PoolCounter; 2] = [
    ("pool_lent", "Units that a pool has lent, also if they came back", DomainPool::lent),
    ("pool_expired", "Reports of headroom that were over before the next", DomainPool::expired),
];

/// A gauge of a rule's tables: its name, its help text, and the function that reads it from all tables of the rule.
type TableGauge = (&'static str, &'static str, fn(&[Stats]) -> u64);

/// A rule with several limits has a table for each. All these tables know the same clients, but forget them at
/// different times.
const TABLE_GAUGES: [TableGauge; 3] = [
    ("rule_clients", "Clients that a rule limits now, in its fullest table", |tables| {
        tables.iter().map(|table| table.live as u64).max().unwrap_or_default()
    }),
    ("rule_capacity", "Clients that each table of a rule is built for", |tables| {
        tables.iter().map(|table| table.capacity as u64).max().unwrap_or_default()
    }),
    ("rule_table_bytes", "Bytes of a rule's tables", |tables| {
        tables.iter().map(|table| table.bytes as u64).sum()
    }),
];

impl Collector for OfRules {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.encode_loads(&mut encoder)?;
        let Some(rules) = self.cache.rules() else { return Ok(()) };
        encode_gauge(&mut encoder, "table_bytes", "Bytes of all tables", rules.table_bytes())?;
        for (name, help, read) in RULE_COUNTERS {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for rule in rules.rules() {
                let count = ConstCounter::new(read(&rule.counts()));
                count.encode(metric.encode_family(&labels(rule))?)?;
            }
        }
        encode_tables(&mut encoder, rules.rules())?;
        encode_pools(&mut encoder, &rules)
    }
}

impl OfRules {
    fn encode_loads(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (status, own) = (self.cache.status(), self.cache.own_limits());
        for (name, help, count) in [
            ("config_load_success", "Loads of rules that took effect", status.loads),
            ("config_load_error", "Loads of rules that were refused", status.refused_loads),
            (
                "domain_not_found",
                "Requests in a domain that has no rules",
                self.cache.unknown_domains(),
            ),
            (
                "global_shadow_mode",
                "Requests that nothing but the global shadow mode let pass",
                self.cache.global_shadow_mode(),
            ),
            (
                "own_limits_spilled",
                "Hits of clients without a cell under limits that came with requests, decided in the spill",
                own.spilled,
            ),
            (
                "own_limits_full_denied",
                "Hits of clients without a cell under limits that came with requests, denied for that",
                own.full_denied,
            ),
            (
                "own_limits_no_place",
                "Requests that were refused because too many different limits came with requests",
                self.cache.too_many_paces(),
            ),
            (
                "own_limits_denied_costs",
                "Units of costs above 1 under limits that came with requests, denied and charged nowhere",
                own.denied_costs,
            ),
            (
                "lingering_forgotten",
                "Limits that were gone and forgotten before their time, for want of memory",
                status.forgotten,
            ),
            (
                "config_dropped_domains",
                "Domains without rules whose last good ones were given up, for want of memory",
                status.dropped_domains,
            ),
        ] {
            encode_total(encoder, name, help, count)?;
        }
        let help = "1 while the newest rules are refused and older ones are in force";
        let is_refused = u64::from(!status.errors.is_empty());
        encode_gauge(encoder, "config_refused", help, is_refused)?;
        let kept = self.cache.rules().map_or(0, |rules| rules.kept_domains().count());
        let tables = (status.lingering_tables as u64, status.lingering_bytes);
        let kept_help =
            "Domains without rules in the newest files, whose last good ones are in force";
        encode_gauge(encoder, "config_kept_domains", kept_help, kept as u64)?;
        let help = "Tables of limits that are gone, kept in case they come back";
        encode_gauge(encoder, "lingering_tables", help, tables.0)?;
        encode_gauge(encoder, "lingering_bytes", "Bytes of those tables", tables.1)
    }
}

/// Writes the counters of pools; nothing if no domain has a pool.
fn encode_pools(encoder: &mut DescriptorEncoder<'_>, rules: &RuleSet) -> Result<(), fmt::Error> {
    if rules.pools().next().is_none() {
        return Ok(());
    }
    let (name, help) =
        ("pool_headroom", "The share of a pool that can be spared, by the last report");
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for pool in rules.pools() {
        let domain = [("domain", pool.domain())];
        ConstGauge::new(pool.headroom()).encode(metric.encode_family(&domain)?)?;
    }
    for (name, help, read) in POOL_COUNTERS {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for pool in rules.pools() {
            let domain = [("domain", pool.domain())];
            ConstCounter::new(read(pool)).encode(metric.encode_family(&domain)?)?;
        }
    }
    Ok(())
}

/// Reads each cell of each table, once for all gauges.
fn encode_tables(encoder: &mut DescriptorEncoder<'_>, rules: &[Rule]) -> Result<(), fmt::Error> {
    let stats: Vec<(&Rule, Vec<Stats>)> =
        rules.iter().map(|rule| (rule, rule.table_stats())).collect();
    for (name, help, read) in TABLE_GAUGES {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (rule, tables) in &stats {
            gauge(read(tables)).encode(metric.encode_family(&labels(rule))?)?;
        }
    }
    Ok(())
}

fn labels(rule: &Rule) -> [(&'static str, &str); 2] {
    [("domain", rule.domain()), ("rule", rule.path())]
}
