//! The reports to an operator besides the log and `/metrics`. Their variables become settings here, and their settings
//! become options of the service.

use std::time::Duration;

use tollgate_service::{HostPort, Statsd, StatsdStyle, TraceSampling};

use super::environment::{BadVariable, Environment};
use super::report_args::{ReportArgs, StatsdStyleArg, sampling_text, tag};
use super::setting::{SettingError, bad};
use super::values::Values;

const SHARE: &str = "a share from 0 to 1, as in 0.01";
const SAMPLERS: &str = "always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off or \
                        parentbased_traceidratio";
const TAGS: &str = "names and values as in zone:eu,app:shop";
const INTERVALS: &str = "whole seconds from 1s to 1h, as in 5s";
const PORTS: &str = "a port, 1 to 65535";
const FLUSH: &str = "STATS_FLUSH_INTERVAL";
const EXTRA_TAGS: &str = "EXTRA_TAGS";
const HOSTS: &str = "a host name or an IP address";

/// Sets the share of requests that are traced, if there is a collector, and the settings of StatsD, if it has an
/// address.
pub(super) fn layer(values: &mut Values, environment: &Environment) -> Result<(), SettingError> {
    if values.has("otlp")
        && !values.has("trace-sample")
        && let Some((variable, sampling)) = trace_sample(environment)?
    {
        values.put_of(variable, "trace-sample", sampling_text(sampling));
    }
    let is_dog = environment.truth("USE_DOG_STATSD")?.unwrap_or(false);
    if !values.has("statsd") {
        let Some((variable, address)) = statsd(environment, is_dog)? else { return Ok(()) };
        values.put_of(variable, "statsd", address.to_string());
    }
    if is_dog {
        values.put_of("USE_DOG_STATSD", "statsd-style", "tagged");
    }
    if !values.has("statsd-every")
        && let Some(seconds) = flush_interval(environment)?
    {
        values.put_of(FLUSH, "statsd-every", seconds.to_string());
    }
    if !values.has("statsd-tags")
        && let Some(tags) = environment.text(EXTRA_TAGS)
    {
        let refused = |_| bad(EXTRA_TAGS, tags, TAGS);
        tags.split(',').try_for_each(|text| tag(text).map(drop)).map_err(refused)?;
        values.put_of(EXTRA_TAGS, "statsd-tags", tags);
    }
    Ok(())
}

/// Returns the address and the form of reports in StatsD, if there are any.
pub(super) fn statsd_of(args: &ReportArgs) -> Option<Statsd> {
    Some(Statsd {
        every: Duration::from_secs(args.statsd_every.into()),
        style: match args.statsd_style {
            StatsdStyleArg::Dotted => StatsdStyle::Dotted,
            StatsdStyleArg::Tagged => StatsdStyle::Tagged,
        },
        tags: args.statsd_tags.clone(),
        ..Statsd::new(args.statsd.clone()?)
    })
}

/// Returns the share of requests that are traced, and the variable that gives it.
fn trace_sample(
    environment: &Environment,
) -> Result<Option<(&'static str, TraceSampling)>, BadVariable> {
    const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
    const RATE: &str = "TRACING_SAMPLING_RATE";
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
    let sampling = match environment.text(SAMPLER) {
        Some("always_on") => alone(1.0),
        Some("always_off") => alone(0.0),
        Some("traceidratio") => alone(ratio()?),
        Some("parentbased_always_on") => follows(1.0),
        Some("parentbased_always_off") => follows(0.0),
        Some("parentbased_traceidratio") => follows(ratio()?),
        Some(found) => {
            let found = found.to_owned();
            return Err(BadVariable { name: SAMPLER, found, accepted: SAMPLERS });
        }
        None => {
            if let Some(share) = share(RATE)? {
                return Ok(Some((RATE, follows(share))));
            }
            // Without a sampler and a rate all requests are traced if traces are on, as in envoyproxy/ratelimit.
            let is_enabled = environment.truth("TRACING_ENABLED")?.unwrap_or(false);
            return Ok(is_enabled.then(|| ("TRACING_ENABLED", follows(1.0))));
        }
    };
    Ok(Some((SAMPLER, sampling)))
}

/// Returns the address of StatsD, and the variables that name it. They have an effect only if `STATSD_HOST` is set. In
/// envoyproxy/ratelimit StatsD is on even without variables, which users of this service would not expect. A port alone
/// may be meant for another program, because Kubernetes sets it for a Service called statsd.
fn statsd(
    environment: &Environment,
    is_dog: bool,
) -> Result<Option<(&'static str, HostPort)>, BadVariable> {
    const PORT: &str = "STATSD_PORT";
    let uses = environment.truth("USE_STATSD")?;
    let host = environment.text("STATSD_HOST");
    if !(is_dog || uses.unwrap_or(host.is_some())) {
        return Ok(None);
    }
    let port: Option<u16> = environment.parsed(PORT, PORTS)?;
    if port == Some(0) {
        return Err(BadVariable { name: PORT, found: "0".to_owned(), accepted: PORTS });
    }
    let name = match (host, port) {
        (Some(_), Some(_)) => "STATSD_HOST, STATSD_PORT",
        (Some(_), None) => "STATSD_HOST",
        (None, Some(_)) => PORT,
        (None, None) if is_dog => "USE_DOG_STATSD",
        (None, None) => "USE_STATSD",
    };
    let (host, port) = (host.unwrap_or("localhost"), port.unwrap_or(8_125));
    let is_v6 = host.parse::<std::net::Ipv6Addr>().is_ok();
    let address = if is_v6 { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let refused = |_| BadVariable { name: "STATSD_HOST", found: host.to_owned(), accepted: HOSTS };
    Ok(Some((name, address.parse().map_err(refused)?)))
}

/// Returns the interval between reports in seconds.
fn flush_interval(environment: &Environment) -> Result<Option<u16>, BadVariable> {
    let range = Duration::from_secs(1)..=Duration::from_secs(3_600);
    let Some(every) = environment.duration(FLUSH, range, INTERVALS)? else { return Ok(None) };
    let seconds = u16::try_from(every.as_secs()).ok().filter(|_| every.subsec_nanos() == 0);
    let found = || environment.text(FLUSH).unwrap_or_default().to_owned();
    let refused = || BadVariable { name: FLUSH, found: found(), accepted: INTERVALS };
    seconds.ok_or_else(refused).map(Some)
}
