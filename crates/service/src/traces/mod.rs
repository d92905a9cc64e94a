//! Traces: sends a span for each request that is sampled to a collector of OpenTelemetry (OTLP over gRPC or HTTP).
//!
//! The SDK provides identifiers, samplers, the form of spans, their queue and the exporter. Whatever a collector or a
//! caller does, this module ensures three things: a request never waits for a span, waiting spans are bounded in number
//! and size, and lost spans are counted.

mod counted;
mod over_http;
mod settings;
mod span;
mod tracer;

pub(crate) use counted::LastSpans;
pub use settings::{OtlpProtocol, TraceSampling, Traces};
pub(crate) use span::{ServerSpan, SpanName};
pub(crate) use tracer::Tracer;
