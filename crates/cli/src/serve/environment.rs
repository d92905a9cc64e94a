//! The environment variables of envoyproxy/ratelimit: which are honoured here, and what happens with the others.
//! (Our own follow from the flags: see given.rs.)
//!
//! A variable that is set to an empty text counts as not set.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// How a variable is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It has the same meaning as there, or the meaning in the text.
    Honoured(&'static str),
    /// It has no meaning here.
    Meaningless(&'static str),
    /// It would have a meaning, but the feature does not exist yet.
    NotYet(&'static str),
}

use Fate::{Honoured, Meaningless, NotYet};

const XDS: Fate = Honoured("of the control plane, with `CONFIG_TYPE=GRPC_XDS_SOTW`");
const XDS_TLS: Fate = Honoured("with `CONFIG_GRPC_XDS_SERVER_USE_TLS`");
const MEMCACHE: Fate = Meaningless("there is no memcached");

/// All of them, in the order of envoyproxy/ratelimit's settings.
pub(super) const VARIABLES: [(&str, Fate); 93] = [
    ("HOST", Honoured("the address of HTTP, with `PORT`")),
    ("PORT", Honoured("8080")),
    (
        "DEBUG_HOST",
        Honoured("the address of the admin's routes; loopback by default, there 0.0.0.0"),
    ),
    ("DEBUG_PORT", Honoured("6070")),
    ("GRPC_UDS", Honoured("a unix socket; the address is listened on as well")),
    ("GRPC_HOST", Honoured("the address of gRPC, with `GRPC_PORT`")),
    ("GRPC_PORT", Honoured("8081")),
    ("GRPC_MAX_CONNECTION_AGE", Honoured("as `--grpc-max-age`: none by default, there 24h")),
    (
        "GRPC_MAX_CONNECTION_AGE_GRACE",
        Honoured(
            "as `--grpc-max-age-grace`: none by default, there 1h; without an age it is ignored, with a warning",
        ),
    ),
    ("GRPC_SERVER_USE_TLS", Honoured("needs `GRPC_SERVER_TLS_CERT` and `GRPC_SERVER_TLS_KEY`")),
    ("GRPC_SERVER_TLS_CERT", Honoured("with `GRPC_SERVER_USE_TLS`")),
    ("GRPC_SERVER_TLS_KEY", Honoured("with `GRPC_SERVER_USE_TLS`")),
    ("GRPC_CLIENT_TLS_CACERT", Honoured("clients must have a certificate of this authority")),
    (
        "GRPC_CLIENT_TLS_SAN",
        NotYet("refused at start: it would let in clients that it is to keep out"),
    ),
    ("LOG_LEVEL", Honoured("info by default, there WARN")),
    ("LOG_FORMAT", Honoured("text or json")),
    ("CONFIG_TYPE", Honoured("FILE or GRPC_XDS_SOTW; another is refused at start")),
    (
        "FORCE_START_WITHOUT_INITIAL_CONFIG",
        Meaningless("bad rules never stop the start; without any there is none"),
    ),
    ("CONFIG_GRPC_XDS_NODE_ID", XDS),
    ("CONFIG_GRPC_XDS_NODE_METADATA", NotYet("a node says its name alone")),
    ("CONFIG_GRPC_XDS_SERVER_URL", XDS),
    (
        "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL",
        Meaningless("`XDS_CLIENT_BACKOFF_INITIAL_INTERVAL` and the next say when"),
    ),
    ("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", NotYet("there are none")),
    ("CONFIG_GRPC_XDS_SERVER_USE_TLS", XDS),
    ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", XDS_TLS),
    ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", XDS_TLS),
    ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", XDS_TLS),
    ("CONFIG_GRPC_XDS_SERVER_TLS_SAN", XDS_TLS),
    ("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", Honoured("1s by default, there 10s")),
    ("XDS_CLIENT_BACKOFF_MAX_INTERVAL", Honoured("60s")),
    ("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", Honoured("0.5")),
    ("XDS_CLIENT_BACKOFF_JITTER", Honoured("true: a random share is subtracted")),
    ("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", Honoured("4194304, and at most 67108864")),
    ("USE_DOG_STATSD", Honoured("as `USE_STATSD`, with labels as tags")),
    ("USE_DOG_STATSD_MOGRIFIERS", Meaningless("labels are tags already")),
    ("USE_STATSD", Honoured("true if `STATSD_HOST` is set; there by default")),
    ("STATSD_HOST", Honoured("as `--statsd`, with `STATSD_PORT`: over UDP, there over TCP")),
    ("STATSD_PORT", Honoured("8125")),
    ("EXTRA_TAGS", Honoured("as `--statsd-tags`")),
    ("STATS_FLUSH_INTERVAL", Honoured("as `--statsd-every`: 5s by default, there 10s")),
    ("DISABLE_STATS", NotYet("metrics cost a few additions, and are always there")),
    ("USE_PROMETHEUS", Meaningless("`/metrics` is always there")),
    ("PROMETHEUS_ADDR", NotYet("`/metrics` is at the addresses of HTTP and of the admin")),
    ("PROMETHEUS_PATH", NotYet("it is `/metrics`")),
    ("PROMETHEUS_MAPPER_YAML", Meaningless("metrics are Prometheus', at `/metrics`")),
    (
        "RUNTIME_ROOT",
        Honoured("rules are in `RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY`"),
    ),
    ("RUNTIME_SUBDIRECTORY", Honoured("with `RUNTIME_ROOT`")),
    ("RUNTIME_APPDIRECTORY", Honoured("with `RUNTIME_ROOT`; config by default")),
    ("RUNTIME_IGNOREDOTFILES", Meaningless("files whose names begin with a dot are never read")),
    ("RUNTIME_WATCH_ROOT", Meaningless("a swapped link and changed files are both noticed")),
    (
        "EXPIRATION_JITTER_MAX_SECONDS",
        Meaningless("what expires limited nothing any more, here or in Redis"),
    ),
    (
        "LOCAL_CACHE_SIZE_IN_BYTES",
        Meaningless("tables decide here; with `--redis` each rule's `accuracy` says where"),
    ),
    ("NEAR_LIMIT_RATIO", Honoured("0.8")),
    ("CACHE_KEY_PREFIX", Honoured("as `--redis-prefix`")),
    ("BACKEND_TYPE", NotYet("Redis, if `REDIS_URL` is set, else this process")),
    (
        "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT",
        Meaningless("a denied request is charged nowhere, unless `--compat` is on"),
    ),
    ("LIMIT_RESPONSE_HEADERS_ENABLED", Honoured("as `--response-headers`")),
    ("LIMIT_LIMIT_HEADER", NotYet("it is RateLimit-Limit")),
    ("LIMIT_REMAINING_HEADER", NotYet("it is RateLimit-Remaining")),
    ("LIMIT_RESET_HEADER", NotYet("it is RateLimit-Reset")),
    ("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", Meaningless("health always waits for rules")),
    ("REDIS_SOCKET_TYPE", Honoured("tcp, tls or unix")),
    ("REDIS_TYPE", Honoured("SINGLE, SENTINEL or CLUSTER")),
    (
        "REDIS_URL",
        Honoured("limits are kept there, as with `--redis`; not at the default address there"),
    ),
    ("REDIS_POOL_SIZE", Meaningless("one connection carries all")),
    ("REDIS_AUTH", Honoured("a password, or user:password")),
    ("REDIS_SENTINEL_AUTH", Honoured("the same, for Sentinels")),
    ("REDIS_TLS", Honoured("as rediss in `--redis`")),
    ("REDIS_TLS_CLIENT_CERT", Honoured("as `--redis-tls-cert`")),
    ("REDIS_TLS_CLIENT_KEY", Honoured("as `--redis-tls-key`")),
    ("REDIS_TLS_CACERT", Honoured("as `--redis-tls-ca`")),
    ("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", NotYet("names are always looked at")),
    ("REDIS_PIPELINE_WINDOW", Meaningless("requests that wait share calls")),
    ("REDIS_PIPELINE_LIMIT", Meaningless("requests that wait share calls")),
    ("REDIS_TIMEOUT", Honoured("as `--redis-deadline`: 10ms by default, there 10s")),
    ("REDIS_PERSECOND", NotYet("one Redis keeps all limits")),
    ("REDIS_PERSECOND_URL", NotYet("one Redis keeps all limits")),
    (
        "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION",
        NotYet("health does not depend on Redis: `on_error` decides without it"),
    ),
    ("MEMCACHE_HOST_PORT", MEMCACHE),
    ("MEMCACHE_MAX_IDLE_CONNS", MEMCACHE),
    ("MEMCACHE_SRV", MEMCACHE),
    ("MEMCACHE_SRV_REFRESH", MEMCACHE),
    ("MEMCACHE_TLS", MEMCACHE),
    ("SHADOW_MODE", Honoured("as `--shadow`")),
    ("QUOTA_MODE", Honoured("as `--quota-mode`")),
    ("MERGE_DOMAIN_CONFIG", Honoured("as `--merge-domains`")),
    ("RESPONSE_DYNAMIC_METADATA", Honoured("as `--metadata`")),
    (
        "TRACING_ENABLED",
        Honoured("as `--otlp http://localhost:4317`, unless a variable of the SDK names another"),
    ),
    ("TRACING_SERVICE_NAME", Honoured("tollgate by default, there RateLimit")),
    ("TRACING_SERVICE_NAMESPACE", Honoured("in traces")),
    ("TRACING_SERVICE_INSTANCE_ID", Honoured("in traces; none by default")),
    (
        "TRACING_EXPORTER_PROTOCOL",
        Honoured("grpc, there http by default; another is refused at start"),
    ),
    (
        "TRACING_SAMPLING_RATE",
        Honoured("as `--trace-sample`: 1 by default with `TRACING_ENABLED`, as there"),
    ),
];

/// The variables that are set.
#[derive(Clone, Debug, Default)]
pub(super) struct Environment {
    values: BTreeMap<String, String>,
}

/// A variable with an invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadVariable {
    pub(super) name: &'static str,
    pub(super) found: String,
    pub(super) accepted: &'static str,
}

impl fmt::Display for BadVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, found, accepted } = self;
        write!(f, "{name} is '{}' in the environment; use {accepted}", found.escape_debug())
    }
}

impl Environment {
    /// The variables of this process. Invalid UTF-8 is kept visibly invalid, and refused where it is used.
    pub(super) fn of_process() -> Self {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect()
    }

    pub(super) fn text(&self, name: &'static str) -> Option<&str> {
        let is_known = VARIABLES.iter().any(|(known, _)| *known == name);
        debug_assert!(is_known || name.starts_with("OTEL_"), "{name}");
        self.own(name)
    }

    /// The value of a variable that is not one of envoyproxy/ratelimit's.
    pub(super) fn own(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The names of all that are set.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str).filter(move |name| self.own(name).is_some())
    }

    pub(super) fn parsed<T: FromStr>(
        &self,
        name: &'static str,
        accepted: &'static str,
    ) -> Result<Option<T>, BadVariable> {
        let parse = |text: &str| {
            text.parse().map_err(|_| BadVariable { name, found: text.to_owned(), accepted })
        };
        self.text(name).map(parse).transpose()
    }

    /// Refuses variables of features that do not exist yet, where ignoring them would be unsafe.
    pub(super) fn refuse_what_would_mislead(&self) -> Result<(), BadVariable> {
        match self.text("GRPC_CLIENT_TLS_SAN") {
            None => Ok(()),
            Some(found) => Err(BadVariable {
                name: "GRPC_CLIENT_TLS_SAN",
                found: found.to_owned(),
                accepted: "an authority of its own for the clients that may ask (GRPC_CLIENT_TLS_CACERT), and leave it \
                           out: names in clients' certificates are not looked at",
            }),
        }
    }

    /// In the notation of Go.
    pub(super) fn truth(&self, name: &'static str) -> Result<Option<bool>, BadVariable> {
        let read = |text: &str| match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
            _ => Err(BadVariable { name, found: text.to_owned(), accepted: "true or false" }),
        };
        self.text(name).map(read).transpose()
    }

    /// A time in the notation of Go, as in 1h30m, in this range.
    pub(super) fn duration(
        &self,
        name: &'static str,
        range: RangeInclusive<Duration>,
        accepted: &'static str,
    ) -> Result<Option<Duration>, BadVariable> {
        let read = |text: &str| {
            let time = go_duration(text).filter(|time| range.contains(time));
            time.ok_or_else(|| BadVariable { name, found: text.to_owned(), accepted })
        };
        self.text(name).map(read).transpose()
    }

    /// The variables that are set and have no effect, with a sentence for each.
    pub(super) fn unheeded(&self) -> Vec<String> {
        let told = |(name, fate): &(&'static str, Fate)| {
            self.text(name)?;
            match fate {
                Honoured(_) => None,
                Meaningless(why) => {
                    Some(format!("{name} is set and means nothing here: {}", why.replace('`', "")))
                }
                NotYet(why) => {
                    Some(format!("{name} is set and is not honoured yet: {}", why.replace('`', "")))
                }
            }
        };
        VARIABLES.iter().filter_map(told).collect()
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self { values: pairs.into_iter().collect() }
    }
}

/// Numbers with their units one after the other; a zero needs none.
fn go_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let units = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3_600.0)];
    let (mut rest, mut seconds) = (text, 0.0);
    while !rest.is_empty() {
        let is_of_number = |byte: u8| byte.is_ascii_digit() || byte == b'.';
        let number = rest.bytes().take_while(|byte| is_of_number(*byte)).count();
        let unit = rest[number..].bytes().take_while(u8::is_ascii_lowercase).count();
        let (name, value) = (&rest[number..number + unit], rest[..number].parse::<f64>().ok()?);
        seconds += value * units.iter().find(|(known, _)| *known == name)?.1;
        rest = &rest[number + unit..];
    }
    (!text.is_empty()).then(|| Duration::try_from_secs_f64(seconds).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_is_set_and_not_honoured_is_told_and_nothing_else() {
        let environment = environment(&[
            ("BACKEND_TYPE", "redis"),
            ("USE_PROMETHEUS", "false"),
            ("PORT", "80"),
            ("MEMCACHE_SRV", ""),
            ("PATH", "/bin"),
        ]);
        assert_eq!(
            environment.unheeded(),
            [
                "USE_PROMETHEUS is set and means nothing here: /metrics is always there",
                "BACKEND_TYPE is set and is not honoured yet: Redis, if REDIS_URL is set, else this process",
            ]
        );
    }

    #[test]
    fn values_are_read_as_envoyproxy_ratelimit_reads_them() {
        let environment = environment(&[
            ("SHADOW_MODE", "T"),
            ("QUOTA_MODE", "0"),
            ("MERGE_DOMAIN_CONFIG", "yes"),
            ("PORT", "70000"),
        ]);
        assert_eq!(environment.truth("SHADOW_MODE"), Ok(Some(true)));
        assert_eq!(environment.truth("QUOTA_MODE"), Ok(Some(false)));
        assert_eq!(environment.truth("RESPONSE_DYNAMIC_METADATA"), Ok(None));
        let error = environment.truth("MERGE_DOMAIN_CONFIG").expect_err("no truth");
        assert_eq!(
            error.to_string(),
            "MERGE_DOMAIN_CONFIG is 'yes' in the environment; use true or false"
        );
        assert!(environment.parsed::<u16>("PORT", "a port").is_err());
    }

    #[test]
    fn times_are_read_as_go_reads_them() {
        for (text, expected) in [
            ("24h", Some(86_400_000)),
            ("1h30m", Some(5_400_000)),
            ("1.5s", Some(1_500)),
            ("0", Some(0)),
            ("250ms", Some(250)),
            ("24", None),
            ("h", None),
            ("1 h", None),
            ("-1s", None),
            ("1d", None),
            ("1hm", None),
            ("9999999999999999999999h", None),
            ("1\u{b5}s", None),
        ] {
            let found = go_duration(text).map(|time| time.as_millis());
            assert_eq!(found, expected, "{text}");
        }
    }
}
