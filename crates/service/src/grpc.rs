//! The routes of gRPC, and the bounds of its connections.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tonic::Status;
use tonic::body::Body;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::Router;
use tonic_health::pb::health_server::{Health, HealthServer};

use crate::http::BEYOND_MAX;
use crate::protocol::DESCRIPTORS;
use crate::protocol::quota::rate_limit_quota_service_server::RateLimitQuotaServiceServer;
use crate::protocol::rls::rate_limit_service_server::RateLimitServiceServer;
use crate::quota::Rlqs;
use crate::rls::Rls;
use crate::service::Service;
use crate::start_error::StartError;

/// The maximum size of a message. It has room for the largest request that rules accept, which has 1 MiB of keys and
/// values.
const MAX_MESSAGE_BYTES: usize = 2 << 20;

/// The maximum number of streams of a connection: Envoy has one connection per worker thread, with hundreds of
/// requests.
const MAX_STREAMS: u32 = 1024;

/// The maximum number of streams that a client has opened and reset before the server accepted them. A few are normal,
/// more are an attack.
const MAX_PENDING_RESETS: usize = 20;

/// A connection is pinged when its client has sent nothing for this time. If no answer comes within `PONG_WITHIN`, the
/// client is gone without having closed its side, and the connection is closed.
const PING_EVERY: Duration = Duration::from_secs(60);
const PONG_WITHIN: Duration = Duration::from_secs(20);

/// The routes of gRPC.
pub(crate) fn router(
    service: &Arc<Service>,
    health: HealthServer<impl Health>,
    max_age: Option<Duration>,
    stopped: &watch::Receiver<bool>,
) -> Result<Router, StartError> {
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let reflection_v1 = reflection().build_v1().map_err(|_| StartError::Reflection)?;
    let reflection_alpha = reflection().build_v1alpha().map_err(|_| StartError::Reflection)?;
    let rls = RateLimitServiceServer::new(Rls(Arc::clone(service)))
        .max_decoding_message_size(MAX_MESSAGE_BYTES);
    let rlqs = Rlqs { service: Arc::clone(service), stopped: stopped.clone() };
    let rlqs = RateLimitQuotaServiceServer::new(rlqs).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let server = server();
    // tonic's setting for the grace is not used: with that setting tonic closes a connection after its age and grace
    // without telling the client first. `Io` ends the connections instead.
    let mut server = match max_age {
        Some(age) => server.max_connection_age(age),
        None => server,
    };
    Ok(server
        .add_service(rls)
        .add_service(rlqs)
        .add_service(health)
        .add_service(reflection_v1)
        .add_service(reflection_alpha))
}

/// The routes for connections of the reserve, which may only ask whether the service is healthy. Everything else is
/// answered with UNAVAILABLE.
pub(crate) fn reserved_router(health: HealthServer<impl Health>) -> Router {
    let refused = || async { Status::unavailable(BEYOND_MAX).into_http::<Body>() };
    let routes = Routes::new(health).into_axum_router().fallback(refused);
    server().add_routes(routes.into())
}

fn server() -> Server {
    Server::builder()
        .max_concurrent_streams(MAX_STREAMS)
        .http2_max_pending_accept_reset_streams(Some(MAX_PENDING_RESETS))
        .http2_keepalive_interval(Some(PING_EVERY))
        .http2_keepalive_timeout(Some(PONG_WITHIN))
}
