//! Traces: a span for each request that is sampled, sent to a collector of OpenTelemetry (OTLP over gRPC or HTTP).
//!
//! Identifiers, samplers, the form of spans, their queue and the exporter are the SDK's. What must hold whatever a
//! collector or a caller does is here: a request never waits for a span, spans that wait are bounded in number and size,
//! and those that are lost are counted.

mod counted;
mod over_http;
mod settings;
mod span;
mod tracer;

pub(crate) use counted::LastSpans;
pub use settings::{OtlpProtocol, TraceSampling, Traces, TracesError};
pub(crate) use span::{ServerSpan, SpanName};
pub(crate) use tracer::Tracer;
