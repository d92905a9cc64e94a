//! [`Service`]: the state that all listeners share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate::Clock;
use tollgate_http::headers::Headers;
use tollgate_http::keys::ClientAddress;
use tollgate_rules::{DecisionMaker, RuleCache};

use crate::clock_watch::{ClockWatch, OfClock};
use crate::global::GlobalLimits;
use crate::history::History;
use crate::metrics::{Metrics, OfRespClients, RespClients};
use crate::metrics_names::MetricsNames;
use crate::observe::{Observers, ServiceCall};
use crate::options::AnswerParts;
use crate::protocol::rls::{RateLimitRequest, RateLimitResponse};
use crate::quota::{Quotas, SavedQuotas};
use crate::state::{OfState, StateKeeper};
use crate::tokens::Tokens;
use crate::wire::{self, RequestRefusal};

/// The decision maker, its metrics, and whether the service is stopping.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) maker: DecisionMaker,
    pub(crate) metrics: Metrics,
    pub(crate) observers: Observers,
    pub(crate) history: History,
    /// The limits in Redis, if limits are kept there.
    pub(crate) shared: Option<GlobalLimits>,
    /// The keeper of the state file, if there is one.
    pub(crate) state: Option<Arc<StateKeeper>>,
    /// The clients of Redis' protocol.
    pub(crate) clients: Arc<RespClients>,
    /// The quotas that Envoys are assigned.
    pub(crate) quotas: Quotas,
    /// Whether health checks succeed before rules are loaded.
    pub(crate) healthy_without_rules: bool,
    answers: AnswerParts,
    /// The headers of answers to the `/v1` routes.
    pub(crate) headers: Headers,
    /// Finds the client's address when a proxy asks on its behalf.
    pub(crate) client_address: ClientAddress,
    /// The charges of reservations, which later requests may cancel or refund.
    pub(crate) tokens: Tokens,
    clock: ClockWatch,
    draining: AtomicBool,
    /// Whether it was already logged that hits had found no series of their own.
    series_told: AtomicBool,
}

impl Service {
    pub(crate) fn new(
        maker: DecisionMaker,
        answers: AnswerParts,
        headers: Headers,
        client_address: ClientAddress,
        names: MetricsNames,
        clock: Clock,
    ) -> Self {
        let mut metrics = Metrics::new(Arc::clone(maker.cache()), names);
        metrics.show(OfClock(clock.clone()));
        let quotas = Quotas::new(clock.clone());
        metrics.show(quotas.metrics());
        let clients = Arc::new(RespClients::default());
        metrics.show(OfRespClients(Arc::clone(&clients)));
        let history = History::default();
        let observers = Observers::new(Arc::clone(&metrics.requests));
        let (tokens, draining) = (Tokens::default(), AtomicBool::new(false));
        Self {
            maker,
            metrics,
            observers,
            history,
            shared: None,
            state: None,
            clients,
            quotas,
            healthy_without_rules: false,
            answers,
            headers,
            client_address,
            tokens,
            clock: ClockWatch::new(clock),
            draining,
            series_told: AtomicBool::new(false),
        }
    }

    /// Adds the limits in Redis and the keeper of the state file, if there are any.
    pub(crate) fn kept(
        mut self,
        shared: Option<GlobalLimits>,
        state: Option<Arc<StateKeeper>>,
    ) -> Self {
        if let Some(shared) = &shared {
            self.metrics.show(shared.metrics());
        }
        if let Some(state) = &state {
            self.metrics.show(OfState(Arc::clone(state)));
        }
        Self { shared, state, ..self }
    }

    /// Takes over the assignments that Envoys have from an earlier service, if they were saved.
    pub(crate) fn restore_quotas(&self, saved: Option<SavedQuotas>) {
        let (Some(state), Some(saved)) = (&self.state, saved) else { return };
        match self.quotas.restore(&saved) {
            Ok(buckets) => tracing::info!("quotas restored: {buckets} buckets of Envoys"),
            Err(error) => state.refuse_quotas(&error),
        }
    }

    pub(crate) fn cache(&self) -> &Arc<RuleCache> {
        self.maker.cache()
    }

    pub(crate) async fn decide(
        &self,
        request: &RateLimitRequest,
        call: &mut ServiceCall<'_>,
    ) -> Result<RateLimitResponse, RequestRefusal> {
        match &self.shared {
            None => self.decide_here(request, call),
            Some(shared) => self.decide_by(shared, request, call).await,
        }
    }

    /// Decides by limits in the store. Waits for the store at most until its deadline.
    pub(crate) async fn decide_by(
        &self,
        shared: &GlobalLimits,
        request: &RateLimitRequest,
        call: &mut ServiceCall<'_>,
    ) -> Result<RateLimitResponse, RequestRefusal> {
        let answer = call.store(wire::decide_by(&self.maker, shared, request)).await?;
        call.decided(request, &answer);
        Ok(wire::response(&answer, self.answers))
    }

    /// Decides by limits of this process, without waiting.
    pub(crate) fn decide_here(
        &self,
        request: &RateLimitRequest,
        call: &mut ServiceCall<'_>,
    ) -> Result<RateLimitResponse, RequestRefusal> {
        let answer = wire::decide(&self.maker, request)?;
        call.decided(request, &answer);
        Ok(wire::response(&answer, self.answers))
    }

    /// Logs the domains whose last report of headroom has expired, once for each report.
    pub(crate) fn tell_expired(&self) {
        let Some(rules) = self.cache().rules() else { return };
        for pool in rules.pools().filter(|pool| pool.expire()) {
            tracing::warn!(
                "{}: no headroom was reported in time; nothing is lent until the next report",
                pool.domain().escape_debug()
            );
        }
    }

    /// Logs once that hits have found no series of their own. The rule's author may have believed that the key has few
    /// values.
    pub(crate) fn tell_series(&self) {
        let cache = self.cache();
        let (live, max) = (cache.live_series(), cache.settings().max_series);
        // Relaxed: the flag alone decides which call logs.
        if cache.refused_series() > 0 && !self.series_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "{live} of {max} series for values in metrics; what has no room, or a name of more than 256 bytes, is \
                 counted as other from now on; see --max-series, detailed_metric and value_to_metric"
            );
        }
    }

    /// Logs that the system's clock was set.
    pub(crate) fn tell_clock(&self) {
        self.clock.tell();
    }

    /// Makes the health check fail from now on, so that load balancers send no new requests.
    pub(crate) fn drain(&self) {
        // Relaxed: no other memory is published with the flag, and a health check may see it a moment later.
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether health checks succeed. They do unless the service is stopping, or has no rules and may not be healthy
    /// without rules.
    pub(crate) fn is_healthy(&self) -> bool {
        // Relaxed, for the reason in `drain`.
        !self.draining.load(Ordering::Relaxed)
            && (self.healthy_without_rules || self.cache().rules().is_some())
    }
}

impl AsRef<Observers> for Service {
    fn as_ref(&self) -> &Observers {
        &self.observers
    }
}
