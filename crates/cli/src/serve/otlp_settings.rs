//! The collector of traces, from the variables of OpenTelemetry's SDK and those of envoyproxy/ratelimit.

use tollgate_service::{OtlpProtocol, Traces};

use super::environment::Environment;
use super::report_args::{OtlpProtocolArg, ReportArgs};
use super::setting::{SettingError, bad};
use super::values::Values;
use super::variables::ON;

/// The accepted protocols: those of the SDK's variables, and those of envoyproxy/ratelimit's.
const PROTOCOLS: &str = "grpc, or http or http/protobuf, which are the same";

const TRACING_ENABLED: &str = "TRACING_ENABLED";
const OF_TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const OF_ALL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// The path to which spans are sent over HTTP.
const PATH: &str = "/v1/traces";

/// The variables of envoyproxy/ratelimit that name the service, each with its attribute in traces.
const RESOURCE: [(&str, &str); 3] = [
    ("TRACING_SERVICE_NAME", "service.name"),
    ("TRACING_SERVICE_NAMESPACE", "service.namespace"),
    ("TRACING_SERVICE_INSTANCE_ID", "service.instance.id"),
];

/// Gives the collector its address and its protocol, unless an address is given already. If only an address is given,
/// the protocol is gRPC.
pub(super) fn layer(values: &mut Values, environment: &Environment) -> Result<(), SettingError> {
    let is_enabled = environment.truth(TRACING_ENABLED)?;
    // The variables of the SDK may be set for other programs, so nothing in them is refused unless there is a collector.
    if values.has("otlp") || !is_named_and_on(is_enabled, environment) {
        return Ok(());
    }
    if !values.has("otlp-protocol") {
        // In envoyproxy/ratelimit HTTP is the default.
        let usual = (is_enabled == Some(true)).then_some((TRACING_ENABLED, "http"));
        if let Some((variable, protocol)) = protocol(environment)?.or(usual) {
            values.put_of(variable, "otlp-protocol", protocol);
        }
    }
    let is_http = values.text("otlp-protocol").is_some_and(|protocol| protocol == "http");
    let (variable, url) = address(environment, is_http);
    values.put_of(variable, "otlp", url);
    Ok(())
}

/// Returns whether the variables name a collector, and none of them switches traces off.
fn is_named_and_on(is_enabled: Option<bool>, environment: &Environment) -> bool {
    let names = [OF_TRACES, OF_ALL];
    let is_named = names.iter().any(|name| environment.text(name).is_some());
    // For the SDK every value that is not true is false.
    let is_true = |text: &str| ON.contains(&text) || text.eq_ignore_ascii_case("true");
    (is_named || is_enabled == Some(true))
        && is_enabled != Some(false)
        && !environment.text("OTEL_SDK_DISABLED").is_some_and(is_true)
        && environment.text("OTEL_TRACES_EXPORTER") != Some("none")
}

/// Returns the protocol that the variables name, and the variable that names it.
fn protocol(
    environment: &Environment,
) -> Result<Option<(&'static str, &'static str)>, SettingError> {
    let names = [
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "TRACING_EXPORTER_PROTOCOL",
    ];
    let named = names.into_iter().find_map(|name| Some((name, environment.text(name)?)));
    named
        .map(|(name, found)| match found {
            "grpc" => Ok((name, "grpc")),
            "http" | "http/protobuf" => Ok((name, "http")),
            _ => Err(bad(name, found, PROTOCOLS)),
        })
        .transpose()
}

/// Returns the whole address that the variables name, and the variable that names it.
fn address(environment: &Environment, is_http: bool) -> (&'static str, String) {
    if let Some(url) = environment.text(OF_TRACES) {
        // This address is used as it is. If it has no path, its path is the root.
        let root = if is_http && !has_path(url) { "/" } else { "" };
        return (OF_TRACES, format!("{url}{root}"));
    }
    if let Some(url) = environment.text(OF_ALL) {
        // Each signal has a path of its own below this address.
        let path = if is_http { PATH } else { "" };
        let url = if is_http { url.trim_end_matches('/') } else { url };
        return (OF_ALL, format!("{url}{path}"));
    }
    let usual = if is_http { "http://localhost:4318/v1/traces" } else { "http://localhost:4317" };
    (TRACING_ENABLED, usual.to_owned())
}

/// Returns the collector to which spans are sent, if there is one.
pub(super) fn traces(args: &ReportArgs, environment: &Environment) -> Option<Traces> {
    let url = args.otlp.as_ref()?;
    let (protocol, endpoint) = match args.otlp_protocol {
        OtlpProtocolArg::Grpc => (OtlpProtocol::Grpc, url.clone()),
        OtlpProtocolArg::Http => (OtlpProtocol::Http, with_path(url)),
    };
    let named = RESOURCE.into_iter().filter_map(|(variable, name)| {
        environment.text(variable).map(|value| (name.to_owned(), value.to_owned()))
    });
    let (sampling, resource) = (args.trace_sample, named.collect());
    Some(Traces { protocol, sampling, resource, ..Traces::new(endpoint) })
}

/// Adds the path of traces to an address over HTTP that has none.
fn with_path(url: &str) -> String {
    if has_path(url) { url.to_owned() } else { format!("{url}{PATH}") }
}

fn has_path(url: &str) -> bool {
    url.split_once("://").is_some_and(|(_, rest)| rest.contains(['/', '?']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::given::{Given, command};

    /// Returns the endpoint of the collector, and whether it is spoken to over HTTP.
    fn of(flags: &[&str], pairs: &[(&str, &str)]) -> Result<(Option<String>, bool), String> {
        let environment = Environment::of(pairs);
        let flags = command().try_get_matches_from(flags).expect("good flags");
        let given = Given::resolve(&flags, None, &environment, &[layer]);
        let given = given.map_err(|error| error.to_string())?;
        let traces = traces(&given.args.reports, &environment);
        let is_http = given.args.reports.otlp_protocol == OtlpProtocolArg::Http;
        Ok((traces.map(|traces| traces.endpoint), is_http))
    }

    #[test]
    fn a_collector_is_where_and_speaks_as_the_variables_say() {
        const ENABLED: (&str, &str) = ("TRACING_ENABLED", "true");
        let found = |url: &str, is_http| Ok((Some(url.to_owned()), is_http));
        assert_eq!(of(&[], &[]), Ok((None, false)));
        assert_eq!(of(&[], &[ENABLED]), found("http://localhost:4318/v1/traces", true));
        let grpc = ("TRACING_EXPORTER_PROTOCOL", "grpc");
        assert_eq!(of(&[], &[ENABLED, grpc]), found("http://localhost:4317", false));
        let at = (OF_ALL, "http://c:1/a/");
        assert_eq!(of(&[], &[ENABLED, at]), found("http://c:1/a/v1/traces", true));
        assert_eq!(of(&[], &[at]), found("http://c:1/a/", false));
        let http = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
        assert_eq!(of(&[], &[at, http]), found("http://c:1/a/v1/traces", true));
        assert_eq!(of(&[], &[(OF_TRACES, "http://c:1"), http]), found("http://c:1/", true));
        assert_eq!(of(&[], &[(OF_TRACES, "http://c:1/x"), http]), found("http://c:1/x", true));
        assert_eq!(of(&[], &[at, ("TRACING_ENABLED", "0")]).map(|found| found.0), Ok(None));
    }

    #[test]
    fn a_flag_is_spoken_to_over_grpc_unless_a_flag_says_otherwise() {
        let variables = [("TRACING_ENABLED", "true"), ("TRACING_EXPORTER_PROTOCOL", "http")];
        let found = |url: &str, is_http| Ok((Some(url.to_owned()), is_http));
        assert_eq!(of(&["--otlp", "http://c:1"], &variables), found("http://c:1", false));
        let flags = ["--otlp", "http://c:1", "--otlp-protocol", "http"];
        assert_eq!(of(&flags, &[]), found("http://c:1/v1/traces", true));
        let flags = ["--otlp", "http://c:1/x", "--otlp-protocol", "http"];
        assert_eq!(of(&flags, &[]), found("http://c:1/x", true));
    }

    #[test]
    fn what_the_sdk_is_told_for_other_programs_refuses_nothing_while_there_is_no_collector() {
        let json = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json");
        let at = (OF_ALL, "http://c:1");
        assert_eq!(of(&[], &[json]), Ok((None, false)));
        assert_eq!(of(&[], &[json, ("TRACING_ENABLED", "false"), at]), Ok((None, false)));
        assert_eq!(of(&[], &[json, ("OTEL_SDK_DISABLED", "tRUE"), at]), Ok((None, false)));
        assert_eq!(of(&[], &[("OTEL_SDK_DISABLED", "perhaps")]), Ok((None, false)));
        // The variable is not refused if a flag names the protocol.
        let flags = ["--otlp-protocol", "http"];
        assert_eq!(of(&flags, &[json, at]), Ok((Some("http://c:1/v1/traces".to_owned()), true)));
    }
}
