//! A control plane that speaks the published protocol, and sends the responses that a test gives it.

#![allow(dead_code)] // not every test binary has a control plane

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tollgate_service::protocol::config::{
    RateLimitConfig, RateLimitDescriptor, RateLimitPolicy, RateLimitUnit,
};
use tollgate_service::protocol::discovery::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use tollgate_service::protocol::discovery::{DiscoveryRequest, DiscoveryResponse};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

/// A wait that is long enough for a machine that is busy with other tests.
const PATIENT: Duration = Duration::from_secs(60);

pub(crate) const TYPE: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

type Sender = mpsc::Sender<Result<DiscoveryResponse, Status>>;

/// A running control plane.
pub(crate) struct ControlPlane {
    pub(crate) address: SocketAddr,
    asked: UnboundedReceiver<DiscoveryRequest>,
    stream: Arc<Mutex<Option<Sender>>>,
    task: JoinHandle<()>,
}

struct Ads {
    asked: UnboundedSender<DiscoveryRequest>,
    stream: Arc<Mutex<Option<Sender>>>,
}

#[tonic::async_trait]
impl AggregatedDiscoveryService for Ads {
    type StreamAggregatedResourcesStream = ReceiverStream<Result<DiscoveryResponse, Status>>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        let (responses, stream) = mpsc::channel(8);
        *self.stream.lock().expect("no panic") = Some(responses);
        let (mut requests, asked) = (request.into_inner(), self.asked.clone());
        tokio::spawn(async move {
            while let Ok(Some(request)) = requests.message().await {
                drop(asked.send(request));
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

impl ControlPlane {
    pub(crate) async fn start(tls: Option<ServerTlsConfig>) -> Self {
        Self::start_at("127.0.0.1:0".parse().expect("an address"), tls).await
    }

    pub(crate) async fn start_at(address: SocketAddr, tls: Option<ServerTlsConfig>) -> Self {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (tell, asked) = unbounded_channel();
        let stream = Arc::default();
        let ads = Ads { asked: tell, stream: Arc::clone(&stream) };
        let mut server = Server::builder();
        if let Some(tls) = tls {
            server = server.tls_config(tls).expect("good certificates");
        }
        let router = server.add_service(AggregatedDiscoveryServiceServer::new(ads));
        let serve = router.serve_with_incoming(TcpIncoming::from(listener));
        let task = tokio::spawn(async { drop(serve.await) });
        Self { address, asked, stream, task }
    }

    /// The next request of the service.
    pub(crate) async fn asked(&mut self) -> DiscoveryRequest {
        timeout(PATIENT, self.asked.recv()).await.expect("in time").expect("it runs")
    }

    pub(crate) async fn send(&self, response: DiscoveryResponse) {
        let stream = self.stream.lock().expect("no panic").clone().expect("a stream");
        stream.send(Ok(response)).await.expect("it is open");
    }

    /// Sends these rules, and returns the service's answer.
    pub(crate) async fn put(
        &mut self,
        version: &str,
        configs: &[RateLimitConfig],
    ) -> DiscoveryRequest {
        self.send(response(version, configs)).await;
        self.asked().await
    }

    /// Ends the stream with this status.
    pub(crate) async fn fail(&self, status: Status) {
        let stream = self.stream.lock().expect("no panic").take().expect("a stream");
        drop(stream.send(Err(status)).await);
    }

    /// Ends the control plane at once, with all its connections.
    pub(crate) async fn stop(self) {
        self.task.abort();
        drop(self.task.await);
        self.stream.lock().expect("no panic").take();
    }
}

/// The nonce of a response is its version with an n before it.
pub(crate) fn response(version: &str, configs: &[RateLimitConfig]) -> DiscoveryResponse {
    let resource = |config: &RateLimitConfig| prost_types::Any {
        type_url: TYPE.to_owned(),
        value: config.encode_to_vec(),
    };
    DiscoveryResponse {
        version_info: version.to_owned(),
        resources: configs.iter().map(resource).collect(),
        type_url: TYPE.to_owned(),
        nonce: format!("n{version}"),
    }
}

/// One rule, which admits this many requests in an hour for each value of the key.
pub(crate) fn config(name: &str, domain: &str, key: &str, requests: u32) -> RateLimitConfig {
    let policy = RateLimitPolicy {
        unit: RateLimitUnit::Hour.into(),
        requests_per_unit: requests,
        ..RateLimitPolicy::default()
    };
    let descriptor = RateLimitDescriptor {
        key: key.to_owned(),
        rate_limit: Some(policy),
        ..RateLimitDescriptor::default()
    };
    let (name, domain) = (name.to_owned(), domain.to_owned());
    RateLimitConfig { name, domain, descriptors: vec![descriptor] }
}
