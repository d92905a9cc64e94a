//! [`start`]: starts listeners and rules, and stops them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tollgate::Clock;
use tollgate_rules::{
    Changed, DecisionMaker, Problem, Refresh, Retriever, RuleCache, RuleError,
    Settings as RulesSettings,
};
use tonic::transport::Server;
use tonic::transport::server::Router;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::server::HealthReporter;

use crate::global::{BYTES_OF_A_CLIENT, Global, GlobalError, GlobalLimits};
use crate::host_port::HostPort;
use crate::http;
use crate::listen::{self, Rereading, Socket, Threads, Tls, TlsFiles};
use crate::options::Options;
use crate::page;
use crate::protocol::DESCRIPTORS;
use crate::protocol::quota::rate_limit_quota_service_server::RateLimitQuotaServiceServer;
use crate::protocol::rls::rate_limit_service_server::RateLimitServiceServer;
use crate::quota::{self, Rlqs};
use crate::reports::OpenReports;
use crate::resp;
use crate::rls::Rls;
use crate::rules_from::RulesFrom;
use crate::service::Service;
use crate::start_error::StartError;
use crate::state::StateKeeper;

/// The maximum size of a message: the largest request that rules accept has 1 MiB of keys and values.
const MAX_MESSAGE_BYTES: usize = 2 << 20;

/// The maximum number of streams of a connection: Envoy has one connection per worker thread, with hundreds of
/// requests.
const MAX_STREAMS: u32 = 1024;

/// Streams that a client opens and resets at once: a few are normal, more are an attack.
const MAX_PENDING_RESETS: usize = 20;

/// The service name of envoyproxy/ratelimit's health check.
const HEALTH_NAME: &str = "ratelimit";

/// A running service. If dropped, it ends at once; [`stop`](Running::stop) lets requests finish.
#[derive(Debug)]
pub struct Running {
    service: Arc<Service>,
    retriever: Retriever,
    health: HealthReporter,
    certificates: Arc<Rereading>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    reports: OpenReports,
    linger: Duration,
    grace: Duration,
    /// The address of HTTP.
    pub http: SocketAddr,
    /// The address of gRPC.
    pub grpc: SocketAddr,
    /// The address of Redis' protocol, if it is spoken.
    pub resp: Option<SocketAddr>,
    /// The address of the admin's routes.
    pub admin: SocketAddr,
}

/// The global limits, and the cache of rules, which refuses those that global limits cannot take.
fn keep_rules(
    settings: &RulesSettings,
    clock: Clock,
    global: Option<&Global>,
) -> Result<(Option<GlobalLimits>, RuleCache), StartError> {
    let envoyproxy_stems = global.is_some_and(|global| global.envoyproxy.is_some());
    if envoyproxy_stems && !settings.compat {
        return Err(StartError::Global(GlobalError::NotCompat));
    }
    let keeper = global.map(|global| GlobalLimits::open(global, clock.clone()));
    let keeper = keeper.transpose().map_err(StartError::Global)?;
    let more_bytes_per_client = if keeper.is_some() { BYTES_OF_A_CLIENT } else { 0 };
    // Worst clients are for the status page on the admin's address.
    let settings =
        RulesSettings { more_bytes_per_client, envoyproxy_stems, worst_clients: true, ..*settings };
    let cache = RuleCache::with_clock(settings, clock);
    let cache = match &keeper {
        Some(keeper) => cache.vetted(keeper.vet()),
        None => cache,
    };
    Ok((keeper, cache))
}

/// The cache into which a service with these options loads its rules: it refuses the rules that the service refuses.
/// No store is asked for that, but a tokio runtime must be there if limits are kept in one.
///
/// # Errors
/// [`StartError::Global`], as from [`start`].
///
/// ```
/// use tollgate_rules::RuleText;
/// use tollgate_service::{Global, Options, rule_cache};
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # let _entered = runtime.enter();
/// let global = Some(Global::new("redis://127.0.0.1/"));
/// let cache = rule_cache(Options { global, ..Options::new("rules") })?;
/// let text = "{domain: shop, descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 5, \
///             algorithm: sliding-log}}]}";
/// assert!(cache.load(&[RuleText::new("shop.yaml", text)]).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn rule_cache(options: Options) -> Result<Arc<RuleCache>, StartError> {
    let (_, cache) = keep_rules(&options.settings, options.clock, options.global.as_ref())?;
    Ok(Arc::new(cache))
}

/// Reads the rules, listens, and returns when requests are answered. `observe` is called with the result of each
/// reading of the rules. Bad rules do not keep the service from starting: it is unhealthy, and answers that there are
/// no rules, until good ones are loaded. But the path of rule files must exist, and contain one, unless
/// [`allow_empty`](RulesSettings::allow_empty) is set.
///
/// In a runtime with several threads it starts one more for each core, on which connections of HTTP and Redis' protocol
/// stay.
///
/// # Errors
/// See [`StartError`].
pub async fn start(
    options: Options,
    observe: impl FnMut(&Refresh) + Send + 'static,
) -> Result<Running, StartError> {
    if options.state.is_some() && options.global.is_some() {
        return Err(StartError::State);
    }
    let (linger, grace, max_life) = (options.linger, options.grace, options.grpc_max_life());
    let sockets = Sockets::bind(&options).await?;
    let (keeper, mut cache) =
        keep_rules(&options.settings, options.clock.clone(), options.global.as_ref())?;
    find_files(&options.rules, options.settings.allow_empty)?;
    let state = options.state.clone().map(|file| Arc::new(StateKeeper::open(file, &mut cache)));
    let cache = Arc::new(cache);
    let maker = DecisionMaker::new(Arc::clone(&cache)).map_err(StartError::Build)?;
    let told = (options.answers, options.headers.clone(), options.trusted_proxies.client_address());
    let (names, clock) = (options.metrics_names, options.clock.clone());
    let service = Service::new(maker, told, names, keeper, state, clock);
    let (service, reports) = OpenReports::begin(service, &options)?;
    let (health, health_service) = tonic_health::server::health_reporter();
    let observe = with_health(observe, &service, &health);
    let retriever = Retriever::start(options.rules.source(), cache, options.timing, observe)
        .map_err(StartError::Thread)?;
    report(&health, service.is_healthy()).await;
    let (stop, stopped) = watch::channel(false);
    let router = router(&service, health_service, options.grpc_max_age, &stopped)?;
    let mut tasks = JoinSet::new();
    keep_time(&service, &stopped, &mut tasks);
    let incoming = listen::incoming(sockets.grpc, max_life, &stopped, &mut tasks);
    let mut ends = stopped.clone();
    tasks.spawn(async move {
        let ended = async move { drop(ends.wait_for(|stopped| *stopped).await) };
        // An error here would be the listener's own, and the health check reports it.
        let _ = router.serve_with_incoming_shutdown(incoming, ended).await;
    });
    let threads = Threads::start().map_err(StartError::Thread)?;
    let routes = http::routes(Arc::clone(&service));
    let admin = (sockets.admin, http::admin_routes(Arc::clone(&service), &options.admin_hosts));
    for (socket, routes) in sockets.http.into_iter().map(|one| (one, routes.clone())).chain([admin])
    {
        tasks.spawn(http::listen(socket, threads.clone(), routes, stopped.clone(), grace));
    }
    let resp_address = sockets.resp.as_ref().map(|(_, address)| *address);
    if let Some((socket, _)) = sockets.resp {
        let password = options.resp.and_then(|options| options.password);
        let shared = (Arc::clone(&service), password);
        tasks.spawn(resp::listen(socket, threads, shared, stopped.clone(), grace));
    }
    let certificates = Arc::new(Rereading::default());
    if !sockets.tls.is_empty() {
        tasks.spawn(listen::keep_fresh(sockets.tls, Arc::clone(&certificates), stopped));
    }
    let [http, grpc, admin] = sockets.addresses;
    Ok(Running {
        reports,
        service,
        retriever,
        health,
        certificates,
        stop,
        tasks,
        linger,
        grace,
        http,
        grpc,
        resp: resp_address,
        admin,
    })
}

/// What happens at its time, whatever is asked.
fn keep_time(service: &Arc<Service>, stopped: &watch::Receiver<bool>, tasks: &mut JoinSet<()>) {
    tasks.spawn(page::watch(Arc::clone(service), stopped.clone()));
    tasks.spawn(quota::keep_time(Arc::clone(service), stopped.clone()));
    if let Some(state) = &service.state {
        let cache = Arc::clone(service.cache());
        tasks.spawn(Arc::clone(state).keep(cache, stopped.clone()));
    }
}

/// What is answered over gRPC.
fn router(
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
    let server = Server::builder();
    // Its own grace would close connections at the end of both times without telling them before: see `Io`.
    let server = match max_age {
        Some(age) => server.max_connection_age(age),
        None => server,
    };
    Ok(server
        .max_concurrent_streams(MAX_STREAMS)
        .http2_max_pending_accept_reset_streams(Some(MAX_PENDING_RESETS))
        .http2_keepalive_interval(Some(Duration::from_secs(60)))
        .add_service(rls)
        .add_service(rlqs)
        .add_service(health)
        .add_service(reflection_v1)
        .add_service(reflection_alpha))
}

/// A service that starts with a wrong path would limit nothing.
fn find_files(rules: &RulesFrom, allow_empty: bool) -> Result<(), StartError> {
    let RulesFrom::Files(path) = rules else { return Ok(()) };
    match rules.read() {
        Err(error @ RuleError { problem: Problem::Unreadable { .. }, .. }) => {
            Err(StartError::Rules(error))
        }
        Ok(texts) if texts.is_empty() && !allow_empty => {
            let file = path.display().to_string();
            Err(StartError::Rules(RuleError { file, at: None, problem: Problem::NoFiles }))
        }
        // Their content is read, and reported, apart from all requests.
        _ => Ok(()),
    }
}

/// All listening sockets.
struct Sockets {
    http: Vec<Socket>,
    grpc: Vec<Socket>,
    resp: Option<(Socket, SocketAddr)>,
    admin: Socket,
    /// The addresses of HTTP, gRPC and the admin.
    addresses: [SocketAddr; 3],
    tls: Vec<Arc<Tls>>,
}

impl Sockets {
    async fn bind(options: &Options) -> Result<Self, StartError> {
        // The protocols to negotiate: HTTP/1.1 for HTTP, and HTTP/2 for gRPC.
        let http_tls = load(options.http_tls.as_ref(), b"http/1.1")?;
        let grpc_tls = load(options.grpc_tls.as_ref(), b"h2")?;
        let (http, http_address) = bind(&options.http, http_tls.clone()).await?;
        let (grpc, grpc_address) = bind(&options.grpc, grpc_tls.clone()).await?;
        let (admin, admin_address) = bind(&options.admin, None).await?;
        let resp = match &options.resp {
            Some(options) => Some(bind(&options.address, None).await?),
            None => None,
        };
        let with = |socket, path: &Option<PathBuf>| -> Result<Vec<Socket>, StartError> {
            let unix = path.as_deref().map(bind_unix).transpose()?;
            Ok([Some(socket), unix].into_iter().flatten().collect())
        };
        Ok(Self {
            http: with(http, &options.http_socket)?,
            grpc: with(grpc, &options.grpc_socket)?,
            resp,
            admin,
            addresses: [http_address, grpc_address, admin_address],
            tls: [http_tls, grpc_tls].into_iter().flatten().collect(),
        })
    }
}

fn load(files: Option<&TlsFiles>, protocol: &'static [u8]) -> Result<Option<Arc<Tls>>, StartError> {
    let load = |files: &TlsFiles| Tls::load(files.clone(), protocol).map(Arc::new);
    files.map(load).transpose().map_err(StartError::Tls)
}

/// Listens on the first address of a name that can be had.
async fn bind(at: &HostPort, tls: Option<Arc<Tls>>) -> Result<(Socket, SocketAddr), StartError> {
    let unknown = |error| StartError::Resolve { address: at.clone(), error };
    let all = at.addresses().await.map_err(unknown)?;
    let mut refused = None;
    for address in &all {
        match Socket::tcp(*address, tls.clone()).await {
            Ok(bound) => {
                if all.len() > 1 {
                    tracing::info!("{at} has {} addresses; listening on {}", all.len(), bound.1);
                }
                return Ok(bound);
            }
            Err(error) => refused = refused.or(Some((*address, error))),
        }
    }
    // There is at least one.
    let (address, error) = refused.ok_or_else(|| unknown(std::io::ErrorKind::NotFound.into()))?;
    Err(StartError::Listen { address, error })
}

fn bind_unix(path: &Path) -> Result<Socket, StartError> {
    Socket::unix(path).map_err(|error| StartError::Socket { path: path.to_owned(), error })
}

/// Updates the health check of gRPC, which does not poll; that of HTTP reads the state itself.
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
    /// A handle that makes it read the rules again.
    #[must_use]
    pub fn changed(&self) -> Changed {
        self.retriever.changed()
    }

    /// Makes it read rules and certificates again, and say what became of them even if they are unchanged: on SIGHUP.
    /// Of rules `observe` is told, of certificates the log.
    pub fn reload(&self) {
        self.retriever.reload();
        self.certificates.by_operator();
    }

    /// Fails its health checks, waits as long as [`linger`](Options::linger), accepts no more connections, answers
    /// requests in progress, for at most [`grace`](Options::grace), writes the
    /// [state](Options::state), sends what is left of traces and metrics, and ends.
    pub async fn stop(mut self) {
        self.service.drain();
        report(&self.health, false).await;
        tokio::time::sleep(self.linger).await;
        // An error means that all listeners have ended by themselves.
        let _ = self.stop.send(true);
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(self.grace, all).await;
        self.tasks.abort_all();
        if let Some(state) = &self.service.state {
            state.close(self.service.cache()).await;
        }
        if let Some(keeper) = &self.service.keeper {
            let _ = tokio::time::timeout(self.grace, keeper.close()).await;
        }
        self.reports.close(self.grace).await;
    }
}
