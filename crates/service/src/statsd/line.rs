//! Writes the lines of StatsD: `name:value|c` for a counter, `name:value|g` for a gauge, and `name:value|ms|@0.25` for
//! four timings of `value` milliseconds each.

use std::fmt::Display;

use super::names::{dotless, own, part, response_time, tag, theirs};
use super::series::StatsdSeries;
use super::settings::{Statsd, StatsdStyle};
use crate::metrics_names::MetricsNames;

/// Writes lines.
#[derive(Debug)]
pub(super) struct LineForm {
    style: StatsdStyle,
    names: MetricsNames,
    /// The tags of all series, sorted by name.
    tags: Vec<(String, String)>,
}

impl LineForm {
    pub(super) fn new(statsd: &Statsd, names: MetricsNames) -> Self {
        let mut tags = statsd.tags.clone();
        tags.retain(|(name, value)| !name.is_empty() && !value.is_empty());
        tags.iter_mut().for_each(|(name, _)| *name = dotless(name));
        tags.sort();
        Self { style: statsd.style, names, tags }
    }

    /// The lines that report this amount of a series, one line for each name of the series.
    pub(super) fn lines(&self, series: &StatsdSeries, amount: f64) -> Vec<String> {
        let id = &series.id;
        if let Some((name, ms)) = response_time(id) {
            return vec![self.line(name, &[], &ms, &timer(amount))];
        }
        let kind = if series.is_counter { "c" } else { "g" };
        let labels = id.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let of_ours = |name: String| match self.style {
            StatsdStyle::Dotted => {
                let parts = labels.map(|(_, value)| part(value)).filter(|part| !part.is_empty());
                let name = parts.fold(name, |name: String, part| name + "." + &part);
                self.line(&name, &[], &amount, kind)
            }
            StatsdStyle::Tagged => self.line(&name, &labels.collect::<Vec<_>>(), &amount, kind),
        };
        let mut lines: Vec<String> = own(&id.name).map(of_ours).into_iter().collect();
        if self.names == MetricsNames::Envoyproxy {
            lines.extend(theirs(id).iter().map(|name| self.line(name, &[], &amount, kind)));
        }
        lines
    }

    fn line(
        &self,
        name: &str,
        labels: &[(&str, &str)],
        amount: &dyn Display,
        kind: &str,
    ) -> String {
        let own = self.tags.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        match self.style {
            StatsdStyle::Dotted => {
                let tags = own.map(|(name, value)| format!(".__{name}={}", dotless(value)));
                format!("{name}{}:{amount}|{kind}", tags.collect::<String>())
            }
            StatsdStyle::Tagged => {
                let tags = labels.iter().copied().chain(own);
                let tags = tags.map(|(name, value)| format!("{name}:{}", tag(value)));
                let tags: Vec<String> = tags.collect();
                let mark = if tags.is_empty() { "" } else { "|#" };
                format!("{name}:{amount}|{kind}{mark}{}", tags.join(","))
            }
        }
    }
}

/// The end of a line that stands for this many equal timings. Its sample rate makes the server count the line that many
/// times.
fn timer(times: f64) -> String {
    if times > 1.0 { format!("ms|@{}", 1.0 / times) } else { "ms".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::series::SeriesId;
    use super::*;
    use crate::metrics::RESPONSE_TIMES;

    fn lines(style: StatsdStyle, names: MetricsNames, series: &StatsdSeries) -> Vec<String> {
        let tags = [("zone", "eu.1"), ("app", "a:b"), ("", "x")];
        let tags = tags.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let address = "127.0.0.1:8125".parse().unwrap();
        let statsd = Statsd { style, tags, ..Statsd::new(address) };
        LineForm::new(&statsd, names).lines(series, series.amount)
    }

    fn series(name: &str, labels: &[(&str, &str)], is_counter: bool) -> StatsdSeries {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let id = SeriesId { name: name.to_owned(), labels: labels.iter().map(owned).collect() };
        StatsdSeries { id, amount: 5.0, is_counter }
    }

    #[test]
    fn labels_are_parts_of_the_name_or_tags() {
        let rule = [("domain", "shop"), ("rule", "user_a:b|c.path")];
        let hits = series("tollgate_rule_hits", &rule, true);
        let own = MetricsNames::Own;
        assert_eq!(
            lines(StatsdStyle::Dotted, own, &hits),
            ["tollgate.rule_hits.shop.user_a_b_c.path.__app=a_b.__zone=eu_1:5|c"]
        );
        assert_eq!(
            lines(StatsdStyle::Tagged, own, &hits),
            ["tollgate.rule_hits:5|c|#domain:shop,rule:user_a:b_c.path,app:a:b,zone:eu.1"]
        );
        let live = series("tollgate_table_bytes", &[], false);
        let statsd = Statsd::new("127.0.0.1:1".parse().unwrap());
        for style in [StatsdStyle::Dotted, StatsdStyle::Tagged] {
            let form = LineForm::new(&Statsd { style, ..statsd.clone() }, own);
            assert_eq!(form.lines(&live, live.amount), ["tollgate.table_bytes:5|g"]);
        }
    }

    #[test]
    fn times_that_are_counted_are_timers_with_the_rate_of_one_of_them() {
        let mut times = series(RESPONSE_TIMES, &[("ms", "0.05")], true);
        let of = |times: &StatsdSeries| {
            lines(StatsdStyle::Tagged, MetricsNames::Envoyproxy, times).concat()
        };
        let name = "ratelimit_server.ShouldRateLimit.response_time";
        assert_eq!(of(&times), format!("{name}:0.05|ms|@0.2|#app:a:b,zone:eu.1"));
        times.amount = 1.0;
        assert_eq!(of(&times), format!("{name}:0.05|ms|#app:a:b,zone:eu.1"));
    }

    #[test]
    fn no_name_of_a_rule_can_add_a_line() {
        let rule = [("domain", "a\nb:1|c"), ("rule", "x;y")];
        let hits = series("tollgate_rule_hits", &rule, true);
        let theirs = series("ratelimit_service_rate_limit_total_hits", &rule, true);
        let all = [&hits, &theirs]
            .map(|series| lines(StatsdStyle::Dotted, MetricsNames::Envoyproxy, series));
        let beginnings =
            ["tollgate.rule_hits.a_b_1_c.x_y.__", "ratelimit.service.rate_limit.a_b_1_c.x_y."];
        for (line, beginning) in all.iter().flatten().zip(beginnings) {
            assert!(line.starts_with(beginning), "{line}");
            assert_eq!((line.matches(':').count(), line.matches('|').count()), (1, 1), "{line}");
            assert!(!line.contains('\n'));
        }
        for line in lines(StatsdStyle::Tagged, MetricsNames::Envoyproxy, &hits) {
            assert!(!line.contains('\n') && line.matches('|').count() == 2, "{line}");
        }
    }

    /// In each case: the name of a series, its labels, and its names in StatsD.
    type NamesCase<'c> = (&'static str, &'c [(&'static str, &'c str)], &'c [&'c str]);

    #[test]
    fn names_are_in_addition_those_of_envoyproxy_ratelimit_where_it_has_any() {
        let rule = [("domain", "shop"), ("rule", "user_a.path")];
        let request = |outcome| [("protocol", "grpc"), ("outcome", outcome)];
        let (grpc, refused) = (request("allowed"), request("refused"));
        let resp = [("protocol", "resp"), ("outcome", "refused")];
        let of_rule = "ratelimit_service_rate_limit_over_limit";
        let share = [("by", "share"), ("outcome", "allowed")];
        let store = [("by", "store"), ("outcome", "allowed")];
        let redis_error = "ratelimit.service.call.should_rate_limit.redis_error";
        let service_error = "ratelimit.service.call.should_rate_limit.service_error";
        let unknown = "ratelimit.service.rate_limit.other.domain_not_found";
        let total = "ratelimit_server.ShouldRateLimit.total_requests";
        let cases: [NamesCase<'_>; 9] = [
            (of_rule, &rule, &["ratelimit.service.rate_limit.shop.user_a.path.over_limit"]),
            ("tollgate_rule_over_limit", &rule, &[]),
            ("tollgate_config_load_success", &[], &["ratelimit.service.config_load_success"]),
            ("tollgate_domain_not_found", &[], &[unknown]),
            ("tollgate_store_decisions", &share, &[redis_error]),
            ("tollgate_store_decisions", &store, &[]),
            ("tollgate_requests", &resp, &[]),
            ("tollgate_requests", &grpc, &[total]),
            ("tollgate_requests", &refused, &[total, service_error]),
        ];
        for (name, labels, expected) in cases {
            let told =
                lines(StatsdStyle::Tagged, MetricsNames::Envoyproxy, &series(name, labels, true));
            let line = |name: &&str| format!("{name}:5|c|#app:a:b,zone:eu.1");
            let expected: Vec<String> = expected.iter().map(line).collect();
            let theirs = told.iter().filter(|line| line.starts_with("ratelimit"));
            assert!(theirs.eq(&expected), "{told:?}");
            assert_eq!(told.len() - expected.len(), usize::from(name != of_rule), "{told:?}");
        }
    }
}
