//! [`Tracer`]: begins the span of a request, if the request is sampled.
//!
//! The SDK provides spans and their sampling. The code here does two things before that. Most requests are not sampled:
//! for them a look at one header decides, and no span is made. And it bounds the headers of a caller, which the SDK's
//! propagator does not.

use std::net::IpAddr;

use axum::http::HeaderMap;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{SpanBuilder, SpanKind, TraceContextExt, Tracer as _, TracerProvider};
use opentelemetry::{Context, Key, KeyValue, Value};
use opentelemetry_otlp::{
    Protocol, SpanExporter, WithExportConfig, WithHttpConfig, WithTonicConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, Span};
use tonic::transport::ClientTlsConfig;

use super::counted::{LastSpans, OfSpans, span_queue};
use super::over_http::OnRuntime;
use super::settings::{OtlpProtocol, TraceSampling, Traces};
use super::span::{ServerSpan, SpanName};
use crate::start_error::StartError;

/// The header that names the trace to which a request belongs.
const TRACEPARENT: &str = "traceparent";

/// The header with further data of callers' own tracing systems.
const TRACESTATE: &str = "tracestate";

/// The length of `00-`, 32 digits, `-`, 16 digits, `-` and 2 digits. Later versions of the header may be longer.
const TRACEPARENT_BYTES: usize = 55;

/// The maximum length of a `tracestate` that spans keep. The standard asks programs that pass it on to keep at least
/// this much. It is bounded because callers choose the length, and spans wait in memory.
const MAX_TRACESTATE_BYTES: usize = 512;

const USE: &str =
    "use an address as in http://127.0.0.1:4317, or over HTTP http://127.0.0.1:4318/v1/traces";

/// Begins spans.
#[derive(Debug)]
pub(crate) struct Tracer {
    sdk: SdkTracer,
    sampling: TraceSampling,
}

impl Tracer {
    /// Makes a tracer, the sender of its last spans, and the metrics of its spans. Needs a runtime.
    pub(crate) fn open(traces: &Traces) -> Result<(Self, LastSpans, OfSpans), StartError> {
        // An error about a URL may repeat the URL, which may contain a user and a password.
        let endpoint = without_secrets(&traces.endpoint);
        let refused = |reason: String| StartError::Traces {
            reason: reason.replace(&traces.endpoint, &endpoint),
            endpoint: endpoint.clone(),
        };
        let is_https = match traces.endpoint.split_once("://").map(|(scheme, _)| scheme) {
            Some("http") => false,
            Some("https") => true,
            _ => {
                return Err(refused(format!("it begins with neither http:// nor https://; {USE}")));
            }
        };
        let share = traces.sampling.of_roots;
        if !(0.0..=1.0).contains(&share) {
            let reason = format!("the share of traced requests is {share}; use one from 0 to 1");
            return Err(refused(reason));
        }
        let exporter =
            exporter(traces, is_https).map_err(|why| refused(format!("{why}; {USE}")))?;
        let (sampling, resource) = (traces.sampling, resource(&traces.resource));
        let (queue, last, counts) = span_queue(exporter, &resource);
        let of_roots = Sampler::TraceIdRatioBased(sampling.of_roots);
        let sampler = if sampling.follows_caller {
            Sampler::ParentBased(Box::new(of_roots))
        } else {
            of_roots
        };
        let provider = SdkTracerProvider::builder()
            .with_span_processor(queue)
            .with_sampler(sampler)
            .with_resource(resource)
            .build();
        Ok((Self { sdk: provider.tracer("tollgate"), sampling }, last, OfSpans(counts)))
    }

    /// Begins the span of a request with these headers, if it is sampled.
    pub(crate) fn begin(
        &self,
        headers: &HeaderMap,
        name: SpanName<'_>,
        peer: Option<IpAddr>,
    ) -> Option<ServerSpan> {
        if !self.may_sample(headers) {
            return None;
        }
        let parent = TraceContextPropagator::new()
            .extract_with_context(&Context::new(), &TraceHeaders::of(headers));
        let span = self.sdk.build_with_context(name.builder(peer), &parent);
        is_sampled(&span).then(|| ServerSpan::new(span, name))
    }

    /// Whether the sampler has to be asked. For most requests one header shows that it need not be.
    fn may_sample(&self, headers: &HeaderMap) -> bool {
        let of_share = self.sampling.of_roots > 0.0;
        if !self.sampling.follows_caller {
            return of_share;
        }
        let Some(parent) = parent_of(headers) else { return of_share };
        // The last digit contains the flag that says whether the caller traces the request.
        let digit = parent.as_bytes().get(TRACEPARENT_BYTES - 1);
        let flags = digit.and_then(|digit| char::from(*digit).to_digit(16));
        of_share || flags.is_some_and(|flags| flags & 1 == 1)
    }

    /// The span of a wait for the store, which ends when it is dropped.
    pub(crate) fn waits(&self, span: &ServerSpan) -> Span {
        let parent = Context::new().with_remote_span_context(span.context());
        let builder = SpanBuilder::from_name("redis")
            .with_kind(SpanKind::Client)
            .with_attributes([KeyValue::new("db.system.name", "redis")]);
        self.sdk.build_with_context(builder, &parent)
    }
}

/// The exporter of spans, or the reason why it cannot be made.
fn exporter(traces: &Traces, is_https: bool) -> Result<SpanExporter, String> {
    let exporter = match traces.protocol {
        OtlpProtocol::Grpc => {
            let mut exporter = SpanExporter::builder().with_tonic().with_endpoint(&traces.endpoint);
            if is_https {
                exporter = exporter.with_tls_config(ClientTlsConfig::new().with_enabled_roots());
            }
            exporter.build()
        }
        OtlpProtocol::Http => {
            let exporter = SpanExporter::builder().with_http().with_endpoint(&traces.endpoint);
            let client = OnRuntime::open(is_https).map_err(|error| error.to_string())?;
            exporter.with_protocol(Protocol::HttpBinary).with_http_client(client).build()
        }
    };
    exporter.map_err(|error| error.to_string())
}

/// A URL without its user and password, and without its query.
fn without_secrets(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
    // If an @ follows a ?, the end of the password is not clear, so the host is left out.
    let host = if query.contains('@') { "..." } else { before.rsplit('@').next().unwrap_or("") };
    if scheme.is_empty() { host.to_owned() } else { format!("{scheme}://{host}") }
}

fn is_sampled(span: &Span) -> bool {
    use opentelemetry::trace::Span as _;
    span.span_context().is_sampled()
}

/// The attributes from the variables and the options. Our name and version are added unless these set others.
fn resource(options: &[(String, String)]) -> Resource {
    let found = Resource::builder().build();
    let is_known = |name: &'static str| {
        // The SDK gives a service without a name this name, followed by the name of the executable.
        let is_found = |value: &Value| !value.as_str().starts_with("unknown_service");
        let of_variables = found.get(&Key::from_static_str(name));
        of_variables.is_some_and(|value| is_found(&value))
            || options.iter().any(|(given, _)| given == name)
    };
    let usual = [("service.name", "tollgate"), ("service.version", env!("CARGO_PKG_VERSION"))];
    let usual = usual.into_iter().filter(|(name, _)| !is_known(name));
    let usual = usual.map(|(name, value)| KeyValue::new(name, value));
    let of_options = options.iter().map(|(name, value)| KeyValue::new(name.clone(), value.clone()));
    Resource::builder().with_attributes(usual.chain(of_options)).build()
}

/// The caller's `traceparent`, if it has the standard's form. The form is checked here, because the SDK would accept
/// numbers of any length. If there are two such headers, neither is used.
fn parent_of(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(TRACEPARENT).iter();
    let (parent, None) = (all.next()?.to_str().ok()?, all.next()) else { return None };
    let is_dash = |at: usize| parent.as_bytes().get(at) == Some(&b'-');
    let is_formed = [2, 35, 52].into_iter().all(is_dash) && parent.len() >= TRACEPARENT_BYTES;
    (is_formed && parent.len() <= MAX_TRACESTATE_BYTES).then_some(parent)
}

/// The headers of a trace, bounded in length.
struct TraceHeaders<'h> {
    parent: Option<&'h str>,
    /// All lines of `tracestate`, joined.
    state: String,
}

impl<'h> TraceHeaders<'h> {
    fn of(headers: &'h HeaderMap) -> Self {
        let states = headers.get_all(TRACESTATE).iter().filter_map(|line| line.to_str().ok());
        let state = states.collect::<Vec<_>>().join(",");
        let state = if state.len() <= MAX_TRACESTATE_BYTES { state } else { String::new() };
        Self { parent: parent_of(headers), state }
    }
}

impl Extractor for TraceHeaders<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            TRACEPARENT => self.parent,
            TRACESTATE => Some(&*self.state).filter(|state| !state.is_empty()),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACEPARENT, TRACESTATE]
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    const TRACED: &str = "00-11112222333344445555666677778888-1111222233334444-01";

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let lines = lines.iter().map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        });
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn what_is_no_traceparent_is_as_if_there_were_none() {
        let found = |lines: &[(&'static str, &str)]| parent_of(&headers(lines)).map(str::to_owned);
        assert_eq!(found(&[(TRACEPARENT, TRACED)]).as_deref(), Some(TRACED));
        for bad in ["", "00-1-2-00", "00-1-2-01", &TRACED.replace('-', "_"), &TRACED[1..]] {
            assert_eq!(found(&[(TRACEPARENT, bad)]), None, "{bad}");
        }
        assert_eq!(found(&[(TRACEPARENT, TRACED), (TRACEPARENT, TRACED)]), None);
    }

    #[test]
    fn all_lines_of_a_tracestate_are_kept_within_its_bound() {
        let long = format!("c={}", "x".repeat(MAX_TRACESTATE_BYTES));
        for (lines, expected) in
            [(&["a=1", "b=2"][..], Some("a=1,b=2")), (&["a=1", &long], None), (&[], None)]
        {
            let lines: Vec<_> = lines.iter().map(|line| (TRACESTATE, *line)).collect();
            assert_eq!(TraceHeaders::of(&headers(&lines)).get(TRACESTATE), expected);
        }
    }

    #[test]
    fn no_password_of_a_collector_is_in_an_error() {
        for (url, shown) in [
            ("grpc://user:secret@collector:4317/?key=secret", "grpc://collector:4317/"),
            ("user:secret@collector", "collector"),
            ("grpc://user:secret?x@collector:1", "grpc://..."),
            ("http://collector/?key=se@cret", "http://..."),
            ("http://collector", "http://collector"),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
        for url in ["grpc://user:secret@collector", "http://user:secret@a b/"] {
            let error = Tracer::open(&Traces::new(url)).expect_err("no such address").to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
