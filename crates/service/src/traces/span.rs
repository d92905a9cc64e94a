//! [`ServerSpan`]: the span of one request, with the names of OpenTelemetry's conventions.

use std::borrow::Cow;
use std::net::IpAddr;

use opentelemetry::KeyValue;
use opentelemetry::trace::{Span as _, SpanBuilder, SpanContext, SpanKind, Status};
use opentelemetry_sdk::trace::Span;

use crate::metrics::RequestOutcome;

/// The methods of HTTP that the conventions name.
const METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// The procedure or route that is asked for, which names the span.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SpanName<'a> {
    Grpc { service: &'static str, method: &'static str },
    Http { method: &'a str, route: &'a str },
}

impl SpanName<'_> {
    pub(super) fn builder(self, peer: Option<IpAddr>) -> SpanBuilder {
        let (name, mut attributes) = match self {
            Self::Grpc { service, method } => (
                format!("{service}/{method}"),
                vec![
                    KeyValue::new("rpc.system", "grpc"),
                    KeyValue::new("rpc.service", service),
                    KeyValue::new("rpc.method", method),
                ],
            ),
            Self::Http { method, route } => {
                // A method that a caller makes up could have any length, and spans wait in memory. So all such methods
                // are named `_OTHER`, as in the conventions.
                let method = METHODS.iter().find(|known| **known == method);
                let method = method.copied().unwrap_or("_OTHER");
                (
                    format!("{method} {route}"),
                    vec![
                        KeyValue::new("http.request.method", method),
                        KeyValue::new("http.route", route.to_owned()),
                    ],
                )
            }
        };
        if let Some(peer) = peer {
            attributes.push(KeyValue::new("network.peer.address", peer.to_string()));
        }
        SpanBuilder::from_name(name).with_kind(SpanKind::Server).with_attributes(attributes)
    }
}

/// The span of one request. If it is dropped, it ends at that moment.
#[derive(Debug)]
pub(crate) struct ServerSpan {
    span: Span,
    is_grpc: bool,
}

impl ServerSpan {
    pub(super) fn new(span: Span, name: SpanName<'_>) -> Self {
        Self { span, is_grpc: matches!(name, SpanName::Grpc { .. }) }
    }

    pub(super) fn context(&self) -> SpanContext {
        self.span.span_context().clone()
    }

    /// Records the rules that have decided.
    pub(crate) fn decided(&mut self, domain: String, rules: String, hits: u64) {
        let hits = i64::try_from(hits).unwrap_or(i64::MAX);
        self.span.set_attribute(KeyValue::new("tollgate.domain", domain));
        self.span.set_attribute(KeyValue::new("tollgate.rules", rules));
        self.span.set_attribute(KeyValue::new("tollgate.hits", hits));
    }

    /// Ends the span with the answer.
    pub(crate) fn end(mut self, outcome: RequestOutcome, status: u16) {
        let (key, is_error) = if self.is_grpc {
            // UNAVAILABLE (14) is the only gRPC status of this service that the conventions treat as an error of the
            // server.
            ("rpc.grpc.status_code", status == 14)
        } else {
            ("http.response.status_code", status >= 500)
        };
        self.span.set_attribute(KeyValue::new(key, i64::from(status)));
        self.span.set_attribute(KeyValue::new("tollgate.outcome", outcome.name()));
        if is_error {
            self.span.set_status(Status::Error { description: Cow::Borrowed("no decision") });
        }
        self.span.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_that_a_caller_made_up_is_not_told() {
        for (method, expected) in
            [("GET", "GET /v1/auth"), (&*"X".repeat(400_000), "_OTHER /v1/auth")]
        {
            let span = SpanName::Http { method, route: "/v1/auth" }.builder(None);
            assert_eq!(span.name, expected);
            let told = span.attributes.expect("attributes")[0].value.to_string();
            assert!(expected.starts_with(&told), "{told}");
        }
    }
}
