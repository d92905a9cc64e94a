//! [`LAYERS`]: the values of settings that are given neither by a flag nor by one of Tollgate's own variables nor by
//! the file.
//!
//! Each layer turns variables of envoyproxy/ratelimit into the texts of settings, as if they were written behind their
//! flags. The last layer makes the defaults that depend on other settings. A layer gives no value to a setting that has
//! one, and does not even read the variable of such a setting. A bad value in this variable would change nothing, so it
//! does not keep the service from starting.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_service::RulesFrom;

use super::environment::Environment;
use super::setting::{SettingError, SettingSource};
use super::values::{Layer, Values};
use super::{
    addresses, certificates, otlp_settings, redis_variables, report_settings, watched,
    xds_variables,
};

/// All layers. Later layers look at the values of earlier layers.
pub(super) const LAYERS: [Layer; 10] = [
    same,
    rules,
    addresses::layer,
    certificates::layer,
    grpc_max_age,
    watched::layer,
    otlp_settings::layer,
    report_settings::layer,
    redis_variables::layer,
    usual,
];

/// The variables that have the same texts as our settings.
const TEXTS: [(&str, &str); 4] = [
    ("GRPC_UDS", "grpc-socket"),
    ("LOG_LEVEL", "log-level"),
    ("LOG_FORMAT", "log-format"),
    ("NEAR_LIMIT_RATIO", "near-limit-ratio"),
];

/// The variables of settings that are true or false, in the notation of Go.
const TRUTHS: [(&str, &str); 5] = [
    ("SHADOW_MODE", "shadow"),
    ("QUOTA_MODE", "quota-mode"),
    ("MERGE_DOMAIN_CONFIG", "merge-domains"),
    ("LIMIT_RESPONSE_HEADERS_ENABLED", "response-headers"),
    ("RESPONSE_DYNAMIC_METADATA", "metadata"),
];

fn same(values: &mut Values, environment: &Environment) -> Result<(), SettingError> {
    environment.refuse_what_would_mislead()?;
    for (variable, name) in TEXTS {
        if let Some(text) = environment.text(variable) {
            values.put_of(variable, name, text);
        }
    }
    for (variable, name) in TRUTHS {
        if !values.has(name)
            && let Some(truth) = environment.truth(variable)?
        {
            values.put_of(variable, name, truth.to_string());
        }
    }
    Ok(())
}

/// Finds the rules: the control plane of `CONFIG_TYPE`, or `RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY`.
fn rules(values: &mut Values, environment: &Environment) -> Result<(), SettingError> {
    if values.has("rules") {
        return Ok(());
    }
    if let Some(plane) = xds_variables::rules(environment)? {
        values.put_of(xds_variables::TYPE_NAME, "rules", plane.to_string());
        return Ok(());
    }
    let root = environment.text("RUNTIME_ROOT");
    let subdirectory = environment.text("RUNTIME_SUBDIRECTORY");
    let variable = match (root, subdirectory) {
        (None, None) => return Ok(()),
        (Some(_), None) => "RUNTIME_ROOT",
        (None, Some(_)) => "RUNTIME_SUBDIRECTORY",
        (Some(_), Some(_)) => "RUNTIME_ROOT, RUNTIME_SUBDIRECTORY",
    };
    // The defaults are envoyproxy/ratelimit's.
    let mut path = PathBuf::from(root.unwrap_or("/srv/runtime_data/current"));
    path.extend(subdirectory);
    path.push(environment.text("RUNTIME_APPDIRECTORY").unwrap_or("config"));
    values.put_of(variable, "rules", path);
    Ok(())
}

pub(super) const GRACE: &str = "GRPC_MAX_CONNECTION_AGE_GRACE";

const AGES: &str = "a time up to 8760h, as in 24h, or 0 for none";

const MAX_AGE: Duration = Duration::from_secs(8_760 * 3_600);

/// Sets the maximum age of gRPC connections, and the grace after it.
fn grpc_max_age(values: &mut Values, environment: &Environment) -> Result<(), SettingError> {
    for (variable, name) in
        [("GRPC_MAX_CONNECTION_AGE", "grpc-max-age"), (GRACE, "grpc-max-age-grace")]
    {
        if values.has(name) {
            continue;
        }
        let age = environment.duration(variable, Duration::ZERO..=MAX_AGE, AGES)?;
        // 0 means no age, as in envoyproxy/ratelimit; less than a second is rounded up to one.
        let seconds = age.map_or(0, |age| age.as_secs() + u64::from(age.subsec_nanos() > 0));
        // In envoyproxy/ratelimit connections have a maximum age by default. Here they have none, so a grace without a
        // maximum age has no effect, which is logged.
        if seconds > 0 && (variable != GRACE || values.has("grpc-max-age")) {
            values.put_of(variable, name, seconds.to_string());
        }
    }
    Ok(())
}

/// Sets the defaults that depend on other settings.
fn usual(values: &mut Values, _: &Environment) -> Result<(), SettingError> {
    let Some(rules) = values.text("rules") else { return Ok(()) };
    let kind = RulesFrom::named(Path::new(rules)).map_err(SettingError::Address)?;
    let (is_redis, is_plane) =
        (matches!(kind, RulesFrom::Redis(_)), matches!(kind, RulesFrom::Xds(_)));
    if is_redis {
        // A hash in Redis is not watched, as files are, but polling its version is cheap.
        values.put("poll", "5", SettingSource::Default);
    }
    if is_plane {
        // A control plane always sends all domains, so a domain that is missing is gone.
        values.put("allow-empty", "true", SettingSource::Default);
    }
    let source = values.source("rules");
    if is_plane || matches!(source, SettingSource::Envoyproxy(_)) {
        // Hits are then counted as envoyproxy/ratelimit does, unless `--compat=false` says otherwise.
        values.put("compat", "true", source);
    }
    if values.text("redis-keys").is_some_and(|keys| keys == "envoyproxy") {
        values.put("redis-prefix", "", SettingSource::Default);
    }
    Ok(())
}
