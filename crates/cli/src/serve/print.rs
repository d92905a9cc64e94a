//! `--print-config`: all settings as a file that `--config` reads, each with its value, its source and its names.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Arg;
use tollgate::Policy;
use tollgate_service::{Global, HostPort, RespOptions, TraceSampling};

use super::effective::Effective;
use super::environment::Environment;
use super::given::{Given, command, settings, variable};
use super::report_args::sampling_text;
use super::report_settings::ReportSettings;
use super::setting::{Setting, SettingSource};

const HEAD: &str = "\
# The settings of tollgate serve, in a file that --config reads. Each line ends with where its value comes from, with its
# flag and with its variable. A flag beats a variable, that this file, that the variables of envoyproxy/ratelimit, and
# these the default.
";

/// The value of a setting, as it is shown.
enum Shown {
    /// The value as it is written in the file.
    Written(String),
    /// The setting has no meaning without another one, or has no value.
    Idle(Option<String>),
    /// The value may contain a password.
    Secret,
}

type SettingRows = BTreeMap<&'static str, Setting<Shown>>;

/// The settings that `--print-config` prints.
pub(super) struct PrintedSource<'a> {
    pub(super) effective: &'a Effective,
    pub(super) given: &'a Given,
    pub(super) environment: &'a Environment,
}

impl PrintedSource<'_> {
    /// Prints a line for each setting, below its help. After the settings it prints the warnings that the log would
    /// have, and the variables of envoyproxy/ratelimit that are honoured, since some of these have no setting of their
    /// own.
    pub(super) fn print(&self, warnings: &[String], mut out: impl Write) -> io::Result<()> {
        let Self { effective, given, environment } = self;
        print_settings(&rows(effective, environment), given, &mut out)?;
        let (settings, options) = (effective.settings(), effective.options());
        writeln!(out, "\n# What cannot be set: max-descriptors {}", settings.max_descriptors)?;
        let (entries, bytes) = (settings.max_entries, settings.max_key_bytes);
        writeln!(out, "# max-entries {entries}, max-key-bytes {bytes}")?;
        writeln!(out, "# settle {:?}, grace {:?}", options.timing.settle, options.grace)?;
        for (n, warning) in warnings.iter().enumerate() {
            let head = if n == 0 { "\n# What the log warns of at the start:\n" } else { "" };
            // In a comment quotes need no backslash.
            let warning = warning.escape_debug().to_string().replace("\\'", "'");
            writeln!(out, "{head}# {warning}")?;
        }
        for (n, (name, value)) in environment.heeded().enumerate() {
            let head = "\n# The variables of envoyproxy/ratelimit that are set and honoured:\n";
            let head = if n == 0 { head } else { "" };
            let value = value
                .map_or_else(|| "(set, and not shown)".into(), |v| v.escape_debug().to_string());
            writeln!(out, "{head}# {name}={value}")?;
        }
        out.flush()
    }
}

fn print_settings(rows: &SettingRows, given: &Given, out: &mut impl Write) -> io::Result<()> {
    let command = command();
    write!(out, "{HEAD}")?;
    for (name, arg) in settings(&command) {
        let row = rows.get(name).ok_or_else(|| io::Error::other(name.to_owned()))?;
        // Several settings are one value here, but each has its own source.
        let source = match given.source(name) {
            SettingSource::Default => row.source.clone(),
            source => source,
        };
        let line = match &row.value {
            Shown::Written(value) => format!("{name} = {value}"),
            Shown::Idle(value) => {
                format!("# {name} = {}", value.clone().unwrap_or_else(|| placeholder(arg)))
            }
            Shown::Secret => format!("# {name} = (set, and not shown)"),
        };
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        writeln!(out, "\n# {help}\n{line}  # {source}; --{name}, {}", variable(name))?;
    }
    Ok(())
}

/// The placeholder for a missing value, such as `FILE`.
fn placeholder(arg: &Arg) -> String {
    arg.get_value_names().and_then(<[_]>::first).map(ToString::to_string).unwrap_or_default()
}

/// A basic string of TOML. Every string of JSON is one.
fn text(value: &impl ToString) -> String {
    serde_json::Value::String(value.to_string()).to_string()
}

fn path(path: &Path) -> Shown {
    Shown::Written(text(&path.display()))
}

fn optional<T>(value: Option<T>, shown: impl FnOnce(T) -> Shown) -> Shown {
    value.map_or(Shown::Idle(None), shown)
}

fn number(value: &Option<impl ToString>) -> Shown {
    optional(value.as_ref(), plain)
}

/// A number or a boolean.
fn plain(value: &impl ToString) -> Shown {
    Shown::Written(value.to_string())
}

fn quoted(value: &impl ToString) -> Shown {
    Shown::Written(text(value))
}

fn row<T>(setting: &Setting<T>, shown: impl FnOnce(&T) -> Shown) -> Setting<Shown> {
    Setting { value: shown(&setting.value), source: setting.source.clone() }
}

/// The value of each setting, by its name.
fn rows(all: &Effective, environment: &Environment) -> SettingRows {
    let optional_path = |value: &Option<PathBuf>| optional(value.as_deref(), path);
    let mut rows = BTreeMap::from([
        ("rules", row(&all.rules, quoted)),
        ("poll", row(&all.poll, plain)),
        ("http", row(&all.http, quoted)),
        ("http-socket", row(&all.http_socket, optional_path)),
        ("grpc", row(&all.grpc, quoted)),
        ("grpc-socket", row(&all.grpc_socket, optional_path)),
        ("grpc-max-age", row(&all.grpc_max_age, number)),
        ("grpc-max-age-grace", row(&all.grpc_max_age_grace, number)),
        ("admin", row(&all.admin, quoted)),
        ("metrics", row(&all.metrics, |address| optional(address.as_ref(), quoted))),
        ("max-connections", row(&all.max_connections, number)),
        (
            "admin-host",
            row(&all.admin_hosts, |names| {
                let names: Vec<_> = names.iter().map(text).collect();
                Shown::Written(format!("[{}]", names.join(", ")))
            }),
        ),
        ("compat", row(&all.compat, plain)),
        ("shadow", row(&all.shadow, plain)),
        ("quota-mode", row(&all.quota_mode, plain)),
        ("merge-domains", row(&all.merge_domains, plain)),
        ("response-headers", row(&all.response_headers, plain)),
        ("headers", row(&all.headers, quoted)),
        ("trusted-proxies", row(&all.trusted_proxies, quoted)),
        ("metadata", row(&all.metadata, plain)),
        ("allow-empty", row(&all.allow_empty, plain)),
        ("healthy-without-rules", row(&all.healthy_without_rules, plain)),
        ("linger-rules", row(&all.linger_rules, number)),
        ("state", row(&all.state, optional_path)),
        ("state-every", idle_unless(all.state.value.is_some(), row(&all.state_every, plain))),
        ("capacity", row(&all.capacity, number)),
        ("override-capacity", row(&all.override_capacity, plain)),
        ("table-bytes", row(&all.table_bytes, plain)),
        ("max-series", row(&all.max_series, plain)),
        ("near-limit-ratio", row(&all.near_limit_ratio, plain)),
        (
            "metrics-names",
            row(&all.metrics_names, |names| quoted(&format!("{names:?}").to_lowercase())),
        ),
        ("linger-stop", row(&all.linger_stop, plain)),
        ("log-level", row(&all.log_level, quoted)),
        ("log-format", row(&all.log_format, quoted)),
    ]);
    rows.extend(of_certificates(all));
    rows.extend(of_resp(&all.resp));
    rows.extend(of_redis(&all.redis, environment));
    rows.extend(of_reports(&all.reports));
    rows
}

/// The names of the files, never their contents.
fn of_certificates(all: &Effective) -> SettingRows {
    let http = ["http-tls-cert", "http-tls-key", "http-tls-client-ca"];
    let grpc = ["grpc-tls-cert", "grpc-tls-key", "grpc-tls-client-ca"];
    let mut rows = SettingRows::new();
    for (names, setting) in [(http, &all.http_tls), (grpc, &all.grpc_tls)] {
        let files = setting.value.as_ref();
        let files = [
            files.map(|files| &files.certificate),
            files.map(|files| &files.key),
            files.and_then(|files| files.client_ca.as_ref()),
        ];
        for (name, file) in names.into_iter().zip(files) {
            rows.insert(name, one_of(file.map(|file| path(file)), &setting.source));
        }
    }
    rows
}

/// One of several settings that are one value here. It has no source if it is not given.
fn one_of(shown: Option<Shown>, source: &SettingSource) -> Setting<Shown> {
    match shown {
        Some(value) => Setting { value, source: source.clone() },
        None => Setting { value: Shown::Idle(None), source: SettingSource::Default },
    }
}

fn of_resp(resp: &Setting<Option<RespOptions>>) -> SettingRows {
    let value = resp.value.as_ref();
    let address = value.map(|resp: &RespOptions| -> &HostPort { &resp.address });
    let password = value.and_then(|resp| resp.password.as_ref()).map(|_| Shown::Secret);
    SettingRows::from([
        ("resp", one_of(address.map(quoted), &resp.source)),
        ("resp-password", one_of(password, &resp.source)),
    ])
}

fn of_reports(reports: &ReportSettings) -> SettingRows {
    let (traces, statsd) = (reports.otlp.value.is_some(), reports.statsd.value.is_some());
    let list = |tags: &Vec<(String, String)>| {
        let tags: Vec<_> =
            tags.iter().map(|(name, value)| text(&[&**name, value].join(":"))).collect();
        Shown::Written(format!("[{}]", tags.join(", ")))
    };
    let sampling = |sampling: &TraceSampling| match sampling.follows_caller {
        true => plain(&sampling.of_roots),
        false => quoted(&sampling_text(*sampling)),
    };
    let collector = |url: &Option<String>| optional(url.as_ref(), of_url);
    let quoted_or_none = |value: &Option<Policy>| optional(value.as_ref(), quoted);
    SettingRows::from([
        ("log-denials", row(&reports.log_denials, quoted_or_none)),
        ("otlp", row(&reports.otlp, collector)),
        (
            "otlp-protocol",
            idle_unless(
                traces,
                row(&reports.otlp_protocol, |protocol| {
                    quoted(&format!("{protocol:?}").to_lowercase())
                }),
            ),
        ),
        ("trace-sample", idle_unless(traces, row(&reports.trace_sample, sampling))),
        ("statsd", row(&reports.statsd, |address| optional(address.as_ref(), quoted))),
        ("statsd-every", idle_unless(statsd, row(&reports.statsd_every, plain))),
        (
            "statsd-style",
            idle_unless(
                statsd,
                row(&reports.statsd_style, |style| quoted(&format!("{style:?}").to_lowercase())),
            ),
        ),
        ("statsd-tags", idle_unless(statsd, row(&reports.statsd_tags, list))),
    ])
}

/// A setting that has no meaning without another.
fn idle_unless(is_used: bool, row: Setting<Shown>) -> Setting<Shown> {
    row.map(|shown| match shown {
        Shown::Written(value) if !is_used => Shown::Idle(Some(value)),
        shown => shown,
    })
}

/// A URL as it is shown. It may contain a password before an @, or in its arguments.
fn of_url(url: &String) -> Shown {
    if url.contains(['@', '?']) { Shown::Secret } else { quoted(url) }
}

fn of_redis(redis: &Setting<Option<Global>>, environment: &Environment) -> SettingRows {
    // A flag is its own source. Without one the value comes from a variable.
    let source = |variable: &'static str| match environment.text(variable) {
        Some(_) => SettingSource::Variable(variable.into()),
        None => SettingSource::Default,
    };
    // The value that it would have with a Redis.
    let usual = Global::new("");
    let global = redis.value.as_ref().unwrap_or(&usual);
    let with_redis = |value: String, source: SettingSource| match redis.value {
        Some(_) => Setting { value: Shown::Written(value), source },
        None => Setting { value: Shown::Idle(Some(value)), source: SettingSource::Default },
    };
    let own = || SettingSource::Default;
    let prefix = |global: &Global| text(global.envoyproxy.as_ref().unwrap_or(&global.prefix));
    let keys = if global.envoyproxy.is_some() { "envoyproxy" } else { "own" };
    let deadline = global.deadline.as_millis().to_string();
    let file =
        |file: &Option<PathBuf>, variable| one_of(file.as_deref().map(path), &source(variable));
    let address = redis.value.as_ref().map(|global| of_url(&global.address));
    SettingRows::from([
        ("redis", one_of(address, &redis.source)),
        ("nodes", with_redis(global.nodes.to_string(), own())),
        ("on-error", with_redis(text(&global.on_error.word()), own())),
        ("redis-deadline", with_redis(deadline, source("REDIS_TIMEOUT"))),
        ("redis-prefix", with_redis(prefix(global), source("CACHE_KEY_PREFIX"))),
        ("redis-keys", with_redis(text(&keys), own())),
        ("redis-tls-ca", file(&global.authority, "REDIS_TLS_CACERT")),
        ("redis-tls-cert", file(&global.certificate, "REDIS_TLS_CLIENT_CERT")),
        ("redis-tls-key", file(&global.key, "REDIS_TLS_CLIENT_KEY")),
    ])
}
