//! `tollgate serve --redis`: limits that many nodes share.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::parser::ValueSource;
use tollgate_rules::RuleOnError;
use tollgate_service::Global;

use crate::failure::Failure;

/// Pairs of flags of which the first has no effect without the second.
pub(crate) const NEEDS: [(&str, &str); 10] = [
    ("nodes", "redis"),
    ("on-error", "redis"),
    ("redis-deadline", "redis"),
    ("redis-prefix", "redis"),
    ("redis-keys", "redis"),
    ("redis-tls-ca", "redis"),
    ("redis-tls-cert", "redis"),
    ("redis-tls-key", "redis"),
    ("redis-tls-cert", "redis-tls-key"),
    ("redis-tls-key", "redis-tls-cert"),
];

/// Refuses a flag of a command line that is given without another one that it needs.
pub(crate) fn refuse_halves(flags: &ArgMatches) -> Result<(), Failure> {
    let is_given =
        |name: &str| flags.value_source(&name.replace('-', "_")) == Some(ValueSource::CommandLine);
    match NEEDS.into_iter().find(|(found, missing)| is_given(found) && !is_given(missing)) {
        Some((found, missing)) => {
            Err(Failure::Serve(format!("--{found} is given without --{missing}; give both")))
        }
        None => Ok(()),
    }
}

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

    /// The number of nodes that share the limits, and so the share of each while Redis does not answer
    #[arg(long, value_name = "NODES", default_value = "1")]
    nodes: u64,

    /// How rules without `on_error` decide while Redis does not answer
    ///
    /// With `local` each node decides by its share of the limit; `allow` admits each request that costs no more than the
    /// limit, and `deny` none.
    #[arg(long, value_name = "WORD", value_parser = on_error(), default_value = "local")]
    on_error: RuleOnError,

    /// The maximum number of milliseconds that a request waits for Redis
    #[arg(long, value_name = "MS", default_value = "10")]
    redis_deadline: u64,

    /// The prefix of all keys in Redis; with `--redis-keys envoyproxy` the default is none
    #[arg(long, value_name = "TEXT", default_value = "tollgate")]
    redis_prefix: String,

    /// The keys in Redis that hold the counts
    ///
    /// With `envoyproxy` this service counts in the keys of envoyproxy/ratelimit, in its way, so that nodes of both share
    /// each limit during a migration. This needs rules that envoyproxy/ratelimit knows, and `--compat`, which is the default
    /// with a control plane or with variables of envoyproxy/ratelimit.
    #[arg(long, value_name = "LAYOUT", default_value = "own")]
    redis_keys: RedisKeys,

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

/// The layout of the keys in Redis that hold the counts.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RedisKeys {
    /// Tollgate's, for every rule
    Own,
    /// Those of envoyproxy/ratelimit
    Envoyproxy,
}

/// Returns a parser of the words that a rule's `on_error` accepts, too.
fn on_error() -> impl TypedValueParser<Value = RuleOnError> {
    let words = PossibleValuesParser::new(RuleOnError::ALL.map(RuleOnError::word));
    words.try_map(|word| RuleOnError::of_word(&word).ok_or("no such word"))
}

impl RedisArgs {
    /// Returns the Redis that keeps the limits, or `None` if this process alone keeps them.
    pub(crate) fn global(&self) -> Option<Global> {
        let usual = Global::new(self.redis.clone()?);
        let (prefix, envoyproxy) = match self.redis_keys {
            RedisKeys::Own => (self.redis_prefix.clone(), None),
            // Under Tollgate's own prefix there are then no limits, but only the key that shows whether the store
            // works.
            RedisKeys::Envoyproxy => (usual.prefix, Some(self.redis_prefix.clone())),
        };
        Some(Global {
            address: usual.address,
            nodes: self.nodes,
            on_error: self.on_error,
            deadline: Duration::from_millis(self.redis_deadline),
            prefix,
            envoyproxy,
            authority: self.redis_tls_ca.clone(),
            certificate: self.redis_tls_cert.clone(),
            key: self.redis_tls_key.clone(),
        })
    }
}
