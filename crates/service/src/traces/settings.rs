//! [`Traces`]: the settings for traces.

/// The settings for traces: the collector that spans are sent to, and the choice of requests that are traced.
///
/// The SDK's own variables are honoured, too: `OTEL_SERVICE_NAME` (default: `tollgate`), `OTEL_RESOURCE_ATTRIBUTES`,
/// `OTEL_EXPORTER_OTLP_HEADERS` and `OTEL_EXPORTER_OTLP_TIMEOUT`. The last two are also read with `TRACES_` after
/// `OTLP_`.
///
/// ```
/// use tollgate_service::Traces;
/// let traces = Traces::new("http://127.0.0.1:4317");
/// assert!(traces.sampling.follows_caller);
/// assert_eq!(traces.sampling.of_roots, 0.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Traces {
    /// The address of the collector, as in `http://127.0.0.1:4317` for gRPC. With [`OtlpProtocol::Http`] give the path
    /// too, as in `http://127.0.0.1:4318/v1/traces`. With `https://`, the collector's certificate must be signed by an
    /// authority that this machine trusts.
    pub endpoint: String,
    /// The protocol that the collector speaks. Default: gRPC.
    pub protocol: OtlpProtocol,
    /// The choice of requests that are traced.
    pub sampling: TraceSampling,
    /// Attributes of this service in all spans, such as `service.name`, in addition to the attributes that the
    /// variables set.
    pub resource: Vec<(String, String)>,
}

/// The protocol of a collector.
///
/// ```
/// assert_eq!(tollgate_service::OtlpProtocol::default(), tollgate_service::OtlpProtocol::Grpc);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OtlpProtocol {
    /// OTLP over gRPC; the usual port is 4317.
    #[default]
    Grpc,
    /// OTLP over HTTP/1.1, in protobuf; the usual port is 4318.
    Http,
}

/// The choice of requests that are traced.
///
/// ```
/// let all = tollgate_service::TraceSampling { of_roots: 1.0, follows_caller: false };
/// assert_ne!(all, tollgate_service::TraceSampling::default());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceSampling {
    /// The share of requests that are traced if their caller sends no trace: from 0, the default, to 1.
    pub of_roots: f64,
    /// If this is true, a request whose caller sends a trace (`traceparent`) is traced if and only if the caller traces
    /// it. If this is false, `of_roots` applies to all requests. The trace's number then decides, so that services with
    /// the same share choose the same traces.
    pub follows_caller: bool,
}

impl Default for TraceSampling {
    /// Traces exactly the requests that callers trace.
    fn default() -> Self {
        Self { of_roots: 0.0, follows_caller: true }
    }
}

impl Traces {
    /// Sends the spans of exactly the requests that callers trace.
    ///
    /// ```
    /// assert_eq!(tollgate_service::Traces::new("http://collector:4317").endpoint, "http://collector:4317");
    /// ```
    #[must_use]
    pub fn new(endpoint: impl Into<String>) -> Self {
        let (protocol, sampling) = (OtlpProtocol::default(), TraceSampling::default());
        Self { endpoint: endpoint.into(), protocol, sampling, resource: Vec::new() }
    }
}
