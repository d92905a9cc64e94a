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
//! The pages of the repository say more: [requests and answers][answers], [settings], [where rules come from][rules],
//! [metrics], [restarts][restart], [quotas], [connections][listeners].
//!
//! # Answers
//! * Empty and too large requests are refused with INVALID_ARGUMENT, and with 400 over HTTP. Without rules the answer is
//!   UNAVAILABLE, and 503 over HTTP (400 under `/json`, as in envoyproxy/ratelimit). It is never UNKNOWN, which Envoy
//!   lets pass.
//! * `duration_until_reset` is in whole seconds, rounded up: Envoy ignores fractions.
//! * `is_negative_hits` gives back what was charged, and never more. Its answer is always OK.
//! * A window that is not one of Envoy's units is answered with the unit UNKNOWN.
//! * `/v1/auth` decides for a proxy: `forward_auth` of the rules makes descriptors of the request's headers. A request to
//!   which none of these applies passes, and is counted.
//! * `/v1/check`, `/v1/peek` and `/v1/auth` carry the headers of [`Options::headers`]. They describe the limit that
//!   denies, or else the one that has the least left.
//! * `response_headers_to_add` and `dynamic_metadata` (under `metadata`) are filled if [`AnswerParts`] says so. `quota`,
//!   `raw_body` and `request_headers_to_add` are not used.
//!
//! # Redis' protocol
//! Any Redis client may ask, and may pipeline: the service decides all requests that a read finds, and answers them in one
//! write. [`RespOptions::password`] is asked for if it is set.
//!
//! `CL.THROTTLE` and `THROTTLE` bring their limits along. They count in this process, by their key alone
//! ([`tollgate_rules::Pace`]). With [`Options::global`] they are refused, since a limit of each process would not be one
//! limit of all processes. `TOLLGATE.CHECK domain cost key value [key value ...]` asks the rules with one descriptor.
//!
//! A request that is not valid is answered with an error that names the argument and says what would be accepted. Bytes
//! that are no request end the connection.
//!
//! # Rules
//! Rules come from one of three places:
//!
//! * from files, which are watched, and also read again every 30 s;
//! * from a hash in Redis, which is polled: see [`RedisRules`];
//! * from a control plane that speaks xDS, which learns what is in force: see [`XdsRules`].
//!
//! If rules cannot be read, or are refused, the last good rules stay in force. A domain of which no rule is left keeps its
//! last good rules too, unless [`Settings::allow_empty`](tollgate_rules::Settings::allow_empty) is set. A directory that is
//! missing or empty when the service starts is refused: [`StartError::Rules`].
//!
//! # The admin's address
//! A request there is refused with 403 unless its `Host` is an IP address, `localhost` or one of
//! [`Options::admin_hosts`], and its `Origin`, if it has one, is that of the service's own pages. So no page of another
//! site can make a browser read or reset limits, or report a headroom, neither directly nor through a name of its own.
//!
//! # TLS and unix sockets
//! [`Options::grpc_tls`] and [`Options::http_tls`] name a certificate, its key, and, if clients must have a certificate,
//! the authority of those. The files are read again when they change, every 10 s, and on [`Running::reload`]. Bad files
//! leave the last good certificate in use. [`Options::grpc_socket`] and [`Options::http_socket`] are listened on in
//! addition to the addresses.
//!
//! # Across many nodes
//! With [`Options::global`] the limits are kept in Redis, and all services that use the same Redis share them: see
//! [`Global`], and `tollgate-redis` for the bounds of each `accuracy`.
//!
//! # Over a restart
//! With [`Options::state`] the service writes to a file what was spent, when it stops and at intervals, and restores it at
//! the start, as in a reload. A process that is killed loses the charges since the last write. The file does not hold
//! limits that come with requests, limits of rules that are gone, and receipts of reservations.
//!
//! # Metrics
//! `/metrics` has the counters, gauges and histograms of a [table][metrics], each with its meaning and when to raise an
//! alarm. Labels come from rules, never from requests, except in series that a rule asks for (`detailed_metric`). With
//! [`MetricsNames::Envoyproxy`] there are also the names of envoyproxy/ratelimit's mapping to Prometheus.
//! [`Options::statsd`] sends the metrics to a server of StatsD.
//!
//! # Single requests
//! With [`Options::log_denials`] denials are logged through `tracing`, with their descriptors. With [`Options::traces`]
//! requests that are sampled are spans, which are sent to a collector over OTLP. Neither delays a request, and neither
//! grows: lines and spans that find no room are counted.
//!
//! # Quotas
//! Envoys with the filter `rate_limit_quota` limit by themselves, and are assigned shares of a rule. Over any time t they
//! let through at most t times its rate, and its burst, under [the terms of the page][quotas]. With [`Options::global`]
//! they are refused.
//!
//! # Bounds
//! | Over | Bound |
//! |---|---|
//! | gRPC and HTTP | 256 KiB in a message or body; 1,024 streams in a connection; 5 s for headers, and for a TLS handshake |
//! | Redis' protocol | 128 words and 72 KiB in a request; 16 KiB of answers that wait, for a client that takes them within 5 s; 300 s without a request; 10,000 connections |
//! | all listeners | [`Options::max_connections`] |
//! | gRPC and Redis' protocol | 30 s until a connection's first request |
//! | HTTP | 30 to 60 s in which a connection neither sends nor takes anything |
//!
//! The rules' settings bound the content of a request.
//!
//! [answers]: https://github.com/tollgate-rs/tollgate/blob/main/crates/service/docs/answers.md
//! [settings]: https://github.com/tollgate-rs/tollgate/blob/main/crates/service/docs/settings.md
//! [rules]: https://github.com/tollgate-rs/tollgate/blob/main/crates/service/docs/rules.md
//! [metrics]: https://github.com/tollgate-rs/tollgate/blob/main/crates/service/docs/metrics.md
//! [restart]: https://github.com/tollgate-rs/tollgate/blob/main/crates/service/docs/restart.md
//! [quotas]: https://github.com/tollgate-rs/tollgate/blob/main/crates/service/docs/quotas.md
//! [listeners]: https://github.com/tollgate-rs/tollgate/blob/main/crates/service/docs/listeners.md

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
