//! `tollgate serve --redis`: limits that many nodes share.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use tollgate_rules::OnError;
use tollgate_service::Global;

const CERTIFICATE: &str = "--redis-tls-cert";
const KEY: &str = "--redis-tls-key";

/// Limits that all nodes share
#[derive(clap::Args)]
#[command(next_help_heading = "Over many nodes")]
pub(crate) struct RedisArgs {
    /// Keep the limits in Redis, for all nodes that use the same: redis://user:password@host:port/database
    ///
    /// Or redis+sentinel://host:port,host:port/name, the master that Sentinels name, with
    /// ?sentinel_auth=user:password behind it if they want one; redis+cluster://host:port,host:port; or any of
    /// them as rediss, over TLS. Each rule's `accuracy` says how (exact, leased: the default, or async), its
    /// `on_error` what happens while Redis does not answer (local, allow or deny, see `--on-error`).
    #[arg(long, value_name = "URL")]
    pub(crate) redis: Option<String>,

    /// How many nodes share the limits: determines the share of each while Redis does not answer [default: 1]
    #[arg(long, value_name = "NODES")]
    nodes: Option<u64>,

    /// What becomes of requests while Redis does not answer, under rules that name no `on_error` [default: local]
    ///
    /// With `local` each node decides by its share of the limit; `allow` admits each request that costs no more than the
    /// limit, and `deny` none.
    #[arg(long, value_name = "WORD", value_parser = on_error())]
    on_error: Option<OnError>,

    /// The maximum number of milliseconds that a request waits for Redis [default: 10]
    #[arg(long, value_name = "MS")]
    redis_deadline: Option<u64>,

    /// The prefix of all keys in Redis [default: tollgate; with `--redis-keys envoyproxy` none]
    #[arg(long, value_name = "TEXT")]
    redis_prefix: Option<String>,

    /// Which keys in Redis are counted in [default: own]
    ///
    /// With `envoyproxy` those of envoyproxy/ratelimit, as it counts in them, so that its nodes and these share each
    /// limit while one replaces the other. Needs `--compat`, which is the
    /// default for rules from a control plane or by variables of envoyproxy/ratelimit, and rules that envoyproxy/ratelimit knows.
    #[arg(long, value_name = "LAYOUT")]
    redis_keys: Option<RedisKeys>,

    /// Redis must have a certificate (PEM) of one of these authorities [default: those of the machine]
    #[arg(long, value_name = "FILE")]
    redis_tls_ca: Option<PathBuf>,

    /// The client certificate (PEM), for a Redis that asks for one
    #[arg(long, value_name = "FILE")]
    redis_tls_cert: Option<PathBuf>,

    /// The key of that certificate
    #[arg(long, value_name = "FILE")]
    redis_tls_key: Option<PathBuf>,
}

/// Whose keys are counted in.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RedisKeys {
    /// Tollgate's, for every rule
    Own,
    /// Those of envoyproxy/ratelimit
    Envoyproxy,
}

/// The words that rules take, too.
fn on_error() -> impl TypedValueParser<Value = OnError> {
    let words = PossibleValuesParser::new(OnError::ALL.map(OnError::word));
    words.try_map(|word| OnError::of_word(&word).ok_or("no such word"))
}

/// A flag that is given without another that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HalfGiven {
    pub(crate) found: &'static str,
    pub(crate) missing: &'static str,
}

impl RedisArgs {
    /// The settings of the flags, on top of those of the variables, of which `prefix` is one; or a flag that lacks
    /// another.
    pub(crate) fn global(
        &self,
        variables: Option<Global>,
        prefix: Option<&str>,
    ) -> Result<Option<Global>, HalfGiven> {
        let base = match (&self.redis, variables) {
            (Some(address), Some(global)) => Some(Global { address: address.clone(), ..global }),
            (Some(address), None) => Some(Global::new(address)),
            (None, global) => global,
        };
        let Some(global) = base else {
            let given = [
                (self.nodes.is_some(), "--nodes"),
                (self.on_error.is_some(), "--on-error"),
                (self.redis_deadline.is_some(), "--redis-deadline"),
                (self.redis_prefix.is_some(), "--redis-prefix"),
                (self.redis_keys.is_some(), "--redis-keys"),
                (self.redis_tls_ca.is_some(), "--redis-tls-ca"),
                (self.redis_tls_cert.is_some(), CERTIFICATE),
                (self.redis_tls_key.is_some(), KEY),
            ];
            let given = given.iter().find(|(given, _)| *given);
            return match given {
                Some((_, found)) => Err(HalfGiven { found, missing: "--redis" }),
                None => Ok(None),
            };
        };
        // Under the own prefix there are then no limits, but what tells whether the store works.
        let given = self.redis_prefix.as_deref().or(prefix);
        let (prefix, envoyproxy) = match self.redis_keys {
            Some(RedisKeys::Envoyproxy) => {
                (Global::new("").prefix, Some(given.unwrap_or_default().to_owned()))
            }
            _ => (self.redis_prefix.clone().unwrap_or(global.prefix), None),
        };
        let global = Global {
            nodes: self.nodes.unwrap_or(global.nodes),
            on_error: self.on_error.unwrap_or(global.on_error),
            deadline: self.redis_deadline.map_or(global.deadline, Duration::from_millis),
            prefix,
            envoyproxy,
            authority: self.redis_tls_ca.clone().or(global.authority),
            certificate: self.redis_tls_cert.clone().or(global.certificate),
            key: self.redis_tls_key.clone().or(global.key),
            address: global.address,
        };
        match (&global.certificate, &global.key) {
            (Some(_), None) => Err(HalfGiven { found: CERTIFICATE, missing: KEY }),
            (None, Some(_)) => Err(HalfGiven { found: KEY, missing: CERTIFICATE }),
            _ => Ok(Some(global)),
        }
    }
}
