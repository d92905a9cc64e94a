//! Turns the settings into the options of the service.

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use tollgate_rules::{RuleSettings, Timing};
use tollgate_service::{MetricsNames, Options, RespOptions, RulesFrom, TlsFiles};

use super::args::{MetricsNamesArg, ServeArgs};
use super::environment::Environment;
use super::given::Given;
use super::layers::GRACE;
use super::log::LogLevel;
use super::otlp_settings::traces;
use super::report_settings::statsd_of;
use super::setting::{SettingError, SettingSource};
use super::xds_variables;

/// Returns the options of the service, or the reason why these settings are refused.
pub(super) fn options(given: &Given, environment: &Environment) -> Result<Options, SettingError> {
    given.refuse_halves()?;
    let args = &given.args;
    let path = args.rules.as_deref().ok_or(SettingError::NoRules)?;
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    let password = args.resp_password.clone();
    let (http, grpc) = (
        [&args.http_tls_cert, &args.http_tls_key, &args.http_tls_client_ca],
        [&args.grpc_tls_cert, &args.grpc_tls_key, &args.grpc_tls_client_ca],
    );
    Ok(Options {
        settings: settings(args),
        http: args.http.clone(),
        http_socket: args.http_socket.clone(),
        http_tls: tls(http),
        grpc: args.grpc.clone(),
        grpc_socket: args.grpc_socket.clone(),
        grpc_tls: tls(grpc),
        grpc_max_age: args.grpc_max_age.map(seconds),
        grpc_max_age_grace: args.grpc_max_age_grace.map(seconds),
        resp: args
            .resp
            .clone()
            .map(|address| RespOptions { password, ..RespOptions::new(address) }),
        admin: args.admin.clone(),
        metrics: args.metrics.clone(),
        max_connections: args.max_connections.map(NonZeroUsize::get),
        admin_hosts: args.admin_host.clone(),
        answer_headers: args.response_headers,
        answer_metadata: args.metadata,
        headers: args.headers.clone(),
        trusted_proxies: args.trusted_proxies.clone(),
        metrics_names: match args.metrics_names {
            MetricsNamesArg::Own => MetricsNames::Own,
            MetricsNamesArg::Envoyproxy => MetricsNames::Envoyproxy,
        },
        healthy_without_rules: args.healthy_without_rules,
        linger: Duration::from_secs(args.linger_stop.into()),
        timing: Timing { poll: Duration::from_secs(args.poll.into()), ..Timing::default() },
        state: args.state.clone(),
        state_every: Duration::from_secs(args.state_every.into()),
        global: args.redis.global(),
        log_denials: args.reports.log_denials,
        traces: traces(&args.reports, environment),
        statsd: statsd_of(&args.reports),
        ..Options::new(rules(path, given, environment)?)
    })
}

fn settings(args: &ServeArgs) -> RuleSettings {
    RuleSettings {
        compat: args.compat,
        global_shadow_mode: args.shadow,
        global_quota_mode: args.quota_mode,
        merge_domains: args.merge_domains,
        allow_empty: args.allow_empty,
        linger_rules: args.linger_rules.map(Duration::from_secs),
        default_capacity: args.capacity,
        override_capacity: args.override_capacity,
        max_table_bytes: args.table_bytes,
        max_series: args.max_series,
        near_limit_ratio: args.near_limit_ratio,
        ..RuleSettings::default()
    }
}

/// Returns the source of the rules. If variables name a control plane, it has more settings than its address says.
fn rules(path: &Path, given: &Given, environment: &Environment) -> Result<RulesFrom, SettingError> {
    let is_of_variables =
        given.source("rules") == SettingSource::Envoyproxy(xds_variables::TYPE_NAME);
    let plane = is_of_variables.then(|| xds_variables::rules(environment)).transpose()?.flatten();
    plane.map_or_else(|| RulesFrom::named(path).map_err(SettingError::Address), Ok)
}

/// Returns a certificate, its key, and the authority of its clients.
fn tls<P: AsRef<Path>>([certificate, key, authority]: [&Option<P>; 3]) -> Option<TlsFiles> {
    let path = |file: &Option<P>| file.as_ref().map(|file| file.as_ref().to_owned());
    let of_server = TlsFiles::new(path(certificate)?, path(key)?);
    Some(TlsFiles { client_ca: path(authority), ..of_server })
}

/// Returns a sentence for each setting that has no effect beside the others.
pub(super) fn unheeded(
    given: &Given,
    rules: &RulesFrom,
    environment: &Environment,
) -> impl Iterator<Item = String> {
    let args = &given.args;
    let grace = environment.text(GRACE).filter(|_| args.grpc_max_age.is_none());
    let grace = grace.map(|_| {
        format!("{GRACE} is set and means nothing here: no age is set, so it has none to follow")
    });
    let level = args.log_level;
    let is_unheard = matches!(level, LogLevel::Error | LogLevel::Warn);
    let denials = args.reports.log_denials.filter(|_| is_unheard).map(|_| {
        let source = given.source("log-denials");
        format!("{source} means nothing here: denials are logged at info, and the level is {level}")
    });
    let keeps = matches!(rules, RulesFrom::Xds(_)) && !args.allow_empty;
    let keeps = keeps.then(|| {
        let source = given.source("allow-empty");
        format!("{source} means nothing here: what {rules} does not send any more is gone")
    });
    let is_plane = given.source("rules") == SettingSource::Envoyproxy(xds_variables::TYPE_NAME);
    let skipped = is_plane.then(|| xds_variables::skipped(environment)).into_iter().flatten();
    grace.into_iter().chain(denials).chain(keeps).chain(skipped)
}
