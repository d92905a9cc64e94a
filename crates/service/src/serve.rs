//! [`start`]: starts listeners and rules, and stops them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate::Clock;
use tollgate_rules::{
    Changed, DecisionMaker, Problem, Refresh, Retriever, RuleCache, RuleError,
    RuleSettings as RulesSettings,
};
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::server::HealthReporter;

use crate::global::{BYTES_OF_A_CLIENT, Global, GlobalLimits};
use crate::grpc;
use crate::http;
use crate::listen::{
    self, BoundSocket, ConnectionAges, ConnectionPlaces, OfListeners, OfPlaces, Rereading, Threads,
    TooManyPlaces,
};
use crate::options::{AnswerParts, Options};
use crate::page;
use crate::quota::{self, SavedQuotas};
use crate::reports::OpenReports;
use crate::resp;
use crate::rules_from::RulesFrom;
use crate::service::Service;
use crate::sockets::Sockets;
use crate::start_error::StartError;
use crate::state::StateKeeper;

/// The service name that health checks of envoyproxy/ratelimit ask for.
const HEALTH_NAME: &str = "ratelimit";

/// A running service. If this is dropped, the service ends at once. [`stop`](Running::stop) lets requests finish first.
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
    /// The address of Redis' protocol, if there is one.
    pub resp: Option<SocketAddr>,
    /// The address of the admin's routes.
    pub admin: SocketAddr,
    /// The address that serves `/metrics` alone, if there is one.
    pub metrics: Option<SocketAddr>,
}

/// The global limits, if there are any, and the cache of rules. The cache refuses rules that the global limits cannot
/// keep.
struct KeptRules {
    shared: Option<GlobalLimits>,
    cache: RuleCache,
}

fn keep_rules(
    settings: &RulesSettings,
    clock: Clock,
    global: Option<&Global>,
) -> Result<KeptRules, StartError> {
    if global.is_some_and(|global| global.envoyproxy.is_some()) && !settings.compat {
        return Err(StartError::NotCompat);
    }
    let own_clients = settings.override_capacity;
    let shared = global.map(|global| GlobalLimits::open(global, own_clients, clock.clone()));
    let shared = shared.transpose()?;
    let more_bytes_per_client = if shared.is_some() { BYTES_OF_A_CLIENT } else { 0 };
    // The clients that are denied most are recorded for the status page on the admin's address.
    let settings = RulesSettings { more_bytes_per_client, worst_clients: true, ..*settings };
    let cache = RuleCache::with_clock(settings, clock);
    let cache = match &shared {
        Some(shared) => cache.vetted(shared.vet()),
        None => cache,
    };
    Ok(KeptRules { shared, cache })
}

/// The cache into which a service with these options loads its rules. It refuses the same rules as the service. It does
/// not ask the store, but needs a tokio runtime if limits are kept in a store.
///
/// # Errors
/// [`StartError::StoreFile`], [`StartError::Store`] or [`StartError::NotCompat`], as from [`start`].
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
    let kept = keep_rules(&options.settings, options.clock, options.global.as_ref())?;
    Ok(Arc::new(kept.cache))
}

/// Reads the rules, listens, and returns as soon as requests are answered. `observe` is called with the result of each
/// reading of the rules. Bad rules do not keep the service from starting. Until good rules are loaded, it is unhealthy,
/// and answers that there are no rules. But the path of rule files must exist, and contain a rule file, unless
/// [`allow_empty`](RulesSettings::allow_empty) is set.
///
/// In a runtime with several threads, this function starts one more thread for each core. Connections of HTTP and
/// Redis' protocol run on these threads.
///
/// # Errors
/// See [`StartError`].
pub async fn start(
    mut options: Options,
    observe: impl FnMut(&Refresh) + Send + 'static,
) -> Result<Running, StartError> {
    if options.state.is_some() && options.global.is_some() {
        return Err(StartError::State);
    }
    // A control plane sends all rules at once, so a missing domain was removed on purpose. With files a domain may also
    // be missing because a file is half written.
    options.settings.allow_empty |= matches!(options.rules, RulesFrom::Xds(_));
    let (linger, grace) = (options.linger, options.grace);
    let places = ConnectionPlaces::new(options.max_connections);
    let places = places.map_err(|TooManyPlaces { most, descriptors }| {
        let asked = options.max_connections.unwrap_or_default();
        StartError::Connections { asked, most, descriptors }
    })?;
    let sockets = Sockets::bind(&options).await?;
    let (http, grpc, admin) = (sockets.http_address, sockets.grpc_address, sockets.admin.address);
    let [resp, metrics] =
        [&sockets.resp, &sockets.metrics].map(|at| at.as_ref().map(|bound| bound.address));
    let KeptRules { shared, cache } =
        keep_rules(&options.settings, options.clock.clone(), options.global.as_ref())?;
    find_files(&options.rules, options.settings.allow_empty)?;
    let RestoredState { state, cache, quotas } = restore(&options, cache).await?;
    let cache = Arc::new(cache);
    let maker = DecisionMaker::new(Arc::clone(&cache)).map_err(StartError::Build)?;
    let (headers, address) = (options.headers.clone(), options.trusted_proxies.client_address());
    let (names, clock) = (options.metrics_names, options.clock.clone());
    let answers =
        AnswerParts { headers: options.answer_headers, metadata: options.answer_metadata };
    let service = Service::new(maker, answers, headers, address, names, clock);
    let mut service = service.kept(shared, state);
    service.healthy_without_rules = options.healthy_without_rules;
    service.metrics.show(OfPlaces(Arc::clone(&places)));
    service.restore_quotas(quotas);
    let (service, reports) = OpenReports::begin(service, &options)?;
    let (health, health_service) = tonic_health::server::health_reporter();
    let observe = with_health(observe, &service, &health);
    let retriever =
        Retriever::start(options.rules.clone().source(), cache, options.timing, observe)
            .map_err(StartError::Thread)?;
    report(&health, service.is_healthy()).await;
    let (stop, stopped) = watch::channel(false);
    let threads = Threads::start().map_err(StartError::Thread)?;
    let shared = OfListeners { threads, places, stopped };
    let mut tasks = JoinSet::new();
    keep_time(&service, &shared.stopped, &mut tasks);
    let certificates = Arc::new(Rereading::default());
    listen(&service, &health_service, &options, sockets, &certificates, &shared, &mut tasks)?;
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
        resp,
        admin,
        metrics,
    })
}

/// The results of reading the state file: the keeper of the file, the cache with the restored state, and the saved
/// quotas.
struct RestoredState {
    state: Option<Arc<StateKeeper>>,
    cache: RuleCache,
    quotas: Option<SavedQuotas>,
}

async fn restore(options: &Options, cache: RuleCache) -> Result<RestoredState, StartError> {
    let Some(path) = options.state.clone() else {
        return Ok(RestoredState { state: None, cache, quotas: None });
    };
    let opened = StateKeeper::open(path, options.state_every, cache).await?;
    let cache = match opened.cache {
        Some(cache) => cache,
        // The thread that reads the file still owns the first cache, so another cache is made.
        None => {
            keep_rules(&options.settings, options.clock.clone(), options.global.as_ref())?.cache
        }
    };
    Ok(RestoredState { state: Some(Arc::new(opened.keeper)), cache, quotas: opened.quotas })
}

/// Starts to accept connections.
fn listen(
    service: &Arc<Service>,
    health: &HealthServer<impl Health>,
    options: &Options,
    sockets: Sockets,
    certificates: &Arc<Rereading>,
    shared: &OfListeners,
    tasks: &mut JoinSet<()>,
) -> Result<(), StartError> {
    let (stopped, grace) = (&shared.stopped, options.grace);
    let reserved = grpc::reserved_router(health.clone());
    let ages = ConnectionAges::around(options.grpc_max_age);
    let routers = ages.all().iter().map(|age| grpc::router(service, health.clone(), *age, stopped));
    let routers = routers.collect::<Result<Vec<_>, _>>()?;
    let grace_of_age = options.grpc_max_age_grace;
    let (incoming, incoming_reserved) =
        listen::incoming(sockets.grpc, ages, grace_of_age, shared, tasks);
    let served = routers.into_iter().zip(incoming).chain([(reserved, incoming_reserved)]);
    for (router, incoming) in served {
        let mut ends = stopped.clone();
        tasks.spawn(async move {
            let ended = async move { drop(ends.wait_for(|stopped| *stopped).await) };
            // Errors of single connections do not end the server, and an error of the listener shows in the health
            // check.
            let _ = router.serve_with_incoming_shutdown(incoming, ended).await;
        });
    }
    let routes = http::routes(service);
    let admin =
        (sockets.admin.socket, http::admin_routes(Arc::clone(service), &options.admin_hosts));
    let of_metrics =
        sockets.metrics.map(|bound| (bound.socket, http::metrics_routes(Arc::clone(service))));
    let public = sockets.http.into_iter().map(|one| (one, routes.clone()));
    for (socket, routes) in public.chain([admin]).chain(of_metrics) {
        tasks.spawn(http::listen(socket, shared.clone(), routes, grace));
    }
    if let Some(BoundSocket { socket, .. }) = sockets.resp {
        let password = options.resp.as_ref().and_then(|options| options.password.clone());
        let service = Arc::clone(service);
        tasks.spawn(resp::listen(socket, shared.clone(), service, password, grace));
    }
    if !sockets.tls.is_empty() {
        let certificates = Arc::clone(certificates);
        tasks.spawn(listen::keep_fresh(sockets.tls, certificates, stopped.clone()));
    }
    Ok(())
}

/// Starts the tasks that run at intervals, independent of requests.
fn keep_time(service: &Arc<Service>, stopped: &watch::Receiver<bool>, tasks: &mut JoinSet<()>) {
    tasks.spawn(page::watch(Arc::clone(service), stopped.clone()));
    tasks.spawn(quota::keep_time(Arc::clone(service), stopped.clone()));
    if let Some(state) = &service.state {
        let cache = Arc::clone(service.cache());
        tasks.spawn(Arc::clone(state).keep(cache, stopped.clone()));
    }
}

/// Refuses a path without rule files, because a service that starts with a wrong path would limit nothing.
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
        // Errors in the contents of files are reported later by the retriever.
        _ => Ok(()),
    }
}

/// Updates the health check of gRPC after each reading of the rules. The health check over HTTP needs no update, since
/// it looks at the service itself.
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
    /// A handle that makes the service read the rules again.
    #[must_use]
    pub fn changed(&self) -> Changed {
        self.retriever.changed()
    }

    /// Makes the service read rules and certificates again, as on SIGHUP, and report the result even if nothing has
    /// changed. The result for the rules is given to `observe`, and the result for the certificates is logged.
    pub fn reload(&self) {
        self.retriever.reload();
        self.certificates.by_operator();
    }

    /// Stops the service. The service fails its health checks for [`linger`](Options::linger). Then it accepts no more
    /// connections, and answers the requests in progress, for at most [`grace`](Options::grace). Then it writes the
    /// [state](Options::state) and gives back its leases in Redis, for at most `grace` each. At last it sends the last
    /// traces, metrics and denials, for at most 2 s. If the state, the leases, or the last traces, metrics and denials
    /// take too long, that is logged.
    pub async fn stop(mut self) {
        self.service.drain();
        report(&self.health, false).await;
        tokio::time::sleep(self.linger).await;
        // Quotas end before the streams of Envoys are closed, because the saved state says which streams were open.
        let quotas = self.service.quotas.end();
        // An error means that all listeners have already ended.
        let _ = self.stop.send(true);
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let _ = timeout(self.grace, all).await;
        self.tasks.abort_all();
        if let Some(state) = &self.service.state {
            state.close(self.service.cache(), quotas, self.grace).await;
        }
        if let Some(shared) = &self.service.shared
            && timeout(self.grace, shared.close()).await.is_err()
        {
            tracing::warn!("leases of limits in Redis are not given back; they end by themselves");
        }
        self.reports.close(self.grace).await;
        // Dropping the retriever waits for its thread, which may be reading from a disk that does not answer. So the
        // wait has a bound. An error means a panic, which was logged.
        let retriever = self.retriever;
        let ended = tokio::task::spawn_blocking(move || drop(retriever));
        let _ = timeout(self.grace, ended).await;
    }
}
