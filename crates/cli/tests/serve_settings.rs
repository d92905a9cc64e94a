//! The settings of `tollgate serve`: where each value comes from, and what is refused.

use std::path::Path;

use crate::serving::{ANYWHERE, RULES, assert_setting, serve_to_end, setting};

fn run(flags: &[&str], environment: &[(&str, &str)]) -> Result<String, String> {
    serve_to_end(Path::new("."), flags, environment)
}

/// Returns what `--print-config` prints under these flags and variables.
#[track_caller]
fn print(flags: &[&str], environment: &[(&str, &str)]) -> String {
    run(&[flags, &["--print-config"]].concat(), environment).expect("good settings")
}

#[test]
fn a_flag_beats_a_variable_and_that_beats_the_default() {
    let flags = ["--rules", "here", "--grpc", "127.0.0.1:7", "--shadow=false"];
    let environment = [
        ("RUNTIME_ROOT", "/there"),
        ("PORT", "81"),
        ("DEBUG_HOST", "10.0.0.1"),
        ("DEBUG_PORT", "82"),
        ("GRPC_PORT", "83"),
        ("SHADOW_MODE", "true"),
        ("QUOTA_MODE", "1"),
        ("NEAR_LIMIT_RATIO", "0.5"),
        ("LOG_LEVEL", "WARN"),
        ("LOG_FORMAT", ""),
        ("GRPC_MAX_CONNECTION_AGE", "1h30m"),
    ];
    let printed = print(&flags, &environment);
    for (name, value, source) in [
        ("rules", r#""here""#, "--rules"),
        ("http", r#""0.0.0.0:81""#, "PORT"),
        ("grpc", r#""127.0.0.1:7""#, "--grpc"),
        ("admin", r#""10.0.0.1:82""#, "DEBUG_HOST, DEBUG_PORT"),
        ("grpc-max-age", "5400", "GRPC_MAX_CONNECTION_AGE"),
        ("grpc-max-age-grace", "# SECONDS", "default"),
        ("shadow", "false", "--shadow"),
        ("quota-mode", "true", "QUOTA_MODE"),
        ("near-limit-ratio", "0.5", "NEAR_LIMIT_RATIO"),
        ("log-level", r#""warn""#, "LOG_LEVEL"),
        ("log-format", r#""text""#, "default"),
    ] {
        assert_setting(&printed, name, value, source);
    }
}

#[test]
fn rules_and_certificates_are_found_where_envoyproxy_ratelimit_looks() {
    let environment = [
        ("RUNTIME_ROOT", "/data"),
        ("RUNTIME_SUBDIRECTORY", "ratelimit"),
        ("GRPC_UDS", "/run/rl.sock"),
        ("GRPC_SERVER_USE_TLS", "true"),
        ("GRPC_SERVER_TLS_CERT", "/tls/crt"),
        ("GRPC_SERVER_TLS_KEY", "/tls/key"),
        ("GRPC_CLIENT_TLS_CACERT", "/tls/ca"),
    ];
    let printed = print(&[], &environment);
    for (name, value, source) in [
        ("rules", r#""/data/ratelimit/config""#, "RUNTIME_ROOT, RUNTIME_SUBDIRECTORY"),
        ("grpc-socket", r#""/run/rl.sock""#, "GRPC_UDS"),
        ("grpc-tls-cert", r#""/tls/crt""#, "GRPC_SERVER_TLS_CERT"),
        ("grpc-tls-key", r#""/tls/key""#, "GRPC_SERVER_TLS_KEY"),
        ("grpc-tls-client-ca", r#""/tls/ca""#, "GRPC_CLIENT_TLS_CACERT"),
    ] {
        assert_setting(&printed, name, value, source);
    }
    let printed = print(&[], &[("RUNTIME_SUBDIRECTORY", "rl")]);
    assert_eq!(setting(&printed, "rules").0, r#""/srv/runtime_data/current/rl/config""#);
    let environment = [("CONFIG_TYPE", "GRPC_XDS_SOTW"), ("CONFIG_GRPC_XDS_SERVER_URL", "plane:1")];
    let printed = print(&[], &environment);
    assert_setting(&printed, "rules", r#""xds://plane:1/default""#, "CONFIG_TYPE");
}

/// An operator can print the settings before a restart, as their page says.
#[test]
fn what_is_printed_has_the_warnings_and_every_variable_that_is_honoured() {
    let environment = [
        ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
        ("CONFIG_GRPC_XDS_SERVER_URL", "plane:1"),
        ("CONFIG_GRPC_XDS_NODE_METADATA", "key1:val1,key2=val2"),
        ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
        ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "/certs/ca.crt"),
        ("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "2m"),
        ("TRACING_ENABLED", "true"),
        ("TRACING_SERVICE_NAME", "limits"),
        ("REDIS_URL", "user:secret@db:6379"),
        ("REDIS_AUTH", "secret"),
        ("REDIS_TIMEOUT", "20ms"),
        ("REDIS_TLS", "true"),
        ("REDIS_TLS_CACERT", "/redis/ca.crt"),
        ("USE_PROMETHEUS", "true"),
        ("PROMETHEUS_ADDR", ":19001"),
        ("PROMETHEUS_PATH", "/prometheus"),
        ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true"),
        ("LIMIT_LIMIT_HEADER", "x-limit"),
        ("TOLLGATE_ALLOW_EMPTY", "false"),
        ("TOLLGATE_POL", "5"),
    ];
    let printed = print(&[], &environment);
    assert!(!printed.contains("secret"), "{printed}");
    for (name, value, source) in [
        ("rules", r#""xdss://plane:1/default""#, "CONFIG_TYPE"),
        ("allow-empty", "false", "TOLLGATE_ALLOW_EMPTY"),
        ("healthy-without-rules", "true", "FORCE_START_WITHOUT_INITIAL_CONFIG"),
        ("metrics", r#"":19001""#, "PROMETHEUS_ADDR"),
        ("metrics-names", r#""envoyproxy""#, "USE_PROMETHEUS"),
        ("redis-deadline", "20", "REDIS_TIMEOUT"),
        ("redis-prefix", r#""tollgate""#, "default"),
        ("redis-tls-ca", r#""/redis/ca.crt""#, "REDIS_TLS_CACERT"),
        ("redis-tls-cert", "# FILE", "default"),
        ("otlp", r#""http://localhost:4318/v1/traces""#, "TRACING_ENABLED"),
        ("otlp-protocol", r#""http""#, "TRACING_ENABLED"),
    ] {
        assert_setting(&printed, name, value, source);
    }
    let (_, comments) =
        printed.split_once("# What the log warns of at the start:\n").expect("some");
    let expected = "\
# PROMETHEUS_PATH is set and is not honoured yet: it is /metrics
# LIMIT_LIMIT_HEADER is set and is not honoured yet: it is RateLimit-Limit
# TOLLGATE_ALLOW_EMPTY means nothing here: what xdss://plane:1/default does not send any more is gone
# CONFIG_GRPC_XDS_NODE_METADATA: 'key1:val1' is skipped; use names and texts, as in zone=eu,team=shop
# TOLLGATE_POL is set and is no setting; did you mean TOLLGATE_POLL?

# The variables of envoyproxy/ratelimit that are set and honoured:
# CONFIG_TYPE=GRPC_XDS_SOTW
# FORCE_START_WITHOUT_INITIAL_CONFIG=true
# CONFIG_GRPC_XDS_NODE_METADATA=key1:val1,key2=val2
# CONFIG_GRPC_XDS_SERVER_URL=plane:1
# CONFIG_GRPC_XDS_SERVER_USE_TLS=true
# CONFIG_GRPC_XDS_SERVER_TLS_CACERT=/certs/ca.crt
# XDS_CLIENT_BACKOFF_MAX_INTERVAL=2m
# USE_PROMETHEUS=true
# PROMETHEUS_ADDR=:19001
# REDIS_URL=(set, and not shown)
# REDIS_AUTH=(set, and not shown)
# REDIS_TLS=true
# REDIS_TLS_CACERT=/redis/ca.crt
# REDIS_TIMEOUT=20ms
# TRACING_ENABLED=true
# TRACING_SERVICE_NAME=limits
";
    assert_eq!(comments, expected);
}

#[test]
fn a_control_plane_has_its_deletions_obeyed_and_an_address_for_metrics_needs_its_switch() {
    let xds = [("CONFIG_TYPE", "GRPC_XDS_SOTW"), ("PROMETHEUS_ADDR", ":19001")];
    let printed = print(&[], &xds);
    assert_setting(&printed, "allow-empty", "true", "default");
    assert_setting(&printed, "metrics", "# ADDRESS", "default");
    let told = "# PROMETHEUS_ADDR is set and means nothing here without USE_PROMETHEUS=true\n";
    assert!(printed.contains(told) && !printed.contains("# PROMETHEUS_ADDR="), "{printed}");
    let waits = [
        ("RUNTIME_ROOT", "/data"),
        ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true"),
        ("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "true"),
    ];
    let printed = print(&[], &waits);
    let source = "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED";
    assert_setting(&printed, "healthy-without-rules", "false", source);
    assert_eq!(setting(&printed, "allow-empty").0, "false");
}

#[test]
fn what_comes_as_to_envoyproxy_ratelimit_is_counted_as_there_unless_it_is_said_otherwise() {
    let plane = [("CONFIG_TYPE", "GRPC_XDS_SOTW"), ("CONFIG_GRPC_XDS_SERVER_URL", "plane:1")];
    let files = [("RUNTIME_ROOT", "/data")];
    let ours = [("TOLLGATE_RULES", "here")];
    let (xds, none) = (&["--rules", "xds://plane:1/node"][..], &[][..]);
    for (flags, environment, value, source) in [
        (none, &files[..], "true", "RUNTIME_ROOT"),
        (none, &plane, "true", "CONFIG_TYPE"),
        (xds, &[], "true", "--rules"),
        (none, &ours, "false", "default"),
        (&["--rules", "here"], &files, "false", "default"),
        (&["--compat=false"], &files, "false", "--compat"),
        (none, &[files[0], ("TOLLGATE_COMPAT", "false")], "false", "TOLLGATE_COMPAT"),
    ] {
        let printed = print(flags, environment);
        let found = setting(&printed, "compat");
        assert_eq!(found, (value.to_owned(), source.to_owned()), "{flags:?} {environment:?}");
    }
}

#[test]
fn a_start_by_the_variables_of_envoyproxy_ratelimit_listens_on_both_families_of_addresses() {
    let (data, ours) = (("RUNTIME_ROOT", "/data"), ["--http", "0.0.0.0:80", "--grpc", ":81"]);
    let hosts = [("HOST", "0.0.0.0"), ("GRPC_HOST", "::"), ("DEBUG_HOST", "0.0.0.0")];
    for (flags, environment, expected) in [
        (&[][..], vec![data], [":8080", ":8081", "127.0.0.1:6070"]),
        (&[], [&[data][..], &hosts].concat(), [":8080", ":8081", ":6070"]),
        (&[], vec![data, ("HOST", "10.0.0.1")], ["10.0.0.1:8080", ":8081", "127.0.0.1:6070"]),
        (&ours, vec![data], ["0.0.0.0:80", ":81", "127.0.0.1:6070"]),
        (&["--rules", "r"], vec![], ["0.0.0.0:8080", "0.0.0.0:8081", "127.0.0.1:6070"]),
    ] {
        let printed = print(flags, &environment);
        let found = ["http", "grpc", "admin"].map(|name| setting(&printed, name).0);
        assert_eq!(found, expected.map(|address| format!("\"{address}\"")), "{environment:?}");
    }
    let flags = ["--rules", "r", "--statsd", ":8125", "--print-config"];
    let error = run(&flags, &[]).expect_err("no host");
    let told = "no host, as in localhost:8125";
    assert!(error.starts_with("Some(2) ") && error.contains(told), "{error}");
}

#[test]
fn a_grace_of_envoyproxy_ratelimit_without_an_age_has_no_effect() {
    for age in ["", "0"] {
        let environment = [
            ("RUNTIME_ROOT", "/data"),
            ("GRPC_MAX_CONNECTION_AGE", age),
            ("GRPC_MAX_CONNECTION_AGE_GRACE", "1h"),
        ];
        let printed = print(&[], &environment);
        assert_setting(&printed, "grpc-max-age-grace", "# SECONDS", "default");
    }
    // The service cannot start, so it ends after its warnings.
    let environment = [("RUNTIME_ROOT", "no/rules"), ("GRPC_MAX_CONNECTION_AGE_GRACE", "1h")];
    let error = run(&ANYWHERE, &environment).expect_err("no rules");
    let told = "GRPC_MAX_CONNECTION_AGE_GRACE is set and means nothing here: no age is set, so it has none to follow";
    assert!(error.starts_with("Some(2) ") && error.contains(told), "{error}");
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_would_be_right() {
    let rules = ("RUNTIME_ROOT", "/data");
    for (flags, environment, expected) in [
        (vec![], vec![], "no setting says where rules are; give --rules DIR"),
        (vec![], vec![rules, ("PORT", "http")], "PORT is 'http' in the environment; use a port"),
        (
            vec![],
            vec![rules, ("HOST", "a b")],
            "HOST is 'a b' in the environment; use an IP address or a host name",
        ),
        (vec![], vec![rules, ("SHADOW_MODE", "yes")], "SHADOW_MODE is 'yes' in the environment"),
        (vec![], vec![rules, ("NEAR_LIMIT_RATIO", "NaN")], "NEAR_LIMIT_RATIO is 'NaN'"),
        (vec![], vec![rules, ("LOG_LEVEL", "loud")], "LOG_LEVEL is 'loud' in the environment; use"),
        (
            vec![],
            vec![rules, ("BACKEND_TYPE", "memcache")],
            "BACKEND_TYPE is 'memcache' in the environment; use redis, with REDIS_URL: ",
        ),
        (
            vec![],
            vec![rules, ("USE_PROMETHEUS", "1"), ("PROMETHEUS_ADDR", "9090")],
            "PROMETHEUS_ADDR is '9090' in the environment; use an address, as in :9090",
        ),
        (
            vec![],
            vec![rules, ("GRPC_SERVER_USE_TLS", "true")],
            "GRPC_SERVER_USE_TLS is given without GRPC_SERVER_TLS_CERT; give both",
        ),
        (
            vec![],
            vec![rules, ("GRPC_SERVER_USE_TLS", "true"), ("GRPC_SERVER_TLS_CERT", "c")],
            "GRPC_SERVER_TLS_CERT is given without GRPC_SERVER_TLS_KEY; give both",
        ),
        (
            vec![],
            vec![rules, ("GRPC_MAX_CONNECTION_AGE", "1d")],
            "GRPC_MAX_CONNECTION_AGE is '1d' in the environment; use a time up to 8760h, as in 24h",
        ),
        (
            vec!["--grpc-max-age-grace", "5"],
            vec![rules, ("GRPC_MAX_CONNECTION_AGE", "0")],
            "--grpc-max-age-grace is given without --grpc-max-age; give both",
        ),
        (
            vec![],
            vec![rules, ("TOLLGATE_GRPC_MAX_AGE_GRACE", "5")],
            "TOLLGATE_GRPC_MAX_AGE_GRACE is given without --grpc-max-age; give both",
        ),
        (
            vec!["--http-tls-client-ca", "ca"],
            vec![rules],
            "--http-tls-client-ca is given without --http-tls-cert; give both",
        ),
        (vec!["--on-error", "deny"], vec![rules], "--on-error is given without --redis; give both"),
        (
            vec!["--redis", "redis://10.0.0.7/"],
            vec![rules, ("TOLLGATE_ON_ERROR", "shrug")],
            "TOLLGATE_ON_ERROR is 'shrug' in the environment; use local or allow or deny",
        ),
        (
            vec!["--redis-tls-key", "k", "--redis", "rediss://10.0.0.7/"],
            vec![rules],
            "--redis-tls-key is given without --redis-tls-cert; give both",
        ),
        (
            vec!["--rules", RULES, "--http-tls-cert", "no/cert", "--http-tls-key", "no/key"],
            vec![("PORT", "0"), ("GRPC_PORT", "0"), ("DEBUG_PORT", "0")],
            "no/cert: cannot be read: ",
        ),
        (
            [&ANYWHERE[..], &["--rules", "no/such"]].concat(),
            vec![],
            "no/such: cannot be read: No such file or directory",
        ),
    ] {
        let error = run(&flags, &environment).expect_err(expected);
        assert!(error.starts_with(&format!("Some(2) tollgate: {expected}")), "{expected}\n{error}");
    }
    let on_error = ["--redis", "redis://10.0.0.7/", "--on-error", "shrug"];
    let on_error_words = "'shrug' for '--on-error <WORD>'\n  [possible values: local, allow, deny]";
    let no_host = "'http://limits' is no name of a host; give a name alone, as in limits.internal";
    for (flags, expected) in [
        (&on_error[..], on_error_words),
        (&["--grpc-tls-cert", "c"], "--grpc-tls-key"),
        (&["--admin-host", "http://limits"], no_host),
        (&["--linger-rules", "soon"], "for '--linger-rules <SECONDS>'"),
        (&["--allow-empty=perhaps"], "[possible values: true, false]"),
    ] {
        let error = run(&[&["--rules", RULES], flags].concat(), &[]).expect_err(expected);
        assert!(error.starts_with("Some(2) ") && error.contains(expected), "{error}");
    }
}

#[test]
fn rules_in_redis_are_named_without_their_password_and_polled_often() {
    let address = "redis://me:secret@10.0.0.7/2#shop:rules";
    let printed = print(&["--rules", address], &[]);
    assert!(!printed.contains("secret"), "{printed}");
    assert_setting(&printed, "rules", r#""redis://10.0.0.7:6379/2#shop:rules""#, "--rules");
    assert_setting(&printed, "poll", "5", "default");
    let printed = print(&["--rules", "here"], &[]);
    assert_setting(&printed, "poll", "30", "default");
    let printed = print(&["--rules", address, "--poll", "60"], &[]);
    assert_setting(&printed, "poll", "60", "--poll");
    let error = run(&["--rules", "redis://:secret@10.0.0.7/x"], &[]).expect_err("no number");
    assert!(error.starts_with("Some(2) ") && !error.contains("secret"), "{error}");
    assert!(error.contains("the address of the rules is not understood: "), "{error}");
}
