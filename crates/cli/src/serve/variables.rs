//! The only list of envoyproxy/ratelimit's environment variables, with how the service treats each of them.

/// The treatment of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It has the same meaning as in envoyproxy/ratelimit, or the meaning that the text gives.
    Honoured(&'static str),
    /// It is honoured if another variable is set. Without the other variable it has no effect, which is logged.
    HonouredWith(Need, &'static str),
    /// It has no meaning here. This is logged.
    Meaningless(&'static str),
    /// It would have a meaning, but the feature does not exist yet. This is logged.
    NotYet(&'static str),
    /// The service does not start with it, because other limits would hold than those that the variable asks for. The
    /// text says what would be accepted.
    Refused(&'static str),
}

/// The variables that another one needs, and the values that satisfy the need; an empty list accepts any value. If
/// there are several variables, one of them is enough.
pub(super) type Need = &'static [(&'static str, &'static [&'static str])];

use Fate::{Honoured, HonouredWith, Meaningless, NotYet, Refused};

/// A variable, its treatment, and the values that ask for the default behaviour, for which there is no warning.
type Variable = (&'static str, Fate, &'static [&'static str]);

/// The texts that Go reads as false, and as true.
pub(super) const OFF: &[&str] = &["0", "f", "F", "false", "FALSE", "False"];
pub(super) const ON: &[&str] = &["1", "t", "T", "true", "TRUE", "True"];
const NONE: &[&str] = &[];

const OF_XDS: Need = &[("CONFIG_TYPE", &["GRPC_XDS_SOTW"])];
const OF_PROMETHEUS: Need = &[("USE_PROMETHEUS", ON)];
const OF_GRPC_TLS: Need = &[("GRPC_SERVER_USE_TLS", ON)];
const OF_REDIS: Need = &[("REDIS_URL", NONE)];
const OF_REDIS_TLS: Need = &[("REDIS_TLS", ON), ("REDIS_SOCKET_TYPE", &["tls"])];

const XDS: Fate = HonouredWith(OF_XDS, "of the control plane, with `CONFIG_TYPE=GRPC_XDS_SOTW`");
const XDS_TLS: Fate = HonouredWith(
    &[("CONFIG_GRPC_XDS_SERVER_USE_TLS", ON)],
    "with `CONFIG_GRPC_XDS_SERVER_USE_TLS`",
);
const MEMCACHE: Fate = Meaningless("there is no memcached");
const PER_SECOND: Fate = Meaningless("it belongs to `REDIS_PERSECOND`");

/// All variables, in the order of envoyproxy/ratelimit's settings.
pub(super) const VARIABLES: [Variable; 114] = [
    ("HOST", Honoured("the address of HTTP, with `PORT`"), NONE),
    ("PORT", Honoured("8080"), NONE),
    (
        "DEBUG_HOST",
        Honoured("the address of the admin's routes; loopback by default, there 0.0.0.0"),
        NONE,
    ),
    ("DEBUG_PORT", Honoured("6070"), NONE),
    ("GRPC_UDS", Honoured("a unix socket; the address is listened on as well"), NONE),
    ("GRPC_HOST", Honoured("the address of gRPC, with `GRPC_PORT`"), NONE),
    ("GRPC_PORT", Honoured("8081"), NONE),
    ("GRPC_MAX_CONNECTION_AGE", Honoured("as `--grpc-max-age`: none by default, there 24h"), NONE),
    (
        "GRPC_MAX_CONNECTION_AGE_GRACE",
        Honoured(
            "as `--grpc-max-age-grace`: none by default, there 1h; without an age it is ignored, with a warning",
        ),
        NONE,
    ),
    (
        "GRPC_SERVER_USE_TLS",
        Honoured("needs `GRPC_SERVER_TLS_CERT` and `GRPC_SERVER_TLS_KEY`"),
        NONE,
    ),
    ("GRPC_SERVER_TLS_CERT", HonouredWith(OF_GRPC_TLS, "with `GRPC_SERVER_USE_TLS`"), NONE),
    ("GRPC_SERVER_TLS_KEY", HonouredWith(OF_GRPC_TLS, "with `GRPC_SERVER_USE_TLS`"), NONE),
    (
        "GRPC_CLIENT_TLS_CACERT",
        HonouredWith(OF_GRPC_TLS, "clients must have a certificate of this authority"),
        NONE,
    ),
    (
        "GRPC_CLIENT_TLS_SAN",
        Refused(
            "an authority of its own for the clients that may ask (`GRPC_CLIENT_TLS_CACERT`): names in clients' certificates are not looked at",
        ),
        NONE,
    ),
    ("LOG_LEVEL", Honoured("info by default, there WARN"), NONE),
    ("LOG_FORMAT", Honoured("text or json"), NONE),
    ("CONFIG_TYPE", Honoured("FILE or GRPC_XDS_SOTW; another is refused at start"), NONE),
    (
        "FORCE_START_WITHOUT_INITIAL_CONFIG",
        Honoured(
            "as `--healthy-without-rules`, unless `HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED` is true: healthy before there are rules; bad ones never stop the start",
        ),
        NONE,
    ),
    ("CONFIG_GRPC_XDS_NODE_ID", XDS, NONE),
    (
        "CONFIG_GRPC_XDS_NODE_METADATA",
        HonouredWith(
            OF_XDS,
            "texts, as in `zone=eu,team=shop`, with `CONFIG_TYPE=GRPC_XDS_SOTW`; what has no = is skipped, as there, with a warning",
        ),
        NONE,
    ),
    ("CONFIG_GRPC_XDS_SERVER_URL", XDS, NONE),
    (
        "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL",
        Meaningless("`XDS_CLIENT_BACKOFF_INITIAL_INTERVAL` and the next say when"),
        NONE,
    ),
    (
        "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS",
        NotYet("a control plane is sent no headers of its own"),
        NONE,
    ),
    ("CONFIG_GRPC_XDS_SERVER_USE_TLS", XDS, OFF),
    ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", XDS_TLS, NONE),
    ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", XDS_TLS, NONE),
    ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", XDS_TLS, NONE),
    ("CONFIG_GRPC_XDS_SERVER_TLS_SAN", XDS_TLS, NONE),
    ("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", HonouredWith(OF_XDS, "1s by default, there 10s"), NONE),
    ("XDS_CLIENT_BACKOFF_MAX_INTERVAL", HonouredWith(OF_XDS, "60s"), NONE),
    ("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", HonouredWith(OF_XDS, "0.5"), NONE),
    ("XDS_CLIENT_BACKOFF_JITTER", HonouredWith(OF_XDS, "true: a random share is subtracted"), NONE),
    (
        "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES",
        HonouredWith(OF_XDS, "4194304, and at most 67108864"),
        NONE,
    ),
    ("USE_DOG_STATSD", Honoured("as `USE_STATSD`, with labels as tags"), NONE),
    ("USE_DOG_STATSD_MOGRIFIERS", Meaningless("labels are tags already"), NONE),
    ("USE_STATSD", Honoured("true if `STATSD_HOST` is set; there by default"), NONE),
    ("STATSD_HOST", Honoured("as `--statsd`, with `STATSD_PORT`: over UDP, there over TCP"), NONE),
    ("STATSD_PORT", Honoured("8125"), NONE),
    ("EXTRA_TAGS", Honoured("as `--statsd-tags`"), NONE),
    ("STATS_FLUSH_INTERVAL", Honoured("as `--statsd-every`: 5s by default, there 10s"), NONE),
    ("DISABLE_STATS", NotYet("metrics cost a few additions, and are always there"), OFF),
    (
        "USE_PROMETHEUS",
        Honoured(
            "true: `/metrics` also at `PROMETHEUS_ADDR`, and with the names of `--metrics-names envoyproxy`; it is at the addresses of HTTP and of the admin in any case",
        ),
        NONE,
    ),
    (
        "PROMETHEUS_ADDR",
        HonouredWith(OF_PROMETHEUS, "as `--metrics`, with `USE_PROMETHEUS`: :9090 by default"),
        NONE,
    ),
    ("PROMETHEUS_PATH", NotYet("it is `/metrics`"), &["/metrics"]),
    (
        "PROMETHEUS_MAPPER_YAML",
        NotYet("names are those of its own mapping, `--metrics-names envoyproxy`"),
        NONE,
    ),
    (
        "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS",
        NotYet("times are in seconds, as their names say"),
        OFF,
    ),
    (
        "RUNTIME_ROOT",
        Honoured("rules are in `RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY`"),
        NONE,
    ),
    ("RUNTIME_SUBDIRECTORY", Honoured("with `RUNTIME_ROOT`"), NONE),
    ("RUNTIME_APPDIRECTORY", Honoured("with `RUNTIME_ROOT`; config by default"), NONE),
    (
        "RUNTIME_IGNOREDOTFILES",
        Meaningless("files whose names begin with a dot are never read"),
        ON,
    ),
    ("RUNTIME_WATCH_ROOT", Meaningless("a swapped link and changed files are both noticed"), NONE),
    (
        "EXPIRATION_JITTER_MAX_SECONDS",
        Meaningless("what expires limited nothing any more, here or in Redis"),
        &["0"],
    ),
    (
        "LOCAL_CACHE_SIZE_IN_BYTES",
        Meaningless("tables decide here; with `--redis` each rule's `accuracy` says where"),
        &["0"],
    ),
    ("NEAR_LIMIT_RATIO", Honoured("0.8"), NONE),
    ("CACHE_KEY_PREFIX", Honoured("as `--redis-prefix`"), NONE),
    (
        "BACKEND_TYPE",
        Refused(
            "redis, with `REDIS_URL`: there is no memcached, and each process would count by itself",
        ),
        &["redis"],
    ),
    (
        "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT",
        NotYet(
            "with `--compat`, the default by these variables, a denied request is charged wherever there was room; with `--compat=false` nowhere",
        ),
        OFF,
    ),
    ("LIMIT_RESPONSE_HEADERS_ENABLED", Honoured("as `--response-headers`"), NONE),
    ("LIMIT_LIMIT_HEADER", NotYet("it is RateLimit-Limit"), &["RateLimit-Limit"]),
    ("LIMIT_REMAINING_HEADER", NotYet("it is RateLimit-Remaining"), &["RateLimit-Remaining"]),
    ("LIMIT_RESET_HEADER", NotYet("it is RateLimit-Reset"), &["RateLimit-Reset"]),
    (
        "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED",
        Honoured("health waits for rules, which it does by default here"),
        NONE,
    ),
    ("REDIS_SOCKET_TYPE", HonouredWith(OF_REDIS, "tcp, tls or unix"), &["tcp"]),
    ("REDIS_TYPE", HonouredWith(OF_REDIS, "SINGLE, SENTINEL or CLUSTER"), &["SINGLE"]),
    (
        "REDIS_URL",
        Honoured("limits are kept there, as with `--redis`; not at the default address there"),
        NONE,
    ),
    ("REDIS_POOL_SIZE", Meaningless("one connection carries all"), NONE),
    ("REDIS_AUTH", HonouredWith(OF_REDIS, "a password, or user:password"), NONE),
    ("REDIS_TLS", HonouredWith(OF_REDIS, "as rediss in `--redis`"), OFF),
    ("REDIS_TLS_CLIENT_CERT", HonouredWith(OF_REDIS_TLS, "as `--redis-tls-cert`"), NONE),
    ("REDIS_TLS_CLIENT_KEY", HonouredWith(OF_REDIS_TLS, "as `--redis-tls-key`"), NONE),
    ("REDIS_TLS_CACERT", HonouredWith(OF_REDIS_TLS, "as `--redis-tls-ca`"), NONE),
    (
        "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION",
        NotYet("names are always looked at; where they differ, each rule's `on_error` decides"),
        OFF,
    ),
    ("REDIS_PIPELINE_WINDOW", Meaningless("requests that wait share calls"), &["0", "0s"]),
    ("REDIS_PIPELINE_LIMIT", Meaningless("requests that wait share calls"), &["0"]),
    ("REDIS_CLUSTER_PIPELINE_PARALLELISM", Meaningless("requests that wait share calls"), NONE),
    (
        "REDIS_PERSECOND",
        Refused(
            "one Redis for all limits (`REDIS_URL`): limits of a second are counted there, too",
        ),
        OFF,
    ),
    ("REDIS_PERSECOND_SOCKET_TYPE", PER_SECOND, NONE),
    ("REDIS_PERSECOND_TYPE", PER_SECOND, NONE),
    ("REDIS_PERSECOND_URL", PER_SECOND, NONE),
    ("REDIS_PERSECOND_POOL_SIZE", PER_SECOND, NONE),
    ("REDIS_PERSECOND_AUTH", PER_SECOND, NONE),
    ("REDIS_PERSECOND_TLS", PER_SECOND, NONE),
    ("REDIS_SENTINEL_AUTH", HonouredWith(OF_REDIS, "the same, for Sentinels"), NONE),
    ("REDIS_PERSECOND_SENTINEL_AUTH", PER_SECOND, NONE),
    ("REDIS_PERSECOND_PIPELINE_WINDOW", PER_SECOND, NONE),
    ("REDIS_PERSECOND_PIPELINE_LIMIT", PER_SECOND, NONE),
    ("REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM", PER_SECOND, NONE),
    (
        "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION",
        NotYet("health does not depend on Redis: `on_error` decides without it"),
        OFF,
    ),
    (
        "REDIS_TIMEOUT",
        HonouredWith(OF_REDIS, "as `--redis-deadline`: 10ms by default, there 10s"),
        NONE,
    ),
    ("REDIS_PERSECOND_TIMEOUT", PER_SECOND, NONE),
    (
        "REDIS_POOL_ON_EMPTY_BEHAVIOR",
        Meaningless("one connection carries all: none has to be waited for"),
        &["WAIT"],
    ),
    ("REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR", PER_SECOND, NONE),
    (
        "REDIS_STARTUP_INITIAL_INTERVAL",
        Meaningless(
            "Redis is asked again by itself for as long as it does not answer, and rules decide by `on_error` until then",
        ),
        NONE,
    ),
    (
        "REDIS_STARTUP_MAX_INTERVAL",
        Meaningless(
            "Redis is asked again by itself for as long as it does not answer, and rules decide by `on_error` until then",
        ),
        NONE,
    ),
    (
        "REDIS_STARTUP_MAX_ELAPSED_TIME",
        Meaningless(
            "Redis is asked again by itself for as long as it does not answer, and rules decide by `on_error` until then",
        ),
        NONE,
    ),
    ("MEMCACHE_HOST_PORT", MEMCACHE, NONE),
    ("MEMCACHE_MAX_IDLE_CONNS", MEMCACHE, NONE),
    ("MEMCACHE_SRV", MEMCACHE, NONE),
    ("MEMCACHE_SRV_REFRESH", MEMCACHE, NONE),
    ("MEMCACHE_TLS", MEMCACHE, OFF),
    ("MEMCACHE_TLS_CLIENT_CERT", MEMCACHE, NONE),
    ("MEMCACHE_TLS_CLIENT_KEY", MEMCACHE, NONE),
    ("MEMCACHE_TLS_CACERT", MEMCACHE, NONE),
    ("MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION", MEMCACHE, NONE),
    ("SHADOW_MODE", Honoured("as `--shadow`"), NONE),
    ("QUOTA_MODE", Honoured("as `--quota-mode`"), NONE),
    ("RESPONSE_DYNAMIC_METADATA", Honoured("as `--metadata`"), NONE),
    ("MERGE_DOMAIN_CONFIG", Honoured("as `--merge-domains`"), NONE),
    (
        "TRACING_ENABLED",
        Honoured("as `--otlp http://localhost:4318`, unless a variable of the SDK names another"),
        NONE,
    ),
    ("TRACING_SERVICE_NAME", Honoured("tollgate by default, there RateLimit"), NONE),
    ("TRACING_SERVICE_NAMESPACE", Honoured("in traces"), NONE),
    ("TRACING_SERVICE_INSTANCE_ID", Honoured("in traces; none by default"), NONE),
    (
        "TRACING_EXPORTER_PROTOCOL",
        Honoured(
            "http, the default as there with `TRACING_ENABLED`, or grpc; as `--otlp-protocol`",
        ),
        NONE,
    ),
    (
        "TRACING_SAMPLING_RATE",
        Honoured("as `--trace-sample`: 1 by default with `TRACING_ENABLED`, as there"),
        NONE,
    ),
];
