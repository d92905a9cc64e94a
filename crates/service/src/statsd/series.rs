//! [`StatsdSeries`]: reads the series from the families of the metrics.
//!
//! The library of the metrics encodes a registry into families of Prometheus' protobuf format. Amounts are 64-bit
//! floating-point numbers there, so a count above 2^53 would be rounded.

use std::vec;

use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::{
    Metric, MetricFamily, MetricType,
};

/// The name of a series without the ending `_total`, and its labels in their order. No other series has the same name
/// and labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SeriesId {
    pub(super) name: String,
    pub(super) labels: Vec<(String, String)>,
}

/// A series and its amount.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StatsdSeries {
    pub(super) id: SeriesId,
    pub(super) amount: f64,
    pub(super) is_counter: bool,
}

/// Returns the gain of a counter. A counter that is smaller than before has begun again at 0, because its rule was
/// removed and came back.
pub(super) fn gained(now: f64, before: Option<f64>) -> f64 {
    before.filter(|before| *before <= now).map_or(now, |before| now - before)
}

/// The counters and gauges of the families, and the sum and count of each histogram. Families without a type are left
/// out: they only repeat our own counts under the names of envoyproxy/ratelimit.
pub(super) fn series(families: Vec<MetricFamily>) -> impl Iterator<Item = StatsdSeries> {
    families.into_iter().flat_map(|mut family| {
        let metrics = std::mem::take(&mut family.metric);
        metrics.into_iter().flat_map(move |metric| of_metric(&family, metric))
    })
}

fn of_metric(family: &MetricFamily, metric: Metric) -> vec::IntoIter<StatsdSeries> {
    let name = family.name.as_str();
    let amounts = match family.r#type() {
        MetricType::Counter => {
            let name = name.strip_suffix("_total").unwrap_or(name);
            let counter = metric.counter.map(|counter| (name.to_owned(), counter.value, true));
            Vec::from_iter(counter)
        }
        MetricType::Gauge => {
            Vec::from_iter(metric.gauge.map(|gauge| (name.to_owned(), gauge.value, false)))
        }
        #[expect(clippy::cast_precision_loss, reason = "as all other counts in this format")]
        MetricType::Histogram => metric.histogram.map_or_else(Vec::new, |times| {
            let count = times.sample_count as f64;
            vec![
                (format!("{name}_sum"), times.sample_sum, true),
                (format!("{name}_count"), count, true),
            ]
        }),
        _ => Vec::new(),
    };
    let labels: Vec<_> = metric.label.into_iter().map(|label| (label.name, label.value)).collect();
    let finite = amounts.into_iter().filter(|(_, amount, _)| amount.is_finite());
    let series = finite.map(|(name, amount, is_counter)| {
        let id = SeriesId { name, labels: labels.clone() };
        StatsdSeries { id, amount, is_counter }
    });
    series.collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
pub(super) mod tests {
    use prometheus_client::encoding::prometheus_protobuf::encode;
    use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::Gauge as GaugeOf;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::gauge::Gauge;
    use prometheus_client::metrics::histogram::Histogram;
    use prometheus_client::registry::Registry;

    use super::*;

    type Labels = Vec<(&'static str, String)>;

    /// The families of a counter, `tollgate_hits{r="..."}`, and of a gauge, `tollgate_live`.
    pub(in super::super) fn families(hits: &[(&str, u64)], live: Option<i64>) -> Vec<MetricFamily> {
        let mut registry = Registry::default();
        for (rule, count) in hits {
            // The series of a family that has one for each rule are in the order of the rules.
            let family = Family::<Labels, Counter>::default();
            family.get_or_create(&vec![("r", (*rule).to_owned())]).inc_by(*count);
            registry.register("tollgate_hits", "Hits", family);
        }
        if let Some(live) = live {
            let gauge: Gauge = Gauge::default();
            gauge.set(live);
            registry.register("tollgate_live", "Clients", gauge);
        }
        encode(&registry).expect("metrics")
    }

    #[test]
    fn counters_gauges_and_histograms_are_series_and_what_has_no_type_is_not() {
        let odd = "x\"} 9 \\ \n,=";
        let mut families = families(&[(odd, 3)], Some(2));
        let mut registry = Registry::default();
        let seconds = Histogram::new([0.1]);
        seconds.observe(0.25);
        seconds.observe(0.5);
        registry.register("a_seconds", "Times", seconds);
        let no_number: Gauge<f64, std::sync::atomic::AtomicU64> = Gauge::default();
        no_number.set(f64::NAN);
        registry.register("a_share", "None", no_number);
        families.extend(encode(&registry).expect("metrics"));
        families.push(MetricFamily {
            name: "their_hits".to_owned(),
            r#type: MetricType::Untyped.into(),
            metric: vec![Metric { gauge: Some(GaugeOf { value: 3.0 }), ..Metric::default() }],
            ..MetricFamily::default()
        });
        let of = |name: &str, labels: &[(&str, &str)], amount, is_counter| StatsdSeries {
            id: SeriesId {
                name: name.to_owned(),
                labels: labels.iter().map(|(name, of)| ((*name).into(), (*of).into())).collect(),
            },
            amount,
            is_counter,
        };
        let expected = [
            of("tollgate_hits", &[("r", odd)], 3.0, true),
            of("tollgate_live", &[], 2.0, false),
            of("a_seconds_sum", &[], 0.75, true),
            of("a_seconds_count", &[], 2.0, true),
        ];
        assert_eq!(series(families).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_counter_gains_the_difference_and_one_that_began_anew_all_it_has() {
        for (now, before, expected) in [
            (7.0, None, 7.0),
            (7.0, Some(5.0), 2.0),
            (7.0, Some(7.0), 0.0),
            (9_007_199_254_740_992.0, Some(9_007_199_254_740_991.0), 1.0),
            (3.0, Some(5.0), 3.0),
            (1.5, Some(1.0), 0.5),
        ] {
            assert_eq!(gained(now, before).to_bits(), f64::to_bits(expected));
        }
    }
}
