//! The names of series in StatsD: our own names, and the names that envoyproxy/ratelimit uses.

use super::series::SeriesId;
use crate::metrics::RESPONSE_TIMES;

/// Our own name in StatsD for a family: `tollgate.rule_hits` for `tollgate_rule_hits`. `None` if the family is not
/// ours.
pub(super) fn own(family: &str) -> Option<String> {
    family.strip_prefix("tollgate_").map(|name| format!("tollgate.{name}"))
}

/// The prefix of the counters of rules that our metrics have under envoyproxy/ratelimit's names.
const OF_RULES: &str = "ratelimit_service_rate_limit_";

/// Counters of the whole service: our name for each counter, and its name in envoyproxy/ratelimit.
const OF_ALL: [(&str, &str); 4] = [
    ("tollgate_config_load_success", "ratelimit.service.config_load_success"),
    ("tollgate_config_load_error", "ratelimit.service.config_load_error"),
    ("tollgate_global_shadow_mode", "ratelimit.service.global_shadow_mode"),
    // In envoyproxy/ratelimit this name contains the domain. Requests may bring any number of unknown domains, so here
    // they all share the name `other`.
    ("tollgate_domain_not_found", "ratelimit.service.rate_limit.other.domain_not_found"),
];

/// The names under which envoyproxy/ratelimit sends the counts of a series. Several of our series may have the same
/// such name.
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
    // Redis did not decide these requests. In envoyproxy/ratelimit such a request fails with this error.
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

/// For a series of response times: their name in envoyproxy/ratelimit, and the time in milliseconds that the series
/// stands for.
pub(super) fn response_time(series: &SeriesId) -> Option<(&'static str, &str)> {
    let [(_, ms)] = &series.labels[..] else { return None };
    let name = "ratelimit_server.ShouldRateLimit.response_time";
    (series.name == RESPONSE_TIMES).then_some((name, ms))
}

/// A label's value in the form in which it is part of a name. A dot in it separates two parts, as in the path of a
/// rule. The separators of a StatsD line become `_`, as in envoyproxy/ratelimit, and so do characters that some servers
/// do not accept in names.
pub(super) fn part(value: &str) -> String {
    let is_apart =
        |letter: char| letter.is_control() || letter.is_whitespace() || ":|@#,;".contains(letter);
    value.replace(is_apart, "_")
}

/// The value of a tag in the form in which it is written.
pub(super) fn tag(value: &str) -> String {
    let is_apart = |letter: char| letter.is_control() || "|#,".contains(letter);
    value.replace(is_apart, "_")
}

/// The value of a tag that is part of a name. A dot becomes `_`, because it would end the value.
pub(super) fn dotless(value: &str) -> String {
    part(value).replace('.', "_")
}
