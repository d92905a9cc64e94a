//! Follows a control plane over one stream at a time. When a stream breaks, another is opened after a while.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tollgate_rules::Changed;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Status};

use super::address::{XdsRules, XdsTls};
use super::answer::{Asker, RulesOffer, node};
use super::shelf::{OfferOutcome, Shelf};
use crate::backoff::Backoff;
use crate::protocol::discovery::DiscoveryResponse;
use crate::protocol::discovery::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;

/// The maximum time for connecting.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time without messages after which a stream is pinged, and the time within which the answer must come. A control
/// plane that vanishes is noticed after the sum of both.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));

/// Follows the control plane. Never ends.
pub(super) async fn follow(
    rules: XdsRules,
    shelf: Arc<Shelf>,
    changed: Changed,
    outcomes: watch::Receiver<OfferOutcome>,
) {
    let mut backoff = Backoff::new(rules.backoff_initial, rules.backoff_max, rules.backoff_random);
    let asker = Asker { node: node(&rules), version: String::new() };
    let mut follower = PlaneFollower { rules, shelf, changed, outcomes, asker, unread: None };
    loop {
        let (answered, reason) = match follower.session().await {
            Ok(answered) => (answered, "the control plane has ended the stream".to_owned()),
            Err((answered, reason)) => (answered, reason),
        };
        if answered {
            backoff.reset();
        }
        let wait = backoff.next();
        tracing::warn!("{}: {reason}; asked again in {wait:.1?}", follower.rules);
        follower.shelf.out(reason);
        tokio::time::sleep(wait).await;
    }
}

struct PlaneFollower {
    rules: XdsRules,
    shelf: Arc<Shelf>,
    changed: Changed,
    outcomes: watch::Receiver<OfferOutcome>,
    asker: Asker,
    /// The reason why the last response could not be read at all. Such a response breaks the stream, so the first
    /// request of the next stream reports the reason.
    unread: Option<String>,
}

impl PlaneFollower {
    /// Follows one stream to its end. Returns whether there was a response, and the reason if the stream broke.
    async fn session(&mut self) -> Result<bool, (bool, String)> {
        let failed = |reason| (false, reason);
        let channel = self.connect().await.map_err(failed)?;
        let mut client = AggregatedDiscoveryServiceClient::new(channel)
            .max_decoding_message_size(self.rules.message_bytes());
        // The channel holds one answer: if the control plane does not read it, no further answers are made.
        let (answers, requests) = mpsc::channel(1);
        let first = self.asker.first(self.unread.take());
        answers.send(first).await.map_err(|_| failed("the stream has ended".to_owned()))?;
        let stream = client.stream_aggregated_resources(ReceiverStream::new(requests)).await;
        let mut responses = stream.map_err(|status| failed(self.broken(&status)))?.into_inner();
        let mut answered = false;
        loop {
            match responses.message().await {
                Ok(Some(response)) => {
                    answered = true;
                    let answer = self.answer(response).await;
                    if answers.send(answer).await.is_err() {
                        return Ok(answered);
                    }
                }
                Ok(None) => return Ok(answered),
                Err(status) => return Err((answered, self.broken(&status))),
            }
        }
    }

    async fn connect(&self) -> Result<Channel, String> {
        let scheme = if self.rules.tls.is_some() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{}", self.rules.host));
        let mut endpoint = endpoint
            .map_err(|error| error.to_string())?
            .connect_timeout(PATIENCE)
            .http2_keep_alive_interval(KEEPALIVE.0)
            .keep_alive_timeout(KEEPALIVE.1)
            .keep_alive_while_idle(true);
        if let Some(tls) = &self.rules.tls {
            let tls = config(tls).await?;
            endpoint = endpoint.tls_config(tls).map_err(|error| whole(&error))?;
        }
        endpoint.connect().await.map_err(|error| whole(&error))
    }

    /// Returns the reason why a stream is broken. If a message was too large or damaged, the first request of the next
    /// stream says so.
    fn broken(&mut self, status: &Status) -> String {
        let reason = format!("{:?}: {}", status.code(), status.message());
        if matches!(status.code(), Code::OutOfRange | Code::Internal) {
            self.unread = Some(format!("the last response could not be read: {reason}"));
        }
        reason
    }

    /// Passes a response on to be loaded, and returns the answer that accepts or refuses it.
    async fn answer(
        &mut self,
        response: DiscoveryResponse,
    ) -> crate::protocol::discovery::DiscoveryRequest {
        let from = self.rules.to_string();
        let refused = match RulesOffer::of(&response, &from) {
            Err(reason) => Some(reason),
            Ok(offer) => self.load(offer).await,
        };
        let version = response.version_info.escape_debug().to_string();
        match refused {
            None => {
                tracing::info!("{from}: version '{version}' accepted");
                self.asker.accept(response)
            }
            Some(reason) => {
                tracing::error!("{from}: version '{version}' refused: {reason}");
                self.asker.refuse(response, reason)
            }
        }
    }

    /// Offers the texts, and waits for the outcome. Returns the reason if they are not in force.
    async fn load(&mut self, offer: RulesOffer) -> Option<String> {
        let number = self.shelf.offer(offer.texts.clone());
        self.changed.notify();
        match self.outcomes.wait_for(|outcome| outcome.offer >= number).await {
            Ok(outcome) if outcome.errors.is_empty() => None,
            Ok(outcome) => Some(offer.reason(&outcome.errors)),
            Err(_) => Some("the service is stopping".to_owned()),
        }
    }
}

/// Reads the files of certificates, on a thread that may block.
async fn config(tls: &XdsTls) -> Result<ClientTlsConfig, String> {
    let read = async |path: &std::path::Path| {
        let file = path.to_owned();
        let read = tokio::task::spawn_blocking(move || std::fs::read(file)).await;
        read.map_err(|error| error.to_string())?
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))
    };
    let mut config = ClientTlsConfig::new();
    config = match &tls.authority {
        Some(path) => config.ca_certificate(Certificate::from_pem(read(path).await?)),
        None => config.with_native_roots(),
    };
    if let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) {
        config = config.identity(Identity::from_pem(read(certificate).await?, read(key).await?));
    }
    Ok(match &tls.name {
        Some(name) => config.domain_name(name),
        None => config,
    })
}

/// The error's text with all its causes, since often only the last cause names the problem.
fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text = format!("{text}: {error}");
        next = error.source();
    }
    text
}
