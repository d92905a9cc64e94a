//! [`Options`]: the options that a service is started with.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use tollgate::{Clock, Policy};
use tollgate_http::headers::Headers;
use tollgate_http::keys::TrustedProxies;
use tollgate_rules::{RuleSettings, Timing};

use crate::global::Global;
use crate::host_name::HostName;
use crate::host_port::HostPort;
use crate::listen::TlsFiles;
use crate::log_lines::LogLines;
use crate::metrics_names::MetricsNames;
use crate::rules_from::RulesFrom;
use crate::statsd::Statsd;
use crate::traces::Traces;

/// The options that a service is started with. The ports are those of envoyproxy/ratelimit.
///
/// ```
/// use tollgate_service::Options;
/// let options = Options::new("examples/rules");
/// assert_eq!((options.http.port(), options.grpc.port(), options.admin.port()), (8080, 8081, 6070));
/// assert_eq!(options.admin.to_string(), "127.0.0.1:6070");
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// The source of the rules.
    pub rules: RulesFrom,
    /// The settings of rules and their tables.
    pub settings: RuleSettings,
    /// The times at which rules are read again.
    pub timing: Timing,
    /// The address for HTTP.
    pub http: HostPort,
    /// A unix socket for HTTP in addition to the address. It has no TLS, and serves every process that may open the
    /// file.
    pub http_socket: Option<PathBuf>,
    /// The certificate of the HTTP address; without it HTTP is unencrypted. The admin's address is always
    /// unencrypted.
    pub http_tls: Option<TlsFiles>,
    /// The address for gRPC.
    pub grpc: HostPort,
    /// A unix socket for gRPC in addition to the address, without TLS.
    pub grpc_socket: Option<PathBuf>,
    /// The certificate of the gRPC address; without it gRPC is unencrypted.
    pub grpc_tls: Option<TlsFiles>,
    /// The age at which the client of a gRPC connection is told to close it (GOAWAY). The requests in progress are
    /// answered, and the client reconnects, perhaps to another process. The age of each connection differs from this
    /// age by up to a tenth, so that connections that began together do not end together. Default: none.
    pub grpc_max_age: Option<Duration>,
    /// The time after `grpc_max_age` at which a connection is closed even if requests are in progress. Default: none.
    /// It is ignored without `grpc_max_age`.
    pub grpc_max_age_grace: Option<Duration>,
    /// The address for Redis' protocol. Default: none.
    pub resp: Option<RespOptions>,
    /// The address of the admin's routes: `/rlconfig` shows all rules, `/v1/reset` gives clients their units back, and
    /// the status page names clients. Keep it loopback.
    pub admin: HostPort,
    /// An address that serves `/metrics` alone, for a Prometheus server that must not reach the HTTP address and the
    /// admin's address. Default: none.
    pub metrics: Option<HostPort>,
    /// Host names under which the admin's routes are available, in addition to `localhost` and IP addresses. Default:
    /// none.
    pub admin_hosts: Vec<HostName>,
    /// The maximum number of connections of all listeners together. Beyond it the service accepts at most 32
    /// connections at a time, which get answers only about health and metrics, and from the admin's routes. The number
    /// must be at least 1. It must be at most the process's limit of file descriptors less those that the process needs
    /// itself (96 and 4 for each core, or half the limit if that is less). Default: the largest accepted number, but no
    /// more than 65,536.
    pub max_connections: Option<usize>,
    /// Whether answers to Envoy contain `RateLimit-Limit`, `-Remaining` and `-Reset`, and `Retry-After` of a denial,
    /// for Envoy to add to the response. Default: false.
    pub answer_headers: bool,
    /// Whether answers to Envoy contain the `metadata` of rules that let a request pass. Default: false.
    pub answer_metadata: bool,
    /// The proxies whose `X-Forwarded-For` header is trusted to name the client's address in requests to `/v1/auth`. A
    /// client of a [unix socket](Options::http_socket) has the address 127.0.0.1. Default: the proxies of this machine.
    pub trusted_proxies: TrustedProxies,
    /// The headers of `/v1/check`, `/v1/peek` and `/v1/auth`. Default: the headers of draft 10.
    pub headers: Headers,
    /// The Redis that keeps limits that many nodes share; `None` if limits are kept in this process alone.
    pub global: Option<Global>,
    /// The file that keeps the state of limits over a restart. Default: none. It cannot be combined with `global`. Only
    /// the owner of the file may read it, because it contains the seeds of the tables' hashers. The service also uses
    /// these files beside it: `FILE.new`, `FILE.bad`, `FILE.quotas`, `FILE.quotas.new` and `FILE.quotas.bad`.
    pub state: Option<PathBuf>,
    /// The time between two writes of the state, at least a second. If the process is killed, charges since the last
    /// write are lost. Default: a minute.
    pub state_every: Duration,
    /// Whether health checks succeed before rules are loaded, as in envoyproxy/ratelimit with
    /// `FORCE_START_WITHOUT_INITIAL_CONFIG`. Until then requests are answered with the error that there are no rules.
    /// Default: false.
    pub healthy_without_rules: bool,
    /// The choice of the names of metrics.
    pub metrics_names: MetricsNames,
    /// The limit on logged denials, for all of them together, such as `10/s burst 50`. Each is logged at level INFO,
    /// with its descriptors. Default: none.
    pub log_denials: Option<Policy>,
    /// The collector that spans of requests are sent to. Default: nowhere.
    pub traces: Option<Traces>,
    /// The StatsD server that metrics are sent to, besides being served at `/metrics`. Default: nowhere.
    pub statsd: Option<Statsd>,
    /// The [`LogLines`], if the log is written by them. The metric of lost lines is read from them. Default: none.
    pub log: Option<LogLines>,
    /// The clock of the limits. The first window begins at the origin of this clock. Default: Unix time.
    pub clock: Clock,
    /// The time for which a stopping service fails its health checks but still accepts requests, so that load balancers
    /// notice. Default: none.
    pub linger: Duration,
    /// The maximum time for which a stopping service waits for its requests in progress.
    pub grace: Duration,
}

/// The address for Redis' protocol, and the password for its clients.
///
/// ```
/// use tollgate_service::RespOptions;
/// let options = RespOptions { password: Some("secret".into()), ..RespOptions::new(([127, 0, 0, 1], 6379)) };
/// assert!(!format!("{options:?}").contains("secret"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct RespOptions {
    /// The address.
    pub address: HostPort,
    /// The password that a client must send first, by `AUTH` or `HELLO`; the user is `default`. Without a password
    /// every client that can connect may ask.
    pub password: Option<String>,
}

impl RespOptions {
    /// An address without a password.
    ///
    /// ```
    /// assert!(tollgate_service::RespOptions::new(([127, 0, 0, 1], 6379)).password.is_none());
    /// ```
    #[must_use]
    pub fn new(address: impl Into<HostPort>) -> Self {
        Self { address: address.into(), password: None }
    }
}

impl fmt::Debug for RespOptions {
    /// Omits the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RespOptions").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The optional parts of answers to Envoy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AnswerParts {
    /// See [`Options::answer_headers`].
    pub(crate) headers: bool,
    /// See [`Options::answer_metadata`].
    pub(crate) metadata: bool,
}

impl Options {
    /// Serves the rules of this path, or of a [hash in Redis](RulesFrom), on the usual ports. A text converts to a
    /// path.
    ///
    /// ```
    /// assert_eq!(tollgate_service::Options::new("rules").grace.as_secs(), 10);
    /// ```
    #[must_use]
    pub fn new(rules: impl Into<RulesFrom>) -> Self {
        let everywhere = |port| HostPort::from((Ipv4Addr::UNSPECIFIED, port));
        Self {
            rules: rules.into(),
            settings: RuleSettings::default(),
            timing: Timing::default(),
            http: everywhere(8080),
            http_socket: None,
            http_tls: None,
            grpc: everywhere(8081),
            grpc_socket: None,
            grpc_tls: None,
            grpc_max_age: None,
            grpc_max_age_grace: None,
            resp: None,
            admin: HostPort::from((Ipv4Addr::LOCALHOST, 6070)),
            metrics: None,
            admin_hosts: Vec::new(),
            max_connections: None,
            answer_headers: false,
            answer_metadata: false,
            trusted_proxies: TrustedProxies::default(),
            headers: Headers::default(),
            global: None,
            state: None,
            state_every: Duration::from_secs(60),
            healthy_without_rules: false,
            metrics_names: MetricsNames::default(),
            log_denials: None,
            traces: None,
            statsd: None,
            log: None,
            clock: Clock::unix(),
            linger: Duration::ZERO,
            grace: Duration::from_secs(10),
        }
    }
}
