//! The reports to an operator about requests: their settings by the variables of envoyproxy/ratelimit and of
//! OpenTelemetry.

use std::path::Path;

use crate::serving::{serve_to_end, setting};

/// Returns the printed values and sources of these settings under these variables, or the error.
fn printed(names: &[&str], environment: &[(&str, &str)]) -> Result<Vec<String>, String> {
    let told = serve_to_end(Path::new("."), &["--rules", "r", "--print-config"], environment)?;
    let value = |name: &&str| {
        let (value, source) = setting(&told, name);
        match value.strip_prefix("# ") {
            Some(idle) => format!("# {name} = {idle}  # {source}"),
            None => format!("{name} = {value}  # {source}"),
        }
    };
    Ok(names.iter().map(value).collect())
}

/// An environment, and the lines that are printed for the settings.
type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);

fn check(names: &[&str], cases: &[Case<'_>]) {
    for (environment, expected) in cases {
        let found = printed(names, environment).expect("good settings");
        assert_eq!(found, *expected, "{environment:?}");
    }
}

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317");
const SAMPLER: &str = "OTEL_TRACES_SAMPLER";

#[test]
fn traces_follow_the_variables_of_opentelemetry_and_of_envoyproxy() {
    let set = r#"otlp = "http://c:4317"  # OTEL_EXPORTER_OTLP_ENDPOINT"#;
    let unset = ["# otlp = URL  # default", "# trace-sample = 0  # default"];
    check(
        &["otlp", "trace-sample"],
        &[
            (&[], &unset),
            (&[ENDPOINT], &[set, "trace-sample = 0  # default"]),
            (&[ENDPOINT, ("OTEL_SDK_DISABLED", "true")], &unset),
            (&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")], &unset),
            (&[ENDPOINT, ("TRACING_ENABLED", "false")], &unset),
            (
                &[ENDPOINT, ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t:1")],
                &[
                    r#"otlp = "https://t:1"  # OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"#,
                    "trace-sample = 0  # default",
                ],
            ),
            (
                &[ENDPOINT, (SAMPLER, "always_on")],
                &[set, r#"trace-sample = "1 of all"  # OTEL_TRACES_SAMPLER"#],
            ),
            (
                &[ENDPOINT, (SAMPLER, "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0.25")],
                &[set, r#"trace-sample = "0.25 of all"  # OTEL_TRACES_SAMPLER"#],
            ),
            (
                &[
                    ENDPOINT,
                    (SAMPLER, "parentbased_traceidratio"),
                    ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
                ],
                &[set, "trace-sample = 0.25  # OTEL_TRACES_SAMPLER"],
            ),
            (
                &[ENDPOINT, ("TRACING_SAMPLING_RATE", "0.5")],
                &[set, "trace-sample = 0.5  # TRACING_SAMPLING_RATE"],
            ),
            (
                &[("TRACING_ENABLED", "true"), ("TRACING_EXPORTER_PROTOCOL", "grpc")],
                &[
                    r#"otlp = "http://localhost:4317"  # TRACING_ENABLED"#,
                    "trace-sample = 1  # TRACING_ENABLED",
                ],
            ),
            (
                &[("TOLLGATE_OTLP", "http://u:secret@c:1"), ("TOLLGATE_TRACE_SAMPLE", "0.5")],
                &[
                    "# otlp = (set, and not shown)  # TOLLGATE_OTLP",
                    "trace-sample = 0.5  # TOLLGATE_TRACE_SAMPLE",
                ],
            ),
        ],
    );
}

#[test]
fn statsd_follows_the_variables_of_envoyproxy() {
    let idle = ["# statsd-every = 5  # default", r#"# statsd-style = "dotted"  # default"#];
    let usual = ["statsd-every = 5  # default", r#"statsd-style = "dotted"  # default"#];
    let with = |statsd, [every, style]: [&'static str; 2]| [statsd, every, style];
    check(
        &["statsd", "statsd-every", "statsd-style"],
        &[
            (&[], &with("# statsd = ADDRESS  # default", idle)),
            (&[("USE_STATSD", "true")], &with(r#"statsd = "localhost:8125"  # USE_STATSD"#, usual)),
            (&[("STATSD_HOST", "s")], &with(r#"statsd = "s:8125"  # STATSD_HOST"#, usual)),
            (
                &[("STATSD_HOST", "::1"), ("STATSD_PORT", "9")],
                &with(r#"statsd = "[::1]:9"  # STATSD_HOST, STATSD_PORT"#, usual),
            ),
            (
                &[("STATSD_HOST", "s"), ("USE_STATSD", "false")],
                &with("# statsd = ADDRESS  # default", idle),
            ),
            (
                &[("STATSD_HOST", "s"), ("USE_DOG_STATSD", "1"), ("STATS_FLUSH_INTERVAL", "1m")],
                &[
                    r#"statsd = "s:8125"  # STATSD_HOST"#,
                    "statsd-every = 60  # STATS_FLUSH_INTERVAL",
                    r#"statsd-style = "tagged"  # USE_DOG_STATSD"#,
                ],
            ),
        ],
    );
    let tags = [("STATSD_HOST", "s"), ("EXTRA_TAGS", "zone:eu,app:shop")];
    check(
        &["statsd-tags"],
        &[(&tags, &[r#"statsd-tags = ["zone:eu", "app:shop"]  # EXTRA_TAGS"#])],
    );
}

#[test]
fn a_variable_that_cannot_be_meant_is_refused_by_its_name() {
    for (name, value, accepted) in [
        (SAMPLER, "sometimes", "always_on, always_off, traceidratio, "),
        ("TRACING_SAMPLING_RATE", "2", "a share from 0 to 1, as in 0.01"),
        ("TRACING_ENABLED", "yes", "true or false"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "grpc, or http or http/protobuf"),
        ("TRACING_EXPORTER_PROTOCOL", "thrift", "grpc, or http or http/protobuf"),
        ("STATSD_HOST", "a b", "a host name or an IP address"),
        ("STATSD_PORT", "65536", "a port, 1 to 65535"),
        ("STATSD_PORT", "0", "a port, 1 to 65535"),
        ("STATS_FLUSH_INTERVAL", "5", "whole seconds from 1s to 1h, as in 5s"),
        ("STATS_FLUSH_INTERVAL", "1500ms", "whole seconds from 1s to 1h, as in 5s"),
        ("EXTRA_TAGS", "zone", "names and values as in zone:eu,app:shop"),
    ] {
        let environment = [ENDPOINT, ("STATSD_HOST", "s"), (name, value)];
        let error = printed(&[], &environment).expect_err(name);
        let says =
            format!("Some(2) tollgate: {name} is '{value}' in the environment; use {accepted}");
        assert!(error.starts_with(&says), "{error}");
    }
}

#[test]
fn a_variable_that_would_change_nothing_keeps_no_service_from_its_start() {
    // Kubernetes sets this variable for a Service that is called statsd.
    let port = ("STATSD_PORT", "tcp://10.0.0.1:8125");
    let bad = [(SAMPLER, "xray"), ("STATS_FLUSH_INTERVAL", "5"), ("EXTRA_TAGS", "zone"), port];
    let off = ["# statsd = ADDRESS  # default", "# trace-sample = 0  # default"];
    check(&["statsd", "trace-sample"], &[(&bad, &off)]);
    let off_by_name = [&bad[..], &[("STATSD_HOST", "s"), ("USE_STATSD", "false")]].concat();
    check(&["statsd", "trace-sample"], &[(&off_by_name, &off)]);
    let outranked = [
        ("TOLLGATE_STATSD", "s:1"),
        ("TOLLGATE_STATSD_EVERY", "2"),
        ("TOLLGATE_STATSD_TAGS", "zone:eu"),
        ("TOLLGATE_OTLP", "http://c:1"),
        ("TOLLGATE_TRACE_SAMPLE", "0.5"),
    ];
    let on =
        [r#"statsd = "s:1"  # TOLLGATE_STATSD"#, "trace-sample = 0.5  # TOLLGATE_TRACE_SAMPLE"];
    check(&["statsd", "trace-sample"], &[(&[&bad[..], &outranked].concat(), &on)]);
}
