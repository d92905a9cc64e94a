//! Collectors of traces over OTLP, and a copy of the log.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, Once};

use axum::Router;
use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use tracing::subscriber::DefaultGuard;

use super::{PATIENT, World};

/// The way in which a collector treats the messages that it receives.
#[derive(Clone, Copy)]
pub(crate) enum CollectorMood {
    Takes,
    Refuses,
    Hangs,
}

/// A collector that passes on to the test the messages that it receives.
struct Collector {
    received: mpsc::UnboundedSender<ExportTraceServiceRequest>,
    mood: CollectorMood,
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let _ = self.received.send(request.into_inner());
        match self.mood {
            CollectorMood::Takes => {}
            CollectorMood::Refuses => return Err(Status::invalid_argument("no such tenant")),
            CollectorMood::Hangs => std::future::pending().await,
        }
        Ok(Response::new(ExportTraceServiceResponse { partial_success: None }))
    }
}

/// The messages that a collector has received.
pub(crate) struct Received(pub(crate) mpsc::UnboundedReceiver<ExportTraceServiceRequest>);

impl Received {
    /// The next message: the attributes of its resource, and its spans.
    pub(crate) async fn next(&mut self) -> (Vec<KeyValue>, Vec<Span>) {
        let message = tokio::time::timeout(PATIENT, self.0.recv()).await.expect("a message");
        let message = message.expect("the collector runs");
        let [resource] = &message.resource_spans[..] else { panic!("one resource: {message:?}") };
        let attributes = resource.resource.clone().expect("a resource").attributes;
        let spans = resource.scope_spans.iter().flat_map(|scope| scope.spans.clone());
        (attributes, spans.collect())
    }

    /// Whether no message has arrived.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.0.try_recv().is_err()
    }
}

pub(crate) async fn collector(mood: CollectorMood) -> (String, Received) {
    let (received, take) = mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let service = TraceServiceServer::new(Collector { received, mood });
    let serve = Server::builder().add_service(service);
    tokio::spawn(serve.serve_with_incoming(TcpListenerStream::new(listener)));
    (endpoint, Received(take))
}

/// Starts a collector over HTTP, and returns its address with the path.
pub(crate) async fn collector_over_http(status: StatusCode) -> (String, Received) {
    let (received, take) = mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = format!("http://{}/v1/traces", listener.local_addr().expect("an address"));
    let collect = move |body: Bytes| {
        let _ = received.send(ExportTraceServiceRequest::decode(body).expect("protobuf"));
        let answer = ExportTraceServiceResponse { partial_success: None }.encode_to_vec();
        async move { (status, [(header::CONTENT_TYPE, "application/x-protobuf")], answer) }
    };
    let router = Router::new().route("/v1/traces", post(collect));
    tokio::spawn(async { axum::serve(listener, router).await });
    (endpoint, Received(take))
}

/// The value of an attribute, as text.
pub(crate) fn attribute(attributes: &[KeyValue], name: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == name);
    match found.and_then(|found| found.value.clone()?.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The log of this thread, in JSON, as `--log-format json` writes it.
#[derive(Clone, Default)]
pub(crate) struct LogLines(Arc<Mutex<Vec<u8>>>);

impl Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no test panics here").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LogLines {
    pub(crate) fn begin() -> (Self, DefaultGuard) {
        // While there is one subscriber, a place in the code that first speaks on another test's thread, which has none,
        // would stay silent for all threads. A subscriber for all threads that writes nothing prevents this.
        static EVERYWHERE: Once = Once::new();
        EVERYWHERE.call_once(|| {
            let silent = tracing_subscriber::registry();
            tracing::subscriber::set_global_default(silent).expect("no test sets another");
        });
        let log = Self::default();
        let writer = log.clone();
        let lines = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .without_time()
            .with_target(false)
            .with_writer(move || writer.clone());
        let guard = tracing::subscriber::set_default(lines.finish());
        (log, guard)
    }

    /// The lines so far.
    pub(crate) fn lines(&self) -> Vec<serde_json::Value> {
        let bytes = self.0.lock().expect("no test panics here").clone();
        let text = String::from_utf8(bytes).expect("text");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Stops the service, and returns the lines about denials. They are complete only when the service has stopped,
    /// because a separate thread writes them.
    pub(crate) async fn denials_of(&self, world: World) -> Vec<serde_json::Value> {
        world.running.stop().await;
        let is_denial = |line: &serde_json::Value| line["message"] == json!("denied");
        self.lines().into_iter().filter(is_denial).collect()
    }
}
