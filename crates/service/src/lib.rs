#![cfg_attr(docsrs, feature(doc_cfg))]
//! A rate limit service: the rules of [`tollgate_rules`], for Envoy over gRPC and for any client over HTTP.
//!
//! It also answers clients of Redis' protocol if [`Options::resp`] is set. The admin's routes have an address of their
//! own. [The README](https://github.com/tollgate-rs/tollgate/blob/main/crates/service/README.md) has the routes, and
//! shows requests with their answers.
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
//! The pages of the repository explain the service. These are the items that configure it:
//!
//! | About | Items | Page |
//! |---|---|---|
//! | answers | [`Options::headers`], [`Options::answer_headers`], [`Options::answer_metadata`] | [requests and answers][answers] |
//! | rules: files, a hash in Redis, a control plane | [`RedisRules`], [`XdsRules`], [`Settings::allow_empty`](tollgate_rules::RuleSettings::allow_empty), [`StartError::Rules`] | [where rules come from][rules] |
//! | Redis' protocol | [`Options::resp`], [`RespOptions::password`], [`tollgate_rules::Pace`] | [from Redis clients][resp] |
//! | TLS, unix sockets, connections, the admin's address | [`Options::grpc_tls`], [`Options::http_tls`], [`Options::grpc_socket`], [`Options::http_socket`], [`Options::max_connections`], [`Options::admin_hosts`], [`Running::reload`] | [addresses, connections, and who may ask][listeners] |
//! | limits that many nodes share | [`Options::global`], [`Global`] | [when Redis does not answer][operating]; `tollgate-redis` has the bounds of each `accuracy` |
//! | restarts | [`Options::state`] | [over a restart][restart] |
//! | metrics | [`MetricsNames`], [`Options::statsd`] | [metrics and health][metrics] |
//! | single requests, through `tracing` and OTLP | [`Options::log_denials`], [`Options::traces`], [`Options::log`] | [log, traces and StatsD][logs] |
//! | shares of a rule for Envoys that limit by themselves | | [quotas for Envoy][quotas] |
//!
//! If rules cannot be read, or are refused, the last good rules stay in force. No request waits for a line of the log
//! or for a span. Labels of metrics come from rules, never from requests, except in series that a rule asks for.
//!
//! [answers]: https://github.com/tollgate-rs/tollgate/blob/main/crates/service/docs/answers.md
//! [rules]: https://github.com/tollgate-rs/tollgate/blob/main/crates/service/docs/rules.md
//! [resp]: https://github.com/tollgate-rs/tollgate/blob/main/crates/service/docs/redis-clients.md
//! [listeners]: https://github.com/tollgate-rs/tollgate/blob/main/crates/service/docs/listeners.md
//! [operating]: https://github.com/tollgate-rs/tollgate/blob/main/crates/service/docs/operating.md
//! [restart]: https://github.com/tollgate-rs/tollgate/blob/main/crates/service/docs/restart.md
//! [metrics]: https://github.com/tollgate-rs/tollgate/blob/main/crates/service/docs/metrics.md
//! [logs]: https://github.com/tollgate-rs/tollgate/blob/main/crates/service/docs/logs-and-traces.md
//! [quotas]: https://github.com/tollgate-rs/tollgate/blob/main/crates/service/docs/quotas.md

mod address_error;
mod apart;
mod backoff;
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

pub use address_error::AddressError;
pub use global::Global;
pub use host_name::HostName;
pub use host_port::HostPort;
pub use listen::{TlsFiles, TlsProblem};
pub use log_lines::LogLines;
pub use metrics_names::MetricsNames;
pub use options::{Options, RespOptions};
pub use rules_from::{Pushed, RedisRules, RulesFrom, XdsRules, XdsTls};
pub use serve::{Running, rule_cache, start};
pub use start_error::StartError;
pub use statsd::{Statsd, StatsdStyle};
pub use tollgate_http::headers::{HeaderStyle, HeaderStyleError, Headers};
pub use tollgate_http::keys::{KeyError, TrustedProxies};
pub use traces::{OtlpProtocol, TraceSampling, Traces};
