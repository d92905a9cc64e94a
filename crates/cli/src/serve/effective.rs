//! [`Effective`]: the settings of the service, and where each value comes from.
//!
//! A flag takes precedence over an environment variable, and that over the default.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tollgate_rules::{Settings, Timing};
use tollgate_service::{
    AnswerParts, BadTrustedProxies, Global, Headers, HostName, MetricsNames, Options, RespOptions,
    RulesFrom, StateFile, TlsFiles, TrustedProxies,
};

use super::args::{MetricsNamesArg, ServeArgs};
use super::certificates::{grpc_tls, http_tls};
use super::environment::{BadVariable, Environment, refuse_what_would_mislead};
use super::log::{Format, LogLevel};
use super::redis_variables;
use super::setting::{Setting, SettingError, SettingSource, first, of_flag, optional};
use super::xds_variables;

/// All settings.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Effective {
    pub(super) rules: Setting<RulesFrom>,
    pub(super) poll: Setting<u16>,
    pub(super) http: Setting<SocketAddr>,
    pub(super) http_socket: Setting<Option<PathBuf>>,
    pub(super) http_tls: Setting<Option<TlsFiles>>,
    pub(super) grpc: Setting<SocketAddr>,
    pub(super) grpc_socket: Setting<Option<PathBuf>>,
    pub(super) grpc_tls: Setting<Option<TlsFiles>>,
    /// Its password is not printed.
    pub(super) resp: Setting<Option<RespOptions>>,
    pub(super) admin: Setting<SocketAddr>,
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
    pub(super) linger_rules: Setting<Option<u64>>,
    pub(super) state: Setting<Option<PathBuf>>,
    pub(super) state_every: Setting<u16>,
    pub(super) capacity: Setting<usize>,
    pub(super) override_capacity: Setting<usize>,
    pub(super) table_bytes: Setting<u64>,
    pub(super) near_limit_ratio: Setting<f64>,
    pub(super) metrics_names: Setting<MetricsNamesArg>,
    pub(super) linger_stop: Setting<u16>,
    /// Its address may contain a password, so it is not printed.
    pub(super) redis: Setting<Option<Global>>,
    pub(super) log_level: Setting<LogLevel>,
    pub(super) log_format: Setting<Format>,
}

const NO_VARIABLE: &str = "";

const RESP: &str = "TOLLGATE_RESP";
const RESP_PASSWORD: &str = "TOLLGATE_RESP_PASSWORD";
const PROXIES: &str = "TOLLGATE_TRUSTED_PROXIES";
const OVERRIDES: &str = "TOLLGATE_OVERRIDE_CAPACITY";

const HEADERS: &str = "styles of headers as in draft-10,x-ratelimit, or none";

impl Effective {
    pub(super) fn resolve(
        args: &ServeArgs,
        environment: &Environment,
    ) -> Result<Self, SettingError> {
        let truth = |flag, flag_name, name| -> Result<Setting<bool>, BadVariable> {
            Ok(first((flag, flag_name), (environment.truth(name)?, name), false))
        };
        refuse_what_would_mislead(environment)?;
        let defaults = Settings::default();
        let loopback = Ipv4Addr::LOCALHOST.into();
        let everywhere = Ipv4Addr::UNSPECIFIED.into();
        let uds = environment.text("GRPC_UDS").map(PathBuf::from);
        let ratio = environment.parsed("NEAR_LIMIT_RATIO", RATIO)?.map(check_ratio).transpose()?;
        let level = environment.parsed("LOG_LEVEL", LogLevel::ACCEPTED)?;
        let format = environment.parsed("LOG_FORMAT", Format::ACCEPTED)?;
        let rules = rules(args, environment)?;
        Ok(Self {
            poll: of_flag((args.poll, "--poll"), usual_poll(&rules.value)),
            rules,
            http: address((args.http, "--http"), HTTP, (everywhere, 8080), environment)?,
            http_socket: optional((args.http_socket.clone(), "--http-socket"), (None, NO_VARIABLE)),
            http_tls: optional((http_tls(args)?, "--http-tls-cert"), (None, NO_VARIABLE)),
            grpc: address((args.grpc, "--grpc"), GRPC, (everywhere, 8081), environment)?,
            grpc_socket: optional((args.grpc_socket.clone(), "--grpc-socket"), (uds, "GRPC_UDS")),
            grpc_tls: grpc_tls(args, environment)?,
            resp: resp(args, environment)?,
            admin: address((args.admin, "--admin"), ADMIN, (loopback, 6070), environment)?,
            admin_hosts: of_flag(
                (Some(args.admin_host.clone()).filter(|names| !names.is_empty()), "--admin-host"),
                Vec::new(),
            ),
            compat: of_flag((args.compat, "--compat"), false),
            shadow: truth(args.shadow, "--shadow", "SHADOW_MODE")?,
            quota_mode: truth(args.quota_mode, "--quota-mode", "QUOTA_MODE")?,
            merge_domains: truth(args.merge_domains, "--merge-domains", "MERGE_DOMAIN_CONFIG")?,
            response_headers: truth(
                args.response_headers,
                "--response-headers",
                "LIMIT_RESPONSE_HEADERS_ENABLED",
            )?,
            headers: first(
                (args.headers.clone(), "--headers"),
                (environment.parsed("TOLLGATE_HEADERS", HEADERS)?, "TOLLGATE_HEADERS"),
                Headers::default(),
            ),
            trusted_proxies: trusted_proxies(args, environment)?,
            metadata: truth(args.metadata, "--metadata", "RESPONSE_DYNAMIC_METADATA")?,
            allow_empty: of_flag((args.allow_empty, "--allow-empty"), false),
            linger_rules: optional((args.linger_rules, "--linger-rules"), (None, NO_VARIABLE)),
            state: optional((args.state.clone(), "--state"), (None, NO_VARIABLE)),
            state_every: of_flag((args.state_every, "--state-every"), 60),
            capacity: of_flag((args.capacity, "--capacity"), defaults.default_capacity),
            override_capacity: override_capacity(args, environment)?,
            table_bytes: of_flag((args.table_bytes, "--table-bytes"), defaults.max_table_bytes),
            near_limit_ratio: first(
                (None, NO_VARIABLE),
                (ratio, "NEAR_LIMIT_RATIO"),
                defaults.near_limit_ratio,
            ),
            metrics_names: of_flag((args.metrics_names, "--metrics-names"), MetricsNamesArg::Own),
            linger_stop: of_flag((args.linger_stop, "--linger-stop"), 0),
            redis: redis(args, environment)?,
            log_level: first((args.log_level, "--log-level"), (level, "LOG_LEVEL"), LogLevel::Info),
            log_format: first(
                (args.log_format, "--log-format"),
                (format, "LOG_FORMAT"),
                Format::Text,
            ),
        })
    }

    /// The options of the service.
    pub(super) fn options(&self) -> Options {
        let every = Duration::from_secs(self.state_every.value.into());
        Options {
            settings: self.settings(),
            http: self.http.value,
            http_socket: self.http_socket.value.clone(),
            http_tls: self.http_tls.value.clone(),
            grpc: self.grpc.value,
            grpc_socket: self.grpc_socket.value.clone(),
            grpc_tls: self.grpc_tls.value.clone(),
            resp: self.resp.value.clone(),
            admin: self.admin.value,
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
            linger: Duration::from_secs(self.linger_stop.value.into()),
            timing: Timing {
                poll: Duration::from_secs(self.poll.value.into()),
                ..Timing::default()
            },
            state: self.state.value.clone().map(|path| StateFile { path, every }),
            global: self.redis.value.clone(),
            ..Options::new(self.rules.value.clone())
        }
    }

    fn settings(&self) -> Settings {
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
            near_limit_ratio: self.near_limit_ratio.value,
            ..Settings::default()
        }
    }

    /// Name, value and source of every setting, including those that cannot be set.
    pub(super) fn rows(&self) -> Vec<(&'static str, String, SettingSource)> {
        let (options, settings) = (self.options(), self.settings());
        let fixed = |name, value: String| (name, value, SettingSource::Default);
        vec![
            row("rules", &self.rules, ToString::to_string),
            row("poll", &self.poll, |seconds| format!("{seconds}s")),
            row("http", &self.http, ToString::to_string),
            row("http-socket", &self.http_socket, path_or_none),
            row("http-tls", &self.http_tls, files_or_none),
            row("grpc", &self.grpc, ToString::to_string),
            row("grpc-socket", &self.grpc_socket, path_or_none),
            row("grpc-tls", &self.grpc_tls, files_or_none),
            row("resp", &self.resp, |resp| match resp {
                None => "none".to_owned(),
                Some(RespOptions { address, password: None }) => address.to_string(),
                Some(RespOptions { address, .. }) => format!("{address}, with a password"),
            }),
            row("admin", &self.admin, ToString::to_string),
            row("admin-host", &self.admin_hosts, |names| match &names[..] {
                [] => "none".to_owned(),
                names => names.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
            }),
            row("compat", &self.compat, ToString::to_string),
            row("shadow", &self.shadow, ToString::to_string),
            row("quota-mode", &self.quota_mode, ToString::to_string),
            row("merge-domains", &self.merge_domains, ToString::to_string),
            row("response-headers", &self.response_headers, ToString::to_string),
            row("headers", &self.headers, ToString::to_string),
            row("trusted-proxies", &self.trusted_proxies, ToString::to_string),
            row("metadata", &self.metadata, ToString::to_string),
            row("allow-empty", &self.allow_empty, ToString::to_string),
            row("linger-rules", &self.linger_rules, |seconds| {
                seconds.map_or_else(
                    || "600s, or the window if longer".to_owned(),
                    |seconds| format!("{seconds}s"),
                )
            }),
            row("state", &self.state, path_or_none),
            row("state-every", &self.state_every, |seconds| format!("{seconds}s")),
            row("capacity", &self.capacity, ToString::to_string),
            row("override-capacity", &self.override_capacity, ToString::to_string),
            row("table-bytes", &self.table_bytes, ToString::to_string),
            row("near-limit-ratio", &self.near_limit_ratio, ToString::to_string),
            row("metrics-names", &self.metrics_names, |names| format!("{names:?}").to_lowercase()),
            row("linger-stop", &self.linger_stop, |seconds| format!("{seconds}s")),
            row("redis", &self.redis, |redis| {
                redis.as_ref().map_or("none", |_| "given").to_owned()
            }),
            row("log-level", &self.log_level, ToString::to_string),
            row("log-format", &self.log_format, ToString::to_string),
            fixed("max-descriptors", settings.max_descriptors.to_string()),
            fixed("max-entries", settings.max_entries.to_string()),
            fixed("max-key-bytes", settings.max_key_bytes.to_string()),
            fixed("settle", format!("{:?}", options.timing.settle)),
            fixed("grace", format!("{:?}", options.grace)),
        ]
    }

    /// One line for each row.
    pub(super) fn print(&self, mut out: impl Write) -> io::Result<()> {
        let rows = self.rows();
        let longest = rows.iter().map(|(_, value, _)| value.chars().count()).max().unwrap_or(0);
        for (name, value, source) in rows {
            writeln!(out, "{name:<18} {value:<longest$}  {source}")?;
        }
        out.flush()
    }
}

fn row<T>(
    name: &'static str,
    setting: &Setting<T>,
    text: impl Fn(&T) -> String,
) -> (&'static str, String, SettingSource) {
    (name, text(&setting.value), setting.source)
}

fn path_or_none(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or_else(|| "none".to_owned(), |path| path.display().to_string())
}

/// The names of the files, never their contents.
fn files_or_none(files: &Option<TlsFiles>) -> String {
    let Some(TlsFiles { certificate, key, client_ca }) = files else { return "none".to_owned() };
    let mut text = format!("{} with {}", certificate.display(), key.display());
    if let Some(authority) = client_ca {
        text += &format!(", clients of {}", authority.display());
    }
    text
}

/// The variables of an address: host, port, and their name as a source.
type AddressNames = (&'static str, &'static str, &'static str);

const HTTP: AddressNames = ("HOST", "PORT", "HOST, PORT");
const GRPC: AddressNames = ("GRPC_HOST", "GRPC_PORT", "GRPC_HOST, GRPC_PORT");
const ADMIN: AddressNames = ("DEBUG_HOST", "DEBUG_PORT", "DEBUG_HOST, DEBUG_PORT");

fn address(
    (flag, flag_name): (Option<SocketAddr>, &'static str),
    (host_name, port_name, both_names): AddressNames,
    (default_host, default_port): (IpAddr, u16),
    environment: &Environment,
) -> Result<Setting<SocketAddr>, BadVariable> {
    let host: Option<IpAddr> = environment.parsed(host_name, "an IP address, as in 0.0.0.0")?;
    let port: Option<u16> = environment.parsed(port_name, "a port, 0 to 65535")?;
    let source = match (host, port) {
        (None, None) => SettingSource::Default,
        (Some(_), None) => SettingSource::Variable(host_name),
        (None, Some(_)) => SettingSource::Variable(port_name),
        (Some(_), Some(_)) => SettingSource::Variables(both_names),
    };
    let address = SocketAddr::new(host.unwrap_or(default_host), port.unwrap_or(default_port));
    let of_flag = flag.map(|value| Setting { value, source: SettingSource::Flag(flag_name) });
    Ok(of_flag.unwrap_or(Setting { value: address, source }))
}

fn trusted_proxies(
    args: &ServeArgs,
    environment: &Environment,
) -> Result<Setting<TrustedProxies>, BadVariable> {
    let variable = environment.parsed(PROXIES, BadTrustedProxies::ACCEPTED)?;
    let flag = (args.trusted_proxies.clone(), "--trusted-proxies");
    Ok(first(flag, (variable, PROXIES), TrustedProxies::default()))
}

fn override_capacity(
    args: &ServeArgs,
    environment: &Environment,
) -> Result<Setting<usize>, BadVariable> {
    let flag = (args.override_capacity, "--override-capacity");
    let variable = (environment.parsed(OVERRIDES, "a number of keys")?, OVERRIDES);
    Ok(first(flag, variable, Settings::default().override_capacity))
}

fn resp(
    args: &ServeArgs,
    environment: &Environment,
) -> Result<Setting<Option<RespOptions>>, SettingError> {
    let variable = environment.parsed(RESP, "an address and a port, as in 127.0.0.1:6379")?;
    let address = optional((args.resp, "--resp"), (variable, RESP));
    let password = environment.text(RESP_PASSWORD).map(str::to_owned);
    let password = args.resp_password.clone().or(password);
    let Some(found) = address.value else {
        let half = SettingError::Half { found: "--resp-password", missing: "--resp" };
        return if args.resp_password.is_some() { Err(half) } else { Ok(address.map(|_| None)) };
    };
    Ok(address.map(|_| Some(RespOptions { password, ..RespOptions::new(found) })))
}

fn redis(
    args: &ServeArgs,
    environment: &Environment,
) -> Result<Setting<Option<Global>>, SettingError> {
    let of_variables = redis_variables::global(environment)?;
    let source = match (&args.redis.redis, &of_variables) {
        (Some(_), _) => SettingSource::Flag("--redis"),
        (None, Some(_)) => SettingSource::Variable("REDIS_URL"),
        (None, None) => SettingSource::Default,
    };
    let half = |found| SettingError::Half { found, missing: "--redis" };
    Ok(Setting { value: args.redis.global(of_variables).map_err(half)?, source })
}

/// The control plane of `CONFIG_TYPE`, or `RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY`, if there is no
/// flag.
fn rules(args: &ServeArgs, environment: &Environment) -> Result<Setting<RulesFrom>, SettingError> {
    if let Some(path) = &args.rules {
        let value = RulesFrom::named(path).map_err(SettingError::Address)?;
        return Ok(Setting { value, source: SettingSource::Flag("--rules") });
    }
    if let Some(value) = xds_variables::rules(environment)? {
        return Ok(Setting { value, source: SettingSource::Variable("CONFIG_TYPE") });
    }
    let root = environment.text("RUNTIME_ROOT");
    let subdirectory = environment.text("RUNTIME_SUBDIRECTORY");
    let source = match (root, subdirectory) {
        (None, None) => return Err(SettingError::NoRules),
        (Some(_), None) => SettingSource::Variable("RUNTIME_ROOT"),
        (None, Some(_)) => SettingSource::Variable("RUNTIME_SUBDIRECTORY"),
        (Some(_), Some(_)) => SettingSource::Variables("RUNTIME_ROOT, RUNTIME_SUBDIRECTORY"),
    };
    // The defaults are envoyproxy/ratelimit's.
    let mut value = PathBuf::from(root.unwrap_or("/srv/runtime_data/current"));
    value.extend(subdirectory);
    value.push(environment.text("RUNTIME_APPDIRECTORY").unwrap_or("config"));
    Ok(Setting { value: RulesFrom::Files(value), source })
}

/// Seconds between two readings. Files are also watched; a hash in Redis is not, but polling its version is cheap.
fn usual_poll(rules: &RulesFrom) -> u16 {
    match rules {
        // A control plane says itself when there is something new.
        RulesFrom::Files(_) | RulesFrom::Xds(_) => 30,
        RulesFrom::Redis(_) => 5,
    }
}

const RATIO: &str = "a share from 0 to 1, as in 0.8";

fn check_ratio(ratio: f64) -> Result<f64, BadVariable> {
    let found =
        || BadVariable { name: "NEAR_LIMIT_RATIO", found: ratio.to_string(), accepted: RATIO };
    if (0.0..=1.0).contains(&ratio) { Ok(ratio) } else { Err(found()) }
}
