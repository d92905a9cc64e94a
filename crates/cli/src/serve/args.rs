//! The arguments of `tollgate serve`. Their help texts are its manual: `--help`, `--print-config`,
//! `examples/tollgate.toml` and the tables of `crates/service/docs/settings.md` are made from them. A setting is named
//! here and where it is used, and nowhere else.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use tollgate_rules::RuleSettings;
use tollgate_service::{Headers, HostName, HostPort, TrustedProxies};

use super::log::{Format, LogLevel};

const AFTER_HELP: &str = "\
Examples:
  tollgate serve --rules examples/rules
  curl localhost:8080/v1/check -d '{\"domain\": \"shop\", \"descriptors\": [{\"user\": \"alice\"}]}' \\
    -H 'content-type: application/json'
  curl 'localhost:8080/v1/peek?domain=shop&user=alice'
  redis-cli -p 6379 CL.THROTTLE alice 15 30 60        # with --resp 127.0.0.1:6379
  tollgate serve --rules 'redis://reader:secret@10.0.0.7/2#shop:rules'

Rules and certificates are read again when their files change, on SIGHUP, and every 30 s and 10 s; rules \
in Redis every 5 s. After SIGHUP the log says what became of each, and which settings in the file of --config have changed and need \
a restart. After SIGTERM or Ctrl-C, requests that have begun are still answered.

Check rules before they are served: tollgate check DIR. A rule that is gone and comes back, as while a file is written, \
finds what was spent under it; a domain whose rules are all gone keeps the last good ones.

Every setting has three names: the flag --log-level, the variable TOLLGATE_LOG_LEVEL, and in the file of --config the \
key log-level. A flag beats a variable, a variable the file, and the file the environment variables of \
envoyproxy/ratelimit, which are honoured where they mean something here. --print-config says which value comes from where.";

/// The word for the value of a setting that is on or off. `given.rs` reads such a setting as `--shadow` and as
/// `--shadow=false`.
pub(super) const TRUTH: &str = "TRUTH";

// The headings of the settings, in the order in which they are shown.
const RULES: &str = "Rules";
const DECISIONS: &str = "Decisions";
const HTTP: &str = "HTTP";
const GRPC: &str = "gRPC";
const RESP: &str = "Redis' protocol";
const ADMIN: &str = "The admin's address";
const MEMORY: &str = "Memory and restarts";
const REPORTS: &str = "Log and metrics";
const PROCESS: &str = "The process and its settings";

/// Answer Envoy and HTTP clients by the rules of a directory
///
/// gRPC: Envoy's rate limit service v3, health, reflection. HTTP: /json, /v1/check, /v1/peek, /v1/auth for proxies,
/// /healthcheck, /metrics, a status page at /; on the admin address /v1/reset and /rlconfig. Redis' protocol on the
/// address of --resp.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ServeArgs {
    /// A directory of .yaml files, one file, redis://user:password@host:port/database#key, or xds://host:port/node
    ///
    /// The address names a hash in Redis: its fields are files, except for `version`, which must change whenever a
    /// file does. `tollgate rules push` writes it. Without a key it is tollgate:rules. xds:// is a control plane, xdss:// one
    /// over TLS: xdss://host:port/node?ca=FILE&cert=FILE&key=FILE&name=NAME.
    #[arg(long, value_name = "DIR", help_heading = RULES)]
    pub(super) rules: Option<PathBuf>,

    /// Seconds after which rules are read again whether or not files have changed; from Redis the default is 5
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..), default_value = "30", help_heading = RULES)]
    pub(super) poll: u16,

    /// Allow several files to hold parts of one domain
    #[arg(long, value_name = TRUTH, help_heading = RULES)]
    pub(super) merge_domains: bool,

    /// Drop the limits of a domain whose rules are all gone, and accept an empty directory at the start: nothing is limited then; from
    /// a control plane the default is true
    ///
    /// Otherwise the last good rules of such a domain stay in force, with a warning, and an empty directory is
    /// refused at the start. A domain that a control plane stops sending always loses its limits.
    #[arg(long, value_name = TRUTH, help_heading = RULES)]
    pub(super) allow_empty: bool,

    /// Let health checks succeed before there are rules; answers to requests say that there are none
    ///
    /// Envoy lets such requests pass, or denies them if it has failure_mode_deny (failClosed in Envoy Gateway). This is for
    /// probes that would restart a service to which the control plane has not sent rules yet.
    #[arg(long, value_name = TRUTH, help_heading = RULES)]
    pub(super) healthy_without_rules: bool,

    /// Decide each descriptor on its own, as envoyproxy/ratelimit does, and count what is denied; the default is true
    /// with its variables and with a control plane
    #[arg(long, value_name = TRUTH, help_heading = DECISIONS)]
    pub(super) compat: bool,

    /// Deny nothing; statuses and metrics show what would be denied
    #[arg(long, value_name = TRUTH, help_heading = DECISIONS)]
    pub(super) shadow: bool,

    /// Deny a request only if all its rules are over their limits
    #[arg(long, value_name = TRUTH, help_heading = DECISIONS)]
    pub(super) quota_mode: bool,

    /// Where to listen for HTTP: a host name or an IP address, and a port
    ///
    /// Examples: localhost:8080, 10.0.0.7:80, [::1]:8080, or :8080 for all addresses of IPv6 and IPv4. A name is resolved
    /// when the service starts. If it has several addresses, the service listens on the first that it can, and logs it.
    /// The default is :8080 if rules are found by variables of envoyproxy/ratelimit.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080", help_heading = HTTP)]
    pub(super) http: HostPort,

    /// A unix socket to listen on for HTTP as well
    #[arg(long, value_name = "PATH", help_heading = HTTP)]
    pub(super) http_socket: Option<PathBuf>,

    /// The certificate (PEM) of the HTTP address; without it HTTP is unencrypted
    #[arg(long, value_name = "FILE", help_heading = HTTP)]
    pub(super) http_tls_cert: Option<PathBuf>,

    /// The key of that certificate
    #[arg(long, value_name = "FILE", help_heading = HTTP)]
    pub(super) http_tls_key: Option<PathBuf>,

    /// HTTP clients must have a certificate of one of these authorities
    #[arg(long, value_name = "FILE", help_heading = HTTP)]
    pub(super) http_tls_client_ca: Option<PathBuf>,

    /// The headers of /v1/check, /v1/peek and /v1/auth: styles with commas between them, as in draft-10,x-ratelimit-unix, or none
    ///
    /// Styles are draft-3 to draft-10, x-ratelimit, x-ratelimit-unix, x-ratelimit-retry-after, x-rate-limit,
    /// x-rate-limit-unix, and names of your own for limit, remaining, reset and, if you like, the wait, as in
    /// My-Limit:My-Left:My-Reset=unix:My-Wait. Without =unix the reset is in seconds from now.
    #[arg(long, value_name = "STYLES", default_value_t = Headers::default(), help_heading = HTTP)]
    pub(super) headers: Headers,

    /// The proxies that may tell /v1/auth a client's address, or none
    ///
    /// Addresses and networks with commas between them. X-Forwarded-For is read from the right, up to the first address
    /// that is none of them: what a client has written itself is never believed.
    #[arg(long, value_name = "NETWORKS", default_value_t = TrustedProxies::default(), help_heading = HTTP)]
    pub(super) trusted_proxies: TrustedProxies,

    /// Where to listen for gRPC
    ///
    /// The default is :8081 if rules are found by variables of envoyproxy/ratelimit.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8081", help_heading = GRPC)]
    pub(super) grpc: HostPort,

    /// A unix socket to listen on for gRPC as well
    #[arg(long, value_name = "PATH", help_heading = GRPC)]
    pub(super) grpc_socket: Option<PathBuf>,

    /// The certificate (PEM) of the gRPC address; without it gRPC is unencrypted
    #[arg(long, value_name = "FILE", help_heading = GRPC)]
    pub(super) grpc_tls_cert: Option<PathBuf>,

    /// The key of that certificate
    #[arg(long, value_name = "FILE", help_heading = GRPC)]
    pub(super) grpc_tls_key: Option<PathBuf>,

    /// gRPC clients must have a certificate of one of these authorities
    #[arg(long, value_name = "FILE", help_heading = GRPC)]
    pub(super) grpc_tls_client_ca: Option<PathBuf>,

    /// Seconds after which a connection of gRPC is told to go, so that its client connects anew [default: never]
    ///
    /// The service sends GOAWAY and still answers requests in progress. This is how new processes get clients behind a load
    /// balancer that balances connections. The age of each connection is up to a tenth shorter or longer, so that not
    /// all of them end at once.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..), help_heading = GRPC)]
    pub(super) grpc_max_age: Option<u32>,

    /// Seconds after --grpc-max-age until the connection is closed even if requests are in progress [default: never]
    ///
    /// A stream of quotas (RLQS) is a request that does not end by itself.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..), help_heading = GRPC)]
    pub(super) grpc_max_age_grace: Option<u32>,

    /// Have Envoy add RateLimit-Limit, -Remaining and -Reset to responses, and Retry-After to denials
    #[arg(long, value_name = TRUTH, help_heading = GRPC)]
    pub(super) response_headers: bool,

    /// Pass the metadata of rules to Envoy
    #[arg(long, value_name = TRUTH, help_heading = GRPC)]
    pub(super) metadata: bool,

    /// Where to listen for Redis' protocol: CL.THROTTLE, THROTTLE and TOLLGATE.CHECK [default: nowhere]
    ///
    /// CL.THROTTLE key max_burst count_per_period period [quantity] answers as redis-cell does, THROTTLE with the same
    /// arguments as throttlecrab does; their limits come with each request and hold in this process, so they are
    /// refused with --redis. TOLLGATE.CHECK domain cost key value [key value ...] asks the rules.
    #[arg(long, value_name = "ADDRESS", help_heading = RESP)]
    pub(super) resp: Option<HostPort>,

    /// The password that Redis clients must send first, by AUTH or HELLO; other processes of this machine can see it in a flag
    #[arg(long, value_name = "PASSWORD", help_heading = RESP)]
    pub(super) resp_password: Option<String>,

    /// The address of the admin's routes; keep it loopback
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6070", help_heading = ADMIN)]
    pub(super) admin: HostPort,

    /// A host name for the admin's routes, in addition to localhost and IP addresses; may be repeated
    ///
    /// A request there with another Host, or with an Origin that is not that Host, is refused with 403, because a
    /// page of another site could have made a browser send it.
    #[arg(long, value_name = "NAME", value_delimiter = ',', help_heading = ADMIN)]
    pub(super) admin_host: Vec<HostName>,

    /// Seconds for which the counts of a rule are kept after it is gone [default: 600, or its window if longer]
    ///
    /// If the rule comes back within that time, it continues with them. They count towards --table-bytes. With 0 they are
    /// dropped at once.
    #[arg(long, value_name = "SECONDS", help_heading = MEMORY)]
    pub(super) linger_rules: Option<u64>,

    /// A regular file that keeps the counts of all limits over a restart
    ///
    /// It is written when the service stops and every --state-every, and read at the start. It contains seeds: only the
    /// service may read it. A bad file is kept as FILE.bad, and all limits begin anew. Not with --redis, which keeps
    /// limits itself.
    #[arg(long, value_name = "FILE", help_heading = MEMORY)]
    pub(super) state: Option<PathBuf>,

    /// Seconds between two writes of the file of --state: a process that is killed forgets at most that time
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..), default_value = "60", help_heading = MEMORY)]
    pub(super) state_every: u16,

    /// The capacity of rules whose file gives none, in clients: about 15 bytes each [default: 65536, or less where many
    /// rules share --table-bytes]
    ///
    /// A rule with a `weight` has that many times as much.
    #[arg(long, value_name = "CLIENTS", help_heading = MEMORY)]
    pub(super) capacity: Option<usize>,

    /// The number of keys whose limits come with requests, in each table of such limits
    ///
    /// There are seven tables for the `limit` of a descriptor, and six for CL.THROTTLE.
    #[arg(long, value_name = "KEYS", default_value_t = RuleSettings::default().override_capacity, help_heading = MEMORY)]
    pub(super) override_capacity: usize,

    /// The maximum number of bytes for all tables
    ///
    /// Tables of rules that are gone are included. With --redis there are 80 bytes more for each client.
    #[arg(long, value_name = "BYTES", default_value_t = RuleSettings::default().max_table_bytes, help_heading = MEMORY)]
    pub(super) table_bytes: u64,

    /// Where to listen for /metrics alone, in addition to the addresses of HTTP and of the admin [default: nowhere]
    #[arg(long, value_name = "ADDRESS", help_heading = REPORTS)]
    pub(super) metrics: Option<HostPort>,

    /// The maximum number of series for values in metrics, of all rules with detailed_metric or value_to_metric
    ///
    /// Further values are counted as one, with a warning.
    #[arg(long, value_name = "SERIES", default_value_t = RuleSettings::default().max_series, help_heading = REPORTS)]
    pub(super) max_series: usize,

    /// The share of a limit above which a request counts as near it, in metrics
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = RuleSettings::default().near_limit_ratio, help_heading = REPORTS)]
    pub(super) near_limit_ratio: f64,

    /// The minimum level of logged events
    #[arg(long, value_name = "LEVEL", ignore_case = true, default_value = "info", help_heading = REPORTS)]
    pub(super) log_level: LogLevel,

    /// The format of the log
    #[arg(long, value_name = "FORMAT", ignore_case = true, default_value = "text", help_heading = REPORTS)]
    pub(super) log_format: Format,

    /// Names of metrics; envoyproxy adds those that dashboards for envoyproxy/ratelimit use
    #[arg(long, value_enum, value_name = "NAMES", default_value = "own", help_heading = REPORTS)]
    pub(super) metrics_names: MetricsNamesArg,

    /// The maximum number of connections of all listeners together [default: from the limit of open files]
    ///
    /// Further connections, up to 32 at a time, get answers from /healthcheck, /metrics, the admin's routes and gRPC's health
    /// only. The most that may be given is `ulimit -n` less the files that the process needs itself (96, and 4 for each
    /// core), or half of `ulimit -n` if that is less. The default is that number, and at most 65536.
    #[arg(long, value_name = "CONNECTIONS", help_heading = PROCESS)]
    pub(super) max_connections: Option<NonZeroUsize>,

    /// A TOML file with settings: keys are flags without their hyphens, as in log-level = "warn" [default: none]
    ///
    /// A flag beats its variable, a variable beats this file, and the file beats the variables of envoyproxy/ratelimit. A
    /// repeated flag is a list, as in admin-host = ["a", "b"]. --print-config prints such a file.
    #[arg(long, value_name = "FILE", help_heading = PROCESS)]
    pub(super) config: Option<PathBuf>,

    /// Print every setting as a file for --config, with its value, its source and its names, and exit
    #[arg(long, help_heading = PROCESS)]
    pub(super) print_config: bool,

    /// Seconds for which the service goes on answering after SIGTERM, while its health checks fail already
    ///
    /// No request is lost if this is longer than Envoy or a load balancer takes to notice. With 0 it ends at once.
    #[arg(long, alias = "linger", value_name = "SECONDS", default_value = "2", help_heading = PROCESS)]
    pub(super) linger_stop: u16,

    #[command(flatten)]
    pub(super) reports: super::report_args::ReportArgs,

    #[command(flatten)]
    pub(super) redis: crate::serve_redis::RedisArgs,
}

fn share(text: &str) -> Result<f64, &'static str> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or("no share from 0 to 1, as in 0.8")
}

/// Names of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum MetricsNamesArg {
    Own,
    Envoyproxy,
}
