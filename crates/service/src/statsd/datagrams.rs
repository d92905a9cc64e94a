//! [`StatsdReport`]: the lines of a report, packed into datagrams.

use std::collections::HashMap;

use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::MetricFamily;

use super::line::LineForm;
use super::series::{SeriesId, gained, series};

/// The maximum size of a datagram. A datagram of this size fits into an Ethernet frame, with room for the headers of
/// tunnels.
const MAX_DATAGRAM_BYTES: usize = 1_432;

/// The content of one report.
pub(super) struct StatsdReport {
    pub(super) datagrams: Vec<Datagram>,
    /// The number of series that are left out because their lines do not fit into a datagram.
    pub(super) too_long: u64,
}

/// A datagram: its lines, and the counters whose gains the lines report.
#[derive(Default)]
pub(super) struct Datagram {
    pub(super) text: String,
    pub(super) counters: Vec<(SeriesId, f64)>,
}

impl StatsdReport {
    /// Makes a report of all gauges of the families, and of the counters that have gained something since `before`.
    pub(super) fn of(
        families: Vec<MetricFamily>,
        before: &HashMap<SeriesId, f64>,
        form: &LineForm,
    ) -> Self {
        let (mut datagrams, mut too_long) = (vec![Datagram::default()], 0);
        for series in series(families) {
            let before = before.get(&series.id).copied();
            let amount =
                if series.is_counter { gained(series.amount, before) } else { series.amount };
            let is_news = !series.is_counter || amount > 0.0;
            let lines = if is_news { form.lines(&series, amount) } else { Vec::new() };
            let text = lines.join("\n");
            // The lines of the series do not fit into one datagram.
            if text.len() > MAX_DATAGRAM_BYTES {
                too_long += 1;
                continue;
            }
            let used = datagrams.last().map_or(0, |last| last.text.len());
            // All lines of a series go into the same datagram, so that either all or none of them are sent.
            if used > 0 && used + 1 + text.len() > MAX_DATAGRAM_BYTES {
                datagrams.push(Datagram::default());
            }
            let Some(last) = datagrams.last_mut() else { continue };
            if !last.text.is_empty() && !text.is_empty() {
                last.text.push('\n');
            }
            last.text.push_str(&text);
            if series.is_counter {
                last.counters.push((series.id, series.amount));
            }
        }
        datagrams.retain(|datagram| !datagram.text.is_empty() || !datagram.counters.is_empty());
        Self { datagrams, too_long }
    }
}

#[cfg(test)]
mod tests {
    use super::super::series::tests::families;
    use super::super::settings::Statsd;
    use super::*;
    use crate::metrics_names::MetricsNames;

    #[test]
    fn datagrams_are_small_and_no_line_is_lost_or_cut() {
        let mut rules: Vec<(String, u64)> = (1..=500).map(|n| (format!("rule{n}"), n)).collect();
        rules.push(("x".repeat(MAX_DATAGRAM_BYTES), 1));
        let rules: Vec<_> = rules.iter().map(|(rule, hits)| (rule.as_str(), *hits)).collect();
        let statsd = Statsd::new("127.0.0.1:1".parse().unwrap());
        let form = LineForm::new(&statsd, MetricsNames::Own);
        let report = StatsdReport::of(families(&rules, None), &HashMap::new(), &form);
        let StatsdReport { datagrams, too_long } = report;
        assert_eq!(too_long, 1);
        assert!(datagrams.iter().all(|one| one.text.len() <= MAX_DATAGRAM_BYTES));
        let fits = |one: &&[Datagram]| {
            let longest = "\ntollgate.hits.rule500:500|c".len();
            one[0].text.len() + longest <= MAX_DATAGRAM_BYTES && !one[1].text.is_empty()
        };
        assert_eq!(datagrams.windows(2).filter(fits).count(), 0, "each but the last is full");
        let lines: Vec<&str> = datagrams.iter().flat_map(|one| one.text.lines()).collect();
        let expected: Vec<String> =
            (1..=500).map(|n| format!("tollgate.hits.rule{n}:{n}|c")).collect();
        assert_eq!(lines, expected);
    }
}
