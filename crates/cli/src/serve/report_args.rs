//! The arguments for reports to an operator, besides the log and `/metrics`.

use tollgate::Policy;
use tollgate_service::{HostPort, TraceSampling};

/// Reports to the operator
#[derive(clap::Args)]
#[command(next_help_heading = "Denials, traces, StatsD")]
pub(super) struct ReportArgs {
    /// The rate at which denials are logged, at level info: a policy for all of them together, as in "10/s burst 50" [default: none]
    ///
    /// A line has the domain, the descriptors, the rules that are over their limits, the hits, the wait, the protocol, the
    /// peer, and the number of denials left out before it. It contains values of requests: names of clients, addresses.
    #[arg(long, value_name = "LIMIT")]
    pub(super) log_denials: Option<Policy>,

    /// A collector of traces, as in http://127.0.0.1:4317, that speaks OTLP [default: none]
    ///
    /// Over HTTP, the path /v1/traces is added to an address without one, as in http://127.0.0.1:4318.
    /// Requests are traced if their caller traces them (traceparent), and a share of others. OTEL_SERVICE_NAME and other
    /// variables of OpenTelemetry's SDK are honoured.
    #[arg(long, value_name = "URL")]
    pub(super) otlp: Option<String>,

    /// The protocol of that collector: gRPC, or protobuf over HTTP; with TRACING_ENABLED the default is http
    #[arg(long, value_name = "PROTOCOL", default_value = "grpc")]
    pub(super) otlp_protocol: OtlpProtocolArg,

    /// The share of requests that are traced among those whose caller sends no trace
    ///
    /// With `of all` behind it, as in "0.01 of all", it is the share of all requests that are traced, whatever their callers decide.
    #[arg(long, value_name = "SHARE", value_parser = sampling, default_value = "0")]
    pub(super) trace_sample: TraceSampling,

    /// Where to send metrics in StatsD, over UDP: a host name or an IP address, and a port [default: nowhere]
    #[arg(long, value_name = "ADDRESS", value_parser = destination)]
    pub(super) statsd: Option<HostPort>,

    /// Seconds between two reports to it
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..=3_600), default_value = "5")]
    pub(super) statsd_every: u16,

    /// The form of labels in StatsD: parts of names, or tags, which Datadog and others read
    #[arg(long, value_name = "STYLE", default_value = "dotted")]
    pub(super) statsd_style: StatsdStyleArg,

    /// Tags of all series: names and values, as in zone:eu,app:shop [default: none]
    #[arg(long, value_name = "NAME:VALUE", value_delimiter = ',', value_parser = tag)]
    pub(super) statsd_tags: Vec<(String, String)>,
}

/// The protocol of the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum OtlpProtocolArg {
    Grpc,
    Http,
}

/// The form in which labels are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum StatsdStyleArg {
    Dotted,
    Tagged,
}

fn destination(text: &str) -> Result<HostPort, String> {
    match text.parse() {
        Ok(HostPort::Everywhere(port)) => Err(format!("no host, as in localhost:{port}")),
        parsed => parsed.map_err(|error| error.to_string()),
    }
}

const OF_ALL: &str = " of all";

fn sampling(text: &str) -> Result<TraceSampling, &'static str> {
    let of_all = text.strip_suffix(OF_ALL);
    let share = of_all.unwrap_or(text).parse().ok();
    match share.filter(|share| (0.0..=1.0).contains(share)) {
        Some(of_roots) => Ok(TraceSampling { of_roots, follows_caller: of_all.is_none() }),
        None => Err("no share from 0 to 1, as in 0.01 or \"0.01 of all\""),
    }
}

/// Returns the sampling as it is written behind the flag.
pub(super) fn sampling_text(sampling: TraceSampling) -> String {
    let TraceSampling { of_roots, follows_caller } = sampling;
    format!("{of_roots}{}", if follows_caller { "" } else { OF_ALL })
}

pub(super) fn tag(text: &str) -> Result<(String, String), &'static str> {
    let is_name = |name: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        !name.is_empty() && name.bytes().all(is_letter)
    };
    let parts = text.split_once(':').filter(|(name, value)| is_name(name) && !value.is_empty());
    let (name, value) =
        parts.ok_or("no tag: a name of letters, digits, _ and -, and its value, as in zone:eu")?;
    Ok((name.to_owned(), value.to_owned()))
}
