//! The counts of rules by the values of requests, for rules that ask for them (`detailed_metric`, `value_to_metric`).
//! The number of series is bounded, whatever requests contain. Beyond the bound, hits are counted in the series called
//! `other`.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use tollgate_rules::{Rule, RuleCache, RuleCounts, Series};

use super::counter::encode_total;
use super::gauge::encode_gauge;
use super::rules::RuleCounter;

/// Reads the series of the rules in force.
#[derive(Debug)]
pub(crate) struct OfSeries {
    pub(crate) cache: Arc<RuleCache>,
}

/// The counters of a series. Each is the part of the rule's counter of the same name that belongs to the series.
const SERIES_COUNTERS: [RuleCounter; 5] = [
    ("series_hits", "Hits that a rule decided, by values of requests", RuleCounts::total),
    ("series_within_limit", "Hits that fitted, by values of requests", |counts| {
        counts.within_limit
    }),
    ("series_over_limit", "Hits over a limit, by values of requests", |counts| counts.over_limit),
    ("series_near_limit", "Hits close to a limit, by values of requests", |counts| {
        counts.near_limit
    }),
    (
        "series_shadow",
        "Hits over the limit of a rule in shadow mode, by values of requests",
        |counts| counts.shadow,
    ),
];

impl Collector for OfSeries {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Series of metrics that values of requests have made";
        encode_gauge(&mut encoder, "series", help, self.cache.live_series() as u64)?;
        let max = self.cache.settings().max_series;
        encode_gauge(&mut encoder, "series_max", "As many as there may be", max as u64)?;
        let help = "Descriptors that were counted as other, because there was no room for a series";
        encode_total(&mut encoder, "series_refused", help, self.cache.refused_series())?;
        let Some(rules) = self.cache.rules() else { return Ok(()) };
        let series: Vec<(&Rule, String, Arc<Series>)> = rules
            .rules()
            .iter()
            .flat_map(|rule| rule.series().into_iter().map(move |one| (rule, one.to_string(), one)))
            .collect();
        if series.is_empty() {
            return Ok(());
        }
        for (name, help, read) in SERIES_COUNTERS {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (rule, descriptor, one) in &series {
                let labels = [
                    ("domain", rule.domain()),
                    ("rule", rule.path()),
                    ("descriptor", descriptor.as_str()),
                ];
                let count = ConstCounter::new(read(&one.counts()));
                count.encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
