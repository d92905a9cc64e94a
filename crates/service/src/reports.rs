//! [`OpenReports`]: the reports for operators about requests, namely the log of denials, traces and StatsD. Each of the
//! three is off unless an option turns it on.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::observe::{DenialLog, OfDenials};
use crate::options::Options;
use crate::service::Service;
use crate::start_error::StartError;
use crate::statsd::StatsdSender;
use crate::traces::{LastSpans, Tracer};

/// The time for the last reports when the service stops. A round trip to a collector takes milliseconds, and a
/// collector that hangs must not keep the process from ending.
const LAST_WITHIN: Duration = Duration::from_secs(2);

/// The senders of reports. They stop after all other parts of the service, so that they also report the last request.
#[derive(Debug)]
pub(crate) struct OpenReports {
    denials: Option<Arc<DenialLog>>,
    spans: Option<LastSpans>,
    stop: watch::Sender<bool>,
    /// The task that sends to StatsD, if there is one. It ends when this set is dropped.
    statsd: JoinSet<()>,
}

impl OpenReports {
    /// Sets up the service's observers according to the options, and starts the senders. Needs a runtime.
    pub(crate) fn begin(
        mut service: Service,
        options: &Options,
    ) -> Result<(Arc<Service>, Self), StartError> {
        if let Some(log) = &options.log {
            service.metrics.show(log.metrics());
        }
        let mut denials = None;
        if let Some(policy) = options.log_denials {
            let log = DenialLog::open(policy, options.clock.clone()).map_err(StartError::Thread)?;
            let log = Arc::new(log);
            service.metrics.show(OfDenials(Arc::clone(&log)));
            service.observers.denials = Some(Arc::clone(&log));
            denials = Some(log);
        }
        let mut spans = None;
        if let Some(traces) = &options.traces {
            let (tracer, last, counts) = Tracer::open(traces)?;
            service.metrics.show(counts);
            service.observers.tracer = Some(tracer);
            spans = Some(last);
        }
        let sender = options.statsd.as_ref().map(|statsd| {
            let (sender, counts) = StatsdSender::new(statsd, options.metrics_names);
            service.metrics.show(counts);
            sender
        });
        let service = Arc::new(service);
        let ((stop, stopped), mut statsd) = (watch::channel(false), JoinSet::new());
        if let Some(sender) = sender {
            let service = Arc::clone(&service);
            statsd.spawn(sender.run(move || service.metrics.for_statsd(), stopped));
        }
        Ok((service, Self { denials, spans, stop, statsd }))
    }

    /// Sends the last reports. Takes at most `grace`, and at most two seconds.
    pub(crate) async fn close(mut self, grace: Duration) {
        let grace = grace.min(LAST_WITHIN);
        // An error means that there is no sender.
        let _ = self.stop.send(true);
        let spans = async {
            match self.spans.take() {
                Some(spans) => spans.send(grace).await,
                None => 0,
            }
        };
        let metrics = async {
            let ended = async { while self.statsd.join_next().await.is_some() {} };
            timeout(grace, ended).await.is_ok()
        };
        let denials = async {
            match &self.denials {
                Some(denials) => timeout(grace, denials.flush()).await.is_ok(),
                None => true,
            }
        };
        let (spans, metrics, denials) = tokio::join!(spans, metrics, denials);
        if spans > 0 {
            tracing::warn!(
                "traces: what was to be sent is given up after {grace:?}, {spans} in all"
            );
        }
        for (what, is_sent) in [("metrics for StatsD", metrics), ("denials", denials)] {
            if !is_sent {
                tracing::warn!("{what}: what was to be sent is given up after {grace:?}");
            }
        }
    }
}
