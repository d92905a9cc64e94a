//! [`Effective`]: the settings of the service, each with the source of its value.
//!
//! A value that is [`Given`] takes precedence over the variables of envoyproxy/ratelimit, and these over the default.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_rules::{Settings, Timing};
use tollgate_service::{
    AnswerParts, Global, Headers, HostName, HostPort, MetricsNames, Options, RespOptions,
    RulesFrom, StateFile, TlsFiles, TrustedProxies,
};

use super::args::MetricsNamesArg;
use super::certificates::{grpc_tls, http_tls};
use super::environment::{BadVariable, Environment};
use super::given::Given;
use super::log::{Format, LogLevel};
use super::redis_variables;
use super::report_settings::ReportSettings;
use super::setting::{Setting, SettingError, SettingSource, VariableValue, first, optional, own};
use super::{addresses, watched, xds_variables};
use crate::serve_redis::HalfGiven;

/// All settings.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Effective {
    pub(super) rules: Setting<RulesFrom>,
    pub(super) poll: Setting<u16>,
    pub(super) http: Setting<HostPort>,
    pub(super) http_socket: Setting<Option<PathBuf>>,
    pub(super) http_tls: Setting<Option<TlsFiles>>,
    pub(super) grpc: Setting<HostPort>,
    pub(super) grpc_socket: Setting<Option<PathBuf>>,
    pub(super) grpc_tls: Setting<Option<TlsFiles>>,
    /// The age in seconds.
    pub(super) grpc_max_age: Setting<Option<u32>>,
    pub(super) grpc_max_age_grace: Setting<Option<u32>>,
    /// Its password is not printed.
    pub(super) resp: Setting<Option<RespOptions>>,
    pub(super) admin: Setting<HostPort>,
    pub(super) metrics: Setting<Option<HostPort>>,
    pub(super) max_connections: Setting<Option<NonZeroUsize>>,
    pub(super) admin_hosts: Setting<Vec<HostName>>,
    pub(super) compat: Setting<bool>,
    pub(super) shadow: Setting<bool>,
    pub(super) quota_mode: Setting<bool>,
    pub(super) merge_domains: Setting<bool>,
    pub(super) response_headers: Setting<bool>,
    pub(super) headers: Setting<Headers>,
    pub(super) trusted_proxies: Setting<TrustedProxies>,
    pub(super) metadata: Setting<bool>,
    pub(super) allow_empty: Setting<bool>,
    pub(super) healthy_without_rules: Setting<bool>,
    pub(super) linger_rules: Setting<Option<u64>>,
    pub(super) state: Setting<Option<PathBuf>>,
    pub(super) state_every: Setting<u16>,
    pub(super) capacity: Setting<Option<usize>>,
    pub(super) override_capacity: Setting<usize>,
    pub(super) table_bytes: Setting<u64>,
    pub(super) max_series: Setting<usize>,
    pub(super) near_limit_ratio: Setting<f64>,
    pub(super) metrics_names: Setting<MetricsNamesArg>,
    pub(super) linger_stop: Setting<u16>,
    /// Its address may contain a password, so it is not printed.
    pub(super) redis: Setting<Option<Global>>,
    pub(super) reports: ReportSettings,
    pub(super) log_level: Setting<LogLevel>,
    pub(super) log_format: Setting<Format>,
}

impl Effective {
    /// A sentence for each setting that has no effect beside the others.
    pub(super) fn unheeded(&self, environment: &Environment) -> impl Iterator<Item = String> {
        let grace = environment.text(GRACE).filter(|_| self.grpc_max_age.value.is_none());
        let grace = grace.map(|_| {
            format!(
                "{GRACE} is set and means nothing here: no age is set, so it has none to follow"
            )
        });
        let (denials, level) = (&self.reports.log_denials, self.log_level.value);
        let is_unheard = matches!(level, LogLevel::Error | LogLevel::Warn);
        let denials = denials.value.filter(|_| is_unheard).map(|_| {
            let source = &denials.source;
            format!(
                "{source} means nothing here: denials are logged at info, and the level is {level}"
            )
        });
        let (rules, allow) = (&self.rules.value, &self.allow_empty);
        let keeps = matches!(rules, RulesFrom::Xds(_)) && !allow.value;
        let keeps = keeps.then(|| {
            let source = &allow.source;
            format!("{source} means nothing here: what {rules} does not send any more is gone")
        });
        let is_plane =
            self.rules.source == SettingSource::Variable(xds_variables::TYPE_NAME.into());
        let skipped = is_plane.then(|| xds_variables::skipped(environment)).into_iter().flatten();
        grace.into_iter().chain(denials).chain(keeps).chain(skipped)
    }

    pub(super) fn resolve(given: &Given, environment: &Environment) -> Result<Self, SettingError> {
        environment.refuse_what_would_mislead()?;
        let (args, defaults) = (&given.args, Settings::default());
        let truth = |flag, name, variable| -> Result<Setting<bool>, BadVariable> {
            let of_variable = VariableValue::of(variable, environment.truth(variable)?);
            Ok(first(given.setting(name, flag), of_variable, false))
        };
        let uds = VariableValue::of("GRPC_UDS", environment.text("GRPC_UDS").map(PathBuf::from));
        let level = environment.parsed("LOG_LEVEL", LogLevel::ACCEPTED)?;
        let format = environment.parsed("LOG_FORMAT", Format::ACCEPTED)?;
        let rules = rules(given, environment)?;
        let is_xds = matches!(rules.value, RulesFrom::Xds(_));
        let compat = compat(given, &rules);
        let hosts = Some(args.admin_host.clone()).filter(|names| !names.is_empty());
        let [grpc_max_age, grpc_max_age_grace] = grpc_max_age(given, environment)?;
        Ok(Self {
            poll: own(given.setting("poll", args.poll), usual_poll(&rules.value)),
            rules,
            http: addresses::http(given, environment)?,
            http_socket: given.setting("http-socket", args.http_socket.clone()),
            http_tls: http_tls(given)?,
            grpc: addresses::grpc(given, environment)?,
            grpc_socket: optional(given.setting("grpc-socket", args.grpc_socket.clone()), uds),
            grpc_tls: grpc_tls(given, environment)?,
            grpc_max_age,
            grpc_max_age_grace,
            resp: resp(given)?,
            admin: addresses::admin(given, environment)?,
            metrics: watched::metrics(given, environment)?,
            max_connections: given.setting("max-connections", args.max_connections),
            admin_hosts: own(given.setting("admin-host", hosts), Vec::new()),
            compat,
            shadow: truth(args.shadow, "shadow", "SHADOW_MODE")?,
            quota_mode: truth(args.quota_mode, "quota-mode", "QUOTA_MODE")?,
            merge_domains: truth(args.merge_domains, "merge-domains", "MERGE_DOMAIN_CONFIG")?,
            response_headers: truth(
                args.response_headers,
                "response-headers",
                "LIMIT_RESPONSE_HEADERS_ENABLED",
            )?,
            headers: own(given.setting("headers", args.headers.clone()), Headers::default()),
            trusted_proxies: own(
                given.setting("trusted-proxies", args.trusted_proxies.clone()),
                TrustedProxies::default(),
            ),
            metadata: truth(args.metadata, "metadata", "RESPONSE_DYNAMIC_METADATA")?,
            // A control plane sends the state of the world, so a domain that is missing from it is gone.
            allow_empty: own(given.setting("allow-empty", args.allow_empty), is_xds),
            healthy_without_rules: watched::healthy_without_rules(given, environment)?,
            linger_rules: given.setting("linger-rules", args.linger_rules),
            state: given.setting("state", args.state.clone()),
            state_every: state_every(given)?,
            capacity: given.setting("capacity", args.capacity),
            override_capacity: own(
                given.setting("override-capacity", args.override_capacity),
                defaults.override_capacity,
            ),
            table_bytes: own(
                given.setting("table-bytes", args.table_bytes),
                defaults.max_table_bytes,
            ),
            max_series: own(given.setting("max-series", args.max_series), defaults.max_series),
            near_limit_ratio: watched::near_limit_ratio(given, environment)?,
            metrics_names: watched::metrics_names(given, environment)?,
            linger_stop: own(given.setting("linger-stop", args.linger_stop), LINGER_STOP),
            redis: redis(given, environment)?,
            reports: ReportSettings::resolve(given, environment)?,
            log_level: first(
                given.setting("log-level", args.log_level),
                VariableValue::of("LOG_LEVEL", level),
                LogLevel::Info,
            ),
            log_format: first(
                given.setting("log-format", args.log_format),
                VariableValue::of("LOG_FORMAT", format),
                Format::Text,
            ),
        })
    }

    /// The options of the service.
    pub(super) fn options(&self) -> Options {
        let every = Duration::from_secs(self.state_every.value.into());
        let seconds = |seconds: Option<u32>| seconds.map(|s| Duration::from_secs(s.into()));
        self.reports.with(Options {
            settings: self.settings(),
            http: self.http.value.clone(),
            http_socket: self.http_socket.value.clone(),
            http_tls: self.http_tls.value.clone(),
            grpc: self.grpc.value.clone(),
            grpc_socket: self.grpc_socket.value.clone(),
            grpc_tls: self.grpc_tls.value.clone(),
            grpc_max_age: seconds(self.grpc_max_age.value),
            grpc_max_age_grace: seconds(self.grpc_max_age_grace.value),
            resp: self.resp.value.clone(),
            admin: self.admin.value.clone(),
            metrics: self.metrics.value.clone(),
            max_connections: self.max_connections.value.map(NonZeroUsize::get),
            admin_hosts: self.admin_hosts.value.clone(),
            answers: AnswerParts {
                headers: self.response_headers.value,
                metadata: self.metadata.value,
            },
            headers: self.headers.value.clone(),
            trusted_proxies: self.trusted_proxies.value.clone(),
            metrics_names: match self.metrics_names.value {
                MetricsNamesArg::Own => MetricsNames::Own,
                MetricsNamesArg::Envoyproxy => MetricsNames::Envoyproxy,
            },
            healthy_without_rules: self.healthy_without_rules.value,
            linger: Duration::from_secs(self.linger_stop.value.into()),
            timing: Timing {
                poll: Duration::from_secs(self.poll.value.into()),
                ..Timing::default()
            },
            state: self.state.value.clone().map(|path| StateFile { path, every }),
            global: self.redis.value.clone(),
            ..Options::new(self.rules.value.clone())
        })
    }

    pub(super) fn settings(&self) -> Settings {
        Settings {
            compat: self.compat.value,
            global_shadow_mode: self.shadow.value,
            global_quota_mode: self.quota_mode.value,
            merge_domains: self.merge_domains.value,
            allow_empty: self.allow_empty.value,
            linger_rules: self.linger_rules.value.map(Duration::from_secs),
            default_capacity: self.capacity.value,
            override_capacity: self.override_capacity.value,
            max_table_bytes: self.table_bytes.value,
            max_series: self.max_series.value,
            near_limit_ratio: self.near_limit_ratio.value,
            ..Settings::default()
        }
    }
}

/// Within this time a health check that runs every second has noticed the stop.
const LINGER_STOP: u16 = 2;

const GRACE: &str = "GRPC_MAX_CONNECTION_AGE_GRACE";

/// The maximum age of gRPC connections, and the grace after it.
fn grpc_max_age(
    given: &Given,
    environment: &Environment,
) -> Result<[Setting<Option<u32>>; 2], SettingError> {
    let variable = |name: &'static str| -> Result<_, BadVariable> {
        let age = environment.duration(name, Duration::ZERO..=MAX_AGE, AGES)?;
        // 0 means no age, as in envoyproxy/ratelimit; less than a second is rounded up to one.
        let seconds = age.map(|age| age.as_secs() + u64::from(age.subsec_nanos() > 0));
        let seconds = seconds.and_then(|seconds| u32::try_from(seconds).ok());
        Ok(VariableValue::of(name, seconds.filter(|seconds| *seconds > 0)))
    };
    let args = &given.args;
    let age = given.setting("grpc-max-age", args.grpc_max_age);
    let age = optional(age, variable("GRPC_MAX_CONNECTION_AGE")?);
    let grace = given.setting("grpc-max-age-grace", args.grpc_max_age_grace);
    let grace = optional(grace, variable(GRACE)?);
    match grace.source {
        _ if age.value.is_some() || grace.value.is_none() => Ok([age, grace]),
        // In envoyproxy/ratelimit connections have an age by default. Here they do not, so the grace has no effect,
        // which is logged.
        SettingSource::Variable(name) if name == GRACE => {
            Ok([age, Setting { value: None, source: SettingSource::Default }])
        }
        _ => {
            let found = given.name_of("grpc-max-age-grace");
            Err(SettingError::Half { found, missing: "--grpc-max-age" })
        }
    }
}

fn resp(given: &Given) -> Result<Setting<Option<RespOptions>>, SettingError> {
    let address = given.setting("resp", given.args.resp.clone());
    let password = given.args.resp_password.clone();
    match (&address.value, &password) {
        (None, Some(_)) => {
            let found = given.name_of("resp-password");
            Err(SettingError::Half { found, missing: "--resp" })
        }
        _ => Ok(address.map(|address| {
            address.map(|address| RespOptions { password, ..RespOptions::new(address) })
        })),
    }
}

/// The time between two writes of the state. It is refused if there is no file to write.
fn state_every(given: &Given) -> Result<Setting<u16>, SettingError> {
    if given.args.state_every.is_some() && given.args.state.is_none() {
        let found = given.name_of("state-every");
        return Err(SettingError::Half { found, missing: "--state" });
    }
    Ok(own(given.setting("state-every", given.args.state_every), 60))
}

fn redis(
    given: &Given,
    environment: &Environment,
) -> Result<Setting<Option<Global>>, SettingError> {
    let of_variables = redis_variables::global(environment)?;
    let source = match (&given.args.redis.redis, &of_variables) {
        (None, Some(_)) => SettingSource::Variable("REDIS_URL".into()),
        _ => given.source("redis"),
    };
    let half = |HalfGiven { found, missing }| {
        let found = given.name_of(found.trim_start_matches('-'));
        SettingError::Half { found, missing }
    };
    let prefix = environment.text("CACHE_KEY_PREFIX");
    Ok(Setting { value: given.args.redis.global(of_variables, prefix).map_err(half)?, source })
}

/// The control plane of `CONFIG_TYPE`, or `RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY`, if no other is
/// given.
fn rules(given: &Given, environment: &Environment) -> Result<Setting<RulesFrom>, SettingError> {
    if let Some(path) = &given.args.rules {
        let value = RulesFrom::named(path).map_err(SettingError::Address)?;
        return Ok(Setting { value, source: given.source("rules") });
    }
    let of_variable =
        |value, name: &'static str| Setting { value, source: SettingSource::Variable(name.into()) };
    if let Some(value) = xds_variables::rules(environment)? {
        return Ok(of_variable(value, xds_variables::TYPE_NAME));
    }
    let root = environment.text("RUNTIME_ROOT");
    let subdirectory = environment.text("RUNTIME_SUBDIRECTORY");
    let source = match (root, subdirectory) {
        (None, None) => return Err(SettingError::NoRules),
        (Some(_), None) => "RUNTIME_ROOT",
        (None, Some(_)) => "RUNTIME_SUBDIRECTORY",
        (Some(_), Some(_)) => "RUNTIME_ROOT, RUNTIME_SUBDIRECTORY",
    };
    // The defaults are envoyproxy/ratelimit's.
    let mut value = PathBuf::from(root.unwrap_or("/srv/runtime_data/current"));
    value.extend(subdirectory);
    value.push(environment.text("RUNTIME_APPDIRECTORY").unwrap_or("config"));
    Ok(of_variable(RulesFrom::Files(value), source))
}

/// Rules from a control plane, and rules that are found by the variables of envoyproxy/ratelimit, count hits as
/// envoyproxy/ratelimit does, unless `--compat=false` says otherwise.
fn compat(given: &Given, rules: &Setting<RulesFrom>) -> Setting<bool> {
    let is_as_there = given.args.rules.is_none() || matches!(rules.value, RulesFrom::Xds(_));
    match given.args.compat {
        None if is_as_there => Setting { value: true, source: rules.source.clone() },
        compat => own(given.setting("compat", compat), false),
    }
}

/// Seconds between two readings. Files are also watched; a hash in Redis is not, but polling its version is cheap.
fn usual_poll(rules: &RulesFrom) -> u16 {
    match rules {
        // A control plane says itself when there is something new.
        RulesFrom::Files(_) | RulesFrom::Xds(_) => 30,
        RulesFrom::Redis(_) => 5,
    }
}

const AGES: &str = "a time up to 8760h, as in 24h, or 0 for none";

const MAX_AGE: Duration = Duration::from_secs(8_760 * 3_600);
