//! Settings that concern probes and Prometheus, from the variables of envoyproxy/ratelimit.

use tollgate_service::HostPort;

use super::addresses::as_in_go;
use super::environment::Environment;
use super::setting::{SettingError, bad};
use super::values::Values;

const USE_PROMETHEUS: &str = "USE_PROMETHEUS";
const ADDR: &str = "PROMETHEUS_ADDR";
const ADDRESSES: &str = "an address, as in :9090 or 127.0.0.1:9090";
const FORCE: &str = "FORCE_START_WITHOUT_INITIAL_CONFIG";
const WAIT: &str = "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED";

pub(super) fn layer(values: &mut Values, environment: &Environment) -> Result<(), SettingError> {
    if environment.truth(USE_PROMETHEUS)?.unwrap_or(false) {
        // The variable also turns on the metric names of envoyproxy/ratelimit.
        values.put_of(USE_PROMETHEUS, "metrics-names", "envoyproxy");
        if !values.has("metrics") {
            let found = environment.text(ADDR);
            let text = found.unwrap_or(":9090");
            let address: HostPort = text.parse().map_err(|_| bad(ADDR, text, ADDRESSES))?;
            let variable = if found.is_some() { ADDR } else { USE_PROMETHEUS };
            values.put_of(variable, "metrics", as_in_go(address).to_string());
        }
    }
    // In envoyproxy/ratelimit health checks wait for rules only if `HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED` is true.
    // But unless `FORCE_START_WITHOUT_INITIAL_CONFIG` is true, it does not even start before it has rules.
    if !values.has("healthy-without-rules") {
        let is_forced = environment.truth(FORCE)?.unwrap_or(false);
        if environment.truth(WAIT)?.unwrap_or(false) {
            values.put_of(WAIT, "healthy-without-rules", "false");
        } else if is_forced {
            values.put_of(FORCE, "healthy-without-rules", "true");
        }
    }
    Ok(())
}
