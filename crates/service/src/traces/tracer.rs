//! [`Tracer`]: begins the span of a request, if the request is sampled.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName};
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{SpanBuilder, SpanKind, TraceContextExt, Tracer as _, TracerProvider};
use opentelemetry::{Context, Key, KeyValue, Value};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, Span};
use tonic::transport::ClientTlsConfig;

use super::counted::{LastSpans, OfSpans, span_queue};
use super::settings::{TraceSampling, Traces, TracesError};
use super::span::{ServerSpan, SpanName};

/// The header that says of which trace a request is part.
const TRACEPARENT: &str = "traceparent";

/// The length of `00-`, 32 digits, `-`, 16 digits, `-` and 2 digits; later versions may be longer.
const TRACEPARENT_BYTES: usize = 55;

/// The longest `tracestate` that spans keep, as the standard asks of those that pass it on: callers choose its length, and
/// spans wait in memory.
const MAX_TRACESTATE_BYTES: usize = 512;

const USE: &str = "use an address as in http://127.0.0.1:4317";

/// Begins spans.
#[derive(Debug)]
pub(crate) struct Tracer {
    sdk: SdkTracer,
    sampling: TraceSampling,
}

impl Tracer {
    /// A tracer, what sends its last spans, and what shows how many were sent. Needs a runtime.
    pub(crate) fn open(traces: &Traces) -> Result<(Self, LastSpans, OfSpans), TracesError> {
        let refused = |reason: String| TracesError { endpoint: traces.endpoint.clone(), reason };
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
        let mut exporter = SpanExporter::builder().with_tonic().with_endpoint(&traces.endpoint);
        if is_https {
            exporter = exporter.with_tls_config(ClientTlsConfig::new().with_enabled_roots());
        }
        let exporter = exporter.build().map_err(|error| refused(format!("{error}; {USE}")))?;
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

    /// The span of a request with these headers, if it is sampled.
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
            .extract_with_context(&Context::new(), &OfHeaders(headers));
        let span = self.sdk.build_with_context(name.builder(peer), &parent);
        is_sampled(&span).then(|| ServerSpan::new(span, name))
    }

    /// Whether the sampler has to be asked: for most requests a look at one header is all.
    fn may_sample(&self, headers: &HeaderMap) -> bool {
        let of_share = self.sampling.of_roots > 0.0;
        if !self.sampling.follows_caller {
            return of_share;
        }
        let Some(parent) = headers.get(TRACEPARENT) else { return of_share };
        // The last digit holds the flag. What is no such header is one of a request without a caller's trace.
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

fn is_sampled(span: &Span) -> bool {
    use opentelemetry::trace::Span as _;
    span.span_context().is_sampled()
}

/// What the variables say, and the options; and our name and version unless one of these says otherwise.
fn resource(options: &[(String, String)]) -> Resource {
    let found = Resource::builder().build();
    let is_known = |name: &'static str| {
        // The SDK's own name for a service that has none, followed by that of the executable.
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

/// The headers of a trace, within bounds.
struct OfHeaders<'h>(&'h HeaderMap);

impl Extractor for OfHeaders<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        let value = self.0.get(key)?.to_str().ok()?;
        (value.len() <= MAX_TRACESTATE_BYTES).then_some(value)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}
