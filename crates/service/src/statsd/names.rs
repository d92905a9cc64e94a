//! Names of series in StatsD: our own, and those of envoyproxy/ratelimit.

use super::series::SeriesId;
use crate::metrics::RESPONSE_TIMES;

/// Our own name of a family, if the family is ours: `tollgate_rule_hits` is `tollgate.rule_hits`.
pub(super) fn own(family: &str) -> Option<String> {
    family.strip_prefix("tollgate_").map(|name| format!("tollgate.{name}"))
}

/// The prefix of the counters of rules that our metrics have under envoyproxy/ratelimit's names.
const OF_RULES: &str = "ratelimit_service_rate_limit_";

/// Counters of the whole service: our name of each, and its name in envoyproxy/ratelimit.
const OF_ALL: [(&str, &str); 4] = [
    ("tollgate_config_load_success", "ratelimit.service.config_load_success"),
    ("tollgate_config_load_error", "ratelimit.service.config_load_error"),
    ("tollgate_global_shadow_mode", "ratelimit.service.global_shadow_mode"),
    // In envoyproxy/ratelimit the name contains the domain. Requests may bring any number of domains, so here all
    // unknown domains share one name.
    ("tollgate_domain_not_found", "ratelimit.service.rate_limit.other.domain_not_found"),
];

/// The names under which envoyproxy/ratelimit sends the counts of a series. Several of our series may share one of
/// these names.
pub(super) fn theirs(series: &SeriesId) -> Vec<String> {
    let label = |name: &str| {
        let label = series.labels.iter().find(|(found, _)| found == name);
        label.map_or("", |(_, value)| value.as_str())
    };
    if let Some(theirs) = series.name.strip_prefix(OF_RULES) {
        let (domain, rule) = (part(label("domain")), part(label("rule")));
        return vec![format!("ratelimit.service.rate_limit.{domain}.{rule}.{theirs}")];
    }
    if let Some((_, theirs)) = OF_ALL.iter().find(|(ours, _)| *ours == series.name) {
        return vec![(*theirs).to_owned()];
    }
    // These are requests that Redis did not decide. In envoyproxy/ratelimit such a request gets no decision.
    if series.name == "tollgate_store_decisions" && ["share", "rule"].contains(&label("by")) {
        return vec!["ratelimit.service.call.should_rate_limit.redis_error".to_owned()];
    }
    if series.name == "tollgate_requests" && label("protocol") == "grpc" {
        let mut names = vec!["ratelimit_server.ShouldRateLimit.total_requests".to_owned()];
        if label("outcome") == "refused" {
            names.push("ratelimit.service.call.should_rate_limit.service_error".to_owned());
        }
        return names;
    }
    Vec::new()
}

/// The name of response times in envoyproxy/ratelimit, and the milliseconds that a series stands for.
pub(super) fn response_time(series: &SeriesId) -> Option<(&'static str, &str)> {
    let [(_, ms)] = &series.labels[..] else { return None };
    let name = "ratelimit_server.ShouldRateLimit.response_time";
    (series.name == RESPONSE_TIMES).then_some((name, ms))
}

/// A label as part of a name. Dots in it separate parts, as in the path of a rule. The separators of a StatsD line
/// become `_`, as in envoyproxy/ratelimit, and so do characters that some servers do not accept in names.
pub(super) fn part(value: &str) -> String {
    let is_apart =
        |letter: char| letter.is_control() || letter.is_whitespace() || ":|@#,;".contains(letter);
    value.replace(is_apart, "_")
}

/// The value of a tag.
pub(super) fn tag(value: &str) -> String {
    let is_apart = |letter: char| letter.is_control() || "|#,".contains(letter);
    value.replace(is_apart, "_")
}

/// The value of a tag at the end of a name, where a dot would end the value.
pub(super) fn dotless(value: &str) -> String {
    part(value).replace('.', "_")
}
