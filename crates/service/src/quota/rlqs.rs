//! Envoy's rate limit quota service over gRPC.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tokio_stream::wrappers::ReceiverStream;
use tollgate_http::keys::PeerAddress;
use tonic::{Request, Response, Status, Streaming};

use super::book::{OpenedStream, QuotaAnswer, Quotas};
use crate::protocol::quota::RateLimitQuotaUsageReports;
use crate::protocol::quota::rate_limit_quota_service_server::RateLimitQuotaService;
use crate::service::Service;

/// Answers `StreamRateLimitQuotas`.
#[derive(Clone, Debug)]
pub(crate) struct Rlqs {
    pub(crate) service: Arc<Service>,
    /// True when the service stops. Streams end then, because Envoy would keep them open for ever.
    pub(crate) stopped: watch::Receiver<bool>,
}

/// Closes a stream when this is dropped, however the stream's task ends.
struct OpenStream<'q> {
    quotas: &'q Quotas,
    id: u64,
}

impl Drop for OpenStream<'_> {
    fn drop(&mut self) {
        self.quotas.close(self.id);
    }
}

/// Tells the quotas each second that time has passed, until the service stops.
pub(crate) async fn keep_time(service: Arc<Service>, mut stopped: watch::Receiver<bool>) {
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = seconds.tick() => service.quotas.tick(),
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
    }
}

#[tonic::async_trait]
impl RateLimitQuotaService for Rlqs {
    type StreamRateLimitQuotasStream = ReceiverStream<QuotaAnswer>;

    async fn stream_rate_limit_quotas(
        &self,
        request: Request<Streaming<RateLimitQuotaUsageReports>>,
    ) -> Result<Response<Self::StreamRateLimitQuotasStream>, Status> {
        if self.service.shared.is_some() {
            // Several services that share a Redis would each give out the whole limit.
            return Err(Status::failed_precondition(
                "quotas are not given out while limits are kept in Redis; let Envoys have them from one service \
                 without --redis, or ask for each request (ShouldRateLimit)",
            ));
        }
        let peer = request.extensions().get().map(|PeerAddress(address)| address.to_canonical());
        // The default is never used, because every connection has an address.
        let address = peer.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let OpenedStream { id, answers } = self.service.quotas.open(address)?;
        let (service, stopped) = (Arc::clone(&self.service), self.stopped.clone());
        tokio::spawn(listen(service, id, request.into_inner(), stopped));
        Ok(Response::new(ReceiverStream::new(answers)))
    }
}

async fn listen(
    service: Arc<Service>,
    id: u64,
    mut reports: Streaming<RateLimitQuotaUsageReports>,
    mut stopped: watch::Receiver<bool>,
) {
    let open = OpenStream { quotas: &service.quotas, id };
    loop {
        let report = tokio::select! {
            report = reports.message() => report,
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        // An error means that Envoy has broken the stream off without closing it.
        let Ok(Some(report)) = report else { return };
        if let Err(status) = open.quotas.report(&service.maker, id, &report) {
            tracing::warn!("a quota stream is refused: {}", status.message());
            open.quotas.refuse(id, status);
            return;
        }
    }
}
