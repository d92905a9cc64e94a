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
    /// Keep the limits in a Redis that all nodes share: redis://user:password@host:port/database
    ///
    /// Or redis+sentinel://host:port,host:port/name for the master that Sentinels name, with ?sentinel_auth=user:password
    /// behind it if they ask for a password; or redis+cluster://host:port,host:port. Each of them is encrypted if it begins
    /// with rediss. A rule's `accuracy` says how nodes share its limit (exact, leased, which is the default, or async), and
    /// its `on_error` what happens while Redis does not answer (local, allow or deny: see `--on-error`).
    #[arg(long, value_name = "URL")]
    pub(crate) redis: Option<String>,

    /// The number of nodes that share the limits, and so the share of each while Redis does not answer [default: 1]
    #[arg(long, value_name = "NODES")]
    nodes: Option<u64>,

    /// How rules without `on_error` decide while Redis does not answer [default: local]
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

    /// The keys in Redis that hold the counts [default: own]
    ///
    /// With `envoyproxy` this service counts in the keys of envoyproxy/ratelimit, in its way, so that nodes of both share
    /// each limit during a migration. This needs rules that envoyproxy/ratelimit knows, and `--compat`, which is the default
    /// with a control plane or with variables of envoyproxy/ratelimit.
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

/// A parser of the words that rules accept, too.
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
        // Under our own prefix there are then no limits, only the key that shows whether the store works.
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
