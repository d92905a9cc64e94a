#![cfg_attr(docsrs, feature(doc_cfg))]
//! A rate limit service: the rules of [`tollgate_rules`], for Envoy over gRPC and for any client over HTTP.
//!
//! | Where | What |
//! |---|---|
//! | gRPC, 8081 | `envoy.service.ratelimit.v3.RateLimitService`, `envoy.service.rate_limit_quota.v3.RateLimitQuotaService`, health (`ratelimit`), reflection |
//! | HTTP, 8080 | `POST /json` (Envoy's protocol as JSON), `POST /v1/check`, `GET /v1/peek`, `/v1/auth` for proxies, `/healthcheck`, `/metrics`, a status page at `/` |
//! | Redis' protocol, if [`Options::resp`] is set | `CL.THROTTLE`, `THROTTLE`, `TOLLGATE.CHECK`, `TOLLGATE.PEEK` |
//! | HTTP, 6070, loopback | `POST /v1/reset`, `POST /v1/headroom`, `/rlconfig`, `/metrics`, the status page |
//!
//! ```
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
//! use tollgate_service::{Options, start};
//! let rules = std::env::temp_dir().join(format!("tollgate-rules-{}.yaml", std::process::id()));
//! std::fs::write(&rules, "{domain: shop, descriptors: [{key: user, rate_limit: {unit: second, requests_per_unit: 5}}]}")?;
//! let any = || ([127, 0, 0, 1], 0).into();
//! let options = Options { http: any(), grpc: any(), admin: any(), ..Options::new(&rules) };
//! let running = start(options, |refresh| eprintln!("{refresh:?}")).await?;
//! println!("curl {}/healthcheck", running.http);
//! running.stop().await;
//! # std::fs::remove_file(rules)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! # Answers
//! * Empty and too large requests are refused with INVALID_ARGUMENT, and 400 over HTTP; without rules the answer is
//!   UNAVAILABLE, and 503 (400 under `/json`, as in envoyproxy/ratelimit). Never UNKNOWN, which Envoy lets pass.
//! * `duration_until_reset` is in whole seconds, rounded up: Envoy ignores fractions.
//! * `is_negative_hits` gives back what was charged, and never more; its answer is always OK.
//! * A window that is not one of Envoy's units is answered with the unit UNKNOWN.
//! * `/v1/auth` decides for a proxy: its descriptors are what `forward_auth` of the rules makes of the headers. A request
//!   to which none of these applies passes, and is counted.
//! * `/v1/check`, `/v1/peek` and `/v1/auth` carry the headers of [`Options::headers`] for the limit that denies, or has the least left.
//! * `response_headers_to_add` and `dynamic_metadata` (under `metadata`) are filled if [`AnswerParts`] says so;
//!   `quota`, `raw_body` and `request_headers_to_add` are not used.
//!
//! # Redis' protocol
//! Any Redis client may ask, and pipeline: all requests that a read finds are decided, and answered in one write.
//! `CL.THROTTLE` and `THROTTLE` bring their limits along, and count by their key alone ([`tollgate_rules::Pace`]), in
//! this process; with [`Options::global`] they are refused, since a limit of each process is none of all of them.
//! `TOLLGATE.CHECK domain cost key value [key value ...]` asks the rules with one descriptor. A request that is not
//! valid is answered with an error that names the argument and what would be accepted; bytes that are no request end
//! the connection. [`RespOptions::password`] is asked for if it is set.
//!
//! # Rules
//! From files, which are watched and also read again every 30 s; from a hash in Redis, which is polled: see
//! [`RedisRules`]; or from a control plane that speaks xDS, which is told what is in force: see [`XdsRules`]. If rules cannot be read, or are refused, the last good rules stay in force; and so do those of a
//! domain of which no rule is left, unless [`Settings::allow_empty`](tollgate_rules::Settings::allow_empty) is set. A
//! directory that is missing or empty when the service starts is refused: [`StartError::Rules`].
//!
//! # The admin's address
//! A request there is refused with 403 unless its `Host` is an IP address, `localhost` or one of
//! [`Options::admin_hosts`], and its `Origin`, if it has one, is that of the service's own pages: no page of another
//! site can make a browser read or reset limits, or report a headroom, neither directly nor through a name of its own.
//!
//! # TLS and unix sockets
//! [`Options::grpc_tls`] and [`Options::http_tls`] name a certificate, its key, and the authority of clients'
//! certificates if clients must have one. The files are read again when they change, every 10 s, and on
//! [`Running::reload`]; bad ones leave the last good certificate in use. [`Options::grpc_socket`] and
//! [`Options::http_socket`] are listened on in addition to the addresses.
//!
//! # Across many nodes
//! With [`Options::global`] the limits are kept in Redis, and are shared by all services that use the same Redis: see
//! [`Global`], and `tollgate-redis` for the bounds of each `accuracy`.
//!
//! # Over a restart
//! With [`Options::state`] what was spent is written to a file when the service stops, and at intervals, and is restored
//! at the start, as in a reload. A process that is killed loses what was spent since the last write. Limits that come
//! with requests, and those of rules that are gone, are not in it; neither are receipts of reservations.
//!
//! # Metrics
//! | `tollgate_` | Labels | |
//! |---|---|---|
//! | `requests_total` | `protocol`, `outcome` | what came of requests: `allowed`, `over_limit`, or `refused` without a decision |
//! | `decision_seconds` | `protocol` | a histogram, from a request that was read to its answer |
//! | `rule_hits_total`, `rule_within_limit_total`, `rule_over_limit_total`, `rule_near_limit_total`, `rule_borrowed_total`, `rule_shadow_total` | `domain`, `rule` | units that a rule decided |
//! | `rule_spilled_total`, `rule_full_denied_total`, `rule_full_allowed_total` | `domain`, `rule` | of those, units
//! of clients without a cell |
//! | `pool_headroom`, `pool_lent_total`, `pool_expired_total` | `domain` | pools, from which `mode: elastic` borrows |
//! | `rule_clients`, `rule_capacity`, `rule_table_bytes` | `domain`, `rule` | its tables |
//! | `table_bytes`, `config_load_success_total`, `config_load_error_total`, `config_refused` | | all rules |
//! | `config_kept_domains` | | domains whose last good rules stay, since there are none any more |
//! | `config_dropped_domains_total` | | those of them that were given up for want of memory |
//! | `lingering_tables`, `lingering_bytes`, `lingering_forgotten_total` | | what was spent under limits that are gone |
//! | `state_written_total`, `state_errors_total`, `state_age_seconds` | | the file of [`Options::state`], if there is one |
//! | `domain_not_found_total`, `descriptor_not_found_total`, `global_shadow_mode_total`, `auth_unmapped_total` | | requests that nothing could limit |
//! | `own_limits_spilled_total`, `own_limits_full_denied_total` | | units of clients without a cell under limits that came with requests |
//! | `own_limits_denied_costs_total` | | units of costs above 1 under limits that came with requests, denied and charged nowhere |
//! | `connections`, `connections_max`, `connections_beyond_max_total`, `connections_timed_out_total` | | connections of all listeners |
//! | `log_lines_lost_total` | | with [`Options::log`]: lines of the log that were lost |
//! | `resp_connections`, `resp_connections_refused_total` | | connections of Redis' protocol |
//! | `quota_streams`, `quota_buckets`, `quota_bytes` | | Envoys that are assigned quotas, their buckets, and the memory |
//! | `quota_assignments_total`, `quota_abandoned_total`, `quota_refused_total` | | what they were told, and reports that were not answered |
//! | `quota_reported_allowed_total`, `quota_reported_denied_total` | | requests that they reported |
//! | `denials_logged_total`, `denials_suppressed_total` | | with [`Options::log_denials`]: lines, and those left out |
//! | `spans_sent_total`, `spans_failed_total`, `spans_dropped_total` | | with [`Options::traces`]: what became of spans |
//! | `statsd_sent_total`, `statsd_failed_total` | | with [`Options::statsd`]: datagrams |
//!
//! With [`MetricsNames::Envoyproxy`] there are also the names of envoyproxy/ratelimit's mapping to Prometheus.
//!
//! # Single requests
//! With [`Options::log_denials`] denials are logged through `tracing`, with their descriptors; with [`Options::traces`]
//! requests that are sampled are spans, sent to a collector over OTLP. Neither delays a request, or grows: what finds no
//! room is counted. [`Options::statsd`] sends the metrics to a server of StatsD.
//!
//! # Quotas
//! Envoys with the filter `rate_limit_quota` limit by themselves, and are assigned shares of a rule: over any time t at
//! most t times its rate, and its burst, of which README.md has the terms. With [`Options::global`] they are refused.
//!
//! # Bounds
//! A message or body has at most 256 KiB, a connection 1,024 streams; headers must arrive within 5 s, and so must a
//! handshake. Over Redis' protocol a request has at most 128 words and 72 KiB; 16 KiB of answers wait at most, for a
//! client that takes them within 5 s; an idle connection is closed after 300 s, and at most 10,000 are open. Of all
//! listeners together [`Options::max_connections`] may be open; one of gRPC or Redis' protocol whose first request does not
//! come within 30 s is closed, and one of HTTP that neither sends nor takes anything for 30 to 60 s. The rules'
//! settings bound the content of a request. Labels of metrics come from rules, never from
//! requests.

mod apart;
mod clock_watch;
mod global;
mod grpc;
mod history;
mod host_name;
mod host_port;
mod http;
mod listen;
mod log_lines;
mod metrics;
mod metrics_names;
mod observe;
#[doc(hidden)]
pub mod offline;
mod options;
mod page;
pub mod protocol;
mod quota;
mod reports;
mod resp;
mod rls;
mod rules_from;
mod serve;
mod service;
mod sockets;
mod start_error;
mod state;
mod statsd;
mod tokens;
mod traces;
mod wire;

pub use global::{Global, GlobalError};
pub use host_name::{BadHostName, HostName};
pub use host_port::{BadHostPort, HostPort};
pub use listen::{TlsError, TlsFiles, TlsProblem};
pub use log_lines::LogLines;
pub use metrics_names::MetricsNames;
pub use options::{AnswerParts, Options, RespOptions, StateFile};
pub use rules_from::{
    PushError, Pushed, RedisRules, RedisSource, RulesAddressError, RulesFrom, XdsBackoff, XdsRules,
    XdsTls,
};
pub use serve::{Running, rule_cache, start};
pub use start_error::StartError;
pub use statsd::{Statsd, StatsdStyle};
pub use tollgate_tower::{
    BadTrustedProxies, HeaderStyle, HeaderStyleError, Headers, TrustedProxies,
};
pub use traces::{OtlpProtocol, TraceSampling, Traces, TracesError};
