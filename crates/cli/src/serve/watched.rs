//! Settings that concern probes and Prometheus, from flags and variables.

use tollgate_rules::Settings;
use tollgate_service::{BadHostPort, HostPort};

use super::addresses::as_in_go;
use super::args::MetricsNamesArg;
use super::environment::{BadVariable, Environment};
use super::given::Given;
use super::setting::{Setting, VariableValue, first, optional};

const USE_PROMETHEUS: &str = "USE_PROMETHEUS";

const RATIO: &str = "a share from 0 to 1, as in 0.8";

/// The address that serves `/metrics` alone. Variables name one if `USE_PROMETHEUS` is true, as in envoyproxy/ratelimit.
pub(super) fn metrics(
    given: &Given,
    environment: &Environment,
) -> Result<Setting<Option<HostPort>>, BadVariable> {
    const ADDR: &str = "PROMETHEUS_ADDR";
    let flag = given.setting("metrics", given.args.metrics.clone());
    if flag.value.is_some() || !environment.truth(USE_PROMETHEUS)?.unwrap_or(false) {
        return Ok(flag);
    }
    let found = environment.text(ADDR);
    let text = found.unwrap_or(":9090");
    let accepted = "an address, as in :9090 or 127.0.0.1:9090";
    let refused = |_: BadHostPort| BadVariable { name: ADDR, found: text.to_owned(), accepted };
    let name = if found.is_some() { ADDR } else { USE_PROMETHEUS };
    let address = text.parse().map(as_in_go).map_err(refused)?;
    Ok(optional(flag, VariableValue::of(name, Some(address))))
}

/// Whether health checks succeed before there are rules. In envoyproxy/ratelimit they wait for rules only if
/// `HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED` is true; but without `FORCE_START_WITHOUT_INITIAL_CONFIG` it does not even
/// start before it has rules.
pub(super) fn healthy_without_rules(
    given: &Given,
    environment: &Environment,
) -> Result<Setting<bool>, BadVariable> {
    const FORCE: &str = "FORCE_START_WITHOUT_INITIAL_CONFIG";
    const WAIT: &str = "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED";
    let is_forced = environment.truth(FORCE)?.unwrap_or(false);
    let variable = match environment.truth(WAIT)? {
        Some(true) => VariableValue::of(WAIT, Some(false)),
        _ => VariableValue::of(FORCE, is_forced.then_some(true)),
    };
    let flag = given.setting("healthy-without-rules", given.args.healthy_without_rules);
    Ok(first(flag, variable, false))
}

/// The names of metrics. `USE_PROMETHEUS` also turns on the names of envoyproxy/ratelimit.
pub(super) fn metrics_names(
    given: &Given,
    environment: &Environment,
) -> Result<Setting<MetricsNamesArg>, BadVariable> {
    let uses_prometheus = environment.truth(USE_PROMETHEUS)?.unwrap_or(false);
    let flag = given.setting("metrics-names", given.args.metrics_names);
    let names = uses_prometheus.then_some(MetricsNamesArg::Envoyproxy);
    Ok(first(flag, VariableValue::of(USE_PROMETHEUS, names), MetricsNamesArg::Own))
}

pub(super) fn near_limit_ratio(
    given: &Given,
    environment: &Environment,
) -> Result<Setting<f64>, BadVariable> {
    const NAME: &str = "NEAR_LIMIT_RATIO";
    let ratio: Option<f64> = environment.parsed(NAME, RATIO)?;
    if let Some(bad) = ratio.filter(|ratio| !(0.0..=1.0).contains(ratio)) {
        return Err(BadVariable { name: NAME, found: bad.to_string(), accepted: RATIO });
    }
    let flag = given.setting("near-limit-ratio", given.args.near_limit_ratio);
    Ok(first(flag, VariableValue::of(NAME, ratio), Settings::default().near_limit_ratio))
}
