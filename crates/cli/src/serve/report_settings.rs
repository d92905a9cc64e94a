//! [`ReportSettings`]: what an operator is told besides the log and `/metrics`: denials and traces.

use tollgate::Policy;
use tollgate_service::{Options, TraceSampling, Traces};

use super::environment::{BadVariable, Environment};
use super::given::Given;
use super::setting::{Setting, SettingError, SettingSource, first, optional};

/// The settings of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReportSettings {
    pub(super) log_denials: Setting<Option<Policy>>,
    /// It may contain a password, and is not printed then.
    pub(super) otlp: Setting<Option<String>>,
    pub(super) trace_sample: Setting<TraceSampling>,
    /// What the variables of envoyproxy/ratelimit say of the service, in traces.
    resource: Vec<(String, String)>,
}

const SHARE: &str = "a share from 0 to 1, as in 0.01";
const SAMPLERS: &str = "always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off or \
                        parentbased_traceidratio";
const PROTOCOLS: &str = "grpc, in which collectors are spoken to at port 4317";

/// Where a collector is if nothing but `TRACING_ENABLED` is said.
const COLLECTOR: &str = "http://localhost:4317";

/// Those of envoyproxy/ratelimit that name the service, and what they are in traces.
const RESOURCE: [(&str, &str); 3] = [
    ("TRACING_SERVICE_NAME", "service.name"),
    ("TRACING_SERVICE_NAMESPACE", "service.namespace"),
    ("TRACING_SERVICE_INSTANCE_ID", "service.instance.id"),
];

impl ReportSettings {
    pub(super) fn resolve(given: &Given, environment: &Environment) -> Result<Self, SettingError> {
        let (args, from) = (&given.args.reports, |name| given.source(name));
        let otlp = otlp(given, environment)?;
        let needs = |name: &str, missing: &'static str, is_there: bool| {
            let is_given = given.source(name) != SettingSource::Default;
            let found = given.name_of(name);
            if is_given && !is_there { Err(SettingError::Half { found, missing }) } else { Ok(()) }
        };
        needs("trace-sample", "--otlp", otlp.value.is_some())?;
        let named = RESOURCE.into_iter().filter_map(|(variable, name)| {
            environment.text(variable).map(|value| (name.to_owned(), value.to_owned()))
        });
        Ok(Self {
            log_denials: optional((args.log_denials, from("log-denials")), (None, "")),
            trace_sample: trace_sample(given, environment)?,
            otlp,
            resource: named.collect(),
        })
    }

    /// The options of the service with these.
    pub(super) fn with(&self, options: Options) -> Options {
        let traces = self.otlp.value.clone().map(|endpoint| Traces {
            sampling: self.trace_sample.value,
            resource: self.resource.clone(),
            ..Traces::new(endpoint)
        });
        Options { log_denials: self.log_denials.value, traces, ..options }
    }
}

fn otlp(given: &Given, environment: &Environment) -> Result<Setting<Option<String>>, BadVariable> {
    let is_enabled = environment.truth("TRACING_ENABLED")?;
    let is_off = is_enabled == Some(false)
        || environment.truth("OTEL_SDK_DISABLED")? == Some(true)
        || environment.text("OTEL_TRACES_EXPORTER") == Some("none");
    let of = |name| environment.text(name).map(|text| (text.to_owned(), name));
    let variable = of("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
        .or_else(|| of("OTEL_EXPORTER_OTLP_ENDPOINT"))
        .or_else(|| is_enabled.map(|_| (COLLECTOR.to_owned(), "TRACING_ENABLED")))
        .filter(|_| !is_off);
    let (endpoint, name) = variable.unzip();
    let flag = (given.args.reports.otlp.clone(), given.source("otlp"));
    let otlp = optional(flag, (endpoint, name.unwrap_or("")));
    let is_of_variable = given.args.reports.otlp.is_none() && otlp.value.is_some();
    let protocols = [
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "TRACING_EXPORTER_PROTOCOL",
    ];
    let protocol = protocols.into_iter().find_map(|name| Some((name, environment.text(name)?)));
    match protocol {
        // What the flag says is an address of gRPC; that of a variable is one for the other protocol.
        Some((name, found)) if found != "grpc" && is_of_variable => {
            Err(BadVariable { name, found: found.to_owned(), accepted: PROTOCOLS })
        }
        _ => Ok(otlp),
    }
}

fn trace_sample(
    given: &Given,
    environment: &Environment,
) -> Result<Setting<TraceSampling>, BadVariable> {
    const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
    let share = |name| -> Result<Option<f64>, BadVariable> {
        let share: Option<f64> = environment.parsed(name, SHARE)?;
        match share.filter(|share| !(0.0..=1.0).contains(share)) {
            Some(bad) => Err(BadVariable { name, found: bad.to_string(), accepted: SHARE }),
            None => Ok(share),
        }
    };
    let follows = |of_roots| TraceSampling { of_roots, follows_caller: true };
    let alone = |of_roots| TraceSampling { of_roots, follows_caller: false };
    let ratio = || share("OTEL_TRACES_SAMPLER_ARG").map(|ratio| ratio.unwrap_or(1.0));
    let variable = match environment.text(SAMPLER) {
        Some("always_on") => (Some(alone(1.0)), SAMPLER),
        Some("always_off") => (Some(alone(0.0)), SAMPLER),
        Some("traceidratio") => (Some(alone(ratio()?)), SAMPLER),
        Some("parentbased_always_on") => (Some(follows(1.0)), SAMPLER),
        Some("parentbased_always_off") => (Some(follows(0.0)), SAMPLER),
        Some("parentbased_traceidratio") => (Some(follows(ratio()?)), SAMPLER),
        Some(found) => {
            let found = found.to_owned();
            return Err(BadVariable { name: SAMPLER, found, accepted: SAMPLERS });
        }
        None => match share("TRACING_SAMPLING_RATE")? {
            Some(share) => (Some(follows(share)), "TRACING_SAMPLING_RATE"),
            // All, as there.
            None => {
                let is_enabled = environment.truth("TRACING_ENABLED")?.unwrap_or(false);
                (is_enabled.then(|| follows(1.0)), "TRACING_ENABLED")
            }
        },
    };
    let flag = (given.args.reports.trace_sample, given.source("trace-sample"));
    Ok(first(flag, variable, TraceSampling::default()))
}
