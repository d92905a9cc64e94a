//! Finds the collector of traces in flags, in the variables of OpenTelemetry's SDK, and in those of envoyproxy/ratelimit.

use super::environment::{BadVariable, Environment};
use super::given::Given;
use super::report_args::OtlpProtocolArg;
use super::setting::{Setting, VariableValue, first, optional};
use super::variables::ON;

/// The values of the SDK's variables, and of envoyproxy/ratelimit's.
const PROTOCOLS: &str = "grpc, or http or http/protobuf, which are the same";

const TRACING_ENABLED: &str = "TRACING_ENABLED";
const OF_TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const OF_ALL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// The path to which spans are sent over HTTP.
const PATH: &str = "/v1/traces";

/// Finds the address of the collector and its protocol.
pub(super) fn collector(
    given: &Given,
    environment: &Environment,
) -> Result<(Setting<Option<String>>, Setting<OtlpProtocolArg>), BadVariable> {
    let is_enabled = environment.truth(TRACING_ENABLED)?;
    let args = &given.args.reports;
    // The flag names an address of gRPC, unless the other flag says that it is HTTP.
    let reads = args.otlp.is_none() && is_named_and_on(is_enabled, environment);
    // The variables of the SDK may be set for other programs, so nothing in them is refused unless there is a collector.
    let of_variables =
        if reads && args.otlp_protocol.is_none() { protocol(environment)? } else { None };
    // In envoyproxy/ratelimit HTTP is the default.
    let usual = (is_enabled == Some(true) && reads).then_some(OtlpProtocolArg::Http);
    let of_variables = of_variables.unwrap_or(VariableValue::of(TRACING_ENABLED, usual));
    let protocol = given.setting("otlp-protocol", args.otlp_protocol);
    let protocol = first(protocol, of_variables, OtlpProtocolArg::Grpc);
    let is_http = protocol.value == OtlpProtocolArg::Http;
    let endpoint = args.otlp.as_ref().map(|url| if is_http { with_path(url) } else { url.clone() });
    let endpoint = given.setting("otlp", endpoint);
    Ok(match reads.then(|| variable(environment, is_http)).flatten() {
        Some(variable) => (optional(endpoint, variable), protocol),
        None => (endpoint, protocol),
    })
}

/// Whether the variables name a collector, and none of them switches traces off.
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

/// The protocol that the variables name.
fn protocol(
    environment: &Environment,
) -> Result<Option<VariableValue<OtlpProtocolArg>>, BadVariable> {
    let names = [
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "TRACING_EXPORTER_PROTOCOL",
    ];
    let Some((name, found)) =
        names.into_iter().find_map(|name| Some((name, environment.text(name)?)))
    else {
        return Ok(None);
    };
    match found {
        "grpc" => Ok(Some(VariableValue::of(name, Some(OtlpProtocolArg::Grpc)))),
        "http" | "http/protobuf" => Ok(Some(VariableValue::of(name, Some(OtlpProtocolArg::Http)))),
        _ => Err(BadVariable { name, found: found.to_owned(), accepted: PROTOCOLS }),
    }
}

/// The whole address that the variables name.
fn variable(environment: &Environment, is_http: bool) -> Option<VariableValue<String>> {
    if let Some(url) = environment.text(OF_TRACES) {
        // The address is used as it is; without a path it is the root.
        let root = if is_http && !has_path(url) { "/" } else { "" };
        return Some(VariableValue::of(OF_TRACES, Some(format!("{url}{root}"))));
    }
    if let Some(url) = environment.text(OF_ALL) {
        // Each signal has a path of its own below this address.
        let path = if is_http { PATH } else { "" };
        let url = if is_http { url.trim_end_matches('/') } else { url };
        return Some(VariableValue::of(OF_ALL, Some(format!("{url}{path}"))));
    }
    let usual = if is_http { "http://localhost:4318/v1/traces" } else { "http://localhost:4317" };
    Some(VariableValue::of(TRACING_ENABLED, Some(usual.to_owned())))
}

/// Adds the path of traces to a URL that has none.
fn with_path(url: &str) -> String {
    if has_path(url) { url.to_owned() } else { format!("{url}{PATH}") }
}

fn has_path(url: &str) -> bool {
    url.split_once("://").is_some_and(|(_, rest)| rest.contains(['/', '?']))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::ArgMatches;

    use super::*;
    use crate::serve::given::command;

    fn of(flags: &[&str], pairs: &[(&str, &str)]) -> Result<(Option<String>, bool), String> {
        let environment: Environment =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let flags: ArgMatches = command().try_get_matches_from(flags).expect("good flags");
        let given = Given::resolve(&flags, None::<&Path>, &environment).expect("good settings");
        let (otlp, protocol) =
            collector(&given, &environment).map_err(|error| error.to_string())?;
        Ok((otlp.value, protocol.value == OtlpProtocolArg::Http))
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

    #[test]
    fn another_protocol_is_refused_with_those_that_are_spoken() {
        let json = [("TRACING_ENABLED", "true"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")];
        let refused = of(&[], &json).expect_err("not spoken");
        let expected =
            "OTEL_EXPORTER_OTLP_PROTOCOL is 'http/json' in the environment; use grpc, or http or";
        assert!(refused.starts_with(expected), "{refused}");
    }
}
