//! [`start`]: listeners, rules and their end.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tollgate::BuildError;
use tollgate_rules::{Changed, DecisionMaker, FileSource, Refresh, Retriever, RuleCache};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::server::HealthReporter;

use crate::http;
use crate::options::Options;
use crate::page;
use crate::protocol::DESCRIPTORS;
use crate::protocol::rls::rate_limit_service_server::RateLimitServiceServer;
use crate::rls::Rls;
use crate::service::Service;

/// Of a message: the largest request that rules may be asked about has 64 KiB of keys and values.
const MOST_MESSAGE_BYTES: usize = 256 << 10;

/// Of one connection: Envoy has one per worker thread, and hundreds of requests on it.
const MOST_STREAMS: u32 = 1024;

/// Streams that a client opens and resets at once: a few happen, more are an attack.
const MOST_PENDING_RESETS: usize = 20;

/// The name that envoyproxy/ratelimit's health is asked by.
const HEALTH_NAME: &str = "ratelimit";

/// Why a service did not start.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use tollgate_service::{Options, start};
/// let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
/// let address = taken.local_addr().unwrap();
/// let options = Options { http: address, ..Options::new("examples/rules") };
/// let error = start(options, |_| ()).await.unwrap_err();
/// assert!(error.to_string().starts_with(&format!("cannot listen on {address}: ")));
/// # });
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// An address is taken, or none of this machine's.
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system answered.
        error: io::Error,
    },
    /// The tables cannot be built.
    Build(BuildError),
    /// The system has no thread for reading rules.
    Thread(io::Error),
    /// The description of the protocol could not be read: the build is broken.
    Reflection,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { address, error } => {
                write!(f, "cannot listen on {address}: {error}; choose another address")
            }
            Self::Build(error) => write!(f, "{error}"),
            Self::Thread(error) => write!(f, "cannot start a thread for reading rules: {error}"),
            Self::Reflection => f.write_str("the description of the protocol cannot be read"),
        }
    }
}

impl std::error::Error for StartError {}

/// A service that runs. Dropped, it ends at once; [`stop`](Running::stop) lets it finish.
#[derive(Debug)]
pub struct Running {
    service: Arc<Service>,
    retriever: Retriever,
    health: HealthReporter,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    linger: Duration,
    grace: Duration,
    /// Where HTTP is listened for.
    pub http: SocketAddr,
    /// Where gRPC is listened for.
    pub grpc: SocketAddr,
    /// Where the admin's routes are.
    pub admin: SocketAddr,
}

/// Reads the rules, listens, and returns when requests are answered. `observe` is told what comes of each
/// reading of the rules. Bad rules do not keep the service from starting: it is unhealthy, and answers
/// that there are no rules, until there are.
///
/// # Errors
/// See [`StartError`].
pub async fn start(
    options: Options,
    observe: impl FnMut(&Refresh) + Send + 'static,
) -> Result<Running, StartError> {
    let [http, grpc, admin] =
        [bind(options.http).await?, bind(options.grpc).await?, bind(options.admin).await?];
    let cache = Arc::new(RuleCache::with_clock(options.settings, options.clock));
    let maker = DecisionMaker::new(Arc::clone(&cache)).map_err(StartError::Build)?;
    let service = Arc::new(Service::new(maker, options.answers, options.metrics_names));
    let (health, health_service) = tonic_health::server::health_reporter();
    let source = FileSource::new(options.rules);
    let observe = with_health(observe, &service, &health);
    let retriever =
        Retriever::start(source, cache, options.timing, observe).map_err(StartError::Thread)?;
    report(&health, service.is_healthy()).await;
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let reflection_v1 = reflection().build_v1().map_err(|_| StartError::Reflection)?;
    let reflection_alpha = reflection().build_v1alpha().map_err(|_| StartError::Reflection)?;
    let rls = RateLimitServiceServer::new(Rls(Arc::clone(&service)))
        .max_decoding_message_size(MOST_MESSAGE_BYTES);
    let (stop, stopped) = watch::channel(false);
    let addresses = [&http, &grpc, &admin].map(|(_, address)| *address);
    let router = Server::builder()
        .max_concurrent_streams(MOST_STREAMS)
        .http2_max_pending_accept_reset_streams(Some(MOST_PENDING_RESETS))
        .http2_keepalive_interval(Some(Duration::from_secs(60)))
        .tcp_nodelay(true)
        .add_service(rls)
        .add_service(health_service)
        .add_service(reflection_v1)
        .add_service(reflection_alpha);
    let mut tasks = JoinSet::new();
    tasks.spawn(page::watch(Arc::clone(&service), stopped.clone()));
    let mut ends = stopped.clone();
    tasks.spawn(async move {
        let ended = async move { drop(ends.wait_for(|stopped| *stopped).await) };
        let incoming = TcpIncoming::from(grpc.0).with_nodelay(Some(true));
        // An error here would be the listener's own; the process is told by its health.
        let _ = router.serve_with_incoming_shutdown(incoming, ended).await;
    });
    for ((listener, _), routes) in [
        (http, http::routes(Arc::clone(&service))),
        (admin, http::admin_routes(Arc::clone(&service))),
    ] {
        tasks.spawn(http::listen(listener, routes, stopped.clone(), options.grace));
    }
    let (linger, grace, [http, grpc, admin]) = (options.linger, options.grace, addresses);
    Ok(Running { service, retriever, health, stop, tasks, linger, grace, http, grpc, admin })
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let refused = |error| StartError::Listen { address, error };
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

/// The health check of gRPC has to be told; that of HTTP asks.
fn with_health(
    mut observe: impl FnMut(&Refresh) + Send + 'static,
    service: &Arc<Service>,
    health: &HealthReporter,
) -> impl FnMut(&Refresh) + Send + 'static {
    let (service, health) = (Arc::clone(service), health.clone());
    let runtime = tokio::runtime::Handle::current();
    move |refresh| {
        let (service, health) = (Arc::clone(&service), health.clone());
        runtime.spawn(async move { report(&health, service.is_healthy()).await });
        observe(refresh);
    }
}

async fn report(health: &HealthReporter, serving: bool) {
    use tonic_health::ServingStatus::{NotServing, Serving};
    let status = if serving { Serving } else { NotServing };
    for name in ["", HEALTH_NAME] {
        health.set_service_status(name, status).await;
    }
}

impl Running {
    /// Tells it to read the rules again: on SIGHUP.
    #[must_use]
    pub fn changed(&self) -> Changed {
        self.retriever.changed()
    }

    /// Fails its health checks, lingers as the options say, takes no more connections, answers what has
    /// begun, for at most the grace of the options, and ends.
    pub async fn stop(mut self) {
        self.service.drain();
        report(&self.health, false).await;
        tokio::time::sleep(self.linger).await;
        // Nobody listens any more: all have ended by themselves.
        let _ = self.stop.send(true);
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(self.grace, all).await;
        self.tasks.abort_all();
    }
}
