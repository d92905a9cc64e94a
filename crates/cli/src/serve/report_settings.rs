//! [`ReportSettings`]: the reports to an operator besides the log and `/metrics`: denials, traces, StatsD.

use std::time::Duration;

use tollgate::Policy;
use tollgate_service::{
    HostPort, Options, OtlpProtocol, Statsd, StatsdStyle, TraceSampling, Traces,
};

use super::environment::{BadVariable, Environment};
use super::given::Given;
use super::otlp_settings;
use super::report_args::{OtlpProtocolArg, StatsdStyleArg, tag};
use super::setting::{Setting, SettingError, SettingSource, VariableValue, first, optional, own};

/// The settings of these reports.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReportSettings {
    pub(super) log_denials: Setting<Option<Policy>>,
    /// The address of the collector. If it may contain a password, it is not printed.
    pub(super) otlp: Setting<Option<String>>,
    pub(super) otlp_protocol: Setting<OtlpProtocolArg>,
    pub(super) trace_sample: Setting<TraceSampling>,
    /// The attributes of the service in traces, from the variables of envoyproxy/ratelimit.
    resource: Vec<(String, String)>,
    pub(super) statsd: Setting<Option<HostPort>>,
    pub(super) statsd_every: Setting<u16>,
    pub(super) statsd_style: Setting<StatsdStyleArg>,
    pub(super) statsd_tags: Setting<Vec<(String, String)>>,
}

const SHARE: &str = "a share from 0 to 1, as in 0.01";
const SAMPLERS: &str = "always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off or \
                        parentbased_traceidratio";
const TAGS: &str = "names and values as in zone:eu,app:shop";
const INTERVALS: &str = "whole seconds from 1s to 1h, as in 5s";
const PORTS: &str = "a port, 1 to 65535";
const FLUSH: &str = "STATS_FLUSH_INTERVAL";
const HOSTS: &str = "a host name or an IP address";

/// The variables of envoyproxy/ratelimit that name the service, each with its attribute in traces.
const RESOURCE: [(&str, &str); 3] = [
    ("TRACING_SERVICE_NAME", "service.name"),
    ("TRACING_SERVICE_NAMESPACE", "service.namespace"),
    ("TRACING_SERVICE_INSTANCE_ID", "service.instance.id"),
];

impl ReportSettings {
    pub(super) fn resolve(given: &Given, environment: &Environment) -> Result<Self, SettingError> {
        let args = &given.args.reports;
        let (otlp, otlp_protocol) = otlp_settings::collector(given, environment)?;
        let statsd = statsd(given, environment)?;
        let needs = |name: &str, missing: &'static str, is_there: bool| {
            let is_given = given.source(name) != SettingSource::Default;
            let found = given.name_of(name);
            if is_given && !is_there { Err(SettingError::Half { found, missing }) } else { Ok(()) }
        };
        for name in ["trace-sample", "otlp-protocol"] {
            needs(name, "--otlp", otlp.value.is_some())?;
        }
        for name in ["statsd-every", "statsd-style", "statsd-tags"] {
            needs(name, "--statsd", statsd.value.is_some())?;
        }
        let named = RESOURCE.into_iter().filter_map(|(variable, name)| {
            environment.text(variable).map(|value| (name.to_owned(), value.to_owned()))
        });
        // A variable that would change nothing is not read, so that a bad value in it does not keep the service from
        // starting.
        let reads = |is_given: bool| statsd.value.is_some() && !is_given;
        let flush = reads(args.statsd_every.is_some()).then(|| flush_interval(environment));
        let dog = environment.truth("USE_DOG_STATSD")?.unwrap_or(false);
        let tags = Some(args.statsd_tags.clone()).filter(|tags| !tags.is_empty());
        let extra = reads(tags.is_some()).then(|| extra_tags(environment)).transpose()?.flatten();
        let flush = flush.transpose()?.flatten();
        Ok(Self {
            log_denials: given.setting("log-denials", args.log_denials),
            trace_sample: trace_sample(given, environment, otlp.value.is_some())?,
            otlp,
            otlp_protocol,
            resource: named.collect(),
            statsd,
            statsd_every: first(
                given.setting("statsd-every", args.statsd_every),
                VariableValue::of(FLUSH, flush),
                5,
            ),
            statsd_style: first(
                given.setting("statsd-style", args.statsd_style),
                VariableValue::of("USE_DOG_STATSD", dog.then_some(StatsdStyleArg::Tagged)),
                StatsdStyleArg::Dotted,
            ),
            statsd_tags: first(
                given.setting("statsd-tags", tags),
                VariableValue::of("EXTRA_TAGS", extra),
                Vec::new(),
            ),
        })
    }

    /// The options of the service with these reports.
    pub(super) fn with(&self, options: Options) -> Options {
        let traces = self.otlp.value.clone().map(|endpoint| Traces {
            protocol: match self.otlp_protocol.value {
                OtlpProtocolArg::Grpc => OtlpProtocol::Grpc,
                OtlpProtocolArg::Http => OtlpProtocol::Http,
            },
            sampling: self.trace_sample.value,
            resource: self.resource.clone(),
            ..Traces::new(endpoint)
        });
        let statsd = self.statsd.value.clone().map(|address| Statsd {
            every: Duration::from_secs(self.statsd_every.value.into()),
            style: match self.statsd_style.value {
                StatsdStyleArg::Dotted => StatsdStyle::Dotted,
                StatsdStyleArg::Tagged => StatsdStyle::Tagged,
            },
            tags: self.statsd_tags.value.clone(),
            ..Statsd::new(address)
        });
        Options { log_denials: self.log_denials.value, traces, statsd, ..options }
    }
}

fn trace_sample(
    given: &Given,
    environment: &Environment,
    is_on: bool,
) -> Result<Setting<TraceSampling>, BadVariable> {
    const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
    let flag = given.setting("trace-sample", given.args.reports.trace_sample);
    if !is_on || flag.value.is_some() {
        return Ok(own(flag, TraceSampling::default()));
    }
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
        Some("always_on") => VariableValue::of(SAMPLER, Some(alone(1.0))),
        Some("always_off") => VariableValue::of(SAMPLER, Some(alone(0.0))),
        Some("traceidratio") => VariableValue::of(SAMPLER, Some(alone(ratio()?))),
        Some("parentbased_always_on") => VariableValue::of(SAMPLER, Some(follows(1.0))),
        Some("parentbased_always_off") => VariableValue::of(SAMPLER, Some(follows(0.0))),
        Some("parentbased_traceidratio") => VariableValue::of(SAMPLER, Some(follows(ratio()?))),
        Some(found) => {
            let found = found.to_owned();
            return Err(BadVariable { name: SAMPLER, found, accepted: SAMPLERS });
        }
        None => match share("TRACING_SAMPLING_RATE")? {
            Some(share) => VariableValue::of("TRACING_SAMPLING_RATE", Some(follows(share))),
            // All are sampled, as in envoyproxy/ratelimit.
            None => {
                let is_enabled = environment.truth("TRACING_ENABLED")?.unwrap_or(false);
                VariableValue::of("TRACING_ENABLED", is_enabled.then(|| follows(1.0)))
            }
        },
    };
    Ok(first(flag, variable, TraceSampling::default()))
}

/// The address of StatsD. The variables count only if `STATSD_HOST` is set. In envoyproxy/ratelimit StatsD is on
/// without any variable, which would be a surprise here; and a port alone may be another program's, because Kubernetes
/// sets it for a Service called statsd.
fn statsd(
    given: &Given,
    environment: &Environment,
) -> Result<Setting<Option<HostPort>>, BadVariable> {
    const PORT: &str = "STATSD_PORT";
    let flag = given.setting("statsd", given.args.reports.statsd.clone());
    let uses = environment.truth("USE_STATSD")?;
    let dog = environment.truth("USE_DOG_STATSD")?.unwrap_or(false);
    let host = environment.text("STATSD_HOST");
    if flag.value.is_some() || !(dog || uses.unwrap_or(host.is_some())) {
        return Ok(flag);
    }
    let port: Option<u16> = environment.parsed(PORT, PORTS)?;
    if port == Some(0) {
        return Err(BadVariable { name: PORT, found: "0".to_owned(), accepted: PORTS });
    }
    let name = match (host, port) {
        (Some(_), Some(_)) => "STATSD_HOST, STATSD_PORT",
        (Some(_), None) => "STATSD_HOST",
        (None, Some(_)) => PORT,
        (None, None) if dog => "USE_DOG_STATSD",
        (None, None) => "USE_STATSD",
    };
    let (host, port) = (host.unwrap_or("localhost"), port.unwrap_or(8_125));
    let is_v6 = host.parse::<std::net::Ipv6Addr>().is_ok();
    let address = if is_v6 { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let refused = |_| BadVariable { name: "STATSD_HOST", found: host.to_owned(), accepted: HOSTS };
    let address = address.parse().map_err(refused)?;
    Ok(optional(flag, VariableValue::of(name, Some(address))))
}

/// The interval in seconds.
fn flush_interval(environment: &Environment) -> Result<Option<u16>, BadVariable> {
    let range = Duration::from_secs(1)..=Duration::from_secs(3_600);
    let Some(every) = environment.duration(FLUSH, range, INTERVALS)? else { return Ok(None) };
    let seconds = u16::try_from(every.as_secs()).ok().filter(|_| every.subsec_nanos() == 0);
    let found = || environment.text(FLUSH).unwrap_or_default().to_owned();
    let refused = || BadVariable { name: FLUSH, found: found(), accepted: INTERVALS };
    seconds.ok_or_else(refused).map(Some)
}

fn extra_tags(environment: &Environment) -> Result<Option<Vec<(String, String)>>, BadVariable> {
    const NAME: &str = "EXTRA_TAGS";
    let Some(text) = environment.text(NAME) else { return Ok(None) };
    let refused = |_| BadVariable { name: NAME, found: text.to_owned(), accepted: TAGS };
    text.split(',').map(tag).collect::<Result<_, _>>().map(Some).map_err(refused)
}
